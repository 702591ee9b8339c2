"""Settings with which no connection is taken any more: not of those either who would set them otherwise."""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.broker.config.config import BrokerConfig

ALL, PER_IP, OVERRIDES = "max.connections", "max.connections.per.ip", "max.connections.per.ip.overrides"


def shutting_out_fault(current: BrokerConfig, name: str, value: str) -> str | None:
    """Why a value may not be set while `current` is in force, as Apache Kafka says it; None where somebody can still connect."""
    per_ip, overrides = current.max_connections_per_ip, current.max_connections_per_ip_overrides
    if (name == PER_IP and int(value) == 0 and not overrides) or (
        name == OVERRIDES and not value.strip() and not per_ip
    ):
        return f"{PER_IP} can be set to zero only if {OVERRIDES} property is set."
    return None


def shutting_out(static: BrokerConfig, altered: Mapping[str, str]) -> list[str]:
    """Which of what was `altered` would let nobody in: an earlier commit took it, or one of two was deleted."""
    found = [ALL] if int(altered.get(ALL, static.max_connections)) == 0 else []
    per_ip = int(altered.get(PER_IP, static.max_connections_per_ip))
    if per_ip == 0 and not altered.get(OVERRIDES, static.max_connections_per_ip_overrides).strip():
        found += [key for key in (PER_IP, OVERRIDES) if key in altered]
    return found
