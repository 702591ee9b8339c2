"""How long a transaction of one record takes through our client (transaction.version 2) and through librdkafka (which has
the first protocol), on the same broker. They take turns every few transactions: a busy machine then hurts both alike."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from bench.brokers import make_topic, one_transaction, transactional
from bench.pairs import both, percentile
from bench.selection import Wanted
from bench.servers import Server, oncelog
from bench.table import Row
from oncelog import Producer

TURNS = 60
TRANSACTIONS_PER_TURN = 25


@dataclass
class Samples:
    """Milliseconds of each commit, and of each whole transaction."""

    commits: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)

    def add(self, begun: float, commit_ms: float) -> None:
        self.commits.append(commit_ms)
        self.whole.append((time.perf_counter() - begun) * 1000)


class OurClient:
    """A producer of ours in an event loop that runs while it is its turn."""

    def __init__(self, server: Server, topic: str) -> None:
        self.samples, self._topic, self._runner = Samples(), topic, asyncio.Runner()
        self._producer = self._runner.run(self._started(server))

    async def _started(self, server: Server) -> Producer:
        producer = Producer(bootstrap_servers=server.bootstrap, transactional_id="ours", linger_ms=0)
        await producer.start()
        return producer

    def turn(self) -> None:
        self._runner.run(self._turn())

    async def _turn(self) -> None:
        for _ in range(TRANSACTIONS_PER_TURN):
            begun = time.perf_counter()
            self._producer.begin_transaction()
            await self._producer.send(self._topic, b"x" * 100, partition=0)
            committing = time.perf_counter()
            await self._producer.commit_transaction()
            self.samples.add(begun, (time.perf_counter() - committing) * 1000)

    def close(self) -> None:
        self._runner.run(self._producer.stop())
        self._runner.close()


class TheirClient:
    """librdkafka. Its record, too, leaves with the commit."""

    def __init__(self, server: Server, topic: str) -> None:
        self.samples, self._topic, self._producer = Samples(), topic, transactional(server, "theirs")

    def turn(self) -> None:
        for _ in range(TRANSACTIONS_PER_TURN):
            begun = time.perf_counter()
            self.samples.add(begun, one_transaction(self._producer, self._topic, b"x" * 100))


@contextmanager
def _clients(server: Server) -> Iterator[tuple[OurClient, TheirClient]]:
    for topic in ("ours", "theirs"):
        make_topic(server, topic)
    ours = OurClient(server, "ours")
    try:
        yield ours, TheirClient(server, "theirs")
    finally:
        ours.close()


def latency(with_kafka: bool, _wanted: Wanted) -> list[Row]:
    """Median and 99th percentile of the commit, and of the whole transaction, on each broker.

    On oncelog as it comes, where both wait for the same syncs of the disk, and on one that waits for none.
    """
    rows = []
    with both(with_kafka) as servers, oncelog(name="oncelog, flush.policy=os", flush_policy="os") as without_disk:
        for server in (servers[0], without_disk, *servers[1:]):
            with _clients(server) as (ours, theirs):
                for i in range(TURNS + 1):
                    if i == 1:  # everybody is warm
                        ours.samples, theirs.samples = Samples(), Samples()
                    for each in (ours, theirs) if i % 2 else (theirs, ours):
                        each.turn()
                rows += _rows(server, ours.samples, theirs.samples)
    return rows


def _rows(server: Server, ours: Samples, theirs: Samples) -> list[Row]:
    return [
        Row(
            f"our client on {server.name}: {what} of one record, {word}",
            "ms",
            percentile(sorted(mine), share),
            percentile(sorted(others), share),
            other_name="librdkafka",
            aim="<= 0.7 of it" if what == "commit" else "",
            note=f"n={len(mine)}",
        )
        for what, mine, others in (
            ("commit", ours.commits, theirs.commits),
            ("whole transaction", ours.whole, theirs.whole),
        )
        for word, share in (("p50", 0.5), ("p99", 0.99))
    ]
