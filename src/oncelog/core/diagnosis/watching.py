"""From look to look: since when a partition's last stable offset stands, how fast it moved before, and what rings.

Words: *active* (nothing is held back), *waiting* (held back for a moment, as in every healthy system), *stopped* (for 10 s or
longer, and longer than three times what the holder's id usually takes), *offline* (cannot be asked).
"""

from __future__ import annotations

import statistics
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from oncelog.core.diagnosis.facts import OpenTransaction, Owner, PartitionFacts
from oncelog.core.diagnosis.transactions import ENDING, transaction_verdict
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition

ACTIVE, WAITING, STOPPED, OFFLINE = "active", "waiting", "stopped", "offline"
WORDS = (ACTIVE, WAITING, STOPPED, OFFLINE)
STOPPED_MS = 10_000
USUAL_FACTOR = 3
USUAL_KEPT, USUAL_NEEDED, USUAL_IDS_MAX = 5, 3, 1_000
TREND_MS, TREND_KEPT = 60_000, 12


@dataclass(frozen=True, slots=True)
class WatchedPartition:
    """A partition after a look. Rates are offsets per second over the last minute, None where it was seen once only."""

    facts: PartitionFacts
    word: str
    blocked_ms: int = 0
    holder: OpenTransaction | None = None
    last_stable_offset_rate: float | None = None
    high_watermark_rate: float | None = None

    @property
    def where(self) -> TopicPartition:
        """Which."""
        return self.facts.where


@dataclass(frozen=True, slots=True)
class Picture:
    """All that is known after a look. `rung` began to ring in this look, `over` no longer do; `still_ending` are producer ids
    whose decided transactions have waited for their markers for 10 s."""

    partitions: tuple[WatchedPartition, ...]
    alerts: tuple[WatchedPartition, ...] = ()
    rung: tuple[WatchedPartition, ...] = ()
    over: tuple[WatchedPartition, ...] = ()
    still_ending: frozenset[int] = frozenset()

    def count(self, word: str) -> int:
        """How many partitions are that."""
        return sum(each.word == word for each in self.partitions)

    @property
    def verdict(self) -> str:
        """The worst word of all partitions."""
        words = {each.word for each in self.partitions}
        return next((word for word in (STOPPED, OFFLINE, WAITING) if word in words), ACTIVE)

    @property
    def blocked(self) -> list[WatchedPartition]:
        """Those that are held back, the longest first."""
        held = [each for each in self.partitions if each.word in (WAITING, STOPPED)]
        return sorted(held, key=lambda each: (-each.blocked_ms, each.where))


@dataclass(slots=True)
class _Memory:
    """What is remembered of a partition. `since_ms` None: it was not held back."""

    seen_ms: int
    last_stable_offset: int
    since_ms: int | None
    samples: deque[tuple[int, int, int]]  # when, last stable offset, high watermark


