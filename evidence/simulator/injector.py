"""Makes the faults of the options happen, and heals everything at the end. Every kind is a task of its own."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Coroutine
from typing import Any

from evidence.simulator.cluster import DATA, Cluster
from evidence.simulator.damage import flipped_bit, misdirected_sector
from evidence.simulator.logins import give_back, take_away
from evidence.world.files import Fault, Keep
from evidence.world.loop import Process
from evidence.world.network import NetworkFaults

Act = Callable[[random.Random], Coroutine[Any, Any, None]]
OFFLINE_REPAIR_SECONDS = 1.5  # an operator restarts a broker whose partition went offline


class Injector:
    """Runs until `heal`. Only one task ends or starts the broker at a time: `_repair` is the lock."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.options = cluster, cluster.options
        self.random = random.Random(f"injector {cluster.seed}")
        self._repair = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self.is_healed = False

    def start(self) -> None:
        """Begin."""
        options = self.options
        kinds: tuple[tuple[str, float, Act], ...] = (
            ("end-broker", options.broker_kill_every, self._end_broker),
            ("pause-broker", options.broker_pause_every, self._pause_broker),
            ("kill-client", options.client_kill_every, self._kill_client),
            ("pause-client", options.client_pause_every, self._pause_client),
            ("jump-clock", options.clock_jump_every, self._jump_clock),
            ("fail-disk", options.disk_fault_every, self._fail_disk),
            ("partition", options.partition_every, self._partition),
            ("fill-disk", options.full_disk_every, self._fill_disk),
            ("slow-disk", options.slow_disk_every, self._slow_disk),
            ("fail-reads", options.read_fault_every, self._fail_reads),
            ("damage", options.damage_every, self._damage),
            ("revoke", options.revoke_every, self._revoke),
        )
        loop = self.cluster.loop
        for kind, seconds, act in kinds:
            if seconds > 0:
                self._tasks.append(loop.create_task(self._now_and_then(kind, seconds, act)))
        self._tasks.append(loop.create_task(self._look_after_broker()))

    async def _now_and_then(self, kind: str, seconds: float, act: Act) -> None:
        # Draws of its own for each kind, and for each fault: without one of them the others are what they were.
        intervals = random.Random(f"{kind} {self.cluster.seed}")
        for number in itertools.count():
            await asyncio.sleep(intervals.expovariate(1 / seconds))
            if self.cluster.happens(kind):
                await act(random.Random(f"{kind} {number} {self.cluster.seed}"))

    async def heal(self) -> None:
        """No more faults; the broker serves and every partition of it is online."""
        self.is_healed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        cluster = self.cluster
        cluster.note("--- healed")
        cluster.network.faults = NetworkFaults()
        cluster.network.blocked.clear()
        cluster.disk.heal()
        cluster.disk.sync_pause_seconds = 0.0
        for process in [cluster.broker_process, *cluster.clients.values()]:
            if process is not None and process.is_paused:
                process.resume()
        if self.options.session_ms:
            self._tasks = [cluster.loop.create_task(self._give_back())]
        # A transaction that began while the clock was ahead times out by that clock, as in Apache Kafka.
        cluster.end_drift()
        if not cluster.is_serving or cluster.is_stopping or cluster.disk.has_failed or self._is_offline():
            cluster.end_broker(Keep.RANDOM if cluster.disk.is_off else None)
            for _ in range(5):
                if await cluster.start_broker():
                    return
            cluster.found("liveness", "the broker does not start on a healthy disk")

    async def _give_back(self) -> None:
        while not await self.cluster.in_broker(give_back):  # noqa: ASYNC110
            await asyncio.sleep(0.2)

    def _is_offline(self) -> bool:
        broker = self.cluster.broker
        if broker is None:
            return False
        has_failed = broker.failure is not None and broker.failure.done()
        log = broker.store._log  # it takes no changes any more, and says so: an operator restarts such a broker, too
        has_failed |= log is not None and log.failure is not None
        # A partition that a start found damaged stays out until the next one, which the mended disk gives right bytes.
        has_failed |= bool(broker.partitions._damaged)
        return has_failed or any(each.is_offline for each in broker.partitions)

    async def _look_after_broker(self) -> None:
        while True:
            await asyncio.sleep(self.random.uniform(0.01, 0.1))
            if not self.cluster.is_serving:
                await self._restart(None)
            elif self._is_offline() and not self._repair.locked():
                await asyncio.sleep(self.random.uniform(0, OFFLINE_REPAIR_SECONDS))
                await self._restart(self.random.choice((None, Keep.RANDOM)))

    async def _restart(self, keep: Keep | None) -> None:
        async with self._repair:
            if self.cluster.is_serving and not self._is_offline():
                return
            self.cluster.end_broker(keep)
            await asyncio.sleep(self.random.expovariate(1 / self.options.broker_restart_seconds))
            while not await self.cluster.start_broker():  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        if self.options.read_fault_every and self.random.random() < 0.5:
            await self._fail_reads(self.random)  # coordinators are loaded when they are asked first

    # kinds

    async def _end_broker(self, rng: random.Random) -> None:
        cluster, options, draw = self.cluster, self.options, rng.random
        if self._repair.locked() or not cluster.is_serving:
            return
        keep = rng.choice((Keep.RANDOM, Keep.NONE, Keep.LAST_TORN, Keep.ALL))
        if draw() < options.clean_share:
            cluster.count("clean stop")
            cluster.note("broker is stopped")
            async with self._repair:
                await cluster.stop_broker()
        elif draw() < options.mid_operation_share:
            cluster.count("power cut in an operation")
            cluster.disk.cut_power_at(rng.randint(1, 12))
            return  # `_look_after_broker` sees it
        else:
            power = draw() < options.power_share
            cluster.count("power cut" if power else "broker kill")
            cluster.note(f"broker is killed{f', the power goes: {keep.name}' if power else ''}")
            cluster.end_broker(keep if power else None)
        await self._restart(None)

    async def _revoke(self, rng: random.Random) -> None:
        self.cluster.count("credentials taken away")
        self.cluster.note("credentials are taken away")
        await self.cluster.in_broker(take_away)
        await asyncio.sleep(rng.uniform(0.1, 3.0))
        await self.cluster.in_broker(give_back)

    async def _pause_broker(self, rng: random.Random) -> None:
        process = self.cluster.broker_process
        if process is not None and self.cluster.is_serving:
            await self._pause(process, "broker", rng)

    async def _pause(self, process: Process, what: str, rng: random.Random) -> None:
        seconds = rng.choice((0.2, 1.0, 5.0))
        self.cluster.count(f"{what} pause")
        self.cluster.note(f"{process.name} is paused for {seconds} s")
        process.pause()
        try:
            await asyncio.sleep(seconds)
        finally:
            process.resume()

    def _client(self, rng: random.Random) -> Process | None:
        alive = [process for process in self.cluster.clients.values() if not process.is_dead]
        return rng.choice(alive) if alive else None

    async def _kill_client(self, rng: random.Random) -> None:
        process = self._client(rng)
        if process is not None:
            self.cluster.count("client kill")
            self.cluster.note(f"{process.name} is killed")
            process.kill()
            self.cluster.network.cut_process(process)

    async def _pause_client(self, rng: random.Random) -> None:
        process = self._client(rng)
        if process is not None and not process.is_paused:
            await self._pause(process, "client", rng)

    async def _jump_clock(self, rng: random.Random) -> None:
        cluster, client = self.cluster, self._client(rng)
        # An hour ahead times out every open transaction; back again, nothing may break either.
        jump_ms = rng.choice((-3_600_000, -1500, 1500, 3_000, 3_600_000))
        is_broker = client is None or rng.random() < 0.5
        cluster.count("clock jump")
        if is_broker or client is None:
            cluster.set_broker_clock(jump_ms)
        else:
            client.clock_offset_ms = jump_ms
        cluster.note(f"the clock of {'the broker' if client is None or is_broker else client.name} is {jump_ms} ms off")

    async def _fail_disk(self, rng: random.Random) -> None:
        fault = rng.choice((Fault.DISK_FULL, Fault.IO_ERROR, Fault.SYNC_ERROR))
        self.cluster.count(f"disk {fault.name}")
        self.cluster.note(f"disk: {fault.name} soon")
        self.cluster.disk.fail_at(rng.randint(1, 20), fault, is_sticky=rng.random() < 0.2)

    async def _fill_disk(self, rng: random.Random) -> None:
        disk, seconds = self.cluster.disk, rng.uniform(0.2, 3)
        self.cluster.count("full disk")
        self.cluster.note(f"disk: full for {seconds:.2f} s")
        disk.is_full = True
        try:
            await asyncio.sleep(seconds)
        finally:
            disk.is_full = False

    async def _slow_disk(self, rng: random.Random) -> None:
        disk, seconds = self.cluster.disk, rng.uniform(0.5, 4)
        disk.sync_pause_seconds = rng.choice((0.1, 0.5, 2.0))
        self.cluster.count("slow disk")
        self.cluster.note(f"disk: a sync takes {disk.sync_pause_seconds} s longer for {seconds:.2f} s")
        try:
            await asyncio.sleep(seconds)
        finally:
            disk.sync_pause_seconds = 0.0

    async def _fail_reads(self, rng: random.Random) -> None:
        disk, seconds = self.cluster.disk, rng.uniform(0.05, 0.6)
        self.cluster.count("disk READ_ERROR")
        self.cluster.note(f"disk: reads fail for {seconds:.2f} s")
        disk.fail_reads_from(rng.choice((1, 1, 5, 30)))
        try:
            await asyncio.sleep(seconds)
        finally:
            disk.fail_reads_from(None)

    async def _damage(self, rng: random.Random) -> None:
        disk = self.cluster.disk
        kind, make = rng.choice((("bit flip", flipped_bit), ("misdirected sector", misdirected_sector)))
        damage = make(disk, DATA, rng)
        if damage is None:
            return
        seconds = rng.uniform(0.2, 3)
        self.cluster.count(kind)
        self.cluster.note(f"disk: {kind} in {damage.path} at {damage.position} for {seconds:.2f} s")
        damage.do(disk)
        try:
            await asyncio.sleep(seconds)
        finally:
            damage.undo(disk)

    async def _partition(self, rng: random.Random) -> None:
        cluster, client = self.cluster, self._client(rng)
        if client is None:
            return
        seconds = rng.uniform(0, 2 * self.options.partition_seconds)
        directions = rng.choice(
            (
                ((client.name, "broker"),),
                (("broker", client.name),),
                ((client.name, "broker"), ("broker", client.name)),
            )
        )
        cluster.count("partition")
        cluster.note(f"no way {', '.join(f'{a} -> {b}' for a, b in directions)} for {seconds:.2f} s")
        for sender, receiver in directions:
            cluster.network.block(sender, receiver, seconds)
