"""TxnOffsetCommit in every version and in every state of its group (KIP-447)."""

from __future__ import annotations

from typing import Any

from evidence.differential.conversation import Conversation, error_name
from evidence.differential.scenario import family, scenario
from evidence.differential.stories import FOREIGN, timed_out

VERSIONS = range(6)
WITH_MEMBERS = (3, 4, 5)


def opened(x: Conversation, group: str, v: int) -> tuple[int, int]:
    """A producer that may commit offsets of a group in this version."""
    x.find_group(group)
    producer = x.init("t", v=5 if v >= 5 else 4)
    if v < 5:
        x.add_offsets("t", *producer, group)
    return producer


@family("core", VERSIONS)
def txn_offsets_identity(x: Conversation, v: int) -> None:
    t = x.topic("a")
    x.init("t")
    pid, e = opened(x, "g", v)
    offsets = [(t, 0, 5)]
    x.txn_offsets("", "g", pid, e, offsets, v=v, label=" empty tid")
    x.txn_offsets("nosuch", "g", pid, e, offsets, v=v)
    x.txn_offsets("t", "g", pid + FOREIGN, e, offsets, v=v, label=" foreign pid")
    x.txn_offsets("t", "g", pid, e - 1, offsets, v=v, label=" epoch behind")
    x.txn_offsets("t", "g", pid, e + 1, offsets, v=v, label=" epoch ahead")
    x.txn_offsets("t", "", pid, e, offsets, v=v, label=" empty group")
    x.describe("t")
    x.txn_offsets("t", "g", pid, e, offsets, v=v)
    x.txn_offsets("t", "other-group", pid, e, offsets, v=v, label=" may be another partition of offsets")
    x.end("t", pid, e, True, v=5 if v >= 5 else 4, settle=True)
    x.offset_fetch("g", [(t, [0])])


@family("core", VERSIONS)
def txn_offsets_fields(x: Conversation, v: int) -> None:
    t = x.topic("a")
    pid, e = opened(x, "g", v)
    x.txn_offsets("t", "g", pid, e, [(t, 0, 1), (t, 9, 1), (x.name("nosuch"), 0, 1)], v=v, label=" unknown ones")
    x.txn_offsets("t", "g", pid, e, [(t, 0, 2)], meta="m" * 4096, v=v, label=" metadata 4096")
    x.txn_offsets("t", "g", pid, e, [(t, 0, 3)], meta="m" * 4097, v=v, label=" metadata 4097")
    x.txn_offsets("t", "g", pid, e, [(t, 0, -5)], v=v, label=" offset -5")
    x.end("t", pid, e, True, v=5 if v >= 5 else 4, settle=True)
    x.offset_fetch("g", None, v=7)


@family("core", WITH_MEMBERS)
def txn_offsets_of_an_unknown_group(x: Conversation, v: int) -> None:
    """kafka-notes G2: without a generation it becomes a simple group; with one there is no such generation."""
    t = x.topic("a")
    pid, e = opened(x, "g", v)
    x.txn_offsets("t", "g", pid, e, [(t, 0, 1)], v=v, generation=0, member="m", label=" generation 0")
    x.txn_offsets("t", "g", pid, e, [(t, 0, 1)], v=v, generation=-1, member="m", label=" member only")
    x.txn_offsets("t", "g", pid, e, [(t, 0, 1)], v=v, generation=-1, instance="i", label=" instance only")
    x.txn_offsets("t", "g", pid, e, [(t, 0, 1)], v=v)
    describe(x, "g")


@family("core", WITH_MEMBERS)
def txn_offsets_of_an_empty_group(x: Conversation, v: int) -> None:
    t = x.topic("a")
    m, g = x.only_member("g")
    x.leave("g", [(m, None)])
    pid, e = opened(x, "g", v)
    offsets = [(t, 0, 1)]
    x.txn_offsets("t", "g", pid, e, offsets, v=v)
    x.txn_offsets("t", "g", pid, e, offsets, v=v, generation=g, member=m, label=" who has left")
    x.txn_offsets("t", "g", pid, e, offsets, v=v, generation=-1, member=m, label=" member only")
    x.txn_offsets("t", "g", pid, e, offsets, v=v, generation=g, label=" generation only")


@family("core", WITH_MEMBERS)
def txn_offsets_of_a_rebalancing_group(x: Conversation, v: int) -> None:
    """Joined, not yet synced: 27 is never an answer here."""
    t = x.topic("a")
    x.find_group("g")
    first = x.join("g", quiet=True)
    joined = x.join("g", member=first.member_id, quiet=True)
    m, g = joined.member_id, joined.generation_id
    pid, e = opened(x, "g", v)
    offsets = [(t, 0, 1)]
    describe(x, "g")
    x.txn_offsets("t", "g", pid, e, offsets, v=v)
    x.txn_offsets("t", "g", pid, e, offsets, v=v, generation=g, member=m)
    x.txn_offsets("t", "g", pid, e, offsets, v=v, generation=g - 1, member=m, label=" old generation")
    x.txn_offsets("t", "g", pid, e, offsets, v=v, generation=g, member="stranger")
    x.commit_offsets("g", offsets, generation=g, member=m, label=" a plain commit meanwhile")


@family("core", WITH_MEMBERS)
def txn_offsets_of_a_stable_group(x: Conversation, v: int) -> None:
    t = x.topic("a")
    x.find_group("g")
    m, g = x.only_member("g")
    pid, e = opened(x, "g", v)
    offsets = [(t, 0, 1)]
    for generation, member, instance in (
        (g, m, None),
        (g + 1, m, None),
        (g - 1, m, None),
        (-1, m, None),
        (g, "", None),
        (g, "stranger", None),
        (g, m, "nobody"),
    ):
        x.txn_offsets("t", "g", pid, e, offsets, v=v, generation=generation, member=member, instance=instance)
    x.txn_offsets("t", "g", pid, e, offsets, v=v, label=" without a word")


