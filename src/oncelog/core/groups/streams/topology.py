"""The topology of a Kafka Streams application, and what follows from it and from the topics that there are (KIP-1071).

A subtopology reads source topics and repartition topics, keeps its state in changelog topics, and writes repartition
topics of others. It has as many tasks as the largest topic it reads has partitions. The broker makes repartition and
changelog topics (*internal topics*); how many partitions they get is found here, in Kafka's order of steps, because an
application acts on the first thing that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from enum import IntEnum

from oncelog.core.groups.refused import Refused
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.log_records.streams_groups import StreamsTopologyRecord
from oncelog.wire.messages.streams_group_heartbeat import CopartitionGroup, Subtopology, TopicInfo

SHOWN_TOPICS_MAX = 3
PartitionCounts = Callable[[str], int | None]  # of a topic; None where there is no such topic


class StatusCode(IntEnum):
    """What a member is told beside its tasks; Kafka's numbers."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


@dataclass(frozen=True, slots=True)
class Problem:
    """Why an application cannot run yet."""

    code: StatusCode
    detail: str


class _Unfit(Exception):
    def __init__(self, code: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.problem = Problem(code, detail)


@dataclass(frozen=True, slots=True)
class Topology:
    """A topology by subtopology."""

    topology_epoch: int
    subtopologies: Mapping[str, Subtopology]
    readers: Mapping[str, str]  # topic -> the subtopology that reads it

    @classmethod
    def of(cls, topology_epoch: int, subtopologies: Iterable[Subtopology]) -> Topology:
        """Of what a member or the log says; later ones of a name win, as in Kafka."""
        by_id = {each.subtopology_id: each for each in subtopologies}
        readers = {name: each.subtopology_id for each in by_id.values() for name in topics_read(each)}
        return cls(topology_epoch, by_id, readers)

    @property
    def required_topics(self) -> set[str]:
        """All topics that must be there."""
        return {name for each in self.subtopologies.values() for name in (*topics_read(each), *_changelogs(each))}

    def record(self, group_id: str) -> StreamsTopologyRecord:
        """As the log has it."""
        return StreamsTopologyRecord(group_id, self.topology_epoch, tuple(self.subtopologies.values()))


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic that the broker makes for the application. `replication_factor` 0 is the cluster's default."""

    name: str
    partition_count: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    """A subtopology with what the topics decide."""

    task_count: int
    source_topics: frozenset[str]
    repartition_sink_topics: frozenset[str]
    repartition_source_topics: Mapping[str, InternalTopic]
    state_changelog_topics: Mapping[str, InternalTopic]

    @property
    def is_stateful(self) -> bool:
        """Whether it has state that standby tasks can keep warm."""
        return bool(self.state_changelog_topics)

    @property
    def topics_read(self) -> list[str]:
        """Source and repartition topics."""
        return sorted({*self.source_topics, *self.repartition_source_topics})


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """The topology as the cluster's topics are now; None for the subtopologies where they cannot be configured."""

    topology_epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    missing: tuple[InternalTopic, ...] = ()
    problem: Problem | None = None

    @property
    def is_ready(self) -> bool:
        """Whether all topics are there and fit."""
        return self.problem is None


def topics_read(subtopology: Subtopology) -> list[str]:
    """What a subtopology reads."""
    return [*subtopology.source_topics, *(each.name for each in subtopology.repartition_source_topics)]


def _changelogs(subtopology: Subtopology) -> list[str]:
    return [each.name for each in subtopology.state_changelog_topics]


def invalid_topology(message: str) -> Refused:
    """The topology makes no sense, whatever topics there are."""
    return Refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


def check_indexes(subtopologies: Iterable[Subtopology]) -> None:
    """Ids stand once, and copartition groups point at topics that there are. Raises Refused."""
    seen: set[str] = set()
    for each in subtopologies:
        if each.subtopology_id in seen:
            raise invalid_topology(f"Subtopology {each.subtopology_id} is in the topology more than once.")
        seen.add(each.subtopology_id)
        for group in each.copartition_groups:
            counts = (
                (group.source_topics, len(each.source_topics)),
                (group.repartition_source_topics, len(each.repartition_source_topics)),
            )
            for indexes, count in counts:
                if any(not 0 <= index < count for index in indexes):
                    raise invalid_topology(
                        f"A copartition group of subtopology {each.subtopology_id} names a topic that it does not have."
                    )


def configure(topology: Topology, partition_count: PartitionCounts) -> ConfiguredTopology:
    """What the topology needs of the topics that there are. Raises Refused where no topics could help."""
    try:
        _check_sources(topology, partition_count)
        decided = _Decided(topology, partition_count).all_counts()
        subtopologies = {
            name: _configured(topology.subtopologies[name], decided) for name in sorted(topology.subtopologies)
        }
        missing = _missing(topology, subtopologies, partition_count)
    except _Unfit as unfit:
        return ConfiguredTopology(topology.topology_epoch, None, problem=unfit.problem)
    problem = None
    if missing:
        names = shown([each.name for each in missing])
        problem = Problem(StatusCode.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {names}")
    return ConfiguredTopology(topology.topology_epoch, subtopologies, missing, problem)


def shown(names: list[str]) -> str:
    """The first few of many."""
    more = len(names) - SHOWN_TOPICS_MAX
    return ", ".join(names[:SHOWN_TOPICS_MAX]) + (f" and {more} additional topics" if more > 0 else "")


def _check_sources(topology: Topology, partition_count: PartitionCounts) -> None:
    named = {name for each in topology.subtopologies.values() for name in each.source_topics}
    missing = sorted(name for name in named if partition_count(name) is None)
    if missing:
        raise _Unfit(StatusCode.MISSING_SOURCE_TOPICS, f"Source topics {shown(missing)} are missing.")


@dataclass(slots=True)
class _Decided:
    """How many partitions each topic has or is to have."""

    topology: Topology
    partition_count: PartitionCounts
    counts: dict[str, int] = field(default_factory=dict)  # of internal topics

    def all_counts(self) -> Callable[[str], int]:
        """The count of every topic of the topology. Raises _Unfit, Refused."""
        self._decide_repartition_topics()
        for each in self.topology.subtopologies.values():
            for group in each.copartition_groups:
                self._enforce(each, group)
        for each in self.topology.subtopologies.values():
            count = max((self.of(name) for name in topics_read(each)), default=None)
            if count is None:
                raise invalid_topology(f"No source topics found for subtopology {each.subtopology_id}")
            self.counts.update(dict.fromkeys(_changelogs(each), count))
        return lambda name: self.counts[name] if name in self.counts else self.of(name)

    def of(self, name: str) -> int:
        """A topic that is there has its own count."""
        count = self.partition_count(name)
        return self.counts[name] if count is None else count

    def _decide_repartition_topics(self) -> None:
        """One with a count of its own has that one; each other one as many as the largest topic that its writer reads.
        A writer may read repartition topics in its turn, so it takes several rounds. Raises Refused."""
        subtopologies = self.topology.subtopologies.values()
        for each in subtopologies:
            self.counts.update(
                {info.name: info.partitions for info in each.repartition_source_topics if info.partitions}
            )
        while True:
            is_open = has_moved = False
            for each in subtopologies:
                for name in each.repartition_sink_topics:
                    if name in self.counts:
                        continue
                    count = self._largest_read(each)
                    if count is None:
                        is_open = True
                    else:
                        self.counts[name] = count
                        has_moved = True
            if not is_open:
                break
            if not has_moved:
                raise invalid_topology(
                    "Failed to compute number of partitions for all repartition topics. "
                    "There may be loops in the topology that cannot be resolved."
                )
        if any(info.name not in self.counts for each in subtopologies for info in each.repartition_source_topics):
            raise invalid_topology(
                "Failed to compute number of partitions for all repartition topics, "
                "because a repartition source topic is never used as a sink topic."
            )

    def _largest_read(self, subtopology: Subtopology) -> int | None:
        known = [self.counts.get(info.name) for info in subtopology.repartition_source_topics]
        known += [self.partition_count(name) for name in subtopology.source_topics]
        return max((count for count in known if count is not None), default=None)

    def _enforce(self, subtopology: Subtopology, group: CopartitionGroup) -> None:
        """What is joined must have equal partition counts. Raises _Unfit."""
        infos = [subtopology.repartition_source_topics[index] for index in group.repartition_source_topics]
        repartition = {info.name: info for info in infos}
        sources = {subtopology.source_topics[index] for index in group.source_topics} - set(repartition)
        if sources:
            count = self._same({name: self.of(name) for name in sources})
        elif fixed := {name: self.of(name) for name, info in repartition.items() if info.partitions}:
            count = self._same(fixed)
        elif repartition:
            count = max(self.of(name) for name in repartition)
        else:
            return
        for name, info in repartition.items():
            if info.partitions and self.of(name) != count:
                raise _Unfit(
                    StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Number of partitions [{self.of(name)}] of repartition topic [{name}] doesn't match number of "
                    f"partitions [{count}] of the source topic.",
                )
        self.counts.update(dict.fromkeys(repartition, count))

    @staticmethod
    def _same(counts: Mapping[str, int]) -> int:
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{name}={counts[name]}" for name in sorted(counts))
            raise _Unfit(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Following topics do not have the same number of partitions: [{{{listed}}}]",
            )
        return next(iter(counts.values()))


def _configured(subtopology: Subtopology, count_of: Callable[[str], int]) -> ConfiguredSubtopology:
    def internal(infos: Iterable[TopicInfo]) -> dict[str, InternalTopic]:
        return {
            info.name: InternalTopic(
                info.name,
                info.partitions or count_of(info.name),
                info.replication_factor,
                tuple((each.key, each.value) for each in info.topic_configs),
            )
            for info in infos
        }

    return ConfiguredSubtopology(
        task_count=max(count_of(name) for name in topics_read(subtopology)),
        source_topics=frozenset(subtopology.source_topics),
        repartition_sink_topics=frozenset(subtopology.repartition_sink_topics),
        repartition_source_topics=internal(subtopology.repartition_source_topics),
        state_changelog_topics=internal(subtopology.state_changelog_topics),
    )


def _missing(
    topology: Topology, subtopologies: Mapping[str, ConfiguredSubtopology], partition_count: PartitionCounts
) -> tuple[InternalTopic, ...]:
    expected: dict[str, InternalTopic] = {}
    for each in subtopologies.values():
        expected |= each.repartition_source_topics
        expected |= each.state_changelog_topics
    for name in sorted(topology.required_topics):
        count = partition_count(name)
        wanted = expected.pop(name, None) if count is not None else None
        if wanted is not None and count != wanted.partition_count:
            raise _Unfit(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: "
                f"expected {wanted.partition_count}, found {count}",
            )
    return tuple(expected[name] for name in sorted(expected))
