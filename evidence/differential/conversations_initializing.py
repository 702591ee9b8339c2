"""InitProducerId in every version: each check of Kafka's `TransactionCoordinator`."""

from __future__ import annotations

from evidence.differential.conversation import READ_COMMITTED, Conversation
from evidence.differential.scenario import family, scenario
from evidence.differential.stories import FOREIGN, begin, timed_out

VERSIONS = range(6)
RESUMING = (3, 4, 5)


@family("core", VERSIONS)
def init_arguments(x: Conversation, v: int) -> None:
    x.init("", v=v, label=" empty tid")
    for timeout in (0, -1, 900_001):
        x.init("t", v=v, timeout=timeout, label=f" timeout {timeout}")
    x.describe("t")
    x.init("t", v=v, timeout=900_000, label=" timeout 900000")
    x.init("t", v=v)
    x.init(None, v=v)
    x.init(None, v=v, timeout=0, label=" timeout 0")
    x.describe("t")


@family("core", RESUMING)
def init_resumes(x: Conversation, v: int) -> None:
    """KIP-360: the same producer asks for its next epoch; its retry gets the same one; all others are fenced."""
    pid, e = x.init("t", v=v)
    x.init("t", pid, e, v=v)
    x.init("t", pid, e, v=v, label=" retry")
    x.init("t", pid, e + 1, v=v, label=" the next bump")
    x.init("t", pid, e, v=v, label=" two behind")
    x.init("t", pid, e + 9, v=v, label=" ahead")
    x.init("t", pid + FOREIGN, e + 2, v=v, label=" foreign pid")
    x.init("t", pid, -1, v=v, label=" no epoch")
    x.init("t", -1, e, v=v, label=" no pid")
    x.init("nosuch", pid, e, v=v, label=" unknown tid")
    x.describe("t")


@family("core", VERSIONS)
def init_over_an_open_transaction(x: Conversation, v: int) -> None:
    """Row 17: it is aborted at the next epoch and the newer instance gets the one after (KAFKA-19367: not two more)."""
    t = x.topic("a")
    pid, e = begin(x, t, 5 if v == 5 else min(v, 4))
    x.init("t", v=v, label=" a newer instance")
    x.describe("t")
    x.wait_until_stable(t, 0, 2)
    x.fetch(t, 0, 0, READ_COMMITTED)
    x.producers(t)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=1, transactional_id="t", v=11, label=" by the old instance")


@family("core", RESUMING)
def init_resumes_over_its_own_open_transaction(x: Conversation, v: int) -> None:
    """kafka-notes C1: the producer that lost track of its transaction: aborted, and e+1 is the epoch it gets."""
    t = x.topic("a")
    pid, e = begin(x, t, 5)
    x.init("t", pid, e, v=v, label=" itself")
    x.describe("t")
    x.wait_until_stable(t, 0, 2)
    x.produce(t, 0, n=1, producer=(pid, e + 1), sequence=0, transactional_id="t")
    x.end("t", pid, e + 1, True, settle=True)


@family("core", RESUMING)
def init_foreign_over_an_open_transaction(x: Conversation, v: int) -> None:
    """kafka-notes C4: another producer id may not touch it."""
    t = x.topic("a")
    pid, e = begin(x, t, 5)
    x.init("t", pid + FOREIGN, e, v=v, label=" foreign pid")
    x.describe("t")
    x.end("t", pid, e, True, settle=True)


@family("core", RESUMING)
def init_resumes_after_timeout(x: Conversation, v: int) -> None:
    """kafka-notes C3: nobody newer has asked, so the producer that was too slow gets the epoch of the abort."""
    t = x.topic("a")
    pid, e = timed_out(x, t, 5 if v == 5 else 4)
    x.init("t", pid, e, v=v, label=" itself")
    x.init("t", pid, e, v=v, label=" retry")
    x.init("t", pid, e + 1, v=v, label=" the bumped epoch")
    x.describe("t")


@family("core", RESUMING)
def init_resumes_after_end(x: Conversation, v: int) -> None:
    """kafka-notes C5: after EndTxn v5 the old epoch is still recognised, until the new one is used."""
    t = x.topic("a")
    pid, e = begin(x, t, 5)
    x.end("t", pid, e, True, settle=True)
    x.init("t", pid, e, v=v, label=" the epoch before the end")
    x.init("t", pid, e, v=v, label=" again")
    x.init("t", pid, e + 1, v=v, label=" the epoch after the end")
    x.init("t", pid, e, v=v, label=" the first one, too late")


@family("core", VERSIONS)
def init_takes_over_an_idle_id(x: Conversation, v: int) -> None:
    """Row 12: no transaction open; the old instance is fenced in everything."""
    t = x.topic("a", 2)
    pid, e = begin(x, t, 5)
    pid, e = x.end("t", pid, e, True, settle=True)
    x.init("t", v=v, label=" a newer instance")
    x.produce(t, 1, n=1, producer=(pid, e), sequence=0, transactional_id="t", label=" by the old instance")
    x.add("t", pid, e, [(t, [0])], label=" by the old instance")
    x.end("t", pid, e, True, label=" by the old instance")
    x.end("t", pid, e, False, label=" by the old instance")
    x.init("t", pid, e, label=" by the old instance")


@scenario("core")
def init_changes_the_timeout(x: Conversation) -> None:
    """kafka-notes C6: whatever its outcome, an init that is answered stores its timeout; a refused one does not."""
    pid, e = x.init("t", timeout=10_000)
    x.init("t", pid, e, timeout=20_000)
    x.describe("t")
    x.init("t", pid, e, timeout=30_000, label=" retry")
    x.describe("t")
    x.init("t", pid, e + 9, timeout=40_000, label=" ahead")
    x.describe("t")


@scenario("core")
def init_keeps_what_opened_the_transaction(x: Conversation) -> None:
    """An old client's open transaction, taken over by a new one, and the other way round."""
    t = x.topic("a")
    begin(x, t, 4)
    pid, e = x.init("t", v=5, label=" a new client")
    x.wait_until_stable(t, 0, 2)
    begin(x, t, 5, producer=(pid, e))
    x.init("t", v=0, label=" an old client")
    x.wait_until_stable(t, 0, 4)
    x.fetch(t, 0, 0, READ_COMMITTED)