@family("core", WITH_MEMBERS)
def txn_offsets_of_a_static_member(x: Conversation, v: int) -> None:
    """82 fences the member that another with its instance id has replaced."""
    t = x.topic("a")
    x.find_group("g")
    m, g = static_member(x, "g", "i")
    pid, e = opened(x, "g", v)
    offsets = [(t, 0, 1)]
    x.txn_offsets("t", "g", pid, e, offsets, v=v, generation=g, member=m, instance="i")
    x.txn_offsets("t", "g", pid, e, offsets, v=v, generation=g, member="another", instance="i")
    x.txn_offsets("t", "g", pid, e, offsets, v=v, generation=g, member="", instance="i")
    x.txn_offsets("t", "g", pid, e, offsets, v=v, generation=g, member=m, instance="j")


def static_member(x: Conversation, group: str, instance: str) -> tuple[str, int]:
    fields: dict[str, Any] = {"protocols": [{"name": "range", "metadata": b"m"}], "protocol_type": "consumer"}
    reply = x.call(
        "JoinGroup",
        7,
        group_id=x.name(group),
        session_timeout_ms=10_000,
        rebalance_timeout_ms=5000,
        group_instance_id=instance,
        **fields,
    )
    x.sync(group, reply.generation_id, reply.member_id, [(reply.member_id, b"a")], quiet=True)
    x.member(reply.member_id)
    return reply.member_id, reply.generation_id


@family("core", VERSIONS)
def txn_offsets_not_added(x: Conversation, v: int) -> None:
    """Below v5 the offsets' partition has to be added first; v5 adds it."""
    t = x.topic("a")
    x.find_group("g")
    pid, e = x.init("t")
    x.txn_offsets("t", "g", pid, e, [(t, 0, 5)], v=v, label=" nothing added")
    x.add("t", pid, e, [(t, [0])])
    x.txn_offsets("t", "g", pid, e, [(t, 0, 5)], v=v, label=" something else was added")
    x.describe("t")


@family("core", VERSIONS)
def txn_offsets_after_timeout(x: Conversation, v: int) -> None:
    t = x.topic("a")
    x.find_group("g")
    pid, e = timed_out(x, t, 5 if v >= 5 else 4)
    x.txn_offsets("t", "g", pid, e, [(t, 0, 5)], v=v)
    x.txn_offsets("t", "g", pid, e + 1, [(t, 0, 5)], v=v, label=" the bumped epoch")
    x.offset_fetch("g", [(t, [0])])


@scenario("core")
def pending_offsets_and_plain_commits(x: Conversation) -> None:
    """kafka-notes G4: what is later in the log counts, also when it is not the transaction's."""
    t = x.topic("a", 2)
    pid, e = opened(x, "g", 5)
    x.txn_offsets("t", "g", pid, e, [(t, 0, 10), (t, 1, 10)])
    x.commit_offsets("g", [(t, 0, 3)], label=" plain, after the pending one")
    x.offset_fetch("g", [(t, [0, 1])])
    x.offset_fetch("g", [(t, [0, 1])], stable=True)
    x.end("t", pid, e, True, settle=True)
    x.offset_fetch("g", [(t, [0, 1])], stable=True)


@scenario("core")
def pending_offsets_of_two_producers(x: Conversation) -> None:
    t = x.topic("a")
    x.find_group("g")
    one, two = x.init("t"), x.init("u")
    x.txn_offsets("t", "g", *one, [(t, 0, 10)])
    x.txn_offsets("u", "g", *two, [(t, 0, 20)])
    x.end("u", *two, True, settle=True)
    x.offset_fetch("g", [(t, [0])])
    x.offset_fetch("g", [(t, [0])], stable=True)
    x.end("t", *one, True, settle=True)
    x.offset_fetch("g", [(t, [0])], stable=True, label=" the earlier one in the log does not come back")


@scenario("core")
def pending_offsets_twice_in_a_transaction(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = opened(x, "g", 5)
    for offset in (10, 5):
        x.txn_offsets("t", "g", pid, e, [(t, 0, offset)])
    x.end("t", pid, e, True, settle=True)
    x.offset_fetch("g", [(t, [0])], stable=True)


@scenario("core")
def pending_offsets_are_deleted(x: Conversation) -> None:
    """kafka-notes G5: DeleteGroups and OffsetDelete take the pending ones along."""
    t = x.topic("a")
    for group in ("g", "h"):
        x.find_group(group)
    pid, e = x.init("t")
    for group in ("g", "h"):
        x.commit_offsets(group, [(t, 0, 3)])
        x.txn_offsets("t", group, pid, e, [(t, 0, 10)])
    x.ask("DeleteGroups", 2, groups_names=[x.name("g")])
    topics = [{"name": t, "partitions": [{"partition_index": 0}]}]
    x.ask("OffsetDelete", 0, group_id=x.name("h"), topics=topics)
    x.end("t", pid, e, True, settle=True)
    for group in ("g", "h"):
        x.offset_fetch(group, [(t, [0])])


@scenario("core")
def offsets_and_records_in_one_transaction(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = opened(x, "g", 5)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    x.txn_offsets("t", "g", pid, e, [(t, 0, 7)])
    x.describe("t")
    x.end("t", pid, e, True, settle=True)
    x.wait_until_stable(t, 0, 2)
    x.offset_fetch("g", [(t, [0])], stable=True)


def describe(x: Conversation, group: str) -> None:
    found = x.call("DescribeGroups", 5, groups=[x.name(group)]).groups[0]
    x.say(f"describe-group {group}", error_name(found.error_code), found.group_state)
