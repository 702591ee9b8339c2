"""What `oncelog watch --metrics-port` shows to Prometheus: the last look as numbers, and how looking goes.

Labels are bounded: only partitions that stand still for 10 s have rows of their own, `LABELLED_MAX` of them, so that ids that
come and go by the thousand make no series.
"""

from __future__ import annotations

from collections.abc import Iterator

from oncelog.cli.output import printable
from oncelog.cli.watch.looks import Seen
from oncelog.cli.watch.screen import holder_name, rings, transaction_rows
from oncelog.core.diagnosis.watching import STOPPED, WORDS
from oncelog.core.exposition import NamedFamily, exposition
from oncelog.host.http_endpoint import NOT_FOUND

LABELLED_MAX = 1_000
FRESH_LOOKS = 3  # ready: one of so many looks was answered


Sample = tuple[str, dict[str, str], float]
UP = NamedFamily("oncelog_watch_up", "gauge", "Whether the last look was answered.")
LOOKS = NamedFamily("oncelog_watch_looks_total", "counter", "Looks, answered or not.")
FAILED_LOOKS = NamedFamily("oncelog_watch_failed_looks_total", "counter", "Looks that nobody answered.")
LAST_LOOK = NamedFamily("oncelog_watch_last_look_timestamp_seconds", "gauge", "When a look was last answered.")
NOT_READ = NamedFamily("oncelog_watch_not_read", "gauge", "Questions of the last look without an answer.")
PARTITIONS = NamedFamily("oncelog_watch_partitions", "gauge", "Watched partitions, by state.")
ALERTS = NamedFamily(
    "oncelog_watch_alerts", "gauge", "What rings: held back, offline, stuck or silent for --alert-after."
)
OPEN = NamedFamily("oncelog_watch_open_transactions", "gauge", "Transactions that are open, by verdict.")
OLDEST = NamedFamily("oncelog_watch_oldest_transaction_seconds", "gauge", "The age of the oldest open transaction.")
GROUPS = NamedFamily("oncelog_watch_blocked_groups", "gauge", "Groups that read a partition that stands still.")
LONGEST = NamedFamily(
    "oncelog_watch_longest_blocked_seconds", "gauge", "For how long a partition is held back, at most."
)
BLOCKED_S = NamedFamily(
    "oncelog_watch_blocked_seconds", "gauge", "For how long a partition that stands still is held back, and by whom."
)
BLOCKED_OFFSETS = NamedFamily(
    "oncelog_watch_blocked_offsets", "gauge", "Offsets that wait in a partition that stands still."
)
FAMILIES = (
    *(UP, LOOKS, FAILED_LOOKS, LAST_LOOK, NOT_READ, PARTITIONS, ALERTS, OPEN, OLDEST, GROUPS, LONGEST),
    *(BLOCKED_S, BLOCKED_OFFSETS),
)


class Exporter:
    """The numbers; `looked` and `failed` after each look."""

    def __init__(self) -> None:
        self._seen: Seen | None = None
        self._look_count = 0
        self._failed_count = 0
        self._failed_in_a_row = FRESH_LOOKS

    def looked(self, seen: Seen) -> None:
        """A look was answered."""
        self._seen, self._failed_in_a_row = seen, 0
        self._look_count += 1

    def failed(self) -> None:
        """A look was not answered: what was seen before is shown no more."""
        self._look_count += 1
        self._failed_count += 1
        self._failed_in_a_row += 1

    def answer(self, path: str) -> tuple[str, str]:
        """/metrics, /livez, /readyz."""
        if path == "/metrics":
            return "200 OK", exposition(self.families())
        if path == "/livez":
            return "200 OK", "alive\n"
        if path == "/readyz":
            is_ready = self._failed_in_a_row < FRESH_LOOKS
            return ("200 OK", "ready\n") if is_ready else ("503 Service Unavailable", "not ready\n")
        return NOT_FOUND

    def families(self) -> Iterator[tuple[NamedFamily, list[Sample]]]:
        """Every metric with its samples now."""
        seen, is_up = self._seen, self._failed_in_a_row == 0
        yield UP, [("", {}, float(is_up))]
        yield LOOKS, [("", {}, self._look_count)]
        yield FAILED_LOOKS, [("", {}, self._failed_count)]
        if seen is None:
            return
        yield LAST_LOOK, [("", {}, seen.time_ms / 1000)]
        if is_up:
            yield from _families_of(seen)


def _families_of(seen: Seen) -> Iterator[tuple[NamedFamily, list[Sample]]]:
    picture, rows = seen.picture, transaction_rows(seen)
    verdicts = {"in progress": 0, "two-phase": 0, "ending": 0}
    for each in rows:
        verdicts[each["verdict"]] += 1
    hanging = {(each.producer_id, each.producer_epoch) for each in seen.facts.open if each.hanging_reason is not None}
    stopped = [each for each in picture.blocked if each.word == STOPPED][:LABELLED_MAX]
    labels = [
        {
            "topic": each.where.topic,
            "partition": str(each.where.partition),
            "transactional_id": printable(holder_name(each)),
        }
        for each in stopped
    ]
    yield NOT_READ, [("", {}, len(seen.not_read))]
    yield PARTITIONS, [("", {"state": word}, picture.count(word)) for word in WORDS]
    yield ALERTS, [("", {}, len(rings(seen)))]
    yield OPEN, [("", {"verdict": word}, n) for word, n in (verdicts | {"hanging": len(hanging)}).items()]
    yield OLDEST, [("", {}, (rows[0]["age_ms"] if rows else 0) / 1000)]
    yield GROUPS, [("", {}, len({each.name for each in seen.groups}))]
    yield LONGEST, [("", {}, max((each.blocked_ms for each in picture.blocked), default=0) / 1000)]
    yield BLOCKED_S, [("", each, held.blocked_ms / 1000) for each, held in zip(labels, stopped, strict=True)]
    yield BLOCKED_OFFSETS, [("", each, held.facts.blocked) for each, held in zip(labels, stopped, strict=True)]
