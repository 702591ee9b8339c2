"""What producer, consumer and admin say of their client instance id alike."""

from __future__ import annotations

from oncelog.client import arguments
from oncelog.client.cluster.cluster import Cluster


class HasInstanceId:
    """A client with a cluster."""

    _cluster: Cluster

    async def client_instance_id(self, timeout_ms: int | None = None) -> str:
        """The id that the broker gave this client, under which it pushes its metrics (KIP-714): to be found again at the
        broker's /metrics.

        Waits for it, `timeout_ms` at most (default: default_api_timeout_ms). Raises UnsupportedVersion where the broker takes
        no metrics, IllegalState with enable_metrics_push=False, RequestTimedOut.
        """
        arguments.duration_ms_or_none("timeout_ms", timeout_ms)
        self._cluster.check_usable()
        return await self._cluster.telemetry.instance_id(timeout_ms)
