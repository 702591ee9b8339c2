"""The end of the epochs: 32766 is the last that a producer is given, 32767 is left to markers (kafka-notes C8-C11,
KAFKA-20090, KAFKA-20310)."""

from __future__ import annotations

from evidence.differential.conversation import READ_COMMITTED, Conversation
from evidence.differential.scenario import family, scenario
from evidence.differential.stories import begin, is_new

LAST = 32766


@scenario("seeded", t=LAST - 2)
def epochs_run_out_by_transactions(x: Conversation) -> None:
    """Each EndTxn v5 takes one; the last one brings a new producer id."""
    t = x.topic("a")
    producer = x.init("t")
    for _ in range(3):
        begin(x, t, 5, producer=producer)
        producer = x.end("t", *producer, True, settle=True)
        x.describe("t")
    x.wait_until_stable(t, 0, 6)
    x.fetch(t, 0, 0, READ_COMMITTED)
    x.producers(t)


@family("seeded", (True, False), t=LAST - 1)
def epoch_overflow_of(x: Conversation, commit: bool) -> None:
    """KIP-890's overflow: the decision is answered with the new id, its retry too, until the next transaction."""
    t = x.topic("a")
    pid, e = begin(x, t, 5, producer=x.init("t"))
    new = x.end("t", pid, e, commit, settle=True)
    x.end("t", pid, e, commit, label=" retry")
    x.end("t", pid, e, not commit, label=" the other result")
    x.init("t", pid, e, label=" by the old id")
    x.wait_until_stable(t, 0, 2)
    x.produce(t, 0, n=1, producer=new, sequence=0, transactional_id="t", label=" by the new id")
    x.end("t", pid, e, commit, label=" retry, too late")
    x.end("t", *new, True, settle=True)
    x.wait_until_stable(t, 0, 4)
    x.fetch(t, 0, 0, READ_COMMITTED)
    x.producers(t)


@family("seeded", (0, 1, 3, 4), t=LAST - 1)
def epoch_exhausted_in_the_old_protocol(x: Conversation, v: int) -> None:
    """EndTxn below v5 takes no epoch: an id at the last one goes on for ever."""
    t = x.topic("a")
    pid, e = x.init("t", v=4)
    for commit in (True, False):
        x.add("t", pid, e, [(t, [0])], v=min(v, 3))
        x.produce(t, 0, n=1, producer=(pid, e), sequence=0 if commit else 1, transactional_id="t", v=11)
        x.end("t", pid, e, commit, v=v, settle=True)
        x.describe("t")
    x.wait_until_stable(t, 0, 4)
    x.fetch(t, 0, 0, READ_COMMITTED)


@family("seeded", (3, 4, 5), t=LAST - 2)
def epoch_exhausted_by_resuming(x: Conversation, v: int) -> None:
    """kafka-notes C9: the bump behind the last epoch is a new producer id; its retry gets it again."""
    pid, e = x.init("t", v=v)
    pid, e = x.init("t", pid, e, v=v)
    x.describe("t")
    new = x.init("t", pid, e, v=v, label=" the last epoch")
    x.init("t", pid, e, v=v, label=" retry")
    x.init("t", *new, v=v, label=" the new id")
    x.init("t", pid, e, v=v, label=" the old id, too late")


@scenario("seeded", t=LAST - 1)
def epoch_exhausted_by_new_instances(x: Conversation) -> None:
    old = x.init("t")
    x.init("t", label=" a newer instance")
    x.init("t", label=" and another")
    x.init("t", *old, label=" the first one")


@scenario("seeded", t=LAST - 2)
def epoch_exhausted_and_the_last_bump_retried(x: Conversation) -> None:
    """kafka-notes C8: the retry of the bump to the last epoch."""
    pid, e = x.init("t")
    x.init("t", pid, e)
    x.init("t", pid, e, label=" retry")


@family("seeded", (4, 5), t=LAST - 1)
def epoch_exhausted_and_fenced(x: Conversation, v: int) -> None:
    """kafka-notes C10: a newer instance over a transaction at the last epoch; the marker carries 32767."""
    t = x.topic("a")
    pid, e = begin(x, t, v, producer=x.init("t"))
    x.init("t", v=v, label=" a newer instance")
    x.describe("t")
    x.wait_until_stable(t, 0, 2)
    x.fetch(t, 0, 0, READ_COMMITTED)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=1, transactional_id="t", v=12 if is_new(v) else 11)
    x.add("t", pid, e, [(t, [0])])
    x.end("t", pid, e, False, v=v)
    x.end("t", pid, e, True, v=v)


@family("seeded", (4, 5), t=LAST - 1)
def epoch_exhausted_and_timed_out(x: Conversation, v: int) -> None:
    """kafka-notes C10: the same by the timeout; the client of v5 goes on with the new id."""
    t = x.topic("a")
    pid, e = x.init("t", timeout=150)
    begin(x, t, v, producer=(pid, e))
    x.settle("t")
    x.wait_until_stable(t, 0, 2)
    x.describe("t")
    x.fetch(t, 0, 0, READ_COMMITTED)
    x.produce(t, 0, n=1, producer=(pid, e), sequence=1, transactional_id="t", v=12 if is_new(v) else 11)
    x.add("t", pid, e, [(t, [0])])
    x.end("t", pid, e, True, v=v)
    new = x.end("t", pid, e, False, v=v)
    if is_new(v):
        begin(x, t, 5, producer=new)
        x.end("t", *new, True, settle=True)


@scenario("seeded", t=LAST - 1)
def epoch_exhausted_by_an_empty_abort(x: Conversation) -> None:
    pid, e = x.init("t")
    x.end("t", pid, e, False, settle=True)
    x.describe("t")
    x.end("t", pid, e, False, label=" retry")


@scenario("seeded", t=LAST - 1)
def epoch_overflow_with_offsets(x: Conversation) -> None:
    t = x.topic("a")
    x.find_group("g")
    pid, e = x.init("t")
    x.txn_offsets("t", "g", pid, e, [(t, 0, 7)])
    new = x.end("t", pid, e, True, settle=True)
    x.offset_fetch("g", [(t, [0])], stable=True)
    x.txn_offsets("t", "g", pid, e, [(t, 0, 8)], label=" by the old id")
    x.txn_offsets("t", "g", *new, [(t, 0, 9)], label=" by the new id")
    x.end("t", *new, True, settle=True)
    x.offset_fetch("g", [(t, [0])], stable=True)


@scenario("seeded", t=LAST)
def epoch_seeded_behind_the_last(x: Conversation) -> None:
    """An id that the log has at 32766 itself."""
    x.describe("t")
    x.init("t")


@scenario("seeded", t=LAST + 1)
def epoch_seeded_at_the_markers_epoch(x: Conversation) -> None:
    """KAFKA-20090: an id that a fence has left at 32767."""
    x.describe("t")
    x.init("t")
    x.init("t")


@scenario("core")
def markers_at_the_last_epoch(x: Conversation) -> None:
    """KAFKA-20090: a version 2 marker at 32767 over a transaction at 32767 is taken."""
    t = x.topic("a")
    pid = 4_000_002_000
    x.produce(t, 0, n=1, producer=(pid, 32767), sequence=0)
    x.markers([(pid, 32767, False, [(t, [0])], 0, 2)], v=2)
    x.markers([(pid, 32766, False, [(t, [0])], 0, 2)], v=2, label=" one below")
    x.producers(t)
