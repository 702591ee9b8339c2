"""What a broker still knows after a restart."""

from __future__ import annotations

from collections.abc import Iterator

from tests.differential.conversation import READ_COMMITTED, Conversation
from tests.differential.scenario import scenario


@scenario("restart")
def restart_open_transaction(x: Conversation) -> Iterator[tuple[str, int]]:
    t = x.topic("a", 2)
    pid, e = x.init("t")
    x.produce(t, 0, n=2, producer=(pid, e), sequence=0, transactional_id="t")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=2, transactional_id="t")
    yield t, 2
    x.describe("t")
    x.producers(t)
    x.marks(t)
    x.fetch(t, 0, 0, READ_COMMITTED)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=3, transactional_id="t")
    x.produce(t, 1, n=1, producer=(pid, e), sequence=0, transactional_id="t", label=" new partition")
    x.end("t", pid, e, True, settle=True)
    x.wait_until_stable(t, 0, 5)
    x.fetch(t, 0, 0, READ_COMMITTED)
    x.producers(t)


@scenario("restart")
def restart_last_batch_duplicate(x: Conversation) -> Iterator[tuple[str, int]]:
    t = x.topic("a")
    pid, e = x.init(None)
    x.produce(t, 0, n=3, producer=(pid, e), sequence=0)
    yield t, 1
    x.produce(t, 0, n=3, producer=(pid, e), sequence=0, label=" duplicate")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=5, label=" gap")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=3)


@scenario("restart")
def restart_pending_offsets(x: Conversation) -> Iterator[tuple[str, int]]:
    t = x.topic("a")
    x.find_group("g")
    pid, e = x.init("t")
    p2, e2 = x.init("u")
    x.commit_offsets("g", [(t, 0, 3)])
    x.txn_offsets("t", "g", pid, e, [(t, 0, 10)])
    x.txn_offsets("u", "h", p2, e2, [(t, 0, 77)])
    yield t, 1
    x.find_group("g")
    x.offset_fetch("g", [(t, [0])])
    x.offset_fetch("g", [(t, [0])], stable=True)
    x.end("t", pid, e, True, settle=True)
    x.end("u", p2, e2, False, settle=True)
    x.offset_fetch("g", [(t, [0])], stable=True)
    x.offset_fetch("h", [(t, [0])], stable=True)
