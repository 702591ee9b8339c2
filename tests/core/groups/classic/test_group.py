"""The tables of one group: who leads, which protocol wins, what goes to the log and comes back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.core.groups.classic.group import MAY_COME_FROM, Group, GroupState, Member
from oncelog.errors import ErrorCode
from oncelog.wire.consumer_protocol import Subscription, subscription_to_bytes


def member(member_id: str, *protocols: str, instance_id: str | None = None, metadata: bytes = b"") -> Member:
    return Member(
        member_id=member_id,
        group_instance_id=instance_id,
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=20,
        session_timeout_ms=10,
        protocols=tuple((name, metadata) for name in protocols or ("range",)),
    )


def group_of(*members: Member) -> Group:
    group = Group("g", protocol_type="consumer")
    for each in members:
        group.add(each)
    return group


def stable(group: Group, now_ms: int = 5) -> Group:
    for state in (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        if state is GroupState.COMPLETING_REBALANCE:
            group.start_generation(now_ms)
        else:
            group.transition_to(state, now_ms)
    return group


@pytest.mark.parametrize("before", GroupState)
@pytest.mark.parametrize("after", GroupState)
def test_states_follow_one_another_as_the_table_says(before, after):
    group = Group("g", state=before)
    if before in MAY_COME_FROM[after]:
        group.transition_to(after, 3)
        assert (group.previous_state, group.state, group.state_timestamp_ms) == (before, after, 3)
    else:
        with pytest.raises(AssertionError):
            group.transition_to(after, 3)


def test_the_first_member_leads_and_the_next_takes_over():
    group = group_of(member("a"), member("b"), member("c"))
    assert group.leader_id == "a"
    group.remove("b")
    group.remove("a")
    assert group.leader_id == "c"
    group.remove("c")
    assert group.leader_id is None
    group.add(member("d"))
    assert group.leader_id == "d"


def test_only_who_joined_may_lead():
    group = group_of(member("a"), member("b"))
    assert not group.elect_joined_leader()
    group.members["b"].is_awaiting_join = True
    assert group.elect_joined_leader()
    assert group.leader_id == "b"
    assert not Group("empty").elect_joined_leader()


@pytest.mark.parametrize(
    ("preferences", "selected"),
    [
        (["a b", "b a", "b a"], "b"),
        (["a b", "b a"], "a"),  # the earliest vote wins a tie
        (["x a", "a y"], "a"),
        (["x y z", "z y", "y z"], "y"),
        (["x z", "z", "z"], "z"),
    ],
)
def test_the_vote(preferences, selected):
    assert (
        group_of(*[member(str(i), *text.split()) for i, text in enumerate(preferences)]).select_protocol() == selected
    )


names = st.lists(st.sampled_from("abcd"), min_size=1, unique=True)


@given(st.lists(names, min_size=1, max_size=5))
def test_what_may_join_leaves_a_protocol_for_all(wishes):
    group = Group("g", protocol_type="consumer", state=GroupState.PREPARING_REBALANCE)
    for index, protocols in enumerate(wishes):
        if group.may_join_with("consumer", protocols):
            group.add(member(str(index), *protocols))
        else:
            assert not group.supported_protocols() & set(protocols)
    selected = group.select_protocol()
    assert all(selected in dict(each.protocols) for each in group.members.values())


def test_identities_are_checked_in_kafkas_order():
    group = group_of(member("a", instance_id="one"), member("b"))
    assert group.check_member("a", "one") == ErrorCode.NONE
    assert group.check_member("b", "one") == ErrorCode.FENCED_INSTANCE_ID
    assert group.check_member("a", "two") == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.check_generation("ghost", None, 9) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.check_generation("a", None, 9) == ErrorCode.ILLEGAL_GENERATION


def test_a_renamed_static_member_keeps_its_place():
    group = stable(group_of(member("a", instance_id="one"), member("b")))
    group.members["a"].assignment = b"x"
    group.pending_sync.add("a")
    group.rename_static_member(group.members["a"], "a2")
    assert list(group.members) == ["a2", "b"]
    assert (group.leader_id, group.static_members, group.pending_sync) == ("a2", {"one": "a2"}, {"a2"})
    assert group.members["a2"].assignment == b"x"


def test_what_is_logged_is_restored_with_fresh_sessions():
    group = stable(group_of(member("a", instance_id="one", metadata=b"A"), member("b", metadata=b"B")))
    restored = Group("g", metadata=group.to_metadata({"a": b"1"}))
    restored.restore(now_ms=1_000)
    assert (restored.state, restored.generation_id, restored.leader_id) == (GroupState.STABLE, 1, "a")
    assert (restored.protocol_type, restored.protocol_name, restored.state_timestamp_ms) == ("consumer", "range", 5)
    assert [each.assignment for each in restored.members.values()] == [b"1", b""]
    assert [each.subscription("range") for each in restored.members.values()] == [b"A", b"B"]
    assert {each.session_deadline_ms for each in restored.members.values()} == {1_010}
    assert restored.static_members == {"one": "a"}
    assert restored.next_deadline() == 1_010
    assert restored.to_metadata() == restored.metadata


def test_topics_are_known_only_of_consumers():
    reads = [subscription_to_bytes(Subscription((topic,))) for topic in ("t", "u")]
    group = group_of(*[member(str(index), metadata=data) for index, data in enumerate(reads)])
    assert group.subscribed_topics() == {"t", "u"}
    assert not group.is_subscribed_to("x")
    group.add(member("odd", metadata=b"?"))
    assert group.subscribed_topics() is None
    assert group.is_subscribed_to("x")
    group.protocol_type = "connect"
    assert not group.is_subscribed_to("t")
