"""Classic groups, their offsets, and offsets in transactions."""

from __future__ import annotations

from evidence.differential.conversation import Conversation, error_name
from evidence.differential.scenario import scenario
from oncelog.errors import ErrorCode


@scenario("core")
def add_offsets_basic(x: Conversation) -> None:
    x.topic("a")
    pid, e = x.init("t", v=4)
    x.add_offsets("t", pid, e, "g", v=3)
    x.describe("t")
    x.add_offsets("t", pid, e, "g", v=4)
    x.add_offsets("nosuch", pid, e, "g")
    x.add_offsets("", pid, e, "g")
    x.add_offsets("t", pid, e, "")
    x.add_offsets("t", pid, e + 1, "g")
    x.end("t", pid, e, True, v=4, settle=True)


@scenario("core")
def toc_visible_after_commit(x: Conversation) -> None:
    t = x.topic("a", 2)
    x.find_group("g")
    pid, e = x.init("t")
    x.commit_offsets("g", [(t, 0, 3)])
    x.txn_offsets("t", "g", pid, e, [(t, 0, 10), (t, 1, 20)])
    x.describe("t")
    x.offset_fetch("g", [(t, [0, 1])])
    x.offset_fetch("g", [(t, [0, 1])], stable=True)
    x.offset_fetch("g", None)
    x.offset_fetch("g", None, stable=True)
    x.end("t", pid, e, True, settle=True)
    x.offset_fetch("g", [(t, [0, 1])])
    x.offset_fetch("g", None, stable=True)


@scenario("core")
def toc_dropped_after_abort(x: Conversation) -> None:
    t = x.topic("a", 2)
    x.find_group("g")
    pid, e = x.init("t")
    x.commit_offsets("g", [(t, 0, 3)])
    x.txn_offsets("t", "g", pid, e, [(t, 0, 10), (t, 1, 20)])
    x.end("t", pid, e, False, settle=True)
    x.offset_fetch("g", [(t, [0, 1])], stable=True)
    x.offset_fetch("g", None)


@scenario("core")
def toc_old_protocol(x: Conversation) -> None:
    t = x.topic("a")
    x.find_group("g")
    pid, e = x.init("t", v=4)
    for v in (0, 2, 3, 4):
        x.txn_offsets("t", "g", pid, e, [(t, 0, 10)], v=v, label=" without AddOffsets")
    x.describe("t")
    x.add_offsets("t", pid, e, "g")
    for v in (0, 2, 3, 4):
        x.txn_offsets("t", "g", pid, e, [(t, 0, 10 + v)], v=v)
    for v in (7, 8, 9):
        x.offset_fetch("g", [(t, [0])], v=v, stable=True)
    for v in (1, 2, 5, 6):
        x.offset_fetch("g", [(t, [0])], v=v)
    x.end("t", pid, e, True, v=4, settle=True)
    for v in (1, 2, 5, 6, 7, 8, 9):
        x.offset_fetch("g", [(t, [0])], v=v)


@scenario("core")
def toc_field_errors(x: Conversation) -> None:
    t = x.topic("a")
    x.find_group("g")
    pid, e = x.init("t")
    x.txn_offsets("t", "g", pid, e, [(t, 0, 1), (t, 9, 1), (x.name("nosuch"), 0, 1)], label=" unknown partitions")
    x.txn_offsets("t", "g", pid, e, [(t, 0, 2)], meta="m" * 4096, label=" metadata 4096")
    x.txn_offsets("t", "g", pid, e, [(t, 0, 2)], meta="m" * 4097, label=" metadata 4097")
    x.txn_offsets("t", "g", pid, e, [(t, 0, -1)], label=" offset -1")
    x.txn_offsets("t", "g", pid, e, [(t, 0, -5)], label=" offset -5")
    x.txn_offsets("t", "g", pid, e, [], label=" nothing")
    x.end("t", pid, e, True, settle=True)
    asked = [{"group_id": x.name("g"), "topics": None}]
    found = x.call("OffsetFetch", 8, groups=asked, require_stable=False).groups[0]
    stored = [
        (p.partition_index, p.committed_offset, len(p.metadata or "")) for q in found.topics for p in q.partitions
    ]
    x.say("stored", stored)


@scenario("core")
def toc_group_checks_live_group(x: Conversation) -> None:
    t = x.topic("a")
    x.find_group("g")
    m, g = x.only_member("g")
    pid, e = x.init("t")
    x.txn_offsets("t", "g", pid, e, [(t, 0, 1)], generation=g, member=m)
    x.txn_offsets("t", "g", pid, e, [(t, 0, 2)], generation=g + 1, member=m, label=" future generation")
    x.txn_offsets("t", "g", pid, e, [(t, 0, 2)], generation=g - 1, member=m, label=" old generation")
    x.txn_offsets("t", "g", pid, e, [(t, 0, 2)], generation=g, member="stranger")
    x.txn_offsets("t", "g", pid, e, [(t, 0, 2)], generation=-1, member=m, label=" member only")
    x.txn_offsets("t", "g", pid, e, [(t, 0, 2)], generation=g, member="", label=" generation only")
    x.txn_offsets("t", "g", pid, e, [(t, 0, 2)], generation=g, member=m, instance="nope", label=" unknown instance")
    x.txn_offsets("t", "g", pid, e, [(t, 0, 7)], label=" no group fields at all")
    x.commit_offsets("g", [(t, 0, 9)], label=" plain commit without fields on a live group")
    x.end("t", pid, e, True, settle=True)
    x.offset_fetch("g", [(t, [0])], stable=True)
    x.leave("g", [(m, None)])


