"""What both sides hold, beside one another: the verdict is exact where nothing differs."""

from __future__ import annotations

from oncelog.lazy_dataclass import dataclass

EXACT, DIFFERENT, GROUPS_WAIT = "exact", "different", "groups wait"
MOVED, WAITING = "moved", "waiting"


@dataclass(frozen=True, slots=True)
class PartitionVerdict:
    """One partition: visible records of both sides up to where the copy is, and a digest of them in order.

    `source_end_offset` is the source's end when it was looked at: behind `source_offset` lies what is not copied.
    `deleted_records` were copied, and one side has deleted them since: they are not compared. `is_same_table` is asked where
    a compacted topic differs: whether the last record of each key is the same, in the same order.
    """

    topic: str
    partition: int
    source_records: int
    destination_records: int
    source_digest: str
    destination_digest: str
    source_offset: int
    source_end_offset: int
    destination_offset: int
    deleted_records: int = 0
    is_same_table: bool | None = None

    @property
    def is_exact(self) -> bool:
        """Whether both hold the same records in the same order; of a compacted topic, the same ones that compaction keeps."""
        same = self.source_digest == self.destination_digest
        return (same and self.source_records == self.destination_records) or bool(self.is_same_table)

    @property
    def is_complete(self) -> bool:
        """Whether the source holds nothing that is not copied."""
        return self.source_end_offset <= self.source_offset


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """One position of a group, on both sides. `is_same_record`: both stand before the same record, or both at the end."""

    group: str
    topic: str
    partition: int
    source_offset: int
    destination_offset: int
    state: str
    is_same_record: bool | None = None
    why: str = ""

    @property
    def is_exact(self) -> bool:
        """Whether it can go on at the destination where it was."""
        return self.state == MOVED and self.is_same_record is not False


def skipped_counts(
    source_count: int, destination_count: int, *, has_source_deleted: bool, has_destination_deleted: bool
) -> tuple[int, int]:
    """Of source and destination: records at the beginning that the other side has deleted since; 0 where it deleted none."""
    more = destination_count - source_count
    return max(-more, 0) if has_destination_deleted else 0, max(more, 0) if has_source_deleted else 0


def standing(offset: int, begin: int, end: int) -> tuple[int, str]:
    """Where a position really stands that lies out of the source's log, and a word about it."""
    if offset < begin:
        return begin, f"the source deleted records below {begin}"
    if offset > end:
        return end, f"it stood beyond the source's end, {end}"
    return offset, ""


def blocking(open_transactions: dict[str, tuple[bool, bool]]) -> tuple[list[str], list[str]]:
    """Of transactional ids with (writes to the topics, has no timeout): those that end by themselves, and those that only a
    decision ends (two-phase commit)."""
    wanted = {name: is_endless for name, (is_ours, is_endless) in open_transactions.items() if is_ours}
    return sorted(n for n, endless in wanted.items() if not endless), sorted(n for n, e in wanted.items() if e)
