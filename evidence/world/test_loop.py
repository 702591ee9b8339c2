"""The simulated loop is deterministic, and it sees a deadlock."""

from __future__ import annotations

import asyncio

import pytest

from evidence.world.loop import Deadlock, Process, SimLoop, run_simulated
from evidence.world.network import NetworkFaults, SimNetwork


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)  # type: ignore[attr-defined]


class Collect(Echo):
    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.lost = False

    def data_received(self, data: bytes) -> None:
        self.got.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


def trace_of(seed: int, faults: NetworkFaults) -> list[tuple[str, object, float]]:
    async def main(loop: SimLoop) -> list[tuple[str, object, float]]:
        network, trace = SimNetwork(loop, seed, faults), []
        await network.door(Process(loop, "server")).listen("broker", 1, Echo)

        async def client(name: str) -> None:
            transport, protocol = await network.door(Process(loop, name)).connect("broker", 1, Collect)
            assert isinstance(protocol, Collect)
            for i in range(5):
                transport.write(f"{name}{i} ".encode())
                await asyncio.sleep(3600)
                trace.append((name, (b"".join(protocol.got), protocol.lost), round(loop.time(), 9)))

        async with asyncio.TaskGroup() as group:
            for name in "abc":
                group.create_task(client(name))
        return trace

    return run_simulated(seed, main)


def test_the_same_seed_gives_the_same_trace() -> None:
    faults = NetworkFaults(cut=0.2, slow=0.3, late=0.1)
    traces = [trace_of(seed, faults) for seed in range(20)]
    assert traces == [trace_of(seed, faults) for seed in range(20)]
    assert len({str(trace) for trace in traces}) == 20


def test_without_faults_every_byte_arrives_in_order() -> None:
    for name, (got, lost), _ in trace_of(7, NetworkFaults()):
        assert got == "".join(f"{name}{i} " for i in range(len(got.split()))).encode()
        assert not lost


def test_late_delivery_reaches_the_other_side_after_the_writer_lost_its_connection() -> None:
    async def main(loop: SimLoop) -> tuple[bool, bytes]:
        network = SimNetwork(loop, 3, NetworkFaults(late=1.0))
        sink = Collect()
        await network.door(Process(loop, "server")).listen("broker", 1, lambda: sink)
        transport, protocol = await network.door(Process(loop, "client")).connect("broker", 1, Collect)
        transport.write(b"commit")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        lost_at_once = protocol.lost  # type: ignore[attr-defined]
        await asyncio.sleep(60)
        return lost_at_once, b"".join(sink.got)

    assert run_simulated(3, main) == (True, b"commit")


def test_a_hang_is_seen() -> None:
    async def main(loop: SimLoop) -> None:
        await loop.create_future()

    with pytest.raises(Deadlock):
        run_simulated(1, main)


def test_a_killed_process_runs_nothing_any_more_not_even_its_cleanup() -> None:
    async def main(loop: SimLoop) -> list[str]:
        done: list[str] = []

        async def work() -> None:
            try:
                await asyncio.sleep(1)
                done.append("after")
            finally:
                done.append("cleanup")

        process = Process(loop, "victim")
        process.start(work())
        await asyncio.sleep(0.5)
        process.kill()
        await process.died
        await asyncio.sleep(10)
        return list(done)

    assert run_simulated(1, main) == []


def test_a_paused_process_goes_on_later() -> None:
    async def main(loop: SimLoop) -> list[float]:
        times: list[float] = []

        async def work() -> None:
            for _ in range(3):
                await asyncio.sleep(1)
                times.append(loop.time())

        process = Process(loop, "sleeper")
        process.start(work())
        await asyncio.sleep(1.5)
        process.pause()
        await asyncio.sleep(5)
        process.resume()
        await asyncio.sleep(5)
        return times

    assert run_simulated(1, main) == [1.0, 6.5, 7.5]
