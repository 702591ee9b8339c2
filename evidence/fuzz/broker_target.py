"""The real broker in this process, on a disk in memory, in virtual time: frames go straight into its connections.

One life is a broker with some thousand frames. In it and at its end: every request is answered in order, or its connection
closed; no reply says UNKNOWN_SERVER_ERROR, nothing is logged as an error; no step takes a second; closed connections leave
no task behind; an honest client is served; and the same files start again, clean and after a kill.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import struct
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from evidence.fuzz.findings import Findings, logged_errors, timed
from evidence.fuzz.mutation import mutated
from evidence.fuzz.recipes import next_step
from evidence.fuzz.values import Actor, Values
from evidence.world import direct
from evidence.world.direct import DirectNetwork, direct_host
from evidence.world.files import SimFiles
from evidence.world.loop import SimLoop, run_simulated
from evidence.world.network import feed
from evidence.world.requests import Refused, Session
from oncelog.broker.broker import Broker
from oncelog.broker.handlers import MODULES, serves
from oncelog.broker.metrics.error_counts import errors_of
from oncelog.broker.network.connection import Connection
from oncelog.core.access.authorizer import STANDARD_AUTHORIZER
from oncelog.errors import (
    DamagedLog,
    ErrorCode,
    MalformedFrame,
    MalformedMessage,
    StorageError,
    UnsupportedVersion,
)
from oncelog.wire.api import APIS, ApiKey
from oncelog.wire.consumer_protocol import subscription_from_bytes
from oncelog.wire.frame import (
    FrameReader,
    decode_request_header,
    decode_response,
    encode_request,
    response_correlation_id,
)
from oncelog.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from oncelog.wire.messages.join_group import JoinGroupRequest
from oncelog.wire.messages.metadata import MetadataRequest
from oncelog.wire.schema import InvalidField, decode_message

LIFE_FRAMES = 3_000
SERVED = tuple(MODULES)
DESTRUCTIVE = {ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS, ApiKey.DELETE_GROUPS, ApiKey.WRITE_TXN_MARKERS}
CONNECTIONS = 8
KEPT_FRAMES = 300
CORRELATION_AT = 8  # in a frame with its size
CONFIG: dict[str, object] = {
    "transaction.state.log.num.partitions": 2,
    "offsets.topic.num.partitions": 2,
    "group.initial.rebalance.delay.ms": 0,
    "socket.request.max.bytes": 1_000_000,
    "oncelog.max.topics": 30,
    "oncelog.max.partitions": 200,
    "oncelog.max.groups": 50,
    "oncelog.max.transactional.ids": 50,
    "transaction.two.phase.commit.enable": True,
}


def has_unknown_operation(asked: IncrementalAlterConfigsRequest) -> bool:
    """An operation that does not exist."""
    return any(each.config_operation not in range(4) for resource in asked.resources for each in resource.configs)


def has_malformed_subscription(asked: JoinGroupRequest) -> bool:
    """What a consumer says of itself cannot be read; of its protocols the first is looked at."""
    try:
        subscription_from_bytes(bytes(asked.protocols[0].metadata))
    except MalformedMessage:
        return True
    return False


VARIANTS: tuple[dict[str, object], ...] = (
    {},
    {"flush.policy": "os"},
    {"flush.policy": "os", "auto.create.topics.enable": False, "transaction.two.phase.commit.enable": False},
    {"oncelog.request.max.items": 20, "message.max.bytes": 300, "log.message.timestamp.type": "LogAppendTime"},
    {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "allow.everyone.if.no.acl.found": True,
        "super.users": "User:ANONYMOUS",
    },
    {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": True},
    {"oncelog.connection.max.in.flight": 1, "max.incremental.fetch.session.cache.slots": 2},
)


# Where Apache Kafka says UNKNOWN_SERVER_ERROR, which conversations with it show: what was asked must be of that kind.
DELIBERATE: dict[int, Callable[[Any], bool]] = {
    ApiKey.INCREMENTAL_ALTER_CONFIGS: has_unknown_operation,
    ApiKey.JOIN_GROUP: has_malformed_subscription,  # in a group of the new protocol
}


def is_deliberate(key: int, version: int, frame: bytes) -> bool:
    """Whether UNKNOWN_SERVER_ERROR is the answer to this request."""
    if key not in DELIBERATE:
        return False
    _, position = decode_request_header(memoryview(frame))
    asked = decode_message(APIS[key].request, version, memoryview(frame)[position:], trailing="ignore")
    return DELIBERATE[key](asked)


class Wire(asyncio.Transport):
    """The client's end of one connection: it checks every reply."""

    def __init__(self, life: Life) -> None:
        super().__init__()
        self.life = life
        # correlation id, API, version, whose request it is; -1 where no more is known
        self.sent: deque[tuple[int, int, int, Actor | None]] = deque()
        self.frames: dict[int, bytes] = {}  # those of the APIs in DELIBERATE, by correlation id
        self.is_open = True
        self._reader = FrameReader()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 40000), "sockname": direct.ADDRESS}.get(name, default)

    def is_closing(self) -> bool:
        return not self.is_open

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        return None

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        return None

    def resume_reading(self) -> None:
        return None

    def write(self, data: Any) -> None:
        for frame in self._reader.receive(bytes(data)):
            self.life.replied(self, frame)

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(bytes(part) for part in list_of_data))

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            asyncio.get_running_loop().call_soon(self.life.protocols[self].connection_lost, None)

    def abort(self) -> None:
        self.close()


