"""What a group coordinator may be told: Kafka's keys as snake case, with Kafka's defaults.

`KAFKA_KEYS` gives each field's name in Kafka's configuration, so a shell parses them without a second list. Some of a
consumer group's may be set for one group alone (config resource GROUP); the broker's bounds still hold then.
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.lazy_dataclass import dataclass

MINUTE_MS = 60_000

# A member that has never got its id cannot heartbeat: Kafka drops it when its join has waited this long.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * MINUTE_MS
# How soon a join phase in which nobody came looks again at the soonest: members choose the rebalance timeout, and with
# one of 0 or less the coordinator would do nothing else.
REJOIN_CHECK_INTERVAL_MS = 100


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
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_min_heartbeat_interval_ms: int = 5_000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_min_assignment_interval_ms: int = 0
    group_consumer_max_assignment_interval_ms: int = 15_000
    group_consumer_max_size: int = 2_147_483_647
    group_consumer_assignors: str = "uniform,range"
    group_consumer_migration_policy: str = "bidirectional"
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_streams_session_timeout_ms: int = 45_000
    group_streams_min_session_timeout_ms: int = 45_000
    group_streams_max_session_timeout_ms: int = 60_000
    group_streams_heartbeat_interval_ms: int = 5_000
    group_streams_min_heartbeat_interval_ms: int = 5_000
    group_streams_max_heartbeat_interval_ms: int = 15_000
    group_streams_assignment_interval_ms: int = 1_000
    group_streams_min_assignment_interval_ms: int = 0
    group_streams_max_assignment_interval_ms: int = 15_000
    group_streams_initial_rebalance_delay_ms: int = 3_000
    group_streams_num_standby_replicas: int = 0
    group_streams_max_standby_replicas: int = 2
    group_streams_max_size: int = 2_147_483_647
    group_share_session_timeout_ms: int = 45_000
    group_share_min_session_timeout_ms: int = 45_000
    group_share_max_session_timeout_ms: int = 60_000
    group_share_heartbeat_interval_ms: int = 5_000
    group_share_min_heartbeat_interval_ms: int = 5_000
    group_share_max_heartbeat_interval_ms: int = 15_000
    group_share_assignment_interval_ms: int = 1_000
    group_share_min_assignment_interval_ms: int = 0
    group_share_max_assignment_interval_ms: int = 15_000
    group_share_max_size: int = 200

    @property
    def offsets_retention_ms(self) -> int:
        """How long the offsets of a group without members are kept."""
        return self.offsets_retention_minutes * MINUTE_MS

    @property
    def assignors(self) -> list[str]:
        """The server's assignors that members may ask for; the first is the default."""
        return [each.strip() for each in self.group_consumer_assignors.split(",") if each.strip()]

    @property
    def may_upgrade(self) -> bool:
        """Whether a classic group becomes a consumer group when such a member joins (KIP-848)."""
        return self.group_consumer_migration_policy.lower() in ("bidirectional", "upgrade")

    @property
    def may_downgrade(self) -> bool:
        """Whether a consumer group becomes a classic one when its last member of the new protocol goes."""
        return self.group_consumer_migration_policy.lower() in ("bidirectional", "downgrade")

    def consumer_settings(self, overrides: Mapping[str, str]) -> ConsumerSettings:
        """What holds for one group; `overrides` are its own configs, kept within the broker's bounds (KIP-1263)."""

        return ConsumerSettings(
            session_timeout_ms=self._bounded("consumer", "session_timeout_ms", overrides),
            heartbeat_interval_ms=self._bounded("consumer", "heartbeat_interval_ms", overrides),
            assignment_interval_ms=self._bounded("consumer", "assignment_interval_ms", overrides),
        )

    def streams_settings(self, overrides: Mapping[str, str]) -> StreamsSettings:
        """The same for a streams group (KIP-1071)."""
        delay_ms = overrides.get("streams.initial.rebalance.delay.ms", self.group_streams_initial_rebalance_delay_ms)
        standby_replicas = overrides.get("streams.num.standby.replicas", self.group_streams_num_standby_replicas)
        return StreamsSettings(
            session_timeout_ms=self._bounded("streams", "session_timeout_ms", overrides),
            heartbeat_interval_ms=self._bounded("streams", "heartbeat_interval_ms", overrides),
            assignment_interval_ms=self._bounded("streams", "assignment_interval_ms", overrides),
            initial_rebalance_delay_ms=int(delay_ms),
            num_standby_replicas=min(int(standby_replicas), self.group_streams_max_standby_replicas),
        )

    def share_settings(self, overrides: Mapping[str, str]) -> ShareGroupSettings:
        """As `consumer_settings`, for a share group (KIP-932)."""
        return ShareGroupSettings(
            session_timeout_ms=self._bounded("share", "session_timeout_ms", overrides),
            heartbeat_interval_ms=self._bounded("share", "heartbeat_interval_ms", overrides),
            assignment_interval_ms=self._bounded("share", "assignment_interval_ms", overrides),
            members_max=self.group_share_max_size,
        )

    def _bounded(self, kind: str, name: str, overrides: Mapping[str, str]) -> int:
        own = overrides.get(f"{kind}.{name.replace('_', '.')}")
        if own is None:
            return int(getattr(self, f"group_{kind}_{name}"))
        low = int(getattr(self, f"group_{kind}_min_{name}"))
        high = int(getattr(self, f"group_{kind}_max_{name}"))
        return max(low, min(int(own), high))


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """The times of one consumer group, in ms."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


@dataclass(frozen=True, slots=True)
class StreamsSettings:
    """What one streams group goes by; times in ms."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    initial_rebalance_delay_ms: int
    num_standby_replicas: int


