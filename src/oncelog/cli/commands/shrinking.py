"""Which changes of settings let a broker delete records that it keeps now: those are asked about before they are made."""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.client.admin.configs import ConfigEntry

_LIMITS = frozenset(
    {
        *("retention.ms", "retention.bytes", "local.retention.ms", "local.retention.bytes", "delete.retention.ms"),
        *("max.compaction.lag.ms", "min.compaction.lag.ms"),
        *("log.retention.ms", "log.retention.minutes", "log.retention.hours", "log.retention.bytes"),
        *("log.cleaner.delete.retention.ms", "log.cleaner.max.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms"),
        *("offsets.retention.minutes", "transactional.id.expiration.ms"),
    }
)
_POLICIES = frozenset({"cleanup.policy", "log.cleanup.policy"})


def shrinking(changes: Mapping[str, str | None], now: Mapping[str, ConfigEntry]) -> list[str]:
    """Of `changes` (None: back to the default), those that may delete records, each as `key: from -> to`."""
    found = []
    for key, value in changes.items():
        entry = now.get(key)
        before = entry.value if entry is not None else None
        if (key in _LIMITS and _is_less(before, value)) or (key in _POLICIES and _adds_a_way(before, value)):
            found.append(f"{key}: {before} -> {'its default' if value is None else value}")
        elif key in _LIMITS | _POLICIES and value is None and entry is not None and not entry.is_default:
            found.append(f"{key}: {before} -> its default")
    return found


def _is_less(before: str | None, after: str | None) -> bool:
    """Whether a limit becomes tighter; -1 (or nothing) is none. What is no number is for the broker to refuse."""
    try:
        low, high = int(after or -1), int(before or -1)
    except ValueError:
        return False
    return low >= 0 and (high < 0 or low < high)


def _adds_a_way(before: str | None, after: str | None) -> bool:
    """Whether records can be deleted in a way in which they could not before: `delete` by age and size, `compact` by key."""
    return after is not None and not _ways(after) <= _ways(before or "")


def _ways(policy: str) -> set[str]:
    return {way.strip() for way in policy.split(",") if way.strip()} - {"none"}
