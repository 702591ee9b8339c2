"""Lanes of a time that is over: one answer for each question, nothing is watched; `notes` say what cannot be known of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Mapping
from dataclasses import field
from typing import Any, TypeVar

from starlette.requests import Request

from oncelog.cli.command import Name, Settings
from oncelog.cli.why.looking import not_read
from oncelog.client.admin.admin import Admin
from oncelog.client.admin.past_reading import PastReading
from oncelog.console.answers import exact, gap_of, open_row, partition_row
from oncelog.console.pages import admin_of
from oncelog.console.watch import View, partitions_shown, view_of
from oncelog.core.ages import age_text, clock_text, moment_text
from oncelog.core.lanes.lane import COMMITTED, OPEN, Span, merged
from oncelog.core.lanes.past import PastLane, PastView, Window
from oncelog.core.lanes.view import NOTHING, counted
from oncelog.errors import InvalidArgument, KafkaError, OncelogError
from oncelog.host.clock import RealClock
from oncelog.host.tasks import Tasks
from oncelog.lazy_dataclass import dataclass

T = TypeVar("T")
AT_ONCE = 2
WAITING_MAX = 16
CARDS_MAX = 40
NOTES_MAX = 8
WINDOW_MIN_MS, WINDOW_MAX_MS = 5_000, 3_600_000
IN_ORDER = ("from_ms", "at_ms", "to_ms")


class TooManyLooks(OncelogError):
    """More pages look at the past than are read at a time."""


@dataclass
class PastLooks:
    """Bounds how many windows are read at a time, and how many wait."""

    waiting: int = 0
    _turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """For as long as one is read. Raises TooManyLooks."""
        if self.waiting >= WAITING_MAX:
            raise TooManyLooks("too many pages look at times that are over: ask again in a moment")
        self.waiting += 1
        try:
            async with self._turn:
                yield
        finally:
            self.waiting -= 1


def is_past(asked: Mapping[str, str]) -> bool:
    """Whether an address asks for a time that is over."""
    return any(name in asked for name in IN_ORDER)


def window_of(asked: Mapping[str, str], now_ms: int) -> Window:
    """From an address's parameters; without `at_ms` the window's end is asked about. Raises ValueError."""
    given = [asked.get(name, "") for name in ("from_ms", "to_ms")]
    given.insert(1, asked.get("at_ms", given[1]))
    if not all(len(each) < 16 and each.isascii() and each.isdecimal() for each in given):
        raise ValueError("from_ms and to_ms say a window, at_ms a moment in it: numbers of ms since 1970")
    from_ms, at_ms, to_ms = map(int, given)
    if not from_ms <= at_ms <= to_ms or not WINDOW_MIN_MS <= to_ms - from_ms <= WINDOW_MAX_MS:
        raise ValueError(f"a window from {WINDOW_MIN_MS} to {WINDOW_MAX_MS} ms wide, with the moment in it")
    if at_ms > now_ms:
        raise ValueError("that time has not come yet")
    return Window(from_ms, at_ms, to_ms)


async def lanes(request: Request) -> dict[str, Any]:
    """What a view shows, as it was; the keys are those of the live answer."""
    asked = request.query_params
    try:
        view = view_of(asked.get("topic", ""), asked.get("partition", ""), "")
        window = window_of(asked, RealClock().now_ms())
    except ValueError as error:
        raise InvalidArgument(str(error)) from None
    return await _unless_gone(request, _answer(request, view, window))


async def _unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Whoever goes on to the next window has this one read no further."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    tasks = Tasks()
    working = tasks.start(work)
    try:
        await asyncio.wait((working, tasks.start(gone())), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise TooManyLooks("nobody waits for it any more")
        return working.result()
    finally:
        await tasks.close()


async def _answer(request: Request, view: View, window: Window) -> dict[str, Any]:
    state = request.app.state
    looks: PastLooks = state.past
    admin = await admin_of(request)
    topics = await state.watch.known_topics(admin)
    shown, left_out = partitions_shown(topics, view)
    async with looks.turn():
        found = await PastReading(admin).open_past(shown, window)
    read = list(found.values())
    absent = [f"topic {each}" for each in view.topics if each not in topics]
    absent += [f"partition {each}" for each in view.partitions if all(at.partition != each for at in shown)]
    why = "there is none of that name now, or it may not be seen"
    missing = [{"what": each, "error": "UNKNOWN_TOPIC_OR_PARTITION", "why": why} for each in absent]
    missing += [{"what": str(each.where), "error": each.error, "why": each.error_text} for each in read if each.error]
    names = await _names(admin, read, missing)
    past = PastView(window.at_ms, window.to_ms - window.from_ms, tuple(read), names, to_ms=window.to_ms)
    opened = past.open()
    letters = {each.producer_id: each.letter for each in opened}
    gap_ms = gap_of(sum(len(each.done) for each in read), past.window_ms)
    return {
        "version": 0,
        "now_ms": window.at_ms,
        "since_ms": window.from_ms,
        "to_ms": window.to_ms,
        "window_ms": past.window_ms,
        "is_whole": True,
        "cluster": state.watch.cluster_id,
        "error": None,
        "verdict": past.verdict() if read else NOTHING,
        "left_out": left_out,
        "producers": [[exact(each), name] for each, name in sorted(names.items())],
        "partitions": [_partition(past, each, gap_ms) for each in read],
        "open": [open_row(past, each) | {"verdict": "open", "future": past.became(each)} for each in opened],
        "causes": _cards(state.settings, past, letters),
        "not_read": missing,
        "notes": _notes(past),
    }


async def _names(admin: Admin, read: list[PastLane], missing: list[dict[str, str]]) -> dict[int, str]:
    """Of whoever is on the lanes, where its coordinator has not forgotten it."""
    spans = [each for lane in read for each in [*lane.done, *lane.open.values(), *lane.later]]
    try:
        listed = (
            await admin.list_transactions(producer_ids=sorted({each.producer_id for each in spans})) if spans else []
        )
    except KafkaError as error:
        lost = not_read("the names of producers", error, "")
        missing.append({"what": lost.what, "error": lost.error, "why": lost.why})
        return {}
    return {each.producer_id: each.transactional_id for each in listed}


def _partition(past: PastView, lane: PastLane, gap_ms: float) -> dict[str, Any]:
    done = merged(lane.done, gap_ms) if gap_ms else list(lane.done)
    held = lane.held(past.to_ms)
    return partition_row(past, lane, [*done, *lane.open.values(), *lane.later]) | {
        "held": [
            [
                *(exact(each.first_offset), exact(each.marker_offset)),
                each.begin_ms,
                each.end_ms,
                exact(each.producer_id),
            ]
            for each in held
        ],
        "from_offset": exact(lane.first_read_offset),
        "end_offset": exact(lane.end_offset),
        "read_to_ms": None if lane.is_read_to_end else lane.last_ms,
    }


def _cards(settings: Settings, past: PastView, letters: Mapping[int, str]) -> list[dict[str, Any]]:
    """Who held readers back in the window: one card for each producer, who did so at the moment first."""
    by_producer: dict[int, list[tuple[PastLane, Span]]] = {}
    for lane in past.lanes:
        assert isinstance(lane, PastLane)
        for span in lane.held(past.to_ms):
            by_producer.setdefault(span.producer_id, []).append((lane, span))
    found = [_card(settings, past, each, letters.get(each)) | _told(past, held) for each, held in by_producer.items()]
    return sorted(found, key=lambda card: (card["letter"] is None, -card["held_ms"]))[:CARDS_MAX]


def _card(settings: Settings, past: PastView, producer_id: int, letter: str | None) -> dict[str, Any]:
    name = past.names.get(producer_id)
    command = "" if name is None else settings.repair("transactions", "history", Name(name))
    return {"letter": letter, "transactional_id": name, "producer_id": exact(producer_id), "command": command}


def _told(past: PastView, held: list[tuple[PastLane, Span]]) -> dict[str, Any]:
    def length_ms(each: tuple[PastLane, Span]) -> int:
        lane, span = each
        begin_ms = lane.complete_from_ms if span.begin_ms is None else span.begin_ms
        return (past.to_ms if span.end_ms is None else span.end_ms) - begin_ms

    longest = max(held, key=length_ms)
    lane, span = longest
    places = list(dict.fromkeys(str(each.where) for each, _ in held))
    since = "before what was read" if span.begin_ms is None else moment_text(span.begin_ms)
    until = "on, and no marker of it was read" if span.end_ms is None else f"to {clock_text(span.end_ms)}"
    is_least = span.begin_ms is None or not span.is_begin_known or span.end_ms is None
    length = f"{'at least ' if is_least else ''}{age_text(length_ms(longest))}"
    times = f" {len(held)} times" if len(held) > len(places) else ""
    whom = f"readers of {counted(len(places), 'partition')} back{times}, the longest those of {lane.where}:"
    stood = f"read_committed stood at offset {span.first_offset}{'' if span.is_begin_known else ' or before'}"
    passed = "" if span.marker_offset is None else f", until its marker at {span.marker_offset}"
    return {
        "kind": {OPEN: "open", COMMITTED: "committed"}.get(span.outcome, "aborted"),
        "what": f"held {whom if len(held) > 1 else f'readers of {lane.where} back'} from {since} {until}: {length}",
        "why": f"{stood}, where its first record is{passed}",
        "advice": f"It is {lane.became(span)}." if span.outcome == OPEN else f"It was {lane.became(span)}.",
        "producer_epoch": span.producer_epoch,
        "age_ms": None,
        "partitions": places,
        "open_on": [],
        "groups": [],
        "held_ms": length_ms(longest),
    }


def _notes(past: PastView) -> list[str]:
    """What is not known of this time."""
    found = []
    for lane in past.lanes:
        assert isinstance(lane, PastLane)
        if not lane.is_before_known and not lane.error:
            text = f"who had begun before {clock_text(lane.complete_from_ms)} could not be asked"
            found.append(f"{lane.where}: {text}: somebody may have held readers back who is not shown.")
        if lane.deleted_text and not lane.error:
            found.append(f"{lane.where}: {lane.deleted_text}.")
        if not lane.is_read_to_end and not lane.error and lane.last_ms is not None:
            begin = clock_text(lane.complete_from_ms)
            text = f"who began before {begin} and was committed later than that is not seen"
            found.append(f"{lane.where} was read up to {moment_text(lane.last_ms)}: {text}.")
        if lane.unsure_then:
            names = list(dict.fromkeys(past.name_of(each.producer_id) for each in lane.unsure_then))
            told = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            text = "ended what began before what was read, or what wrote nothing here: whether it held readers back is not known"
            found.append(f"{lane.where}: a later marker of {told} {text}.")
    return [*found[:NOTES_MAX], *([f"and {len(found) - NOTES_MAX} more such notes"] if len(found) > NOTES_MAX else [])]
