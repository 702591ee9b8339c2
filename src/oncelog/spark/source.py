"""The source of format `oncelog`: batch and streaming reads as Arrow, bounded by the last stable offset.

Rule: progress is judged by offsets, never by rows. Markers and aborted records yield no rows but move the position, so a
task ends when its next offset reaches the end of its range, also with nothing to show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from oncelog import errors, sync
from oncelog.errors import ConfigurationError
from oncelog.spark import planning
from oncelog.spark.log_view import LogView, admin_of, close_admins
from oncelog.spark.options import Offsets, SourceOptions, client_arguments
from oncelog.spark.reading import FETCH_MAX_WAIT_MS, go_to, rest
from oncelog.spark.stream_offset import StreamOffset, to_json, topic_id_text
from oncelog.types import TopicPartition

ROWS_PER_BATCH_MAX = 100_000
DDL = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
HEADERS_DDL = ", headers array<struct<key: string, value: binary>>"


@dataclass
class RangePartition(InputPartition):
    """One task's range, and the id of its topic ("" where the broker gives none)."""

    range: planning.OffsetRange
    topic_id: str

    def __init__(self, offset_range: planning.OffsetRange, topic_id: str) -> None:
        super().__init__(None)
        self.range, self.topic_id = offset_range, topic_id


class LogReader:
    """What batch and streaming reads share; pickled to tasks, so connections are made where they are used."""

    def __init__(self, options: SourceOptions, columns: list[str]) -> None:
        self.options, self.columns = options, columns

    @property
    def log(self) -> LogView:
        """The topics as they are now."""
        return LogView(self.options)

    def start_offsets(self, bounds: planning.Bounds) -> Offsets:
        """Where the read begins. Raises ConfigurationError for an offset behind the log's end."""
        start = planning.resolve(self.options.starting, bounds, "startingOffsets")
        if planning.beyond(start, bounds.latest):  # not behind what an open transaction holds back
            self._refuse_beyond(start, self.log.high_watermarks(bounds), "startingOffsets")
        return start

    @staticmethod
    def _refuse_beyond(wanted: Offsets, log_end: Offsets, name: str) -> None:
        for topic, partition, offset, end in planning.beyond(wanted, log_end):
            raise ConfigurationError(f"{name} names offset {offset} of {topic}-{partition}, whose records end at {end}")

    def partitions_of(
        self, start: Offsets, end: Offsets, earliest: Offsets, topic_ids: Mapping[str, str]
    ) -> list[InputPartition]:
        """One input partition per range; a list that is never empty for a batch read is the caller's business."""
        whole = planning.ranges(start, end, earliest, fail_on_data_loss=self.options.fail_on_data_loss)
        cut = planning.split(whole, self.options.partitions_min)
        return [RangePartition(r, topic_ids.get(r.topic, "")) for r in cut]

    def read_range(self, wanted: planning.OffsetRange, topic_id: str = "") -> Iterator[pa.RecordBatch]:
        """The visible records of a range, in offset order. Raises DataLoss where they are gone."""
        consumer = _consumer(self.options, wanted.topic, topic_id)
        where = TopicPartition(wanted.topic, wanted.partition)
        go_to(consumer, where, wanted.start)
        position, end = wanted.start, wanted.end
        try:
            while position < end:
                try:
                    batch = consumer.poll_arrow(max_records=ROWS_PER_BATCH_MAX, timeout_ms=1000)
                except errors.OffsetOutOfRange as error:
                    position, end = self._after_a_loss(consumer, where, position, wanted, error)
                    continue
                position = consumer.position(where)
                if batch.num_rows == 0:
                    continue
                offsets = batch.column("offset")
                if offsets[batch.num_rows - 1].as_py() >= end:
                    batch = batch.filter(pc.less(offsets, end))
                if batch.num_rows:
                    yield batch.select(self.columns)
        finally:
            rest(consumer)

    def _after_a_loss(
        self,
        consumer: sync.Consumer,
        where: TopicPartition,
        position: int,
        wanted: planning.OffsetRange,
        error: errors.OffsetOutOfRange,
    ) -> tuple[int, int]:
        """What is left of the range, from where to where: the log lost records since the read was planned."""
        first = consumer.beginning_offsets([where])[where]
        log_end = consumer.end_offsets([where], isolation_level="read_uncommitted")[where]
        if first <= position and wanted.end <= log_end:  # an answer to a question that was asked before
            consumer.seek(where, position)
            return position, wanted.end
        if self.options.fail_on_data_loss:
            raise planning.DataLoss(
                f"{where}: offset {position} of the range {wanted.start} to {wanted.end} is not in the log any more, which "
                f"starts at {first} and ends at {log_end} {planning.GO_ON}"
            ) from error
        end = min(wanted.end, log_end)
        position = position if first <= position <= end else min(first, end)
        consumer.seek(where, position)
        return position, end


