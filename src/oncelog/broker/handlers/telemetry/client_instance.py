"""Who asks, as subscriptions look at it."""

from __future__ import annotations

from oncelog.broker.requests.request import Request
from oncelog.core.client_metrics.subscriptions import ClientInstance

CLIENT_ID_LENGTH_MAX = 1_000  # many clients are remembered; a longer id is cut


def client_instance(request: Request, instance_id: bytes) -> ClientInstance:
    """The client at the other end of this request's connection."""
    connection = request.connection
    name, version = connection.software
    return ClientInstance(
        instance_id,
        request.client_id[:CLIENT_ID_LENGTH_MAX],
        name,
        version,
        connection.client_host,
        connection.client_port,
    )
