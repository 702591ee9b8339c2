"""Transactions end to end, with the protocol of KIP-890 and with the older ones."""

from __future__ import annotations

import functools
from typing import Any

from evidence.differential.conversation import READ_COMMITTED, READ_UNCOMMITTED, Conversation, error_name
from evidence.differential.scenario import scenario
from oncelog.errors import ErrorCode
from oncelog.wire.record_batch import batches


@scenario("core")
def tv2_commit_basic(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t")
    x.describe("t")
    x.produce(t, 0, n=2, producer=(pid, e), sequence=0, transactional_id="t")
    x.describe("t")
    x.fetch(t, 0, 0, READ_COMMITTED)
    x.marks(t)
    x.end("t", pid, e, True, settle=True)
    x.wait_until_stable(t, 0, 3)
    x.describe("t")
    x.fetch(t, 0, 0, READ_COMMITTED)
    x.fetch(t, 0, 0, READ_UNCOMMITTED)
    x.marks(t)
    x.producers(t)


@scenario("core")
def tv2_abort_basic(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t")
    x.produce(t, 0, n=2, producer=(pid, e), sequence=0, transactional_id="t")
    x.end("t", pid, e, False, settle=True)
    x.describe("t")
    x.fetch(t, 0, 0, READ_COMMITTED)
    x.fetch(t, 0, 0, READ_UNCOMMITTED)
    x.producers(t)


@scenario("core")
def tv2_three_txns_chain(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t")
    for commit in (True, False, True):
        x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
        x.produce(t, 0, n=2, producer=(pid, e), sequence=1, transactional_id="t")
        pid, e = x.end("t", pid, e, commit, settle=True)
    x.wait_until_stable(t, 0, 12)
    x.fetch(t, 0, 0, READ_COMMITTED)
    x.producers(t)


@scenario("core")
def tv2_multi_partition(x: Conversation) -> None:
    a, b = x.topic("a", 3), x.topic("b", 2)
    pid, e = x.init("t")
    x.produce(a, 2, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    x.produce(a, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    x.produce(b, 1, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    x.produce(a, 2, n=1, producer=(pid, e), sequence=1, transactional_id="t")
    x.describe("t")
    x.end("t", pid, e, True, settle=True)
    for t, p in ((a, 0), (a, 1), (a, 2), (b, 0), (b, 1)):
        x.fetch(t, p, 0, READ_COMMITTED)


@scenario("core")
def tv2_endtxn_retry_commit(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    x.end("t", pid, e, True, settle=True)
    x.end("t", pid, e, True, label=" again")
    x.end("t", pid, e, True, label=" third")
    x.describe("t")
    x.fetch(t, 0, 0, READ_UNCOMMITTED)


@scenario("core")
def tv2_endtxn_retry_abort(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    x.end("t", pid, e, False, settle=True)
    x.end("t", pid, e, False, label=" again")
    x.describe("t")


@scenario("core")
def tv2_endtxn_empty_commit(x: Conversation) -> None:
    pid, e = x.init("t")
    x.end("t", pid, e, True, label=" never produced")
    x.describe("t")


@scenario("core")
def tv2_endtxn_empty_abort(x: Conversation) -> None:
    pid, e = x.init("t")
    x.end("t", pid, e, False, label=" never produced", settle=True)
    x.describe("t")
    x.end("t", pid, e, False, label=" again")
    x.end("t", pid, e + 1, False, label=" with the new epoch", settle=True)
    x.end("t", pid, e + 2, True, label=" commit of nothing")


@scenario("core")
def tv2_endtxn_stale_epochs(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t")
    for _ in range(3):
        x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
        pid, e = x.end("t", pid, e, True, settle=True)
    for d in (-3, -2, -1, 1, 5):
        x.end("t", pid, e + d, True, label=f" delta {d}")
        x.end("t", pid, e + d, False, label=f" delta {d}")
    x.describe("t")


@scenario("core")
def tv2_endtxn_identity_errors(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    x.end("t", pid + 1_000_000, e, True, label=" wrong pid")
    x.end("nosuch", pid, e, True)
    x.end("", pid, e, True, label=" empty tid")
    x.end("t", pid, -1, True, label=" epoch -1")
    x.end("t", -1, e, False, label=" pid -1")
    x.describe("t")
    x.end("t", pid, e, True, settle=True)


@scenario("core")
def tv2_delayed_produce_after_commit(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    x.end("t", pid, e, True, settle=True)
    x.wait_until_stable(t, 0, 2)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=1, transactional_id="t", label=" delayed")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t", label=" retry of the first batch")
    x.marks(t)
    x.describe("t")
    x.fetch(t, 0, 0, READ_COMMITTED)


@scenario("core")
def tv2_next_txn_sequences(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t")
    x.produce(t, 0, n=3, producer=(pid, e), sequence=0, transactional_id="t")
    pid, e = x.end("t", pid, e, True, settle=True)
    x.wait_until_stable(t, 0, 4)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=3, transactional_id="t", label=" sequence continued")
    x.describe("t")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t", label=" sequence restarted")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=1, transactional_id="t")
    x.end("t", pid, e, True, settle=True)


@scenario("core")
def tv2_first_sequence_nonzero(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=5, transactional_id="t", label=" first ever")
    x.describe("t")
    x.marks(t)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=5, transactional_id="t", label=" gap")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=1, transactional_id="t")
    x.end("t", pid, e, True, settle=True)
    x.wait_until_stable(t, 0, 3)
    x.fetch(t, 0, 0, READ_COMMITTED)


@scenario("core")
def tv2_implicit_add_identity_errors(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="nosuch", label=" unknown tid")
    x.produce(t, 0, n=1, producer=(pid + 1_000_000, e), sequence=0, transactional_id="t", label=" wrong pid")
    x.produce(t, 0, n=1, producer=(pid, e + 1), sequence=0, transactional_id="t", label=" newer epoch")
    x.describe("t")
    x.marks(t)
    x.init("t", label=" second producer")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t", label=" older epoch, no state")
    x.producers(t)


@scenario("core")
def tv2_fenced_by_newer_producer(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    x.end("t", pid, e, True, settle=True)
    pid2, e2 = x.init("t", label=" second instance")
    x.produce(t, 0, n=1, producer=(pid, e + 1), sequence=0, transactional_id="t", label=" zombie")
    x.end("t", pid, e + 1, True, label=" zombie")
    x.end("t", pid, e + 1, False, label=" zombie")
    x.add("t", pid, e + 1, [(t, [0])], label=" zombie")
    x.produce(t, 0, n=1, producer=(pid2, e2), sequence=0, transactional_id="t")
    x.produce(t, 0, n=1, producer=(pid, e + 1), sequence=0, transactional_id="t", label=" zombie, new epoch open")
    x.end("t", pid2, e2, True, settle=True)
    x.wait_until_stable(t, 0, 4)
    x.fetch(t, 0, 0, READ_COMMITTED)


@scenario("core")
def tv2_add_partition_without_data(x: Conversation) -> None:
    """Partition added by AddPartitions v4 (not verify) but nothing produced."""
    t = x.topic("a", 2)
    pid, e = x.init("t")
    x.add4([("t", pid, e, False, [(t, [0, 1])])])
    x.describe("t")
    x.marks(t)
    pid, e = x.end("t", pid, e, True, settle=True)
    x.wait_until_stable(t, 0, 1)
    x.fetch(t, 0, 0, READ_COMMITTED)
    x.fetch(t, 1, 0, READ_UNCOMMITTED)
    x.producers(t, 1)
    x.add4([("t", pid, e, False, [(t, [1])])], v=5)
    x.end("t", pid, e, False, settle=True)
    x.fetch(t, 1, 0, READ_COMMITTED)


@scenario("edge")
def tv2_two_tids_same_partition(x: Conversation) -> None:
    t = x.topic("a")
    p1, e1 = x.init("t1")
    p2, e2 = x.init("t2")
    x.produce(t, 0, n=1, producer=(p1, e1), sequence=0, transactional_id="t1")
    x.produce(t, 0, n=1, producer=(p2, e2), sequence=0, transactional_id="t2")
    x.produce(t, 0, n=1, producer=(p1, e1), sequence=1, transactional_id="t1")
    x.end("t2", p2, e2, True, settle=True)
    x.marks(t)
    x.fetch(t, 0, 0, READ_COMMITTED)
    x.end("t1", p1, e1, False, settle=True)
    x.wait_until_stable(t, 0, 5)
    x.fetch(t, 0, 0, READ_COMMITTED)


@scenario("core")
def tv1_commit_basic(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t", v=4)
    x.add("t", pid, e, [(t, [0])])
    x.describe("t")
    x.produce(t, 0, n=2, producer=(pid, e), sequence=0, transactional_id="t", v=11)
    x.end("t", pid, e, True, v=4, settle=True)
    x.wait_until_stable(t, 0, 3)
    x.describe("t")
    x.fetch(t, 0, 0, READ_COMMITTED)
    x.producers(t)


@scenario("core")
def tv1_abort_then_commit_same_epoch(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t", v=4)
    x.add("t", pid, e, [(t, [0])])
    x.produce(t, 0, n=2, producer=(pid, e), sequence=0, transactional_id="t", v=11)
    x.end("t", pid, e, False, v=4, settle=True)
    x.wait_until_stable(t, 0, 3)
    x.add("t", pid, e, [(t, [0])])
    x.produce(t, 0, n=1, producer=(pid, e), sequence=2, transactional_id="t", v=11)
    x.end("t", pid, e, True, v=4, settle=True)
    x.wait_until_stable(t, 0, 5)
    x.fetch(t, 0, 0, READ_COMMITTED)
    x.producers(t)


@scenario("core")
def tv0_oldest_versions(x: Conversation) -> None:
    """The versions aiokafka and librdkafka speak."""
    t = x.topic("a")
    pid, e = x.init("t", v=0)
    x.add("t", pid, e, [(t, [0])], v=0)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t", v=3)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=1, transactional_id="t", v=7)
    x.add_offsets("t", pid, e, "g", v=0)
    x.txn_offsets("t", "g", pid, e, [(t, 0, 7)], v=0)
    x.end("t", pid, e, True, v=0, settle=True)
    x.wait_until_stable(t, 0, 3)
    x.offset_fetch("g", [(t, [0])], v=3)
    x.fetch(t, 0, 0, READ_COMMITTED, v=4)


@scenario("core")
def tv1_produce_without_add(x: Conversation) -> None:
    t = x.topic("a", 2)
    pid, e = x.init("t", v=4)
    for v in (3, 7, 8, 9, 10, 11):
        x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t", v=v)
    x.describe("t")
    x.add("t", pid, e, [(t, [1])])
    for v in (7, 10, 11):
        x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t", v=v, label=" other partition added")
    x.marks(t)
    x.describe("t")


@scenario("core")
def tv1_endtxn_states(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t", v=4)
    for v in (0, 1, 2, 3, 4):
        x.end("t", pid, e, True, v=v, label=" nothing")
        x.end("t", pid, e, False, v=v, label=" nothing")
    x.add("t", pid, e, [(t, [0])])
    x.end("t", pid, e, True, v=4, settle=True)
    x.end("t", pid, e, True, v=4, label=" again")
    x.end("t", pid, e, False, v=4, label=" other result")
    x.add("t", pid, e, [(t, [0])])
    x.end("t", pid, e, False, v=4, settle=True)
    x.end("t", pid, e, False, v=4, label=" again")
    x.end("t", pid, e, True, v=4, label=" other result")


@scenario("core")
def add_partitions_pre_checks(x: Conversation) -> None:
    t = x.topic("a", 2)
    pid, e = x.init("t", v=4)
    x.add("t", pid, e, [(t, [0, 9]), (x.name("nosuch"), [0])], label=" unknown topic and partition")
    x.describe("t")
    x.add("t", pid, e, [(t, [0])])
    x.add("t", pid, e, [(t, [0])], label=" again")
    x.add("t", pid, e, [(t, [0, 1])], label=" one new")
    x.describe("t")
    x.add("t", pid, e, [("__consumer_offsets", [0])], label=" internal topic")
    x.add("nosuch", pid, e, [(t, [0])])
    x.add("", pid, e, [(t, [0])], label=" empty tid")
    x.add("t", pid, e, [], label=" no topics")
    x.describe("t")


@scenario("core")
def verify_only_states(x: Conversation) -> None:
    t = x.topic("a", 2)
    pid, e = x.init("t")
    for v in (4, 5):
        x.add4([("t", pid, e, True, [(t, [0])])], v=v, label=" empty")
    x.add("t", pid, e, [(t, [0])])
    for v in (4, 5):
        x.add4([("t", pid, e, True, [(t, [0, 1])])], v=v, label=" one in, one out")
    x.add4([("t", pid, e + 1, True, [(t, [0])])], label=" epoch ahead")
    x.add4([("t", pid, e - 1, True, [(t, [0])])], label=" epoch behind")
    x.add4([("t", pid + 1_000_000, e, True, [(t, [0])])], label=" wrong pid")
    x.add4([("nosuch", pid, e, True, [(t, [0])])])
    x.add4([("", pid, e, True, [(t, [0])])], label=" empty tid")
    x.describe("t")
    x.end("t", pid, e, True, settle=True)
    x.add4([("t", pid, e, True, [(t, [0])])], label=" after commit, old epoch")
    x.add4([("t", pid, e + 1, True, [(t, [0])])], label=" after commit, new epoch")


@scenario("core")
def mixed_add_v3_produce_v12(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t")
    x.add("t", pid, e, [(t, [0])])
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t", v=12)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=1, transactional_id="t", v=11)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=2, transactional_id="t", v=3)
    x.end("t", pid, e, True, v=5, settle=True)
    x.wait_until_stable(t, 0, 4)
    x.fetch(t, 0, 0, READ_COMMITTED)


@scenario("core")
def delayed_endtxn_harmless_new_protocol(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t")
    x.produce(t, 0, [b"one"], producer=(pid, e), sequence=0, transactional_id="t")
    pid, e2 = x.end("t", pid, e, True, settle=True)
    x.produce(t, 0, [b"two"], producer=(pid, e2), sequence=0, transactional_id="t")
    x.end("t", pid, e, True, label=" late duplicate of the first")
    x.end("t", pid, e, False, label=" late abort of the first")
    x.describe("t")
    x.produce(t, 0, [b"three"], producer=(pid, e2), sequence=1, transactional_id="t")
    x.end("t", pid, e2, False, label=" the client aborts", settle=True)
    x.wait_until_stable(t, 0, 5)
    x.fetch(t, 0, 0, READ_COMMITTED)


@scenario("core")
def rapid_transactions(x: Conversation) -> None:
    """Thirty transactions without waiting for markers; only 51 and 19 may be retried."""
    t = x.topic("a", 2)
    pid, e = x.init("t")
    expected: dict[int, list[str]] = {0: [], 1: []}
    errors = []
    for index in range(30):
        partition, value, commit = index % 2, f"r{index}", index % 3 != 0
        options: dict[str, Any] = {"producer": (pid, e), "sequence": 0, "transactional_id": "t"}
        produced = x.produce(t, partition, [value.encode()], quiet=True, retries=True, **options)
        if produced.error_code:
            errors.append((index, error_name(produced.error_code)))
        ended = x.until(functools.partial(end_unless_concurrent, x, pid, e, commit))
        if ended.error_code:
            errors.append((index, f"end {error_name(ended.error_code)}"))
        pid, e = ended.producer_id, ended.producer_epoch
        if commit:
            expected[partition].append(value)
    x.say("errors", errors)
    x.settle("t")
    for partition in (0, 1):
        x.wait_until_stable(t, partition, 30)
        found = x.fetch_partition(t, partition, 0, READ_COMMITTED)
        seen = visible(found)
        marks = f"hw={found.high_watermark} lso={found.last_stable_offset}"
        x.say(f"partition {partition}", marks, "as expected" if seen == expected[partition] else seen)


def end_unless_concurrent(x: Conversation, producer_id: int, producer_epoch: int, commit: bool) -> Any:
    request = {"transactional_id": x.name("t"), "producer_id": producer_id, "producer_epoch": producer_epoch}
    reply = x.call("EndTxn", 5, **request, committed=commit)
    return None if reply.error_code == ErrorCode.CONCURRENT_TRANSACTIONS else reply


def visible(found: Any) -> list[str]:
    """What a read_committed reader hands over."""
    pending = sorted((each.first_offset, each.producer_id) for each in found.aborted_transactions)
    aborted: set[int] = set()
    values = []
    for batch in batches(found.records):
        while pending and pending[0][0] <= batch.last_offset:
            aborted.add(pending.pop(0)[1])
        marker = batch.end_txn_marker()
        if marker is not None:
            aborted -= set() if marker.commit else {batch.producer_id}
        elif batch.producer_id not in aborted:
            values += [bytes(record.value or b"").decode() for record in batch.records()]
    return values
