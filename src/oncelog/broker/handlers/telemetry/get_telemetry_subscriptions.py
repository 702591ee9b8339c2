"""GetTelemetrySubscriptions: which metrics this client is to push (KIP-714)."""

from __future__ import annotations

from oncelog.broker.handlers.telemetry.client_instance import client_instance
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.client_metrics.instances import CODECS
from oncelog.errors import ErrorCode
from oncelog.host.randomness import random_uuid
from oncelog.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from oncelog.wire.schema import ZERO_UUID


def handle(node: Node, request: Request) -> GetTelemetrySubscriptionsResponse:
    """A client without an id gets one. Sums are wanted from their beginning: a push that is lost then loses nothing."""
    message: GetTelemetrySubscriptionsRequest = request.message
    instance_id = message.client_instance_id
    if instance_id == ZERO_UUID:
        instance_id = random_uuid(node.random)
    instance, error = node.client_metrics().ask(client_instance(request, instance_id))
    if error is not ErrorCode.NONE:
        return GetTelemetrySubscriptionsResponse(error_code=error)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=instance.wanted.subscription_id,
        accepted_compression_types=list(CODECS),
        push_interval_ms=instance.wanted.interval_ms,
        telemetry_max_bytes=node.config.telemetry_max_bytes,
        delta_temporality=False,
        requested_metrics=list(instance.wanted.metrics),
    )