_consumers: dict[tuple[Any, ...], sync.Consumer] = {}
_topic_ids: dict[tuple[Any, ...], dict[str, str]] = {}


def _consumer(options: SourceOptions, topic: str, topic_id: str) -> sync.Consumer:
    """This process's consumer for these options: workers are used again, and a connection outlives a micro-batch.

    A consumer that knows the topic by another id is replaced: what it remembers is of a topic that was deleted.
    """
    key = (*sorted((options.client | options.consumer).items()), options.isolation_level)
    known = _topic_ids.setdefault(key, {})
    if topic_id and known.get(topic) != topic_id:
        found = topic_id_text(admin_of(options).describe_topics([topic])[topic].topic_id)
        if found != topic_id:
            raise planning.DataLoss(f"topic {topic!r} was deleted and made again (its id was {topic_id}, now {found})")
        if topic in known:
            _consumers.pop(key).stop()
            known.clear()
        known[topic] = topic_id
    consumer = _consumers.get(key)
    if consumer is None:
        given = {"fetch.max.wait.ms": FETCH_MAX_WAIT_MS} | options.consumer
        more = {"isolation.level": options.isolation_level, "auto.offset.reset": "none", "enable.auto.commit": False}
        consumer = sync.Consumer.from_config(client_arguments(options.client, **given, **more))
        consumer.start()
        _consumers[key] = consumer
    return consumer


class BatchReader(LogReader, DataSourceReader):
    """`spark.read.format("oncelog")`."""

    def partitions(self) -> list[InputPartition]:
        """The ranges between startingOffsets and endingOffsets. Spark reads `InputPartition(None)` for an empty list."""
        bounds = self.log.bounds()
        start = self.start_offsets(bounds)
        end = planning.resolve(self.options.ending, bounds, "endingOffsets")
        if self.options.fail_on_data_loss:
            self._refuse_beyond(end, bounds.latest, "endingOffsets")
        end = planning.not_beyond(end, bounds.latest)
        return self.partitions_of(start, end, bounds.earliest, bounds.topic_ids)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """One task."""
        if not isinstance(partition, RangePartition):
            return iter(())
        return self.read_range(partition.range, partition.topic_id)


