"""The verbs of consumer groups (KIP-848), as functions over a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evidence.differential.conversation import Conversation
from oncelog.errors import ErrorCode
from oncelog.types import TopicPartition
from oncelog.wire.consumer_protocol import Assignment as ClassicAssignment
from oncelog.wire.consumer_protocol import (
    Subscription,
    assignment_from_bytes,
    assignment_to_bytes,
    subscription_to_bytes,
)

Owned = Mapping[str, Sequence[int]]


def topic_for_groups(x: Conversation, plain: str, partitions: int = 1) -> str:
    """A topic that a group's coordinator knows, too: Apache Kafka tells it a little later than the leader."""
    name = x.topic(plain, partitions)
    member = f"probe-{plain}"

    def known() -> Any:
        reply = beat(x, f"probe-{plain}", member, 0, topics=[name], quiet=True)
        beat(x, f"probe-{plain}", member, -1, quiet=True)
        assigned = reply.assignment.topic_partitions
        return True if sum(len(each.partitions) for each in assigned) == partitions else None

    x.until(known)
    return name


def beat(
    x: Conversation,
    group: str,
    member: str,
    epoch: int,
    *,
    topics: Sequence[str] | None = None,
    regex: str | None = None,
    owned: Owned | None = None,
    timeout: int | None = None,
    assignor: str | None = None,
    instance: str | None = None,
    rack: str | None = None,
    v: int = 1,
    label: str = "",
    quiet: bool = False,
) -> Any:
    """One heartbeat. A join (epoch 0) brings a rebalance timeout and owns nothing, unless told otherwise."""
    if epoch == 0:
        timeout = 5000 if timeout is None else timeout
        owned = {} if owned is None else owned
    fields: dict[str, Any] = {"subscribed_topic_regex": regex} if v >= 1 else {}
    reply = x.call(
        "ConsumerGroupHeartbeat",
        v,
        group_id=x.name(group),
        member_id=member,
        member_epoch=epoch,
        instance_id=instance,
        rack_id=rack,
        rebalance_timeout_ms=-1 if timeout is None else timeout,
        subscribed_topic_names=None if topics is None else list(topics),
        server_assignor=assignor,
        topic_partitions=None
        if owned is None
        else [{"topic_id": x.topic_id(name), "partitions": list(held)} for name, held in owned.items()],
        **fields,
    )
    given = [f"topics={list(topics)}" if topics is not None else "", f"regex={regex!r}" if regex is not None else ""]
    given += [f"owned={_held(owned)}" if owned is not None and epoch else "", f"inst={instance}" if instance else ""]
    given += [f"assignor={assignor}" if assignor else ""]
    head = " ".join(["beat", f"v{v}", repr(group), _who(x, member), f"epoch={epoch}", *filter(None, given)])
    if quiet:
        return reply
    message = f"{reply.error_message!r}" if reply.error_code else ""
    if reply.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION:
        message = "..."  # RE2's words for what is wrong
    assigned = "-" if reply.assignment is None else _assigned(x, reply.assignment.topic_partitions)
    x.say(
        head + label,
        _name(reply.error_code),
        message
        or f"me={_who(x, reply.member_id or '')} epoch={reply.member_epoch} every={reply.heartbeat_interval_ms}",
        *([] if message else [f"assigned={assigned}"]),
    )
    return reply


def until_epoch_after(x: Conversation, group: str, member: str, epoch: int, **how: Any) -> int:
    """Heartbeats until the member has gone on; says nothing. The epoch it is in then."""

    def moved() -> int | None:
        reply = beat(x, group, member, epoch, quiet=True, **how)
        assert reply.error_code == 0, _name(reply.error_code)
        return reply.member_epoch if reply.member_epoch > epoch else None

    return int(x.until(moved))


def describe_group(x: Conversation, group: str, *, v: int = 1, label: str = "") -> None:
    """ConsumerGroupDescribe: one line for the group, one per member."""
    found = x.call("ConsumerGroupDescribe", v, group_ids=[x.name(group)]).groups[0]
    if found.error_code:
        x.say(f"describe-group v{v} {group!r}{label}", _name(found.error_code), repr(found.error_message))
        return
    x.say(
        f"describe-group v{v} {group!r}{label}",
        found.group_state,
        f"epoch={found.group_epoch}",
        f"assignment={found.assignment_epoch}",
        found.assignor_name,
    )
    for each in sorted(found.members, key=lambda member: _who(x, member.member_id)):
        x.say(
            f"   {_who(x, each.member_id)}",
            f"epoch={each.member_epoch}",
            f"inst={each.instance_id} rack={each.rack_id}",
            f"topics={sorted(each.subscribed_topic_names)} regex={each.subscribed_topic_regex!r}",
            f"has={_assigned(x, each.assignment.topic_partitions)}",
            f"target={_assigned(x, each.target_assignment.topic_partitions)}",
            f"type={each.member_type if v >= 1 else '-'}",
        )


