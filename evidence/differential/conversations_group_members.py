"""Classic groups in every version, one member and several, on connections of their own; their offsets and their end."""

from __future__ import annotations

from typing import Any

from evidence.differential.connection import Connection
from evidence.differential.conversation import Conversation, error_name
from evidence.differential.conversations_transactional_offsets import static_member
from evidence.differential.scenario import family, scenario

RANGE = [{"name": "range", "metadata": b"m"}]


class Member:
    """One member with a connection of its own, so that it may wait while others speak."""

    def __init__(self, x: Conversation, group: str, name: str, *, instance: str | None = None) -> None:
        self.x = x
        self.group = group
        self.name = name
        self.instance = instance
        self.connection: Connection = x.connection()
        self.member_id = ""
        self.generation_id = -1
        self.protocol_name = "range"

    def join(self, *, v: int = 7, protocols: list[dict[str, Any]] | None = None) -> None:
        """Ask to join; `joined` waits for the answer."""
        self.x.send(
            "JoinGroup",
            v,
            connection=self.connection,
            group_id=self.x.name(self.group),
            session_timeout_ms=10_000,
            rebalance_timeout_ms=5000,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=protocols or RANGE,
        )

    def joined(self, *, v: int = 7, quiet: bool = False) -> Any:
        reply = self.connection.receive("JoinGroup", v)[1]
        self.member_id, self.generation_id = reply.member_id, reply.generation_id
        self.protocol_name = reply.protocol_name or self.protocol_name
        self.x.member(reply.member_id)
        if not quiet:
            leads = bool(reply.leader) and reply.leader == reply.member_id
            members = sorted(self.x.member(each.member_id) for each in reply.members)
            code = error_name(reply.error_code)
            self.x.say(f"{self.name} joined v{v}", code, f"gen={reply.generation_id} leads={leads} members={members}")
        return reply

    def enter(self) -> None:
        """The two requests of a member without an instance id; says nothing."""
        self.join()
        if self.joined(quiet=True).error_code:
            self.join()

    def sync(self, assignments: dict[str, bytes] | None = None) -> None:
        self.x.send(
            "SyncGroup",
            5,
            connection=self.connection,
            group_id=self.x.name(self.group),
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name=self.protocol_name,
            assignments=[{"member_id": who, "assignment": what} for who, what in (assignments or {}).items()],
        )

    def synced(self) -> None:
        reply = self.connection.receive("SyncGroup", 5)[1]
        self.x.say(f"{self.name} synced", error_name(reply.error_code), bytes(reply.assignment))

    def heartbeat(self) -> None:
        fields = {"group_id": self.x.name(self.group), "generation_id": self.generation_id, "member_id": self.member_id}
        reply = self.x.call("Heartbeat", 4, **fields, group_instance_id=self.instance)
        self.x.say(f"{self.name} heartbeat", error_name(reply.error_code))

    def rebalancing(self) -> None:
        """Wait until it is told to join again; says nothing."""
        fields = {"group_id": self.x.name(self.group), "generation_id": self.generation_id, "member_id": self.member_id}

        def told() -> Any:
            return True if self.x.call("Heartbeat", 4, **fields).error_code == 27 else None

        self.x.until(told)


def pair(x: Conversation) -> tuple[Member, Member]:
    """Two stable members; the first leads."""
    x.find_group("g")
    one, two = Member(x, "g", "one"), Member(x, "g", "two")
    one.enter()
    if one.joined(quiet=True).error_code:
        raise AssertionError
    one.sync({one.member_id: b"all"})
    one.synced()
    two.join()
    two.joined(quiet=True)
    two.join()
    one.rebalancing()
    one.join()
    one.joined()
    two.joined()
    two.sync()
    one.sync({one.member_id: b"half", two.member_id: b"other half"})
    one.synced()
    two.synced()
    return one, two


@scenario("core")
def two_members_share(x: Conversation) -> None:
    one, two = pair(x)
    for each in (one, two):
        each.heartbeat()
    describe(x, "g")


@scenario("core")
def follower_leaves(x: Conversation) -> None:
    one, two = pair(x)
    x.leave("g", [(two.member_id, None)])
    one.heartbeat()
    two.heartbeat()
    one.join()
    one.joined()
    one.sync({one.member_id: b"all"})
    one.synced()


@scenario("core")
def leader_leaves(x: Conversation) -> None:
    one, two = pair(x)
    x.leave("g", [(one.member_id, None)])
    two.heartbeat()
    two.join()
    two.joined()
    two.sync({two.member_id: b"all"})
    two.synced()
    describe(x, "g")


