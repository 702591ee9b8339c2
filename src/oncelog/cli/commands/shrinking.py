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
_COARSER = {
    "log.retention.ms": (("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)),
    "log.retention.minutes": (("log.retention.hours", 60),),
}
_POLICIES = frozenset({"cleanup.policy", "log.cleanup.policy"})


def shrinking(
    changes: Mapping[str, str | None], now: Mapping[str, ConfigEntry], elsewhere: Mapping[str, ConfigEntry]
) -> dict[str, str]:
    """Of `changes` (None: back to the default), those that may delete records, each as `key: from -> to`. `now`: what there is
    of this very resource; `elsewhere`: what holds where it has nothing."""
    found = {}
    for key, value in changes.items():
        entry = now.get(key)
        before = _in_effect(key, now, elsewhere)
        shown = "its default" if before is None else before
        if (key in _LIMITS and _is_less(before, value)) or (key in _POLICIES and _adds_a_way(before, value)):
            found[key] = f"{key}: {shown} -> {'its default' if value is None else value}"
        elif key in _LIMITS | _POLICIES and value is None and entry is not None and not entry.is_default:
            found[key] = f"{key}: {shown} -> its default"
    return found


def may_shrink(key: str) -> bool:
    """Whether it is one of the keys by which a broker deletes."""
    return key in _LIMITS | _POLICIES


def _in_effect(key: str, *views: Mapping[str, ConfigEntry]) -> str | None:
    """The value that holds now; a time that is not set is that of the coarser key that is."""
    for name, factor in ((key, 1), *_COARSER.get(key, ())):
        for view in views:
            value = view[name].value if name in view else None
            if value is not None:
                return value if factor == 1 or int(value) < 0 else str(int(value) * factor)
    return None


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
