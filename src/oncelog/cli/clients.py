"""Clients for commands: made from the global options, and told soon when no broker is there."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Protocol

import click

from oncelog.cli.command import Settings
from oncelog.cli.output import printable
from oncelog.cli.unreadable import WHY_OFFLINE
from oncelog.client.admin.admin import Admin
from oncelog.client.admin.session import ends_where_coordinators_are_offline, waited_for_once
from oncelog.client.cluster.cluster import Cluster
from oncelog.client.config import (
    ALIASES,
    HAS_NO_MEANING,
    AdminConfig,
    ClientConfig,
    ConsumerConfig,
    ProducerConfig,
    check_known,
    snake_case,
)
from oncelog.client.consumer.consumer import Consumer
from oncelog.client.producer.producer import Producer
from oncelog.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaError,
    Network,
    NotCoordinator,
    RequestTimedOut,
)

CONNECT_TIMEOUT_MS = 5000
SETUP_TIMEOUT = "socket_connection_setup_timeout_ms"
COORDINATOR_AWAY = (NotCoordinator, CoordinatorNotAvailable, CoordinatorLoadInProgress)
LINGER_MS = ProducerConfig.linger_ms
_KINDS = (AdminConfig, ConsumerConfig, ProducerConfig)


class _Client(Protocol):
    _cluster: Cluster

    async def start(self) -> None: ...
    async def stop(self) -> None: ...


@asynccontextmanager
async def open_admin(settings: Settings) -> AsyncIterator[Admin]:
    """A running admin client. A broker that takes a connection and says nothing is given up as soon as one at the start is."""
    client = Admin(**admin_arguments(settings))
    ends_where_coordinators_are_offline(client, leaderless_patience_ms=CONNECT_TIMEOUT_MS)
    await _start(client, settings)
    try:
        yield client
    except KafkaError as error:
        if isinstance(error, COORDINATOR_AWAY) or isinstance(
            error.__cause__, COORDINATOR_AWAY
        ):  # of a deadline: the last error
            await _name_offline_coordinators(client, settings)
        raise
    finally:
        await client.stop()


@asynccontextmanager
async def open_admin_that_looks(settings: Settings) -> AsyncIterator[Admin]:
    """For several questions: what a broker that says nothing costs in time is paid once, and not by each of them."""
    async with open_admin(settings) as client:
        with waited_for_once(client):
            yield client


def patient(settings: Settings) -> Settings:
    """For several questions of which one that nobody answers must not take all the time."""
    return dataclasses.replace(settings, timeout_ms=min(settings.timeout_ms, CONNECT_TIMEOUT_MS))


async def _name_offline_coordinators(admin: Admin, settings: Settings) -> None:
    """Whoever asks for a group or a transactional id there is told that the coordinator is not found, and not why."""
    with suppress(KafkaError, TimeoutError):
        async with asyncio.timeout(min(settings.timeout_ms, CONNECT_TIMEOUT_MS) / 1000):
            for each in await admin.offline_coordinators():
                settings.out.note(f"error: {each} is offline, and what it has cannot be asked for: {WHY_OFFLINE}")


@asynccontextmanager
async def open_producer(settings: Settings, **more: Any) -> AsyncIterator[Producer]:
    """A running producer; `more` are its keys in snake case."""
    more.setdefault("max_block_ms", settings.timeout_ms)
    # --timeout holds for what was sent, too; who gives delivery.timeout.ms or request.timeout.ms means just that.
    own = snake_case(settings.client_config())
    if "delivery_timeout_ms" not in own and "request_timeout_ms" not in own:
        linger_ms = int(own.get("linger_ms", LINGER_MS))
        more.setdefault("delivery_timeout_ms", settings.timeout_ms + linger_ms)
        more.setdefault("request_timeout_ms", settings.timeout_ms)
    given = arguments(ProducerConfig, settings, **more)
    client = Producer(**given)
    if given.get("transactional_id") is None:
        await _start(client, settings)
    else:  # its coordinator may have to abort, to load or to make its topic first: that may take the whole time
        async with open_admin(settings):
            pass
        await client.start()
    try:
        yield client
    finally:
        await client.stop()


@asynccontextmanager
async def open_consumer(settings: Settings, *topics: str, **more: Any) -> AsyncIterator[Consumer]:
    """A running consumer; `more` are its keys in snake case."""
    if "allow_auto_create_topics" not in snake_case(settings.client_config()):
        more.setdefault("allow_auto_create_topics", False)  # whoever reads makes no topic, also while one is deleted
    client = Consumer(*topics, **arguments(ConsumerConfig, settings, **more))
    await _start(client, settings)
    try:
        yield client
    finally:  # a broker that answers no more is not waited for as long again
        await client.stop(min(settings.timeout_ms // 2, CONNECT_TIMEOUT_MS))


def admin_arguments(settings: Settings) -> dict[str, Any]:
    """`arguments` of an admin client that gives up soon who takes a connection and says nothing."""
    given = arguments(AdminConfig, settings)
    given.setdefault(SETUP_TIMEOUT, min(settings.timeout_ms, CONNECT_TIMEOUT_MS))
    return given


def arguments(kind: type[ClientConfig], settings: Settings, **more: Any) -> dict[str, Any]:
    """A client's keyword arguments.

    One file may serve several kinds of clients, so what is another kind's key is left out; a key of none is refused.
    """
    own = {field.name for field in dataclasses.fields(kind)}
    others = {field.name for other in _KINDS for field in dataclasses.fields(other)} - own
    given = snake_case(settings.client_config())
    named = {name.replace("_", ".") for name in snake_case(dict(settings.properties))}
    known = {name.replace("_", ".") for name in own | others | HAS_NO_MEANING | ALIASES.keys()}
    for name in given:
        key = name.replace("_", ".")
        check_known("-X" if key in named or not settings.command_config else settings.command_config, key, known)
    return {**{key: value for key, value in given.items() if key not in others}, **more}


async def _start(client: _Client, settings: Settings) -> None:
    """A broker that is there answers at once: do not wait for the whole time that an operation may take.

    Whether this ends first, or the client's own time: the same error, RequestTimedOut.
    """
    limit_ms = min(settings.timeout_ms, CONNECT_TIMEOUT_MS)
    loop = asyncio.get_running_loop()
    why: KafkaError | None = None

    def give_up() -> None:
        nonlocal why
        why = client._cluster.why_late(kept.error)  # what ends forgets it
        limit.reschedule(loop.time())

    with _kept() as kept:
        timer = loop.call_later(limit_ms / 1000, give_up)
        try:
            async with asyncio.timeout(None) as limit:
                await client.start()
        except TimeoutError:
            last = why or Network(f"no answer from {settings.client_config()['bootstrap.servers']}")
            told = f"connect to the cluster: not done within {limit_ms} ms; last error: {last}"
            raise RequestTimedOut(told) from last
        finally:
            timer.cancel()


class _Kept(logging.Handler):
    """What a client logs while it cannot connect: the error tells it, in the one line that there is."""

    error: KafkaError | None = None
    propagated = True

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the last reason; say what is something else."""
        last = record.args[-1] if isinstance(record.args, tuple) and record.args else None
        if isinstance(last, KafkaError) and "not connected yet" in record.msg:
            self.error = last
        else:
            click.echo(printable(record.getMessage()), err=True)


@contextmanager
def _kept() -> Iterator[_Kept]:
    """Several may be there at a time (the console connects while it does something): the last one leaves the log as it was."""
    logger, handler = logging.getLogger("oncelog.client"), _Kept(logging.WARNING)
    others = [each for each in logger.handlers if isinstance(each, _Kept)]
    handler.propagated = others[0].propagated if others else logger.propagate
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
        if not any(isinstance(each, _Kept) for each in logger.handlers):
            logger.propagate = handler.propagated
