"""Where publications go: into the transaction of the handler that makes them, else out at once, each acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from faststream._internal.endpoint.utils import ParserComposition
from faststream._internal.parser import BatchCodecProto, DefaultCodec
from faststream._internal.producer import ProducerProto
from faststream.exceptions import FeatureNotSupportedException, IncorrectState

from oncelog.client.admin.admin import Admin
from oncelog.client.interceptors import ProducerRecord
from oncelog.client.producer.producer import Producer
from oncelog.client.records import RecordMetadata
from oncelog.errors import KafkaError, RequestTimedOut
from oncelog.faststream.message import Parser
from oncelog.faststream.options import admin_options
from oncelog.faststream.response import OncelogPublishCommand
from oncelog.faststream.turn import current_turn

if TYPE_CHECKING:
    from fast_depends.library.serializer import SerializerProto
    from faststream._internal.parser import CodecProto
    from faststream._internal.types import AsyncCallable, CustomCallable

PING_TIMEOUT_S = 10.0
NO_REQUESTS = "a log has no answers: publish with reply_to=TOPIC and subscribe to that topic"


class OncelogProducer(ProducerProto[OncelogPublishCommand]):
    """A broker's clients beside its subscribers: a producer without transactions, and an admin that asks for the cluster."""

    def __init__(self, parser: CustomCallable | None = None, decoder: CustomCallable | None = None) -> None:
        default = Parser()
        self._parser: AsyncCallable = ParserComposition(parser, default.parse_message)
        self._decoder: AsyncCallable = ParserComposition(decoder, default.decode_message)
        self.codec: CodecProto = DefaultCodec()
        self._serializer: SerializerProto | None = None
        self._producer: Producer | None = None
        self._admin: Admin | None = None

    def __bool__(self) -> bool:
        return self._producer is not None

    # -- life

    async def connect(
        self,
        options: Mapping[str, Any],
        *,
        serializer: SerializerProto | None,
        codec: CodecProto | None,
        start_timeout_ms: int,
    ) -> Producer:
        """Reach the cluster. Raises RequestTimedOut, with the way out, where nobody answers in time."""
        self.codec, self._serializer = codec or DefaultCodec(), serializer
        admin = Admin(**admin_options(options, start_timeout_ms))
        try:
            await admin.start()
        except RequestTimedOut as error:
            raise RequestTimedOut(
                f"{error.message}; start a broker there (`oncelog serve`), or mend the address that OncelogBroker was given "
                f"(start_timeout_ms={start_timeout_ms} is how long it is waited for)"
            ) from error
        producer = Producer(**options)
        try:
            await producer.start()
        except BaseException:
            await admin.stop()
            raise
        self._admin, self._producer = admin, producer
        return producer

    async def disconnect(self, timeout_ms: int) -> None:
        """Send what is left, close."""
        producer, admin, self._producer, self._admin = self._producer, self._admin, None, None
        try:
            if producer is not None:
                await producer.stop(timeout_ms)
        finally:
            if admin is not None:
                await admin.stop()

    async def ping(self, timeout_s: float | None) -> bool:
        """Whether a broker answers in time."""
        if self._admin is None:
            return False
        try:
            async with asyncio.timeout(PING_TIMEOUT_S if timeout_s is None else timeout_s):
                await self._admin.describe_cluster()
        except (TimeoutError, KafkaError):
            return False
        return True

    # -- publications

    async def publish(self, cmd: OncelogPublishCommand) -> RecordMetadata | None:
        """Where it was stored; None in a handler, whose transaction will store it."""
        body = (b"", None) if cmd.body is None else await self.codec.encode(cmd.body, self._serializer)
        return await self._write(_record(cmd, *body))

    async def publish_batch(self, cmd: OncelogPublishCommand) -> None:
        """Each body a record. Outside of a handler they are not one transaction."""
        each = [cmd.of_body(body) for body in cmd.batch_bodies]
        bodies = [one.body for one in each]
        if isinstance(self.codec, BatchCodecProto):
            encoded = await self.codec.encode_batch(bodies, self._serializer)
        else:
            encoded = [await self.codec.encode(body, self._serializer) for body in bodies]
        for one, (value, content_type) in zip(each, encoded, strict=True):
            await self._write(_record(one, value, content_type))

    async def _write(self, record: ProducerRecord) -> RecordMetadata | None:
        turn = current_turn()
        if turn is not None and turn.home is self:
            turn.add(record)
            return None
        if self._producer is None:
            raise IncorrectState(
                "this broker is not connected: publish behind `await broker.connect()`, or in an app that runs"
            )
        return await self._producer.send_and_wait(*record)

    async def request(self, cmd: OncelogPublishCommand) -> Any:  # noqa: ARG002 - FastStream's name
        """Refused."""
        raise FeatureNotSupportedException(NO_REQUESTS)


def _record(cmd: OncelogPublishCommand, value: bytes, content_type: str | None) -> ProducerRecord:
    """A body None is a tombstone: a record without a value."""
    return ProducerRecord(
        cmd.destination,
        None if cmd.body is None else value,
        cmd.key.encode() if isinstance(cmd.key, str) else cmd.key,
        cmd.headers_with(content_type),
        cmd.partition,
        cmd.timestamp_ms,
    )
