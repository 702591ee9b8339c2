"""A client that does not belong to the workload: it asks, and judges the answers by what it asked for."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from typing import Any

from evidence.simulator.cluster import Cluster
from evidence.simulator.strangers.wrong import TRANSIENT, Wrong
from evidence.world.loop import Process
from oncelog.broker.metrics.error_counts import errors_of
from oncelog.client.cluster.connection import Connection
from oncelog.errors import ErrorCode, KafkaError
from oncelog.wire.schema import Struct

TIMEOUT_MS = 2500


class Stranger:
    """One connection of one process. `is_new`: whether the cluster speaks the protocol of KIP-890."""

    def __init__(self, cluster: Cluster, process: Process, client_id: str = "stranger") -> None:
        self.cluster, self.process, self.client_id = cluster, process, client_id
        self.random = random.Random(f"stranger {cluster.seed} {process.name} {client_id}")
        self.is_new = cluster.options.transaction_version >= 2
        self._connection: Connection | None = None

    async def ask(self, message: Struct, version: int) -> Any:
        """The answer. Raises KafkaError."""
        connection = self._connection
        if connection is None or connection.is_closed:
            network = self.cluster.network.door(self.process)
            connection = await Connection.open(network, "broker", 9092, self.client_id, TIMEOUT_MS)
            self._connection = connection
        answer, _ = await connection.request(message, version_min=version, version_max=version, timeout_ms=TIMEOUT_MS)
        self.cluster.strange_request_count += 1
        return answer

    async def must_refuse(self, wrong: Wrong) -> None:
        """Ask, and let the cluster know if it was not refused as it should be. Raises KafkaError."""
        answer, late = await self.ask_in_turn(wrong.message, wrong.version)
        self.refused(wrong.name, answer, *wrong.codes, *late)

    async def ask_in_turn(self, message: Struct, version: int) -> tuple[Any, tuple[ErrorCode, ...]]:
        """The answer, and what it may be besides: what waits for its turn to change the metadata is judged then, and refused
        for its own timeout where that is over. Raises KafkaError."""
        loop = asyncio.get_running_loop()
        begin_s, timeout_ms = loop.time(), getattr(message, "timeout_ms", math.inf)
        answer = await self.ask(message, version)
        is_late = loop.time() - begin_s >= timeout_ms / 1000
        return answer, (ErrorCode.REQUEST_TIMED_OUT,) if is_late else ()

    def refused(self, name: str, answer: Any, *codes: ErrorCode) -> None:
        """Every error in the answer is one of `codes`, and there is one."""
        given = [ErrorCode(code) for code in errors_of(type(answer))(answer)]
        if not given or not set(given) <= {*codes, *TRANSIENT}:
            names = ", ".join(code.name for code in given) or "no error"
            self.cluster.found("refusals", f"{name!r} was answered {names}")

    def accepted(self, answer: Any) -> bool:
        """Whether there is no error in it."""
        return not errors_of(type(answer))(answer)


async def keep_asking(stranger: Stranger, asks: list[Callable[[Stranger], Any]], seconds_mean: float) -> None:
    """For ever: one of them, then a pause."""
    while True:
        await asyncio.sleep(stranger.random.expovariate(1 / seconds_mean))
        try:
            await stranger.random.choice(asks)(stranger)
        except (KafkaError, TimeoutError):
            continue  # the cluster is down, or the network: nothing was promised
