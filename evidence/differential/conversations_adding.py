"""AddPartitionsToTxn and AddOffsetsToTxn in every version."""

from __future__ import annotations

from evidence.differential.conversation import Conversation
from evidence.differential.scenario import family, scenario
from evidence.differential.stories import FOREIGN, NOBODY, begin, timed_out


@family("core", range(4))
def add_partitions_identity(x: Conversation, v: int) -> None:
    t = x.topic("a", 3)
    x.init("t")
    pid, e = x.init("t")
    x.add("", pid, e, [(t, [0])], v=v, label=" empty tid")
    x.add("nosuch", pid, e, [(t, [0])], v=v)
    x.add("t", pid + FOREIGN, e, [(t, [0])], v=v, label=" foreign pid")
    x.add("t", -1, e, [(t, [0])], v=v, label=" pid -1")
    x.add("t", pid, e - 1, [(t, [0])], v=v, label=" epoch behind")
    x.add("t", pid, e + 1, [(t, [0])], v=v, label=" epoch ahead")
    x.add("t", pid, -1, [(t, [0])], v=v, label=" epoch -1")
    x.describe("t")
    x.add("t", pid, e, [(t, [0, 2])], v=v)
    x.add("t", pid, e, [(t, [0])], v=v, label=" is there already")
    x.describe("t")


@family("core", range(4))
def add_partitions_topics(x: Conversation, v: int) -> None:
    """One that is not there makes the others "not attempted"."""
    t = x.topic("a", 2)
    pid, e = x.init("t")
    x.add("t", pid, e, [(t, [0, 2])], v=v, label=" no such partition")
    x.add("t", pid, e, [(t, [0]), (x.name("nosuch"), [0, 1])], v=v, label=" no such topic")
    x.add("t", pid, e, [("__transaction_state", [0]), (t, [0])], v=v, label=" internal")
    x.add("t", pid, e, [(t, [-1])], v=v, label=" partition -1")
    x.add("t", pid, e, [("bad name!", [0])], v=v)
    x.add("t", pid, e, [(t, [0, 0, 1])], v=v, label=" a partition twice")
    x.describe("t")


@family("core", (4, 5))
def add_partitions_between_brokers(x: Conversation, v: int) -> None:
    """kafka-notes C17: several transactions in a request are independent of one another."""
    t = x.topic("a", 3)
    p1, p2, p3 = x.init("t1"), x.init("t2"), x.init("t3")
    good, bad = [(t, [0])], [(t, [0]), (x.name("nosuch"), [0])]
    x.add4([("t1", *p1, False, good), ("t2", *p2, False, bad), ("t3", p3[0], p3[1] + 1, False, good)], v=v)
    x.add4([("t1", *p1, True, [(t, [0, 1])]), ("t2", *p2, True, good), ("nosuch", NOBODY, 0, True, good)], v=v)
    x.add4([("t1", p1[0], -1, False, good), ("t2", -1, 0, False, good), ("", NOBODY, 0, False, good)], v=v)
    x.add4([("t1", *p1, False, [(t, [2])]), ("t3", *p3, True, [(t, [9])])], v=v, label=" one to add, one to verify")
    for each in ("t1", "t2", "t3"):
        x.describe(each)


@family("core", range(4))
def add_partitions_after_timeout(x: Conversation, v: int) -> None:
    t = x.topic("a")
    pid, e = timed_out(x, t, 4)
    x.add("t", pid, e, [(t, [0])], v=v)
    x.add("t", pid, e + 1, [(t, [0])], v=v, label=" the bumped epoch")
    x.describe("t")
    x.add_offsets("t", pid, e, "g", v=v)
    x.add_offsets("t", pid, e + 1, "g", v=v)


@family("core", (4, 5))
def verify_only(x: Conversation, v: int) -> None:
    """What a leader asks for an old client: is this partition in the open transaction?"""
    t = x.topic("a", 2)
    pid, e = begin(x, t, 4)
    x.add4([("t", pid, e, True, [(t, [0])])], v=v, label=" in it")
    x.add4([("t", pid, e, True, [(t, [0, 1])])], v=v, label=" one is not")
    x.add4([("t", pid, e, True, [(t, [9])])], v=v, label=" no such partition")
    x.add4([("t", pid, e, True, [(x.name("nosuch"), [0])])], v=v, label=" no such topic")
    x.add4([("t", pid, e + 1, True, [(t, [0])])], v=v, label=" epoch ahead")
    x.add4([("t", pid + FOREIGN, e, True, [(t, [0])])], v=v, label=" foreign pid")
    x.end("t", pid, e, True, v=4, settle=True)
    x.add4([("t", pid, e, True, [(t, [0])])], v=v, label=" it has ended")


@family("core", range(5))
def add_offsets(x: Conversation, v: int) -> None:
    x.topic("a")
    x.find_group("g")
    x.init("t")
    pid, e = x.init("t")
    x.add_offsets("", pid, e, "g", v=v)
    x.add_offsets("nosuch", pid, e, "g", v=v)
    x.add_offsets("t", pid + FOREIGN, e, "g", v=v)
    x.add_offsets("t", pid, e - 1, "g", v=v)
    x.add_offsets("t", pid, e + 1, "g", v=v)
    x.add_offsets("t", pid, e, "g", v=v)
    x.describe("t")
    x.end("t", pid, e, True, v=4, settle=True)


@scenario("core")
def add_partitions_for_the_new_protocol_directly(x: Conversation) -> None:
    """v4+ marks the transaction as one of the new protocol: its markers carry the next epoch."""
    t = x.topic("a")
    pid, e = x.init("t")
    x.add4([("t", pid, e, False, [(t, [0])])], v=5)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t", v=12)
    x.end("t", pid, e, False, settle=True)
    x.wait_until_stable(t, 0, 2)
    x.fetch(t, 0, 0, 1)