def list_group(x: Conversation, group: str, *, v: int = 5, **filters: list[str]) -> None:
    """ListGroups: only this group is written down."""
    found = x.call("ListGroups", v, **filters).groups
    mine = [each for each in found if each.group_id == x.name(group)]
    shown = [f"{each.protocol_type!r} {each.group_state} {each.group_type if v >= 5 else '-'}" for each in mine]
    x.say(f"list v{v} {group!r} {filters or ''}", shown[0] if shown else "not listed")


def delete_group(x: Conversation, group: str) -> None:
    """DeleteGroups."""
    x.say(
        f"delete-group {group!r}", _name(x.call("DeleteGroups", 2, groups_names=[x.name(group)]).results[0].error_code)
    )


def classic_join(
    x: Conversation,
    group: str,
    member: str,
    topics: Sequence[str],
    *,
    owned: Owned | None = None,
    instance: str | None = None,
    protocols: Sequence[str] = ("range",),
    v: int = 9,
    label: str = "",
) -> Any:
    """JoinGroup of a consumer, its subscription in the embedded protocol."""
    held = tuple(TopicPartition(name, index) for name, indexes in (owned or {}).items() for index in indexes)
    metadata = subscription_to_bytes(Subscription(tuple(topics), owned_partitions=held), version=1)
    reply = x.call(
        "JoinGroup",
        v,
        group_id=x.name(group),
        session_timeout_ms=10_000,
        rebalance_timeout_ms=5_000,
        member_id=member,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[{"name": each, "metadata": metadata} for each in protocols],
    )
    head = f"join v{v} {group!r} {_who(x, member)} owned={_held(owned or {})}" + (
        f" inst={instance}" if instance else ""
    )
    me = _who(x, reply.member_id)
    x.say(
        head + label,
        _name(reply.error_code),
        f"gen={reply.generation_id} type={reply.protocol_type} proto={reply.protocol_name} me={me}",
        f"leader={'self' if reply.leader and reply.leader == reply.member_id else repr(reply.leader)}",
        f"members={len(reply.members)}",
    )
    return reply


def classic_sync(
    x: Conversation, group: str, member: str, generation: int, given: Mapping[str, Owned] | None = None, label: str = ""
) -> Any:
    """SyncGroup of a consumer; a leader brings what each member gets."""
    assignments = [
        {
            "member_id": who,
            "assignment": assignment_to_bytes(
                ClassicAssignment(tuple(TopicPartition(t, p) for t, ps in held.items() for p in ps))
            ),
        }
        for who, held in (given or {}).items()
    ]
    reply = x.call(
        "SyncGroup",
        5,
        group_id=x.name(group),
        generation_id=generation,
        member_id=member,
        protocol_type="consumer",
        protocol_name="range",
        assignments=assignments,
    )
    held = "-" if reply.error_code else sorted(str(each) for each in assignment_from_bytes(reply.assignment).partitions)
    x.say(f"sync {group!r} {_who(x, member)} gen={generation}{label}", _name(reply.error_code), f"assigned={held}")
    return reply


def fetch_as(x: Conversation, group: str, member: str | None, epoch: int, topic: str, label: str = "") -> None:
    """OffsetFetch v9 by a member."""
    asked = [
        {
            "group_id": x.name(group),
            "member_id": member,
            "member_epoch": epoch,
            "topics": [{"name": topic, "partition_indexes": [0]}],
        }
    ]
    found = x.call("OffsetFetch", 9, groups=asked).groups[0]
    offsets = [each.committed_offset for every in found.topics for each in every.partitions]
    who = "null" if member is None else _who(x, member)
    x.say(f"offset-fetch v9 {group!r} {who} epoch={epoch}{label}", _name(found.error_code), offsets)


def assigned_to(reply: Any, topic_id: bytes) -> list[int]:
    """The partitions of one topic in a heartbeat's answer."""
    found = [] if reply.assignment is None else reply.assignment.topic_partitions
    return [index for each in found if each.topic_id == topic_id for index in each.partitions]


def _who(x: Conversation, member: str) -> str:
    return member if len(member) < 10 else x.member(member)


def _name(code: int) -> str:
    return ErrorCode(code).name


def _held(owned: Owned) -> str:
    return "{" + " ".join(f"{name}:{list(held)}" for name, held in sorted(owned.items())) + "}"


def _assigned(x: Conversation, topics: Sequence[Any]) -> str:
    names = {each.topic_id: each.name for each in x.call("Metadata", 12, topics=None).topics}
    held = {names.get(each.topic_id, "?"): sorted(each.partitions) for each in topics}
    return _held(held)
