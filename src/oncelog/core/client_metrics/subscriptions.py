"""Which metrics are wanted of a client: the subscriptions, configs of type CLIENT_METRICS, that match it (KIP-714).

A stored pattern that cannot be read (an older version took any) lets its subscription match nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncelog.core.metadata.resource_configs import match_patterns
from oncelog.core.name_pattern import InvalidPattern, NamePattern
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.crc32c import crc32c
from oncelog.wire.uuids import uuid_text

INTERVAL_MS_DEFAULT = 300_000
ALL_METRICS = "*"


@dataclass(frozen=True, slots=True)
class ClientInstance:
    """Who pushes. `instance_id` is the UUID that this broker, or another of the cluster, has given it."""

    instance_id: bytes
    client_id: str
    software_name: str
    software_version: str
    address: str
    port: int

    @property
    def instance_name(self) -> str:
        """The id as Kafka writes a UUID."""
        return uuid_text(self.instance_id)

    def attribute(self, selector: str) -> str:
        """What a selector of `match` looks at."""
        return {
            "client_instance_id": self.instance_name,
            "client_id": self.client_id,
            "client_software_name": self.software_name,
            "client_software_version": self.software_version,
            "client_source_address": self.address,
            "client_source_port": str(self.port),
        }[selector]


@dataclass(frozen=True, slots=True)
class Subscription:
    """One subscription. `patterns` by selector, None where nobody can match."""

    metrics: tuple[str, ...]
    interval_ms: int
    patterns: Mapping[str, NamePattern] | None

    def matches(self, client: ClientInstance) -> bool:
        """Whether it is about this client."""
        if self.patterns is None:
            return False
        return all(pattern.matches(client.attribute(selector)) for selector, pattern in self.patterns.items())


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is wanted of one client; the id changes with it."""

    metrics: tuple[str, ...]
    interval_ms: int
    subscription_id: int


def subscription_of(configs: Mapping[str, str]) -> Subscription:
    """The subscription of these configs."""
    patterns: dict[str, NamePattern] | None
    try:
        patterns = match_patterns(configs.get("match", ""))
    except InvalidPattern:
        patterns = None
    interval_ms = int(configs.get("interval.ms", INTERVAL_MS_DEFAULT))
    return Subscription(tuple(items_of(configs.get("metrics", ""))), interval_ms, patterns)


def items_of(text: str) -> list[str]:
    """The items of a list."""
    return [item for each in text.split(",") if (item := each.strip())]


def wanted_of(client: ClientInstance, subscriptions: Iterable[Subscription]) -> Wanted:
    """What all that match want together: every metric, as often as the most impatient one says."""
    matching = [each for each in subscriptions if each.matches(client)]
    interval_ms = min([INTERVAL_MS_DEFAULT, *(each.interval_ms for each in matching)])
    metrics = {name for each in matching for name in each.metrics}
    found = (ALL_METRICS,) if ALL_METRICS in metrics else tuple(sorted(metrics))
    return Wanted(found, interval_ms, _subscription_id(found, interval_ms, client.instance_id))


def _subscription_id(metrics: tuple[str, ...], interval_ms: int, instance_id: bytes) -> int:
    """A checksum of what is wanted, different for each client, as Kafka makes it."""
    checksum = crc32c(f"[{', '.join(metrics)}]{interval_ms}".encode())
    folded = int.from_bytes(instance_id[:8], "big") ^ int.from_bytes(instance_id[8:], "big")
    value = checksum ^ (folded >> 32) ^ (folded & 0xFFFFFFFF)
    return value - (1 << 32) if value >> 31 else value
