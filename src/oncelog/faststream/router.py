"""Routers: handlers that are declared before there is a broker, and taken by one with `routers=` or `include_router`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from faststream._internal.broker.router import ArgsContainer, BrokerRouter, SubscriberRoute

from oncelog.faststream.config import OncelogBrokerConfig
from oncelog.faststream.registrator import OncelogRegistrator

if TYPE_CHECKING:
    from fast_depends.dependencies import Dependant
    from faststream._internal.parser import CodecProto
    from faststream._internal.types import BrokerMiddleware, CustomCallable


class OncelogPublisher(ArgsContainer):
    """A publisher for a route: takes what `router.publisher` takes."""

    def __init__(self, topic: str, **options: Any) -> None:
        super().__init__(topic, **options)


class OncelogRoute(SubscriberRoute):
    """A handler with its topics and publishers, without decorators; takes what `router.subscriber` takes."""

    def __init__(
        self,
        call: Callable[..., Any],
        *topics: str,
        group_id: str,
        publishers: Iterable[OncelogPublisher] = (),
        **options: Any,
    ) -> None:
        super().__init__(call, *topics, publishers=publishers, group_id=group_id, **options)


class OncelogRouter(OncelogRegistrator, BrokerRouter[Any, OncelogBrokerConfig]):
    """Subscribers and publishers that a broker takes later; with a prefix for all of their topics."""

    def __init__(
        self,
        prefix: str = "",
        *,
        handlers: Iterable[OncelogRoute] = (),
        dependencies: Sequence[Dependant] = (),
        middlewares: Sequence[BrokerMiddleware[Any]] = (),
        routers: Iterable[OncelogRegistrator] = (),
        parser: CustomCallable | None = None,
        decoder: CustomCallable | None = None,
        codec: CodecProto | None = None,
        include_in_schema: bool | None = None,
    ) -> None:
        super().__init__(
            config=OncelogBrokerConfig(
                prefix=prefix,
                broker_dependencies=dependencies,
                broker_middlewares=middlewares,
                broker_parser=parser,
                broker_decoder=decoder,
                broker_codec=codec,
                include_in_schema=include_in_schema,
            ),
            handlers=handlers,
            routers=routers,
        )
