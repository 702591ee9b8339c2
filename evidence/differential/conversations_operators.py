"""What operators ask and do: producers, transactions, markers by hand (KIP-664)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from evidence.differential.conversation import READ_COMMITTED, READ_UNCOMMITTED, Conversation, error_name
from evidence.differential.scenario import scenario


@scenario("core")
def describe_producers_states(x: Conversation) -> None:
    t = x.topic("a")
    x.producers(t, label=" empty")
    x.produce(t, 0, [b"plain"])
    x.producers(t, label=" plain only")
    p0, e0 = x.init(None)
    x.produce(t, 0, n=2, producer=(p0, e0), sequence=0)
    x.producers(t, label=" idempotent")
    p1, e1 = x.init("t")
    x.produce(t, 0, n=2, producer=(p1, e1), sequence=0, transactional_id="t")
    x.producers(t, label=" open")
    x.produce(t, 0, n=1, producer=(p1, e1), sequence=2, transactional_id="t")
    x.producers(t, label=" open, second batch")
    x.end("t", p1, e1, True, settle=True)
    x.wait_until_stable(t, 0, 7)
    x.producers(t, label=" committed")
    x.produce(t, 0, n=1, producer=(p1, e1 + 1), sequence=0, transactional_id="t")
    x.producers(t, label=" next one open")


@scenario("core")
def describe_transactions_states(x: Conversation) -> None:
    t = x.topic("a", 2)
    pid, e = x.init("t", timeout=12345)
    x.describe("t")
    x.describe("nosuch")
    x.describe("", label=" empty tid")
    x.produce(t, 1, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    x.describe("t")
    x.end("t", pid, e, True, settle=True)
    x.describe("t")
    x.init("t", timeout=23456)
    x.describe("t")
    r = x.call("DescribeTransactions", 0, transactional_ids=[x.name("nosuch"), x.name("t"), x.name("t"), ""])
    x.say(
        "several, one twice",
        sorted(f"{s.transactional_id}:{error_name(s.error_code)}:{s.transaction_state}" for s in r.transaction_states),
    )
    r = x.call("DescribeTransactions", 0, transactional_ids=[])
    x.say("none", r.transaction_states)


@scenario("core")
def list_transactions_filters(x: Conversation) -> None:
    t = x.topic("a")
    ids = {}
    for n in ("empty", "open", "done", "gone"):
        ids[n] = x.init(n)
    for n in ("open", "done", "gone"):
        x.produce(t, 0, n=1, producer=ids[n], sequence=0, transactional_id=n)
    x.end("done", *ids["done"], True, settle=True)
    x.end("gone", *ids["gone"], False, settle=True)
    own = [ids[n][0] for n in ids]
    list_transactions(x, " by pids", pids=own)
    list_transactions(x, " by pids", v=0, pids=own)
    list_transactions(x, " by pids", v=1, pids=own)
    list_transactions(x, " pids and Ongoing", pids=own, states=["Ongoing"])
    list_transactions(x, " pids and two states", pids=own, states=["Empty", "CompleteCommit"])
    list_transactions(x, " pids, one unknown state", pids=own, states=["Ongoing", "Nonsense"])
    list_transactions(x, " pids, only an unknown state", pids=own, states=["Nonsense"])
    list_transactions(x, " pids, lower case", pids=own, states=["ongoing"])
    list_transactions(x, " PrepareEpochFence and Dead", pids=own, states=["PrepareEpochFence", "Dead"])
    list_transactions(x, " unknown pid", pids=[987654321987])
    list_transactions(x, " one pid", pids=[ids["open"][0]])
    pre = re.escape(x.prefix).replace("\\-", "-")
    list_transactions(x, " pattern", pattern=pre + ".*")
    list_transactions(x, " pattern suffix only", pattern="open")
    list_transactions(x, " pattern alternation", pattern=pre + "(open|done)")
    list_transactions(x, " pattern partial", pattern=pre + "o", pids=own)
    list_transactions(x, " empty pattern", pattern="", pids=own)
    list_transactions(x, " bad pattern", pattern="(", pids=own)
    list_transactions(x, " duration 0", pids=own, dur=0)
    list_transactions(x, " duration a day", pids=own, dur=86400000)
    list_transactions(x, " duration -5", pids=own, dur=-5)


@scenario("core")
def markers_operator_abort(x: Conversation) -> None:
    """KIP-664 abort of a partition's open transaction; the coordinator knows nothing of it."""
    t = x.topic("a", 2)
    pid, e = x.init("t")
    x.produce(t, 0, n=2, producer=(pid, e), sequence=0, transactional_id="t")
    x.produce(t, 1, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    x.markers([(pid, e, False, [(t, [0])], 0)])
    x.fetch(t, 0, 0, READ_COMMITTED)
    x.marks(t, 1)
    x.producers(t, 0)
    x.describe("t")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=2, transactional_id="t", label=" after the operator's abort")
    x.end("t", pid, e, True, settle=True)
    x.wait_until_stable(t, 0, 5)
    x.fetch(t, 0, 0, READ_COMMITTED)
    x.fetch(t, 1, 0, READ_COMMITTED)


