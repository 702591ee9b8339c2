"""Producer ids and epochs: InitProducerId, sequences of idempotent producers, timeouts, two-phase ids."""

from __future__ import annotations

from evidence.differential.conversation import READ_COMMITTED, READ_UNCOMMITTED, Conversation
from evidence.differential.scenario import scenario


def expire(x: Conversation, partitions: int = 1) -> tuple[str, int, int]:
    """A transaction that the coordinator has just aborted because of its timeout."""
    t = x.topic("a", partitions)
    pid, e = x.init("t", timeout=300)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    x.settle("t")
    x.wait_until_stable(t, 0, 2)
    return t, pid, e


@scenario("core")
def init_fencing_codes_by_version(x: Conversation) -> None:
    pid, e = x.init("t", v=4)
    x.init("t", v=4)
    x.init("t", v=4)
    for v in (3, 4, 5):
        x.init("t", pid, e, v=v, label=" two epochs old")
        x.init("t", pid + 1_000_000, e, v=v, label=" foreign pid")


@scenario("core")
def idem_basic(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init(None)
    for s in range(3):
        x.produce(t, 0, n=1, producer=(pid, e), sequence=s)
    x.produce(t, 0, n=3, producer=(pid, e), sequence=3)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=6)
    x.producers(t)
    x.fetch(t, 0, 0, READ_UNCOMMITTED)


@scenario("core")
def idem_duplicates_window(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init(None)
    for s in range(7):
        x.produce(t, 0, n=1, producer=(pid, e), sequence=s)
    for s in (6, 5, 4, 3, 2, 1, 0):
        x.produce(t, 0, n=1, producer=(pid, e), sequence=s, label=" duplicate")
    x.marks(t)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=7)


@scenario("core")
def idem_gap_and_recover(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init(None)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=2, label=" gap")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=1)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=2)
    x.marks(t)


@scenario("core")
def idem_epoch_changes(x: Conversation) -> None:
    t = x.topic("a")
    pid, _ = x.init(None)
    x.produce(t, 0, n=1, producer=(pid, 5), sequence=0)
    x.produce(t, 0, n=1, producer=(pid, 6), sequence=1, label=" newer epoch, sequence not 0")
    x.produce(t, 0, n=1, producer=(pid, 6), sequence=0, label=" newer epoch")
    x.produce(t, 0, n=1, producer=(pid, 5), sequence=1, label=" older epoch")
    x.produce(t, 0, n=1, producer=(pid, 5), sequence=0, label=" older epoch, old duplicate")
    x.produce(t, 0, n=1, producer=(pid, 32767), sequence=0, label=" jump to the last epoch")
    x.produce(t, 0, n=1, producer=(pid, 32767), sequence=1)
    x.producers(t)


@scenario("core")
def idem_init_always_new(x: Conversation) -> None:
    pid, e = x.init(None)
    x.init(None)
    x.init(None, pid, e, label=" with own pid")
    x.init(None, pid, e + 7, label=" with future epoch")
    x.init(None, v=0)
    x.init(None, v=1)
    x.init(None, v=2)
    x.init(None, timeout=0, label=" timeout 0")
    x.init(None, timeout=-1, label=" timeout -1")
    x.init(None, timeout=2**31 - 1, label=" timeout max")


@scenario("core")
def idem_two_producers_interleaved(x: Conversation) -> None:
    t = x.topic("a")
    p1, e1 = x.init(None)
    p2, e2 = x.init(None)
    for s in range(3):
        x.produce(t, 0, n=1, producer=(p1, e1), sequence=s)
        x.produce(t, 0, n=2, producer=(p2, e2), sequence=2 * s)
    x.producers(t)
    x.produce(t, 0, n=1, producer=(p1, e1), sequence=0, label=" duplicate")


@scenario("core")
def idem_stale_epoch_by_version(x: Conversation) -> None:
    t = x.topic("a")
    pid, _ = x.init(None)
    x.produce(t, 0, n=1, producer=(pid, 5), sequence=0)
    for v in (3, 5, 7, 8, 9, 10, 11, 12):
        x.produce(t, 0, n=1, producer=(pid, 4), sequence=1, v=v)


@scenario("core")
def txn_duplicates_inside(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t")
    for s in range(6):
        x.produce(t, 0, n=1, producer=(pid, e), sequence=s, transactional_id="t", quiet=s not in (0, 5))
    for s in (5, 1, 0):
        x.produce(t, 0, n=1, producer=(pid, e), sequence=s, transactional_id="t", label=" duplicate")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=7, transactional_id="t", label=" gap")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=6, transactional_id="t")
    x.marks(t)
    x.end("t", pid, e, True, settle=True)
    x.wait_until_stable(t, 0, 8)
    x.marks(t)