@dataclass(frozen=True, slots=True)
class ShareGroupSettings:
    """What holds for the members of one share group; times in ms."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    members_max: int


KAFKA_KEYS = {
    "group_initial_rebalance_delay_ms": "group.initial.rebalance.delay.ms",
    "group_min_session_timeout_ms": "group.min.session.timeout.ms",
    "group_max_session_timeout_ms": "group.max.session.timeout.ms",
    "group_max_size": "group.max.size",
    "offset_metadata_max_bytes": "offset.metadata.max.bytes",
    "offsets_retention_minutes": "offsets.retention.minutes",
    "offsets_retention_check_interval_ms": "offsets.retention.check.interval.ms",
    "group_consumer_session_timeout_ms": "group.consumer.session.timeout.ms",
    "group_consumer_min_session_timeout_ms": "group.consumer.min.session.timeout.ms",
    "group_consumer_max_session_timeout_ms": "group.consumer.max.session.timeout.ms",
    "group_consumer_heartbeat_interval_ms": "group.consumer.heartbeat.interval.ms",
    "group_consumer_min_heartbeat_interval_ms": "group.consumer.min.heartbeat.interval.ms",
    "group_consumer_max_heartbeat_interval_ms": "group.consumer.max.heartbeat.interval.ms",
    "group_consumer_assignment_interval_ms": "group.consumer.assignment.interval.ms",
    "group_consumer_min_assignment_interval_ms": "group.consumer.min.assignment.interval.ms",
    "group_consumer_max_assignment_interval_ms": "group.consumer.max.assignment.interval.ms",
    "group_consumer_max_size": "group.consumer.max.size",
    "group_consumer_assignors": "group.consumer.assignors",
    "group_consumer_migration_policy": "group.consumer.migration.policy",
    "group_consumer_regex_refresh_interval_ms": "group.consumer.regex.refresh.interval.ms",
    "group_streams_session_timeout_ms": "group.streams.session.timeout.ms",
    "group_streams_min_session_timeout_ms": "group.streams.min.session.timeout.ms",
    "group_streams_max_session_timeout_ms": "group.streams.max.session.timeout.ms",
    "group_streams_heartbeat_interval_ms": "group.streams.heartbeat.interval.ms",
    "group_streams_min_heartbeat_interval_ms": "group.streams.min.heartbeat.interval.ms",
    "group_streams_max_heartbeat_interval_ms": "group.streams.max.heartbeat.interval.ms",
    "group_streams_assignment_interval_ms": "group.streams.assignment.interval.ms",
    "group_streams_min_assignment_interval_ms": "group.streams.min.assignment.interval.ms",
    "group_streams_max_assignment_interval_ms": "group.streams.max.assignment.interval.ms",
    "group_streams_initial_rebalance_delay_ms": "group.streams.initial.rebalance.delay.ms",
    "group_streams_num_standby_replicas": "group.streams.num.standby.replicas",
    "group_streams_max_standby_replicas": "group.streams.max.standby.replicas",
    "group_streams_max_size": "group.streams.max.size",
    "group_share_session_timeout_ms": "group.share.session.timeout.ms",
    "group_share_min_session_timeout_ms": "group.share.min.session.timeout.ms",
    "group_share_max_session_timeout_ms": "group.share.max.session.timeout.ms",
    "group_share_heartbeat_interval_ms": "group.share.heartbeat.interval.ms",
    "group_share_min_heartbeat_interval_ms": "group.share.min.heartbeat.interval.ms",
    "group_share_max_heartbeat_interval_ms": "group.share.max.heartbeat.interval.ms",
    "group_share_assignment_interval_ms": "group.share.assignment.interval.ms",
    "group_share_min_assignment_interval_ms": "group.share.min.assignment.interval.ms",
    "group_share_max_assignment_interval_ms": "group.share.max.assignment.interval.ms",
    "group_share_max_size": "group.share.max.size",
}
