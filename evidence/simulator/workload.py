"""The clients of a run: each slot lives many lives, one after the other; what a death left open is closed in the history."""

from __future__ import annotations

import asyncio
import random

from evidence.simulator.client_life import ClientLife
from evidence.simulator.cluster import Cluster
from evidence.simulator.history import History
from evidence.simulator.old_client import OldLife
from evidence.simulator.two_phase import Database, TwoPhaseLife
from evidence.world.loop import Process

LIVES_MAX = 40


class Workload:
    """All slots. `database` holds the decisions of the two-phase ones."""

    def __init__(self, cluster: Cluster, history: History) -> None:
        self.cluster, self.history = cluster, history
        self.database = Database()
        self.random = random.Random(f"workload {cluster.seed}")
        self.must_end = False
        self._slots: list[asyncio.Task[None]] = []
        self._lives: dict[int, ClientLife] = {}

    @property
    def lives(self) -> list[ClientLife]:
        """Of each slot the last one."""
        return list(self._lives.values())

    def start(self) -> None:
        """Begin every slot."""
        options = self.cluster.options
        for slot in range(options.clients + options.two_phase_clients):
            is_two_phase = slot >= options.clients
            self._slots.append(self.cluster.loop.create_task(self._live(slot, is_two_phase)))

    async def finished(self, timeout: float) -> None:
        """Wait until every slot has done its operations; then tell them to end."""
        if self._slots:
            await asyncio.wait(self._slots, timeout=timeout)

    async def end(self, timeout: float) -> None:
        """Let every operation under way come to its end, then kill who still hangs."""
        self.must_end = True
        for life in self._lives.values():
            life.must_end = True
        await asyncio.wait(self._slots, timeout=timeout)
        for life in list(self._lives.values()):
            if not life.process.is_dead:
                self.cluster.note(f"{life.process.name} still works and is killed")
                self._kill(life.process)
        await asyncio.wait(self._slots)
        for slot in self._slots:
            slot.result()

    def _kill(self, process: Process) -> None:
        process.kill()
        self.cluster.network.cut_process(process)

    async def _live(self, slot: int, is_two_phase: bool) -> None:
        operations = self.cluster.options.operations
        transactional_id = f"client-{slot}"
        for number in range(LIVES_MAX):
            if self.must_end or operations <= 0:
                return
            life = self._new_life(slot, number, transactional_id, operations, is_two_phase)
            await self._see_to_the_end(life)
            operations = life.operations_left
            if not is_two_phase and self.random.random() >= self.cluster.options.same_transactional_id:
                transactional_id = f"client-{slot}-{number}"
            await asyncio.sleep(self.random.choice((0.0, 0.05, 0.5)))

    def _new_life(
        self, slot: int, number: int, transactional_id: str, operations: int, is_two_phase: bool
    ) -> ClientLife:
        process = Process(self.cluster.loop, f"client-{slot}.{number}")
        self.cluster.clients[process.name] = process
        arguments = (self.cluster, self.history, process, slot, transactional_id, operations)
        if is_two_phase:
            return TwoPhaseLife(self.database, *arguments)
        return OldLife(*arguments) if slot < self.cluster.options.old_clients else ClientLife(*arguments)

    async def _see_to_the_end(self, life: ClientLife) -> None:
        self._lives[life.slot] = life
        work = life.process.start(life.run())
        await asyncio.wait((work, life.process.died), return_when=asyncio.FIRST_COMPLETED)
        self._kill(life.process)
        life.died()
        self.cluster.clients.pop(life.process.name, None)
        if work.done():
            work.result()

    async def recover_two_phase(self) -> None:
        """After everything is healed: each two-phase slot's next instance completes what the last one left."""
        options = self.cluster.options
        for slot in range(options.clients, options.clients + options.two_phase_clients):
            for number in range(3):
                life = self._new_life(slot, LIVES_MAX + number, f"client-{slot}", 0, True)
                await self._see_to_the_end(life)
                if isinstance(life, TwoPhaseLife) and life.recovered:
                    break
            else:
                self.cluster.found("liveness", f"two-phase client {slot} cannot recover")
