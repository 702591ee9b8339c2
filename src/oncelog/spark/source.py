"""The source of format `oncelog`: batch and streaming reads as Arrow, bounded by the last stable offset.

Rule: progress is judged by offsets, never by rows. Markers and aborted records yield no rows but move the position, so a
task ends when its next offset reaches the end of its range, also with nothing to show.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from oncelog import errors, sync
from oncelog.core.two_phase.sink_names import POSITION_METADATA
from oncelog.errors import ConfigurationError
from oncelog.lazy_dataclass import dataclass
from oncelog.spark import planning
from oncelog.spark.kept_admins import CLIENTS_MAX, admin_of, close_admins
from oncelog.spark.log_view import LogView
from oncelog.spark.options import LATEST, Offsets, SourceOptions, Times, client_arguments
from oncelog.spark.plainly import plainly
from oncelog.spark.process import acknowledge_at_once
from oncelog.spark.reading import FETCH_MAX_WAIT_MS, go_to, place, rest
from oncelog.spark.source_report import SourceReport
from oncelog.spark.stream_offset import StreamOffset, topic_id_text
from oncelog.types import OffsetAndMetadata, TopicPartition
from oncelog.wire.uuids import uuid_from

ROWS_PER_BATCH_MAX = 100_000
ISOLATION_LEVELS = ("read_committed", "read_uncommitted")
logger = logging.getLogger("oncelog.spark")


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

    def __setstate__(self, state: dict[str, Any]) -> None:
        """In a task, which waits for the range that it is to read."""
        self.__dict__.update(state)
        acknowledge_at_once()

    @property
    def log(self) -> LogView:
        """The topics as they are now."""
        return LogView(self.options)

    def start_offsets(self, bounds: planning.Bounds) -> Offsets:
        """Where the read begins. Raises ConfigurationError for an offset behind the log's end."""
        start = self._resolved(self.options.starting, bounds, "starting")
        if planning.beyond(start, bounds.latest):  # not behind what an open transaction holds back
            self._refuse_beyond(start, self.log.high_watermarks(bounds), "startingOffsets")
        return start

    def _resolved(self, wanted: int | Offsets | Times, bounds: planning.Bounds, end: str) -> Offsets:
        if not isinstance(wanted, Times):
            return planning.resolve(wanted, bounds, f"{end}Offsets")
        name = f"{end}Timestamp" if isinstance(wanted.ms, int) else f"{end}OffsetsByTimestamp"
        times_ms = planning.times_of(wanted, bounds, name)
        found = self.log.offsets_at(times_ms)
        return planning.found_at(times_ms, found, bounds, name, or_latest=wanted.or_latest)

    @staticmethod
    def _refuse_beyond(wanted: Offsets, log_end: Offsets, name: str) -> None:
        for topic, partition, offset, end in planning.beyond(wanted, log_end):
            raise ConfigurationError(f"{name} names offset {offset} of {topic}-{partition}, whose records end at {end}")

    @staticmethod
    def _refuse_held_back(beyond: list[tuple[str, int, int, int]]) -> None:
        for topic, partition, offset, last_stable in beyond:  # the log itself may have grown since
            raise ConfigurationError(
                f"endingOffsets names offset {offset} of {topic}-{partition}, which can be read up to {last_stable}: an open "
                f"transaction holds what lies behind (oncelog why {topic}; isolationLevel=read_uncommitted reads past it)"
            )

    def partitions_of(
        self, start: Offsets, end: Offsets, earliest: Offsets, topic_ids: Mapping[str, str]
    ) -> list[InputPartition]:
        """One input partition per range; a list that is never empty for a batch read is the caller's business."""
        whole = planning.ranges(start, end, earliest, fail_on_data_loss=self.options.fail_on_data_loss)
        cut = planning.split(whole, self.options.partitions_min, self.options.records_per_partition_max)
        return [RangePartition(r, topic_ids.get(r.topic, "")) for r in cut]

    @plainly
    def read_range(self, wanted: planning.OffsetRange, topic_id: str = "") -> Iterator[pa.RecordBatch]:
        """The visible records of a range, in offset order. Raises DataLoss where they are gone."""
        consumer = _consumer(self.options, wanted.topic, topic_id)
        where = TopicPartition(wanted.topic, wanted.partition)
        uuid = uuid_from(topic_id) if topic_id else None
        go_to(consumer, where, wanted.start, uuid)
        position, end = wanted.start, wanted.end
        rows_max = int(self.options.consumer.get("max.poll.records", ROWS_PER_BATCH_MAX))
        try:
            while position < end:
                try:
                    batch = consumer.poll_arrow(max_records=rows_max, timeout_ms=self.options.poll_timeout_ms)
                except errors.OffsetOutOfRange as error:
                    _refuse_another(self.options, wanted.topic, topic_id)
                    position, end = self._after_a_loss(consumer, where, position, wanted, error)
                    consumer.seek(where, place(position, uuid))
                    continue
                before, position = position, consumer.position(where)
                if batch.num_rows == 0:
                    if position == before:
                        raise self._nothing_came(consumer, where, position, wanted)
                    continue
                offsets = batch.column("offset")
                if offsets[batch.num_rows - 1].as_py() >= end:
                    batch = batch.filter(pc.less(offsets, end))
                if batch.num_rows:
                    yield batch.select(self.columns)
        finally:
            rest(consumer)

    def _nothing_came(
        self, consumer: sync.Consumer, where: TopicPartition, position: int, wanted: planning.OffsetRange
    ) -> errors.RequestTimedOut:
        text = (
            f"nothing came of {where} at offset {position} within {self.options.poll_timeout_ms} ms "
            f"(kafkaConsumer.pollTimeoutMs), and the range ends at {wanted.end}: "
        )
        throttled = max(consumer.metrics().brokers, key=lambda each: each.throttle_ms)
        if throttled.throttle_ms:  # nothing more is asked there: the answer would have to wait for it, too
            return errors.RequestTimedOut(
                f"{text}the broker at {throttled.address} told a throttle of {throttled.throttle_ms} ms, so a quota holds it up "
                f"(`oncelog quotas list`: consumer_byte_rate, request_percentage)"
            )
        ends = {level: consumer.end_offsets([where], isolation_level=level)[where] for level in ISOLATION_LEVELS}
        return errors.RequestTimedOut(
            f"{text}its last stable offset is {ends['read_committed']}, its end {ends['read_uncommitted']}"
        )

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
            return position, wanted.end
        if self.options.fail_on_data_loss:
            raise planning.DataLoss(
                f"{where}: offset {position} of the range {wanted.start} to {wanted.end} is not in the log any more, which "
                f"starts at {first} and ends at {log_end} {planning.GO_ON}"
            ) from error
        end = min(wanted.end, log_end)
        return position if first <= position <= end else min(first, end), end


