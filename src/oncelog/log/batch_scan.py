"""Reading a segment from one position to its end, batch by batch, until something is wrong.

Recovery and index rebuilding share it. A `Scan` never raises for bad bytes: it stops, and says where and why.
"""

from __future__ import annotations

from collections.abc import Iterator

from oncelog.errors import CorruptBatch
from oncelog.log.files import File
from oncelog.wire.newest_values import take_newest
from oncelog.wire.record_batch import HEADER_BYTES, RecordBatch

Newest = dict[bytes, bytes | None]

CHUNK_SIZE_BYTES = 1 << 20


class Scan:
    """Iterate over it for the batches of [position, end_position).

    `position` is always that of the batch last given; after the loop it is where valid data ends, and `problem` says
    why that is not `end_position`, or is None. With `check_crc` off only lengths are looked at. `due_offset`, after `runs`, is
    the offset behind the last batch.
    """

    def __init__(self, file: File, position: int, end_position: int, *, check_crc: bool = True) -> None:
        self.position = position
        self.problem: str | None = None
        self.due_offset = -1
        self._file = file
        self._end = end_position
        self._check_crc = check_crc

    def __iter__(self) -> Iterator[RecordBatch]:
        chunk, chunk_position = memoryview(b""), self.position
        next_offset = -1
        while self.position < self._end:
            index = self.position - chunk_position
            if len(chunk) - index < HEADER_BYTES or len(chunk) - index < self._size_at(chunk, index):
                chunk, chunk_position, index = memoryview(self._read_batch()), self.position, 0
            batch = self._batch(chunk, index, next_offset)
            if batch is None:
                return
            yield batch
            next_offset = batch.end_offset
            self.position += batch.size_bytes

    def runs(self, due_offset: int) -> Iterator[Newest | RecordBatch]:
        """The batches, offsets from `due_offset` on; plain ones that follow one another as the last value of each key."""
        chunk, chunk_position = b"", self.position
        newest: Newest = {}
        self.due_offset = due_offset
        while self.position < self._end:
            index = self.position - chunk_position
            if len(chunk) - index < HEADER_BYTES or len(chunk) - index < self._size_at(chunk, index):
                chunk, chunk_position, index = self._read_batch(), self.position, 0
            after, self.due_offset = take_newest(chunk, index, self.due_offset, newest)
            self.position += after - index
            if after == index:
                batch = self._batch(memoryview(chunk), index, self.due_offset)
                if batch is None:
                    break
                if newest:
                    yield newest
                    newest = {}
                yield batch
                self.due_offset = batch.end_offset
                self.position += batch.size_bytes
        if newest:
            yield newest

    def _read_batch(self) -> bytes:
        left = self._end - self.position
        chunk = self._file.read_at(self.position, min(CHUNK_SIZE_BYTES, left))
        size_bytes = self._size_at(chunk, 0) if len(chunk) >= HEADER_BYTES else 0
        if len(chunk) < size_bytes <= left:
            chunk = self._file.read_at(self.position, size_bytes)
        return chunk

    @staticmethod
    def _size_at(chunk: bytes | memoryview, index: int) -> int:
        return int.from_bytes(chunk[index + 8 : index + 12], "big") + 12

    def _batch(self, chunk: memoryview, index: int, next_offset: int) -> RecordBatch | None:
        try:
            batch = RecordBatch(chunk, index)
            if batch.size_bytes > len(batch.data):
                raise CorruptBatch(f"{len(batch.data)} of {batch.size_bytes} bytes")
            if batch.base_offset < next_offset or batch.last_offset_delta < 0:
                raise CorruptBatch(f"offset {batch.base_offset} where {next_offset} or more is due")
            if self._check_crc:
                batch.check_crc()
        except CorruptBatch as error:
            self.problem = str(error)
            return None
        return batch