@scenario("core")
def leader_leaves_before_it_synced(x: Conversation) -> None:
    """A follower that waits for its assignment is told to join again."""
    one, two = pair(x)
    one.join()
    two.rebalancing()
    two.join()
    one.joined()
    two.joined()
    two.sync()
    x.pause()
    x.leave("g", [(one.member_id, None)])
    two.synced()


@scenario("core")
def requests_during_a_rebalance(x: Conversation) -> None:
    t = x.topic("a")
    one, two = pair(x)
    one.join()
    two.rebalancing()
    two.heartbeat()
    x.commit_offsets("g", [(t, 0, 5)], generation=two.generation_id, member=two.member_id)
    x.sync("g", two.generation_id, two.member_id)
    describe(x, "g")
    two.join()
    one.joined()
    two.joined()
    describe(x, "g")
    x.commit_offsets("g", [(t, 0, 6)], generation=two.generation_id, member=two.member_id, label=" before the sync")
    x.commit_offsets("g", [(t, 0, 6)], generation=two.generation_id - 1, member=two.member_id, label=" old generation")


@scenario("core")
def protocols_in_common(x: Conversation) -> None:
    """The members' votes decide; who has nothing in common may not join."""
    x.find_group("g")
    one, two = Member(x, "g", "one"), Member(x, "g", "two")
    both = [{"name": "sticky", "metadata": b"s"}, {"name": "range", "metadata": b"r"}]
    one.join(protocols=both)
    one.joined(quiet=True)
    one.join(protocols=both)
    x.say("protocol", one.joined().protocol_name)
    one.sync({one.member_id: b"all"})
    one.synced()
    two.join(protocols=[{"name": "other", "metadata": b""}])
    two.joined()
    two.join(protocols=RANGE)
    if two.joined().error_code:
        two.join(protocols=RANGE)
    one.rebalancing()
    one.join(protocols=both)
    x.say("protocol", one.joined().protocol_name)
    two.joined()


@scenario("core")
def protocol_types(x: Conversation) -> None:
    x.find_group("g")
    x.only_member("g")
    fields: dict[str, Any] = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 5000, "member_id": ""}
    for kind in ("connect", ""):
        for v in (4, 7):
            x.ask(
                "JoinGroup", v, f" type {kind!r}", group_id=x.name("g"), protocol_type=kind, protocols=RANGE, **fields
            )
    x.ask("JoinGroup", 7, " no protocols", group_id=x.name("g"), protocol_type="consumer", protocols=[], **fields)


@family("core", range(10))
def join_group_refusals(x: Conversation, v: int) -> None:
    x.find_group("g")
    fields: dict[str, Any] = {"protocol_type": "consumer", "protocols": RANGE, "rebalance_timeout_ms": 5000}
    fields |= {"session_timeout_ms": 10_000, "member_id": ""}

    def ask(label: str, **changes: Any) -> None:
        x.ask("JoinGroup", v, label, **({"group_id": x.name("g")} | fields | changes))

    ask(" empty group", group_id="")
    for timeout in (5999, 1_800_001, 0, -1):
        ask(f" session timeout {timeout}", session_timeout_ms=timeout)
    ask(" unknown member", member_id="stranger")
    if v >= 5:
        ask(" unknown member with an instance", member_id="stranger", group_instance_id="i")


@family("core", range(6))
def sync_group_refusals(x: Conversation, v: int) -> None:
    x.find_group("g")
    m, g = x.only_member("g")
    fields = {"protocol_type": "consumer", "protocol_name": "range", "assignments": []}

    def ask(label: str, **changes: Any) -> None:
        usual = {"group_id": x.name("g"), "generation_id": g, "member_id": m}
        x.ask("SyncGroup", v, label, **(usual | fields | changes))

    ask(" again")
    ask(" unknown group", group_id=x.name("nosuch"))
    ask(" empty group", group_id="")
    ask(" stranger", member_id="stranger")
    ask(" future generation", generation_id=g + 1)
    if v >= 3:
        ask(" unknown instance", group_instance_id="i")
    if v >= 5:
        ask(" other protocol", protocol_name="sticky")
        ask(" other type", protocol_type="connect")


@family("core", range(5))
def heartbeat_refusals(x: Conversation, v: int) -> None:
    x.find_group("g")
    m, g = x.only_member("g")

    def ask(label: str, **changes: Any) -> None:
        x.ask("Heartbeat", v, label, **({"group_id": x.name("g"), "generation_id": g, "member_id": m} | changes))

    ask("")
    ask(" unknown group", group_id=x.name("nosuch"))
    ask(" empty group", group_id="")
    ask(" stranger", member_id="stranger")
    ask(" future generation", generation_id=g + 1)
    ask(" old generation", generation_id=g - 1)
    if v >= 3:
        ask(" unknown instance", group_instance_id="i")


