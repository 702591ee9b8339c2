"""A digest over records in order, whatever batches they came in: key, value, headers and timestamp, each length with them.

A stream for each column and one for its lengths (-1 for null): where batches end leaves no trace.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

STREAMS: tuple[str, ...] = (
    "key",
    "key_length",
    "value",
    "value_length",
    "timestamp",
    "header_count",
    "header_key",
    "header_key_length",
)
STREAMS += ("header_value", "header_value_length")


class RecordsDigest:
    """Feed it with batches of `poll_arrow`; `hex` says what it saw so far."""

    def __init__(self) -> None:
        self.record_count = 0
        self._streams = {name: hashlib.blake2b(digest_size=16) for name in STREAMS}

    def update(self, rows: pa.RecordBatch) -> None:
        """The next records."""
        import pyarrow as pa
        import pyarrow.compute as pc

        self.record_count += rows.num_rows
        self._bytes("key", rows.column("key"))
        self._bytes("value", rows.column("value"))
        self._numbers("timestamp", rows.column("timestamp").cast(pa.int64()))
        headers = rows.column("headers")
        self._numbers("header_count", pc.fill_null(pc.list_value_length(headers), 0).cast(pa.int64()))
        flat = headers.flatten()
        self._bytes("header_key", flat.field(0).cast(pa.binary()))
        self._bytes("header_value", flat.field(1))

    def hex(self) -> str:
        """32 digits."""
        whole = hashlib.blake2b(digest_size=16)
        for name in STREAMS:
            whole.update(self._streams[name].digest())
        return whole.hexdigest()

    def _bytes(self, name: str, column: pa.Array) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        self._numbers(f"{name}_length", pc.fill_null(pc.binary_length(column).cast(pa.int64()), -1))
        if column.null_count:
            column = column.drop_null()
        if len(column):
            _, offsets, data = column.buffers()
            places = memoryview(offsets).cast("B").cast("i")
            begin, end = places[column.offset], places[column.offset + len(column)]
            if end > begin:
                self._streams[name].update(memoryview(data)[begin:end])

    def _numbers(self, name: str, column: pa.Array) -> None:
        if len(column):
            data = memoryview(column.buffers()[1]).cast("B")
            self._streams[name].update(data[8 * column.offset : 8 * (column.offset + len(column))])


def fingerprints(rows: pa.RecordBatch) -> list[bytes]:
    """Of each record: key, value, headers and timestamp in 16 bytes."""
    columns = [rows.column(name).to_pylist() for name in ("key", "value", "headers")]
    stamps = rows.column("timestamp").cast("int64").to_pylist()
    return [_fingerprint(*each) for each in zip(*columns, stamps, strict=True)]


def _fingerprint(key: bytes | None, value: bytes | None, headers: list[dict[str, Any]] | None, stamp: int) -> bytes:
    text = repr((key, value, [(each["key"], each["value"]) for each in headers or ()], stamp))
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


class TableDigest:
    """What compaction keeps of a topic, whenever it runs: the last record of each key. Holds 32 bytes of each."""

    def __init__(self) -> None:
        self._last: dict[bytes, bytes] = {}

    def update(self, rows: pa.RecordBatch) -> None:
        """The next records. A tombstone counts as no record: compaction removes it, too, and those without a key."""
        keys, values = rows.column("key").to_pylist(), rows.column("value").to_pylist()
        for key, value, found in zip(keys, values, fingerprints(rows), strict=True):
            if key is None:
                continue
            name = hashlib.blake2b(key, digest_size=16).digest()
            self._last.pop(name, None)  # so that the order is that of the last ones
            if value is not None:
                self._last[name] = found

    def hex(self) -> str:
        """32 digits."""
        whole = hashlib.blake2b(digest_size=16)
        for found in self._last.values():
            whole.update(found)
        return whole.hexdigest()