class Watching:
    """The memory between looks; bounded by the partitions that exist."""

    def __init__(self, alert_after_ms: int) -> None:
        self._alert_after_ms = alert_after_ms
        self._partitions: dict[TopicPartition, _Memory] = {}
        self._shown: dict[TopicPartition, WatchedPartition] = {}
        self._ringing: dict[TopicPartition, int] = {}  # with the last stable offset that rang
        self._lasting: dict[str, int] = {}  # for how long an id's open transaction has been seen to last
        self._usual: OrderedDict[str, deque[int]] = OrderedDict()
        self._ending: dict[int, int] = {}  # since when a producer's decided transaction is seen

    @property
    def held(self) -> list[TopicPartition]:
        """Those that were held back when they were last looked at."""
        return [where for where, memory in self._partitions.items() if memory.since_ms is not None]

    def looked(
        self,
        exists: Collection[TopicPartition],
        seen: Iterable[PartitionFacts],
        opened: Iterable[OpenTransaction],
        owners: Iterable[Owner] | None,
        now_ms: int,
    ) -> Picture:
        """Take in a look at `now_ms`: `seen` are the partitions that were asked, `opened` the transactions on them, `owners`
        all that are open as their coordinators tell (None: not asked). What was not asked is shown as it was."""
        opened = tuple(opened)
        by_place = _first_of_each(opened)
        if owners is not None:
            self._learn(owners)
        for each in seen:
            self._shown[each.where] = self._watched(each, by_place.get(each.where), now_ms)
        for where in self._shown.keys() - set(exists):
            for known in (self._shown, self._partitions, self._ringing):
                known.pop(where, None)
        decided = {each.producer_id for each in opened if transaction_verdict(each) == ENDING}
        self._ending = {producer_id: self._ending.get(producer_id, now_ms) for producer_id in decided}
        late = frozenset(each for each, since_ms in self._ending.items() if now_ms - since_ms >= STOPPED_MS)
        alerts, rung, over = self._alerts()
        return Picture(tuple(self._shown[at] for at in sorted(self._shown)), alerts, rung, over, late)

    def _watched(self, facts: PartitionFacts, holder: OpenTransaction | None, now_ms: int) -> WatchedPartition:
        where, memory = facts.where, self._partitions.get(facts.where)
        if facts.last_stable_offset is None or facts.high_watermark is None:
            held_ms = 0 if memory is None or memory.since_ms is None else now_ms - memory.since_ms
            return WatchedPartition(facts, OFFLINE, held_ms)
        since_ms = self._since_ms(facts, holder, memory, now_ms)
        samples = deque[tuple[int, int, int]](maxlen=TREND_KEPT) if memory is None else memory.samples
        if not samples or now_ms - samples[-1][0] >= TREND_MS // TREND_KEPT:
            samples.append((now_ms, facts.last_stable_offset, facts.high_watermark))
        self._partitions[where] = _Memory(now_ms, facts.last_stable_offset, since_ms, samples)
        then_ms, stable, end = samples[0]
        watched = WatchedPartition(facts, ACTIVE)
        if now_ms > then_ms:
            seconds = (now_ms - then_ms) / 1000
            rates = ((facts.last_stable_offset - stable) / seconds, (facts.high_watermark - end) / seconds)
            watched = replace(watched, last_stable_offset_rate=rates[0], high_watermark_rate=rates[1])
        if since_ms is None:
            return watched
        blocked_ms = now_ms - since_ms
        word = STOPPED if blocked_ms >= self._patience_ms(holder) else WAITING
        return replace(watched, word=word, blocked_ms=blocked_ms, holder=holder)

    @staticmethod
    def _since_ms(
        facts: PartitionFacts, holder: OpenTransaction | None, memory: _Memory | None, now_ms: int
    ) -> int | None:
        """Since when it is held back here: since the look before this one at the earliest, where the offset moved since then;
        else for as long as its holder is open."""
        if not facts.blocked:
            return None
        if memory is not None and memory.since_ms is not None and memory.last_stable_offset == facts.last_stable_offset:
            return memory.since_ms
        begun_ms = now_ms - holder.age_ms if holder is not None else now_ms
        return begun_ms if memory is None else max(begun_ms, memory.seen_ms)

    def _patience_ms(self, holder: OpenTransaction | None) -> float:
        known = self._usual.get(holder.owner.transactional_id) if holder is not None and holder.owner else None
        if known is None or len(known) < USUAL_NEEDED:
            return STOPPED_MS
        return max(STOPPED_MS, USUAL_FACTOR * statistics.median(known))

    def _learn(self, owners: Iterable[Owner]) -> None:
        """What an id's transactions usually take: those that were seen open, and then no more."""
        lasting = {each.transactional_id: each.duration_ms for each in owners if each.duration_ms is not None}
        for name, duration_ms in self._lasting.items():
            if lasting.get(name, -1) >= duration_ms:
                continue  # the same one, still open
            self._usual.setdefault(name, deque(maxlen=USUAL_KEPT)).append(duration_ms)
            self._usual.move_to_end(name)
        while len(self._usual) > USUAL_IDS_MAX:
            self._usual.popitem(last=False)
        self._lasting = lasting

    def _alerts(
        self,
    ) -> tuple[tuple[WatchedPartition, ...], tuple[WatchedPartition, ...], tuple[WatchedPartition, ...]]:
        held = [each for each in self._shown.values() if each.blocked_ms >= max(1, self._alert_after_ms)]
        held.sort(key=lambda each: (-each.blocked_ms, each.where))
        now = {each.where: self._partitions[each.where].last_stable_offset for each in held}
        rung = tuple(each for each in held if self._ringing.get(each.where) != now[each.where])
        over = tuple(self._shown[where] for where in self._ringing.keys() - now.keys() if where in self._shown)
        self._ringing = now
        return tuple(held), rung, over


def _first_of_each(opened: Iterable[OpenTransaction]) -> Mapping[TopicPartition, OpenTransaction]:
    """The transaction that holds each partition's last stable offset."""
    found: dict[TopicPartition, OpenTransaction] = {}
    for each in opened:
        if each.start_offset is None:
            continue
        before = found.get(each.where)
        if before is None or before.start_offset is None or each.start_offset < before.start_offset:
            found[each.where] = each
    return found
