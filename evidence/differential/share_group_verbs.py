"""The verbs of share groups (KIP-932), as functions over a conversation: a line for each request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evidence.differential.connection import Connection
from evidence.differential.conversation import Conversation, error_name
from oncelog.errors import ErrorCode

ACCEPT, RELEASE, REJECT, RENEW, GAP = 1, 2, 3, 4, 0
GROUP_CONFIG = 32
Said = tuple[int, int, Sequence[int]]  # first and last offset, types
EARLY = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def topic_for_shares(x: Conversation, plain: str, partitions: int = 1) -> str:
    """A topic that a share group's coordinator knows, too."""
    name = x.topic(plain, partitions)
    joined(x, f"probe-{plain}", "probe", [name], partitions)
    share_beat(x, f"probe-{plain}", "probe", -1, quiet=True)
    return name


def configure(x: Conversation, group: str, **configs: Any) -> None:
    """Configs of a group; it reads from the start. Says nothing."""
    changes = [
        {"name": f"share.{name.replace('_', '.')}", "config_operation": 0, "value": str(value)}
        for name, value in {"auto_offset_reset": "earliest", **configs}.items()
    ]
    asked = {"resource_type": GROUP_CONFIG, "resource_name": x.name(group), "configs": changes}
    code = x.call("IncrementalAlterConfigs", 1, resources=[asked], validate_only=False).responses[0].error_code
    assert code == 0, error_name(code)


def share_beat(
    x: Conversation,
    group: str,
    member: str,
    epoch: int,
    *,
    topics: Sequence[str] | None = None,
    rack: str | None = None,
    label: str = "",
    quiet: bool = False,
) -> Any:
    """One heartbeat."""
    reply = x.call(
        "ShareGroupHeartbeat",
        1,
        group_id=x.name(group),
        member_id=member,
        member_epoch=epoch,
        rack_id=rack,
        subscribed_topic_names=None if topics is None else list(topics),
    )
    if not quiet:
        given = f" topics={list(topics)}" if topics is not None else ""
        told = (
            repr(reply.error_message)
            if reply.error_code
            else f"me={reply.member_id} every={reply.heartbeat_interval_ms}"
        )
        x.say(f"share-beat {group!r} {member} epoch={epoch}{given}{label}", error_name(reply.error_code), told)
    return reply


def joined(x: Conversation, group: str, member: str, topics: Sequence[str], partitions: int) -> int:
    """Heartbeats until the member has so many partitions; says nothing. Its epoch."""
    state: dict[str, Any] = {"epoch": 0, "has": 0}

    def moved() -> int | None:
        known = state["epoch"]
        reply = share_beat(x, group, member, known, topics=topics if known == 0 else None, quiet=True)
        if reply.error_code in EARLY:
            x.call("FindCoordinator", 6, key_type=0, coordinator_keys=[x.name(group)])
            return None
        assert reply.error_code == 0, (error_name(reply.error_code), reply.error_message)
        state["epoch"] = reply.member_epoch
        if reply.assignment is not None:
            state["has"] = sum(len(each.partitions) for each in reply.assignment.topic_partitions)
        return reply.member_epoch if state["has"] >= partitions else None

    return int(x.until(moved))


class Member:
    """A member's session, by a connection of its own."""

    def __init__(self, x: Conversation, group: str, member: str, topic: str) -> None:
        self.x, self.group, self.name, self.topic = x, group, member, topic
        self.topic_id = x.topic_id(topic)
        self.connection: Connection = x.connection()
        self.epoch = 0

    def _epoch(self, epoch: int | None) -> int:
        if epoch is not None:
            return epoch
        self.epoch += 1
        return self.epoch - 1

    def fetch(
        self,
        *said: Said,
        epoch: int | None = None,
        partitions: Sequence[int] = (0,),
        wait: int = 300,
        records: int = 500,
        batch: int = 500,
        exact: bool = False,
        renews: bool = False,
        label: str = "",
        quiet: bool = False,
    ) -> list[tuple[int, int, int]]:
        """ShareFetch: what it acquires."""
        session_epoch = self._epoch(epoch)
        parts = [{"partition_index": each, "acknowledgement_batches": _batches(said)} for each in partitions]
        names_them = bool(said) or session_epoch == 0
        sizes = (0, 0, 0, 0) if renews else (wait, 1, 1 << 20, records)
        reply = self.connection.call(
            "ShareFetch",
            2,
            {
                "group_id": self.x.name(self.group),
                "member_id": self.name,
                "share_session_epoch": session_epoch,
                "max_wait_ms": sizes[0],
                "min_bytes": sizes[1],
                "max_bytes": sizes[2],
                "max_records": sizes[3],
                "batch_size": batch,
                "share_acquire_mode": int(exact),
                "is_renew_ack": renews,
                "topics": [{"topic_id": self.topic_id, "partitions": parts}] if names_them else [],
            },
        )
        found: list[tuple[int, int, int]] = []
        shown = []
        for topic in reply.responses:
            for part in topic.partitions:
                got = [(each.first_offset, each.last_offset, each.delivery_count) for each in part.acquired_records]
                found += got
                ack = f" ack={error_name(part.acknowledge_error_code)}" if said else ""
                shown.append(f"{part.partition_index}:{error_name(part.error_code)}{ack} {_ranges(got)}")
        if not quiet:
            head = f"share-fetch {self.group!r} {self.name} epoch={session_epoch}{_said(said)}"
            limit = f" records={records}" if records != 500 else ""
            self.x.say(
                f"{head}{limit}{' exact' if exact else ''}{label}", error_name(reply.error_code), "; ".join(shown)
            )
        return found

    def until_fetched(self, *, label: str = "") -> list[tuple[int, int, int]]:
        """Fetch until something comes; only that is said."""
        found = self.x.until(lambda: self.fetch(quiet=True, wait=500) or None)
        self.x.say(f"share-fetch {self.group!r} {self.name} in the end{label}", _ranges(found))
        return list(found)

    def acknowledge(
        self, *said: Said, epoch: int | None = None, partition: int = 0, renews: bool = False, label: str = ""
    ) -> None:
        """ShareAcknowledge."""
        session_epoch = self._epoch(epoch)
        parts = [{"partition_index": partition, "acknowledgement_batches": _batches(said)}]
        reply = self.connection.call(
            "ShareAcknowledge",
            2,
            {
                "group_id": self.x.name(self.group),
                "member_id": self.name,
                "share_session_epoch": session_epoch,
                "is_renew_ack": renews,
                "topics": [{"topic_id": self.topic_id, "partitions": parts}] if said else [],
            },
        )
        shown = [
            f"{part.partition_index}:{error_name(part.error_code)} {part.error_message or ''}".rstrip()
            for topic in reply.responses
            for part in topic.partitions
        ]
        head = f"share-acknowledge {self.group!r} {self.name} epoch={session_epoch}{_said(said)}"
        self.x.say(f"{head}{label}", error_name(reply.error_code), "; ".join(shown))


