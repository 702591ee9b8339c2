"""The world of the groups' transcripts: one group coordinator, its log, a clock at 0. Member ids are CLIENT-1, CLIENT-2 ...

Commands (MEMBER - is no id; an option is written name=value):
  join GROUP MEMBER [client=c] [static=ID] [protocols=range,sticky] [type=consumer] [v=9] [session=MS] [rebalance=MS]
  sync GROUP MEMBER GENERATION [MEMBER=ASSIGNMENT ...]      heartbeat GROUP MEMBER GENERATION [static=ID]
  leave GROUP MEMBER[/INSTANCE] ...
  commit GROUP PARTITION OFFSET [member=M] [gen=N]          txn-commit GROUP PARTITION OFFSET pid=N [member=M] [gen=N]
  marker PID commit|abort                                   fetch GROUP [stable]
  delete GROUP | delete-offset GROUP PARTITION | state GROUP
  hold | written | lost         append without committing; what was appended is committed; is lost
  clock +MS | restart | drop TOKEN
A request that waits says so with its token; its answer follows under that token.
"""

from __future__ import annotations

from typing import Any

from oncelog.core.groups.config import GroupConfig
from oncelog.errors import ErrorCode
from oncelog.wire.log_records.consumer_offsets import GroupDeleted, GroupMetadata, OffsetCommit, OffsetDeleted
from oncelog.wire.messages.delete_groups import DeleteGroupsRequest
from oncelog.wire.messages.join_group import JoinGroupResponse
from oncelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.core.groups.performed_groups import GroupShell


