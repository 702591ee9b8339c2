"""Putting a cleaned group of segments in the place of the old ones, so that a crash between any two steps loses nothing.

    1. `.cleaned` files are written and synced            [sync the directory]
    2. `announce`: they become `.swap`                    [sync the directory]
    3. `replace`: reads go to them; the old files become `.deleted`   [sync the directory]
    4. `finish`: they take their final names              [sync the directory, at any time]

Each sync is the caller's, before the next step. A start (`leftovers.put_right`) undoes what did not reach the end of
step 2 and finishes what did: a `.cleaned` file means undo, a `.log.swap` without one means that it is complete. Were step
4 to reach the disk before step 3, old segments would lie in the middle of the new one.
"""

from __future__ import annotations

from oncelog.log.cleaner import CLEANED_SUFFIX, Cleaned, remove_cleaned
from oncelog.log.files import Files
from oncelog.log.open_files import OpenFiles
from oncelog.log.partition_log import PartitionLog
from oncelog.log.segment import Segment

SWAP_SUFFIX = ".swap"


class SegmentSwap:
    """One group. Every step may raise StorageError; from `replace` on the log must then be taken offline."""

    def __init__(self, open_files: OpenFiles, log: PartitionLog, cleaned: Cleaned) -> None:
        assert cleaned.is_changed
        self._files: Files = open_files.files
        self._log = log
        self._cleaned = cleaned
        first, last = cleaned.sources[0], cleaned.sources[-1]
        self._segment = Segment(
            open_files,
            log.directory,
            first.base_offset,
            log.config,
            size_bytes=cleaned.size_bytes,
            suffix=CLEANED_SUFFIX,
        )
        self._segment.end_offset = last.end_offset

    def announce(self) -> None:
        """Step 2. When this raises, `abandon`."""
        self._segment.rename(SWAP_SUFFIX)

    def replace(self) -> None:
        """Step 3. From here on readers see the cleaned segment."""
        bases = [source.base_offset for source in self._cleaned.sources]
        self._log.replace_segments(bases, self._segment)

    def finish(self) -> None:
        """Step 4. What was replaced may go from here on."""
        self._log.replacement_synced()
        self._segment.rename("")

    def abandon(self) -> None:
        """Undo steps 1 and 2: the swaps first, for one without a `.cleaned` beside it counts as complete."""
        for path in self._segment.paths:
            self._files.remove(path)
        remove_cleaned(self._files, self._log.directory)
