"""Reading: read_committed, last stable offset, waiting fetches, offsets by time, deleted records."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from evidence.differential.conversation import READ_COMMITTED, READ_UNCOMMITTED, Conversation, error_name
from evidence.differential.scenario import scenario
from oncelog.wire.schema import ZERO_UUID

UNKNOWN_ID = bytes(15) + b"\xff"


def three(x: Conversation) -> tuple[str, Any, Any, Any]:
    """A topic and three producers."""
    return x.topic("a"), x.init("t1"), x.init("t2"), x.init("t3")


def waiting_fetch(
    x: Conversation, topic: str, isolation_level: int, meanwhile: Callable[[], object]
) -> tuple[Any, bool]:
    """A fetch that waits twelve seconds for data, what happens meanwhile; its answer, and whether it came early."""
    connection, answers = x.connection(), []
    began = time.monotonic()

    def ask() -> None:
        found = x.fetch_partition(topic, 0, 0, isolation_level, wait_ms=12_000, connection=connection)
        answers.append((found, time.monotonic() - began < 10))

    thread = threading.Thread(target=ask)
    thread.start()
    threading.Event().wait(0.2)  # let it reach the broker; a later start only makes the test easier
    meanwhile()
    thread.join()
    return answers[0]


@scenario("core")
def fetch_wakes_on_append(x: Conversation) -> None:
    t = x.topic("a")
    found, early = waiting_fetch(x, t, READ_UNCOMMITTED, lambda: x.produce(t, 0, [b"hello"]))
    x.say("waiting fetch", error_name(found.error_code), f"early={early}")
    x.say_batches(found.records)


@scenario("core")
def fetch_wakes_on_lso(x: Conversation) -> None:
    """A waiting read_committed fetch is answered when a transaction ends, long before its wait is over."""
    t = x.topic("a")
    pid, e = x.init("t")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    found, early = waiting_fetch(x, t, READ_COMMITTED, lambda: x.end("t", pid, e, False, settle=True))
    aborted = [(x.producer_name(each.producer_id), each.first_offset) for each in found.aborted_transactions]
    has_data = bool(found.records)
    x.say("waiting fetch", error_name(found.error_code), f"early={early}", f"data={has_data}", f"aborted={aborted}")


@scenario("core")
def rc_interleaved_three(x: Conversation) -> None:
    t, (p1, e1), (p2, e2), (p3, e3) = three(x)
    q = {"quiet": True}
    x.produce(t, 0, [b"A0"], producer=(p2, e2), sequence=0, transactional_id="t2", **q)  # 0
    x.produce(t, 0, [b"C0"], producer=(p3, e3), sequence=0, transactional_id="t3", **q)  # 1
    x.produce(t, 0, [b"plain0"], **q)  # 2
    x.produce(t, 0, [b"A1", b"A2"], producer=(p2, e2), sequence=1, transactional_id="t2", **q)  # 3,4
    x.end("t2", p2, e2, False, settle=True)  # 5
    x.produce(t, 0, [b"O0"], producer=(p1, e1), sequence=0, transactional_id="t1", **q)  # 6
    x.produce(t, 0, [b"C1"], producer=(p3, e3), sequence=1, transactional_id="t3", **q)  # 7
    x.end("t3", p3, e3, True, settle=True)  # 8
    x.produce(t, 0, [b"B0"], producer=(p2, e2 + 1), sequence=0, transactional_id="t2", **q)  # 9
    x.end("t2", p2, e2 + 1, False, settle=True)  # 10
    x.produce(t, 0, [b"plain1"], **q)  # 11
    x.wait_until_stable(t, 0, 6)
    x.marks(t)
    for off in (0, 1, 3, 4, 5, 6, 7, 11, 12):
        x.fetch(t, 0, off, READ_COMMITTED)
    x.fetch(t, 0, 13, READ_COMMITTED)
    x.fetch(t, 0, 0, READ_UNCOMMITTED)
    x.end("t1", p1, e1, True, settle=True)  # 12
    x.wait_until_stable(t, 0, 13)
    for off in (0, 1, 4, 5, 6, 9, 10, 11, 12, 13):
        x.fetch(t, 0, off, READ_COMMITTED, shows=off == 0)


@scenario("core")
def rc_many_aborted(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t")
    for i in range(8):
        x.produce(t, 0, [b"x%d" % i], producer=(pid, e), sequence=0, transactional_id="t", quiet=True)
        pid, e = x.end("t", pid, e, i % 3 == 0, quiet=True, settle=True)
    x.wait_until_stable(t, 0, 16)
    for off in (0, 2, 3, 5, 9, 12, 15):
        x.fetch(t, 0, off, READ_COMMITTED, shows=False)


@scenario("core")
def rc_fetch_inside_batch(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t")
    x.produce(t, 0, n=5, producer=(pid, e), sequence=0, transactional_id="t")
    pid, e = x.end("t", pid, e, False, settle=True)
    x.produce(t, 0, n=3, producer=(pid, e), sequence=0, transactional_id="t")
    x.end("t", pid, e, True, settle=True)
    x.wait_until_stable(t, 0, 10)
    for off in (0, 2, 4, 5, 6, 7, 8, 9, 10):
        x.fetch(t, 0, off, READ_COMMITTED)


@scenario("core")
def rc_plain_records_held_back(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t")
    x.produce(t, 0, [b"before"])
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    x.produce(t, 0, [b"after"])
    x.fetch(t, 0, 0, READ_COMMITTED)
    x.fetch(t, 0, 1, READ_COMMITTED)
    x.fetch(t, 0, 2, READ_COMMITTED)
    x.fetch(t, 0, 3, READ_COMMITTED)
    x.fetch(t, 0, 4, READ_COMMITTED, label=" beyond the end")
    x.fetch(t, 0, -1, READ_COMMITTED, label=" negative")
    x.end("t", pid, e, True, settle=True)
    x.wait_until_stable(t, 0, 4)
    x.fetch(t, 0, 2, READ_COMMITTED)


@scenario("core")
def lso_advances_in_steps(x: Conversation) -> None:
    t, (p1, e1), (p2, e2), (p3, e3) = three(x)
    for n, p, e in (("t1", p1, e1), ("t2", p2, e2), ("t3", p3, e3)):
        x.produce(t, 0, n=2, producer=(p, e), sequence=0, transactional_id=n, quiet=True)
    x.marks(t)
    x.end("t2", p2, e2, True, settle=True)
    x.marks(t)
    x.end("t1", p1, e1, False, settle=True)
    x.wait_until_stable(t, 0, 4)
    x.marks(t)
    x.end("t3", p3, e3, True, settle=True)
    x.wait_until_stable(t, 0, 9)
    x.marks(t)
    x.fetch(t, 0, 0, READ_COMMITTED)


@scenario("core")
def fetch_versions_same_data(x: Conversation) -> None:
    t = x.topic("a")
    tid = x.topic_id(t)
    pid, e = x.init("t")
    x.produce(t, 0, n=1, producer=(pid, e), sequence=0, transactional_id="t")
    pid, e = x.end("t", pid, e, False, settle=True)
    x.produce(t, 0, [b"p"])
    x.wait_until_stable(t, 0, 3)
    for v in (4, 5, 6, 7, 8, 9, 10, 11, 12):
        x.fetch(t, 0, 0, READ_COMMITTED, v=v)
    for v in (13, 14, 15, 16, 17, 18):
        x.fetch(tid, 0, 0, READ_COMMITTED, v=v, name="<id>")
    for v in (4, 11, 12):
        x.fetch(t, 0, 0, READ_UNCOMMITTED, v=v)
    x.fetch(tid, 0, 0, READ_UNCOMMITTED, v=17, name="<id>")


@scenario("core")
def fetch_errors(x: Conversation) -> None:
    t = x.topic("a", 2)
    x.produce(t, 0, [b"p"])
    x.fetch(x.name("nosuch"), 0, 0, READ_UNCOMMITTED)
    x.fetch(t, 9, 0, READ_UNCOMMITTED)
    x.fetch(UNKNOWN_ID, 0, 0, READ_UNCOMMITTED, v=13, name="<unknown id>")
    x.fetch(ZERO_UUID, 0, 0, READ_UNCOMMITTED, v=13, name="<zero id>")
    x.fetch(t, 0, 5, READ_UNCOMMITTED, label=" past the end")
    x.fetch(t, 0, 1, READ_UNCOMMITTED, label=" at the end")
    x.fetch(t, 0, 0, READ_UNCOMMITTED, leader_epoch=99, label=" leader epoch ahead")
    x.fetch(t, 0, 0, READ_UNCOMMITTED, leader_epoch=0, label=" leader epoch right")
    x.fetch(t, 0, 0, READ_UNCOMMITTED, v=9, leader_epoch=99, label=" leader epoch ahead")
    x.fetch(t, 0, 0, READ_UNCOMMITTED, v=8, label=" no leader epoch")
    x.fetch("__no.such topic!", 0, 0, READ_UNCOMMITTED)


@scenario("core")
def list_offsets_isolation(x: Conversation) -> None:
    t = x.topic("a")
    pid, e = x.init("t")
    x.offsets(t, 0, -1, READ_COMMITTED, label=" empty log")
    x.offsets(t, 0, -2, READ_COMMITTED, label=" empty log")
    x.produce(t, 0, [b"a"], ts=x.started_ms)
    x.produce(t, 0, [b"b"], producer=(pid, e), sequence=0, transactional_id="t", ts=x.started_ms + 1000)
    x.produce(t, 0, [b"c"], ts=x.started_ms + 2000)
    for iso in (READ_UNCOMMITTED, READ_COMMITTED):
        for ts in (
            -1,
            -2,
            x.started_ms,
            x.started_ms + 1,
            x.started_ms + 1000,
            x.started_ms + 1500,
            x.started_ms + 2000,
            x.started_ms + 2001,
        ):
            x.offsets(t, 0, ts, iso)
        x.offsets(t, 0, -3, iso, label=" max timestamp")
    x.end("t", pid, e, False, settle=True)
    x.wait_until_stable(t, 0, 4)
    for ts in (-1, x.started_ms + 1000, x.started_ms + 1500, x.started_ms + 2001):
        x.offsets(t, 0, ts, READ_COMMITTED)
    x.offsets(t, 0, -3, READ_COMMITTED, label=" max timestamp: the marker")


@scenario("core")
def list_offsets_errors(x: Conversation) -> None:
    t = x.topic("a")
    x.offsets(x.name("nosuch"), 0, -1)
    x.offsets(t, 9, -1)
    x.offsets(t, 0, -1, leader_epoch=99, label=" epoch ahead")
    x.offsets(t, 0, -1, leader_epoch=0, label=" epoch right")
    x.offsets(t, 0, -99, label=" nonsense timestamp")
    r = x.call(
        "ListOffsets",
        7,
        replica_id=-1,
        isolation_level=0,
        topics=[
            {
                "name": t,
                "partitions": [
                    {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1},
                    {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -2},
                ],
            }
        ],
    )
    x.say(
        "partition twice",
        [(p.partition_index, error_name(p.error_code), p.offset) for q in r.topics for p in q.partitions],
    )


@scenario("core")
def list_offsets_by_time_multi_record(x: Conversation) -> None:
    t = x.topic("a")
    x.produce(t, 0, [b"a", b"b", b"c"], ts=x.started_ms, ts_step=100)
    x.produce(t, 0, [b"d", b"e"], ts=x.started_ms + 50, ts_step=10)
    for d in (-5, 0, 1, 100, 101, 200, 201):
        x.offsets(t, 0, x.started_ms + d)
    x.offsets(t, 0, -3, label=" max timestamp")


@scenario("core")
def delete_records_basic(x: Conversation) -> None:
    t = x.topic("a")
    for i in range(5):
        x.produce(t, 0, [b"%d" % i], quiet=True)
    x.delete_records(t, 2)
    x.fetch(t, 0, 0, READ_UNCOMMITTED, label=" below the start")
    x.fetch(t, 0, 2, READ_UNCOMMITTED)
    x.offsets(t, 0, -2)
    x.delete_records(t, 1)
    x.delete_records(t, 6)
    x.delete_records(t, -2)
    x.delete_records(t, -1, v=0)
    x.offsets(t, 0, -2)
    x.offsets(t, 0, -1)
    x.delete_records(t, 0, partition=7)
    x.delete_records(x.name("nosuch"), 0)
    x.produce(t, 0, [b"next"])
