"""Byte streams in memory, with delays, cuts and the late deliveries that real networks make.

A cut may be seen by one side long before the other: what the client sent and gave up waiting for can still arrive and
take effect afterwards. That is how a delayed EndTxn decides a later transaction (KAFKA-17754): a fault of its own here.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evidence.world.loop import Process, SimLoop
from oncelog.host.network import LOCAL, AddressInUse, ConnectFailed

if TYPE_CHECKING:
    from evidence.simulator.open_requests import OpenRequests


def feed(protocol: asyncio.BaseProtocol, data: bytes) -> None:
    """Give bytes to a protocol, as an event loop does for either kind."""
    if not isinstance(protocol, asyncio.BufferedProtocol):
        assert isinstance(protocol, asyncio.Protocol)
        protocol.data_received(data)
        return
    rest = memoryview(data)
    while rest:
        buffer = memoryview(protocol.get_buffer(len(rest)))
        count = min(len(buffer), len(rest))
        buffer[:count] = rest[:count]
        protocol.buffer_updated(count)
        rest = rest[count:]


@dataclass
class NetworkFaults:
    """Probabilities per written chunk, and delays in seconds."""

    delay_mean: float = 0.001
    slow: float = 0.0  # a chunk takes up to slow_delay longer
    slow_delay: float = 2.0
    cut: float = 0.0  # both sides lose the connection, what was in flight is lost
    late: float = 0.0  # the writer loses the connection at once; what it sent still arrives, late
    late_delay: float = 5.0
    split: float = 0.0  # a chunk arrives in two pieces


class SimTransport(asyncio.Transport):
    """One end of a connection. Its protocol is called in the context of the process that owns it."""

    def __init__(self, network: SimNetwork, owner: Process, serial: int) -> None:
        super().__init__()
        self._network = network
        self.owner, self.serial = owner, serial
        self.peer: SimTransport
        self.protocol: asyncio.BaseProtocol
        self._closing = False
        self._reading = True
        self.under_way: deque[bytes | None] = deque()  # to this end, in order; None is the end of the stream
        self._arrived: deque[bytes | None] = deque()
        self._deliver_at = 0.0
        self.is_servers = False  # the end of the one who listens

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": (self.peer.owner.host, 40000), "sockname": ("127.0.0.1", 9092)}.get(name, default)

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
        self._network.loop.call_soon(self._drain, context=self.owner.context)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        return None

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: Any) -> None:
        if not self._closing and len(data) and not self.owner.is_dead:
            if self.is_servers and self._network.requests is not None:
                self._network.requests.answered(self, bytes(data), self._network.loop.time())
            self._network.send(self, bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(bytes(part) for part in list_of_data))

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        if not self._closing:
            self._network.send_end(self)
            self.lose()

    def abort(self) -> None:
        self.close()

    def lose(self, error: Exception | None = None) -> None:
        """The owner hears that the connection is gone."""
        if not self._closing:
            self._closing = True
            self._network.connections.pop(self.serial, None)
            if self.is_servers and self._network.requests is not None:
                self._network.requests.lost(self)
            self._network.loop.call_soon(self.protocol.connection_lost, error, context=self.owner.context)

    def receive(self) -> None:
        """The next chunk, or the end of the stream, arrived: in order, whatever the order of callbacks."""
        data = self.under_way.popleft()
        if self.owner is self.peer.owner:
            self.owner.messages_to_itself -= 1
        if not self._closing:
            if self.is_servers and data is not None and self._network.requests is not None:
                self._network.requests.received(self, data, self._network.loop.time())
            self._arrived.append(data)
            self._drain()

    def _drain(self) -> None:
        while self._arrived and self._reading and not self._closing:
            data = self._arrived.popleft()
            if data is None:
                self.lose()
            else:
                feed(self.protocol, data)


class SimListener:
    """What `listen` gives; `host` and `port` are where clients connect."""

    def __init__(self, network: SimNetwork, host: str, port: int) -> None:
        self.host, self.port, self._network = host, port, network

    def close(self) -> None:
        self._network.listeners.pop((self.host, self.port), None)


class SimNetwork:
    """All connections of one simulated cluster. `door(process)` is the Network door of one process."""

    def __init__(self, loop: SimLoop, seed: int | str, faults: NetworkFaults | None = None) -> None:
        self.loop, self.faults = loop, faults or NetworkFaults()
        self.random = random.Random(f"network {seed}")
        self.listeners: dict[tuple[str, int], tuple[Process, Callable[[], asyncio.BaseProtocol]]] = {}
        self.connections: dict[int, SimTransport] = {}
        self.blocked: dict[tuple[str, str], float] = {}  # (from, to): nothing goes that way before this moment
        self.counts: dict[str, int] = {}
        self.has_shortcut = False  # what a broker sends to itself goes over the network, delays and all
        self.happens: Callable[[str], bool] = lambda kind: True  # whether a fault of this kind may be, now
        self.hold: Callable[[SimTransport, bytes], float | None] | None = None  # a test's own delay of a chunk, seconds
        self.requests: OpenRequests | None = None  # who watches that every request is answered
        self._next_port = 20000
        self._next_serial = 0

    def door(self, process: Process) -> SimNetworkDoor:
        return SimNetworkDoor(self, process)

    def count(self, kind: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def free_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def send(self, sender: SimTransport, data: bytes) -> None:
        faults, draw = self.faults, self.random.random
        internal = sender.owner is sender.peer.owner
        if not internal and draw() < faults.cut and self.happens("cut"):
            self.count("cut")
            self.cut(sender)
            return
        delay = self.random.expovariate(1 / faults.delay_mean)
        if draw() < faults.slow and self.happens("slow"):
            self.count("slow")
            delay += self.random.uniform(0, faults.slow_delay)
            if internal and self.requests is not None:
                self.requests.slow_until(self.loop.time() + delay)
        late = not internal and draw() < faults.late and self.happens("late")
        if late:
            self.count("late")
            delay += self.random.uniform(0, faults.late_delay)
        held = self.hold(sender, data) if self.hold is not None else None
        if held is not None:
            late, delay = True, held
        if draw() < faults.split and len(data) > 1:
            at = self.random.randrange(1, len(data))
            self._schedule(sender, data[:at], delay)
            delay, data = delay + self.random.expovariate(1 / faults.delay_mean), data[at:]
        self._schedule(sender, data, delay)
        if late:
            self.send_end(sender)
            sender.lose(ConnectionResetError("cut by the simulated network"))

    def send_end(self, sender: SimTransport) -> None:
        self._schedule(sender, None, self.random.expovariate(1 / self.faults.delay_mean))

    def _schedule(self, sender: SimTransport, data: bytes | None, delay: float) -> None:
        peer = sender.peer
        arrives = max(sender._deliver_at, self.loop.time() + delay)  # a stream stays in order
        blocked = self.blocked.get((sender.owner.name, peer.owner.name))
        if blocked is not None:
            arrives = max(arrives, blocked + delay)
        sender._deliver_at = arrives
        peer.under_way.append(data)
        if sender.owner is peer.owner:
            peer.owner.messages_to_itself += 1
        self.loop.call_at(arrives, peer.receive, context=peer.owner.context)

    def block(self, sender: str, receiver: str, seconds: float) -> None:
        """Let nothing new pass from one process to another for a while; it arrives afterwards (one way only)."""
        self.blocked[sender, receiver] = self.loop.time() + seconds

    def cut(self, transport: SimTransport) -> None:
        """Both ends see the loss, soon; what was in flight is gone."""
        for end in (transport, transport.peer):
            end.lose(ConnectionResetError("cut by the simulated network"))

    def cut_process(self, process: Process) -> None:
        """Every connection of a process that died; its listeners vanish."""
        for transport in list(self.connections.values()):
            if process is transport.owner or process is transport.peer.owner:
                self.cut(transport)
        for address in [a for a, (owner, _) in self.listeners.items() if owner is process]:
            del self.listeners[address]

    def link(self, client: Process, server: Process) -> tuple[SimTransport, SimTransport]:
        here = SimTransport(self, client, self._next_serial)
        there = SimTransport(self, server, self._next_serial + 1)
        self._next_serial += 2
        here.peer, there.peer, there.is_servers = there, here, True
        self.connections |= {here.serial: here, there.serial: there}
        return here, there


class SimNetworkDoor:
    """`host.network.Network` of one simulated process."""

    def __init__(self, network: SimNetwork, process: Process) -> None:
        self._network, self._process = network, process

    @property
    def has_shortcut(self) -> bool:
        return self._network.has_shortcut

    async def listen(self, host: str, port: int, protocol_factory: Callable[[], asyncio.BaseProtocol]) -> SimListener:
        network = self._network
        port = port or (0 if host.startswith(LOCAL) else network.free_port())
        if (host, port) in network.listeners:
            raise AddressInUse(f"{host}:{port} is in use by another process")
        network.listeners[host, port] = (self._process, protocol_factory)
        return SimListener(network, host, port)

    async def connect(
        self, host: str, port: int, protocol_factory: Callable[[], asyncio.BaseProtocol]
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        network, me = self._network, self._process
        me.messages_to_itself += (is_own := network.listeners.get((host, port), (None,))[0] is me)
        await asyncio.sleep(network.random.expovariate(1 / network.faults.delay_mean))
        me.messages_to_itself -= is_own
        listener = network.listeners.get((host, port))
        if listener is None or listener[0].is_paused:
            raise ConnectFailed(f"cannot connect to {host}:{port}: Connection refused")
        owner, server_factory = listener
        now = network.loop.time()
        if max(network.blocked.get((me.name, owner.name), 0), network.blocked.get((owner.name, me.name), 0)) > now:
            raise ConnectFailed(f"cannot connect to {host}:{port}: No route to host")
        here, there = network.link(me, owner)
        here.protocol = protocol_factory()
        # A context of its own: this may be the owner connecting to itself, inside its own context.
        context = owner.context.copy()
        there.protocol = context.run(server_factory)
        context.run(there.protocol.connection_made, there)
        here.protocol.connection_made(here)
        return here, here.protocol
