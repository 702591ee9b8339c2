"""Connections that have not authenticated yet: how many there may be, from where, and what they hold.

Kafka bounds them by its idle time alone. Here one that is refused already and only waits for its answer makes room, else the
oldest one. An address may have half of all places: many clients come from one (a machine of executors, a gateway), and where
they are more than that each new one ends one that has nearly logged in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
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

    def refuse(self, reason: str) -> None:
        """End it."""
        ...


class _Queue:
    """Strangers of one address, or of all: each is found in constant time, however many a crowd sends."""

    def __init__(self) -> None:
        self._trying: dict[Stranger, None] = {}  # in the order of their arrival
        self._over: dict[Stranger, None] = {}  # refused, and waiting for that answer

    def __len__(self) -> int:
        return len(self._trying) + len(self._over)

    def add(self, stranger: Stranger) -> None:
        self._trying[stranger] = None

    def set_over(self, stranger: Stranger) -> None:
        self._over[stranger] = self._trying.pop(stranger, None)

    def remove(self, stranger: Stranger) -> None:
        self._trying.pop(stranger, None)
        self._over.pop(stranger, None)

    def least(self) -> Stranger:
        """Whom it costs least to end."""
        return next(iter(self._over or self._trying))


class Strangers:
    """All of one broker."""

    def __init__(self, config: Callable[[], BrokerConfig], metrics: Metrics) -> None:
        self._config = config
        self._metrics = metrics
        self._held_bytes: dict[Stranger, int] = {}
        self._all = _Queue()
        self._of_host: dict[str, _Queue] = {}
        self._total_bytes = 0
        metrics.gauge("connections_unauthenticated", lambda: len(self._held_bytes))

    def came(self, stranger: Stranger) -> None:
        """One more; where there are too many, another one ends."""
        config = self._config()
        host = stranger.client_host
        same = self._of_host.get(host)
        if same is not None and len(same) >= config.oncelog_max_unauthenticated_connections_per_ip:
            self._make_room(same.least(), "oncelog.max.unauthenticated.connections.per.ip")
        elif len(self._all) >= config.oncelog_max_unauthenticated_connections:
            self._make_room(self._all.least(), "oncelog.max.unauthenticated.connections")
        self._held_bytes[stranger] = 0
        self._all.add(stranger)
        self._of_host.setdefault(host, _Queue()).add(stranger)

    def is_over(self, stranger: Stranger) -> None:
        """It is refused, and only waits for that answer: of all it is the first to make room."""
        if stranger in self._held_bytes:
            self._all.set_over(stranger)
            self._of_host[stranger.client_host].set_over(stranger)

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
        self._all.remove(stranger)
        same = self._of_host[stranger.client_host]
        same.remove(stranger)
        if not same:
            del self._of_host[stranger.client_host]

    def _make_room(self, stranger: Stranger, limit: str) -> None:
        self._metrics.limit_hit(limit)
        self.left(stranger)
        stranger.refuse(f"it had not authenticated, and there are more such connections than {limit} allows")


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