class GroupWorld:
    """Performs one command after the other and tells what became visible."""

    def __init__(self, *, initial_delay_ms: int = 0) -> None:
        self.shell = GroupShell(GroupConfig(group_initial_rebalance_delay_ms=initial_delay_ms))
        self.told: set[int] = set()
        self.logged = 0

    def handle(self, words: list[str]) -> str:
        """Perform one command; what it answers."""
        command = getattr(self, "do_" + words[0].replace("-", "_"))
        options = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        lines = command(*[word for word in words[1:] if "=" not in word], **options)
        return "\n".join([*self.log_lines(), *lines, *self.answer_lines()])

    def log_lines(self) -> list[str]:
        entries, self.logged = self.shell.log[self.logged :], len(self.shell.log)
        return [f"log {self.record_line(entry)}" for entry in entries if len(entry) == 4]

    def record_line(self, entry: Any) -> str:
        return _record(entry)

    def answer_lines(self) -> list[str]:
        new = sorted(self.shell.answers.keys() - self.told)
        self.told.update(new)
        return [f"{token}: {_response(self.shell.answers[token])}" for token in new]

    def _reply(self, answer: Any) -> list[str]:
        if isinstance(answer, int):
            return [f"waits as {answer}"]
        self.told.update(token for token, known in self.shell.answers.items() if known is answer)
        return [_response(answer)]

    # -- members

    def do_join(self, group_id: str, member_id: str, **options: str) -> list[str]:
        protocols = tuple((name, b"") for name in options.get("protocols", "range").split(","))
        return self._reply(
            self.shell.join(
                "" if member_id == "-" else member_id,
                group_id=group_id,
                instance_id=options.get("static"),
                protocols=protocols,
                protocol_type=options.get("type", "consumer"),
                client_id=options.get("client", "c"),
                version=int(options.get("v", 9)),
                session_timeout_ms=int(options.get("session", 10_000)),
                rebalance_timeout_ms=int(options.get("rebalance", 60_000)),
            )
        )

    def do_sync(self, group_id: str, member_id: str, generation_id: str, **assignments: str) -> list[str]:
        given = {each: text.encode() for each, text in assignments.items()}
        return self._reply(self.shell.sync(member_id, int(generation_id), given, group_id=group_id))

    def do_heartbeat(self, group_id: str, member_id: str, generation_id: str, **options: str) -> list[str]:
        code = self.shell.heartbeat(member_id, int(generation_id), group_id=group_id, instance_id=options.get("static"))
        return [_name(code)]

    def do_leave(self, group_id: str, *members: str) -> list[str]:
        identities = [each.partition("/") for each in members]
        reply = self.shell.leave(
            *[("" if who == "-" else who, instance or None) for who, _, instance in identities], group_id=group_id
        )
        return [" ".join(f"{who}={_name(each.error_code)}" for who, each in zip(members, reply.members, strict=True))]

    # -- offsets

    def do_commit(self, group_id: str, partition: str, offset: str, **options: str) -> list[str]:
        return [_name(self.shell.commit_offset(int(offset), group_id=group_id, **_of(partition, options)))]

    def do_txn_commit(self, group_id: str, partition: str, offset: str, **options: str) -> list[str]:
        code = self.shell.txn_commit_offset(
            int(offset), group_id=group_id, producer_id=int(options["pid"]), **_of(partition, options)
        )
        return [_name(code)]

    def do_marker(self, producer_id: str, result: str) -> list[str]:
        self.shell.marker(int(producer_id), commit=result == "commit")
        return []

    def do_fetch(self, group_id: str, stable: str = "") -> list[str]:
        found = self.shell.fetch(group_id=group_id, require_stable=bool(stable))
        return [f"{t}-{p}={_name(code) if code else offset}" for (t, p), (offset, code) in found.items()] or ["none"]

    # -- administrators

    def do_delete(self, group_id: str) -> list[str]:
        decision = self.shell.coordinator.delete_groups(DeleteGroupsRequest(groups_names=[group_id]))
        return [_name(self.shell.perform(decision).results[0].error_code)]

    def do_delete_offset(self, group_id: str, partition: str) -> list[str]:
        topic, _, index = partition.rpartition("-")
        partitions = [OffsetDeleteRequestPartition(partition_index=int(index))]
        request = OffsetDeleteRequest(
            group_id=group_id, topics=[OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
        )
        reply = self.shell.perform(self.shell.coordinator.delete_offsets(request))
        return [_name(reply.error_code or reply.topics[0].partitions[0].error_code)]

    def do_state(self, group_id: str) -> list[str]:
        group = self.shell.coordinator.groups.get(group_id)
        if group is None:
            return ["no group"]
        return [f"{group.state.value} generation={group.generation_id} members={','.join(group.members) or '-'}"]

    # -- the world itself

    def do_hold(self) -> list[str]:
        self.shell.holds_commits = True
        return []

    def do_written(self) -> list[str]:
        self.shell.holds_commits = False
        self.shell.commit()
        return []

    def do_lost(self) -> list[str]:
        self.shell.holds_commits = False
        records, self.shell.uncommitted = self.shell.uncommitted, []
        del self.shell.log[len(self.shell.log) - len(records) :]
        self.logged = len(self.shell.log)
        self.shell.coordinator.failed(records)
        self.shell.run_due()
        return []

    def do_clock(self, step: str) -> list[str]:
        self.shell.advance(int(step))
        return []

    def do_restart(self) -> list[str]:
        self.shell.restart()
        return []

    def do_drop(self, token: str) -> list[str]:
        self.shell.perform(self.shell.coordinator.cancel(int(token), self.shell.now_ms))
        return []


def _of(partition: str, options: dict[str, str]) -> dict[str, Any]:
    topic, _, index = partition.rpartition("-")
    return {
        "topic": topic,
        "partition": int(index),
        "member_id": options.get("member", ""),
        "generation_id": int(options.get("gen", -1)),
    }


def _name(code: int) -> str:
    return ErrorCode(code).name


def _response(response: Any) -> str:
    if response.error_code:
        member = getattr(response, "member_id", "")
        return _name(response.error_code) + (f" {member}" if member else "")
    if isinstance(response, JoinGroupResponse):
        members = " ".join(each.member_id for each in response.members)
        skips = " skip" if response.skip_assignment else ""
        return (
            f"generation={response.generation_id} {response.protocol_name} member={response.member_id} "
            f"leader={response.leader}{skips} [{members}]"
        )
    return f"assigned {bytes(response.assignment).decode() or '-'}"


def _record(entry: Any) -> str:
    key, value, producer_id, _ = entry
    match GroupShell().coordinator.record_from_key_value(key, value, producer_id=producer_id):
        case OffsetCommit() as each:
            pending = f" pending of {each.producer_id}" if each.is_transactional else ""
            return f"{each.group_id} {each.topic}-{each.partition}={each.offset}{pending}"
        case OffsetDeleted() as each:
            return f"{each.group_id} {each.topic}-{each.partition} deleted"
        case GroupMetadata() as each:
            members = " ".join(f"{m.member_id}:{m.assignment.decode() or '-'}" for m in each.members)
            return f"{each.group_id} generation={each.generation_id} [{members}]"
        case GroupDeleted() as each:
            return f"{each.group_id} deleted"
        case other:
            raise AssertionError(other)
