"""Spark's progress reports with what the source and the sink know beside it, joined by query and batch.

Spark takes from a format in Python only its offsets and what it says of the latest one (source_report.py): `sources[].metrics`
and `sink.metrics` stay empty, and `observedMetrics` are sums over rows that only the author of a query can ask for. The numbers
of the sink stand in the decision topic, in the record that marks a batch done, which is written before Spark reports the batch.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from oncelog import errors, sync
from oncelog.core.producer.partitioner import partition_for_key
from oncelog.core.two_phase import exactly_once_sink as sink
from oncelog.spark.batch_numbers import KEPT, recent
from oncelog.spark.options import SinkOptions, client_arguments, sink_options
from oncelog.spark.reading import FETCH_MAX_WAIT_MS, records_until
from oncelog.types import TopicPartition

logger = logging.getLogger("oncelog.spark")
LOOK_BACK = 1000
"""Records of a partition of the decision topic that a new reader looks at, at its end."""
REPORTS_KEPT = 100
Numbers = dict[str, Any]


def joined(report: Mapping[str, Any], numbers: Numbers | None) -> dict[str, Any]:
    """A progress report of Spark's (as its JSON) with one more field, `oncelog`.

    Args:
        report: `query.lastProgress`, or `event.progress.json` read.
        numbers: of the sink's batch (BatchNumbers.to_json); None where there are none.

    Returns:
        The report, with `{"oncelog": {"sources": [...], "sink": {...}}}`: of each source of format oncelog what
        source_report.py says (a source of another format is None), and of the sink `numbers`.
    """
    sources = [_of_source(each.get("latestOffset")) for each in report.get("sources", [])]
    return {**report, "oncelog": {"sources": sources, "sink": numbers}}


def _of_source(latest: Any) -> Any:
    content = latest
    if isinstance(latest, str):
        try:
            content = json.loads(latest)
        except ValueError:
            return None
    if not isinstance(content, dict) or "behindLastStableOffset" not in content:
        return None
    return {name: value for name, value in content.items() if name != "lso"}


class DoneReader:
    """Reads on in the decision topic, and remembers the numbers of the newest batches."""

    def __init__(self, options: SinkOptions) -> None:
        self._topic = options.decision_topic
        reads = {
            "isolation.level": "read_uncommitted",
            "auto.offset.reset": "earliest",
            "fetch.max.wait.ms": FETCH_MAX_WAIT_MS,
        }
        self._consumer = sync.Consumer.from_config(client_arguments(options.client, **reads))
        self._consumer.start()
        self._next_offsets: dict[int, int] = {}
        self._found: OrderedDict[tuple[str, str], Numbers] = OrderedDict()

    def numbers(self, query_id: str, batch_id: str) -> Numbers | None:
        """Of a batch that is done, after reading to the end; None where nothing is said of it."""
        partition_count = len(self._consumer.partitions_for_topic(self._topic))
        self._read(partition_for_key(query_id.encode(), partition_count))
        return self._found.get((query_id, batch_id))

    def _read(self, partition: int) -> None:
        where = TopicPartition(self._topic, partition)
        end = self._consumer.end_offsets([where])[where]
        position = self._next_offsets.get(partition)
        if position is None:
            position = max(self._consumer.beginning_offsets([where])[where], end - LOOK_BACK)
        if position < end:
            for record in records_until(self._consumer, where, position, end):
                self._take(record.key or b"", record.value)
        self._next_offsets[partition] = max(position, end)

    def _take(self, key: bytes, value: bytes | None) -> None:
        try:
            query_id, batch_id, kind, _ = json.loads(key)
            numbers = json.loads(value or b"null")
        except (ValueError, TypeError):
            return
        if kind == sink.DONE and isinstance(numbers, dict) and "rows" in numbers:
            self._found[str(query_id), str(batch_id)] = numbers
            while len(self._found) > KEPT:
                self._found.popitem(last=False)

    def close(self) -> None:
        """Let go of the connections."""
        self._consumer.stop()


class ProgressListener(StreamingQueryListener):
    """`spark.streams.addListener(ProgressListener({"bootstrap.servers": b}, on_progress=print))`.

    Gives each progress report, with what format oncelog knows beside it (`joined`), to `on_progress`, and keeps the newest
    in `reports`. A report without numbers of the sink says why in the log, and stops nothing.

    Args:
        options: of the sink whose numbers are wanted (bootstrap.servers, decisionTopic, kafka.*). None: no sink's; those
            of a `dual_write` in this process are found without.
        on_progress: called with each joined report; Spark logs its errors, and goes on.
        query_ids: names of dual writes, by Spark's query id: their decisions are stored under that name.
    """

    def __init__(
        self,
        options: Mapping[str, str] | None = None,
        on_progress: Callable[[dict[str, Any]], None] | None = None,
        query_ids: Mapping[str, str] | None = None,
    ) -> None:
        self._options = None if options is None else sink_options(options)
        self._on_progress = on_progress
        self._query_ids = dict(query_ids or {})
        self._reader: DoneReader | None = None
        self.reports: deque[dict[str, Any]] = deque(maxlen=REPORTS_KEPT)
        self._ended: deque[str] = deque(maxlen=REPORTS_KEPT)
        self._end = threading.Condition()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Nothing to tell yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Join, keep, hand on."""
        report = json.loads(event.progress.json)
        query_id = self._query_ids.get(report["id"], report["id"])
        found = joined(report, self._numbers(query_id, str(report["batchId"])))
        self.reports.append(found)
        if self._on_progress is not None:
            self._on_progress(found)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Spark says no more of a query that waits; `query.lastProgress` has who holds it."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Nothing more comes of this run."""
        with self._end:
            self._ended.append(str(event.runId))
            self._end.notify_all()

    def wait_for_the_end(self, run_id: str, timeout_s: float = 30) -> bool:
        """Whether the last report of a run (`str(query.runId)`) has come: Spark sends them in a thread of its own, also after
        `awaitTermination` has returned."""
        with self._end:
            return self._end.wait_for(lambda: run_id in self._ended, timeout_s)

    def _numbers(self, query_id: str, batch_id: str) -> Numbers | None:
        here = recent.get((query_id, batch_id))
        if here is not None:
            return here.to_json()
        if self._options is None or self._options.decision_url is not None:
            return None
        try:
            if self._reader is None:
                self._reader = DoneReader(self._options)
            return self._reader.numbers(query_id, batch_id)
        except errors.OncelogError as error:
            logger.warning("oncelog: the sink's numbers of batch %s could not be read: %s", batch_id, error)
            return None

    def close(self) -> None:
        """Let go of the connections; call it after `removeListener`."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