def share_offsets(x: Conversation, group: str, topics: Sequence[tuple[str, Sequence[int]]] | None = None) -> None:
    """DescribeShareGroupOffsets."""
    wanted = None if topics is None else [{"topic_name": name, "partitions": list(found)} for name, found in topics]
    reply = x.call("DescribeShareGroupOffsets", 1, groups=[{"group_id": x.name(group), "topics": wanted}])
    found = reply.groups[0]
    shown = [
        f"{topic.topic_name}/{part.partition_index}:{part.start_offset} lag={part.lag} {error_name(part.error_code)}"
        for topic in sorted(found.topics, key=lambda each: str(each.topic_name))
        for part in sorted(topic.partitions, key=lambda each: int(each.partition_index))
    ]
    x.say(f"share-offsets {group!r}", error_name(found.error_code), "; ".join(shown))


def alter_offsets(x: Conversation, group: str, offsets: Sequence[tuple[str, int, int]]) -> None:
    """AlterShareGroupOffsets: (topic, partition, start offset)."""
    topics = [
        {"topic_name": name, "partitions": [{"partition_index": index, "start_offset": offset}]}
        for name, index, offset in offsets
    ]
    reply = x.call("AlterShareGroupOffsets", 0, group_id=x.name(group), topics=topics)
    shown = [
        f"{topic.topic_name}/{part.partition_index}:{error_name(part.error_code)} {part.error_message or ''}".rstrip()
        for topic in sorted(reply.responses, key=lambda each: str(each.topic_name))
        for part in topic.partitions
    ]
    told = [error_name(reply.error_code), reply.error_message or "", "; ".join(shown)]
    x.say(f"alter-share-offsets {group!r} {[each[1:] for each in offsets]}", " ".join(filter(None, told)))


def delete_offsets(x: Conversation, group: str, topics: Sequence[str]) -> None:
    """DeleteShareGroupOffsets."""
    reply = x.call(
        "DeleteShareGroupOffsets", 0, group_id=x.name(group), topics=[{"topic_name": each} for each in topics]
    )
    shown = [
        f"{each.topic_name}:{error_name(each.error_code)} {each.error_message or ''}".rstrip()
        for each in sorted(reply.responses, key=lambda each: str(each.topic_name))
    ]
    told = [error_name(reply.error_code), reply.error_message or "", "; ".join(shown)]
    x.say(f"delete-share-offsets {group!r} {list(topics)}", " ".join(filter(None, told)))


def describe_share(x: Conversation, group: str, label: str = "") -> None:
    """ShareGroupDescribe, without the epochs: Apache Kafka's first assignment comes an epoch later."""
    found = x.call("ShareGroupDescribe", 1, group_ids=[x.name(group)]).groups[0]
    if found.error_code:
        x.say(f"describe-share {group!r}{label}", error_name(found.error_code), repr(found.error_message))
        return
    x.say(f"describe-share {group!r}{label}", found.group_state, found.assignor_name)
    for each in sorted(found.members, key=lambda member: str(member.member_id)):
        has = [f"{part.topic_name}{sorted(part.partitions)}" for part in each.assignment.topic_partitions]
        x.say(f"   {each.member_id}", f"rack={each.rack_id} topics={sorted(each.subscribed_topic_names)} has={has}")


def _batches(said: Sequence[Said]) -> list[dict[str, Any]]:
    return [{"first_offset": a, "last_offset": b, "acknowledge_types": list(types)} for a, b, types in said]


def _said(said: Sequence[Said]) -> str:
    return "".join(f" {a}-{b}:{','.join(map(str, types))}" for a, b, types in said)


def _ranges(found: Sequence[tuple[int, int, int]]) -> str:
    return " ".join(f"{a}-{b}x{count}" for a, b, count in found) or "nothing"
