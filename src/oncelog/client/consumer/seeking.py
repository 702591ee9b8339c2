"""Where a consumer goes when it is told: an offset, an end, a time. Mixed into `Consumer`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oncelog.client import arguments
from oncelog.client.cluster.offset_lookup import EARLIEST, LATEST, FoundOffset
from oncelog.client.consumer.fetcher import Fetcher
from oncelog.client.consumer.log_bounds import LogBounds
from oncelog.client.consumer.positions import Position
from oncelog.core.consumer.transaction_order import OrderPosition
from oncelog.types import OffsetAndMetadata, TopicPartition


class Seeking(LogBounds):
    """Mixed into a consumer."""

    _fetcher: Fetcher

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Go to `offset` of an assigned partition. Raises IllegalState.

        With order="transaction" a value of `current_positions` or `committed` goes on exactly there; a plain offset
        begins anew, and of transactions that wrote before it only what lies behind it is handed out.
        """
        position, at = self._place(partition), arguments.offset("offset", offset)
        position.jump(at.offset, resume=OrderPosition.from_metadata(at.metadata), topic_id=at.topic_id)
        self._fetcher.wake()

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go to the first record of these partitions (default: all assigned)."""
        self._reset(partitions, EARLIEST)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go behind the last record (read_committed: to the last stable offset)."""
        self._reset(partitions, LATEST)

    async def seek_to_timestamp(self, timestamp_ms: int, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """Go to the first record at or after a time (milliseconds since 1970) in each of these partitions (default: all
        assigned); where there is none, to the end as it was when this was called, as `seek_to_end` does.

        Gives the offsets that it went to. Asks the brokers, so that it raises RequestTimedOut and what they say; then no
        partition was moved. A partition that was given away or sought meanwhile stays where it is, and is not among them.
        Raises IllegalState for one that is not assigned.
        """
        arguments.integer("timestamp_ms", timestamp_ms, high=arguments.INT64_MAX)
        chosen = arguments.topic_partitions("partitions", partitions) or list(self._positions.by_partition)
        versions = {tp: self._place(tp).version for tp in chosen}
        found = await self._look_for_places(dict.fromkeys(chosen, timestamp_ms))
        went: dict[TopicPartition, int] = {}
        for topic_partition, place in found.items():
            position = self._positions.by_partition.get(topic_partition)
            if position is not None and position.version == versions[topic_partition]:
                position.jump(place.offset, topic_id=place.topic_id)
                went[topic_partition] = place.offset
        self._fetcher.wake()
        return went

    async def _look_for_places(
        self, wanted: Mapping[TopicPartition, int], **bounds: Any
    ) -> dict[TopicPartition, FoundOffset]:
        """As `_lookup`; where no record is as late as its time, the end. The end is asked for first: what is appended between
        both questions is not passed over."""
        times = {tp: LATEST for tp, timestamp in wanted.items() if timestamp >= 0}
        ends = await self._lookup(times, **bounds) if times else {}
        refused = bounds.get("unreadable") or ()
        found = await self._lookup({tp: at for tp, at in wanted.items() if tp not in refused}, **bounds)
        return {tp: ends[tp] if tp in times and place.offset < 0 else place for tp, place in found.items()}

    def _reset(self, partitions: Sequence[TopicPartition], reset_to: int) -> None:
        for position in [self._place(each) for each in partitions or tuple(self._positions.by_partition)]:
            position.jump(None, reset_to=reset_to)
        self._fetcher.wake()

    def _place(self, partition: TopicPartition) -> Position:
        return self._positions.of(arguments.topic_partition("partition", partition))
