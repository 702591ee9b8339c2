"""The simulated loop is deterministic, and it sees a deadlock."""

from __future__ import annotations

import asyncio

import pytest

from tests.simulator.loop import Deadlock, SimLoop, run_simulated
from tests.simulator.network import NetworkFaults, SimNetwork


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
        await network.door("server").listen("broker", 1, Echo)

        async def client(name: str) -> None:
            transport, protocol = await network.door(name).connect("broker", 1, Collect)
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
        await network.door("server").listen("broker", 1, lambda: sink)
        transport, protocol = await network.door("client").connect("broker", 1, Collect)
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
