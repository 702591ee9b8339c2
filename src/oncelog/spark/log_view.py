"""What the driver asks the cluster before it plans a read: which topics there are, their ids, where they begin and end.

Each question asks the brokers anew: what a client remembers of a topic may be five minutes old, and the topic another one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from oncelog import errors, sync
from oncelog.client.cluster.view import TopicView
from oncelog.spark.options import Offsets, SourceOptions, client_arguments
from oncelog.spark.planning import Bounds
from oncelog.spark.stream_offset import topic_id_text
from oncelog.types import TopicPartition

_admins: dict[tuple[Any, ...], sync.Admin] = {}


def admin_of(options: SourceOptions) -> sync.Admin:
    """This process's admin client for these options; it outlives a micro-batch."""
    key = tuple(sorted(options.client.items()))
    admin = _admins.get(key)
    if admin is None:
        admin = sync.Admin.from_config(client_arguments(options.client))
        admin.start()
        _admins[key] = admin
    return admin


def close_admins() -> None:
    """Close this process's connections."""
    for admin in _admins.values():
        admin.stop()
    _admins.clear()


class LogView:
    """The topics of a read, as they are now."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def bounds(self) -> Bounds:
        """Of what is read. Raises UnknownTopicOrPartition where a topic or partition that was named is not there."""
        wanted = set(self._options.topics) | set(self._options.assigned)
        topics = self._described(wanted)
        missing = sorted(wanted - topics.keys())
        partitions = [TopicPartition(name, p) for name, topic in topics.items() for p in self._read_of(topic)]
        missing += sorted(str(each) for each in partitions if each.partition not in topics[each.topic].partitions)
        if missing:
            raise errors.UnknownTopicOrPartition(f"not there: {', '.join(missing)}; create it, or look at its name")
        return self._bounds_of(partitions, topics)

    def bounds_of(self, offsets: Offsets) -> Bounds:
        """Of these partitions, as far as they are there."""
        topics = self._described(offsets)
        there = [
            TopicPartition(name, p)
            for name, partitions in offsets.items()
            for p in partitions
            if name in topics and p in topics[name].partitions
        ]
        return self._bounds_of(there, topics)

    def high_watermarks(self, bounds: Bounds) -> Offsets:
        """Where the logs themselves end, whatever a reader may see of them."""
        wanted = {TopicPartition(t, p): "latest" for t, ps in bounds.latest.items() for p in ps}
        found = admin_of(self._options).list_offsets(dict(wanted))
        return _as_offsets({tp: each.offset for tp, each in found.items()})

    def _read_of(self, topic: TopicView) -> Iterable[int]:
        return self._options.assigned.get(topic.name) or sorted(topic.partitions)

    def _described(self, names: Collection[str]) -> dict[str, TopicView]:
        """These topics, without those that are not there."""
        admin = admin_of(self._options)
        if not names:
            return {}
        try:
            return dict(admin.describe_topics(sorted(names)))
        except errors.UnknownTopicOrPartition:  # one of them: which of the others are there?
            listed = admin.list_topics(include_internal=True)
            return dict(admin.describe_topics([name for name in sorted(names) if name in listed]))

    def _bounds_of(self, partitions: list[TopicPartition], topics: dict[str, TopicView]) -> Bounds:
        admin, level = admin_of(self._options), self._options.isolation_level
        earliest = admin.list_offsets(dict.fromkeys(partitions, "earliest"))
        latest = admin.list_offsets(dict.fromkeys(partitions, "latest"), isolation_level=level)
        return Bounds(
            _as_offsets({tp: each.offset for tp, each in earliest.items()}),
            _as_offsets({tp: each.offset for tp, each in latest.items()}),
            {name: topic_id_text(topics[name].topic_id) for name in sorted({tp.topic for tp in partitions})},
        )


def _as_offsets(found: dict[TopicPartition, int]) -> Offsets:
    offsets: Offsets = {}
    for where, offset in found.items():
        offsets.setdefault(where.topic, {})[where.partition] = offset
    return offsets
