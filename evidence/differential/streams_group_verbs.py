"""The verbs of streams groups (KIP-1071), as functions over a conversation. Tasks are written "0:0,1 1:0"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evidence.differential.conversation import Conversation
from oncelog.core.groups.streams.topology import StatusCode
from oncelog.errors import ErrorCode

Owned = Mapping[str, Sequence[int]]
Subtopology = dict[str, Any]
NONE: Owned = {}


def info(x: Conversation, plain: str, partitions: int = 0, **more: Any) -> dict[str, Any]:
    """An internal topic."""
    return {"name": x.name(plain), "partitions": partitions, "replication_factor": 0, "topic_configs": []} | more


def sub(
    x: Conversation,
    name: str,
    reads: Sequence[str] = (),
    *,
    stores: Sequence[Any] = (),
    writes: Sequence[str] = (),
    repartitions: Sequence[Any] = (),
    joins: Sequence[Any] = (),
) -> Subtopology:
    """A subtopology; internal topics are plain names, or `info`."""

    def infos(given: Sequence[Any]) -> list[dict[str, Any]]:
        return [info(x, each) if isinstance(each, str) else each for each in given]

    return {
        "subtopology_id": name,
        "source_topics": [x.name(each) for each in reads],
        "state_changelog_topics": infos(stores),
        "repartition_sink_topics": [x.name(each) for each in writes],
        "repartition_source_topics": infos(repartitions),
        "copartition_groups": list(joins),
    }


def counting(x: Conversation) -> list[Subtopology]:
    """One subtopology with a store of what topic a says."""
    return [sub(x, "0", ["a"], stores=["c"])]


def beat(
    x: Conversation,
    group: str,
    member: str,
    epoch: int,
    *,
    of: Sequence[Subtopology] | None = None,
    topology_epoch: int = 0,
    active: Owned | None = None,
    standby: Owned | None = None,
    process: str | None = None,
    timeout: int | None = None,
    label: str = "",
    quiet: bool = False,
    **fields: Any,
) -> Any:
    """One heartbeat. A join (epoch 0) of `counting` that owns nothing, unless told otherwise."""
    if epoch == 0:
        fields = {"warmup_tasks": [], "topology": _topology(of or counting(x), topology_epoch)} | fields
        process = process or f"p-{member}"
        timeout = 5_000 if timeout is None else timeout
        active, standby = NONE if active is None else active, NONE if standby is None else standby
    elif active is not None or standby is not None:
        active, standby = NONE if active is None else active, NONE if standby is None else standby
        fields = {"warmup_tasks": []} | fields
    request = {
        "group_id": x.name(group),
        "member_id": member,
        "member_epoch": epoch,
        "rebalance_timeout_ms": -1 if timeout is None else timeout,
        "active_tasks": _ids(active),
        "standby_tasks": _ids(standby),
        "process_id": process,
    }
    reply = x.call("StreamsGroupHeartbeat", 0, **(request | fields))
    if quiet:
        return reply
    given = [f"active={_text(active)}" if active is not None and epoch else ""]
    given += [f"standby={_text(standby)}" if standby else ""]
    head = " ".join(["streams-beat", repr(group), member or "''", f"epoch={epoch}", *filter(None, given)])
    if reply.error_code:
        x.say(head + label, _name(reply.error_code), f"{reply.error_message!r}")
        return reply
    x.say(
        head + label,
        "NONE",
        f"me={reply.member_id} epoch={reply.member_epoch} every={reply.heartbeat_interval_ms}",
        f"active={_listed(reply.active_tasks)} standby={_listed(reply.standby_tasks)} warmup={_listed(reply.warmup_tasks)}",
    )
    for each in reply.status or []:
        x.say(f"   {StatusCode(each.status_code).name}: {each.status_detail}")
    if reply.endpoint_information_epoch or reply.partitions_by_user_endpoint is not None:
        endpoints = sorted(map(_endpoint, reply.partitions_by_user_endpoint or []))
        x.say(f"   endpoints epoch={reply.endpoint_information_epoch}", *endpoints)
    return reply


def until_known(x: Conversation, *topics: str) -> None:
    """Wait until a group's coordinator knows these topics, and says nothing: Apache Kafka tells it a little later."""

    def known() -> Any:
        subtopology = sub(x, "0", topics)
        reply = beat(x, "probe", "probe", 0, of=[subtopology], quiet=True)
        beat(x, "probe", "probe", -1, quiet=True)
        x.call("DeleteGroups", 2, groups_names=[x.name("probe")])
        missing = StatusCode.MISSING_SOURCE_TOPICS in {each.status_code for each in reply.status or []}
        return None if missing or reply.error_code else True

    x.until(known)


