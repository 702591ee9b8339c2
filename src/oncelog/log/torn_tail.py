"""What recovery cuts off the end of a log is kept beside it: a person may want to look at it.

`<offset>.torn` holds the bytes cut from the segment in which `<offset>` was due, `<base offset>.log.torn` a whole later
segment. Apache Kafka ignores both. Only the newest few are kept.
"""

from __future__ import annotations

from collections.abc import Iterator

from oncelog.errors import CorruptBatch
from oncelog.lazy_dataclass import dataclass
from oncelog.log.files import Files
from oncelog.wire.record_batch import HEADER_BYTES, RecordBatch

SUFFIX = ".torn"
_SEARCH_BYTES_MAX = 64 << 20
BATCHES_NAMED_MAX = 5  # in a line of the log


@dataclass(frozen=True)
class Cut:
    """A torn tail: what was wrong at `position` of segment `base_offset`, where `offset` was due.

    `valid_batches_behind` are (base offset, last offset) of whole batches among the cut bytes: none of them was ever
    acknowledged unless the disk lost what it had confirmed, so a person should know of them. `side_files` keep the bytes.
    """

    offset: int
    base_offset: int
    position: int
    size_bytes: int
    problem: str
    side_files: tuple[str, ...]
    valid_batches_behind: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        """What was done, for the log."""
        whole = ", ".join(f"{first} to {last}" for first, last in self.valid_batches_behind[:BATCHES_NAMED_MAX])
        more = len(self.valid_batches_behind) - BATCHES_NAMED_MAX
        behind = (
            f"; whole batches among them: offsets {whole}{f' and {more} more' if more > 0 else ''}" if whole else ""
        )
        return f"{self.size_bytes} bytes cut and kept in {', '.join(self.side_files) or 'no file'}{behind}"


def valid_batches(data: bytes, least_offset: int) -> list[tuple[int, int]]:
    """Whole batches anywhere in `data` that could belong to the log from `least_offset` on: their first and last offsets."""
    return [(batch.base_offset, batch.last_offset) for _, batch in placed_batches(data, least_offset)]


def placed_batches(data: bytes, least_offset: int) -> Iterator[tuple[int, RecordBatch]]:
    """The same with the place of each in `data`."""
    index = 0
    view = memoryview(data)
    while index + HEADER_BYTES <= len(view):
        # Byte 16 of a batch is its format, 2: the only place worth a closer look.
        magic = data.find(b"\x02", index + 16)
        if magic < 0:
            break
        index = magic - 16
        batch = _batch_at(view, index)
        if batch is not None and batch.base_offset >= least_offset:
            yield index, batch
            index += batch.size_bytes
        else:
            index += 1


def _batch_at(view: memoryview, index: int) -> RecordBatch | None:
    try:
        batch = RecordBatch(view, index)
    except CorruptBatch:
        return None
    if batch.base_offset < 0 or batch.last_offset_delta < 0 or batch.size_bytes > len(view) - index:
        return None
    return batch if batch.crc_is_valid else None


def keep_tail(files: Files, directory: str, log_path: str, position: int, offset: int) -> tuple[str, bytes]:
    """Durably copy the bytes from `position` on into a side file; returns its name and the bytes to search."""
    file = files.open(log_path, create=False)
    data = file.read_at(position, file.size() - position)
    file.close()
    name = f"{offset:020d}{SUFFIX}"
    if data:
        files.replace_whole(f"{directory}/{name}", data)
    return name if data else "", data[:_SEARCH_BYTES_MAX]


def forget_oldest(files: Files, directory: str, torn_files_max: int, kept_names: tuple[str, ...]) -> None:
    """Remove the side files beyond the bound, lowest offset first, never those of this recovery."""
    names = [name for name in files.list(directory) if name.endswith(SUFFIX) and name not in kept_names]
    surplus = len(names) + len(kept_names) - torn_files_max
    for name in names[: max(surplus, 0)]:
        files.remove(f"{directory}/{name}")
