"""What a time index says, held against the batches of its log.

An index has no checksum. Its entry (timestamp, offset) promises that the batch with that offset has this timestamp, and that
none before it is as late; the last one, that none behind it is later. A promise is checked before anything is decided by it:
the headers between two entries are read, or those behind the last one, a few in a log that was written in the order of time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import NamedTuple, Protocol

from oncelog.errors import DamagedLog
from oncelog.log.batch_header import HEADER_SIZE_BYTES, LENGTH_END
from oncelog.log.files import File
from oncelog.log.time_index import NO_TIMESTAMP, TimeIndex

# Base offset, length, attributes, last offset delta, max timestamp, count of records.
_HEADER = Struct(">qi9xhi8xq14xi")
_APPEND_TIME_BIT = 8
NEAR_SIZE_BYTES = 8192  # read at a time where the end is near
ALL_SIZE_BYTES = 65_536
LACKS_END = "its time index lacks its end: a batch is later than the last entry"


class Placed(Protocol):
    """The log of a segment, with an index that says where offsets are."""

    size_bytes: int

    def file(self) -> File:
        """Its file."""
        ...

    def position_of(self, offset: int) -> int:
        """Where the batch that reaches `offset` starts. Raises DamagedLog."""
        ...


class Stamped(NamedTuple):
    """A batch by its header. `timestamp`: the largest; `has_records`: none, where the cleaner emptied it."""

    position: int
    base_offset: int
    last_offset: int
    timestamp: int
    has_records: bool
    is_append_time: bool


def stamped(file: File, position: int, end_position: int, *, all_of_it: bool = False) -> Iterator[Stamped]:
    """The headers of the batches in [position, end_position). Raises DamagedLog where one makes no sense."""
    chunk, chunk_position = b"", position
    chunk_size_bytes = ALL_SIZE_BYTES if all_of_it else NEAR_SIZE_BYTES
    while position < end_position:
        index = position - chunk_position
        if index + HEADER_SIZE_BYTES > len(chunk):
            chunk, chunk_position, index = file.read_at(position, chunk_size_bytes), position, 0
            if len(chunk) < HEADER_SIZE_BYTES:
                raise DamagedLog(f"position {position}: the log ends in a batch")
        base_offset, length, attributes, last_offset_delta, timestamp, count = _HEADER.unpack_from(chunk, index)
        next_position = position + length + LENGTH_END
        if length < HEADER_SIZE_BYTES - LENGTH_END or last_offset_delta < 0 or next_position > end_position:
            raise DamagedLog(f"position {position}: no batch is there")
        last_offset = base_offset + last_offset_delta
        yield Stamped(position, base_offset, last_offset, timestamp, count > 0, bool(attributes & _APPEND_TIME_BIT))
        position = next_position


def largest_timestamp_in(
    file: File, end_position: int, last_offset_max: int, pace: Callable[[int], None] | None = None
) -> int:
    """Of all batches below `end_position`, none of which may go beyond `last_offset_max`. Raises DamagedLog."""
    largest, paced_position, due_offset = NO_TIMESTAMP, 0, 0
    for each in stamped(file, 0, end_position, all_of_it=True):
        if not due_offset <= each.base_offset <= each.last_offset <= last_offset_max:
            raise DamagedLog(f"position {each.position}: offset {each.base_offset} where {due_offset} or more is due")
        due_offset = each.last_offset + 1
        if each.has_records and each.timestamp > largest:
            largest = each.timestamp
        if pace is not None and each.position - paced_position > ALL_SIZE_BYTES:
            pace(each.position - paced_position)
            paced_position = each.position
    return largest


def position_of_entry(index: TimeIndex, number: int, file: File, position: int, end_position: int) -> int | None:
    """Where the batch of this entry lies; None where the log does not bear it out.

    `position` is that of the batch which the entry before it names, or 0 before the first. Raises DamagedLog.
    """
    timestamp, offset = index.entry(number)
    before = index.entry(number - 1) if number else None
    for each in stamped(file, position, end_position):
        if before is not None:
            if each.timestamp != before[0] or not each.base_offset <= before[1] <= each.last_offset:
                return None
            before = None
        if each.last_offset >= offset:
            return each.position if each.timestamp == timestamp and each.base_offset <= offset else None
        # (Apache Kafka notes the end of a request of several batches that have the broker's time)
        latest = timestamp if each.is_append_time else timestamp - 1
        if each.has_records and each.timestamp > latest:
            return None
    return None


def is_later_behind(timestamp: int, file: File, position: int, end_position: int) -> bool:
    """Whether a batch from `position` on is later. Raises DamagedLog."""
    return any(each.has_records and each.timestamp > timestamp for each in stamped(file, position, end_position))


class LoadedTimes:
    """How far a segment's time index was read from a file, and what of that was seen to agree with the log.

    Of the batches below `unproven_end_position` only that file tells the largest timestamp; `proven` once all were looked at.
    """

    __slots__ = ("_believed", "_count", "_tail_end_position", "is_unprovable", "unproven_end_position")

    def __init__(self, size_bytes: int) -> None:
        self._count = 0  # entries that came from the file
        self._believed: set[int] = set()  # numbers of those that were checked
        self._tail_end_position = size_bytes  # a batch below it may be later than the last of them
        self.unproven_end_position = size_bytes
        self.is_unprovable = False  # damage is in the way

    def load(self, count: int) -> None:
        """So many entries were read."""
        self._count = count

    def cut(self, position: int, count: int | None = None) -> None:
        """What lies from `position` on is noted anew, or is no more; so many entries are left of all."""
        self._count = self._count if count is None else min(self._count, count)
        self._tail_end_position = min(self._tail_end_position, position)
        self.unproven_end_position = min(self.unproven_end_position, position)

    def forget(self) -> None:
        """All is built anew."""
        self.cut(0, 0)

    def proven(self) -> None:
        """Nothing that was not seen is later than the largest timestamp."""
        self.unproven_end_position = self._tail_end_position = 0

    def damaged(self, size_bytes: int) -> None:
        """Not all of the log can be read, so that its largest timestamp is not known."""
        self.unproven_end_position, self.is_unprovable = size_bytes, True

    def problem_of_last(self, index: TimeIndex, log: Placed) -> str | None:
        """What is wrong with the largest timestamp: its entry, or a batch behind that which is later."""
        number, end_position = self._count - 1, self._tail_end_position
        if end_position == 0 and (number < 0 or number in self._believed):
            return None
        self._tail_end_position = 0
        try:
            position, problem = self._place(index, number, log) if number >= 0 else (0, None)
            if problem is not None or number >= self._count:
                return problem
            timestamp = index.entry(number)[0] if number >= 0 else NO_TIMESTAMP
            if is_later_behind(timestamp, log.file(), position, end_position):
                problem = LACKS_END
        except DamagedLog:
            return None  # whoever reads there is told
        return problem

    def problem_of(self, index: TimeIndex, number: int, log: Placed) -> str | None:
        """What is wrong with an entry that is to be used."""
        if not 0 <= number < self._count or number in self._believed:
            return None
        try:
            return self._place(index, number, log)[1]
        except DamagedLog:
            return None

    def _place(self, index: TimeIndex, number: int, log: Placed) -> tuple[int, str | None]:
        self._believed.add(number)
        start = log.position_of(index.entry(number - 1)[1]) if number else 0
        if number >= self._count:
            return 0, None  # the offset index had lied: both were built anew
        timestamp, offset = index.entry(number)
        position = position_of_entry(index, number, log.file(), start, log.size_bytes)
        if position is None:
            return 0, f"its time index says {timestamp} of offset {offset}, which the log does not"
        return position, None
