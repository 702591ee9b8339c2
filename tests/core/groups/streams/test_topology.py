"""What a topology needs of the topics that there are: Kafka's order of steps, its words, its partition counts."""

from __future__ import annotations

import pytest

from oncelog.core.groups.refused import Refused
from oncelog.core.groups.streams.topology import InternalTopic, StatusCode, Topology, check_indexes, configure, shown
from oncelog.errors import ErrorCode
from oncelog.wire.messages.streams_group_heartbeat import CopartitionGroup, KeyValue, Subtopology, TopicInfo
from tests.core.groups.streams.applications import joined, stateful, word_count


def configured(topology, **counts):
    named = {name.replace("_", "-"): count for name, count in counts.items()}
    return configure(Topology.of(topology.topology_epoch, topology.subtopologies), named.get)


def of(*subtopologies):
    return Topology.of(0, subtopologies)


def test_nothing_is_made_while_a_source_topic_is_missing():
    found = configured(word_count())
    assert (found.subtopologies, found.missing, found.is_ready) == (None, (), False)
    assert found.problem.code is StatusCode.MISSING_SOURCE_TOPICS
    assert found.problem.detail == "Source topics words are missing."


def test_internal_topics_get_the_partitions_of_what_is_read():
    found = configured(word_count(), words=3)
    assert found.missing == (InternalTopic("by-word", 3, 0, ()), InternalTopic("counts", 3, 0, ()))
    assert found.problem.code is StatusCode.MISSING_INTERNAL_TOPICS
    assert found.problem.detail == "Internal topics are missing: by-word, counts"
    assert not found.is_ready


def test_a_topology_whose_topics_are_there_is_ready():
    found = configured(word_count(), words=3, by_word=3, counts=3)
    assert found.is_ready
    assert found.missing == ()
    assert {name: each.task_count for name, each in found.subtopologies.items()} == {"0": 3, "1": 3}
    assert [each.is_stateful for each in found.subtopologies.values()] == [False, True]
    assert found.subtopologies["1"].topics_read == ["by-word"]


@pytest.mark.parametrize(("topic", "count"), [("by-word", 4), ("counts", 1)])
def test_an_internal_topic_with_other_partitions_is_told(topic, count):
    found = configure(
        Topology.of(0, word_count().subtopologies), ({"words": 3, "by-word": 3, "counts": 3} | {topic: count}).get
    )
    assert found.problem.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert topic in found.problem.detail


def test_what_a_topic_is_expected_to_have_is_said():
    found = configured(stateful(), words=3, counts=2)
    assert found.problem.detail == "Existing topic counts has different number of partitions: expected 3, found 2"


def test_joined_topics_must_have_equal_partitions():
    assert configured(joined("a", "b"), a=2, b=2).is_ready
    found = configured(joined("a", "b"), a=2, b=3)
    assert found.problem.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert found.problem.detail == "Following topics do not have the same number of partitions: [{a=2, b=3}]"


def with_repartition(*infos, sources=(), indexes=()):
    group = CopartitionGroup(source_topics=list(indexes), repartition_source_topics=list(range(len(infos))))
    writer = Subtopology(
        subtopology_id="0", source_topics=["words"], repartition_sink_topics=[each.name for each in infos]
    )
    reader = Subtopology(
        subtopology_id="1",
        source_topics=list(sources),
        repartition_source_topics=list(infos),
        copartition_groups=[group],
    )
    return of(writer, reader)


def test_a_repartition_topic_beside_a_source_topic_gets_its_count():
    topology = with_repartition(TopicInfo(name="r"), sources=["table"], indexes=[0])
    found = configure(topology, {"words": 2, "table": 5}.get)
    assert found.missing == (InternalTopic("r", 5, 0, ()),)


