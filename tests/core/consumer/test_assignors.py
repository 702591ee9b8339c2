"""Who gets which partitions: worked examples, and what holds for every group."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.core.consumer.assignors import ASSIGNORS, AssignedMember, assign_joined
from oncelog.types import TopicPartition
from oncelog.wire.consumer_protocol import (
    Subscription,
    assignment_from_bytes,
    sticky_memory,
    sticky_user_data,
    subscription_to_bytes,
)
from oncelog.wire.messages.join_group import JoinGroupResponseMember

RANGE, ROUND_ROBIN, STICKY, COOPERATIVE = (
    ASSIGNORS[each] for each in ("range", "roundrobin", "sticky", "cooperative-sticky")
)


def member(member_id: str, *topics: str, owned: str = "", generation_id: int = 1, instance_id: str | None = None):
    subscription = Subscription(topics, owned_partitions=parts(owned), generation_id=generation_id)
    return AssignedMember(member_id, subscription, instance_id)


def parts(text: str) -> tuple[TopicPartition, ...]:
    """ "t0 t1" -> partitions."""
    return tuple(TopicPartition(each[0], int(each[1:])) for each in text.split())


def shown(shares) -> dict[str, str]:
    return {who: " ".join(f"{each.topic}{each.partition}" for each in share) for who, share in shares.items()}


def test_range_gives_the_first_members_more_of_every_topic():
    shares = RANGE.assign([member("b", "t", "u"), member("a", "t", "u")], {"t": 3, "u": 3})
    assert shown(shares) == {"a": "t0 t1 u0 u1", "b": "t2 u2"}


def test_range_has_nothing_for_members_without_a_share():
    shares = RANGE.assign([member("a", "t"), member("b", "t"), member("c", "u")], {"t": 1})
    assert shown(shares) == {"a": "t0", "b": "", "c": ""}


def test_static_members_are_ranked_by_their_instance():
    members = [member("a", "t"), member("z9", "t", instance_id="one"), member("z1", "t", instance_id="two")]
    assert shown(RANGE.assign(members, {"t": 3})) == {"z9": "t0", "z1": "t1", "a": "t2"}


def test_round_robin_goes_over_all_topics():
    shares = ROUND_ROBIN.assign([member("a", "t", "u"), member("b", "t", "u")], {"t": 3, "u": 3})
    assert shown(shares) == {"a": "t0 t2 u1", "b": "t1 u0 u2"}


def test_round_robin_passes_over_members_that_do_not_read_the_topic():
    """The example of Kafka's documentation."""
    members = [member("C0", "t"), member("C1", "t", "u"), member("C2", "t", "u", "v")]
    assert shown(ROUND_ROBIN.assign(members, {"t": 1, "u": 2, "v": 3})) == {"C0": "t0", "C1": "u0", "C2": "u1 v0 v1 v2"}


def test_cooperative_begins_balanced():
    shares = COOPERATIVE.assign([member("a", "t"), member("b", "t")], {"t": 3})
    assert shown(shares) == {"a": "t0 t2", "b": "t1"}


def test_cooperative_withholds_what_changes_hands_until_it_is_revoked():
    counts = {"t": 4}
    first = COOPERATIVE.assign([member("a", "t", owned="t0 t1 t2 t3"), member("b", "t", generation_id=-1)], counts)
    assert shown(first) == {"a": "t0 t1", "b": ""}
    second = COOPERATIVE.assign([member("a", "t", owned="t0 t1"), member("b", "t")], counts)
    assert shown(second) == {"a": "t0 t1", "b": "t2 t3"}


def test_cooperative_moves_nothing_of_those_that_stay():
    left = [member("a", "t", owned="t0 t3"), member("c", "t", owned="t2 t5")]
    shares = COOPERATIVE.assign(left, {"t": 6})
    assert set(shares["a"]) > set(parts("t0 t3"))
    assert set(shares["c"]) > set(parts("t2 t5"))


def test_cooperative_takes_from_the_fullest():
    """Twenty partitions, two members, a third comes: six move to it, and nobody gives up what it would get back."""
    owned = {"a": range(10), "b": range(10, 20)}
    shares = ASSIGNORS["cooperative-sticky"].assign(
        [member(name, "t", owned=" ".join(f"t{index}" for index in had)) for name, had in owned.items()]
        + [member("c", "t")],
        {"t": 20},
    )
    assert [len(shares[name]) for name in "abc"] == [7, 7, 0]


def sticky_member(member_id: str, *topics: str, had: str = "", generation_id: int = 1):
    return AssignedMember(member_id, Subscription(topics, user_data=sticky_user_data(parts(had), generation_id)))


def test_sticky_gives_back_what_members_remember():
    members = [sticky_member("a", "t", had="t1 t3"), sticky_member("b", "t", had="t0 t2"), sticky_member("c", "t")]
    assert shown(STICKY.assign(members, {"t": 4})) == {"a": "t1", "b": "t0 t2", "c": "t3"}
    assert shown(STICKY.assign(members[:2], {"t": 4})) == {"a": "t1 t3", "b": "t0 t2"}


