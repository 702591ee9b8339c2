"""PushTelemetry: a client's metrics, shown at /metrics (KIP-714)."""

from __future__ import annotations

from oncelog.broker.handlers.telemetry.client_instance import client_instance
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.client_metrics.instances import RESERVED_IDS
from oncelog.errors import ErrorCode
from oncelog.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse


def handle(node: Node, request: Request) -> PushTelemetryResponse:
    """Only who has an id may push."""
    message: PushTelemetryRequest = request.message
    if message.client_instance_id in RESERVED_IDS:
        return PushTelemetryResponse(error_code=ErrorCode.INVALID_REQUEST)
    client = client_instance(request, message.client_instance_id)
    return PushTelemetryResponse(error_code=node.client_metrics.push(client, message))
