"""Lanes as JSON: columns instead of objects, times as differences to the window's beginning, offsets beyond 2^53 as strings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oncelog.console.group_judging import rights_rows
from oncelog.console.watch import View, Watch
from oncelog.core.lanes.lane import OPEN, Lane, Span, merged
from oncelog.core.lanes.view import LanesView, OpenSpan

SPANS_MAX = 10_000  # more are joined before they are sent: a frame must not take longer than a sixtieth of a second
EXACT_MAX = 1 << 53
OUTCOMES = ("open", "committed", "aborted")


def lanes_answer(watch: Watch, view: View, since_version: int = 0) -> dict[str, Any]:
    """What changed since a version (0: everything) of what a view shows."""
    lanes = watch.lanes_of(view)
    opened = lanes.open()
    count = sum(len(lane.done) for lane in lanes.lanes)
    where, not_there = {str(each.where) for each in lanes.lanes}, watch.not_there(view)
    gap_ms = 0.0 if since_version else gap_of(count, view.window_ms)
    return {
        "version": watch.version,
        "now_ms": lanes.now_ms,
        "since_ms": lanes.since_ms,
        "window_ms": view.window_ms,
        "is_whole": since_version == 0,
        "cluster": watch.cluster_id,
        "error": None if watch.error is None else {"error": watch.error[0], "message": watch.error[1]},
        "verdict": lanes.verdict(),
        "left_out": lanes.left_out,
        "producers": [[exact(each), name] for each, name in sorted(lanes.names.items())],
        "partitions": [_partition(lanes, lane, since_version, gap_ms) for lane in lanes.lanes],
        "open": [open_row(lanes, each) for each in opened],
        "causes": _causes(watch, view, opened, where),
        "not_read": [*not_there, *_not_read(watch, where)],
    }


def gap_of(span_count: int, window_ms: int) -> float:
    """Spans that are closer than this are joined; 0: they are few enough to be drawn one by one."""
    return 0.0 if span_count <= SPANS_MAX else window_ms / 600


def exact(number: int | None) -> int | str | None:
    """A number as JavaScript reads it without loss."""
    return number if number is None or abs(number) < EXACT_MAX else str(number)


def _partition(lanes: LanesView, lane: Lane, since_version: int, gap_ms: float) -> dict[str, Any]:
    done: Iterable[Span] = (each for each in lane.done if each.version > since_version or not since_version)
    spans = merged(done, gap_ms) if gap_ms else list(done)
    return partition_row(lanes, lane, [*spans, *lane.open.values()], since_version)


def partition_row(lanes: LanesView, lane: Lane, spans: list[Span], since_version: int = 0) -> dict[str, Any]:
    """A lane with these spans, and with what was written beside transactions since a version."""
    plain = [each for each in lane.plain if each[0] > since_version or not since_version]
    holder = lane.holder
    first_offset = lane.offset_at(lanes.since_ms)
    return {
        "topic": lane.where.topic,
        "partition": lane.where.partition,
        "log_start": exact(lane.log_start_offset),
        "lso": exact(lane.last_stable_offset),
        "lso_ms": None if holder is None else holder.begin_ms,
        "holder": None if holder is None else exact(holder.producer_id),
        "high_watermark": exact(lane.high_watermark),
        "from_offset": exact(lane.high_watermark if first_offset is None else first_offset),
        "end_offset": exact(lane.high_watermark),
        "blocked": lane.blocked,
        "word": lanes.word(lane),
        "error": lane.error,
        "error_text": lane.error_text,
        "read_from_ms": lane.complete_from_ms,
        "bytes_read": lane.bytes_read,
        "spans": columns(spans, lanes.since_ms),
        "plain": {
            "at_ms": [each[2] - lanes.since_ms for each in plain],
            "offset": [exact(each[1]) for each in plain],
            "records": [each[3] for each in plain],
        },
        "clock_off": _clock_off(lanes, lane),
        "groups": [
            [
                *(each.group, exact(each.offset), lane.time_of(each.offset)),
                *(each.readable, each.held_back, each.raw_lag),
            ]
            for each in lanes.positions
            if each.where == lane.where
        ],
    }


def _clock_off(lanes: LanesView, lane: Lane) -> dict[str, Any] | None:
    """Whose times in the window were far from their arrival, and how far."""
    if lane.clock_off is None or lane.clock_off[0] < lanes.since_ms:
        return None
    _, producer_id, off_ms = lane.clock_off
    name = "a producer without transactions" if producer_id < 0 else lanes.name_of(producer_id)
    return {"who": name, "off_ms": exact(off_ms)}


def columns(spans: list[Span], since_ms: int) -> dict[str, list[Any]]:
    """Spans by columns. `begin` and `end` are ms after `since_ms`; `end` is null while one is open."""
    return {
        "producer": [exact(each.producer_id) for each in spans],
        "epoch": [each.producer_epoch for each in spans],
        "first": [exact(each.first_offset) for each in spans],
        "last": [exact(each.last_offset) for each in spans],
        "records": [each.record_count if each.is_whole else None for each in spans],
        "bytes": [each.size_bytes for each in spans],
        "begin": [None if each.begin_ms is None else each.begin_ms - since_ms for each in spans],
        "end": [None if each.end_ms is None else each.end_ms - since_ms for each in spans],
        "marker": [exact(each.marker_offset) for each in spans],
        "marker_epoch": [each.marker_epoch for each in spans],
        "outcome": [OUTCOMES.index(each.outcome) for each in spans],
        "merged": [each.count for each in spans],
        "begin_known": [each.is_begin_known for each in spans],
        "ticks": [[at - since_ms for at in each.ticks] if each.outcome == OPEN else None for each in spans],
    }


def open_row(lanes: LanesView, found: OpenSpan) -> dict[str, Any]:
    """An open transaction, on all its lanes."""
    return {
        "letter": found.letter,
        "producer_id": exact(found.producer_id),
        "transactional_id": lanes.names.get(found.producer_id),
        "begin_ms": found.begin_ms,
        "verdict": found.judged.kind,
        "deadline_ms": found.judged.deadline_ms,
        "on": [[str(lane.where), exact(span.first_offset)] for lane, span in found.spans],
        "holds": [str(lane.where) for lane in found.holds],
        "future": lanes.future(found.judged),
    }


def _not_read(watch: Watch, where: set[str]) -> list[dict[str, str]]:
    """Of what all pages together look at, without the lanes that only others have."""
    others = {str(each) for each in (watch.reading.lanes if watch.reading is not None else ())} - where
    groups = [{"what": each.what, "error": each.error, "why": each.why} for each in watch.groups_not_read]
    return [*(each for each in watch.judgement.not_read if each["what"] not in others), *groups]


def _causes(watch: Watch, view: View, opened: list[OpenSpan], shown: set[str]) -> list[dict[str, Any]]:
    """Rows of `oncelog why -o json` about what is shown, with the letter of the picture and the groups that wait."""
    letters = {each.producer_id: each.letter for each in opened}
    found = rights_rows(watch.settings, watch.rights_missing(view))
    found += rights_rows(watch.settings, watch.groups_not_read)
    readers = {each.group for each in watch.positions if str(each.where) in shown}
    for each in [*watch.judgement.causes, *watch.group_causes]:
        where = set(each["partitions"])
        if (where and not where & shown) or each.get("group", "") not in {"", *readers}:
            continue  # another page looks at it
        groups = sorted({p.group for p in watch.positions if str(p.where) in where and p.held_back})
        row = {**each, "letter": letters.get(each["producer_id"]), "groups": groups}
        found.append(row | {key: exact(row[key]) for key in ("producer_id", "start_offset", "blocked")})
    return found
