"""What is forgotten after a time: transactional ids, producer ids (KIP-98). Here after three seconds."""

from __future__ import annotations

from typing import Any

from evidence.differential.conversation import Conversation
from evidence.differential.scenario import scenario
from evidence.differential.stories import begin


def wait_until_forgotten(x: Conversation, transactional_id: str) -> None:
    def forgotten() -> Any:
        reply = x.call("DescribeTransactions", 0, transactional_ids=[x.name(transactional_id)])
        return True if reply.transaction_states[0].error_code else None

    x.until(forgotten)


@scenario("expiry")
def idle_ids_expire(x: Conversation) -> None:
    """After it every request of the old producer is unknown; an init with what it had begins anew."""
    t = x.topic("a")
    pid, e = begin(x, t, 5)
    pid, e = x.end("t", pid, e, True, settle=True)
    wait_until_forgotten(x, "t")
    x.describe("t")
    x.add("t", pid, e, [(t, [0])])
    x.add4([("t", pid, e, True, [(t, [0])])])
    x.end("t", pid, e, True)
    x.end("t", pid, e, False, v=4)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    x.txn_offsets("t", "g", pid, e, [(t, 0, 1)])
    x.init("t", pid, e, label=" with what it had")


@scenario("expiry")
def open_transactions_do_not_expire(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = begin(x, t, 5)
    x.init("u")
    wait_until_forgotten(x, "u")
    x.describe("t")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=1, transactional_id="t")
    x.end("t", pid, e, True, settle=True)


@scenario("expiry")
def silent_producers_are_forgotten(x: Conversation) -> None:
    """Then any sequence is taken (there is no state); who has an open transaction is not forgotten."""
    t = x.topic("a")
    pid, e = x.init(None)
    now_ms = x.now_ms()
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, ts=now_ms)
    txn = x.init("t")
    x.produce(t, 0, n=1, producer=txn, sequence=0, transactional_id="t", ts=now_ms)
    x.producers(t)

    def forgotten() -> Any:
        asked = [{"name": t, "partition_indexes": [0]}]
        found = x.call("DescribeProducers", 0, topics=asked).topics[0].partitions[0].active_producers
        return True if pid not in [each.producer_id for each in found] else None

    x.until(forgotten)
    x.producers(t)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=9, ts=x.now_ms(), label=" any sequence")
    x.end("t", *txn, True, settle=True)


@scenario("expiry")
def a_marker_is_a_sign_of_life(x: Conversation) -> None:
    """KAFKA-9144: the producer of old records is not forgotten right after its marker."""
    t = x.topic("a")
    pid, e = begin(x, t, 4)
    x.end("t", pid, e, True, v=4, settle=True)
    x.wait_until_stable(t, 0, 2)
    x.pause(0.5)
    x.producers(t)
