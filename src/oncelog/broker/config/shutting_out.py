"""Settings with which no connection is taken any more: not of those either who would set them otherwise."""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.broker.config.config import BrokerConfig, lets_nobody_in

ALL, PER_IP, OVERRIDES = "max.connections", "max.connections.per.ip", "max.connections.per.ip.overrides"


def shutting_out_fault(current: BrokerConfig, name: str, value: str) -> str | None:
    """Why a value may not be set while `current` is in force, as Apache Kafka says it; None where somebody can still connect."""
    if name in shutting_out(current, {name: value}):
        return f"{PER_IP} can be set to zero only if {OVERRIDES} property is set."
    return None


def shutting_out(static: BrokerConfig, altered: Mapping[str, str]) -> list[str]:
    """Which of what was `altered` would let nobody in: an earlier commit took it, or one of two was deleted."""
    found = [ALL] if int(altered.get(ALL, static.max_connections)) == 0 else []
    per_ip = int(altered.get(PER_IP, static.max_connections_per_ip))
    if lets_nobody_in(per_ip, altered.get(OVERRIDES, static.max_connections_per_ip_overrides)):
        found += [key for key in (PER_IP, OVERRIDES) if key in altered]
    return found