_consumers: dict[tuple[Any, ...], sync.Consumer] = {}
_topic_ids: dict[tuple[Any, ...], dict[str, str]] = {}


def close_connections() -> None:
    """Close what this process keeps for reading."""
    for consumer in _consumers.values():
        consumer.stop()
    _consumers.clear()
    _topic_ids.clear()
    close_admins()


def _consumer(options: SourceOptions, topic: str, topic_id: str) -> sync.Consumer:
    """This process's consumer for these options: workers are used again, and a connection outlives a micro-batch.

    A consumer that knows the topic by another id is replaced: what it remembers is of a topic that was deleted.
    """
    key = (*sorted((options.client | options.consumer).items()), options.isolation_level)
    known = _topic_ids.setdefault(key, {})
    if topic_id and known.get(topic) != topic_id:
        _refuse_another(options, topic, topic_id)
        if topic in known:
            _consumers.pop(key).stop()
            known.clear()
        known[topic] = topic_id
    consumer = _consumers.get(key)
    if consumer is None:
        if len(_consumers) >= CLIENTS_MAX:
            oldest = next(iter(_consumers))
            _consumers.pop(oldest).stop()
            _topic_ids.pop(oldest, None)
        given = {"fetch.max.wait.ms": FETCH_MAX_WAIT_MS} | options.consumer
        more = {"isolation.level": options.isolation_level, "auto.offset.reset": "none", "enable.auto.commit": False}
        consumer = sync.Consumer.from_config(client_arguments(options.client, **given, **more))
        consumer.start()
        _consumers[key] = consumer
    return consumer


def _refuse_another(options: SourceOptions, topic: str, topic_id: str) -> None:
    """Raises DataLoss where the topic of this name is another one by now."""
    if topic_id:
        found = topic_id_text(admin_of(options.client).describe_topics([topic])[topic].topic_id)
        if found != topic_id:
            raise planning.DataLoss(f"topic {topic!r} was deleted and made again (its id was {topic_id}, now {found})")


