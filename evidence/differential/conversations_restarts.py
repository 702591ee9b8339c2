"""What a broker still knows after a restart."""

from __future__ import annotations

from collections.abc import Iterator

from evidence.differential.conversation import READ_COMMITTED, Conversation, error_name
from evidence.differential.scenario import scenario
from oncelog.core.placement import coordinator_partition


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


@scenario("restart")
def restart_retried_end(x: Conversation) -> Iterator[tuple[str, int]]:
    """kafka-notes R1: the retry of EndTxn v5 is recognised by what is stored."""
    t = x.topic("a")
    pid, e = x.init("t")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    x.end("t", pid, e, True, settle=True)
    yield t, 1
    x.end("t", pid, e, True, label=" retry after the restart")
    x.end("t", pid, e, False, label=" the other result")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=1, transactional_id="t", label=" at the old epoch")
    x.produce(t, 0, n=1, producer=(pid, e + 1), sequence=0, transactional_id="t", label=" at the new epoch")
    x.end("t", pid, e + 1, False, settle=True)


@scenario("restart")
def restart_old_protocol(x: Conversation) -> Iterator[tuple[str, int]]:
    """kafka-notes R3: an open transaction of an old client goes on; what it did not add is still refused."""
    t = x.topic("a", 2)
    pid, e = x.init("t", v=4)
    x.add("t", pid, e, [(t, [0])])
    x.produce(t, 0, n=2, producer=(pid, e), sequence=0, transactional_id="t", v=11)
    yield t, 2
    x.produce(t, 0, n=1, producer=(pid, e), sequence=2, transactional_id="t", v=11)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=1, transactional_id="t", v=9, label=" inside the last batch")
    x.produce(t, 1, n=1, producer=(pid, e), sequence=0, transactional_id="t", v=9, label=" not added")
    x.end("t", pid, e, False, v=4, settle=True)
    x.wait_until_stable(t, 0, 4)
    x.fetch(t, 0, 0, READ_COMMITTED)


@scenario("restart")
def restart_aborted_index(x: Conversation) -> Iterator[tuple[str, int]]:
    """kafka-notes R3: the aborted list is on disk."""
    t = x.topic("a")
    pid, e = x.init("t")
    for commit in (False, True, False):
        x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
        pid, e = x.end("t", pid, e, commit, settle=True)
    x.wait_until_stable(t, 0, 6)
    yield t, 1
    for offset in range(7):
        x.fetch(t, 0, offset, READ_COMMITTED, shows=offset == 0)
    x.producers(t)


@scenario("restart")
def restart_operators_marker(x: Conversation) -> Iterator[tuple[str, int]]:
    t = x.topic("a")
    pid, e = x.init("t")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    x.markers([(pid, e, False, [(t, [0])], 3)])
    yield t, 1
    x.producers(t)
    x.markers([(pid, e, False, [(t, [0])], 2)], label=" an older coordinator")
    x.describe("t")


@scenario("damaged")
def restart_with_a_marker_in_the_coordinators_log(x: Conversation) -> Iterator[tuple[str, int]]:
    """kafka-notes C25: the load stops at it, and what was written behind it is lost."""
    t = x.topic("a")
    pid, e = x.init("t")
    index = coordinator_partition(x.name("t"), 50)
    where = [{"name": "__transaction_state", "partition_indexes": [index]}]
    marker = {"producer_id": pid, "producer_epoch": e, "transaction_result": False, "topics": where}
    reply = x.call("WriteTxnMarkers", 1, markers=[marker])
    x.say("marker", [error_name(p.error_code) for each in reply.markers for q in each.topics for p in q.partitions])
    x.init("t", label=" behind the marker")
    x.describe("t")
    yield t, 1
    x.describe("t")
    x.init("t")


@scenario("restart")
def killed_after_records_were_deleted(x: Conversation) -> Iterator[tuple[str, int]]:
    """kafka-notes R2: the new start of the log was answered, so it has to be known."""
    t = x.topic("a")
    for index in range(4):
        x.produce(t, 0, [b"%d" % index], quiet=True)
    x.delete_records(t, 2)
    yield t, 1
    asked = [{"name": t, "partitions": [{"partition_index": 0, "timestamp": -2}]}]
    x.until(
        lambda: x.call("ListOffsets", 7, replica_id=-1, topics=asked).topics[0].partitions[0].error_code == 0 or None
    )
    found = x.call("ListOffsets", 7, replica_id=-1, topics=asked).topics[0].partitions[0]
    x.say("earliest", found.offset)
    x.fetch(t, 0, 1, READ_COMMITTED)


@scenario("restart")
def killed_with_transactions(x: Conversation) -> Iterator[tuple[str, int]]:
    """kafka-notes R2, R3: an open transaction goes on, a decided one is visible, the last batch is known."""
    t = x.topic("a", 2)
    done, pid, e = x.init("u"), *x.init("t")
    x.produce(t, 1, n=1, producer=done, sequence=0, transactional_id="u")
    x.end("u", *done, True, settle=True)
    x.produce(t, 0, n=2, producer=(pid, e), sequence=0, transactional_id="t")
    x.wait_until_stable(t, 1, 2)
    yield t, 2
    x.describe("t")
    x.describe("u")
    x.produce(t, 0, n=2, producer=(pid, e), sequence=0, transactional_id="t", label=" duplicate")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=2, transactional_id="t")
    x.end("t", pid, e, False, settle=True)
    x.wait_until_stable(t, 0, 4)
    x.fetch(t, 0, 0, READ_COMMITTED)
    x.fetch(t, 1, 0, READ_COMMITTED)
