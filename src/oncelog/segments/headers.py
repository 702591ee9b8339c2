"""A segment as columns of batch headers, a chunk at a time; what cannot be read is a `Problem`, and reading goes on behind it.

Only the walk from length to length and the checksums go batch by batch; fields are cut out of all headers at once (numpy).
The offset, the length and the leader epoch of a batch lie outside its checksum: they are believed where the next batch
stands where they say, and its offset follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

import numpy as np
import numpy.typing as npt

from oncelog.lazy_dataclass import dataclass
from oncelog.segments.source import Readable
from oncelog.wire.crc32c import crc32c
from oncelog.wire.record_batch import (
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    TRANSACTIONAL_BIT,
)

CHUNK_BYTES = 4 << 20
BATCH_BYTES_MAX = 1 << 30
BAD_CHECKSUM = "its checksum does not fit"
_CODEC_MAX = 4
_CRC_BEGIN = 21
_LENGTH = Struct(">i").unpack_from
_OFFSET = Struct(">q").unpack_from
HEADER = np.dtype(
    [
        ("base_offset", ">i8"),
        ("batch_length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">u2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
assert HEADER.itemsize == HEADER_BYTES
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Batches:
    """Consecutive batches of one segment, by column. `position` is in the file; `header` has a row for each (HEADER).

    `problem` says for a row what is wrong with it ("" mostly): its header is shown, and not to be believed.
    `data` are the bytes of all of them, the first at `data_position` of the file.
    """

    position: Int64s
    base_offset: Int64s
    last_offset: Int64s
    producer_id: Int64s
    is_control: Bools
    is_transactional: Bools
    header: npt.NDArray[np.void]
    problems: dict[int, str]
    data: bytes
    data_position: int

    def __len__(self) -> int:
        return len(self.position)

    def bytes_of(self, row: int) -> memoryview:
        """One batch's bytes."""
        begin = int(self.position[row]) - self.data_position
        return memoryview(self.data)[begin : begin + int(self.header["batch_length"][row]) + LOG_OVERHEAD_BYTES]

    def rows(self, begin: int, end: int) -> Batches:
        """Some of them."""
        part = slice(begin, end)
        return Batches(
            self.position[part],
            self.base_offset[part],
            self.last_offset[part],
            self.producer_id[part],
            self.is_control[part],
            self.is_transactional[part],
            self.header[part],
            {row - begin: text for row, text in self.problems.items() if begin <= row < end},
            self.data,
            self.data_position,
        )


@dataclass(frozen=True, slots=True)
class Problem:
    """Bytes of a segment that are no batch: from `position` on, `size_bytes` of them. `is_tail`: nothing readable follows."""

    position: int
    size_bytes: int
    text: str
    is_tail: bool


