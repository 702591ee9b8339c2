"""The receiver of what clients push about themselves (KIP-714): the cores, the broker's counters and /metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.metrics.metrics import Labels, Metrics
from oncelog.core.client_metrics.instances import Instance, Instances, asked, pushed
from oncelog.core.client_metrics.series import SeriesTable
from oncelog.core.client_metrics.subscriptions import ClientInstance, Subscription, subscription_of
from oncelog.errors import CorruptBatch, ErrorCode, MalformedMessage
from oncelog.wire.compression import DecompressedTooLarge, decompress
from oncelog.wire.messages.push_telemetry import PushTelemetryRequest
from oncelog.wire.metrics_data import TooMuchTelemetry, decode_metrics

FIELDS_MAX = 100_000  # of one push: a tenth of a second's reading

Configs = Mapping[str, Mapping[str, str]]


class ClientMetrics:
    """Who pushes, and what was pushed. `configs` are the subscriptions, `version` grows with each change of them."""

    def __init__(
        self,
        configs: Callable[[], Configs],
        version: Callable[[], int],
        config: Callable[[], BrokerConfig],
        metrics: Metrics,
    ) -> None:
        self._configs = configs
        self._version = version
        self._config = config
        self._metrics = metrics
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

    def push(self, client: ClientInstance, message: PushTelemetryRequest) -> ErrorCode:
        """Take what a client pushes, or say why not."""
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
            error = instance.last_error = self._take(instance.client, message)
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

    def _take(self, client: ClientInstance, message: PushTelemetryRequest) -> ErrorCode:
        config = self._config()
        try:
            data = decompress(
                message.compression_type, message.metrics, config.oncelog_telemetry_max_decompressed_bytes
            )
            points = decode_metrics(data, points_max=config.oncelog_max_client_metrics_series, fields_max=FIELDS_MAX)
        except (DecompressedTooLarge, TooMuchTelemetry):
            self._metrics.limit_hit("oncelog.telemetry.max.decompressed.bytes")
            return ErrorCode.TELEMETRY_TOO_LARGE
        except (CorruptBatch, MalformedMessage):
            self._metrics.add("client_push_failures")
            return ErrorCode.INVALID_RECORD
        if self._series.push(client, points):
            self._metrics.limit_hit("oncelog.max.client.metrics.series")
        self._metrics.add("client_pushes")
        return ErrorCode.NONE

    def _count(self, error: ErrorCode) -> None:
        if error is ErrorCode.THROTTLING_QUOTA_EXCEEDED:
            self._metrics.add("client_metrics_throttled")
        elif error is ErrorCode.UNKNOWN_SUBSCRIPTION_ID:
            self._metrics.add("client_subscriptions_unknown")

    def _shown(self, *, is_counter: bool) -> Mapping[Labels, float]:
        if self._loop is not None:
            self._instances.forget_silent(self._loop.time() * 1000)
        return {
            (each.metric, each.client_id, each.instance_name, each.attributes): each.value
            for each in self._series
            if each.is_counter is is_counter
        }
