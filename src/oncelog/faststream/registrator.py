"""`subscriber` and `publisher`, which a broker and a router have alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast

from faststream._internal.broker.registrator import Registrator
from faststream._internal.constants import EMPTY
from faststream._internal.endpoint.subscriber.call_item import CallsCollection
from faststream.exceptions import SetupError
from faststream.middlewares import AckPolicy

from oncelog.client import arguments
from oncelog.faststream.config import OncelogBrokerConfig
from oncelog.faststream.options import SubscriberOptions, checked_subscriber_options
from oncelog.faststream.publisher import OncelogTopicPublisher, PublisherConfig
from oncelog.faststream.response import Key
from oncelog.faststream.specification import (
    OncelogPublisherSpecification,
    OncelogSubscriberSpecification,
    PublisherDescription,
    SubscriberDescription,
)
from oncelog.faststream.subscriber import OncelogSubscriber, SubscriberConfig

if TYPE_CHECKING:
    from fast_depends.dependencies import Dependant
    from faststream._internal.parser import CodecProto
    from faststream._internal.types import BrokerMiddleware, CustomCallable


class OncelogRegistrator(Registrator[Any, OncelogBrokerConfig]):
    """Where subscribers and publishers are declared."""

    def subscriber(  # type: ignore[override]
        self,
        *topics: str,
        group_id: str,
        batch: bool = False,
        max_workers: int = 1,
        ack_policy: AckPolicy = EMPTY,
        no_reply: bool = False,
        dependencies: Sequence[Dependant] = (),
        parser: CustomCallable | None = None,
        decoder: CustomCallable | None = None,
        codec: CodecProto | None = None,
        persistent: bool = True,
        title: str | None = None,
        description: str | None = None,
        include_in_schema: bool = True,
        **options: Unpack[SubscriberOptions],
    ) -> OncelogSubscriber:
        """A member of a consumer group whose handler takes effect once: `@broker.subscriber("orders", group_id="pricing")`.

        Args:
            topics: what is read, read_committed; one or several.
            group_id: of the consumer group; its members, in whatever process, share the partitions.
            batch: the handler gets a list of bodies, those of one transaction.
            max_workers: so many messages at a time; what they publish keeps their order.
            ack_policy: NACK_ON_ERROR (again, then a dead letter or the end), REJECT_ON_ERROR (a dead letter at once) or ACK
                (left out).
            no_reply: publish nothing to the topic that a message's reply_to names.
            dependencies, parser, decoder, codec: FastStream's.
            persistent: the broker keeps it alive.
            title, description, include_in_schema: AsyncAPI's.
            options: those of `oncelog.process` (dead_letter_topic, transform_retries ...) and of its clients.

        Raises:
            SetupError: an AckPolicy that cannot be had, or one that does not fit the rest.
            ConfigurationError: a key or value option; FastStream's codec does that.
        """
        shared = cast("OncelogBrokerConfig", self.config)
        names = tuple(arguments.topic_name("topics", topic) for topic in arguments.texts("topics", topics))
        config = SubscriberConfig(
            topics=names,
            group_id=arguments.text("group_id", group_id),
            batch=arguments.boolean("batch", batch),
            max_workers=arguments.integer("max_workers", max_workers, low=1),
            options=checked_subscriber_options(names, group_id, options),
            no_reply=no_reply,
            _ack_policy=ack_policy,
            _outer_config=shared,
        )
        calls: CallsCollection[Any] = CallsCollection()
        about = SubscriberDescription(
            topics=config.topics, title_=title, description_=description, include_in_schema=include_in_schema
        )
        found = OncelogSubscriber(config, OncelogSubscriberSpecification(shared, about, calls), calls)
        super().subscriber(found, persistent=persistent)
        found.add_call(parser_=parser, decoder_=decoder, dependencies_=dependencies, codec_=codec)
        return found

    def publisher(  # type: ignore[override]
        self,
        topic: str,
        *,
        key: Key = None,
        partition: int | None = None,
        headers: Mapping[str, Any] | None = None,
        reply_to: str = "",
        batch: bool = False,
        persistent: bool = True,
        title: str | None = None,
        description: str | None = None,
        schema: Any | None = None,
        include_in_schema: bool = True,
    ) -> OncelogTopicPublisher:
        """Publishes what a handler gives, in the transaction of its message: `@broker.publisher("priced")` over `@subscriber`.

        Args:
            topic: where to.
            key, partition, headers: of each record; an OncelogResponse, and a call of `publish`, may name others.
            reply_to: the topic where answers are wanted.
            batch: a handler gives a list, each item a record.
            persistent: the broker keeps it alive.
            title, description, schema, include_in_schema: AsyncAPI's.
        """
        shared = cast("OncelogBrokerConfig", self.config)
        config = PublisherConfig(
            topic=arguments.topic_name("topic", topic),
            key=key,
            partition=arguments.integer_or_none("partition", partition),
            headers=headers,
            reply_to=reply_to,
            batch=arguments.boolean("batch", batch),
            _outer_config=shared,
        )
        about = PublisherDescription(
            topic=config.topic,
            title_=title,
            description_=description,
            schema_=schema,
            include_in_schema=include_in_schema,
        )
        found = OncelogTopicPublisher(config, OncelogPublisherSpecification(shared, about))
        super().publisher(found, persistent=persistent)
        return found

    def include_router(
        self,
        router: Registrator[Any, Any],
        *,
        prefix: str = "",
        dependencies: Sequence[Dependant] = (),
        middlewares: Sequence[BrokerMiddleware[Any]] = (),
        include_in_schema: bool | None = None,
    ) -> None:
        """Take a router's subscribers and publishers as one's own. Raises SetupError for another broker's router."""
        if not isinstance(router, OncelogRegistrator):
            raise SetupError(f"a broker of oncelog takes an OncelogRouter, not a {type(router).__name__}")
        super().include_router(
            router,
            prefix=prefix,
            dependencies=dependencies,
            middlewares=middlewares,
            include_in_schema=include_in_schema,
        )
