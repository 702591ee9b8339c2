"""What the driver asks the cluster before it plans a read: which topics there are, their ids, where they begin and end.

Each question asks the brokers anew: what a client remembers of a topic may be five minutes old, and the topic another one.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from oncelog import errors
from oncelog.client.cluster.offset_lookup import FoundOffset
from oncelog.client.cluster.view import TopicView
from oncelog.spark.kept_admins import admin_of
from oncelog.spark.options import Offsets, SourceOptions
from oncelog.spark.planning import Bounds
from oncelog.spark.rights import rights_named
from oncelog.spark.stream_offset import topic_id_text
from oncelog.types import TopicPartition

logger = logging.getLogger("oncelog.spark")
T = TypeVar("T")


class LogView:
    """The topics of a read, as they are now."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._pattern = None if options.topic_pattern is None else re.compile(options.topic_pattern)

    def bounds(self) -> Bounds:
        """Of what is read. Raises UnknownTopicOrPartition where a topic or partition that was named is not there."""
        with rights_named(self._options.client, "read", {*self._options.topics, *self._options.assigned}):
            return self._patiently(self._bounds)

    def bounds_of(self, offsets: Offsets) -> Bounds:
        """Of these partitions, as far as they are there."""
        return self._patiently(lambda: self._bounds_as_far_as_there(offsets))

    def high_watermarks(self, bounds: Bounds) -> Offsets:
        """Where the logs themselves end, whatever a reader may see of them."""
        wanted = {TopicPartition(t, p): "latest" for t, ps in bounds.latest.items() for p in ps}
        return self._patiently(lambda: _as_offsets(admin_of(self._options.client).list_offsets(dict(wanted))))

    def offsets_at(self, times_ms: Offsets) -> Offsets:
        """The first offset at or after each partition's time; without those that have no such record."""
        wanted = {TopicPartition(t, p): ms for t, ps in times_ms.items() for p, ms in ps.items()}
        level = self._options.isolation_level
        found = self._patiently(
            lambda: admin_of(self._options.client).list_offsets(dict(wanted), isolation_level=level)
        )
        return _as_offsets({tp: each for tp, each in found.items() if each.offset >= 0})

    def is_subscribed_by_pattern(self, topic: str) -> bool:
        """Whether the topic belongs to the read by its name, there or not."""
        return self._pattern is not None and self._pattern.fullmatch(topic) is not None

    def _patiently(self, ask: Callable[[], T]) -> T:
        """With the further attempts of fetchOffset.numRetries; the client's own retries are within each."""
        for _ in range(self._options.fetch_offset_retries):
            try:
                return ask()
            except errors.KafkaError as error:
                if not error.retriable:
                    raise
                logger.warning("offsets could not be had, asking again: %s", error)
                threading.Event().wait(self._options.fetch_offset_retry_interval_ms / 1000)
        return ask()

    def _bounds(self) -> Bounds:
        topics = self._described(self._wanted_topics())
        wanted = set(self._options.topics) | set(self._options.assigned)
        missing = sorted(wanted - topics.keys())
        partitions = [TopicPartition(name, p) for name, topic in topics.items() for p in self._read_of(topic)]
        missing += sorted(str(each) for each in partitions if each.partition not in topics[each.topic].partitions)
        if missing:
            raise errors.UnknownTopicOrPartition(f"not there: {', '.join(missing)}; create it, or look at its name")
        return self._bounds_of(partitions, topics)

    def _bounds_as_far_as_there(self, offsets: Offsets) -> Bounds:
        topics = self._described(offsets)
        there = [
            TopicPartition(name, p)
            for name, partitions in offsets.items()
            for p in partitions
            if name in topics and p in topics[name].partitions
        ]
        return self._bounds_of(there, topics)

    def _wanted_topics(self) -> Collection[str]:
        if self._pattern is None:
            return {*self._options.topics, *self._options.assigned}
        with_internal = self._options.consumer.get("exclude.internal.topics", "true").lower() == "false"
        listed = admin_of(self._options.client).list_topics(include_internal=with_internal)
        return [name for name in listed if self._pattern.fullmatch(name)]

    def _read_of(self, topic: TopicView) -> Iterable[int]:
        return self._options.assigned.get(topic.name) or sorted(topic.partitions)

    def _described(self, names: Collection[str]) -> dict[str, TopicView]:
        """These topics, without those that are not there."""
        admin = admin_of(self._options.client)
        if not names:
            return {}
        try:
            return dict(admin.describe_topics(sorted(names)))
        except errors.UnknownTopicOrPartition:  # one of them: which of the others are there?
            listed = admin.list_topics(include_internal=True)
            return dict(admin.describe_topics([name for name in sorted(names) if name in listed]))

    def _bounds_of(self, partitions: list[TopicPartition], topics: dict[str, TopicView]) -> Bounds:
        admin, level = admin_of(self._options.client), self._options.isolation_level
        earliest = admin.list_offsets(dict.fromkeys(partitions, "earliest"))
        latest = admin.list_offsets(dict.fromkeys(partitions, "latest"), isolation_level=level)
        ids = {name: topic_id_text(topics[name].topic_id) for name in sorted({tp.topic for tp in partitions})}
        return Bounds(_as_offsets(earliest), _as_offsets(latest), ids)


def _as_offsets(found: Mapping[TopicPartition, FoundOffset]) -> Offsets:
    offsets: Offsets = {}
    for where, each in found.items():
        offsets.setdefault(where.topic, {})[where.partition] = each.offset
    return offsets
