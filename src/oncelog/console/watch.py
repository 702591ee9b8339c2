"""The one reader that all pages share: who looks says at what, and only that is read; nobody watching, nothing asked.

Each second what is new of the partitions on the screen; when something is open for longer than a second, whose it is; every few
seconds topics, names, positions of groups. A broker that is away is waited for, and `error` says so until it is back.
Bounds: `PARTITIONS_MAX` lanes, `GROUPS_MAX` groups, `VIEWERS_MAX` viewers (the gate's streams).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from functools import partial
from typing import Any

from oncelog.cli.command import Settings
from oncelog.cli.hidden import TOPICS
from oncelog.cli.numbers import is_number
from oncelog.cli.output import Failed, error_name
from oncelog.cli.transactions.group_scope import GroupScope
from oncelog.cli.why.looking import Looking, not_read
from oncelog.client.admin.admin import Admin
from oncelog.client.admin.lane_reading import LaneReading
from oncelog.client.admin.lanes import WINDOW_MS
from oncelog.client.cluster.view import TopicView
from oncelog.console.group_judging import GROUP_KINDS, GroupJudge, described, positions_of
from oncelog.console.judging import Judge, Judgement, as_read_by, facts_of_lane
from oncelog.console.long_look import BeingRead, LongLook, Progress
from oncelog.console.unseen import as_row, unseen
from oncelog.core.diagnosis import causes as kinds
from oncelog.core.diagnosis.facts import NotRead, PartitionFacts
from oncelog.core.lanes.lane import Lane
from oncelog.core.lanes.view import CALM_MS, LanesView, Position
from oncelog.errors import (
    ErrorCode,
    InvalidTopic,
    KafkaError,
    OncelogError,
    RequestTimedOut,
    TopicAuthorization,
    UnknownTopicOrPartition,
    code_name,
)
from oncelog.host.clock import RealClock
from oncelog.host.tasks import Tasks
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition

log = logging.getLogger("oncelog.console")

LOOK_EVERY_S = 1.0
JUDGE_EVERY_MS = 2_000
TOPICS_EVERY_MS = 10_000
GROUPS_EVERY_MS = 5_000
RETRY_EVERY_S = 2.0
YOUNG_MS = 1_000
PARTITIONS_MAX = 40
PARTITIONS_PER_VIEW = 20
GROUPS_MAX = 40
ROUNDS_MAX = 8
MANY = 2_000  # partitions: a look at so many is shared by all pages for a while
KEPT_S = 30.0
ASKED_AT_ONCE = 500  # so few that a slow broker answers in time

Connect = Callable[[], AbstractAsyncContextManager[Admin]]


@dataclass(frozen=True)
class View:
    """What somebody looks at. `topics`: these; none: the first of all that are not internal. `window_ms`: how far back."""

    topics: tuple[str, ...] = ()
    partitions: tuple[int, ...] = ()
    window_ms: int = WINDOW_MS


@dataclass
class Watch:
    """Reads for whoever watches. `changed` is a new event for each look."""

    settings: Settings
    connect: Connect
    admin: Admin | None = None
    reading: LaneReading | None = None
    topics: Mapping[str, TopicView] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    positions: list[Position] = field(default_factory=list)
    judgement: Judgement = field(default_factory=Judgement)
    group_causes: list[dict[str, Any]] = field(default_factory=list)
    groups_not_read: list[NotRead] = field(default_factory=list)
    refused: frozenset[str] = frozenset()
    """Topics that a view names and that may not be seen."""
    topics_hidden: list[NotRead] = field(default_factory=list)
    """Why a view that names no topic may not show all."""
    held: tuple[TopicPartition, ...] = ()
    """Partitions that are held back, where some view cannot show all: these are shown first."""
    error: tuple[str, str] | None = None
    cluster_id: str | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    nonce: str = field(default_factory=lambda: secrets.token_hex(4))
    is_stopping: bool = False
    look_count: int = 0
    seen: dict[TopicPartition, int] = field(default_factory=dict)
    """The lanes that a whole look has read, with the window that was read."""
    tasks: Tasks = field(default_factory=Tasks)
    _views: list[View] = field(default_factory=list)
    _wanted: asyncio.Event = field(default_factory=asyncio.Event)
    _due_ms: dict[str, int] = field(default_factory=dict)
    _judge: Judge | None = None
    _groups: GroupJudge | None = None
    _known: LongLook[Mapping[str, TopicView]] = field(init=False)
    _held: LongLook[tuple[TopicPartition, ...]] = field(init=False)
    _open_at: set[tuple[TopicPartition, int]] = field(default_factory=set)
    """Where transactions were open at the last look at all partitions, with their first offsets."""

    def __post_init__(self) -> None:
        self._known = LongLook(self.tasks, "the list of topics")
        self._held = LongLook(self.tasks, "what is held back", "partitions")

    @contextlib.contextmanager
    def watched(self, view: View) -> Iterator[None]:
        """Read what this view shows for as long as the block lasts."""
        self._views.append(view)
        self._due_ms.pop("topics", None)
        self._wanted.set()
        try:
            yield
        finally:
            self._views.remove(view)
            if not self._views:
                self._wanted.clear()

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                async with self.connect() as self.admin:
                    self.reading, self._judge = LaneReading(self.admin), Judge(self.settings)
                    self._groups = GroupJudge(self.settings)
                    self.error, self.seen = None, {}
                    self._announce()
                    await self._look_on(self.admin)
            except (OncelogError, OSError) as error:
                self._tell(error)
            finally:
                self.admin = None
            await asyncio.sleep(RETRY_EVERY_S)

    def stop(self) -> None:
        """End all streams."""
        self.is_stopping = True
        self._announce()

    def _tell(self, error: BaseException) -> None:
        hint = f" ({error.hint})" if isinstance(error, Failed) and error.hint else ""
        self.error = (error_name(error), f"{error}{hint}")
        self._announce()

    def _announce(self) -> None:
        before, self.changed = self.changed, asyncio.Event()
        before.set()

    async def _look_on(self, admin: Admin) -> None:
        while True:
            await self._wanted.wait()
            try:
                self.error = await self.look(admin)
                self.look_count += 1
            except (KafkaError, BeingRead) as error:
                # The client goes on trying: what is shown stays, and says that it is old. What this look did not come to is
                # opened with the next one, not ten seconds later.
                self._due_ms.pop("topics", None)
                self._tell(error)
            self._announce()
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self, admin: Admin) -> tuple[str, str] | None:
        """One look at all that is on some screen. Where nothing of it can be read: the error's name, and what it says."""
        now_ms = RealClock().now_ms()
        reading, wanted = self.reading, dict[TopicPartition, int]()
        assert reading is not None
        if self._is_due("topics", TOPICS_EVERY_MS, now_ms):
            self.topics = await self._topics_on_screen(admin)
            self.cluster_id = self.cluster_id or (await admin.describe_cluster()).cluster_id
            wanted = self._on_screen()
            self.seen = {at: each for at, each in self.seen.items() if at in wanted and each >= wanted[at]}
            reading.close([at for at in reading.lanes if at not in wanted])
            for window_ms in sorted(set(wanted.values())):
                await reading.open([at for at, each in wanted.items() if each == window_ms], window_ms)
        for _ in range(ROUNDS_MAX):
            if not await reading.read():
                break
        if wanted.keys() - self.seen.keys():
            self._due_ms.pop("names", None)
        lanes = list(reading.lanes.values())
        if lanes and all(each.error is not None for each in lanes):
            self.seen |= wanted
            if any(each.error in kinds.NOBODY_SERVES for each in lanes):  # what their coordinators know is told
                await self._look_at_open(admin, reading, now_ms)
            return lanes[0].error or "", f"nothing can be read: {lanes[0].error}: {lanes[0].error_text}"
        for lane in lanes:
            lane.forget_before(now_ms - max((each.window_ms for each in self._views), default=WINDOW_MS))
        try:
            await self._look_at_open(admin, reading, now_ms)
            await self._look_for_names(admin, reading, now_ms)
        finally:  # with their names, where those can be had
            self.seen |= wanted
        if self._is_due("groups", GROUPS_EVERY_MS, now_ms):
            await self._look_at_groups(admin, reading, now_ms)
        return None

    async def known_topics(self, admin: Admin) -> Mapping[str, TopicView]:
        """All topics; of many partitions as of `KEPT_S` ago at most: 40,000 are not read anew for every page turned.

        Raises BeingRead where that takes long and was never done.
        """
        read = partial(self._list_topics, admin)
        return (await self._known.get(lambda _: read(), lambda found: KEPT_S if are_many(found) else 0.0)).value

    async def _list_topics(self, admin: Admin) -> Mapping[str, TopicView]:
        try:
            return await admin.list_topics(include_internal=True)
        except RequestTimedOut as error:
            if error.__cause__ is not None:  # nobody is reached
                raise
        await admin.describe_cluster()  # whoever does not answer this, either, stands still
        # It answers slowly: the list may be long.
        return await admin.list_topics(include_internal=True, timeout_ms=self.settings.timeout_ms)

    async def _topics_on_screen(self, admin: Admin) -> Mapping[str, TopicView]:
        """All topics, and those that a view names and that were made since."""
        known, refused = await self.known_topics(admin), set()
        for name in {each for view in self._views for each in view.topics if each not in known}:
            try:
                known = {**known, **await admin.describe_topics([name])}
            except TopicAuthorization:  # it is one page's, and hides nothing from the others
                refused.add(name)
            except (UnknownTopicOrPartition, InvalidTopic):
                continue
        self.refused = frozenset(refused)
        if any(not view.topics for view in self._views):
            self.topics_hidden = await unseen(admin, TOPICS)
        with contextlib.suppress(BeingRead, KafkaError):  # then what shows by name is shown
            await self._look_for_held(admin, known)
        return known

    async def _look_for_held(self, admin: Admin, topics: Mapping[str, TopicView]) -> None:
        """Where views cannot show all of their partitions: which are held back, so that these are shown."""
        wanted = {view for view in self._views if partitions_shown(topics, view)[1]}
        if not wanted:
            self.held = ()
            return

        named, has_all = {name for view in wanted for name in view.topics}, any(not view.topics for view in wanted)

        async def read(progress: Progress) -> tuple[TopicPartition, ...]:
            shown = [each for each in topics.values() if each.name in named or (has_all and not each.is_internal)]
            return await self._held_of(admin, shown, progress)

        kept = await self._held.get(read, lambda _: KEPT_S if are_many(topics) else TOPICS_EVERY_MS / 1000)
        self.held = kept.value

    async def _held_of(
        self, admin: Admin, topics: Sequence[TopicView], progress: Progress
    ) -> tuple[TopicPartition, ...]:
        """Partitions with a transaction that was open at the last look, too, or was quiet for long: the oldest first."""
        everywhere = (TopicPartition(view.name, n) for view in topics for n in sorted(view.partitions))
        now_ms, found = RealClock().now_ms(), list[tuple[int, TopicPartition, int]]()
        while part := list(itertools.islice(everywhere, ASKED_AT_ONCE)):
            described = await admin.describe_producers(part, unreadable={})
            progress.advance(len(part), is_heard=bool(described))
            for at, producers in described.items():
                opened = [each for each in producers if each.transaction_start_offset is not None]
                if opened:
                    first = min(opened, key=lambda each: each.transaction_start_offset or 0)
                    found.append((first.last_timestamp_ms, at, first.transaction_start_offset or 0))
        before, self._open_at = self._open_at, {(at, offset) for _, at, offset in found}
        old = [each for each in found if now_ms - each[0] > CALM_MS or each[1:] in before]
        return tuple(at for _, at, _ in sorted(old))

    def _is_due(self, what: str, every_ms: int, now_ms: int) -> bool:
        if now_ms < self._due_ms.get(what, 0):
            return False
        self._due_ms[what] = now_ms + every_ms
        return True

    def _on_screen(self) -> dict[TopicPartition, int]:
        """The partitions of all views with the longest window that one asks for."""
        wanted: dict[TopicPartition, int] = {}
        for view in self._views:
            for at in self.partitions_of(view):
                if at in wanted or len(wanted) < PARTITIONS_MAX:
                    wanted[at] = max(wanted.get(at, 0), view.window_ms)
        return wanted

    def partitions_of(self, view: View) -> list[TopicPartition]:
        """What a view shows."""
        return partitions_shown(self.topics, view, self.held)[0]

    def not_there(self, view: View) -> list[dict[str, str]]:
        """What a view asks for and does not get, as rows of `not_read`: what there is not, and what is one lane too many."""
        names = [f"topic {each}" for each in view.topics if each not in self.topics and each not in self.refused]
        shown = self.partitions_of(view)
        numbers = [f"partition {each}" for each in view.partitions if all(at.partition != each for at in shown)]
        why = "there is none of that name, or it may not be seen"
        rows = [{"what": each, "error": "UNKNOWN_TOPIC_OR_PARTITION", "why": why} for each in names or numbers]
        hidden = [] if view.topics else self.topics_hidden
        rows += [as_row(each) for each in (*hidden, *self.rights_missing(view))]
        wanted = self._on_screen()
        if crowded := [at for at in shown if at not in wanted]:
            what = f"{crowded[0]}" + (f" and {len(crowded) - 1} more" if len(crowded) > 1 else "")
            why = f"other pages look at the {PARTITIONS_MAX} partitions that are read at a time: close some"
            rows.append({"what": what, "error": "TOO_MANY", "why": why})
        why = "its first look takes long: ask again in a moment"
        rows += [
            {"what": str(at), "error": "NOT_READ_YET", "why": why}
            for at in shown
            if at in wanted and at not in self.seen
        ]
        return rows

    def rights_missing(self, view: View) -> list[NotRead]:
        """Topics of a view that may not be seen, or not be read."""
        lanes = {} if self.reading is None else self.reading.lanes
        shown = [lanes[at] for at in self.partitions_of(view) if at in lanes]
        denied = [each.where.topic for each in shown if each.error == code_name(ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
        names = dict.fromkeys([*(each for each in view.topics if each in self.refused), *denied])
        return [not_read(f"topic {each}", TopicAuthorization(each), each) for each in names]

    def has_seen(self, view: View) -> bool:
        """Whether a whole look has read all that a view shows, as far back as it asks for."""
        wanted = self._on_screen()
        shown = [at for at in self.partitions_of(view) if at in wanted]
        return bool(shown) and all(self.seen.get(at, -1) >= view.window_ms for at in shown)

    async def _look_at_open(self, admin: Admin, reading: LaneReading, now_ms: int) -> None:
        """Whose open transactions are, once they are older than a moment."""
        lanes = list(reading.lanes.values())
        is_old = any(now_ms - (span.begin_ms or 0) > YOUNG_MS for lane in lanes for span in lane.open.values())
        is_blocked = any((lane.blocked and not lane.open) or lane.error for lane in lanes)
        if not is_old and not is_blocked:
            self.judgement = Judgement(seen_ms=now_ms)
            return
        if not self._is_due("judge", JUDGE_EVERY_MS, now_ms):
            return
        assert self._judge is not None
        facts = [facts_of_lane(lane, self.topics) for lane in lanes if lane.open or lane.blocked or lane.error]
        self.judgement = await self._judge.look(admin, self.topics, facts, now_ms)
        for each in self.judgement.open:
            if each.owner is not None:
                self.names[each.producer_id] = each.owner.transactional_id

    async def _look_for_names(self, admin: Admin, reading: LaneReading, now_ms: int) -> None:
        """Names of producer ids stay: an id is never given to another name."""
        seen = {span.producer_id for lane in reading.lanes.values() for span in [*lane.done, *lane.open.values()]}
        self.names = {each: name for each, name in self.names.items() if each in seen}
        if (unknown := sorted(seen - self.names.keys())) and self._is_due("names", JUDGE_EVERY_MS, now_ms):
            for each in await admin.list_transactions(producer_ids=unknown):
                self.names[each.producer_id] = each.transactional_id

    async def _look_at_groups(self, admin: Admin, reading: LaneReading, now_ms: int) -> None:
        """Where groups stand in the lanes, and what such groups stand still for beside transactions."""
        assert self._groups is not None
        looking = Looking(admin, self.topics)
        try:
            names = [each.group_id for each in await admin.list_groups()][:GROUPS_MAX]
        except KafkaError as error:
            self.positions, self.group_causes = [], []
            self.groups_not_read = [not_read("the list of groups", error, "")]
            return
        in_lanes = {
            name: {at: each for at, each in offsets.items() if at in reading.lanes}
            for name, offsets in (await positions_of(looking, names)).items()
        }
        in_lanes = {name: offsets for name, offsets in in_lanes.items() if offsets}
        known = await described(admin, list(in_lanes))
        scopes = {
            name: GroupScope(name, tuple(offsets), offsets, frozenset(), None, known.get(name))
            for name, offsets in in_lanes.items()
        }
        self.positions = [each for scope in scopes.values() for each in _positions(scope, reading.lanes)]

        def facts_of(scope: GroupScope) -> tuple[PartitionFacts, ...]:
            return tuple(as_read_by(scope, facts_of_lane(reading.lanes[at], self.topics)) for at in scope.partitions)

        found = await self._groups.look(looking, scopes, facts_of, now_ms, in_lanes)
        self.group_causes = [each for rows in found.values() for each in rows if each["kind"] in GROUP_KINDS]
        self.groups_not_read = looking.not_read

    def lanes_of(self, view: View) -> LanesView:
        """What a view shows, now."""
        lanes = {} if self.reading is None else self.reading.lanes
        shown = tuple(lanes[at] for at in self.partitions_of(view) if at in lanes and at in self.seen)
        where = {each.where for each in shown}
        positions = [each for each in self.positions if each.where in where]
        now_ms = RealClock().now_ms()
        return LanesView(
            *(now_ms, view.window_ms, shown, self.names, self.judgement.judged, positions),
            left_out=partitions_shown(self.topics, view)[1],
            is_all=bool(view.topics) or not self.topics_hidden,
        )

    @property
    def version(self) -> int:
        """Grows with each read."""
        return 0 if self.reading is None else self.reading.version


def are_many(topics: Mapping[str, TopicView]) -> bool:
    """Whether there are so many partitions that a look at all is shared."""
    return sum(len(each.partitions) for each in topics.values()) > MANY


def partitions_shown(
    topics: Mapping[str, TopicView], view: View, first: Sequence[TopicPartition] = ()
) -> tuple[list[TopicPartition], int]:
    """What a view shows, and how many partitions it leaves out. `first`: those that are shown before others, where it could
    show them."""
    names = view.topics or tuple(name for name, topic in topics.items() if not topic.is_internal)
    chosen = [topics[name] for name in names if name in topics]
    found = (
        TopicPartition(topic.name, number)
        for topic in chosen
        for number in sorted(topic.partitions)
        if not view.partitions or number in view.partitions
    )
    # Asked for several times a second, of up to ten thousand topics: counted by the topic, and made only where it is shown.
    count = sum(
        len(topic.partitions) if not view.partitions else sum(each in topic.partitions for each in view.partitions)
        for topic in chosen
    )
    left_out = max(0, count - PARTITIONS_PER_VIEW)
    if not left_out or not first:
        return list(itertools.islice(found, PARTITIONS_PER_VIEW)), left_out
    of_view = {each.name: each for each in chosen}
    pressing = [
        at
        for at in first
        if at.topic in of_view
        and at.partition in of_view[at.topic].partitions
        and (not view.partitions or at.partition in view.partitions)
    ][:PARTITIONS_PER_VIEW]
    taken = set(pressing)
    rest = itertools.islice((at for at in found if at not in taken), PARTITIONS_PER_VIEW - len(pressing))
    order = {name: place for place, name in enumerate(of_view)}
    return sorted([*pressing, *rest], key=lambda at: (order[at.topic], at.partition)), left_out


def _positions(scope: GroupScope, lanes: Mapping[TopicPartition, Lane]) -> Iterator[Position]:
    for at, each in scope.positions.items():
        stable, end = lanes[at].last_stable_offset, lanes[at].high_watermark
        if stable is not None and end is not None:
            readable, held = max(0, stable - each.offset), max(0, end - max(stable, each.offset))
            yield Position(scope.name, at, each.offset, readable, held, max(0, end - each.offset))


def view_of(topics: str, partitions: str, window_ms: str) -> View:
    """A view from an address's parameters. Raises ValueError."""
    names = tuple(dict.fromkeys(each for each in topics.split(",") if each))
    numbers = tuple(dict.fromkeys(each for each in partitions.split(",") if each))
    if len(names) > PARTITIONS_PER_VIEW or len(numbers) > PARTITIONS_PER_VIEW:
        raise ValueError(f"at most {PARTITIONS_PER_VIEW} topics, and as many partitions, on one page")
    if not all(map(is_number, numbers)):
        raise ValueError(f"partition={partitions}: numbers, with commas between them")
    view = View(names, tuple(map(int, numbers)))
    if not window_ms:
        return view
    window = int(window_ms) if is_number(window_ms) else 0
    if not 5_000 <= window <= 3_600_000:
        raise ValueError("window_ms must be between 5000 and 3600000")
    return dataclasses.replace(view, window_ms=window)