@scenario("core")
def compressed_duplicates(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init(None)
    for i, c in enumerate((1, 2, 3, 4, 0)):
        x.produce(t, 0, n=3, producer=(pid, e), sequence=3 * i, codec=c, label=f" codec {c}")
    x.produce(t, 0, n=3, producer=(pid, e), sequence=6, codec=0, label=" duplicate, other codec")
    x.fetch(t, 0, 0, READ_UNCOMMITTED)


@scenario("core")
def init_new_and_again(x: Conversation) -> None:
    x.init("t")
    x.init("t")
    x.init("t", v=0)
    x.init("t", v=2)
    x.init("t", v=4)
    x.describe("t")


@scenario("core")
def init_resume_current(x: Conversation) -> None:
    pid, e = x.init("t")
    x.init("t", pid, e)
    x.init("t", pid, e, label=" retry")
    x.init("t", pid, e + 1)
    x.init("t", pid, e + 1, label=" retry")
    x.init("t", pid, e, label=" too old")
    x.init("t", pid, e + 9, label=" future")
    x.describe("t")


@scenario("core")
def init_argument_errors(x: Conversation) -> None:
    pid, e = x.init("t")
    x.init("t", pid, -1, label=" epoch -1")
    x.init("t", -1, e, label=" pid -1")
    x.init("t", -2, -2, label=" both -2")
    x.init("t", pid, -2, label=" epoch -2")
    x.init("", label=" empty tid")
    x.init("", pid, e, label=" empty tid")
    x.init(None, pid, -1, label=" null tid, epoch -1")
    x.init("unk", pid, e, label=" unknown tid with pid")
    x.init("unk", label=" after that")


@scenario("core")
def init_timeouts(x: Conversation) -> None:
    for t in (0, -1, -2, 1, 900000, 900001, 2**31 - 1):
        x.init(f"t{t}", timeout=t, label=f" timeout={t}")
    x.describe("t1")
    x.describe("t0")
    x.describe("t900000")
    pid, e = x.init("t1", timeout=5000, label=" changes the timeout")
    x.describe("t1")
    x.init("t1", pid, e, timeout=7000, label=" changes the timeout")
    x.init("t1", pid, e, timeout=8000, label=" retry with another timeout")
    x.describe("t1")
    x.init("t1", timeout=0, label=" invalid leaves it")
    x.describe("t1")


@scenario("core")
def init_while_ongoing(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t")
    x.produce(t, 0, n=2, producer=(pid, e), sequence=0, transactional_id="t")
    x.init("t", wait=False, label=" while ongoing")
    x.settle("t")
    x.describe("t")
    x.init("t")
    x.describe("t")
    x.wait_until_stable(t, 0, 3)
    x.fetch(t, 0, 0, READ_COMMITTED)
    x.producers(t)


@scenario("core")
def timeout_state_and_log(x: Conversation) -> None:
    t, _, _ = expire(x)
    x.describe("t")
    x.fetch(t, 0, 0, READ_COMMITTED)
    x.producers(t)
    x.marks(t)


@scenario("core")
def timeout_then_produce(x: Conversation) -> None:
    t, pid, e = expire(x, partitions=2)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=1, transactional_id="t")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=1, transactional_id="t", v=11)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=1, transactional_id="t", v=9)
    x.produce(t, 1, n=1, producer=(pid, e), sequence=0, transactional_id="t", label=" partition without state")
    x.produce(t, 1, n=1, producer=(pid, e), sequence=0, transactional_id="t", v=11, label=" partition without state")
    x.produce(t, 0, n=1, producer=(pid, e + 1), sequence=0, transactional_id="t", label=" with the bumped epoch")


@scenario("core")
def timeout_then_end_v5(x: Conversation) -> None:
    t, pid, e = expire(x)
    x.end("t", pid, e, True)
    x.end("t", pid, e, False)
    x.end("t", pid, e, False, label=" again")
    x.end("t", pid, e + 1, True, label=" new epoch")
    x.describe("t")
    x.produce(t, 0, n=1, producer=(pid, e + 1), sequence=0, transactional_id="t")
    x.end("t", pid, e + 1, True, settle=True)


@scenario("2pc")
def twopc_init_plain_v6(x: Conversation) -> None:
    pid, e = x.init("t", v=6)
    x.init("t", pid, e, v=6)
    x.describe("t")


@scenario("2pc")
def twopc_timeouts_ignored(x: Conversation) -> None:
    x.init("t", enable_2pc=True, v=6)
    x.describe("t")
    for t in (0, -1, 900001, 2**31 - 1):
        x.init(f"t{t}", enable_2pc=True, timeout=t, label=f" timeout={t}", v=6)
        x.describe(f"t{t}")
    x.init("t", timeout=5000, label=" back to one phase", v=6)
    x.describe("t")


@scenario("2pc")
def twopc_keeps_a_prepared_transaction(x: Conversation) -> None:
    """KIP-939: the transaction stays, its new owner ends it. Apache Kafka has the field, and answers 35."""
    t = x.topic("a")
    pid, e = x.init("t", v=6, enable_2pc=True)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    pid, e = x.init("t", v=6, enable_2pc=True, keep_prepared_txn=True, label=" keeps", wait=False)
    x.describe("t")
    x.end("t", pid, e, True)


@scenario("2pc")
def twopc_forced_to_end(x: Conversation) -> None:
    """Gap 6: an operator's init over a two-phase transaction aborts it; what becomes of its timeout."""
    t = x.topic("a")
    pid, e = x.init("t", v=6, enable_2pc=True)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    x.describe("t")
    x.init("t", v=5, timeout=30_000, wait=False, label=" by an operator")
    x.settle("t")
    x.describe("t")
    x.end("t", pid, e, True, label=" by the producer")
