"""The verbs of consumer groups and their offsets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from oncelog.errors import ErrorCode

Offsets = Sequence[tuple[str, int, int]]
Partitions = Sequence[tuple[str, Sequence[int]]]


class GroupVerbs:
    """Mixed into a conversation."""

    # what the conversation has
    call: Callable[..., Any]
    say: Callable[..., None]
    name: Callable[[str], Any]
    member: Callable[[str], str]
    producer: Callable[[tuple[int, int]], str]
    until: Callable[[Callable[[], Any]], Any]

    def find_group(self, group: str) -> None:
        """Wait until the group's coordinator serves; says nothing."""

        def answered() -> Any:
            found = self.call("FindCoordinator", 4, key_type=0, coordinator_keys=[self.name(group)]).coordinators[0]
            if found.error_code:
                return None
            asked = [{"group_id": self.name(group), "topics": None}]
            reply = self.call("OffsetFetch", 8, groups=asked, require_stable=False)
            return True if reply.groups[0].error_code == 0 else None

        self.until(answered)

    def join(self, group: str, *, v: int = 9, member: str = "", label: str = "", quiet: bool = False) -> Any:
        fields: dict[str, Any] = {"rebalance_timeout_ms": 5000} if v >= 1 else {}
        reply = self.call(
            "JoinGroup",
            v,
            group_id=self.name(group),
            session_timeout_ms=10_000,
            member_id=member,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b"m"}],
            **fields,
        )
        head = f"join v{v} {group!r} member={self.member(member) if not quiet else ''}{label}"
        if quiet:
            self.member(reply.member_id)
            return reply
        own = self.member(reply.member_id)
        leader = "self" if reply.leader and reply.leader == reply.member_id else repr(reply.leader)
        self.say(
            head,
            _name(reply.error_code),
            f"gen={reply.generation_id}",
            f"type={reply.protocol_type if v >= 7 else '-'}",
            f"proto={reply.protocol_name!r}",
            f"leader={leader}",
            f"me={own}",
            f"skip={reply.skip_assignment if v >= 9 else '-'}",
            f"members=[{','.join(sorted(self.member(each.member_id) for each in reply.members))}]",
        )
        return reply

    def sync(
        self,
        group: str,
        generation: int,
        member: str,
        assignments: Sequence[tuple[str, bytes]] = (),
        *,
        v: int = 5,
        label: str = "",
        quiet: bool = False,
    ) -> None:
        reply = self.call(
            "SyncGroup",
            v,
            group_id=self.name(group),
            generation_id=generation,
            member_id=member,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[{"member_id": who, "assignment": what} for who, what in assignments],
        )
        if not quiet:
            self.say(
                f"sync v{v} {group!r} gen={generation} member={self.member(member)}{label}",
                _name(reply.error_code),
                f"type={reply.protocol_type}",
                f"proto={reply.protocol_name}",
                f"assign={bytes(reply.assignment)!r}",
            )

    def only_member(self, group: str) -> tuple[str, int]:
        """One stable member with its generation; says nothing."""
        first = self.join(group, quiet=True)
        joined = self.join(group, member=first.member_id, quiet=True)
        assert joined.error_code == 0, _name(joined.error_code)
        self.sync(group, joined.generation_id, joined.member_id, [(joined.member_id, b"a")], quiet=True)
        return joined.member_id, joined.generation_id

    def heartbeat(self, group: str, generation: int, member: str, *, v: int = 4, label: str = "") -> None:
        reply = self.call("Heartbeat", v, group_id=self.name(group), generation_id=generation, member_id=member)
        head = f"heartbeat v{v} {group!r} gen={generation} member={self.member(member)}{label}"
        self.say(head, _name(reply.error_code))

    def leave(self, group: str, members: Sequence[tuple[str, str | None]], *, v: int = 5, label: str = "") -> None:
        gone: dict[str, Any] = {"member_id": members[0][0] if members else ""}
        if v >= 3:
            gone = {"members": [{"member_id": who, "group_instance_id": instance} for who, instance in members]}
        reply = self.call("LeaveGroup", v, group_id=self.name(group), **gone)
        given = " ".join(f"{self.member(who)}/{instance}" for who, instance in members)
        results = [
            f"{self.member(each.member_id)}/{each.group_instance_id}={_name(each.error_code)}" for each in reply.members
        ]
        self.say(f"leave v{v} {group!r} {given}{label}", _name(reply.error_code), *results)

    # -- offsets

    def add_offsets(
        self, transactional_id: str, producer_id: int, producer_epoch: int, group: str, *, v: int = 3
    ) -> None:
        reply = self.call(
            "AddOffsetsToTxn",
            v,
            transactional_id=self.name(transactional_id),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            group_id=self.name(group),
        )
        given = self.producer((producer_id, producer_epoch))
        self.say(f"add-offsets v{v} {transactional_id} {given} group={group!r}", _name(reply.error_code))

    def txn_offsets(
        self,
        transactional_id: str,
        group: str,
        producer_id: int,
        producer_epoch: int,
        offsets: Offsets,
        *,
        v: int = 5,
        meta: str = "",
        generation: int | None = None,
        member: str = "",
        instance: str | None = None,
        label: str = "",
    ) -> None:
        fields: dict[str, Any] = {}
        if v >= 3:
            fields = {
                "generation_id": -1 if generation is None else generation,
                "member_id": member,
                "group_instance_id": instance,
            }
        reply = self.call(
            "TxnOffsetCommit",
            v,
            transactional_id=self.name(transactional_id),
            group_id=self.name(group),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            topics=_topics(offsets, meta),
            **fields,
        )
        given = self.producer((producer_id, producer_epoch))
        member_given = self._given(generation, member, instance)
        head = f"txn-offsets v{v} {transactional_id} {given} group={group!r}{member_given}{label}"
        self.say(head, *_results(reply))

    def commit_offsets(
        self,
        group: str,
        offsets: Offsets,
        *,
        v: int = 8,
        meta: str = "",
        generation: int | None = None,
        member: str = "",
        label: str = "",
    ) -> None:
        reply = self.call(
            "OffsetCommit",
            v,
            group_id=self.name(group),
            generation_id_or_member_epoch=-1 if generation is None else generation,
            member_id=member,
            topics=_topics(offsets, meta),
        )
        head = f"commit-offsets v{v} {group!r}{self._given(generation, member, None)}{label}"
        self.say(head, *_results(reply))

    def _given(self, generation: int | None, member: str, instance: str | None) -> str:
        if generation is None:
            return ""
        return f" gen={generation} member={self.member(member)} inst={instance}"

    def offset_fetch(
        self, group: str, partitions: Partitions | None, *, v: int = 8, stable: bool = False, label: str = ""
    ) -> None:
        topics = None
        if partitions is not None:
            topics = [{"name": name, "partition_indexes": list(indexes)} for name, indexes in partitions]
        fields: dict[str, Any] = {"require_stable": stable} if v >= 7 else {}
        if v >= 8:
            asked = [{"group_id": self.name(group), "topics": topics}]
            found = self.call("OffsetFetch", v, groups=asked, **fields).groups[0]
        else:
            found = self.call("OffsetFetch", v, group_id=self.name(group), topics=topics, **fields)
        answers = []
        for topic in found.topics:
            for each in topic.partitions:
                text = f"{topic.name}-{each.partition_index}={each.committed_offset}"
                text += f":{each.metadata}" if each.metadata else ""
                answers.append(text + (f" {_name(each.error_code)}" if each.error_code else ""))
        kind = (" stable" if stable else "") + (" all" if partitions is None else "")
        head = f"offset-fetch v{v} {group!r}{kind}{label}"
        self.say(head, "-" if v < 2 else _name(found.error_code), *sorted(answers))


def _name(code: int) -> str:
    return ErrorCode(code).name


def _topics(offsets: Offsets, metadata: str) -> list[dict[str, Any]]:
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for topic, partition, offset in offsets:
        entry = {"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata}
        by_topic.setdefault(topic, []).append(entry)
    return [{"name": name, "partitions": entries} for name, entries in by_topic.items()]


def _results(reply: Any) -> list[str]:
    return sorted(
        f"{topic.name}-{each.partition_index}={_name(each.error_code)}"
        for topic in reply.topics
        for each in topic.partitions
    )
