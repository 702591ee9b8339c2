"""The broker: FastStream's application starts and stops it, and its clients are oncelog's."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Unpack

from fast_depends import dependency_provider
from faststream._internal.broker import BrokerUsecase
from faststream._internal.configs import UnderlyingDriverAnnotation, UnderlyingDriverAnnotations
from faststream._internal.constants import EMPTY
from faststream._internal.context.repository import ContextRepo
from faststream._internal.di import FastDependsConfig
from faststream._internal.logger import make_logger_state
from faststream.exceptions import FeatureNotSupportedException
from faststream.message import gen_cor_id
from faststream.params import Context
from faststream.response import PublishType
from faststream.specification.schema import BrokerSpec

from oncelog.client import arguments
from oncelog.client.config import ProducerConfig
from oncelog.client.producer.producer import Producer
from oncelog.client.records import RecordMetadata
from oncelog.errors import ConfigurationError
from oncelog.faststream.config import GRACEFUL_TIMEOUT_S, START_TIMEOUT_MS, OncelogBrokerConfig
from oncelog.faststream.logs import LoggerStorage
from oncelog.faststream.message import OncelogMessage
from oncelog.faststream.options import BrokerOptions, checked_broker_options
from oncelog.faststream.producing import NO_REQUESTS, OncelogProducer
from oncelog.faststream.registrator import OncelogRegistrator
from oncelog.faststream.response import Key, OncelogPublishCommand
from oncelog.faststream.subscriber import OncelogSubscriber

if TYPE_CHECKING:
    from types import TracebackType

    from fast_depends import Provider
    from fast_depends.dependencies import Dependant
    from fast_depends.library.serializer import SerializerProto
    from faststream._internal.basic_types import LoggerProto
    from faststream._internal.parser import CodecProto
    from faststream._internal.types import BrokerMiddleware, CustomCallable, IdGenerator
    from faststream.specification.schema import Tag, TagDict


class OncelogBroker(OncelogRegistrator, BrokerUsecase[Any, Producer, OncelogBrokerConfig]):
    """A broker for FastStream whose handlers take effect exactly once, on oncelog and on Apache Kafka.

    What a handler returns (with `@broker.publisher`), what it publishes with `broker.publish`, and the position behind its
    message are one transaction. What is published outside of a handler is written at once.

    Args:
        servers: `HOST:PORT`, several with commas or as a list; also by name, `bootstrap_servers=`.
        start_timeout_ms: how long a start waits for the first answer of a broker.
        graceful_timeout: how many seconds a stop waits for handlers, and then for what they left.
        parser, decoder, codec, dependencies, middlewares, routers: FastStream's, for all subscribers.
        logger, log_level, apply_types, provider, serializer, context, id_generator: FastStream's.
        specification_url, protocol, protocol_version, description, tags: AsyncAPI's.
        options: the clients' options (docs/client-options.md): security_protocol, linger_ms, compression_type ...

    Raises:
        ConfigurationError: an option that nobody knows, or that is a subscriber's.
    """

    def __init__(
        self,
        servers: str | Sequence[str] | None = None,
        /,
        *,
        start_timeout_ms: int = START_TIMEOUT_MS,
        graceful_timeout: float = GRACEFUL_TIMEOUT_S,
        parser: CustomCallable | None = None,
        decoder: CustomCallable | None = None,
        codec: CodecProto | None = None,
        dependencies: Sequence[Dependant] = (),
        middlewares: Sequence[BrokerMiddleware[Any]] = (),
        routers: Iterable[OncelogRegistrator] = (),
        logger: LoggerProto | None = EMPTY,
        log_level: int = logging.INFO,
        apply_types: bool = True,
        provider: Provider | None = None,
        serializer: SerializerProto | None = EMPTY,
        context: ContextRepo | None = None,
        id_generator: IdGenerator = gen_cor_id,
        specification_url: str | Iterable[str] | None = None,
        protocol: str | None = None,
        protocol_version: str | None = "auto",
        description: str | None = None,
        tags: Iterable[Tag | TagDict] = (),
        **options: Unpack[BrokerOptions],
    ) -> None:
        if servers is not None:
            if "bootstrap_servers" in options:
                raise ConfigurationError("OncelogBroker: servers and bootstrap_servers are one thing: leave one out")
            options["bootstrap_servers"] = servers if isinstance(servers, str) else arguments.texts("servers", servers)
        checked = ProducerConfig.of(dict(client_options := checked_broker_options(options)))
        fd_config = FastDependsConfig(
            use_fastdepends=apply_types,
            serializer=serializer,
            provider=provider or dependency_provider,
            context=context or ContextRepo(),
        )
        urls = checked.bootstrap_servers.split(",") if specification_url is None else _several(specification_url)
        is_secure = checked.security_protocol.endswith("SSL")
        super().__init__(
            routers=routers,
            config=OncelogBrokerConfig(
                producer=OncelogProducer(parser, decoder),
                client_options=client_options,
                start_timeout_ms=start_timeout_ms,
                graceful_timeout=graceful_timeout,
                broker_parser=parser,
                broker_decoder=decoder,
                broker_codec=codec,
                broker_dependencies=dependencies,
                broker_middlewares=middlewares,
                id_generator=id_generator,
                logger=make_logger_state(logger=logger, log_level=log_level, default_storage_cls=LoggerStorage),
                fd_config=fd_config,
                extra_context={"broker": self},
                default_driver_annotations=_wrong_annotations(),
            ),
            specification=BrokerSpec(
                url=urls,
                protocol=protocol or ("kafka-secure" if is_secure else "kafka"),
                protocol_version=protocol_version,
                description=description,
                tags=tags,
                security=None,
            ),
        )

    # -- life

    async def _connect(self) -> Producer:
        shared = self.config.broker_config
        return await shared.producer.connect(
            shared.client_options,
            serializer=shared.fd_config._serializer,
            codec=self.config.broker_codec,
            start_timeout_ms=shared.start_timeout_ms,
        )

    async def start(self) -> None:
        """Reach the cluster, and have each subscriber join its group.

        Raises:
            RequestTimedOut: nobody answered within start_timeout_ms; nothing is left running.
            KafkaError, ConfigurationError, SetupError: a subscriber cannot work.
        """
        try:
            await self.connect()
            await super().start()
        except BaseException as error:
            await self.stop(type(error), error, error.__traceback__)
            raise

    async def stop(
        self,
        exc_type: type[BaseException] | None = None,
        exc_val: BaseException | None = None,
        exc_tb: TracebackType | None = None,
    ) -> None:
        """Finish what handlers have begun, within graceful_timeout, leave the groups, close.

        Raises what a subscriber ended of before this, where there is no application to raise it, nor something else under way.
        """
        try:
            await super().stop(exc_type, exc_val, exc_tb)
        finally:
            shared = self.config.broker_config
            self._connection = None
            await shared.producer.disconnect(shared.stop_timeout_ms)
        told_here = [each for each in self._members() if not each.is_told_by_app]
        failures = [failure for each in told_here if (failure := each.take_failure()) is not None]
        if failures and exc_val is None:
            raise failures[0]

    def _members(self) -> list[OncelogSubscriber]:
        return [each for each in self.subscribers if isinstance(each, OncelogSubscriber)]

    async def ping(self, timeout: float | None = None) -> bool:
        """Whether the cluster answers within so many seconds (None: 10), and no subscriber has ended of an error."""
        if any(each.failure is not None for each in self._members()):
            return False
        return await self.config.broker_config.producer.ping(timeout)

    # -- publishing

    async def publish(
        self,
        message: Any,
        topic: str,
        *,
        key: Key = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Mapping[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
    ) -> RecordMetadata | None:
        """In a handler: with its message's transaction, or not at all; gives None. Elsewhere: now; gives where it was stored.

        A body None is a tombstone. `timestamp_ms` None: the handled message's, or now.
        """
        cmd = self._command(message, topic, key, partition, timestamp_ms, headers, correlation_id, reply_to)
        found: RecordMetadata | None = await self._basic_publish(cmd, producer=self.config.producer)
        return found

    async def publish_batch(  # type: ignore[override]
        self,
        *messages: Any,
        topic: str,
        key: Key = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Mapping[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
    ) -> None:
        """`publish` of each; an OncelogResponse brings its own key. Outside of a handler this is not one transaction."""
        cmd = self._command(list(messages), topic, key, partition, timestamp_ms, headers, correlation_id, reply_to)
        await self._basic_publish_batch(OncelogPublishCommand.from_cmd(cmd, batch=True), producer=self.config.producer)

    def _command(
        self,
        body: Any,
        topic: str,
        key: Key,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Mapping[str, Any] | None,
        correlation_id: str | None,
        reply_to: str,
    ) -> OncelogPublishCommand:
        return OncelogPublishCommand(
            body,
            topic=topic,
            key=key,
            partition=partition,
            timestamp_ms=timestamp_ms,
            headers=headers,
            correlation_id=correlation_id or self.config.id_generator(),
            reply_to=reply_to,
            _publish_type=PublishType.PUBLISH,
        )

    async def request(self, message: Any, queue: str, /, timeout: float = 0.5) -> NoReturn:  # noqa: ARG002
        """Refused: a log has no answers."""
        raise FeatureNotSupportedException(NO_REQUESTS)


def _several(urls: str | Iterable[str]) -> list[str]:
    return [urls] if isinstance(urls, str) else list(urls)


def _wrong_annotations() -> UnderlyingDriverAnnotations:
    """Classes that somebody may annotate a handler's argument with, and what injects them."""
    module = "oncelog.faststream.annotations"
    annotate = partial(UnderlyingDriverAnnotation, module=module)
    return {
        OncelogMessage: annotate(type_hint=Annotated[OncelogMessage, Context("message")], name="OncelogMessage"),
        OncelogBroker: annotate(type_hint=Annotated[OncelogBroker, Context("broker")], name="OncelogBroker"),
    }
