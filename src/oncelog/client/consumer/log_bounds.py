"""Where a consumer's partitions begin and end, and how far it is from there; transactions taken into account.

Mixed into `Consumer`. A partition has two ends: the last stable offset, where a read_committed reader stops, and the
high watermark. Control records and aborted records have offsets of their own, so a position may be at the end although
the last record handed out was long before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from oncelog.client import arguments
from oncelog.client.backoff import one_deadline
from oncelog.client.cluster.cluster import Cluster
from oncelog.client.cluster.each_leader import LOOKS, Unreadable
from oncelog.client.cluster.offset_lookup import EARLIEST, LATEST, FoundOffset, list_offsets
from oncelog.client.config import ISOLATION_LEVELS, ConsumerConfig
from oncelog.client.consumer.positions import Positions
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a reader is behind, in offsets: `readable` up to the last stable offset, `blocked` by open transactions
    from there to the high watermark, `raw` the whole way."""

    readable: int
    blocked: int
    raw: int


class LogBounds:
    """Mixed into a consumer."""

    # what the consumer has
    _config: ConsumerConfig
    _cluster: Cluster
    _positions: Positions
    _awaits_assignment: Callable[[], bool]

    async def _lookup(
        self,
        wanted: Mapping[TopicPartition, int],
        *,
        isolation_level: str | None = None,
        timeout_ms: int | None = None,
        unreadable: Unreadable | None = None,
        looks: int = LOOKS,
    ) -> dict[TopicPartition, FoundOffset]:
        level = self._config.isolation_level if isolation_level is None else isolation_level
        is_read_committed = level == "read_committed"
        return await list_offsets(
            self._cluster,
            wanted,
            is_read_committed=is_read_committed,
            timeout_ms=timeout_ms,
            unreadable=unreadable,
            looks=looks,
        )

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return await self._offsets_at(partitions, EARLIEST, None)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], *, isolation_level: str | None = None
    ) -> dict[TopicPartition, int]:
        """The offset behind the last record that can be read now: the last stable offset for read_committed, else the
        high watermark. `isolation_level` (default: the consumer's) chooses."""
        if isolation_level is not None:
            arguments.one_of("isolation_level", isolation_level, ISOLATION_LEVELS)
        return await self._offsets_at(partitions, LATEST, isolation_level)

    async def _offsets_at(
        self, partitions: Iterable[TopicPartition], timestamp: int, isolation_level: str | None
    ) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(arguments.topic_partitions("partitions", partitions), timestamp)
        found = await self._lookup(wanted, isolation_level=isolation_level)
        return {tp: each.offset for tp, each in found.items()}

    async def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, FoundOffset | None]:
        """The first record at or after each time; None where there is none."""
        found = await self._lookup(arguments.numbers_by_partition("times_ms", times_ms, low=0))
        return {tp: each if each.offset >= 0 else None for tp, each in found.items()}

    async def lag(self, *partitions: TopicPartition) -> dict[TopicPartition, Lag]:
        """How far this consumer is behind, by partition (default: all assigned); those without a position are left
        out. Asks the brokers."""
        wanted = arguments.topic_partitions("partitions", partitions) or list(self._positions.by_partition)
        positions = {tp: offset for tp in wanted if (offset := self._positions.of(tp).reached) is not None}
        with one_deadline(self._config.default_api_timeout_ms, "lag"):
            stable = await self.end_offsets(positions, isolation_level="read_committed")
            ends = await self.end_offsets(positions, isolation_level="read_uncommitted")
        return {
            tp: Lag(
                readable=max(stable[tp] - at, 0),
                blocked=max(ends[tp] - max(stable[tp], at), 0),
                raw=max(ends[tp] - at, 0),
            )
            for tp, at in positions.items()
        }

    async def at_end(self, *partitions: TopicPartition) -> bool:
        """Whether nothing can be read now in any of these partitions (default: all assigned): each position has reached
        the end that the isolation level sees, also where only markers or aborted records are left before it. Keep
        polling while it is False: positions move past what is hidden inside `poll`, which also learns what a subscription is
        assigned; before that it is False."""
        wanted = arguments.topic_partitions("partitions", partitions) or list(self._positions.by_partition)
        if not wanted and self._awaits_assignment():
            return False
        in_order = self._config.order == "transaction"  # which looks beyond the last stable offset
        ends = await self.end_offsets(wanted, isolation_level="read_uncommitted" if in_order else None)
        return all((self._positions.of(tp).reached or 0) >= end for tp, end in ends.items())
