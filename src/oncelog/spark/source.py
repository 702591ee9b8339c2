"""The source of format `oncelog`: batch and streaming reads as Arrow, bounded by the last stable offset.

Rule: progress is judged by offsets, never by rows. Markers and aborted records yield no rows but move the position, so a
task ends when its next offset reaches the end of its range, also with nothing to show.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from oncelog import sync
from oncelog.spark import planning
from oncelog.spark.options import Offsets, SourceOptions, client_arguments
from oncelog.types import TopicPartition

ROWS_PER_BATCH_MAX = 100_000
DDL = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
HEADERS_DDL = ", headers array<struct<key: string, value: binary>>"


@dataclass
class RangePartition(InputPartition):
    """One task's range."""

    range: planning.OffsetRange

    def __init__(self, offset_range: planning.OffsetRange) -> None:
        super().__init__(None)
        self.range = offset_range


class LogReader:
    """What batch and streaming reads share; pickled to tasks, so connections are made where they are used."""

    def __init__(self, options: SourceOptions, columns: list[str]) -> None:
        self.options, self.columns = options, columns

    def bounds(self) -> planning.Bounds:
        """The log's start and its last stable offset, per partition read. Raises UnknownTopicOrPartition."""
        consumer = _consumer(self.options)
        wanted: list[TopicPartition] = [
            TopicPartition(topic, p) for topic, partitions in self.options.assigned.items() for p in partitions
        ]
        for topic in self.options.topics:
            wanted += [TopicPartition(topic, p) for p in sorted(consumer.partitions_for_topic(topic))]
        earliest, latest = consumer.beginning_offsets(wanted), consumer.end_offsets(wanted)
        return planning.Bounds(_as_offsets(earliest), _as_offsets(latest))

    def partitions_of(self, start: Offsets, end: Offsets, earliest: Offsets) -> list[InputPartition]:
        """One input partition per range; a list that is never empty for a batch read is the caller's business."""
        whole = planning.ranges(start, end, earliest, fail_on_data_loss=self.options.fail_on_data_loss)
        return [RangePartition(r) for r in planning.split(whole, self.options.partitions_min)]

    def read_range(self, wanted: planning.OffsetRange) -> Iterator[pa.RecordBatch]:
        """The visible records of a range, in offset order."""
        consumer = _consumer(self.options)
        where = TopicPartition(wanted.topic, wanted.partition)
        consumer.assign([where])
        consumer.seek(where, wanted.start)
        while consumer.position(where) < wanted.end:
            batch = consumer.poll_arrow(max_records=ROWS_PER_BATCH_MAX, timeout_ms=1000)
            if batch.num_rows == 0:
                continue
            offsets = batch.column("offset")
            if offsets[batch.num_rows - 1].as_py() >= wanted.end:
                batch = batch.filter(pc.less(offsets, wanted.end))
            if batch.num_rows:
                yield batch.select(self.columns)


def _as_offsets(found: dict[TopicPartition, int]) -> Offsets:
    offsets: Offsets = {}
    for where, offset in found.items():
        offsets.setdefault(where.topic, {})[where.partition] = offset
    return offsets


_consumers: dict[tuple[Any, ...], sync.Consumer] = {}


def _consumer(options: SourceOptions) -> sync.Consumer:
    """This process's consumer for these options: workers are used again, and a connection outlives a micro-batch."""
    key = (tuple(sorted(options.client.items())), options.isolation_level)
    consumer = _consumers.get(key)
    if consumer is None:
        more = {"isolation.level": options.isolation_level, "auto.offset.reset": "none", "enable.auto.commit": False}
        consumer = sync.Consumer.from_config(client_arguments(options.client, **more))
        consumer.start()
        _consumers[key] = consumer
    return consumer


class BatchReader(LogReader, DataSourceReader):
    """`spark.read.format("oncelog")`."""

    def partitions(self) -> list[InputPartition]:
        """The ranges between startingOffsets and endingOffsets. Spark reads `InputPartition(None)` for an empty list."""
        bounds = self.bounds()
        start = planning.resolve(self.options.starting, bounds, "startingOffsets")
        end = planning.resolve(self.options.ending, bounds, "endingOffsets")
        return list(self.partitions_of(start, end, bounds.earliest))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """One task."""
        return self.read_range(partition.range) if isinstance(partition, RangePartition) else iter(())


class StreamReader(LogReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`spark.readStream.format("oncelog")`: offsets are {"v": 1, "t": {topic: {"0": offset}}, "init": start of batch 0}."""

    def __init__(self, options: SourceOptions, columns: list[str]) -> None:
        super().__init__(options, columns)
        self._initial: Offsets | None = None
        self._target: Offsets | None = None
        self._bounds: planning.Bounds | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """A mark only: Spark asks for it again after a restart, when "latest" would be another offset."""
        return {"v": 1, "start": "initial"}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """maxOffsetsPerTrigger, or everything there is."""
        limit = self.options.offsets_per_trigger_max
        return ReadMaxRows(limit) if limit else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of the run."""
        self._target = self.bounds().latest

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next micro-batch ends; equal to `start` when there is nothing new."""
        bounds = self._bounds = self.bounds()
        latest = bounds.latest if self._target is None else self._up_to_target(bounds.latest, self._target)
        records_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        if "start" in start:
            if self._initial is None:
                self._initial = planning.resolve(self.options.starting, bounds, "startingOffsets")
            end = planning.limited_end(self._initial, latest, records_max)
            return {"v": 1, "t": planning.to_json(end), "init": planning.to_json(self._initial)}
        begin = planning.with_new_partitions(planning.from_json(start["t"]), bounds)
        end = planning.limited_end(begin, latest, records_max)
        if end == planning.from_json(start["t"]):
            return start
        return {"v": 1, "t": planning.to_json(end)}

    @staticmethod
    def _up_to_target(latest: Offsets, target: Offsets) -> Offsets:
        return {
            t: {p: min(o, target[t][p]) for p, o in ps.items() if p in target[t]}
            for t, ps in latest.items()
            if t in target
        }

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The last stable offsets, for the progress report."""
        return None if self._bounds is None else {"lso": planning.to_json(self._bounds.latest)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The ranges of a micro-batch, the same ones again after a restart."""
        begin = planning.from_json(end["init"] if "start" in start else start["t"])
        return self.partitions_of(begin, planning.from_json(end["t"]), self.bounds().earliest)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """One task."""
        assert isinstance(partition, RangePartition)
        return self.read_range(partition.range)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: positions live in Spark's checkpoint, as with Spark's own Kafka source."""

    def stop(self) -> None:
        """Close this process's connections."""
        for consumer in _consumers.values():
            consumer.stop()
        _consumers.clear()
