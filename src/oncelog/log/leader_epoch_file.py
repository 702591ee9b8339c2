"""`leader-epoch-checkpoint`: which leader epoch began at which offset (KIP-101), and the questions asked of it.

Text: the line "0", the number of entries, then "leaderEpoch startOffset" lines; both ascend.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import field
from itertools import pairwise

from oncelog.errors import CorruptIndex
from oncelog.lazy_dataclass import dataclass
from oncelog.log.checkpoint_files import unreadable

FILE_NAME = "leader-epoch-checkpoint"
UNDEFINED = -1


@dataclass(slots=True)
class LeaderEpochs:
    """The leader epochs of one log, oldest first, as (leader_epoch, start_offset)."""

    entries: list[tuple[int, int]] = field(default_factory=list)

    @classmethod
    def from_bytes(cls, data: bytes) -> LeaderEpochs:
        """Read the file. Raises CorruptIndex."""
        try:
            version, count, *lines = data.decode("ascii").splitlines()
            pairs = [(int(leader_epoch), int(offset)) for leader_epoch, offset in map(str.split, lines)]
        except ValueError as error:
            raise CorruptIndex(f"{FILE_NAME}: {unreadable(data)}") from error
        if version != "0" or count != str(len(pairs)):
            raise CorruptIndex(f"{FILE_NAME}: version {version}, {len(pairs)} entries instead of {count}")
        for before, after in pairwise(pairs):
            if after[0] <= before[0] or after[1] < before[1]:
                raise CorruptIndex(f"{FILE_NAME}: {after} after {before}")
        return cls(pairs)

    def to_bytes(self) -> bytes:
        """The file's content."""
        lines = "".join(f"{leader_epoch} {offset}\n" for leader_epoch, offset in self.entries)
        return f"0\n{len(self.entries)}\n{lines}".encode("ascii")

    @property
    def latest(self) -> int:
        """The newest leader epoch; -1 where there is none."""
        return self.entries[-1][0] if self.entries else UNDEFINED

    def assign(self, leader_epoch: int, start_offset: int) -> bool:
        """Note that `leader_epoch` writes from `start_offset` on; True when that was news.

        Entries of the same or a later epoch, or that would start at or after the new one, were another leader's error.
        """
        if leader_epoch < 0 or (
            self.entries and self.entries[-1][0] == leader_epoch and start_offset >= self.entries[-1][1]
        ):
            return False
        self.entries = [known for known in self.entries if known[0] < leader_epoch and known[1] < start_offset]
        self.entries.append((leader_epoch, start_offset))
        return True

    def leader_epoch_of(self, offset: int) -> int:
        """The leader epoch that wrote `offset`; -1 where it is older than all entries."""
        found = bisect_right(self.entries, offset, key=lambda entry: entry[1])
        return self.entries[found - 1][0] if found else UNDEFINED

    def end_offset_for(self, leader_epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Answer OffsetForLeaderEpoch: the largest known epoch up to `leader_epoch`, and its exclusive end offset.

        (-1, -1) where the epoch is newer than all known ones, or negative.
        """
        if leader_epoch < 0 or leader_epoch > self.latest:
            return UNDEFINED, UNDEFINED
        if leader_epoch == self.latest:
            return leader_epoch, log_end_offset
        higher = bisect_right(self.entries, leader_epoch, key=lambda entry: entry[0])
        found = self.entries[higher - 1][0] if higher else leader_epoch
        return found, self.entries[higher][1]

    def truncate_end(self, end_offset: int) -> None:
        """Forget epochs that begin at or above `end_offset`."""
        self.entries = [entry for entry in self.entries if entry[1] < end_offset]

    def truncate_start(self, log_start_offset: int) -> None:
        """Forget epochs that end at or below `log_start_offset`; the one that spans it now begins there."""
        gone = [entry for entry in self.entries if entry[1] <= log_start_offset]
        if gone:
            self.entries = [(gone[-1][0], log_start_offset), *self.entries[len(gone) :]]
