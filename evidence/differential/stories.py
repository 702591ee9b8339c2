"""Beginnings that several conversations share."""

from __future__ import annotations

from typing import Any

from evidence.differential.conversation import Conversation

NEW_PRODUCE, OLD_PRODUCE = 12, 11
STALLING_EPOCH = 1_000_000
FOREIGN = 1_000_000  # added to a producer id: nobody's
NOBODY = 1 << 50  # a producer id that no broker of these tests gives out; a small one is somebody's some day


def is_new(end_txn_version: int) -> bool:
    """Whether a client that ends its transactions in this version speaks KIP-890's protocol."""
    return end_txn_version >= 5


def begin(x: Conversation, topic: str, v: int, *, producer: Any = None, quiet: bool = True) -> tuple[int, int]:
    """An open transaction of `t` with one record in partition 0, as a client writes it that ends it by EndTxn `v`."""
    if producer is None:
        producer = x.init("t", v=5 if is_new(v) else 4)
    if is_new(v):
        x.produce(topic, 0, n=1, producer=producer, sequence=0, transactional_id="t", v=NEW_PRODUCE, quiet=quiet)
    else:
        x.add("t", *producer, [(topic, [0])], v=min(v, 3))
        x.produce(topic, 0, n=1, producer=producer, sequence=0, transactional_id="t", v=OLD_PRODUCE, quiet=quiet)
    return producer  # type: ignore[no-any-return]


def timed_out(x: Conversation, topic: str, v: int) -> tuple[int, int]:
    """A transaction that its timeout has ended."""
    producer = x.init("t", v=5 if is_new(v) else 4, timeout=150)
    begin(x, topic, v, producer=producer)
    x.settle("t")
    x.wait_until_stable(topic, 0, 2)
    return producer


def stalled(x: Conversation, topic: str, v: int, *, commit: bool, timeout: int | None = None) -> tuple[int, int]:
    """A transaction in Prepare: an operator's marker keeps the coordinator's from the partition (tag stalled)."""
    producer = x.init("t", v=5 if is_new(v) else 4, timeout=timeout)
    x.markers([(*producer, False, [(topic, [0])], STALLING_EPOCH)], label=" keeps lower coordinator epochs out")
    begin(x, topic, v, producer=producer)
    x.end("t", *producer, commit, v=v)
    return producer
