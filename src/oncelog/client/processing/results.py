"""What a transform gives, as records to be written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from oncelog.client import arguments
from oncelog.client.interceptors import ProducerRecord
from oncelog.client.producer.arguments import as_bytes, header_pairs, of_topic
from oncelog.client.records import ConsumerRecord
from oncelog.errors import InvalidArgument
from oncelog.lazy_dataclass import dataclass

RECORD_OVERHEAD_BYTES = 70
TAKES = "give None, bytes, (key, value), a ProducerRecord, or a list or generator of these"

Coder = Callable[[Any], Any] | None


class TooMuch(InvalidArgument):
    """A transform gave more for one call than a transaction takes."""


@dataclass(frozen=True, slots=True)
class Results:
    """How results are read. `into`: where records go that name no topic."""

    into: str | None
    transaction_bytes_max: int
    key_serializer: Coder = None
    value_serializer: Coder = None

    def collector(self, source: ConsumerRecord | None) -> Collector:
        """For one call of the transform; `source` is the record that it was for, None for several."""
        return Collector(self, source)


class Collector:
    """What one call gave, so far."""

    __slots__ = ("_results", "_source", "records", "size_bytes")

    def __init__(self, results: Results, source: ConsumerRecord | None) -> None:
        self._results, self._source = results, source
        self.records: list[ProducerRecord] = []
        self.size_bytes = 0

    def take(self, result: Any) -> None:
        """Nothing, one, or several of them that can be gone through at once. Raises InvalidArgument."""
        if isinstance(result, list | Iterator):
            for each in result:
                self._take_one(each)
        else:
            self._take_one(result)

    async def take_later(self, result: AsyncIterator[Any]) -> None:
        """What an async generator gives."""
        async for each in result:
            self._take_one(each)

    def _take_one(self, result: Any) -> None:
        if result is None:
            return
        record = self._record_of(result)
        self.records.append(record)
        self.size_bytes += len(record.key or b"") + len(record.value or b"") + RECORD_OVERHEAD_BYTES
        if self.size_bytes > self._results.transaction_bytes_max:
            raise TooMuch(
                f"the transform gave more than transaction_bytes_max={self._results.transaction_bytes_max} in one call"
            )

    def _record_of(self, result: Any) -> ProducerRecord:
        results, source = self._results, self._source
        if isinstance(result, ProducerRecord):
            given = result
        elif isinstance(result, tuple):
            if len(result) != 2:
                raise InvalidArgument(f"a transform gave a tuple of {len(result)}: {TAKES}")
            given = ProducerRecord("", result[1], result[0])
        elif results.value_serializer is not None or isinstance(result, bytes | bytearray | memoryview):
            key = None if source is None else source.key
            given = ProducerRecord("", result, key)
        else:
            raise InvalidArgument(f"a transform gave {arguments.shown(result)}: {TAKES}; or set value_serializer")
        topic = given.topic or results.into
        if not topic:
            raise InvalidArgument("a transform gave a record without a topic, and `into` names none")
        is_sources_key = source is not None and given.key is source.key and given is not result
        return ProducerRecord(
            arguments.text("topic", topic),
            as_bytes("value", given.value, of_topic(results.value_serializer, topic)),
            given.key
            if is_sources_key and _is_bytes(given.key)
            else as_bytes("key", given.key, of_topic(results.key_serializer, topic)),
            header_pairs(given.headers) if given.headers is not None else None,
            given.partition,
            given.timestamp_ms if given.timestamp_ms is not None or source is None else _timestamp(source),
        )


def _is_bytes(key: Any) -> bool:
    return key is None or isinstance(key, bytes)


def _timestamp(source: ConsumerRecord) -> int | None:
    """What comes of a record happened when the record did, as in Kafka Streams."""
    return source.timestamp_ms if source.timestamp_ms >= 0 else None
