"""Partitions that come while topics are read without an end: that were added, or belong to a topic that was made again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from oncelog.client.cluster.view import TopicView
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition
from oncelog.wire.schema import ZERO_UUID


@dataclass(frozen=True, slots=True)
class Change:
    """What is otherwise than before. `come`: to be read from their start; `gone`: not there any more; `made_again`: topics of
    which old offsets mean nothing."""

    come: Collection[TopicPartition]
    gone: Collection[TopicPartition]
    made_again: Collection[str]


class LaterPartitions:
    """Compares what is known of topics with what was; of those that `grow` all partitions are wanted."""

    def __init__(
        self, topics: Iterable[TopicView], grow: Collection[str], known: Callable[[str], TopicView | None]
    ) -> None:
        self._seen = {each.name: each for each in topics}
        self._grow, self._known = grow, known

    def look(self) -> Change | None:
        """To be called after a poll, before its records are taken; None where nothing changed."""
        come: list[TopicPartition] = []
        gone: list[TopicPartition] = []
        made_again: list[str] = []
        for name, before in self._seen.items():
            now = self._known(name)
            if now is None or now is before:
                continue  # a topic that is not there now may be made again
            is_another = ZERO_UUID not in (before.topic_id, now.topic_id) and before.topic_id != now.topic_id
            if is_another:
                made_again.append(name)
                gone += [TopicPartition(name, each) for each in sorted(before.partitions.keys() - now.partitions)]
            elif len(now.partitions) < len(before.partitions):
                continue  # of a broker that has not heard of the newest yet: partitions are never taken away
            if name in self._grow:
                come += [TopicPartition(name, each) for each in sorted(now.partitions.keys() - before.partitions)]
            self._seen[name] = now
        return Change(come, gone, made_again) if come or gone or made_again else None
