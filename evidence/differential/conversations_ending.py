"""EndTxn in every version: both protocols (KIP-98, KIP-890), state by state."""

from __future__ import annotations

from evidence.differential.conversation import READ_COMMITTED, Conversation
from evidence.differential.scenario import family, scenario
from evidence.differential.stories import FOREIGN, NOBODY, begin, is_new, stalled, timed_out

VERSIONS = range(6)
RESULTS = (True, False)


def end_both(x: Conversation, producer: tuple[int, int], v: int, label: str) -> None:
    for commit in RESULTS:
        x.end("t", *producer, commit, v=v, label=label)


@family("core", VERSIONS)
def end_txn_identity(x: Conversation, v: int) -> None:
    """Who asks is looked at before the state is, and changes nothing."""
    t = x.topic("a")
    x.end("nosuch", NOBODY, 0, True, v=v)
    x.end("", NOBODY, 0, True, v=v, label=" empty tid")
    x.init("t")
    pid, e = begin(x, t, v, producer=x.init("t"))
    for commit in RESULTS:
        x.end("t", pid + FOREIGN, e, commit, v=v, label=" foreign pid")
        x.end("t", -1, e, commit, v=v, label=" pid -1")
        x.end("t", pid, e - 1, commit, v=v, label=" epoch behind")
        x.end("t", pid, e + 1, commit, v=v, label=" epoch ahead")
        x.end("t", pid, -1, commit, v=v, label=" epoch -1")
    x.describe("t")


@family("core", VERSIONS)
def end_txn_of_nothing(x: Conversation, v: int) -> None:
    """State Empty: nothing to commit; an abort of nothing is an end in v5 only."""
    pid, e = x.init("t")
    x.end("t", pid, e, True, v=v)
    x.describe("t")
    pid, e = x.end("t", pid, e, False, v=v, settle=True)
    x.describe("t")
    x.end("t", pid, e, False, v=v, label=" again", settle=True)


@family("core", VERSIONS)
def end_txn_after_commit(x: Conversation, v: int) -> None:
    """State CompleteCommit: a retry is answered as the first time, the other result is not."""
    t = x.topic("a")
    pid, e = begin(x, t, v)
    x.end("t", pid, e, True, v=v, settle=True)
    end_both(x, (pid, e), v, " the same epoch")
    end_both(x, (pid, e + 2), v, " two ahead")
    x.end("t", pid, e + 1, True, v=v, label=" the next epoch")
    x.end("t", pid, e + 1, False, v=v, label=" the next epoch")
    x.settle("t")
    end_both(x, (pid, e), v, " the first epoch, later")


@family("core", VERSIONS)
def end_txn_after_abort(x: Conversation, v: int) -> None:
    """State CompleteAbort."""
    t = x.topic("a")
    pid, e = begin(x, t, v)
    x.end("t", pid, e, False, v=v, settle=True)
    end_both(x, (pid, e), v, " the same epoch")
    x.end("t", pid, e + 1, True, v=v, label=" the next epoch")
    x.end("t", pid, e + 1, False, v=v, label=" the next epoch")
    x.settle("t")
    end_both(x, (pid, e), v, " the first epoch, later")


@family("stalled", VERSIONS)
def end_txn_prepared_to_commit(x: Conversation, v: int) -> None:
    """State PrepareCommit, from the client's decision to the last marker."""
    t = x.topic("a")
    pid, e = stalled(x, t, v, commit=True)
    x.describe("t")
    for epoch in (e, e + 1, e + 2, max(e - 1, 0)):
        end_both(x, (pid, epoch), v, f" epoch {epoch}")
    x.end("t", pid + FOREIGN, e, True, v=v, label=" foreign pid")


@family("stalled", VERSIONS)
def end_txn_prepared_to_abort(x: Conversation, v: int) -> None:
    """State PrepareAbort."""
    t = x.topic("a")
    pid, e = stalled(x, t, v, commit=False)
    x.describe("t")
    for epoch in (e, e + 1, e + 2):
        end_both(x, (pid, epoch), v, f" epoch {epoch}")