def read_headers(
    file: Readable, size_bytes: int, position: int = 0, *, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[Batches | Problem]:
    """All batches of the first `size_bytes` of a segment, from `position` on. Raises StorageError."""
    next_offset = 0
    chunk_bytes = max(chunk_bytes, HEADER_BYTES)
    while position < size_bytes:
        data = file.read_at(position, min(chunk_bytes, size_bytes - position))
        if not data:
            yield Problem(position, size_bytes - position, "the file ends here, shorter than it was", is_tail=True)
            return
        starts, end, problems = _walk(data)
        if not starts:
            needed = _length_at(data)
            if needed is not None and len(data) < needed <= size_bytes - position:
                chunk_bytes = max(chunk_bytes, needed)  # a batch larger than a chunk
                continue
            problem = _skipped(file, position, size_bytes, next_offset, data)
            yield problem
            position += problem.size_bytes
            continue
        batches = _columns(data, position, starts, problems)
        following = file.read_at(position + end, min(HEADER_BYTES, size_bytes - position - end)) if problems else b""
        valid = _believed(batches, following)
        if valid < len(batches):
            end = starts[valid]
            if valid:
                batches = batches.rows(0, valid)
        if valid:
            next_offset = max(next_offset, int(batches.last_offset[-1]) + 1)
            yield batches
            position += end
        if valid < len(starts):
            problem = _skipped(file, position, size_bytes, next_offset, b"", why=_why(problems.get(valid)))
            yield problem
            position += problem.size_bytes


def _why(problem: str | None) -> str:
    return problem or "its header makes no sense"


def _walk(data: bytes) -> tuple[list[int], int, dict[int, str]]:
    """Where whole batches begin, where the last of them ends, and those whose checksum fails, by number."""
    starts: list[int] = []
    problems: dict[int, str] = {}
    index, size = 0, len(data)
    last_header = size - HEADER_BYTES
    checksum = Struct(">I").unpack_from
    while index <= last_header:
        end = index + LOG_OVERHEAD_BYTES + _LENGTH(data, index + 8)[0]
        if end < index + HEADER_BYTES or end > size:
            break
        if data[index + 16] != MAGIC:
            if data[index + 16] > MAGIC and data[index + 16] < 8:
                problems[len(starts)] = (
                    f"format {data[index + 16]} of batches is newer than what this version reads (2)"
                )
            elif data[index + 16] < MAGIC:
                problems[len(starts)] = f"format {data[index + 16]} of batches is older than what is read (2)"
            else:
                break
        elif crc32c(data[index + _CRC_BEGIN : end]) != checksum(data, index + 17)[0]:
            problems[len(starts)] = BAD_CHECKSUM
        starts.append(index)
        index = end
    return starts, index, problems


def _columns(data: bytes, position: int, starts: list[int], problems: dict[int, str]) -> Batches:
    at = np.array(starts, dtype=np.int64)
    raw = np.frombuffer(data, dtype=np.uint8)
    header = raw[at[:, None] + np.arange(HEADER_BYTES)].view(HEADER)[:, 0]
    base_offset = header["base_offset"].astype(np.int64)
    attributes = header["attributes"]
    for row in np.flatnonzero((attributes & CODEC_MASK) > _CODEC_MAX).tolist():
        problems.setdefault(row, f"compressed by codec {int(attributes[row]) & CODEC_MASK}, which is unknown")
    return Batches(
        at + position,
        base_offset,
        base_offset + header["last_offset_delta"].astype(np.int64),
        header["producer_id"].astype(np.int64),
        (attributes & CONTROL_BIT) != 0,
        (attributes & TRANSACTIONAL_BIT) != 0,
        header,
        problems,
        data,
        position,
    )


def _believed(batches: Batches, following: bytes) -> int:
    """How many of them stand where they should: a failed checksum may mean that the length is wrong as well.

    `following` is what stands behind the last of them, as much as a header, b"" at the end of the file.
    """
    for row in sorted(batches.problems):
        if batches.problems[row] != BAD_CHECKSUM:
            continue
        if row + 1 < len(batches):
            is_magic = batches.header["magic"][row + 1] == MAGIC
            follows = bool(is_magic and batches.base_offset[row + 1] > batches.base_offset[row])
        else:
            follows = not following or _length_at(following) is not None
        if not follows:
            return row
    return len(batches)


def _length_at(data: bytes) -> int | None:
    """The size of the batch that begins here, None where none can."""
    if len(data) < HEADER_BYTES:
        return None
    size_bytes: int = _LENGTH(data, 8)[0] + LOG_OVERHEAD_BYTES
    return size_bytes if HEADER_BYTES <= size_bytes <= BATCH_BYTES_MAX and data[16] == MAGIC else None


def _skipped(
    file: Readable, position: int, size_bytes: int, least_offset: int, data: bytes, *, why: str = ""
) -> Problem:
    """What cannot be read at `position`, up to the next whole batch whose offset may follow."""
    if not why:
        left = size_bytes - position
        needed = _length_at(data)
        if left < HEADER_BYTES:
            why = f"{left} bytes are no batch"
        elif needed is not None and needed > left:
            why = f"a batch of {needed} bytes, of which {left} are there"
        elif not any(data):
            why = "zeros"
        else:
            why = "no batch begins here"
    found = _next_batch(file, position + 1, size_bytes, least_offset)
    return Problem(position, (size_bytes if found is None else found) - position, why, is_tail=found is None)


def _next_batch(file: Readable, position: int, size_bytes: int, least_offset: int) -> int | None:
    """Where a whole batch with a right checksum begins next."""
    while position + HEADER_BYTES <= size_bytes:
        window = file.read_at(position, min(CHUNK_BYTES, size_bytes - position))
        index = window.find(bytes((MAGIC,)), 16)
        while index >= 0:
            begin = index - 16
            if _may_begin(window, begin, least_offset) and _is_whole(file, position + begin, size_bytes):
                return position + begin
            index = window.find(bytes((MAGIC,)), index + 1)
        position += max(len(window) - HEADER_BYTES, 1)
    return None


def _may_begin(window: bytes, begin: int, least_offset: int) -> bool:
    if begin + HEADER_BYTES > len(window):
        return False
    length: int = _LENGTH(window, begin + 8)[0]
    offset: int = _OFFSET(window, begin)[0]
    return HEADER_BYTES - LOG_OVERHEAD_BYTES <= length <= BATCH_BYTES_MAX and least_offset <= offset < least_offset + (
        1 << 31
    )


def _is_whole(file: Readable, position: int, size_bytes: int) -> bool:
    head = file.read_at(position, HEADER_BYTES)
    batch_bytes: int = _LENGTH(head, 8)[0] + LOG_OVERHEAD_BYTES
    if batch_bytes > size_bytes - position:
        return False
    data = file.read_at(position, batch_bytes)
    return len(data) == batch_bytes and crc32c(data[_CRC_BEGIN:]) == int.from_bytes(data[17:21], "big")