class StreamReader(LogReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`spark.readStream.format("oncelog")`; its offsets: stream_offset.py."""

    def __init__(self, options: SourceOptions, columns: list[str]) -> None:
        super().__init__(options, columns)
        self._initial: Offsets | None = None
        self._target: Offsets | None = None
        self._bounds: planning.Bounds | None = None
        self._planned: StreamOffset | None = None
        self._topic_ids: dict[str, str] = {}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """A mark only: Spark asks for it again after a restart, when "latest" would be another offset."""
        return StreamOffset(None).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """maxOffsetsPerTrigger, or everything there is."""
        limit = self.options.offsets_per_trigger_max
        return ReadMaxRows(limit) if limit else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of the run."""
        self._target = self.log.bounds().latest

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next micro-batch ends; equal to `start` when there is nothing new. Raises DataLoss."""
        bounds = self._bounds = self.log.bounds()
        latest = bounds.latest if self._target is None else self._up_to_target(bounds.latest, self._target)
        records_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        stands = StreamOffset.from_json(start)
        if stands.offsets is None:
            if self._initial is None:
                self._initial = self.start_offsets(bounds)
            offsets = planning.limited_end(self._initial, latest, records_max)
            end = StreamOffset(offsets, dict(bounds.topic_ids), self._initial)
        else:
            before = self._topic_ids | stands.topic_ids  # a checkpoint of an older version has no ids: those seen first
            self._topic_ids = dict(bounds.topic_ids) | before
            anew = planning.made_anew(before, bounds.topic_ids)
            if anew and self.options.fail_on_data_loss:
                raise planning.DataLoss(
                    f"topic {anew[0]!r} was deleted and made again (its id was {before[anew[0]]}, now "
                    f"{bounds.topic_ids[anew[0]]}): what was not read of it is gone {planning.GO_ON}"
                )
            begin = planning.with_new_partitions(planning.without(stands.offsets, anew), bounds)
            offsets = planning.with_others(planning.limited_end(begin, latest, records_max), begin)
            if offsets == stands.offsets and not anew:
                return start
            end = StreamOffset(offsets, before | dict(bounds.topic_ids), begin if anew else None)
            self._topic_ids = dict(end.topic_ids)
        self._planned = end
        return end.to_json()

    @staticmethod
    def _up_to_target(latest: Offsets, target: Offsets) -> Offsets:
        return {
            t: {p: min(o, target[t][p]) for p, o in ps.items() if p in target[t]}
            for t, ps in latest.items()
            if t in target
        }

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The last stable offsets, for the progress report."""
        return None if self._bounds is None else {"lso": to_json(self._bounds.latest)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The ranges of a micro-batch, the same ones again after a restart. Raises DataLoss."""
        first, last = StreamOffset.from_json(start), StreamOffset.from_json(end)
        begin = first.offsets if last.initial is None else last.initial
        if begin is None or last.offsets is None:
            raise ConfigurationError(f"the checkpoint does not say where its first batch began: {end!r:.200}")
        if last == self._planned and self._bounds is not None:  # as it was planned a moment ago
            bounds, wanted = self._bounds, last.offsets
        else:
            bounds, wanted = self._planned_again(begin, last)
        return self.partitions_of(begin, wanted, bounds.earliest, bounds.topic_ids)

    def _planned_again(self, begin: Offsets, end: StreamOffset) -> tuple[planning.Bounds, Offsets]:
        """What is left of a batch that was planned in an earlier life: all of it, or failOnDataLoss is false."""
        assert end.offsets is not None
        moved = planning.moved(begin, end.offsets)
        bounds = self.log.bounds_of(moved)
        gone = planning.made_anew(end.topic_ids, bounds.topic_ids)
        if gone and self.options.fail_on_data_loss:
            raise planning.DataLoss(
                f"topic {gone[0]!r} was deleted and made again since this batch was planned (its id was "
                f"{end.topic_ids[gone[0]]}, now {bounds.topic_ids[gone[0]]}): its records are gone {planning.GO_ON}"
            )
        moved = planning.without(moved, gone)
        if planning.beyond(moved, bounds.latest):
            log_end = self.log.high_watermarks(bounds)
            for topic, partition, offset, found in planning.beyond(moved, log_end):
                if self.options.fail_on_data_loss:
                    raise planning.DataLoss(
                        f"{topic}-{partition}: this batch was planned up to {offset}, the log ends at {found} now: it was "
                        f"deleted, or lost its end {planning.GO_ON}"
                    )
            moved = planning.not_beyond(moved, log_end)
        return bounds, moved

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """One task."""
        assert isinstance(partition, RangePartition)
        return self.read_range(partition.range, partition.topic_id)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: positions live in Spark's checkpoint, as with Spark's own Kafka source."""

    def stop(self) -> None:
        """Close this process's connections."""
        for consumer in _consumers.values():
            consumer.stop()
        _consumers.clear()
        _topic_ids.clear()
        close_admins()
