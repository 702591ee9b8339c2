"""Whether the other processes serve while one is down: a producer for each, that writes to what this process leads."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from oncelog import Admin, Producer
from oncelog.errors import KafkaError

TOPIC = "probe"
PAUSE_S = 0.02
ANSWER_S_MAX = 10.0
SLOW_S = 1.0
SHARE_TOLD = 0.99


@dataclass
class Serving:
    """Who is down now, and how long the others took to answer meanwhile: per kill, by node."""

    nodes: tuple[int, ...]
    dead: int | None = None
    answers_s: list[dict[int, list[float]]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def down(self, node: int) -> None:
        """It is killed."""
        self.dead = node
        self.answers_s.append({each: [] for each in self.nodes if each != node})

    def up(self) -> None:
        """It listens again."""
        self.dead = None

    def counts(self, node: int, began: int) -> bool:
        """Whether another node is down now, and was when a request to `node` began: there had been `began` kills."""
        return self.dead is not None and self.dead != node and began == len(self.answers_s)

    def answered(self, node: int, began: int, taken_s: float) -> None:
        """A Produce to `node` that began when there had been `began` kills."""
        if self.counts(node, began):
            self.answers_s[-1][node].append(taken_s)
            if taken_s > SLOW_S:
                print(f"kill {began}: node {node} took {taken_s:.2f} s for a Produce", file=sys.stderr, flush=True)

    def problems(self) -> list[str]:
        """Processes that answered nothing while another one was down, and what they refused."""
        silent = [
            f"kill {number}: node {node} answered nothing while another one was down"
            for number, nodes in enumerate(self.answers_s, 1)
            for node, taken in nodes.items()
            if not taken
        ]
        return silent + self.errors

    def __str__(self) -> str:
        taken = sorted(each for nodes in self.answers_s for answers in nodes.values() for each in answers)
        if not taken:
            return "nothing was asked of the others while one was down"
        usual, slowest = taken[int((len(taken) - 1) * SHARE_TOLD)], taken[-1]
        return (
            f"while one was down the others answered {len(taken):,} of {len(taken) + len(self.errors):,} Produces, "
            f"{SHARE_TOLD:.0%} of them within {usual * 1000:.0f} ms, all within {slowest * 1000:.0f} ms"
        )


async def led_by(admin: Admin, nodes: tuple[int, ...]) -> Mapping[int, int]:
    """A partition of a new topic for each node, which leads it: they go round."""
    await admin.create_topics({TOPIC: len(nodes)})
    found = (await admin.describe_topics([TOPIC]))[TOPIC]
    leaders = {each.leader_id: each.partition for each in found.partitions.values()}
    return {node: leaders[node] for node in nodes}


async def probe(bootstrap: str, node: int, partition: int, serving: Serving) -> None:
    """Until it is cancelled."""
    async with Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer:
        while True:
            began, at = len(serving.answers_s), time.monotonic()
            try:
                async with asyncio.timeout(ANSWER_S_MAX):
                    await (await producer.send(TOPIC, b"x", partition=partition))
                serving.answered(node, began, time.monotonic() - at)
            except (KafkaError, TimeoutError) as error:
                if serving.counts(node, began):
                    serving.errors.append(f"kill {began}: node {node}: {error!r}")
            await asyncio.sleep(PAUSE_S)