@family("core", VERSIONS)
def end_txn_after_timeout(x: Conversation, v: int) -> None:
    """The coordinator has aborted: the client of v5 learns its new epoch, older ones are fenced."""
    t = x.topic("a")
    pid, e = timed_out(x, t, v)
    for commit in RESULTS:
        x.end("t", pid, e, commit, v=v)
        x.end("t", pid, e, commit, v=v, label=" again")
    x.end("t", pid, e + 1, True, v=v, label=" the bumped epoch")
    x.describe("t")


@family("core", VERSIONS)
def end_txn_fenced(x: Conversation, v: int) -> None:
    """A newer instance has taken the id over a transaction that was open."""
    t = x.topic("a")
    old = begin(x, t, v)
    new = x.init("t", v=5 if is_new(v) else 4)
    x.wait_until_stable(t, 0, 2)
    for commit in RESULTS:
        x.end("t", *old, commit, v=v, label=" by the old instance")
    begin(x, t, v, producer=new)
    for commit in RESULTS:
        x.end("t", *old, commit, v=v, label=" by the old instance, the new one is writing")
    x.end("t", *new, True, v=v, label=" by the new instance", settle=True)
    x.wait_until_stable(t, 0, 4)
    x.fetch(t, 0, 0, READ_COMMITTED)


@family("core", VERSIONS)
def end_txn_of_many_partitions(x: Conversation, v: int) -> None:
    """Every partition gets its marker, also the one with nothing but the added name."""
    t = x.topic("a", 4)
    producer = x.init("t", v=5 if is_new(v) else 4)
    x.add("t", *producer, [(t, [3])])
    for partition in range(3):
        if not is_new(v):
            x.add("t", *producer, [(t, [partition])])
        options = {"producer": producer, "sequence": 0, "transactional_id": "t"}
        x.produce(t, partition, n=1, **options, v=12 if is_new(v) else 11)
    x.end("t", *producer, v % 2 == 0, v=v, settle=True)
    for partition in range(4):
        x.wait_until_stable(t, partition, 1 if partition == 3 else 2)
        x.fetch(t, partition, 0, READ_COMMITTED)


@scenario("core")
def end_txn_v5_of_an_old_transaction(x: Conversation) -> None:
    """A client that was upgraded in mid-life: opened by AddPartitionsToTxn, ended by EndTxn v5."""
    t = x.topic("a")
    pid, e = begin(x, t, 4)
    pid, e = x.end("t", pid, e, True, v=5, settle=True)
    x.wait_until_stable(t, 0, 2)
    x.fetch(t, 0, 0, READ_COMMITTED)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    x.end("t", pid, e, False, v=5, settle=True)


@scenario("core")
def end_txn_versions_take_turns(x: Conversation) -> None:
    """kafka-notes C15, C16: what one version decided, asked about in the other."""
    t = x.topic("a")
    pid, e = begin(x, t, 5)
    pid, e2 = x.end("t", pid, e, True, v=5, settle=True)
    x.end("t", pid, e2, True, v=4, label=" the new epoch, the old version")
    x.end("t", pid, e2, False, v=4, label=" the new epoch, the old version")
    x.add("t", pid, e2, [(t, [0])])
    x.end("t", pid, e2, False, v=4, settle=True)
    x.end("t", pid, e2, False, v=5, label=" no retry: an empty abort", settle=True)


@scenario("core")
def end_txn_answers_before_the_markers(x: Conversation) -> None:
    """The answer is the decision; the records are to be seen when the marker is."""
    t = x.topic("a")
    pid, e = begin(x, t, 5)
    x.end("t", pid, e, True)
    x.settle("t")
    x.wait_until_stable(t, 0, 2)
    x.fetch(t, 0, 0, READ_COMMITTED)
    x.producers(t)