@scenario("core")
def group_join_sync_heartbeat_leave(x: Conversation) -> None:
    x.find_group("g")
    r = x.join("g")
    m = r.member_id
    x.heartbeat("g", -1, m, label=" before the second join")
    r = x.join("g", member=m)
    g = r.generation_id
    x.heartbeat("g", g, m, label=" before sync")
    x.sync("g", g, m, [(m, b"assignment")])
    x.sync("g", g, m, label=" again")
    x.heartbeat("g", g, m)
    x.heartbeat("g", g + 1, m, label=" wrong generation")
    x.heartbeat("g", g, "stranger")
    x.heartbeat("g", g, "", label=" empty member")
    x.join("g", member=m, label=" unchanged rejoin of the leader")
    x.leave("g", [(m, None)])
    x.leave("g", [(m, None)], label=" again")
    x.heartbeat("g", g, m, label=" after leaving")


@scenario("core")
def group_join_by_version(x: Conversation) -> None:
    for v in range(10):
        g = f"g{v}"
        x.find_group(g)
        r = x.join(g, v=v)
        if r.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            r = x.join(g, v=v, member=r.member_id)
        x.leave(g, [(r.member_id, None)], v=min(v, 5))


@scenario("core")
def group_offset_commit_fetch(x: Conversation) -> None:
    t = x.topic("a", 2)
    x.find_group("g")
    x.offset_fetch("g", None, label=" never used")
    x.offset_fetch("g", [(t, [0])], label=" never used")
    x.commit_offsets("g", [(t, 0, 5), (t, 1, 6)], meta="note")
    x.offset_fetch("g", None)
    x.offset_fetch("g", [(t, [0, 1, 9]), (x.name("nosuch"), [0])])
    x.commit_offsets("g", [(t, 0, 3)], label=" backwards")
    x.commit_offsets("g", [(t, 7, 3), (x.name("nosuch"), 0, 1)], label=" unknown partitions")
    x.commit_offsets("g", [(t, 0, -1)], label=" offset -1")
    x.commit_offsets("g", [(t, 1, 3)], meta="m" * 4097, label=" metadata 4097")
    x.offset_fetch("g", [(t, [0, 1])])
    x.commit_offsets("g", [(t, 0, 5)], generation=3, member="stranger", label=" generation on an empty group")
    x.commit_offsets("g", [(t, 0, 5)], generation=3, label=" generation only, empty group")
    x.commit_offsets("g2", [(t, 0, 5)], generation=3, member="stranger", label=" unknown group with generation")
    x.commit_offsets("", [(t, 0, 5)], label=" empty group")
    x.offset_fetch("", [(t, [0])], label=" empty group")
    for v in (2, 5, 6, 7, 8, 9):
        x.commit_offsets("g", [(t, 0, 100 + v)], v=v)
    for v in (1, 2, 3, 5, 7, 8, 9):
        x.offset_fetch("g", [(t, [0])], v=v)


@scenario("core")
def group_describe_list_delete(x: Conversation) -> None:
    t = x.topic("a")
    x.find_group("g")
    describe_group(x, "nosuch")
    describe_group(x, "nosuch", 6)
    m, _ = x.only_member("g")
    describe_group(x, "g")
    x.commit_offsets("e", [(t, 0, 1)])
    describe_group(x, "e", label=" offsets only")
    list_groups(x, 5)
    list_groups(x, 4, " Stable", states_filter=["Stable"])
    list_groups(x, 4, " Empty and nonsense", states_filter=["Empty", "Nonsense"])
    list_groups(x, 5, " classic", states_filter=[], types_filter=["classic"])
    list_groups(x, 5, " consumer", states_filter=[], types_filter=["consumer"])
    delete_groups(x, "g", "nosuch")
    x.leave("g", [(m, None)])
    describe_group(x, "g", label=" after leave")
    delete_groups(x, "g", "e")
    describe_group(x, "g", label=" after delete")
    x.offset_fetch("e", [(t, [0])], label=" after delete")


def describe_group(x: Conversation, group: str, v: int = 5, label: str = "") -> None:
    found = x.call("DescribeGroups", v, groups=[x.name(group)]).groups[0]
    kind = (repr(found.protocol_type), repr(found.protocol_data), len(found.members))
    x.say(f"describe-group v{v} {group}{label}", error_name(found.error_code), found.group_state, *kind)


def list_groups(x: Conversation, v: int, label: str = "", **filters: list[str]) -> None:
    reply = x.call("ListGroups", v, **filters)
    rows = sorted(
        f"{each.group_id}:{each.protocol_type}:{each.group_state}:{each.group_type if v >= 5 else None}"
        for each in reply.groups
        if each.group_id.startswith(x.prefix)
    )
    x.say(f"list-groups v{v}{label}", error_name(reply.error_code), rows)


def delete_groups(x: Conversation, *groups: str, v: int = 2) -> None:
    reply = x.call("DeleteGroups", v, groups_names=[x.name(each) for each in groups])
    x.say(f"delete-groups v{v}", sorted(f"{each.group_id}={error_name(each.error_code)}" for each in reply.results))