def topics_for_streams(x: Conversation, **partitions: int) -> None:
    """Topics that a group's coordinator knows, too."""
    for plain, count in partitions.items():
        x.topic(plain, count)
    until_known(x, *partitions)


def describe_streams(x: Conversation, group: str, label: str = "") -> None:
    """StreamsGroupDescribe: lines for the group, its topology, and its members."""
    found = x.call("StreamsGroupDescribe", 0, group_ids=[x.name(group)]).groups[0]
    head = f"describe-streams {group!r}{label}"
    if found.error_code:
        x.say(head, _name(found.error_code), repr(found.error_message))
        return
    x.say(head, found.group_state, f"epoch={found.group_epoch} assignment={found.assignment_epoch}")
    for each in (found.topology.subtopologies or []) if found.topology else []:
        x.say(
            f"   topology {found.topology.topology_epoch} sub {each.subtopology_id}",
            f"reads={each.source_topics} writes={each.repartition_sink_topics}",
            f"stores={_infos(each.state_changelog_topics)} repartitions={_infos(each.repartition_source_topics)}",
        )
    for each in sorted(found.members, key=lambda member: member.member_id):
        endpoint = each.user_endpoint
        x.say(
            f"   {each.member_id}",
            f"epoch={each.member_epoch} topology={each.topology_epoch} process={each.process_id} rack={each.rack_id}",
            f"has={_assigned(each.assignment)} target={_assigned(each.target_assignment)}",
            f"at={f'{endpoint.host}:{endpoint.port}' if endpoint else None} classic={each.is_classic}",
        )


def _topology(subtopologies: Sequence[Subtopology], topology_epoch: int) -> dict[str, Any]:
    return {"topology_epoch": topology_epoch, "subtopologies": list(subtopologies)}


def _ids(tasks: Owned | None) -> list[dict[str, Any]] | None:
    if tasks is None:
        return None
    return [{"subtopology_id": name, "partitions": list(partitions)} for name, partitions in tasks.items()]


def _text(tasks: Owned | None) -> str:
    return (
        " ".join(f"{name}:{','.join(map(str, sorted(each)))}" for name, each in sorted((tasks or {}).items())) or "none"
    )


def _listed(found: Sequence[Any] | None) -> str:
    return "-" if found is None else _text({each.subtopology_id: each.partitions for each in found})


def _assigned(assignment: Any) -> str:
    return f"[{_listed(assignment.active_tasks)} | {_listed(assignment.standby_tasks)}]"


def _infos(found: Sequence[Any]) -> str:
    return " ".join(f"{each.name}:{each.partitions}/{each.replication_factor}" for each in found) or "none"


def _endpoint(found: Any) -> str:
    def shown(topics: Sequence[Any]) -> str:
        return " ".join(
            f"{each.topic}:{sorted(each.partitions)}" for each in sorted(topics, key=lambda each: each.topic)
        )

    where = f"{found.user_endpoint.host}:{found.user_endpoint.port}"
    return f"{where}=({shown(found.active_partitions)} | {shown(found.standby_partitions)})"


def _name(code: int) -> str:
    return ErrorCode(code).name
