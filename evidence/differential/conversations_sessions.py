"""Time in classic groups: sessions that run out, members that do not come to a rebalance. Sessions may be short here."""

from __future__ import annotations

from typing import Any

from evidence.differential.conversation import Conversation, error_name
from evidence.differential.conversations_group_members import RANGE, Member, describe
from evidence.differential.scenario import scenario

SHORT_MS = 1000
KEPT_MS = 4000  # to be kept alive on a busy machine


def join(
    x: Conversation,
    group: str,
    member_id: str = "",
    *,
    rebalance_ms: int = 60_000,
    instance: str | None = None,
    session_ms: int = SHORT_MS,
) -> Any:
    """A member with a short session; asks again with the id it is given."""
    fields: dict[str, Any] = {"protocol_type": "consumer", "protocols": RANGE, "group_instance_id": instance}
    fields |= {"session_timeout_ms": session_ms, "rebalance_timeout_ms": rebalance_ms}
    reply = x.call("JoinGroup", 7, group_id=x.name(group), member_id=member_id, **fields)
    if error_name(reply.error_code) == "MEMBER_ID_REQUIRED":
        reply = x.call("JoinGroup", 7, group_id=x.name(group), member_id=reply.member_id, **fields)
    x.member(reply.member_id)
    return reply


def alone(x: Conversation, group: str, **how: Any) -> tuple[str, int]:
    joined = join(x, group, **how)
    x.sync(group, joined.generation_id, joined.member_id, [(joined.member_id, b"all")], quiet=True)
    return joined.member_id, joined.generation_id


def wait_for_state(x: Conversation, group: str, *states: str) -> None:
    def reached() -> Any:
        found = x.call("DescribeGroups", 5, groups=[x.name(group)]).groups[0]
        return True if found.group_state in states else None

    x.until(reached)


@scenario("sessions")
def session_runs_out(x: Conversation) -> None:
    x.find_group("g")
    m, g = alone(x, "g")
    x.heartbeat("g", g, m)
    wait_for_state(x, "g", "Empty", "Dead")
    describe(x, "g")
    x.heartbeat("g", g, m, label=" too late")
    x.sync("g", g, m, label=" too late")
    x.leave("g", [(m, None)], label=" too late")


@scenario("sessions")
def session_is_kept_by_heartbeats(x: Conversation) -> None:
    x.find_group("g")
    m, g = alone(x, "g", session_ms=KEPT_MS)
    for _ in range(22):
        x.pause(0.2)
        assert x.call("Heartbeat", 4, group_id=x.name("g"), generation_id=g, member_id=m).error_code == 0
    x.heartbeat("g", g, m)
    describe(x, "g")


@scenario("sessions")
def session_is_kept_by_commits(x: Conversation) -> None:
    t = x.topic("a")
    x.find_group("g")
    m, g = alone(x, "g", session_ms=KEPT_MS)
    topics = [{"name": t, "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
    fields = {"group_id": x.name("g"), "generation_id_or_member_epoch": g, "member_id": m, "topics": topics}
    for _ in range(22):
        x.pause(0.2)
        x.call("OffsetCommit", 8, **fields)
    x.heartbeat("g", g, m)


@scenario("sessions")
def session_of_a_static_member_runs_out(x: Conversation) -> None:
    x.find_group("g")
    m, g = alone(x, "g", instance="i")
    wait_for_state(x, "g", "Empty", "Dead")
    x.ask("Heartbeat", 4, group_id=x.name("g"), generation_id=g, member_id=m, group_instance_id="i")
    m2, g2 = alone(x, "g", instance="i")
    x.say("comes back", f"another id={m2 != m}", f"generation={g2 - g}")


@scenario("sessions")
def member_that_was_given_an_id_and_never_came(x: Conversation) -> None:
    """KIP-394: an id that was only given away is forgotten after the session timeout."""
    x.find_group("g")
    fields: dict[str, Any] = {"protocol_type": "consumer", "protocols": RANGE, "session_timeout_ms": SHORT_MS}
    fields |= {"rebalance_timeout_ms": 60_000, "group_id": x.name("g")}
    given = x.call("JoinGroup", 7, member_id="", **fields)
    x.pause(1.7)
    late = x.call("JoinGroup", 7, member_id=given.member_id, **fields)
    x.say("too late", error_name(late.error_code))
    describe(x, "g")


@scenario("sessions")
def member_that_does_not_come_to_the_rebalance(x: Conversation) -> None:
    """It keeps its session, but the others go on without it after the rebalance timeout."""
    x.find_group("g")
    m, g = alone(x, "g", rebalance_ms=500, session_ms=KEPT_MS)
    second = Member(x, "g", "second")
    second.join()
    second.joined(quiet=True)
    second.join()
    for _ in range(3):
        x.pause(0.1)
        x.call("Heartbeat", 4, group_id=x.name("g"), generation_id=g, member_id=m)
    reply = second.joined()
    x.say("members", len(reply.members))
    x.heartbeat("g", g, m, label=" the one that did not come")


@scenario("sessions")
def leader_that_does_not_sync(x: Conversation) -> None:
    """The assignment does not come in time: the rebalance begins anew, or the leader's session ends it."""
    x.find_group("g")
    joined = join(x, "g", rebalance_ms=500)
    wait_for_state(x, "g", "Empty", "Dead")
    x.heartbeat("g", joined.generation_id, joined.member_id, label=" the leader")
