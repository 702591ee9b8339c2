"""The world of the consumer groups' transcripts (KIP-848): `group_world`, with topics and the new protocol beside it.

Commands (an option is written name=value):
  topic NAME PARTITIONS | drop-topic NAME      create a topic or give it more partitions; delete it
  beat GROUP MEMBER EPOCH [topics=a,b] [regex=R] [owned=a:0,1;b:0] [static=ID] [assignor=A] [timeout=MS]
  describe GROUP                               the group and what its members have
  old-join GROUP MEMBER [topics=a,b] [owned=a-0,a-1] [static=ID]     a classic join with the embedded protocol
  old-sync GROUP MEMBER GENERATION [MEMBER=a-0,a-1 ...]              what it has; a leader brings what all get
A join (epoch 0) brings a rebalance timeout of a minute and owns nothing. Records of the log are told by their kind.
"""

from __future__ import annotations

from typing import Any

from oncelog.errors import ErrorCode
from oncelog.types import TopicPartition
from oncelog.wire.consumer_protocol import Assignment, assignment_from_bytes, assignment_to_bytes
from oncelog.wire.log_records.consumer_groups import (
    CONSUMER_GROUP_RECORDS,
    CurrentMember,
    GroupEpoch,
    MemberMetadata,
    ResolvedRegex,
    TargetEpoch,
    TargetMember,
    Tombstone,
)
from oncelog.wire.log_records.consumer_offsets import GroupMetadata
from tests.core.groups.performed_groups import NO_DELAY, GroupShell
from tests.scenarios.group_world import GroupWorld


class ConsumerGroupWorld(GroupWorld):
    """Performs one command after the other and tells what became visible."""

    def __init__(self) -> None:
        super().__init__()
        self.shell = GroupShell(NO_DELAY)

    def record_line(self, entry: Any) -> str:
        record = self.shell.coordinator.record_from_key_value(entry[0], entry[1])
        if isinstance(record, CONSUMER_GROUP_RECORDS):
            return f"{record.group_id} {self._kind(record)}"
        if isinstance(record, GroupMetadata):
            held = [(m.member_id, assignment_from_bytes(m.assignment).partitions) for m in record.members]
            members = " ".join(f"{who}:{','.join(map(str, partitions)) or '-'}" for who, partitions in held)
            return f"{record.group_id} generation={record.generation_id} [{members}]"
        return super().record_line(entry)

    def _kind(self, record: Any) -> str:
        match record:
            case Tombstone():
                return f"{record.key.name.lower().replace('_', ' ')} {record.name}".rstrip() + " deleted"
            case GroupEpoch():
                return f"epoch {record.group_epoch}"
            case MemberMetadata():
                return f"member {record.member_id}"
            case TargetEpoch():
                return f"targets of {record.assignment_epoch}"
            case TargetMember():
                return f"target {record.member_id} {self._partitions(record.partitions)}"
            case CurrentMember():
                back = f" gives back {self._partitions(record.pending_revocation)}" if record.pending_revocation else ""
                return f"current {record.member_id}@{record.member_epoch} {self._partitions(record.assigned)}{back}"
            case ResolvedRegex():
                return f"pattern {record.regex} {','.join(record.topics) or '-'}"
            case _:
                raise AssertionError(record)

    def _partitions(self, partitions: Any) -> str:
        names = {topic_id: topic.name for topic_id, topic in self.shell.topics.topics_by_id.items()}
        found = sorted(f"{names.get(each, '?')}-{index}" for each, held in partitions.items() for index in held)
        return ",".join(found) or "-"

    # -- commands

    def do_topic(self, name: str, partitions: str) -> list[str]:
        self.shell.create_topic(name, int(partitions))
        return []

    def do_drop_topic(self, name: str) -> list[str]:
        self.shell.delete_topic(name)
        return []

    def do_beat(self, group_id: str, member_id: str, member_epoch: str, **options: str) -> list[str]:
        owned = None
        if "owned" in options:
            parts = [part.partition(":") for part in options["owned"].split(";") if part]
            owned = {name: tuple(int(each) for each in held.split(",")) for name, _, held in parts}
        reply = self.shell.beat(
            member_id,
            int(member_epoch),
            group_id=group_id,
            topics=tuple(options["topics"].split(",")) if "topics" in options else None,
            regex=options.get("regex"),
            owned=owned,
            instance_id=options.get("static"),
            assignor=options.get("assignor"),
            timeout_ms=int(options["timeout"]) if "timeout" in options else None,
        )
        if reply.error_code:
            return [ErrorCode(reply.error_code).name]
        held = self.shell.held(reply)
        told = "" if held is None else " has " + (",".join(f"{t}-{p}" for t in sorted(held) for p in held[t]) or "-")
        return [f"epoch={reply.member_epoch}{told}"]

    def do_describe(self, group_id: str) -> list[str]:
        found = self.shell.described(group_id)
        if found.error_code:
            return [ErrorCode(found.error_code).name]
        lines = [f"{found.group_state} epoch={found.group_epoch} targets={found.assignment_epoch}"]
        shares = self.shell.shares(group_id)
        for each in sorted(found.members, key=lambda member: member.member_id):
            kind = " classic" if each.member_type == 0 else ""
            lines.append(f"  {each.member_id}@{each.member_epoch}{kind} {','.join(shares[each.member_id]) or '-'}")
        return lines

    def do_old_join(self, group_id: str, member_id: str, **options: str) -> list[str]:
        reply = self.shell.join_as_consumer(
            "" if member_id == "-" else member_id,
            tuple(options.get("topics", "t").split(",")),
            owned=_named(options.get("owned", "")),
            group_id=group_id,
            instance_id=options.get("static"),
        )
        return self._reply(reply)

    def do_old_sync(self, group_id: str, member_id: str, generation_id: str, **given: str) -> list[str]:
        assignments = {who: assignment_to_bytes(Assignment(_named(held))) for who, held in given.items()}
        reply = self.shell.sync(member_id, int(generation_id), assignments, group_id=group_id)
        self.told.update(token for token, known in self.shell.answers.items() if known is reply)
        if reply.error_code:
            return [ErrorCode(reply.error_code).name]
        return [",".join(map(str, assignment_from_bytes(reply.assignment).partitions)) or "-"]


def _named(text: str) -> tuple[TopicPartition, ...]:
    pairs = [part.rpartition("-") for part in text.split(",") if part]
    return tuple(TopicPartition(topic, int(index)) for topic, _, index in pairs)
