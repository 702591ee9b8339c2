"""Publishers: `@broker.publisher("out")` over a handler, or `await publisher.publish(...)` anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from faststream._internal.configs import PublisherUsecaseConfig
from faststream._internal.endpoint.publisher import PublisherUsecase
from faststream._internal.endpoint.publisher.fake import FakePublisher
from faststream.exceptions import FeatureNotSupportedException
from faststream.response import PublishCommand, PublishType

from oncelog.client.records import RecordMetadata
from oncelog.faststream.config import OncelogBrokerConfig
from oncelog.faststream.producing import NO_REQUESTS, OncelogProducer
from oncelog.faststream.response import Key, OncelogPublishCommand
from oncelog.faststream.specification import OncelogPublisherSpecification
from oncelog.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from faststream._internal.types import PublisherMiddleware


@dataclass(kw_only=True)
class PublisherConfig(PublisherUsecaseConfig):
    """What a publisher is declared with."""

    topic: str
    key: Key = None
    partition: int | None = None
    headers: Mapping[str, Any] | None = None
    reply_to: str = ""
    batch: bool = False


class OncelogTopicPublisher(PublisherUsecase):
    """Publishes to one topic; what a call names wins over what it was declared with."""

    _outer_config: OncelogBrokerConfig

    def __init__(self, config: PublisherConfig, specification: OncelogPublisherSpecification) -> None:
        super().__init__(config, cast("Any", specification))
        self._config = config

    @property
    def topic(self) -> str:
        """With the prefix of the routers around it."""
        return f"{self._outer_config.prefix}{self._config.topic}"

    async def publish(
        self,
        message: Any,
        topic: str = "",
        *,
        key: Key = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Mapping[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
    ) -> RecordMetadata | None:
        """As the broker's `publish`; a batch publisher takes a list."""
        cmd = OncelogPublishCommand(
            message,
            topic=topic,
            key=key,
            partition=partition,
            timestamp_ms=timestamp_ms,
            headers=headers,
            correlation_id=correlation_id or self._outer_config.id_generator(),
            reply_to=reply_to,
            _publish_type=PublishType.PUBLISH,
        )
        return await self._send(cmd, topic or self.topic, ())

    async def _publish(self, cmd: PublishCommand, *, _extra_middlewares: Iterable[PublisherMiddleware]) -> None:
        await self._send(OncelogPublishCommand.from_cmd(cmd), self.topic, _extra_middlewares)

    async def _send(
        self, cmd: OncelogPublishCommand, topic: str, middlewares: Iterable[PublisherMiddleware]
    ) -> RecordMetadata | None:
        mine = self._config
        if mine.batch:
            cmd = OncelogPublishCommand.from_cmd(cmd, batch=True)
        cmd.destination = topic
        cmd.add_headers(dict(mine.headers or {}), override=False)
        cmd.reply_to = cmd.reply_to or mine.reply_to
        cmd.key = mine.key if cmd.key is None else cmd.key
        cmd.partition = mine.partition if cmd.partition is None else cmd.partition
        send = self._basic_publish_batch if mine.batch else self._basic_publish
        found = await send(cmd, producer=self._outer_config.producer, _extra_middlewares=middlewares)
        return cast("RecordMetadata | None", found)

    async def request(self, message: Any, /, *, correlation_id: str | None = None) -> Any:  # noqa: ARG002
        """Refused."""
        raise FeatureNotSupportedException(NO_REQUESTS)


class ReplyPublisher(FakePublisher):
    """Publishes what a handler gives to the topic that the message asks for (`reply_to`)."""

    def __init__(self, producer: OncelogProducer, topic: str) -> None:
        super().__init__(producer=producer)
        self._topic = topic

    def patch_command(self, cmd: PublishCommand) -> PublishCommand:
        """To that topic."""
        reply = OncelogPublishCommand.from_cmd(super().patch_command(cmd))
        reply.destination = self._topic
        return reply
