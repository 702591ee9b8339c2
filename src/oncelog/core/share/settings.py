"""What holds for one share group: the broker's keys, and the group's own configs within the broker's bounds (KIP-932)."""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.lazy_dataclass import dataclass

LATEST, EARLIEST, BY_DURATION = "latest", "earliest", "by_duration:"
THROTTLED_DELIVERIES_MIN = 2


@dataclass(frozen=True, slots=True)
class ShareSettings:
    """How records of one share group are delivered; times in ms."""

    lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    locks_max: int = 2_000
    is_read_committed: bool = False
    may_renew: bool = True
    offset_reset: str = LATEST

    @property
    def throttled_deliveries(self) -> int:
        """From so many deliveries on, records that nobody acknowledges come in ever smaller company: one of them may be what
        makes the others fail."""
        return max((self.delivery_count_limit + 1) // 2, THROTTLED_DELIVERIES_MIN)


@dataclass(frozen=True, slots=True)
class ShareConfig:
    """The broker's keys of share groups, by Kafka's names."""

    group_share_record_lock_duration_ms: int = 30_000
    group_share_min_record_lock_duration_ms: int = 15_000
    group_share_max_record_lock_duration_ms: int = 60_000
    group_share_delivery_count_limit: int = 5
    group_share_min_delivery_count_limit: int = 2
    group_share_max_delivery_count_limit: int = 10
    group_share_partition_max_record_locks: int = 2_000
    group_share_min_partition_max_record_locks: int = 100
    group_share_max_partition_max_record_locks: int = 4_000

    def settings(self, overrides: Mapping[str, str]) -> ShareSettings:
        """What holds for a group with these configs of its own."""

        def chosen(name: str) -> int:
            own = overrides.get(f"share.{name.replace('_', '.')}")
            if own is None:
                return int(getattr(self, f"group_share_{name}"))
            low = int(getattr(self, f"group_share_min_{name}"))
            high = int(getattr(self, f"group_share_max_{name}"))
            return max(low, min(int(own), high))

        return ShareSettings(
            lock_duration_ms=chosen("record_lock_duration_ms"),
            delivery_count_limit=chosen("delivery_count_limit"),
            locks_max=chosen("partition_max_record_locks"),
            is_read_committed=overrides.get("share.isolation.level", "").lower() == "read_committed",
            may_renew=overrides.get("share.renew.acknowledge.enable", "true").lower() != "false",
            offset_reset=overrides.get("share.auto.offset.reset", LATEST).lower(),
        )
