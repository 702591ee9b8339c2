"""Reconciling data directories: in which order logs are read, and how what they say comes together.

Coordinators first, then every other log, then what a running broker's coordinators wrote meanwhile: a transaction that is
open in a log that was read later was known to its coordinator before, or moved meanwhile and is not judged.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from itertools import islice

from oncelog.core.reconciliation.coordinator_log import NEVER_MS, CoordinatorLog, Known
from oncelog.core.reconciliation.ended import COORDINATOR_GONE, Place, Unheard
from oncelog.core.reconciliation.findings import (
    DAMAGED,
    DECISION_WITHOUT_MARKER,
    GAP,
    HANGING,
    METADATA_TOPIC,
    UNREAD,
    Finding,
    in_order,
    no_copy,
)
from oncelog.core.reconciliation.group_offsets import Bounds, GroupOffsets, judge_offsets
from oncelog.core.reconciliation.open_transactions import judge_ongoing, judge_open
from oncelog.core.reconciliation.partition_replay import Open
from oncelog.core.two_phase.exactly_once_sink import DecisionLog
from oncelog.core.two_phase.sink_names import DECISION_TOPIC, TRANSACTIONAL_ID_PREFIX
from oncelog.errors import ConfigurationError, StorageError
from oncelog.lazy_dataclass import dataclass
from oncelog.segments.coordinators import (
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    Markers,
    Offsets,
    SinkDecisions,
    TransactionStates,
)
from oncelog.segments.directory import META, DataDirectory, PartitionFiles, list_directory
from oncelog.segments.headers import Batches, read_headers
from oncelog.segments.partition_reading import INT64_MAX, Listener, PartitionReader, PartitionSummary
from oncelog.segments.rows import BUCKET_COUNT, Rows, bucket_of, judge_bucket
from oncelog.segments.source import Source
from oncelog.segments.topic_ids import cluster_metadata
from oncelog.types import TopicPartition

FINDINGS_MAX = 100_000  # of each of the three ways of judging
SKEW_MS = 1000  # between brokers; the logs of one directory were written by one clock
Progress = Callable[[int], None]


@dataclass
class Plan:
    """What there is to read. `places` numbers the logs: coordinators' first, `rest` from `rest_from` on."""

    directories: list[DataDirectory]
    first: list[PartitionFiles]
    rest: list[PartitionFiles]

    @property
    def places(self) -> list[Place]:
        """A number for each log."""
        return [Place(each.directory, each.topic, each.partition) for each in (*self.first, *self.rest)]


@dataclass
class Report:
    """What was found, and how much was read."""

    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    log_count: int = 0
    batch_count: int = 0
    record_count: int = 0
    size_bytes: int = 0

    @property
    def faults(self) -> list[Finding]:
        """The findings that are no notes."""
        return [each for each in self.findings if each.is_fault]

    @property
    def unread(self) -> list[Finding]:
        """What could not be read: of that nothing is known."""
        return [each for each in self.findings if each.kind == UNREAD]


def plan_of(
    source: Source, paths: Iterable[str], *, decision_topic: str = DECISION_TOPIC, is_running: Callable[[str], bool]
) -> Plan:
    """List the directories. Raises StorageError, and ConfigurationError where they cannot be reconciled together."""
    directories = [list_directory(source, path, is_running=is_running(path)) for path in paths]
    clusters = {cluster for each in directories if (cluster := _cluster_id(source, each.path)) is not None}
    if len(clusters) > 1:
        raise ConfigurationError(
            f"these directories belong to {len(clusters)} clusters: reconcile each cluster by itself"
        )
    for each in directories:
        if not each.partitions and not each.unread:
            raise ConfigurationError(
                f"{each.path} holds no logs: no folder of it is named TOPIC-PARTITION and has segments"
            )
    topics = (TRANSACTION_STATE, CONSUMER_OFFSETS, decision_topic)
    everything = [files for each in directories for files in each.partitions]
    for path, count in Counter(posixpath.normpath(files.path) for files in everything).items():
        if count > 1:
            raise ConfigurationError(f"{path} would be read {count} times: name each directory once")
    first = [files for topic in topics for files in everything if files.topic == topic]
    return Plan(directories, first, [files for files in everything if files.topic not in topics])


