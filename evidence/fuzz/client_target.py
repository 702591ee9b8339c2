"""The client against a hostile broker: answers that are random, damaged, late, cut, missing, or to another question.

Producer, consumer and admin run real code in virtual time. They may fail with a KafkaError of any name; they may not fail
otherwise, hang, or leave a task behind.
"""

from __future__ import annotations

import asyncio
import contextlib
from random import Random
from typing import Any

from evidence.fuzz.findings import Findings, logged_errors, timed
from evidence.fuzz.mutation import mutated
from evidence.fuzz.values import Values
from evidence.world import client as world
from evidence.world.loop import SimLoop, run_simulated
from oncelog import Admin, Consumer, Producer
from oncelog.errors import IllegalState, KafkaError
from oncelog.wire.api import APIS, ApiKey
from oncelog.wire.frame import decode_request, decode_request_header, encode_response
from oncelog.wire.schema import InvalidField

SCENES = 12
SCENE_S = 40.0


class HostileBroker(world.ScriptedBroker):
    """Answers as the scripted one does, and now and then like nothing on earth. `badness` is how often."""

    def __init__(self, random: Random, badness: float) -> None:
        super().__init__(level=random.choice((0, 1, 2)))
        self.random, self.badness = random, badness
        self.values = Values(random)
        self.values.names = ["t", "t", "u"]
        self.answer_count = 0

    async def connect(self, host: str, port: int, factory: Any) -> tuple[Any, Any]:
        here, protocol = await super().connect(host, port, factory)
        here.peer.protocol = _HostileEnd(self, here.peer)
        return here, protocol

    def reply(self, frame: memoryview) -> bytes | None:
        """The bytes to send for a request; None closes."""
        self.answer_count += 1
        random = self.random
        header, pos = decode_request_header(frame)
        key, version = ApiKey(header.api_key), header.api_version
        try:
            message = self.answer(key, version, decode_request(header, frame, pos))
        except AttributeError:  # the scripted broker does not know this API
            message = self.values.message(APIS[key].response, version)
        if random.random() > self.badness:
            return self._encoded(key, version, header.correlation_id, message)
        kind = random.randrange(8)
        if kind == 0:
            return None
        if kind == 1:
            return b""
        if kind in (2, 3, 4):
            message = self.values.message(APIS[key].response, version)
            if "error_code" in vars(message) and random.random() < 0.5:
                message.error_code = random.choice((0, 0, -1, 3, 6, 14, 15, 16, 47, 49, 51, 90, 120, 999, -2))
        data = self._encoded(key, version, header.correlation_id + (kind == 5), message)
        if kind >= 6:
            data = mutated(random, data, first=4 if random.random() < 0.8 else 0)
            if random.random() < 0.8:
                data = (len(data) - 4).to_bytes(4, "big", signed=True) + data[4:]
        return data

    def _encoded(self, key: ApiKey, version: int, correlation_id: int, message: Any) -> bytes:
        for _ in range(20):
            try:
                return b"".join(bytes(part) for part in encode_response(key, version, correlation_id, message))
            except (InvalidField, OverflowError, KafkaError):
                message = self.values.message(APIS[key].response, version)
        return b""


class _HostileEnd(asyncio.Protocol):
    def __init__(self, broker: HostileBroker, transport: Any) -> None:
        self.broker, self.transport = broker, transport
        self.frames = world.FrameReader()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        for frame in self.frames.receive(data):
            reply = self.broker.reply(frame)
            if reply is None:
                self.transport.close()
                return
            if reply:
                asyncio.get_running_loop().call_later(self.broker.random.choice((0, 0, 0.01, 0.3)), self.send, reply)

    def send(self, reply: bytes) -> None:
        cut = self.broker.random.randrange(len(reply)) if self.broker.random.random() < 0.1 else 0
        for part in (reply[:cut], reply[cut:]):
            if part:
                self.transport.write(part)


