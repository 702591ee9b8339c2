"""The judge sees what it is there for, and the writers and members do their work on a broker that lives."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from bench.servers import oncelog

from evidence.cluster_kills.__main__ import not_copied
from evidence.cluster_kills.judging import committed
from evidence.cluster_kills.problems import problems
from evidence.cluster_kills.serving import Serving
from evidence.cluster_kills.work import ABORTED, COMMITTED, IN, OUT, PARTITIONS, UNKNOWN, Ledger, Work
from oncelog import Admin

LEDGER = Ledger({(0, 1): 2, (0, 2): 1, (1, 1): 2}, {(0, 1): COMMITTED, (0, 2): ABORTED, (1, 1): UNKNOWN})
GOOD = [[b"0:1:0", b"0:1:1"], []]


def test_what_is_right_raises_nothing() -> None:
    assert problems(LEDGER, GOOD, GOOD) == []
    known_late = [GOOD[0], [b"1:1:0", b"1:1:1"]]
    assert problems(LEDGER, known_late, known_late) == []


@pytest.mark.parametrize(
    ("written", "copied", "says"),
    [
        ([[b"0:1:0"], []], [[b"0:1:0"], []], "transaction (0, 1) is committed, and 1 of its 2 records are there"),
        ([[*GOOD[0], b"0:2:0"], []], [[*GOOD[0], b"0:2:0"], []], "(0, 2) is aborted, and 1 of its 1"),
        ([[*GOOD[0], b"1:1:0"], []], [[*GOOD[0], b"1:1:0"], []], "(1, 1) is unknown, and 1 of its 2"),
        ([[*GOOD[0], b"0:1:1"], []], GOOD, "in: b'0:1:1' 2 times"),
        ([[*GOOD[0], b"5:1:0"], []], [[*GOOD[0], b"5:1:0"], []], "transaction (5, 1) was never written"),
        (GOOD, [[b"0:1:0"], []], "out: b'0:1:1' 0 times"),
        (GOOD, [[*GOOD[0], b"0:1:1"], []], "out: b'0:1:1' 2 times"),
        (GOOD, [[*GOOD[0], b"0:9:0"], []], "out: b'0:9:0' is not in `in`"),
        ([[b"0:1:1", b"0:1:0"], []], GOOD, "in: partition 0: b'0:1:0' behind (1, 1)"),
    ],
)
def test_what_is_wrong_is_seen(written: list[list[bytes]], copied: list[list[bytes]], says: str) -> None:
    assert any(says in line for line in problems(LEDGER, written, copied))


def test_who_serves_while_another_is_down_is_told() -> None:
    serving = Serving((1, 2, 3))
    serving.answered(1, 0, 9.0)  # nobody is down
    serving.down(2)
    serving.answered(1, 0, 9.0)  # it began before
    serving.answered(2, 1, 9.0)  # who is down itself
    serving.answered(1, 1, 0.004)
    serving.up()
    serving.answered(1, 1, 9.0)
    assert serving.problems() == ["kill 1: node 3 answered nothing while another one was down"]
    assert "answered 1 of 1 Produces, 99% of them within 4 ms, all within 4 ms" in str(serving)


def test_a_few_seconds_without_kills() -> None:
    async def work_on(bootstrap: str) -> Work:
        work = Work(bootstrap, 7)
        async with Admin(bootstrap_servers=bootstrap) as admin:
            await admin.create_topics({IN: PARTITIONS, OUT: PARTITIONS})
            copying = asyncio.create_task(work.copy(0))
            writing = asyncio.create_task(work.write(0))
            while list(work.ledger.outcomes.values()).count(COMMITTED) < 3:
                await asyncio.wait({writing}, timeout=0.05)
            work.is_over.set()
            await writing
            while await asyncio.to_thread(not_copied, bootstrap):
                await asyncio.wait({copying}, timeout=0.05)
            copying.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await copying
        return work

    with oncelog() as server:
        work = asyncio.run(work_on(server.bootstrap))
        written, copied = (committed(server.bootstrap, topic, PARTITIONS) for topic in (IN, OUT))
    assert problems(work.ledger, written, copied) == []
    assert sum(map(len, written)) > 0
