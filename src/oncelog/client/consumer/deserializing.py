"""A consumer's deserializers: bytes become what the application works with, and what cannot be read is said exactly."""

from __future__ import annotations

import pickle
import struct
import sys
import zlib
from collections.abc import Callable
from typing import Any, TypeVar

from oncelog.client.config import ConsumerConfig, ShareConsumerConfig
from oncelog.client.records import ConsumerRecord, ShareRecord
from oncelog.errors import RecordDeserialization
from oncelog.types import TopicPartition

Decode = Callable[[ConsumerRecord], ConsumerRecord]
R = TypeVar("R", ConsumerRecord, ShareRecord)
UNREADABLE: tuple[type[Exception], ...] = (
    ValueError,
    TypeError,
    KeyError,
    ArithmeticError,
    AttributeError,
    IndexError,
    EOFError,
    RecursionError,
    struct.error,
    zlib.error,
    pickle.UnpicklingError,
)
"""What says that bytes are none of a format. Anything else may pass (a registry is down) and says nothing of the record."""

OF_A_SHARE = (
    "it is given to somebody again, as often as share.delivery.count.limit of the group says; to reject it, read bytes and "
    'decode them yourself, with share_acknowledgement_mode="explicit"'
)


def decoder_of(config: ConsumerConfig | ShareConsumerConfig) -> Callable[[R], R] | None:
    """What each record goes through; None where nothing is configured."""
    key_deserializer, value_deserializer = config.key_deserializer, config.value_deserializer
    if key_deserializer is None and value_deserializer is None:
        return None

    def decode(record: R) -> R:
        key = record.key if key_deserializer is None else _read("key", key_deserializer, record.key, record)
        value = record.value if value_deserializer is None else _read("value", value_deserializer, record.value, record)
        return record._replace(key=key, value=value)

    return decode


def _read(
    what: str, deserializer: Callable[[Any], Any], content: bytes | None, record: ConsumerRecord | ShareRecord
) -> Any:
    if content is None:
        return None
    where = TopicPartition(record.topic, record.partition)
    pass_over = OF_A_SHARE if isinstance(record, ShareRecord) else f"seek to {record.offset + 1} to pass over it"
    try:
        of_record = getattr(deserializer, "from_record", None)  # one that looks at headers, as `oncelog.schema` does
        return deserializer(content) if of_record is None else of_record(record)
    except BaseException as error:
        if not isinstance(error, (*UNREADABLE, *_of_protobuf())):
            note = f"raised by {what}_deserializer for {where} at offset {record.offset}; {pass_over}"
            if note not in getattr(error, "__notes__", ()):  # one that is raised again and again
                error.add_note(note)
            raise
        raise RecordDeserialization(
            f"{where} at offset {record.offset}: the {what} cannot be read: {error!r}; {pass_over}",
            where,
            record.offset,
        ) from error


def _of_protobuf() -> tuple[type[Exception], ...]:
    """What `Message.FromString` raises, where somebody has loaded that library."""
    library = sys.modules.get("google.protobuf.message")
    return () if library is None else (library.DecodeError,)