def one_life(seed: str, findings: Findings, count: int = SCENES) -> None:
    """`count` scenes: one client each, some virtual seconds."""
    random = Random(f"fuzz {seed}")
    repeat = f"make fuzz SEED={seed}"
    for number in range(count):
        broker = HostileBroker(random, random.choice((0.02, 0.1, 0.3, 0.8)))
        scene = random.choice((_produce, _transactions, _consume, _group, _administer))
        with timed(findings, scene.__name__, repeat), logged_errors() as logged:
            try:
                run_simulated(f"{seed} {number}", lambda loop, b=broker, s=scene: _bounded(loop, s, b))
            except TimeoutError:
                findings.add(f"{scene.__name__} hangs", repeat)
            except (KafkaError, IllegalState):
                pass
            except Exception as error:  # noqa: BLE001 - whatever it is: that is the question
                findings.add_error(error, repeat, scene.__name__)
        for line in logged.take():
            if "Traceback" in line:
                findings.add(f"logged: {line.splitlines()[0][:150]}", repeat, line)
        findings.inputs["hostile answers"] += broker.answer_count


async def _bounded(loop: SimLoop, scene: Any, broker: HostileBroker) -> None:
    async with asyncio.timeout(600):
        await scene(broker)
    for context in loop.errors:
        error = context.get("exception")
        raise error if error is not None else AssertionError(context.get("message"))


def _config(broker: HostileBroker, **more: Any) -> dict[str, Any]:
    return {"host": broker.host(), "bootstrap_servers": world.BOOTSTRAP, "request_timeout_ms": 2_000, **more}


async def _produce(broker: HostileBroker) -> None:
    with contextlib.suppress(KafkaError):
        async with Producer(**_config(broker, delivery_timeout_ms=10_000, linger_ms=0)) as producer:
            for number in range(20):
                with contextlib.suppress(KafkaError):
                    await producer.send("t", value=b"%d" % number)


async def _transactions(broker: HostileBroker) -> None:
    config = _config(broker, transactional_id="tx", delivery_timeout_ms=10_000, max_block_ms=10_000)
    with contextlib.suppress(KafkaError):
        async with Producer(**config) as producer:
            for number in range(5):
                with contextlib.suppress(KafkaError):
                    async with producer.transaction():
                        await producer.send("t", value=b"%d" % number)


async def _poll(consumer: Consumer) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + SCENE_S
    while loop.time() < end:
        with contextlib.suppress(KafkaError):
            await consumer.poll(500)
        await asyncio.sleep(0.2)


async def _consume(broker: HostileBroker) -> None:
    for _ in range(3):
        batch = None
        while batch is None or len(batch) < 61:
            batch = broker.values._plain("records", _RECORDS)
        with contextlib.suppress(Exception):
            broker.append("t", 0, batch)
    isolation = broker.random.choice(("read_committed", "read_uncommitted"))
    config = _config(broker, isolation_level=isolation, auto_offset_reset="earliest", check_crcs=True)
    with contextlib.suppress(KafkaError):
        async with Consumer("t", **config) as consumer:
            await _poll(consumer)


async def _group(broker: HostileBroker) -> None:
    config = _config(broker, group_id="g", auto_offset_reset="earliest")
    with contextlib.suppress(KafkaError):
        async with Consumer("t", **config) as consumer:
            await _poll(consumer)


async def _administer(broker: HostileBroker) -> None:
    with contextlib.suppress(KafkaError):
        async with Admin(**_config(broker)) as admin:
            for ask in (
                lambda: admin.create_topics({"t": 1}),
                admin.list_topics,
                admin.list_groups,
                admin.list_transactions,
                lambda: admin.describe_transactions(["tx"]),
                lambda: admin.describe_producers([("t", 0)]),
            ):
                with contextlib.suppress(KafkaError):
                    await ask()


_RECORDS = (
    next(field.wire for field in APIS[ApiKey.PRODUCE].request.FIELDS[-1].wire.item.FIELDS if field.is_list)
    .item.FIELDS[-1]
    .wire
)
