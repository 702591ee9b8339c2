"""How many connections there may be, from where, how fast they may come, and what one of them may take.

A connection that comes too fast is taken and not read until its time has come, as Kafka's acceptor lets it wait (KIP-612);
one beyond its own address's quota is closed then. Above a number it is closed at once.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from oncelog.broker.config.config import BrokerConfig, addresses_with_counts
from oncelog.lazy_dataclass import dataclass

LOCALHOST = ("127.0.0.1", "::1")


class Admission(NamedTuple):
    """A new connection is not read for `delay_s` seconds; one that `is_refused` is closed then."""

    delay_s: float = 0.0
    is_refused: bool = False


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What one connection may take."""

    frame_bytes_max: int
    first_frame_bytes_max: int
    items_max: int
    in_flight_count_max: int
    unsent_bytes_max: int
    queued_count_max: int


def limits_of(config: BrokerConfig) -> ConnectionLimits:
    """The limits in force for a connection that comes now."""
    frame_bytes_max = config.socket_request_max_bytes
    # The first request of a client that does not ask for versions may be a Produce with one large batch.
    first = max(config.oncelog_first_request_max_bytes, 2 * config.message_max_bytes)
    return ConnectionLimits(
        frame_bytes_max,
        min(first, frame_bytes_max),
        config.oncelog_request_max_items,
        config.oncelog_connection_max_in_flight,
        config.oncelog_connection_max_unsent_bytes,
        config.queued_max_requests,
    )


class ConnectionCounts:
    """How many connections are open, in all and by host."""

    def __init__(self) -> None:
        self._per_host: Counter[str] = Counter()
        self._overrides: dict[str, int] = {}
        self._overrides_text = ""

    def refusal(self, config: BrokerConfig, host: str, count: int) -> str | None:
        """The key of the limit that keeps another connection from `host` out, where `count` are open."""
        if count >= config.max_connections:
            return "max.connections"
        if config.max_connections_per_ip_overrides != self._overrides_text:
            self._overrides_text = config.max_connections_per_ip_overrides
            self._overrides = dict(_resolved(addresses_with_counts(self._overrides_text)))
        own = self._overrides.get(host)
        if self._per_host[host] >= (config.max_connections_per_ip if own is None else own):
            return "max.connections.per.ip" if own is None else "max.connections.per.ip.overrides"
        return None

    def opened(self, host: str) -> None:
        """One more from `host`."""
        self._per_host[host] += 1

    def closed(self, host: str) -> None:
        """One less from `host`."""
        self._per_host[host] -= 1
        if self._per_host[host] <= 0:
            del self._per_host[host]


def _resolved(overrides: dict[str, int]) -> list[tuple[str, int]]:
    # Addresses only: a name would have to be asked for, and the loop waits for nobody.
    return [(host, n) for name, n in overrides.items() for host in (LOCALHOST if name == "localhost" else (name,))]


class CreationRate:
    """Spreads connections over time: each has a moment from which on it is read."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def delay_s(self, per_second: int, now_s: float) -> float:
        """How long a connection that comes now must wait; a second's worth may come at once."""
        self._next_s = max(self._next_s, now_s - 1) + 1 / per_second
        return max(self._next_s - now_s, 0.0)
