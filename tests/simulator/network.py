"""Byte streams in memory, with delays, cuts and the late deliveries that real networks make.

A cut may be seen by one side long before the other: what the client sent and gave up waiting for can still arrive and
take effect afterwards. That is how a delayed EndTxn decides a later transaction (KAFKA-17754): a fault of its own here.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.simulator.loop import SimLoop


@dataclass
class NetworkFaults:
    """Probabilities per written chunk, and delays in seconds."""

    delay_mean: float = 0.001
    slow: float = 0.0  # a chunk takes up to slow_delay longer
    slow_delay: float = 2.0
    cut: float = 0.0  # both sides lose the connection, what was in flight is lost
    late: float = 0.0  # the writer loses the connection at once; what it sent still arrives, late
    late_delay: float = 5.0


class SimTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: SimNetwork, process: str, peer_process: str) -> None:
        super().__init__()
        self._network = network
        self.process, self.peer_process = process, peer_process
        self.peer: SimTransport
        self.protocol: asyncio.BaseProtocol
        self._closing = False
        self._reading = True
        self._arrived: list[bytes | None] = []  # None is the end of the stream
        self._deliver_at = 0.0
        self.seconds_late = 0.0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 40000), "sockname": ("127.0.0.1", 9092)}.get(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reading

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._network.loop.call_soon(self._drain)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        return None

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: Any) -> None:
        if not self._closing and len(data):
            self._network.send(self, bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(bytes(part) for part in list_of_data))

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        if not self._closing:
            self._network.send_end(self)
            self._lose()

    def abort(self) -> None:
        self.close()

    def _lose(self, error: Exception | None = None) -> None:
        if not self._closing:
            self._closing = True
            self._network.connections.discard(self)
            self._network.loop.call_soon(self.protocol.connection_lost, error)

    def _receive(self, data: bytes | None) -> None:
        if not self._closing:
            self._arrived.append(data)
            self._drain()

    def _drain(self) -> None:
        while self._arrived and self._reading and not self._closing:
            data = self._arrived.pop(0)
            if data is None:
                self._lose()
            elif isinstance(self.protocol, asyncio.BufferedProtocol):
                self._feed_buffered(self.protocol, data)
            else:
                assert isinstance(self.protocol, asyncio.Protocol)
                self.protocol.data_received(data)

    def _feed_buffered(self, protocol: asyncio.BufferedProtocol, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            buffer = memoryview(protocol.get_buffer(len(rest)))
            count = min(len(buffer), len(rest))
            buffer[:count] = rest[:count]
            protocol.buffer_updated(count)
            rest = rest[count:]


class SimListener:
    """What `listen` gives; `host` and `port` are where clients connect."""

    def __init__(self, network: SimNetwork, host: str, port: int) -> None:
        self.host, self.port, self._network = host, port, network

    def close(self) -> None:
        self._network.listeners.pop((self.host, self.port), None)


class SimNetwork:
    """All connections of one simulated cluster. `door(process)` is the Network door of one process."""

    def __init__(self, loop: SimLoop, seed: int, faults: NetworkFaults | None = None) -> None:
        self.loop, self.faults = loop, faults or NetworkFaults()
        self.random = random.Random(f"network {seed}")
        self.listeners: dict[tuple[str, int], tuple[str, Callable[[], asyncio.BaseProtocol]]] = {}
        self.connections: set[SimTransport] = set()
        self.cut_off: set[str] = set()
        self.counts: dict[str, int] = {}
        self._next_port = 20000

    def door(self, process: str) -> SimNetworkDoor:
        return SimNetworkDoor(self, process)

    def count(self, kind: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def free_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def send(self, sender: SimTransport, data: bytes) -> None:
        faults, draw = self.faults, self.random.random
        internal = sender.process == sender.peer_process
        if not internal and draw() < faults.cut:
            self.count("cut")
            self.cut(sender)
            return
        delay = self.random.expovariate(1 / faults.delay_mean)
        if draw() < faults.slow:
            self.count("slow")
            delay += self.random.uniform(0, faults.slow_delay)
        late = not internal and draw() < faults.late
        if late:
            self.count("late")
            delay += self.random.uniform(0, faults.late_delay)
        self._schedule(sender, data, delay)
        if late:
            self.send_end(sender)
            sender._lose(ConnectionResetError("cut by the simulated network"))

    def send_end(self, sender: SimTransport) -> None:
        self._schedule(sender, None, self.random.expovariate(1 / self.faults.delay_mean))

    def _schedule(self, sender: SimTransport, data: bytes | None, delay: float) -> None:
        sender._deliver_at = max(sender._deliver_at, self.loop.time() + delay)  # a stream stays in order
        self.loop.call_at(sender._deliver_at, sender.peer._receive, data)

    def cut(self, transport: SimTransport) -> None:
        """Both ends see the loss, soon; what was in flight is gone."""
        for end in (transport, transport.peer):
            end._lose(ConnectionResetError("cut by the simulated network"))

    def cut_process(self, process: str) -> None:
        """Every connection of a process that died; its listeners vanish."""
        for transport in sorted(self.connections, key=lambda t: (t.process, t.peer_process, t._deliver_at)):
            if process in (transport.process, transport.peer_process):
                self.cut(transport)
        for address in [a for a, (owner, _) in self.listeners.items() if owner == process]:
            del self.listeners[address]

    def link(self, client: str, server: str) -> tuple[SimTransport, SimTransport]:
        here, there = SimTransport(self, client, server), SimTransport(self, server, client)
        here.peer, there.peer = there, here
        self.connections |= {here, there}
        return here, there


class SimNetworkDoor:
    """`host.network.Network` of one simulated process."""

    def __init__(self, network: SimNetwork, process: str) -> None:
        self._network, self._process = network, process

    async def listen(self, host: str, port: int, protocol_factory: Callable[[], asyncio.BaseProtocol]) -> SimListener:
        network = self._network
        port = port or network.free_port()
        if (host, port) in network.listeners:
            raise OSError(98, "address in use")
        network.listeners[host, port] = (self._process, protocol_factory)
        return SimListener(network, host, port)

    async def connect(
        self, host: str, port: int, protocol_factory: Callable[[], asyncio.BaseProtocol]
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        network = self._network
        await asyncio.sleep(network.random.expovariate(1 / network.faults.delay_mean))
        listener = network.listeners.get((host, port))
        if listener is None or self._process in network.cut_off or listener[0] in network.cut_off:
            raise ConnectionRefusedError(f"nobody listens on {host}:{port}")
        owner, server_factory = listener
        here, there = network.link(self._process, owner)
        there.protocol = server_factory()
        here.protocol = protocol_factory()
        there.protocol.connection_made(there)
        here.protocol.connection_made(here)
        return here, here.protocol