@family("core", range(6))
def leave_group_versions(x: Conversation, v: int) -> None:
    x.find_group("g")
    m, _ = x.only_member("g")
    x.leave("g", [("stranger", None)], v=v)
    x.leave("nosuch", [(m, None)], v=v)
    if v >= 3:
        x.leave("g", [("", "i"), ("stranger", None)], v=v)
        x.leave("g", [], v=v)
    x.leave("g", [(m, None)], v=v)
    x.leave("g", [(m, None)], v=v, label=" again")
    describe(x, "g")


@family("core", (5, 7, 9))
def static_member_comes_back(x: Conversation, v: int) -> None:
    """KIP-345: the same instance with a new member id takes the place over; the old member id is fenced."""
    x.find_group("g")
    m, g = static_member(x, "g", "i")
    member = Member(x, "g", "again", instance="i")
    member.join(v=v)
    reply = member.joined(v=v)
    x.say("skip assignment", reply.skip_assignment if v >= 9 else "-", f"same generation={reply.generation_id == g}")
    fields = {"group_id": x.name("g"), "generation_id": reply.generation_id, "member_id": m, "group_instance_id": "i"}
    x.ask("Heartbeat", 4, " the old member id", **fields)
    x.leave("g", [("", "i")], label=" by instance")


@scenario("core")
def static_member_does_not_leave(x: Conversation) -> None:
    """It stays until its session is over; an operator removes it by its instance id."""
    x.find_group("g")
    m, _ = static_member(x, "g", "i")
    describe(x, "g")
    x.leave("g", [(m, "j")], label=" wrong instance")
    x.leave("g", [("stranger", "i")], label=" wrong member")
    x.leave("g", [(m, "i")])
    describe(x, "g")


@family("core", range(2, 10))
def offset_commit(x: Conversation, v: int) -> None:
    t = x.topic("a", 2)
    x.find_group("g")
    x.commit_offsets("g", [(t, 0, 5), (t, 7, 5), (x.name("nosuch"), 0, 5)], v=v, meta="note")
    x.commit_offsets("g", [(t, 0, -1)], v=v, label=" offset -1")
    x.commit_offsets("g", [(t, 1, 5)], v=v, meta="m" * 4097, label=" metadata 4097")
    x.commit_offsets("", [(t, 0, 5)], v=v, label=" empty group")
    x.commit_offsets("h", [(t, 0, 5)], v=v, generation=3, member="m", label=" unknown group with a generation")
    m, g = x.only_member("g")
    x.commit_offsets("g", [(t, 0, 7)], v=v, generation=g, member=m)
    x.commit_offsets("g", [(t, 0, 8)], v=v, generation=g + 1, member=m, label=" future generation")
    x.commit_offsets("g", [(t, 0, 8)], v=v, generation=g, member="stranger")
    x.commit_offsets("g", [(t, 0, 8)], v=v, label=" without a word")
    x.offset_fetch("g", [(t, [0, 1])])


@family("core", range(1, 10))
def offset_fetch(x: Conversation, v: int) -> None:
    t = x.topic("a", 2)
    x.find_group("g")
    x.commit_offsets("g", [(t, 0, 5)], meta="note")
    x.offset_fetch("g", [(t, [0, 1, 9]), (x.name("nosuch"), [0])], v=v)
    x.offset_fetch("nosuch", [(t, [0])], v=v)
    x.offset_fetch("", [(t, [0])], v=v)
    x.offset_fetch("g", [], v=v, label=" nothing")
    if v >= 2:
        x.offset_fetch("g", None, v=v)
        x.offset_fetch("nosuch", None, v=v)
    if v >= 7:
        pid, e = x.init("t")
        x.txn_offsets("t", "g", pid, e, [(t, 0, 9), (t, 1, 9)])
        x.offset_fetch("g", [(t, [0, 1])], v=v, stable=True)
        x.offset_fetch("g", None, v=v, stable=True)
        x.end("t", pid, e, True, settle=True)


@scenario("core")
def offset_fetch_of_several_groups(x: Conversation) -> None:
    t = x.topic("a")
    for group, offset in (("g", 5), ("h", 6)):
        x.find_group(group)
        x.commit_offsets(group, [(t, 0, offset)])
    topics = [{"name": t, "partition_indexes": [0]}]
    names = [x.name(each) for each in ("g", "h", "nosuch")]
    for v in (8, 9):
        x.ask("OffsetFetch", v, groups=[{"group_id": each, "topics": topics} for each in names])
        x.ask("OffsetFetch", v, " everything", groups=[{"group_id": each, "topics": None} for each in names])


