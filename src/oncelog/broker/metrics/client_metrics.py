"""The receiver of what clients push about themselves (KIP-714): the cores, the broker's counters and /metrics.

A push of many numbers takes long to read. That is done beside the loop, one push at a time: no reply to anybody else waits
for it, and however many clients push at once, one thread reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from typing import Any

from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.metrics.metrics import Labels, Metrics, Numbers
from oncelog.core.client_metrics.instances import Instance, Instances, asked, pushed
from oncelog.core.client_metrics.series import Push, Series, SeriesTable, push_of
from oncelog.core.client_metrics.subscriptions import ClientInstance, Subscription, subscription_of
from oncelog.errors import CorruptBatch, ErrorCode, MalformedMessage
from oncelog.host.worker import Worker
from oncelog.wire.compression import DecompressedTooLarge, decompress
from oncelog.wire.messages.push_telemetry import PushTelemetryRequest
from oncelog.wire.metrics_data import Pace, TooMuchTelemetry, decode_metrics, no_pace

FIELDS_MAX = 100_000  # of one push: two tenths of a second's reading
AT_ONCE_BYTES_MAX = 2048  # decompressed; read in the loop, as a thread's start takes as long

Configs = Mapping[str, Mapping[str, str]]


class ClientMetrics:
    """Who pushes, and what was pushed. `configs` are the subscriptions, `version` grows with each change of them."""

    def __init__(
        self,
        configs: Callable[[], Configs],
        version: Callable[[], int],
        config: Callable[[], BrokerConfig],
        metrics: Metrics,
        worker: Worker,
    ) -> None:
        self._configs = configs
        self._version = version
        self._config = config
        self._metrics = metrics
        self._worker = worker
        self._reading = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None  # in which requests come; a scrape may come from elsewhere
        self._subscribed_version = -1
        self._subscriptions: dict[str, tuple[Mapping[str, str], Subscription]] = {}
        self._series = SeriesTable(lambda: config().oncelog_max_client_metrics_series)
        self._instances = Instances(lambda: config().oncelog_max_client_instances, self._series.forget)
        metrics.gauge("client_instances", lambda: len(self._instances))
        metrics.gauge("client_gauge", lambda: self._shown(is_counter=False))
        metrics.gauge("client_counter", lambda: self._shown(is_counter=True))

    def ask(self, client: ClientInstance) -> tuple[Instance, ErrorCode]:
        """What is wanted of a client, or why it is not told."""
        now_ms = self._now_ms()
        instance = self._instance(client, now_ms)
        error = asked(instance, now_ms)
        self._count(error)
        return instance, error

    def push(self, client: ClientInstance, message: PushTelemetryRequest) -> ErrorCode | Coroutine[Any, Any, ErrorCode]:
        """Take what a client pushes, or say why not: at once, or when it is read."""
        now_ms, config = self._now_ms(), self._config()
        instance = self._instance(client, now_ms)
        error = pushed(
            instance,
            now_ms,
            subscription_id=message.subscription_id,
            codec=message.compression_type,
            size_bytes=len(message.metrics),
            size_bytes_max=config.telemetry_max_bytes,
            is_terminating=message.terminating,
        )
        if error is ErrorCode.TELEMETRY_TOO_LARGE:
            self._metrics.limit_hit("telemetry.max.bytes")
        if error is ErrorCode.NONE and message.metrics:
            return self._read_at_once(instance, message)
        self._count(error)
        return error

    def _now_ms(self) -> float:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop.time() * 1000

    def _instance(self, client: ClientInstance, now_ms: float) -> Instance:
        version = self._version()
        if version != self._subscribed_version:
            self._subscribed_version = version
            self._subscriptions = {name: self._subscription(name, each) for name, each in self._configs().items()}
            self._instances.subscribe(tuple(subscription for _, subscription in self._subscriptions.values()))
        return self._instances.of(client, now_ms)

    def _subscription(self, name: str, configs: Mapping[str, str]) -> tuple[Mapping[str, str], Subscription]:
        known = self._subscriptions.get(name)
        return known if known is not None and known[0] is configs else (configs, subscription_of(configs))

    def _read_at_once(
        self, instance: Instance, message: PushTelemetryRequest
    ) -> ErrorCode | Coroutine[Any, Any, ErrorCode]:
        bytes_max = min(AT_ONCE_BYTES_MAX, self._config().oncelog_telemetry_max_decompressed_bytes)
        try:
            return self._take(instance, self._read(message, bytes_max, no_pace))
        except DecompressedTooLarge:
            return self._read_beside(instance, message)
        except (CorruptBatch, MalformedMessage) as error:
            return self._refuse(instance, error)

    async def _read_beside(self, instance: Instance, message: PushTelemetryRequest) -> ErrorCode:
        bytes_max = self._config().oncelog_telemetry_max_decompressed_bytes
        try:
            async with self._reading:
                push = await self._worker.run(partial(self._read, message, bytes_max))
        except (CorruptBatch, MalformedMessage) as error:
            return self._refuse(instance, error)
        return self._take(instance, push)

    def _read(self, message: PushTelemetryRequest, bytes_max: int, pace: Pace) -> Push:
        """May run in a thread. Raises CorruptBatch, MalformedMessage."""
        data = decompress(message.compression_type, message.metrics, bytes_max)
        points_max = self._config().oncelog_max_client_metrics_series
        return push_of(decode_metrics(data, points_max=points_max, fields_max=FIELDS_MAX, pace=pace), pace)

    def _refuse(self, instance: Instance, error: Exception) -> ErrorCode:
        if isinstance(error, DecompressedTooLarge | TooMuchTelemetry):
            self._metrics.limit_hit("oncelog.telemetry.max.decompressed.bytes")
            instance.last_error = ErrorCode.TELEMETRY_TOO_LARGE
        else:
            self._metrics.add("client_push_failures")
            instance.last_error = ErrorCode.INVALID_RECORD
        return instance.last_error

    def _take(self, instance: Instance, push: Push) -> ErrorCode:
        if self._instances.has(instance.client.instance_id):  # else it was forgotten while its push was read
            if self._series.take(instance.client, push):
                self._metrics.limit_hit("oncelog.max.client.metrics.series")
            self._metrics.add("client_pushes")
        return ErrorCode.NONE

    def _count(self, error: ErrorCode) -> None:
        if error is ErrorCode.THROTTLING_QUOTA_EXCEEDED:
            self._metrics.add("client_metrics_throttled")
        elif error is ErrorCode.UNKNOWN_SUBSCRIPTION_ID:
            self._metrics.add("client_subscriptions_unknown")

    def _shown(self, *, is_counter: bool) -> Numbers:
        if self._loop is not None:
            self._instances.forget_silent(self._loop.time() * 1000)
        return _numbers_of(self._series.now(), is_counter)


def _numbers_of(series: Iterator[Series], is_counter: bool) -> Iterator[tuple[Labels, float]]:
    for each in series:
        if each.is_counter is is_counter:
            yield (each.metric, each.client_id, each.instance_name, each.attributes), each.value
