"""What the records of a segment say: plain records as text, those of the internal topics decoded.

A record that its decoder refuses is shown as it is, with the reason: a dump shows everything and stops at nothing.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Any

from oncelog.cli.durations import moment_text
from oncelog.cli.output import bytes_value, json_text, printable
from oncelog.errors import CorruptBatch, MalformedMessage
from oncelog.types import TopicPartition
from oncelog.wire.control_records import end_txn_marker_from_bytes
from oncelog.wire.log_records import cluster_metadata, consumer_offsets, share_state, transaction_state
from oncelog.wire.log_records.share_state import ShareKey
from oncelog.wire.record import Record
from oncelog.wire.record_batch import RecordBatch

TEXT_LENGTH_MAX = 160
HIDDEN = b"(hidden)"
CONTROL_TYPES = {
    0: "ABORT",
    1: "COMMIT",
    2: "LEADER_CHANGE",
    3: "SNAPSHOT_HEADER",
    4: "SNAPSHOT_FOOTER",
    5: "KRAFT_VERSION",
    6: "KRAFT_VOTERS",
}
Decoder = Callable[[RecordBatch, Record], Any]


def _transaction_state(_: RecordBatch, record: Record) -> Any:
    return transaction_state.record_from_key_value(record.key, record.value)


def _consumer_offsets(batch: RecordBatch, record: Record) -> Any:
    return consumer_offsets.record_from_key_value(
        record.key, record.value, producer_id=batch.producer_id, producer_epoch=batch.producer_epoch
    )


def _share_state(_: RecordBatch, record: Record) -> Any:
    return share_state.record_from_key_value(record.key, record.value)


def _cluster_metadata(_: RecordBatch, record: Record) -> Any:
    decoded = cluster_metadata.record_from_value(record.value or b"")
    if isinstance(decoded, cluster_metadata.ScramCredentialRecord):  # enough to guess the password with
        return decoded.replace(salt=HIDDEN, stored_key=HIDDEN, server_key=HIDDEN)
    return decoded


DECODERS: dict[str, Decoder] = {
    "__transaction_state": _transaction_state,
    "__consumer_offsets": _consumer_offsets,
    "__share_group_state": _share_state,
    "__cluster_metadata": _cluster_metadata,
}


def record_row(batch: RecordBatch, record: Record, topic: str) -> dict[str, Any]:
    """One record as an object."""
    row: dict[str, Any] = {"kind": "record", "offset": record.offset, "timestamp_ms": record.timestamp}
    if batch.is_control:
        return {**row, "kind": "control", **_control(record)}
    decoder = DECODERS.get(topic)
    if decoder is not None:
        try:
            decoded = decoder(batch, record)
        except MalformedMessage as error:
            return {**row, **_raw(record), "not_decoded": str(error)}
        if decoded is not None:
            return {**row, "type": type(decoded).__name__, "content": as_object(decoded)}
        row["not_decoded"] = "a kind of record that this oncelog does not know"
    return {**row, **_raw(record)}


def record_line(row: dict[str, Any]) -> str:
    """The same for a person."""
    head = f"  {row['kind']} {row['offset']}  {moment_text(row['timestamp_ms'])}"
    if row["kind"] == "control":
        ours = row.get("coordinator_epoch")
        return f"{head}  {row['type']}" + (f"  coordinator epoch {ours}" if ours is not None else "")
    if "content" in row:
        content = "  ".join(f"{name}={_short(value)}" for name, value in row["content"].items())
        return f"{head}  {row['type']}  {content}"
    parts = [f"key={_short(row['key'])}", f"value={_short(row['value'])}"]
    if row["headers"]:
        parts.append("headers=" + ",".join(f"{name}:{_short(value)}" for name, value in row["headers"]))
    if "not_decoded" in row:
        parts.append(f"(not decoded: {row['not_decoded']})")
    return f"{head}  {'  '.join(parts)}"


def _control(record: Record) -> dict[str, Any]:
    number = int.from_bytes(record.key[2:4], "big", signed=True) if record.key and len(record.key) >= 4 else -1
    row: dict[str, Any] = {"type": CONTROL_TYPES.get(number, f"UNKNOWN({number})")}
    try:
        marker = end_txn_marker_from_bytes(record.key, record.value)
    except CorruptBatch as error:
        return {**row, "not_decoded": str(error)}
    if marker is not None:
        row["coordinator_epoch"] = marker.coordinator_epoch
    return row


def _raw(record: Record) -> dict[str, Any]:
    return {
        "key": bytes_value(record.key),
        "value": bytes_value(record.value),
        "headers": [[name, bytes_value(value)] for name, value in record.headers],
    }


def _short(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bytes):
        value = bytes_value(value)
    text = printable(value if isinstance(value, str) else json_text(value))
    return text if len(text) <= TEXT_LENGTH_MAX else text[:TEXT_LENGTH_MAX] + "…"


def as_object(value: Any) -> Any:
    """A decoded record's fields as JSON can hold them, in their order."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, TopicPartition):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_object(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, frozenset | set):
        return [as_object(one) for one in sorted(value)]
    if isinstance(value, ShareKey):
        return str(value)
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return [as_object(one) for one in value]
    if isinstance(value, tuple):
        return {name: as_object(getattr(value, name)) for name in value._fields}  # type: ignore[attr-defined]
    if isinstance(value, Mapping):  # topic ids as keys
        return {str(as_object(key)): as_object(one) for key, one in value.items()}
    if isinstance(value, bytes):
        return value.hex() if len(value) == 16 else bytes_value(value)
    if hasattr(type(value), "__annotations__") and not isinstance(value, str | int | float):
        return {name: as_object(getattr(value, name)) for name in type(value).__annotations__ if name[0] != "_"}
    return value