class BatchReader(LogReader, DataSourceReader):
    """`spark.read.format("oncelog")`."""

    @plainly
    def partitions(self) -> list[InputPartition]:
        """The ranges between startingOffsets and endingOffsets. Spark reads `InputPartition(None)` for an empty list."""
        bounds = self.log.bounds()
        start = self.start_offsets(bounds)
        end = self._resolved(self.options.ending, bounds, "ending")
        if self.options.fail_on_data_loss and planning.beyond(end, bounds.latest):
            log_end = self.log.high_watermarks(bounds)
            self._refuse_beyond(end, log_end, "endingOffsets")
            self._refuse_held_back(planning.beyond(end, bounds.latest))
        end = planning.not_reversed(start, planning.not_beyond(end, bounds.latest), bounds.latest)
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
        self._last_trigger_s: float | None = None
        self.now_s: Callable[[], float] = time.monotonic
        self._report = SourceReport(options)
        self._position: Offsets = {}
        self._stored: Offsets | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """A mark only: Spark asks for it again after a restart, when "latest" would be another offset."""
        return StreamOffset(None).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """maxOffsetsPerTrigger, or everything there is."""
        limit = self.options.offsets_per_trigger_max
        return ReadMaxRows(limit) if limit else ReadAllAvailable()

    @plainly
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of the run."""
        self._target = self.log.bounds().latest

    @plainly
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next micro-batch ends; equal to `start` when there is nothing new. Raises DataLoss."""
        self._store(
            StreamOffset.from_json(start).offsets
        )  # all up to here is done, or Spark would plan nothing behind it
        bounds = self._bounds = self.log.bounds()
        latest = bounds.latest if self._target is None else self._up_to_target(bounds.latest, self._target)
        records_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        stands = StreamOffset.from_json(start)
        if stands.offsets is not None:
            self._position = stands.offsets
        if stands.offsets is None:
            if self._initial is None:
                self._initial = self.start_offsets(bounds)
            self._position = self._initial
            offsets = planning.limited_end(self._initial, latest, records_max)
            end = StreamOffset(offsets, dict(bounds.topic_ids), self._initial)
            waits = self._waits_for_more(self._initial, latest)
        else:
            known = planning.without(stands.offsets, self._gone(stands.offsets, bounds))
            before = self._topic_ids | stands.topic_ids  # a checkpoint of an older version has no ids: those seen first
            before = {topic: each for topic, each in before.items() if topic in known}
            self._topic_ids = dict(bounds.topic_ids) | before
            anew = self._made_anew(before, bounds)
            begin = planning.with_new_partitions(planning.without(known, anew), bounds)
            shorter = self._shorter(begin, bounds, stands.topic_ids)
            begin = planning.with_others(shorter, begin)
            offsets = planning.with_others(planning.limited_end(begin, latest, records_max), begin)
            if offsets == stands.offsets and not anew:
                return start
            # Also where partitions are new: their starts of now, or what is deleted before a restart is missed in silence.
            begins_elsewhere = begin != stands.offsets
            end = StreamOffset(offsets, before | dict(bounds.topic_ids), begin if begins_elsewhere else None)
            waits = self._waits_for_more(begin, latest)
        if waits:
            return start
        self._position = offsets
        self._topic_ids = dict(end.topic_ids)
        self._planned = end
        return end.to_json()

    def _gone(self, offsets: Offsets, bounds: planning.Bounds) -> list[str]:
        """Topics of the pattern that are not there any more. Raises DataLoss."""
        gone = [t for t in offsets if t not in bounds.latest and self.log.is_subscribed_by_pattern(t)]
        if gone and self.options.fail_on_data_loss:
            raise planning.DataLoss(f"topic {gone[0]!r} was deleted: what was not read of it is gone {planning.GO_ON}")
        return gone

    def _made_anew(self, before: Mapping[str, str], bounds: planning.Bounds) -> list[str]:
        """Topics that are others by now. Raises DataLoss."""
        anew = planning.made_anew(before, bounds.topic_ids)
        if anew and self.options.fail_on_data_loss:
            raise planning.DataLoss(
                f"topic {anew[0]!r} was deleted and made again (its id was {before[anew[0]]}, now "
                f"{bounds.topic_ids[anew[0]]}): what was not read of it is gone {planning.GO_ON}"
            )
        return anew

    def _shorter(self, begin: Offsets, bounds: planning.Bounds, topic_ids: Mapping[str, str]) -> Offsets:
        """Of logs that end before the stream's position, where to go on. Raises DataLoss.

        At the end of one that lost its end; at the start of one that may be another topic, for a checkpoint without ids.
        """
        read = {t: {p: begin[t][p] for p in ps} for t, ps in bounds.latest.items()}
        if not planning.beyond(read, bounds.latest):
            return {}
        goes_on: Offsets = {}
        for topic, partition, offset, log_end in planning.beyond(read, self.log.high_watermarks(bounds)):
            if self.options.fail_on_data_loss:
                raise planning.DataLoss(
                    f"{topic}-{partition}: the stream stands at {offset}, the log ends at {log_end}: it lost its end, or is "
                    f"another one {planning.GO_ON}"
                )
            is_the_same = bool(topic_ids.get(topic))
            goes_on.setdefault(topic, {})[partition] = log_end if is_the_same else bounds.earliest[topic][partition]
        return goes_on

    def _waits_for_more(self, begin: Offsets, latest: Offsets) -> bool:
        """Whether minOffsetsPerTrigger is not there yet, and maxTriggerDelay is not over; the first batch of a run goes."""
        wanted, now_s = self.options.offsets_per_trigger_min, self.now_s()
        last_s, self._last_trigger_s = self._last_trigger_s, now_s
        if wanted is None or last_s is None or self._target is not None:
            return False
        waits = planning.backlog(begin, latest) < wanted and (now_s - last_s) * 1000 < self.options.trigger_delay_ms_max
        if waits:
            self._last_trigger_s = last_s
        return waits

    @staticmethod
    def _up_to_target(latest: Offsets, target: Offsets) -> Offsets:
        return {
            t: {p: min(o, target[t][p]) for p, o in ps.items() if p in target[t]}
            for t, ps in latest.items()
            if t in target
        }

    @plainly
    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """For the progress report: last stable offsets, how far behind, who holds the stream (source_report.py)."""
        return None if self._bounds is None else self._report.of(self.log, self._bounds, self._position)

    @plainly
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The ranges of a micro-batch, the same ones again after a restart. Raises DataLoss."""
        first, last = StreamOffset.from_json(start), StreamOffset.from_json(end)
        begin = first.offsets if last.initial is None else last.initial
        if begin is None and last.offsets is not None and last.is_kafkas:
            begin = self._start_of_kafkas_first_batch()
        if begin is None or last.offsets is None:
            raise ConfigurationError(f"the checkpoint does not say where its first batch began: {end!r:.200}")
        if last == self._planned and self._bounds is not None:  # as it was planned a moment ago
            bounds, wanted = self._bounds, last.offsets
        else:
            bounds, wanted = self._planned_again(begin, last)
        return self.partitions_of(begin, wanted, bounds.earliest, bounds.topic_ids)

    def _start_of_kafkas_first_batch(self) -> Offsets:
        """Spark's own source stores where its first batch began in a file that a source in Python is not told of."""
        if self.options.starting == LATEST:
            raise ConfigurationError(
                "this checkpoint's first batch was planned by Spark's own Kafka source and never finished: run oncelog spark "
                "adopt-checkpoint, or give the offsets in its file sources/0/0 as startingOffsets"
            )
        return self.start_offsets(self.log.bounds())

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

    @plainly
    def commit(self, end: dict[str, Any]) -> None:
        """A batch is over. Spark says so when the next one begins, which may be long after; `latestOffset` knows it before."""
        self._store(StreamOffset.from_json(end).offsets)

    def _store(self, offsets: Offsets | None) -> None:
        """Store the position in a group where the options name one, for tools that show lag; what counts is the checkpoint."""
        group = self.group_id()
        if group is None or offsets is None or offsets == self._stored:
            return
        self._stored = offsets
        positions = [(TopicPartition(t, p), offset) for t, ps in offsets.items() for p, offset in ps.items()]
        stored = {where: OffsetAndMetadata(offset, metadata=POSITION_METADATA) for where, offset in positions}
        try:
            admin_of(self.options.client).alter_consumer_group_offsets(group, stored)
        except errors.KafkaError as error:  # a group that nobody may write to stops no query
            logger.warning("the position could not be stored in group %r: %s", group, error)

    def group_id(self) -> str | None:
        """The group that the position is stored in: kafka.group.id, or groupIdPrefix and a word for what is read."""
        options = self.options
        if options.group_id_prefix is None:
            return options.group_id
        what = repr((options.topics, options.topic_pattern, sorted(options.assigned.items())))
        return f"{options.group_id_prefix}-{hashlib.sha256(what.encode()).hexdigest()[:8]}"

    def stop(self) -> None:
        """Close this process's connections."""
        close_connections()