@scenario("core")
def markers_wrong_epoch(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t")
    pid, e = x.init("t")
    pid, e = x.init("t")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    x.markers([(pid, e - 1, False, [(t, [0])], 0)], label=" older epoch")
    x.marks(t)
    x.markers([(pid, e + 3, False, [(t, [0])], 0)], label=" newer epoch")
    x.marks(t)
    x.producers(t)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=1, transactional_id="t", label=" data below the marker's epoch")
    x.fetch(t, 0, 0, READ_COMMITTED)


@scenario("core")
def markers_coordinator_epoch(x: Conversation) -> None:
    t = x.topic("a", 2)
    pid, e = 4_000_000_001, 0
    x.markers([(pid, e, True, [(t, [0])], 5)])
    x.markers([(pid, e, True, [(t, [0])], 4)], label=" older coordinator epoch")
    x.markers([(pid, e, True, [(t, [0])], 5)], label=" same")
    x.markers([(pid, e, True, [(t, [0])], 6)], label=" newer")
    x.markers([(pid, e, True, [(t, [0])], -1)], label=" negative")
    x.markers([(pid, e, True, [(t, [1])], -1)], label=" negative, other partition")
    x.fetch(t, 0, 0, READ_UNCOMMITTED)
    x.producers(t, 0)
    x.producers(t, 1)


@scenario("core")
def markers_v2_strict_epoch(x: Conversation) -> None:
    """KIP-1228: TransactionVersion 2 markers need a larger epoch while a transaction is open."""
    t = x.topic("a")
    pid, e = x.init("t")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    x.markers([(pid, e, False, [(t, [0])], 0, 2)], v=2, label=" equal epoch, open")
    x.marks(t)
    x.markers([(pid, e + 1, False, [(t, [0])], 0, 2)], v=2, label=" next epoch")
    x.marks(t)
    x.markers([(pid, e + 1, False, [(t, [0])], 0, 2)], v=2, label=" retry of it")
    x.markers([(pid, e, False, [(t, [0])], 0, 2)], v=2, label=" equal to the ended one")
    x.markers([(pid, e + 1, True, [(t, [0])], 0, 2)], v=2, label=" retry with the other result")
    x.fetch(t, 0, 0, READ_COMMITTED)


def list_transactions(
    x: Conversation,
    label: str,
    *,
    pids: Sequence[int] = (),
    states: Sequence[str] = (),
    v: int = 2,
    dur: int = -1,
    pattern: str | None = None,
) -> None:
    fields: dict[str, Any] = {"duration_filter": dur} if v >= 1 else {}
    if v >= 2:
        fields["transactional_id_pattern"] = pattern
    reply = x.call("ListTransactions", v, state_filters=list(states), producer_id_filters=list(pids), **fields)
    rows = sorted(
        f"{each.transactional_id}:{x.producer_name(each.producer_id)}:{each.transaction_state}"
        for each in reply.transaction_states
    )
    unknown = f"unknown={list(reply.unknown_state_filters)}"
    x.say(f"list v{v}{label}", error_name(reply.error_code), unknown, *rows)
