"""Connections that have not authenticated yet: how many there may be, from where, and what they hold.

Kafka bounds them by its idle time alone. Here one that is refused already and only waits for its answer makes room, else the
oldest one. An address may have half of all places: many clients come from one (a machine of executors, a gateway), and where
they are more than that each new one ends one that has nearly logged in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol

from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.metrics.metrics import Metrics

FREE_FAILURES = 20  # of an address in a minute; beyond, each doubles its delay
DELAY_S_MAX = 5.0
WINDOW_S = 60.0
ADDRESSES_MAX = 10_000


class Stranger(Protocol):
    """A connection that has not authenticated."""

    client_host: str

    @property
    def is_over(self) -> bool:
        """Whether it is refused, and only waits for that answer."""
        ...

    def refuse(self, reason: str) -> None:
        """End it."""
        ...


class Strangers:
    """All of one broker, in the order of their arrival."""

    def __init__(self, config: Callable[[], BrokerConfig], metrics: Metrics) -> None:
        self._config = config
        self._metrics = metrics
        self._held_bytes: dict[Stranger, int] = {}
        self._per_host: Counter[str] = Counter()
        self._total_bytes = 0
        metrics.gauge("connections_unauthenticated", lambda: len(self._held_bytes))

    def came(self, stranger: Stranger) -> None:
        """One more; where there are too many, another one ends."""
        config = self._config()
        host = stranger.client_host
        if self._per_host[host] >= config.oncelog_max_unauthenticated_connections_per_ip:
            same = [each for each in self._held_bytes if each.client_host == host]
            self._make_room(_least(same), "oncelog.max.unauthenticated.connections.per.ip")
        elif len(self._held_bytes) >= config.oncelog_max_unauthenticated_connections:
            self._make_room(_least(self._held_bytes), "oncelog.max.unauthenticated.connections")
        self._held_bytes[stranger] = 0
        self._per_host[host] += 1

    def holds(self, stranger: Stranger, size_bytes: int) -> None:
        """So much of it waits in memory; where all hold too much, it ends."""
        if stranger not in self._held_bytes:
            return
        self._total_bytes += size_bytes - self._held_bytes[stranger]
        self._held_bytes[stranger] = size_bytes
        if self._total_bytes > self._config().oncelog_max_unauthenticated_bytes:
            self._make_room(stranger, "oncelog.max.unauthenticated.bytes")

    def left(self, stranger: Stranger) -> None:
        """It authenticated, or its connection ended."""
        size_bytes = self._held_bytes.pop(stranger, None)
        if size_bytes is None:
            return
        self._total_bytes -= size_bytes
        self._per_host[stranger.client_host] -= 1
        if self._per_host[stranger.client_host] <= 0:
            del self._per_host[stranger.client_host]

    def _make_room(self, stranger: Stranger, limit: str) -> None:
        self._metrics.limit_hit(limit)
        self.left(stranger)
        stranger.refuse(f"it had not authenticated, and there are more such connections than {limit} allows")


def _least(strangers: Iterable[Stranger]) -> Stranger:
    """Whom it costs least to end, of strangers in the order of their arrival."""
    in_order = list(strangers)
    return next((each for each in in_order if each.is_over), in_order[0])


class Failures:
    """How long a failed authentication is answered later: an address that fails again and again waits longer."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._begun_s = float("-inf")

    def delay_s(self, host: str, least_s: float, now_s: float) -> float:
        """The delay of one more failure of an address; users are never locked out."""
        if now_s - self._begun_s >= WINDOW_S:
            self._begun_s = now_s
            self._counts.clear()
        if host in self._counts or len(self._counts) < ADDRESSES_MAX:
            self._counts[host] += 1
        beyond = self._counts[host] - FREE_FAILURES
        if beyond <= 0 or least_s >= DELAY_S_MAX:
            return least_s
        return min(max(least_s, 0.001) * float(2 ** min(beyond, 20)), DELAY_S_MAX)