class Life:
    """One broker's life under fire."""

    def __init__(self, seed: str, findings: Findings, frame_count: int) -> None:
        self.seed, self.findings, self.frame_count = seed, findings, frame_count
        self.random = Random(f"fuzz {seed}")
        self.values = Values(self.random)
        self.protocols: dict[Wire, Connection] = {}
        self.wires: list[Wire] = []
        self.kept: list[bytes] = []
        self.correlation_id = 0
        self.trace = hashlib.blake2b()
        self.actor: Actor | None = None
        self.broker: Broker
        self.last = ""
        self.repeat = f"make fuzz SEED={seed}"

    # frames

    def frame(self) -> bytes:
        """The next input: whole requests mostly, damaged ones, and noise."""
        random, chance = self.random, self.random.random()
        self.actor = None
        if chance < 0.55 or not self.kept:
            data = self.structured()
            if len(self.kept) < KEPT_FRAMES:
                self.kept.append(data)
            else:
                self.kept[random.randrange(KEPT_FRAMES)] = data
            return data
        if chance < 0.92:
            return sized(mutated(random, random.choice(self.kept)[4:]))
        if chance < 0.94:
            key, version = random.choice((*APIS, -1, 99)), random.choice((0, 1, 5, 12, 99, -1))
            return sized(struct.pack(">hhih", key, version, 7, -1) + random.randbytes(random.randrange(60)))
        if chance < 0.97:
            return b"".join(random.choice(self.kept) for _ in range(random.randrange(2, 6)))
        if chance < 0.98:
            return mutated(random, random.choice(self.kept))  # the size may lie
        return random.randbytes(random.randrange(1, 80))

    def structured(self) -> bytes:
        """A whole request of an API and version that is served, or was advertised."""
        while self.random.random() < 0.5:
            self.values.actor = self.actor = self.random.choice(self.values.actors)
            message, version = next_step(self.values)
            try:
                return b"".join(bytes(part) for part in encode_request(message.KEY, version, 0, "fuzz", message))
            except (InvalidField, OverflowError, struct.error, UnsupportedVersion):
                continue
        while True:
            key = self.random.choice(SERVED)
            if key in DESTRUCTIVE and self.random.random() < 0.8:
                continue
            api = APIS[key]
            version = self.random.randint(api.min_version, api.max_version)
            message = self.values.message(api.request, version)
            self.actor = self.values.actor
            try:
                return b"".join(bytes(part) for part in encode_request(key, version, 0, "fuzz", message))
            except (InvalidField, OverflowError, struct.error):
                continue  # a value that no client could send in this version

    def send(self, data: bytes) -> None:
        """Give `data` to one of the connections, at once or in two pieces."""
        wire = self.random.choice(self.wires)
        if not wire.is_open:
            self.wires.remove(wire)
            wire = self.connect()
        data = self.noted(wire, data)
        self.trace.update(data)
        self.last = data.hex() if len(data) < 3000 else f"{data[:1500].hex()}... ({len(data)} bytes)"
        connection = self.protocols[wire]
        cut = self.random.randrange(len(data)) if self.random.random() < 0.05 else 0
        try:
            if cut:
                feed(connection, data[:cut])
            if wire.is_open:
                feed(connection, data[cut:])
        except Exception as error:  # noqa: BLE001 - whatever it is: that is the question
            self.findings.add_error(error, self.repeat, self.last)
            wire.close()

    def noted(self, wire: Wire, data: bytes) -> bytes:
        """Number the requests in `data` where they can be found, so that replies can be told apart."""
        changed, at = bytearray(data), 0
        while at + 12 <= len(changed) and not (wire.sent and wire.sent[-1][0] < 0):
            (size_bytes, key, version) = struct.unpack_from(">ihh", changed, at)
            if size_bytes < 8 or at + 4 + size_bytes > len(changed):
                break
            self.correlation_id += 1
            struct.pack_into(">i", changed, at + CORRELATION_AT, self.correlation_id)
            wire.sent.append((self.correlation_id, key, version, self.actor))
            if key in DELIBERATE:
                wire.frames[self.correlation_id] = bytes(changed[at + 4 : at + 4 + size_bytes])
            at += 4 + size_bytes
        if at < len(changed):
            wire.sent.append((-1, -1, -1, None))  # from here on nobody knows where a request begins
        return bytes(changed)

    def connect(self) -> Wire:
        wire = Wire(self)
        self.protocols[wire] = self.broker.server._new_connection()
        self.wires.append(wire)
        self.protocols[wire].connection_made(wire)
        return wire

    def replied(self, wire: Wire, frame: memoryview) -> None:
        """Judge one reply."""
        correlation_id = response_correlation_id(frame)
        while wire.sent and wire.sent[0][0] != correlation_id:
            if wire.sent[0][0] < 0:
                return
            skipped = wire.sent.popleft()[:3]
            if skipped[1] != ApiKey.PRODUCE:  # which may have asked for no reply
                self.findings.add(f"{skipped} was left out before {correlation_id}", self.repeat, self.last)
        if not wire.sent:
            self.findings.add(f"a reply to nothing: {correlation_id}", self.repeat, self.last)
            return
        _, key, version, actor = wire.sent.popleft()
        asked = wire.frames.pop(correlation_id, b"")
        self.trace.update(frame)
        if not serves(self.broker.metadata, key, version):
            version = 0 if key == ApiKey.API_VERSIONS else version
        try:
            _, reply = decode_response(key, version, frame)
        except MalformedMessage as error:
            self.findings.add_error(error, self.repeat, self.last)
            return
        if ErrorCode.UNKNOWN_SERVER_ERROR in errors_of(type(reply))(reply) and not is_deliberate(key, version, asked):
            self.findings.add(f"{type(reply).__name__}: UNKNOWN_SERVER_ERROR", self.repeat, f"{self.last}\n{reply}")
        self.values.learn(reply, actor)

    # the life

    async def replay(self, loop: SimLoop, lines: list[str]) -> None:
        """Send these frames, as `live` sends its own."""
        files, network = SimFiles(self.seed), DirectNetwork()
        with logged_errors() as logged:
            await self.begin(files, network, CONFIG)
            for line in lines:
                if line.startswith("+"):
                    await asyncio.sleep(int(line[1:]) / 1000)
                    continue
                with timed(self.findings, "a frame", self.repeat):
                    self.send(bytes.fromhex(line))
                    await asyncio.sleep(0.01)
                self.findings.add_internal_errors(loop, logged.take(), self.repeat, self.last)
            await self.end(files, network)
            self.findings.add_internal_errors(loop, logged.take(), self.repeat, self.last)

    async def begin(self, files: SimFiles, network: DirectNetwork, config: dict[str, object]) -> None:
        """A broker with some topics, an open transaction and connections."""
        self.broker = Broker("data", config, direct_host(files, network, self.seed))
        await self.broker.start()
        await self.honest(network, "t0", "t1", "t2", "compacted")
        for _ in range(CONNECTIONS):
            self.connect()

    async def live(self, loop: SimLoop) -> None:
        """Frame after frame, then the end."""
        files, network = SimFiles(self.seed), DirectNetwork()
        network.has_shortcut = self.random.random() < 0.5
        with logged_errors() as logged:
            await self.begin(files, network, CONFIG | self.random.choice(VARIANTS))
            for number in range(self.frame_count):
                with timed(self.findings, "a frame", self.repeat):
                    self.send(self.frame())
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
                if not number % 8:
                    await self.pass_time()
                self.findings.add_internal_errors(loop, logged.take(), self.repeat, self.last)
            await self.end(files, network)
            self.findings.add_internal_errors(loop, logged.take(), self.repeat, self.last)

    async def pass_time(self) -> None:
        """Some milliseconds; now and then so long that something times out."""
        chance = self.random.random()
        await asyncio.sleep(0.001 + 0.02 * chance if chance < 0.99 else 12 if chance < 0.999 else 61)

    async def honest(self, network: DirectNetwork, *topics: str) -> None:
        """What is there when the fire begins: some topics, and an open transaction."""
        session = Session(await direct.Client.connect(network))
        try:
            for topic in topics:
                await session.create_topic(topic, 2)
            name = f"honest{self.correlation_id}"
            identity = await session.init(name)
            await session.produce(
                "t0",
                0,
                ["v"],
                identity=(identity.producer_id, identity.producer_epoch),
                sequence=0,
                name=name,
                version=12,
            )
        except (Refused, direct.ConnectionClosed) as error:
            self.findings.add_error(error, self.repeat, self.last)

    async def end(self, files: SimFiles, network: DirectNetwork) -> None:
        for wire in self.wires:
            wire.close()
        await asyncio.sleep(0.5)
        if "max.connections" not in self.broker.metadata.dynamic_broker_configs(self.broker.node_id):
            client = await direct.Client.connect(network)
            reply = await client.call(MetadataRequest(topics=None), 12)
            assert len(reply.topics) == len(self.broker.metadata.topics)
            client._transport.close()
            await asyncio.sleep(0.1)
        server = self.broker.server
        if len(server.tasks):
            names = [str(task) for task in server.tasks._tasks][:5]
            self.findings.add(f"{len(server.tasks)} tasks of closed connections run on", self.repeat, "\n".join(names))
        if self.broker.failure is not None and self.broker.failure.done():
            self.findings.add_error(self.broker.failure.result(), self.repeat, self.last)
        if self.random.random() < 0.5:
            left = files.snapshot("data")  # as after a kill
            await self.broker.stop()
            files = files_of(left)
        else:
            await self.broker.stop()
        again = Broker("data", dict(CONFIG), direct_host(files, DirectNetwork(), f"{self.seed} again"))
        try:
            await again.start()
        except (DamagedLog, StorageError, AssertionError) as error:
            self.findings.add_error(error, self.repeat, "the files do not start again")
            return
        before, after = self.broker.metadata.topics, again.metadata.topics
        if before.keys() != after.keys():
            self.findings.add("topics differ after a restart", self.repeat, f"{before.keys() ^ after.keys()}")
        await again.stop()


def files_of(content: dict[str, bytes]) -> SimFiles:
    """A disk with these files."""
    files = SimFiles()
    for path, data in content.items():
        files.make_directory(path.rpartition("/")[0])
        files.open(path).write_at(0, data)
    return files


def sized(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def one_life(seed: str, findings: Findings, frame_count: int = LIFE_FRAMES) -> None:
    """Run one life; its frames are counted."""
    life = Life(seed, findings, frame_count)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    try:
        run_simulated(seed, life.live)
    except (
        MalformedFrame,
        MalformedMessage,
        AssertionError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
    ) as error:
        findings.add_error(error, life.repeat, life.last)
    findings.inputs["frames"] += life.frame_count