def test_sticky_believes_the_newer_generation():
    members = [sticky_member("a", "t", had="t0", generation_id=1), sticky_member("b", "t", had="t0", generation_id=2)]
    assert shown(STICKY.assign(members, {"t": 2})) == {"a": "t1", "b": "t0"}


@pytest.mark.parametrize("user_data", [None, b"", b"\x00\x00\x00\x09nonsense"])
def test_sticky_forgets_what_it_cannot_read(user_data):
    assert sticky_memory(user_data) == ((), -1)


def test_sticky_user_data_is_javas():
    """AbstractStickyAssignor: topics with partitions, then the generation."""
    data = bytes.fromhex("00000001 0001 74 00000002 00000000 00000002 00000007")
    assert sticky_user_data(parts("t0 t2"), 7) == data
    assert sticky_memory(data) == (parts("t0 t2"), 7)


def test_the_claim_of_the_newest_generation_counts():
    members = [member("a", "t", owned="t0", generation_id=3), member("b", "t", owned="t0", generation_id=4)]
    assert shown(COOPERATIVE.assign(members, {"t": 1})) == {"a": "", "b": ""}  # a has still to give it up
    members = [member("a", "t", generation_id=5), member("b", "t", owned="t0", generation_id=4)]
    assert shown(COOPERATIVE.assign(members, {"t": 1})) == {"a": "", "b": "t0"}


@pytest.mark.parametrize("owned", ["t9", "u0", "x0"])
def test_claims_of_what_is_not_read_or_not_there_are_ignored(owned):
    shares = COOPERATIVE.assign([member("a", "t", owned=owned)], {"t": 1, "u": 1})
    assert shown(shares) == {"a": "t0"}


def test_the_leader_assigns_from_its_join_response():
    members = [
        JoinGroupResponseMember(member_id=each, metadata=subscription_to_bytes(Subscription(("t",)))) for each in "ab"
    ]
    assigned = assign_joined(RANGE, members, {"t": 2})
    assert {who: assignment_from_bytes(data).partitions for who, data in assigned.items()} == {
        "a": parts("t0"),
        "b": parts("t1"),
    }


# -- every group -------------------------------------------------------------------------------------------------------

topics = st.lists(st.sampled_from("tuvx"), unique=True, max_size=4).map(tuple)
owned = st.lists(st.sampled_from("tuvx").flatmap(lambda t: st.builds(TopicPartition, st.just(t), st.integers(0, 5))))


@st.composite
def groups(draw):
    ids = draw(st.lists(st.sampled_from("abcdef"), unique=True, min_size=1))
    members = [
        AssignedMember(each, Subscription(draw(topics), None, tuple(draw(owned)), draw(st.integers(-1, 3))))
        for each in ids
    ]
    return members, draw(st.dictionaries(st.sampled_from("tuv"), st.integers(1, 6)))


def wanted(members, counts) -> set[TopicPartition]:
    return {
        TopicPartition(topic, index)
        for each in members
        for topic in each.subscription.topics
        for index in range(counts.get(topic, 0))
    }


@pytest.mark.parametrize("assignor", [RANGE, ROUND_ROBIN], ids=lambda each: each.name)
@given(group=groups())
def test_every_partition_has_one_reader_that_wants_it(assignor, group):
    members, counts = group
    shares = assignor.assign(members, counts)
    given_out = [each for share in shares.values() for each in share]
    assert Counter(given_out) == Counter(wanted(members, counts))
    assert set(shares) == {each.member_id for each in members}
    for each in members:
        assert {share.topic for share in shares[each.member_id]} <= set(each.subscription.topics)


@given(group=groups())
def test_cooperative_members_converge_without_ever_sharing_a_partition(group):
    members, counts = group
    for generation_id in range(10, 20):
        shares = COOPERATIVE.assign(members, counts)
        given_out = Counter(each for share in shares.values() for each in share)
        assert max(given_out.values(), default=1) == 1
        for each in members:  # nobody gets what another still has
            for gained in set(shares[each.member_id]) - set(each.subscription.owned_partitions):
                assert not any(gained in other.subscription.owned_partitions for other in members)
        if given_out.keys() == wanted(members, counts):
            break
        members = [
            AssignedMember(
                each.member_id, Subscription(each.subscription.topics, None, shares[each.member_id], generation_id)
            )
            for each in members
        ]
    else:
        pytest.fail("the members never got everything")
    loads = {each.member_id: len(shares[each.member_id]) for each in members}
    for each in members:
        for other in members:
            gives = any(share.topic in other.subscription.topics for share in shares[each.member_id])
            assert not (gives and loads[each.member_id] >= loads[other.member_id] + 2)
