"""What a group coordinator may be told: Kafka's keys as snake case, with Kafka's defaults.

`KAFKA_KEYS` gives each field's name in Kafka's configuration, so a shell parses them without a second list.
"""

from __future__ import annotations

from dataclasses import dataclass

MINUTE_MS = 60_000

# A member that has never got its id cannot heartbeat: Kafka drops it when its join has waited this long.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * MINUTE_MS


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Configuration of classic groups and their offsets; times in ms unless the name says minutes."""

    group_initial_rebalance_delay_ms: int = 3_000
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2_147_483_647
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000

    @property
    def offsets_retention_ms(self) -> int:
        """How long the offsets of a group without members are kept."""
        return self.offsets_retention_minutes * MINUTE_MS


KAFKA_KEYS = {
    "group_initial_rebalance_delay_ms": "group.initial.rebalance.delay.ms",
    "group_min_session_timeout_ms": "group.min.session.timeout.ms",
    "group_max_session_timeout_ms": "group.max.session.timeout.ms",
    "group_max_size": "group.max.size",
    "offset_metadata_max_bytes": "offset.metadata.max.bytes",
    "offsets_retention_minutes": "offsets.retention.minutes",
    "offsets_retention_check_interval_ms": "offsets.retention.check.interval.ms",
}