@family("core", (10,))
def offsets_by_topic_id(x: Conversation, v: int) -> None:
    t = x.topic("a")
    x.find_group("g")
    for topic_id in (x.topic_id(t), bytes(15) + b"\xf2"):
        commits = [{"topic_id": topic_id, "partitions": [{"partition_index": 0, "committed_offset": 5}]}]
        x.ask("OffsetCommit", v, group_id=x.name("g"), generation_id_or_member_epoch=-1, member_id="", topics=commits)
        asked = [{"topic_id": topic_id, "partition_indexes": [0, 3]}]
        x.ask("OffsetFetch", v, groups=[{"group_id": x.name("g"), "topics": asked}])


@scenario("core")
def offset_delete(x: Conversation) -> None:
    t = x.topic("a", 2)
    x.find_group("g")
    x.commit_offsets("g", [(t, 0, 5), (t, 1, 6)])

    def delete(group: str, topic: str, *indexes: int) -> None:
        partitions = [{"partition_index": each} for each in indexes]
        x.ask("OffsetDelete", 0, group_id=x.name(group), topics=[{"name": topic, "partitions": partitions}])

    delete("nosuch", t, 0)
    delete("", t, 0)
    delete("g", x.name("nosuch"), 0)
    delete("g", t, 0, 7)
    x.offset_fetch("g", None)
    subscribed = b"\0\0" + b"\0\0\0\1" + len(t).to_bytes(2, "big") + t.encode() + b"\xff\xff\xff\xff"
    member = Member(x, "g", "one")
    member.join(protocols=[{"name": "range", "metadata": subscribed}])
    member.joined(quiet=True)
    member.join(protocols=[{"name": "range", "metadata": subscribed}])
    member.joined()
    member.sync({member.member_id: b"a"})
    member.synced()
    delete("g", t, 1)
    x.offset_fetch("g", None)


@family("core", range(7))
def describe_groups(x: Conversation, v: int) -> None:
    t = x.topic("a")
    for group in ("g", "h", "i"):
        x.find_group(group)
    x.only_member("g")
    x.commit_offsets("h", [(t, 0, 1)])
    m, _ = x.only_member("i")
    x.leave("i", [(m, None)])
    for group in ("g", "h", "i", "nosuch"):
        x.ask("DescribeGroups", v, groups=[x.name(group)])
    x.ask("DescribeGroups", v, " none", groups=[])
    x.ask("DescribeGroups", v, " operations", groups=[x.name("g")], include_authorized_operations=True)


@family("core", range(6))
def list_groups(x: Conversation, v: int) -> None:
    t = x.topic("a")
    for group in ("g", "h"):
        x.find_group(group)
    x.only_member("g")
    x.commit_offsets("h", [(t, 0, 1)])
    filters: list[dict[str, Any]] = [{}]
    if v >= 4:
        filters += [
            {"states_filter": ["Stable"]},
            {"states_filter": ["empty"]},
            {"states_filter": ["Dead", "Nonsense"]},
        ]
    if v >= 5:
        filters += [{"types_filter": ["classic"]}, {"types_filter": ["Consumer"]}, {"types_filter": ["nonsense"]}]
    for each in filters:
        reply = x.call("ListGroups", v, **each)
        rows = sorted(
            f"{found.group_id}:{found.protocol_type}:{found.group_state if v >= 4 else '-'}"
            for found in reply.groups
            if found.group_id.startswith(x.prefix)
        )
        x.say(f"list v{v} {each or ''}", error_name(reply.error_code), rows)


@family("core", range(3))
def delete_groups(x: Conversation, v: int) -> None:
    t = x.topic("a")
    for group in ("g", "h"):
        x.find_group(group)
    m, _ = x.only_member("g")
    x.commit_offsets("h", [(t, 0, 1)])
    x.ask("DeleteGroups", v, groups_names=[x.name("g"), x.name("nosuch")])
    x.leave("g", [(m, None)])
    x.ask("DeleteGroups", v, groups_names=[x.name("g"), x.name("h")])
    x.ask("DeleteGroups", v, " again", groups_names=[x.name("g"), x.name("h")])
    x.offset_fetch("h", [(t, [0])])


def describe(x: Conversation, group: str) -> None:
    found = x.call("DescribeGroups", 5, groups=[x.name(group)]).groups[0]
    x.say(f"describe-group {group}", error_name(found.error_code), found.group_state, len(found.members))
