"""What rings beside readers that are held back: partitions that nobody serves, markers that do not arrive, coordinators that
do not answer. Nobody is held back there that a look could count: it does not see who cannot write, or who waits for a marker.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from oncelog.core.diagnosis.facts import Owner
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition

OFFLINE, MARKER_STUCK, SILENT = "offline", "marker stuck", "silent"


@dataclass(frozen=True, slots=True)
class Alarm:
    """`name`: the partition, the transactional id, or what could not be read. `where`: the partitions that it is about.
    `is_at_once`: no time mends it, so that one look is enough to ring."""

    kind: str
    name: str
    where: tuple[TopicPartition, ...] = ()
    owner: Owner | None = None
    is_at_once: bool = False
    lasting_ms: int = 0

    @property
    def key(self) -> tuple[object, ...]:
        """The same from look to look."""
        owner = self.owner
        return (self.kind, self.name, *((owner.producer_id, owner.producer_epoch, owner.state) if owner else ()))


@dataclass(frozen=True, slots=True)
class Ringing:
    """After a look: what rings, what of it began to, and what is over."""

    now: tuple[Alarm, ...] = ()
    rung: tuple[Alarm, ...] = ()
    over: tuple[Alarm, ...] = ()


class Alarms:
    """The memory between looks; bounded by what was seen in the last one. `is_only_look`: nobody looks again, so that what is
    offline rings without having lasted."""

    def __init__(self, alert_after_ms: int, *, is_only_look: bool = False) -> None:
        self._alert_after_ms = alert_after_ms
        self._is_only_look = is_only_look
        self._since_ms: dict[tuple[object, ...], int] = {}
        self._ringing: dict[tuple[object, ...], Alarm] = {}

    @property
    def is_only_look(self) -> bool:
        """Whether nobody looks again."""
        return self._is_only_look

    def is_doubtful(self, alarm: Alarm) -> bool:
        """Whether markers may be late: the transaction has been open for so long; since when it is decided nobody says."""
        owner = alarm.owner
        return not alarm.is_at_once and owner is not None and (owner.duration_ms or 0) >= self._alert_after_ms

    def looked(self, seen: Iterable[Alarm], now_ms: int) -> Ringing:
        """Take in what was seen at `now_ms`."""
        found = {each.key: each for each in seen}
        self._since_ms = {key: self._since_ms.get(key, now_ms) for key in found}
        now = {}
        for key, each in found.items():
            lasting = replace(each, lasting_ms=now_ms - self._since_ms[key])
            if self._rings(lasting):
                now[key] = lasting
        rung = tuple(each for key, each in now.items() if key not in self._ringing)
        over = tuple(each for key, each in self._ringing.items() if key not in now)
        self._ringing = now
        return Ringing(tuple(now.values()), rung, over)

    def _rings(self, alarm: Alarm) -> bool:
        if alarm.lasting_ms >= max(1, self._alert_after_ms):
            return True
        if alarm.kind == MARKER_STUCK:
            return alarm.is_at_once
        return alarm.is_at_once and self._is_only_look