def test_a_repartition_topic_with_a_count_of_its_own_must_fit():
    topology = with_repartition(TopicInfo(name="r", partitions=4), sources=["table"], indexes=[0])
    found = configure(topology, {"words": 2, "table": 5}.get)
    assert found.problem.detail == (
        "Number of partitions [4] of repartition topic [r] doesn't match number of partitions [5] of the source topic."
    )
    assert configure(topology, {"words": 2, "table": 4}.get).missing == (InternalTopic("r", 4, 0, ()),)


def test_repartition_topics_that_are_joined_get_the_fixed_count_of_one_or_the_largest():
    fixed = with_repartition(TopicInfo(name="r", partitions=4), TopicInfo(name="s"))
    assert [each.partition_count for each in configure(fixed, {"words": 2}.get).missing] == [4, 4]
    free = with_repartition(TopicInfo(name="r"), TopicInfo(name="s"))
    assert [each.partition_count for each in configure(free, {"words": 2}.get).missing] == [2, 2]
    unlike = with_repartition(TopicInfo(name="r", partitions=4), TopicInfo(name="s", partitions=3))
    assert configure(unlike, {"words": 2}.get).problem.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS


def test_counts_are_found_through_several_subtopologies():
    def step(number, reads, writes):
        return Subtopology(
            subtopology_id=str(number),
            repartition_source_topics=[TopicInfo(name=reads)],
            repartition_sink_topics=writes,
        )

    first = Subtopology(subtopology_id="0", source_topics=["words"], repartition_sink_topics=["a"])
    found = configure(of(step(2, "b", ["c"]), step(1, "a", ["b"]), step(3, "c", []), first), {"words": 6}.get)
    assert [(each.name, each.partition_count) for each in found.missing] == [("a", 6), ("b", 6), ("c", 6)]


def test_a_loop_and_a_topic_that_nobody_writes_are_refused():
    def reader(number, reads, *writes):
        return Subtopology(
            subtopology_id=number,
            repartition_source_topics=[TopicInfo(name=reads)],
            repartition_sink_topics=list(writes),
        )

    with pytest.raises(Refused, match="loops in the topology") as loop:
        configure(of(reader("0", "a", "b"), reader("1", "b", "a")), {}.get)
    assert loop.value.error_code is ErrorCode.STREAMS_INVALID_TOPOLOGY
    with pytest.raises(Refused, match="never used as a sink"):
        configure(of(reader("0", "a")), {}.get)
    with pytest.raises(Refused, match="No source topics found for subtopology 0"):
        configure(of(Subtopology(subtopology_id="0")), {}.get)


def test_replication_and_configs_go_to_the_topic():
    info = TopicInfo(
        name="counts", replication_factor=3, topic_configs=[KeyValue(key="cleanup.policy", value="compact")]
    )
    topology = of(Subtopology(subtopology_id="0", source_topics=["words"], state_changelog_topics=[info]))
    found = configure(topology, {"words": 1}.get)
    assert found.missing == (InternalTopic("counts", 1, 3, (("cleanup.policy", "compact"),)),)


def test_ids_stand_once_and_groups_point_at_topics():
    one = Subtopology(subtopology_id="0", source_topics=["a"])
    with pytest.raises(Refused, match="more than once"):
        check_indexes([one, one])
    for index in (-1, 1):
        group = CopartitionGroup(source_topics=[index])
        with pytest.raises(Refused, match="does not have"):
            check_indexes([Subtopology(subtopology_id="0", source_topics=["a"], copartition_groups=[group])])


def test_many_names_are_shortened():
    assert shown(["a", "b", "c"]) == "a, b, c"
    assert shown(["a", "b", "c", "d", "e"]) == "a, b, c and 2 additional topics"


def test_required_topics_and_readers():
    topology = Topology.of(1, word_count().subtopologies)
    assert topology.required_topics == {"words", "by-word", "counts"}
    assert topology.readers == {"words": "0", "by-word": "1"}
    assert Topology.of(1, reversed(word_count().subtopologies)) == topology
