"""PushTelemetry: a client's metrics, shown at /metrics (KIP-714)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.handlers.telemetry.client_instance import client_instance
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.client_metrics.instances import RESERVED_IDS
from oncelog.errors import ErrorCode
from oncelog.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

Response = PushTelemetryResponse


def handle(node: Node, request: Request) -> Response | Coroutine[Any, Any, Response]:
    """Only who has an id may push. What takes long to read is answered when it is read."""
    message: PushTelemetryRequest = request.message
    if message.client_instance_id in RESERVED_IDS:
        return Response(error_code=ErrorCode.INVALID_REQUEST)
    pushed = node.client_metrics().push(client_instance(request, message.client_instance_id), message)
    return Response(error_code=pushed) if isinstance(pushed, ErrorCode) else _when_read(pushed)


async def _when_read(pushed: Coroutine[Any, Any, ErrorCode]) -> Response:
    return Response(error_code=await pushed)
