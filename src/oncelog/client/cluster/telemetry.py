"""Pushes a client's metrics to whichever broker wants them (KIP-714). Nothing of it disturbs the client: what fails is logged
for who debugs, and tried again minutes later; at the end one last push is waited for, a moment at most.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from oncelog.client.cluster.connection import BrokerVersions, Connection
from oncelog.client.config import ClientConfig
from oncelog.core.telemetry.reporting import JITTER_HIGH, JITTER_LOW, Ledger, Reporting, Subscription, subscription_of
from oncelog.errors import IllegalState, KafkaError, RequestTimedOut, UnsupportedVersion
from oncelog.host.host import Host
from oncelog.wire.api import ApiKey
from oncelog.wire.compression import Codec, compress
from oncelog.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from oncelog.wire.messages.push_telemetry import PushTelemetryRequest
from oncelog.wire.metrics_data import DataPoint, encode_metrics
from oncelog.wire.schema import ZERO_UUID
from oncelog.wire.uuids import uuid_text

log = logging.getLogger("oncelog.client")

LAST_PUSH_S = 0.5
RESOURCE = ("transactional_id", "group_id", "group_instance_id", "client_rack")


class Telemetry:
    """One client's. `connect` gives an open connection to any broker, `versions` what the newest of them has told."""

    def __init__(
        self,
        config: ClientConfig,
        host: Host,
        versions: Callable[[], BrokerVersions],
        connect: Callable[[], Awaitable[Connection]],
    ) -> None:
        self._points: Callable[[], list[DataPoint]] = list
        said = ((name, getattr(config, name, None)) for name in RESOURCE)
        self._resource = tuple((name, text) for name, text in said if text)
        self._config = config
        self._host = host
        self._versions = versions
        self._connect = connect
        self._reporting = Reporting()
        self._ledger = Ledger()
        self._connection: Connection | None = None
        self._pushed_ms = self._started_ms = 0
        self._is_closed = False
        self._answered = asyncio.Event()  # it has an id, or there will be none

    def tells(self, points: Callable[[], list[DataPoint]]) -> None:
        """What to push: numbers, sums from their beginning."""
        self._points = points

    async def run(self) -> None:
        """Ask and push, until the broker says that it is of no use."""
        self._pushed_ms = self._started_ms = self._host.clock.now_ms()
        while not self._reporting.is_over:
            await asyncio.sleep(self._reporting.wait_ms(self._now_ms()) / 1000)
            try:
                await self._step()
            except KafkaError as error:
                log.debug("metrics could not be pushed: %s", error)
                self._connection = None  # another broker may take them
                self._reporting.failed(self._now_ms())
            except IllegalState:  # it was closed meanwhile
                return
            self._answered.set()

    async def instance_id(self, timeout_ms: int | None) -> str:
        """As `Producer.client_instance_id`."""
        if not self._config.enable_metrics_push:
            raise IllegalState("a client has an instance id only with enable_metrics_push=True")
        limit_ms = self._config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await self._answered.wait()
        except TimeoutError:
            raise RequestTimedOut(f"the broker has given no client instance id within {limit_ms} ms") from None
        instance_id = self._reporting.instance_id
        if self._is_closed and instance_id == ZERO_UUID:
            raise IllegalState("this client was closed")
        if instance_id == ZERO_UUID:
            raise UnsupportedVersion(
                "this broker takes no metrics of clients: it gives no client instance id (KIP-714)"
            )
        return uuid_text(instance_id)

    def end(self) -> None:
        """The client is closed: who waits for an id hears it."""
        self._is_closed = True
        self._answered.set()

    async def last_push(self) -> None:
        """Say what there is to say before the client ends, where the way is open; it is not waited for longer than a moment."""
        subscription, connection = self._reporting.to_push, self._connection
        if subscription is None or self._reporting.is_over or connection is None or not connection.may_write:
            return
        self._reporting.is_over = True
        try:
            async with asyncio.timeout(LAST_PUSH_S):
                await self._push(connection, subscription, is_last=True)
        except (KafkaError, TimeoutError) as error:
            log.debug("the last metrics could not be pushed: %s", error)

    def _now_ms(self) -> float:
        return asyncio.get_running_loop().time() * 1000

    async def _step(self) -> None:
        if ApiKey.PUSH_TELEMETRY not in self._versions().ranges:  # no connection is made to hear that again
            self._connection = None
            self._reporting.failed(self._now_ms())
            return
        if self._connection is None or self._connection.is_closed:
            self._connection = await self._connect()
        subscription = self._reporting.to_push
        if subscription is None:
            await self._ask(self._connection)
        else:
            await self._push(self._connection, subscription)

    async def _ask(self, connection: Connection) -> None:
        message = GetTelemetrySubscriptionsRequest(client_instance_id=self._reporting.instance_id)
        answer, _ = await connection.request(message, timeout_ms=self._config.request_timeout_ms)
        if answer.error_code:
            self._reporting.refused(answer.error_code, self._now_ms())
            return
        subscription = subscription_of(
            answer.subscription_id,
            answer.push_interval_ms,
            answer.requested_metrics,
            answer.accepted_compression_types,
            answer.telemetry_max_bytes,
            is_delta=answer.delta_temporality,
        )
        jitter = self._host.random.uniform(JITTER_LOW, JITTER_HIGH)
        self._reporting.subscribed(answer.client_instance_id, subscription, self._now_ms(), jitter)

    async def _push(self, connection: Connection, subscription: Subscription, *, is_last: bool = False) -> None:
        points, now_ms = subscription.wanted(self._points()), self._host.clock.now_ms()
        points, data = self._encoded(points, subscription, now_ms)
        message = PushTelemetryRequest(
            client_instance_id=self._reporting.instance_id,
            subscription_id=subscription.subscription_id,
            terminating=is_last,
            compression_type=subscription.codec,
            metrics=data,
        )
        answer, _ = await connection.request(message, timeout_ms=self._config.request_timeout_ms)
        if answer.error_code:
            self._reporting.refused(answer.error_code, self._now_ms())
            return
        self._pushed_ms = now_ms
        self._ledger.told(points)
        self._reporting.pushed(self._now_ms())

    def _encoded(
        self, points: list[DataPoint], subscription: Subscription, now_ms: int
    ) -> tuple[list[DataPoint], bytes]:
        """As many of the points, from the first on, as the broker takes at once, and their bytes."""
        while True:
            shown = self._ledger.deltas(points) if subscription.is_delta else points
            since_ms = self._pushed_ms if subscription.is_delta else self._started_ms
            data = encode_metrics(shown, self._resource, since_ms, now_ms)
            if subscription.codec is not Codec.NONE:
                data = compress(subscription.codec, data)
            if len(data) <= subscription.size_bytes_max or not points:
                return points, data
            points = points[: len(points) // 2]
