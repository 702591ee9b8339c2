"""Keys of groups that bound each other, as Apache Kafka checks them at its start (GroupCoordinatorConfig, ShareGroupConfig): a
group could not keep within bounds that the broker's own value breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

KINDS = ("consumer", "share", "streams")
BOUNDED = (
    *(f"group.{kind}.heartbeat.interval.ms" for kind in KINDS),
    *(f"group.{kind}.session.timeout.ms" for kind in KINDS),
    *(f"group.{kind}.assignment.interval.ms" for kind in KINDS),
    "group.share.record.lock.duration.ms",
    "group.share.delivery.count.limit",
    "group.share.partition.max.record.locks",
)
"""Each between its own `min` and `max`."""
ORDERED = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("group.streams.num.standby.replicas", "group.streams.max.standby.replicas"),
)
"""The first at most the second."""


def faults(value_of: Callable[[str], int]) -> Iterator[str]:
    """What is wrong, one sentence each; `value_of` tells a key's value."""
    pairs = list(ORDERED)
    for key in BOUNDED:
        _, kind, own = key.split(".", 2)
        least, most = f"group.{kind}.min.{own}", f"group.{kind}.max.{own}"
        pairs += [(least, most), (least, key), (key, most)]
    for smaller, larger in pairs:
        if value_of(smaller) > value_of(larger):
            yield f"{smaller}={value_of(smaller)} is larger than {larger}={value_of(larger)}"
    for kind in KINDS:
        interval, timeout = f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms"
        if value_of(interval) >= value_of(timeout):
            yield f"{interval}={value_of(interval)} is not smaller than {timeout}={value_of(timeout)}"