def _cluster_id(source: Source, path: str) -> str | None:
    file = f"{path}/{META}"
    lines = source.read_whole(file).decode(errors="replace").splitlines() if source.exists(file) else []
    return next((line.partition("=")[2].strip() for line in lines if line.startswith("cluster.id=")), None)


def read_log(source: Source, files: PartitionFiles, place: int, rows: Rows, progress: Progress) -> PartitionSummary:
    """Read one log that is no coordinator's."""
    return PartitionReader(source, files, Markers(rows, place), progress).read()


class Reconciliation:
    """Call `read_first`, then `add` the summary of each log of `plan.rest`, then `conclude`."""

    def __init__(
        self, source: Source, plan: Plan, rows: Rows, decided: Rows, *, prefix: str = TRANSACTIONAL_ID_PREFIX
    ) -> None:
        self.plan = plan
        self._source, self._rows, self._decided, self._prefix = source, rows, decided, prefix
        self.coordinators = CoordinatorLog()
        self.offsets = GroupOffsets()
        self.topics: dict[str, int] = {}
        self._decisions: DecisionLog | None = None
        self._read: list[PartitionSummary] = []
        self._positions: list[tuple[PartitionFiles, tuple[str, int]]] = []
        self._summaries: list[PartitionSummary] = []
        self._findings: list[Finding] = []
        self._gone_count = 0

    def read_first(self, progress: Progress) -> None:
        """Read the logs of coordinators; of replicas of one the longest."""
        chosen = _longest(self.plan.first)
        for place, files in enumerate(self.plan.first):
            listener = self._listener(files, place) if files in chosen else Markers(self._rows, place)
            summary = PartitionReader(self._source, files, listener, progress).read()
            here = (files.directory, files.topic, files.partition)
            summary.findings += [each.at(*here) for each in getattr(listener, "findings", ())]
            self.add(summary)
            if files.topic == TRANSACTION_STATE and files in chosen:
                self._positions.append((files, summary.end_position))
        away = [where for each in self.plan.directories for where in each.lost]
        for topic, partition in (*away, *self._unread_directories()):
            if topic == TRANSACTION_STATE and partition not in self.coordinators.partitions:
                self.coordinators.gap(partition, is_damage=True)
        if any(each.lost_processes for each in self.plan.directories):  # which partitions were there nobody can say
            self.coordinators.gap(-1, is_damage=True)

    def add(self, summary: PartitionSummary) -> None:
        """A log was read."""
        self._summaries.append(summary)
        self._findings += summary.findings

    def follow(self) -> None:
        """Read what running brokers' coordinators wrote since `read_first`."""
        running = [(files, end) for files, end in self._positions if files.is_running]
        if running:
            self.coordinators.follow()
        for files, (path, position) in running:
            listener = TransactionStates(self.coordinators, _Nowhere(), _Nowhere(), self.topics, 0, files.partition)
            for batches in _tail(self._source, files.path, path, position):
                listener.batches(batches)

    def known(self) -> list[list[Known]]:
        """What coordinators know of producers, by bucket."""
        known: list[list[Known]] = [[] for _ in range(BUCKET_COUNT)]
        for each in self.coordinators.known():
            known[bucket_of(each.producer_id)].append(each)
        return known

    def opened(self) -> list[dict[int, list[tuple[Place, Open]]]]:
        """The transactions without a marker, by bucket and producer id."""
        found: list[dict[int, list[tuple[Place, Open]]]] = [{} for _ in range(BUCKET_COUNT)]
        for each in self._summaries:
            place = Place(each.directory, each.topic, each.partition)
            for opened in each.open_transactions:
                found[bucket_of(opened.producer_id)].setdefault(opened.producer_id, []).append((place, opened))
        return found

    def judged_buckets(self, buckets: Callable[[int], tuple[bytes, bytes]]) -> Iterator[Finding]:
        """Markers against decisions; `buckets` gives both rows of a bucket."""
        known, names, places = self.known(), list(self.topics), self.plan.places
        opened, unheard = self.opened(), self._unheard()
        for bucket in range(BUCKET_COUNT):
            ended, decided = buckets(bucket)
            found = judge_bucket(
                *(ended, decided, known[bucket], places, names, opened[bucket]),
                is_whole=self.is_whole,
                clock_skew_ms=self.clock_skew_ms,
                unheard=unheard,
            )
            for each in self._not_moved(found):
                if each.text == COORDINATOR_GONE:
                    self._gone_count += 1
                else:
                    yield each

    def _unheard(self) -> Unheard:
        """Which producers no coordinator needs to know any more: one whose log was lost and begun anew forgot them."""
        if any(topic == METADATA_TOPIC for topic, _ in self._unread_partitions()):
            return Unheard(INT64_MAX, NEVER_MS)
        end_id, count = max((each.producer_id for each in self.coordinators.known()), default=-1) + 1, 0
        for each in self.plan.directories:
            metadata = cluster_metadata(self._source, each.path) if each.is_oncelog else None
            if metadata is not None:
                end_id = max(end_id, metadata.next_producer_id)
                topic = metadata.topics.get(TRANSACTION_STATE)
                count = max(count, 0 if topic is None else topic.partition_count)
        return Unheard(end_id, self.coordinators.begins_ms(count))

    def conclude(self, judged: Iterable[Finding]) -> Report:
        """Everything was read; `judged` is what `judged_buckets` found."""
        self._findings += islice(judged, FINDINGS_MAX)
        self._findings += islice(self._of_open(), FINDINGS_MAX)
        self._findings += islice(self._of_offsets(), FINDINGS_MAX)
        for directory in self.plan.directories:
            self._findings += directory.unread
            for file, text in directory.problems:
                self._findings.append(Finding(DAMAGED, text, directory.path, file=file))
            self._findings += islice(_of_lost(directory), FINDINGS_MAX)
        report = Report(in_order(self._findings), [note for each in self.plan.directories for note in each.notes])
        if not self.coordinators.partitions:
            report.notes.append(
                f"no log of {TRANSACTION_STATE} is here: transactions are not judged against their decisions"
            )
        elif self.coordinators.is_damaged:
            report.notes.append(
                f"records of {TRANSACTION_STATE} are damaged, gone or were not read: what only they could tell is not judged;"
                " end nothing by hand that nobody seems to own"
            )
        elif not self.names_every_producer:
            report.notes.append(
                f"partitions of {TRANSACTION_STATE} are missing: give the directories of all brokers for a whole verdict"
            )
        if self._gone_count:
            report.notes.append(
                f"{self._gone_count} ended transactions are not judged: no coordinator knows their producers, and the log of one"
                f" of {TRANSACTION_STATE} begins later, or is not there (it may have been lost, and begun anew)"
            )
        for each in self._summaries:
            report.log_count += 1
            report.batch_count += each.batch_count
            report.record_count += each.record_count
            report.size_bytes += each.size_bytes
        return report

    @property
    def clock_skew_ms(self) -> int:
        """How far clocks may differ."""
        return SKEW_MS if len(self.plan.directories) > 1 else 0

    @property
    def is_whole(self) -> bool:
        """Whether all that coordinators ever wrote is there."""
        return self.coordinators.is_whole and self.names_every_producer and not self._has_moved

    @property
    def names_every_producer(self) -> bool:
        """Whether all coordinators' logs are here: those of oncelog appear with their first record, Apache Kafka's at once."""
        if self.coordinators.is_damaged or not self.coordinators.partitions:
            return False
        if any(each.is_oncelog for each in self.plan.directories):
            return True
        return self.coordinators.partitions == set(range(max(self.coordinators.partitions) + 1))

    @property
    def _has_moved(self) -> bool:
        return any(each.is_running for each in self.plan.directories)

    def _not_moved(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        return (each for each in findings if not self.coordinators.has_moved(each.producer_id))

    def _of_open(self) -> Iterator[Finding]:
        lost = {_identity(each) for each in self._findings if each.kind == DECISION_WITHOUT_MARKER}
        now_ms = max([self.coordinators.newest_ms, *(each.newest_marker_ms for each in self._summaries)])
        for each in self._summaries:
            place = Place(each.directory, each.topic, each.partition)
            for opened in each.open_transactions:
                found = judge_open(place, opened, self.coordinators, names_every_producer=self.names_every_producer)
                if found is not None and not (found.kind == HANGING and _identity(found) in lost):
                    yield found
        home = next((each.directory for each in self.plan.first if each.topic == TRANSACTION_STATE), "")
        yield from judge_ongoing(self.coordinators, self._decisions, now_ms=now_ms, prefix=self._prefix, directory=home)

    def _of_offsets(self) -> Iterator[Finding]:
        logs: dict[TopicPartition, Bounds] = {}
        for each in self._summaries:
            where = TopicPartition(each.topic, each.partition)
            bounds = logs.get(where, Bounds(each.log_start_offset, -1))
            logs[where] = Bounds(
                min(bounds.log_start_offset, each.log_start_offset), max(bounds.end_offset, each.end_offset)
            )
        home = next((each.directory for each in self.plan.first if each.topic == CONSUMER_OFFSETS), "")
        is_one = len(self.plan.directories) == 1 and not self.plan.directories[0].lost_processes
        numbers = {each.partition for each in self.plan.first if each.topic == CONSUMER_OFFSETS}
        has_all = any(each.is_oncelog for each in self.plan.directories) or numbers == set(
            range(max(numbers, default=-1) + 1)
        )
        yield from judge_offsets(
            self.offsets.committed.values(),
            logs,
            directory=home,
            has_every_partition=has_all and is_one,
            unread=self._unread_partitions(),
        )

    def _unread_directories(self) -> set[TopicPartition]:
        found = {TopicPartition(each.topic, each.partition) for on in self.plan.directories for each in on.unread}
        return {each for each in found if each.topic}

    def _unread_partitions(self) -> set[TopicPartition]:
        """Those whose directory or some segment could not be read."""
        segments = {TopicPartition(each.topic, each.partition) for each in self._summaries if not each.is_read}
        return self._unread_directories() | segments

    def _listener(self, files: PartitionFiles, place: int) -> Listener:
        if files.topic == TRANSACTION_STATE:
            return TransactionStates(self.coordinators, self._rows, self._decided, self.topics, place, files.partition)
        if files.topic == CONSUMER_OFFSETS:
            return Offsets(self.offsets, self._rows, place, files.partition)
        if self._decisions is None:
            self._decisions = DecisionLog()
        return SinkDecisions(self._decisions, self._rows, place)


def _of_lost(directory: DataDirectory) -> Iterator[Finding]:
    for path, text in directory.lost_processes.items():
        yield Finding(GAP, text, directory.path, file=path)
    for (topic, partition), end_offset in directory.lost.items():
        path = f"{directory.path}/{topic}-{partition}"
        text = f"no segment of it is there, but it was there up to {end_offset} (the checkpoints)"
        yield Finding(GAP, text, directory.path, topic, partition, 0, end_offset - 1, file=path, repair=no_copy(topic))


def _identity(finding: Finding) -> tuple[object, ...]:
    return finding.directory, finding.topic, finding.partition, finding.first_offset, finding.producer_id


class _Nowhere:
    def append(self, bucket: int, data: bytes) -> None:
        """What moved meanwhile is not judged: its rows are not needed."""


def _longest(files: Sequence[PartitionFiles]) -> list[PartitionFiles]:
    best: dict[TopicPartition, PartitionFiles] = {}
    for each in files:
        known = best.get(each.where)
        if known is None or known.segments[-1][0] < each.segments[-1][0]:
            best[each.where] = each
    return list(best.values())


def _tail(source: Source, directory: str, path: str, position: int) -> Iterator[Batches]:
    """Batches of a log behind a position of one of its segments, in it and in later ones."""
    names = [f"{directory}/{name}" for name in source.list(directory) if name.endswith(".log")]
    for each in (name for name in names if name >= path):
        try:
            file = source.open(each)
        except StorageError:
            continue  # cleaned or removed meanwhile: its newest records stand later
        try:
            for item in read_headers(file, file.size(), position if each == path else 0):
                if isinstance(item, Batches):
                    yield item
        finally:
            file.close()
