"""transaction.partition.verification.enable=false (kafka-notes P28): old clients are believed, new ones added."""

from __future__ import annotations

from evidence.differential.conversation import READ_COMMITTED, Conversation
from evidence.differential.scenario import family, scenario


@family("unverified", (3, 9, 11, 12))
def unverified_produce(x: Conversation, v: int) -> None:
    t = x.topic("a")
    pid, e = x.init("t", v=5 if v >= 12 else 4)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t", v=v)
    x.describe("t")
    x.marks(t)


@family("unverified", (0, 3, 4, 5))
def unverified_txn_offsets(x: Conversation, v: int) -> None:
    t = x.topic("a")
    x.find_group("g")
    pid, e = x.init("t", v=5 if v >= 5 else 4)
    x.txn_offsets("t", "g", pid, e, [(t, 0, 5)], v=v)
    x.describe("t")
    x.offset_fetch("g", [(t, [0])], stable=True)


@family("unverified", (0, 3, 4, 5))
def unverified_txn_offsets_of_an_unknown_id(x: Conversation, v: int) -> None:
    """Of an id that no coordinator knows, and of a producer that is not the id's."""
    t = x.topic("a")
    x.find_group("g")
    pid, e = x.init("t", v=4)
    x.txn_offsets("nobody", "g", pid, e, [(t, 0, 5)], v=v, label=" an unknown id")
    x.offset_fetch("g", [(t, [0])], stable=True)
    # Each version has its own: a transaction that another one has begun in the same partition goes on without a question.
    unknown = 4_000_002_000 + 2 * v
    x.txn_offsets("nobody", "g", unknown, 0, [(t, 0, 6)], v=v, label=" and an unknown producer")
    x.txn_offsets("t", "g", unknown + 1, 0, [(t, 0, 7)], v=v, label=" another producer")
    x.txn_offsets("t", "g", pid, e + 1, [(t, 0, 8)], v=v, label=" an epoch ahead")
    x.describe("nobody")
    x.describe("t")


@family("unverified", (3, 11, 12))
def unverified_produce_of_an_unknown_id(x: Conversation, v: int) -> None:
    t = x.topic("a", 2)
    pid, e = x.init("t", v=4)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="nobody", v=v, label=" an unknown id")
    x.produce(t, 1, n=1, producer=(pid, e + 1), sequence=0, transactional_id="t", v=v, label=" an epoch ahead")
    x.marks(t, 0)
    x.marks(t, 1)


@scenario("unverified")
def unverified_hanging_transaction_is_ended_by_an_operator(x: Conversation) -> None:
    """What nobody ends holds readers of committed data back, until an operator does."""
    t = x.topic("a")
    pid, e = x.init("t", v=4)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t", v=11)
    x.produce(t, 0, [b"plain"])
    x.fetch(t, 0, 0, READ_COMMITTED)
    x.producers(t)
    x.markers([(pid, e, False, [(t, [0])], 0)])
    x.fetch(t, 0, 0, READ_COMMITTED)


@scenario("unverified")
def unverified_first_sequence(x: Conversation) -> None:
    t = x.topic("a")
    x.init("t", v=4)
    pid, e = x.init("t", v=4)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=7, transactional_id="t", v=11, label=" any sequence")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=9, transactional_id="t", v=11, label=" gap")
    x.produce(t, 0, n=1, producer=(pid, e - 1), sequence=8, transactional_id="t", v=11, label=" older epoch")


@scenario("unverified")
def twopc_switched_off(x: Conversation) -> None:
    """transaction.two.phase.commit.enable=false, which is the default: 53, whatever the rights are."""
    x.init("t", v=6, enable_2pc=True)
    x.init("t", v=6)
    x.init("t", v=6, enable_2pc=True, label=" an id that is there")
    x.describe("t")
