"""Members of groups, of either kind: slots in which one life follows the other, until every group has come to its end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

from evidence.simulator.cluster import ADDRESS, Cluster
from evidence.simulator.logins import settings_of
from evidence.world.disk import Disk
from evidence.world.doors import sim_host
from evidence.world.loop import Process

DRAIN_SECONDS = 90.0


class Lives:
    """`stop_seconds`: how long who is told to stop may take. A subclass says who is `_behind`."""

    stop_seconds = 15.0

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.is_draining = self.must_end = False
        self._slots: list[asyncio.Task[None]] = []
        self._alive: dict[str, Process] = {}

    def _behind(self) -> list[str]:
        """What somebody has still to do, in words."""
        raise AssertionError("a subclass says it")

    async def drained(self) -> None:
        """Every group comes to the end of what is committed; then all members stop."""
        self.is_draining = True
        ends = self.cluster.loop.time() + DRAIN_SECONDS
        while self._behind() and self.cluster.loop.time() < ends:  # noqa: ASYNC110
            await asyncio.sleep(0.25)
        for text in self._behind():
            self.cluster.found("liveness", f"{text} after {DRAIN_SECONDS:g} quiet seconds")
        self.must_end = True
        if self._slots:
            await asyncio.wait(self._slots, timeout=self.stop_seconds)
        for process in list(self._alive.values()):
            self.cluster.note(f"{process.name} still works and is killed")
            self._kill(process)
        for slot in self._slots:
            await slot

    def _born(self, name: str) -> Process:
        process = Process(self.cluster.loop, name)
        self.cluster.clients[process.name] = self._alive[process.name] = process
        return process

    async def _lived(self, process: Process, life: Coroutine[Any, Any, None]) -> None:
        """To its end, or until it is killed."""
        work = process.start(life)
        await asyncio.wait((work, process.died), return_when=asyncio.FIRST_COMPLETED)
        self._kill(process)
        self.cluster.clients.pop(process.name, None)
        del self._alive[process.name]
        if work.done():
            work.result()

    def _kill(self, process: Process) -> None:
        process.kill()
        self.cluster.network.cut_process(process)


def client_settings(cluster: Cluster, process: Process, random_numbers: random.Random) -> dict[str, Any]:
    """Keys of every client of a life."""
    return {
        "host": sim_host(process, cluster.network, Disk(0), cluster.seed),
        "bootstrap_servers": ADDRESS,
        "request_timeout_ms": cluster.options.request_timeout_ms,
        "default_api_timeout_ms": 20_000,
        "enable_metrics_push": False,  # recorded seeds stay what they were; tests/client/cluster/test_telemetry.py has it
        **settings_of(cluster.options, random_numbers),
    }
