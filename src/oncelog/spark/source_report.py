"""What a stream's source tells of itself in each progress report: `sources[].latestOffset` of Spark's `lastProgress`.

It is the only thing of a source in Python that Spark takes over into the progress (`sources[].metrics` stays empty for it), so
what is to be seen stands there, beside the last stable offsets.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from oncelog import errors
from oncelog.host.clock import RealClock
from oncelog.spark import planning
from oncelog.spark.blockers import NAMED_MAX, Watch, held
from oncelog.spark.kept_admins import admin_of
from oncelog.spark.log_view import LogView
from oncelog.spark.options import Offsets, SourceOptions
from oncelog.spark.stream_offset import to_json

logger = logging.getLogger("oncelog.spark")
FRESH_S = 1.0
"""A query that waits asks for its report a hundred times a second."""


class SourceReport:
    """Of one stream. `of` is asked after each plan."""

    def __init__(self, options: SourceOptions, now_s: Callable[[], float] = time.monotonic) -> None:
        self._options, self._now_s = options, now_s
        self._watch = Watch(now_s)
        self._error: str | None = None  # what was told last
        self._said: tuple[tuple[Offsets, Offsets], float, dict[str, Any]] | None = None

    def of(self, log: LogView, bounds: planning.Bounds, position: Offsets) -> dict[str, Any]:
        """Where a stream stands that has read, or is about to read, up to `position`.

        `behindLastStableOffset` is what it may read and has not; `behindLatest` counts also what open transactions hold
        back. A report that fails stops no query: it says `error`.
        """
        what = (bounds.latest, position)
        if self._said is not None and self._said[0] == what and self._now_s() - self._said[1] < FRESH_S:
            return self._said[2]
        found: dict[str, Any] = {"lso": to_json(bounds.latest)}
        found["behindLastStableOffset"] = planning.backlog(position, bounds.latest)
        try:
            self._take_ends(found, log, bounds, position)
        except errors.KafkaError as error:
            found["error"] = str(error)
            if found["error"] != self._error:
                logger.warning("oncelog: what holds the stream could not be looked at: %s", error)
        self._error = found.get("error")
        self._said = (what, self._now_s(), found)
        return found

    def _take_ends(self, found: dict[str, Any], log: LogView, bounds: planning.Bounds, position: Offsets) -> None:
        is_committed = self._options.isolation_level == "read_committed"
        end = log.high_watermarks(bounds) if is_committed else bounds.latest
        waiting = held(position, bounds.latest, end)
        found["behindLatest"] = planning.backlog(position, end)
        blocked = self._watch.blocked(admin_of(self._options.client), waiting, RealClock().now_ms())
        if waiting:
            found["blockedPartitions"] = len(waiting)
            found["blocked"] = blocked[:NAMED_MAX]
