"""What a topic is to be at the destination: its configs while records are copied, and after the switch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_FOREVER = str(2**63 - 1)
WHILE_COPYING: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",  # else the broker writes the time of the copy
    "message.timestamp.before.max.ms": _FOREVER,
    "message.timestamp.after.max.ms": _FOREVER,
    "max.message.bytes": str(100 << 20),  # a batch is compressed anew, and may be larger than it was
}
"""Nothing of the copy may be refused, deleted or stamped anew before both sides were compared."""
PINNED = ("cleanup.policy", "retention.ms", "retention.bytes", "message.timestamp.type", "max.message.bytes")
"""Set even where the source has them by default: the destination's defaults may be others."""
OF_THE_CLUSTER = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


def final_configs(values: Mapping[str, str | None], set_here: Iterable[str]) -> dict[str, str]:
    """Of a topic's effective values those that go along: what was set for it, and PINNED."""
    wanted = {*set_here, *PINNED} - {*OF_THE_CLUSTER}
    return {key: value for key in sorted(wanted) if (value := values.get(key)) is not None}


def switch_changes(final: Mapping[str, str]) -> dict[str, str | None]:
    """What to alter at the switch: WHILE_COPYING gives way to what the topic is to have."""
    return {**dict.fromkeys(WHILE_COPYING), **final}


def refusal(
    name: str, source_count: int, destination_count: int | None, has_records: bool, has_state: bool
) -> str | None:
    """Why a topic that is at the destination already cannot be copied into; None where it can."""
    if destination_count is None:
        return f"topic {name} was copied before and is gone at the destination: give it back, or begin anew there" if (
            has_state
        ) else None  # fmt: skip
    if destination_count > source_count:  # fewer, of an empty one, are made more
        return f"topic {name} has {destination_count} partitions at the destination and {source_count} at the source"
    if has_records and not has_state:
        return f"topic {name} has records at the destination that no migration of this source copied: delete it there"
    return None
