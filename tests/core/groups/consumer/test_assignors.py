"""The server's assignors: what Apache Kafka 4.3 gives, and properties that hold for any input."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given, settings

from oncelog.core.groups.consumer.assignors import ASSIGNORS, MemberSpec, assign_range, assign_uniform


def spec(member_id, *topics, former=None, instance_id=None):
    return MemberSpec(
        member_id,
        frozenset(topics),
        instance_id,
        {topic: frozenset(held) for topic, held in (former or {}).items()},
    )


def plain(shares):
    return {who: {topic: sorted(held) for topic, held in share.items()} for who, share in shares.items()}


def test_range_gives_the_first_members_one_more_of_each_topic():
    found = assign_range([spec("m2", "a", "b"), spec("m1", "a", "b")], {"a": 5, "b": 3})
    assert plain(found) == {"m1": {"a": [0, 1, 2], "b": [0, 1]}, "m2": {"a": [3, 4], "b": [2]}}


def test_range_lets_static_members_go_first_by_instance_id():
    members = [spec("m1", "a"), spec("m2", "a", instance_id="z"), spec("m3", "a", instance_id="y")]
    assert plain(assign_range(members, {"a": 3})) == {"m3": {"a": [0]}, "m2": {"a": [1]}, "m1": {"a": [2]}}


def test_range_counts_only_who_reads_the_topic():
    found = assign_range([spec("m1", "a"), spec("m2", "a", "b"), spec("m3", "b")], {"a": 3, "b": 1})
    assert plain(found) == {"m1": {"a": [0, 1]}, "m2": {"a": [2], "b": [0]}, "m3": {}}


def test_range_does_not_look_at_what_was():
    former = {"a": [0, 1, 2, 3]}
    found = assign_range([spec("m1", "a"), spec("m2", "a", former=former)], {"a": 4})
    assert plain(found) == {"m1": {"a": [0, 1]}, "m2": {"a": [2, 3]}}


def test_uniform_keeps_what_fits_the_quota():
    members = [spec("m1", "a", former={"a": [0, 1, 2, 3]}), spec("m2", "a")]
    assert plain(assign_uniform(members, {"a": 4})) == {"m1": {"a": [0, 1]}, "m2": {"a": [2, 3]}}


def test_uniform_gives_partitions_that_nobody_had_first():
    members = [spec("m1", "a", former={"a": [0, 1, 2]}), spec("m2", "a", former={"a": [3]})]
    found = assign_uniform(members, {"a": 6})
    assert plain(found) == {"m1": {"a": [0, 1, 2]}, "m2": {"a": [3, 4, 5]}}


def test_uniform_without_topics_gives_nothing():
    assert assign_uniform([spec("m1"), spec("m2")], {"a": 4}) == {"m1": {}, "m2": {}}


def test_uniform_forgets_a_topic_that_is_no_longer_read():
    members = [spec("m1", "a", former={"b": [0, 1]}), spec("m2", "a")]
    assert plain(assign_uniform(members, {"a": 2, "b": 2})) == {"m1": {"a": [0]}, "m2": {"a": [1]}}


TOPICS = ("a", "b", "c")
counts = st.fixed_dictionaries({topic: st.integers(1, 7) for topic in TOPICS})
subscriptions = st.lists(st.sets(st.sampled_from(TOPICS)), min_size=1, max_size=6)


def complete(members, partition_counts, shares):
    """Every partition that somebody reads has exactly one owner, who reads it."""
    read = {topic for each in members for topic in each.topics}
    expected = sorted((topic, index) for topic in read for index in range(partition_counts[topic]))
    given = sorted((topic, index) for share in shares.values() for topic, held in share.items() for index in held)
    assert given == expected
    for each in members:
        assert set(shares[each.member_id]) <= each.topics


def sizes(shares):
    return [sum(map(len, share.values())) for share in shares.values()]


@settings(max_examples=150)
@given(subscriptions, counts, st.sampled_from(sorted(ASSIGNORS)))
def test_every_partition_has_one_reader(topics_of, partition_counts, assignor):
    members = [spec(f"m{index}", *topics) for index, topics in enumerate(topics_of)]
    complete(members, partition_counts, ASSIGNORS[assignor](members, partition_counts))


@settings(max_examples=150)
@given(st.integers(1, 6), st.integers(1, 6), counts)
def test_uniform_is_balanced_and_moves_no_more_than_it_must(before_count, after_count, partition_counts):
    """All read the same: the shares differ by one, and a second look at the same members moves nothing."""
    before = [spec(f"m{index}", *TOPICS) for index in range(before_count)]
    first = assign_uniform(before, partition_counts)
    after = [spec(f"m{index}", *TOPICS, former=first.get(f"m{index}", {})) for index in range(after_count)]
    second = assign_uniform(after, partition_counts)
    complete(after, partition_counts, second)
    assert max(sizes(second)) - min(sizes(second)) <= 1
    again = [spec(each.member_id, *TOPICS, former=second[each.member_id]) for each in after]
    assert assign_uniform(again, partition_counts) == second
    if after_count >= before_count:
        kept = sum(
            len(first[who].get(t, frozenset()) & second[who].get(t, frozenset())) for who in first for t in TOPICS
        )
        assert kept == sum(min(had, has) for had, has in zip(sizes(first), sizes(second), strict=False))


@settings(max_examples=150)
@given(subscriptions, subscriptions, counts)
def test_uniform_with_unlike_topics_stays_complete_whatever_was(before_topics, after_topics, partition_counts):
    before = [spec(f"m{index}", *topics) for index, topics in enumerate(before_topics)]
    first = assign_uniform(before, partition_counts)
    after = [spec(f"m{index}", *topics, former=first.get(f"m{index}", {})) for index, topics in enumerate(after_topics)]
    complete(after, partition_counts, assign_uniform(after, partition_counts))
