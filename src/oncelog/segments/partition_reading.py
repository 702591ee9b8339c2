"""Reading one partition's log through its replay: batches in, what they say and what is wrong with them out.

Works with the columns of one chunk at a time; of what was read only the replay's memory of producers stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace

import numpy as np

from oncelog.core.reconciliation.findings import (
    ABORTED_INDEX,
    DAMAGED,
    GAP,
    METADATA_TOPIC,
    NOTE,
    PRODUCER_STATE,
    TIME_INDEX,
    Finding,
    no_copy,
)
from oncelog.core.reconciliation.partition_replay import Ended, Marker, Open, PartitionReplay
from oncelog.core.shell_words import quoted
from oncelog.errors import CorruptIndex, StorageError
from oncelog.lazy_dataclass import dataclass
from oncelog.log.checkpoint_files import LOG_START_OFFSETS
from oncelog.log.producer_snapshot import snapshot_from_bytes
from oncelog.log.transaction_index import aborted_from_bytes
from oncelog.segments.directory import PartitionFiles
from oncelog.segments.headers import Batches, Problem, read_headers
from oncelog.segments.runs import events
from oncelog.segments.source import Source
from oncelog.segments.time_indexes import TimeIndexCheck
from oncelog.segments.unread import is_gone, unread

INT64_MAX = 2**63 - 1
FINDINGS_MAX = 10_000  # of one log: a disk full of nonsense must not fill the memory


def no_progress(size_bytes: int) -> None:
    """Nobody wants to know."""


class Listener:
    """What else wants to see a log while it is read. Methods do nothing here."""

    def batches(self, batches: Batches) -> None:
        """Consecutive batches without a problem."""

    def marker(self, marker: Marker) -> None:
        """The next marker (after the batches of its chunk were given up to it)."""

    def ended(self, ended: Ended) -> None:
        """A marker, and what it ended."""

    def missing(self, *, is_damage: bool) -> None:
        """Offsets are missing here."""


@dataclass
class PartitionSummary:
    """What one log came to. `end_offset` is exclusive; counts are of what could be read."""

    directory: str
    topic: str
    partition: int
    log_start_offset: int
    end_offset: int = 0
    batch_count: int = 0
    record_count: int = 0
    size_bytes: int = 0
    newest_marker_ms: int = -1
    end_position: tuple[str, int] = ("", 0)  # the last segment's path, and up to where it was read
    is_read: bool = True  # whether all segments could be; else `end_offset` may be higher, and transactions may be over
    open_transactions: list[Open] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


class PartitionReader:
    """Reads one partition, once. `progress` is called with the bytes of each chunk."""

    def __init__(
        self,
        source: Source,
        files: PartitionFiles,
        listener: Listener,
        progress: Callable[[int], None] = no_progress,
    ) -> None:
        self._source, self._files, self._listener, self._progress = source, files, listener, progress
        first_offset = files.segments[0][0]
        self._replay = PartitionReplay(first_offset)
        self._next_offset = first_offset
        self._is_unread = False  # what lies between here and the next segment, or the end
        self._times: TimeIndexCheck | None = None  # of the segment that is read, while all of it is whole
        # One from below the start says what was before the removed part: nothing of now.
        beside = files.snapshots if files.topic != METADATA_TOPIC else ()
        self._snapshots = [each for each in beside if each[0] >= first_offset]
        # Above it, after an unclean stop, a recovery makes everything beside the log anew.
        self._judged_up_to = INT64_MAX if files.is_clean else max(files.recovery_point, 0)
        self.summary = PartitionSummary(
            files.directory, files.topic, files.partition, max(first_offset, files.log_start_offset)
        )

    def read(self) -> PartitionSummary:
        """Read it all. A file that cannot be read is a finding, and nothing follows from it."""
        self._judge_start()
        for number, (base_offset, path) in enumerate(self._files.segments):
            self._begin_segment(base_offset, path)
            is_last = number == len(self._files.segments) - 1
            self._times = self._time_index(number)
            self._read_segment(path, is_last=is_last)
            if self._is_unread:
                self._replay.compare_transaction_index((), "", 0)  # on to the next segment
                continue
            self._compare_index(base_offset)
            problem = self._times.end(self._next_offset) if self._times is not None else None
            if problem is not None:
                self._found(TIME_INDEX, problem[0], problem[1], self._files.time_indexes[base_offset])
        if self._is_unread:
            self._replay.damage(INT64_MAX)
        self._snapshots_up_to(INT64_MAX)
        if not self._is_unread:
            self._judge_end()
        summary = self.summary
        summary.end_offset = self._next_offset
        summary.open_transactions = self._replay.open_transactions()
        here = (self._files.directory, self._files.topic, self._files.partition)
        found = [each.at(*here) for each in self._replay.findings[:FINDINGS_MAX]]
        summary.findings = [self._with_repair(each) for each in (*summary.findings, *found)]
        return summary

    def _with_repair(self, finding: Finding) -> Finding:
        """What lies beside a log is made anew from it: an index that is found broken, a snapshot that is not there."""
        if finding.kind not in (ABORTED_INDEX, TIME_INDEX, PRODUCER_STATE) or not finding.file:
            return finding
        if not self._files.is_oncelog:
            return replace(finding, repair="")  # docs/reconcile.md: not tried with Apache Kafka
        away = "rm -f" if finding.kind == PRODUCER_STATE else "truncate -s 1"
        mended = f"{away} {quoted(finding.file)} && oncelog recover --yes {quoted(finding.directory)}"
        return replace(finding, repair=mended)

    # Segments

    def _begin_segment(self, base_offset: int, path: str) -> None:
        if self._is_unread:
            self._is_unread = False
            self._next_offset = max(self._next_offset, base_offset)
            self._replay.damage(self._next_offset)
            self._listener.missing(is_damage=True)
        elif base_offset > self._next_offset:
            self._missing(self._next_offset, base_offset, path)
            self._next_offset = base_offset
        elif base_offset < self._next_offset:
            self._found(
                DAMAGED, f"the segment begins at {base_offset}, but {self._next_offset} is due", base_offset, path
            )

    def _read_segment(self, path: str, *, is_last: bool) -> None:
        try:
            file = self._source.open(path)
        except StorageError as error:
            self._take_unread(error, path)
            return
        try:
            size_bytes = file.size()
            self.summary.size_bytes += size_bytes
            self.summary.end_position = (path, size_bytes)
            for item in read_headers(file, size_bytes):
                if isinstance(item, Problem):
                    self._take_problem(item, path, is_last=is_last)
                    self._progress(item.size_bytes)
                else:
                    self._take(item, path)
                    self._progress(int(item.header["batch_length"].sum()) + 12 * len(item))
        except StorageError as error:
            self._take_unread(error, path)
        finally:
            file.close()

    def _take_unread(self, error: StorageError, path: str) -> None:
        self._not_read(error, self._next_offset, path)
        self._is_unread, self.summary.is_read, self._times = True, False, None
        self._replay.damage(self._next_offset)
        self._listener.missing(is_damage=True)

    def _take(self, batches: Batches, path: str) -> None:
        summary = self.summary
        if self._times is not None:
            self._times.take(batches)
        summary.batch_count += len(batches)
        summary.record_count += int(batches.header["record_count"].astype(np.int64).clip(0).sum())
        begin = 0
        for row in self._cuts(batches):
            if row > begin:
                self._take_good(batches.rows(begin, row))
            begin = row
            self._snapshots_up_to(int(batches.base_offset[row]))
            self._check_offset(batches, row, path)
            if row in batches.problems:
                self._take_bad(batches, row, path)
                begin = row + 1
        if begin < len(batches):
            self._take_good(batches.rows(begin, len(batches)))

    def _cuts(self, batches: Batches) -> list[int]:
        """Rows before which something is to be said: a problem, a gap, a snapshot."""
        due = np.empty(len(batches), dtype=np.int64)
        due[0] = self._next_offset
        due[1:] = batches.last_offset[:-1] + 1
        odd = batches.base_offset != due
        if odd.any():
            by_compaction = odd & (batches.base_offset > due) & (due < self._files.cleaned_offset)
            if by_compaction.any():
                self._replay.gap()
                self._listener.missing(is_damage=False)
                odd &= ~by_compaction
                if by_compaction[0]:
                    self._next_offset = int(batches.base_offset[0])
        rows = set(np.flatnonzero(odd).tolist()) | set(batches.problems)
        rows |= {row + 1 for row in batches.problems if row + 1 < len(batches)}
        ascending = np.maximum.accumulate(batches.base_offset)
        for offset, _ in self._snapshots:
            row = int(np.searchsorted(ascending, offset))
            if row < len(batches):
                rows.add(row)
        return sorted(rows)

    def _take_good(self, batches: Batches) -> None:
        self._listener.batches(batches)
        for event in events(batches):
            if isinstance(event, Marker):
                ended = self._replay.take_marker(event)
                self.summary.newest_marker_ms = max(self.summary.newest_marker_ms, event.timestamp)
                if ended is not None:
                    self._listener.marker(event)
                    self._listener.ended(ended)
            else:
                self._replay.take_run(event)
        self._next_offset = max(self._next_offset, int(batches.last_offset[-1]) + 1)

    def _check_offset(self, batches: Batches, row: int, path: str) -> None:
        base_offset, last_offset = int(batches.base_offset[row]), int(batches.last_offset[row])
        if row:
            self._next_offset = max(self._next_offset, int(batches.last_offset[row - 1]) + 1)
        if base_offset > self._next_offset:
            if self._next_offset >= self._files.cleaned_offset:
                self._missing(self._next_offset, base_offset, path)
            self._next_offset = base_offset
        elif base_offset < self._next_offset and row not in batches.problems:
            text = f"a batch at offset {base_offset} where {self._next_offset} or more is due"
            batches.problems[row] = text
        if last_offset < base_offset:
            batches.problems.setdefault(row, f"its last offset is {last_offset}")

    def _take_bad(self, batches: Batches, row: int, path: str) -> None:
        base_offset, last_offset = int(batches.base_offset[row]), int(batches.last_offset[row])
        text = f"byte {int(batches.position[row])}: {batches.problems[row]}"
        is_believed = 0 <= last_offset - base_offset < 1 << 31 and base_offset >= self._next_offset
        last = max(last_offset, base_offset) if is_believed else base_offset
        self._times = None
        self._found(DAMAGED, text, base_offset, path, last)
        self._next_offset = max(self._next_offset, last + 1)
        self._replay.damage(self._next_offset)
        self._listener.missing(is_damage=True)

    def _take_problem(self, problem: Problem, path: str, *, is_last: bool) -> None:
        self._times = None
        text = f"byte {problem.position}: {problem.text}; {problem.size_bytes} bytes cannot be read"
        self.summary.end_position = (path, problem.position)
        if problem.is_tail and is_last and not self._files.is_clean and self._next_offset >= self._files.recovery_point:
            self._note(f"an unfinished end, which is no damage: {text}", path)
            return
        self._found(DAMAGED, text, self._next_offset, path)
        self._replay.damage(self._next_offset + 1)
        self._listener.missing(is_damage=True)

    def _missing(self, first_offset: int, end_offset: int, path: str) -> None:
        if first_offset < self._files.cleaned_offset:
            self._replay.gap()
            self._listener.missing(is_damage=False)
            return
        recent = self._replay.damage_end_offset
        self._replay.damage(end_offset)
        self._listener.missing(is_damage=True)
        if recent == first_offset + 1 and first_offset == self._next_offset:
            return  # the damage was reported where it is
        text = f"offsets {first_offset} to {end_offset - 1} are missing"
        self._found(GAP, text, first_offset, path, end_offset - 1)

    # What lies beside them

    def _snapshots_up_to(self, offset: int) -> None:
        while self._snapshots and self._snapshots[0][0] <= offset:
            end_offset, path = self._snapshots.pop(0)
            if end_offset > self._judged_up_to:
                continue
            if end_offset > self._next_offset and self._next_offset > 0 and not self._is_unread:
                if offset == INT64_MAX and self._files.is_clean:
                    text = f"it covers the log up to {end_offset}, which ends at {self._next_offset}"
                    self._found(PRODUCER_STATE, text, self._next_offset, path, end_offset - 1)
                if offset == INT64_MAX:
                    continue
            try:
                entries = snapshot_from_bytes(self._source.read_whole(path))
            except CorruptIndex as error:
                self._found(PRODUCER_STATE, str(error), end_offset, path)
            except StorageError as error:
                self._not_read(error, end_offset, path)
            else:
                self._replay.compare_snapshot(end_offset, entries, path)

    def _compare_index(self, base_offset: int) -> None:
        path = self._files.transaction_indexes.get(base_offset, "")
        entries = []
        limit = self._judged_up_to
        try:
            entries = aborted_from_bytes(self._source.read_whole(path), base_offset) if path else []
        except CorruptIndex as error:
            if base_offset < limit:
                self._found(ABORTED_INDEX, str(error), base_offset, path)
            limit = 0
        except StorageError as error:
            self._not_read(error, base_offset, path)
            limit = 0
        shown = path or f"{self._files.path}/{base_offset:020d}.txnindex"
        self._replay.compare_transaction_index((each for each in entries if each.last_offset < limit), shown, limit)

    def _time_index(self, number: int) -> TimeIndexCheck | None:
        """Of a segment that was rolled or closed, where no recovery builds it anew; one that is not there is as good as none."""
        segments = self._files.segments
        base_offset = segments[number][0]
        end_offset = segments[number + 1][0] if number + 1 < len(segments) else INT64_MAX
        path = self._files.time_indexes.get(base_offset)
        if path is None or end_offset > self._judged_up_to:
            return None
        try:
            return TimeIndexCheck(base_offset, self._source.read_whole(path))
        except CorruptIndex as error:
            self._found(TIME_INDEX, str(error), base_offset, path)
        except StorageError as error:
            self._not_read(error, base_offset, path)
        return None

    def _judge_start(self) -> None:
        files, first_offset = self._files, self._files.segments[0][0]
        known_start = max(files.log_start_offset, 0)
        if files.is_oncelog and files.is_clean and first_offset > known_start:
            text = f"offsets {known_start} to {first_offset - 1} are missing"
            self._found(GAP, text, known_start, "", first_offset - 1)
            self._listener.missing(is_damage=True)

    def _judge_end(self) -> None:
        files, end_offset = self._files, self._next_offset
        known_start = max(files.log_start_offset, 0)
        synced = max(files.recovery_point, files.high_watermark if files.is_clean else -1)
        if files.is_clean and end_offset < known_start:
            text = f"the checkpoint has the log begin at {known_start}, behind its end, {end_offset}"
            self._found(DAMAGED, text, end_offset, f"{files.directory}/{LOG_START_OFFSETS}", known_start)
        if end_offset < synced:
            text = f"the log ends at {end_offset}, but it was there up to {synced} (the checkpoints)"
            self._found(GAP, text, end_offset, files.segments[-1][1], synced - 1)
            self._listener.missing(is_damage=True)

    # Saying it

    def _not_read(self, error: StorageError, offset: int, path: str) -> None:
        if self._files.is_running and is_gone(error):
            self._note(f"{error} (removed while it was read)", path)
        else:
            files = self._files
            found = unread(error, path, files.directory).at(files.directory, files.topic, files.partition)
            self.summary.findings.append(replace(found, first_offset=offset, last_offset=offset))

    def _found(self, kind: str, text: str, first_offset: int, path: str, last_offset: int | None = None) -> None:
        files, findings = self._files, self.summary.findings
        if len(findings) > FINDINGS_MAX:
            return
        if len(findings) == FINDINGS_MAX:
            kind, text = NOTE, f"more than {FINDINGS_MAX} findings in this log: the rest is left out"
        findings.append(
            Finding(
                kind,
                text,
                files.directory,
                files.topic,
                files.partition,
                first_offset,
                first_offset if last_offset is None else last_offset,
                file=path,
                repair=self._repair(kind, path),
            )
        )

    def _repair(self, kind: str, path: str) -> str:
        """Damage has a place to look at; what is not there has none."""
        if kind == GAP:
            return no_copy(self._files.topic)
        return "" if kind == NOTE else f"oncelog dump-log --problems-only {quoted(path or self._files.path)}"

    def _note(self, text: str, path: str) -> None:
        self._found(NOTE, text, self._next_offset, path)


def items_of_log(source: Source, files: PartitionFiles) -> Iterator[tuple[str, Batches | Problem]]:
    """Chunks of all segments of a log with the path of each; a segment that cannot be read is one Problem."""
    for _, path in files.segments:
        try:
            file = source.open(path)
        except StorageError as error:
            yield path, Problem(0, 0, str(error), is_tail=True)
            continue
        try:
            for item in read_headers(file, file.size()):
                yield path, item
        except StorageError as error:
            yield path, Problem(0, 0, str(error), is_tail=True)
        finally:
            file.close()
