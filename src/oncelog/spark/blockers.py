"""Which open transactions hold a stream at the last stable offset: who, since when, and the command that frees it.

A stream is held where it has read up to the last stable offset and records lie behind it. Most transactions end within
milliseconds, so nobody is asked about a partition more often than every LOOK_EVERY_S, and the log names only what has been open
for TOLD_AFTER_MS.
"""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from oncelog import errors, sync
from oncelog.client.admin.transaction_listing import NEVER_MS, ProducerDescription, TransactionDescription
from oncelog.core.shell_words import quoted
from oncelog.lazy_dataclass import dataclass
from oncelog.spark.options import Offsets
from oncelog.types import TopicPartition

logger = logging.getLogger("oncelog.spark")
LOOK_EVERY_S = 5.0
TOLD_AFTER_MS = 10_000
NAMED_MAX = 20
"""Of the blocked partitions of one progress report; the rest are counted."""


@dataclass(frozen=True, slots=True)
class Blocker:
    """An open transaction at a partition's last stable offset. `owner` None: no coordinator names its id (to this user)."""

    where: TopicPartition
    start_offset: int
    producer_id: int
    last_timestamp_ms: int
    owner: TransactionDescription | None

    @property
    def since_ms(self) -> int:
        """Since when, by the broker's clock; of an unknown owner when its last record was written."""
        return self.last_timestamp_ms if self.owner is None else self.owner.start_ms

    @property
    def command(self) -> str:
        """What frees the partition, or says what does."""
        if self.owner is None or self.owner.state != "Ongoing":
            return f"oncelog why {quoted(self.where.topic)}"
        return f"oncelog transactions force-terminate --transactional-id {quoted(self.owner.transactional_id)}"

    @property
    def ends(self) -> str:
        """Who ends it, if anybody."""
        if self.owner is None:
            return "its transactional id is not to be seen: it may hang"
        if self.owner.state != "Ongoing":
            return f"it is decided ({self.owner.state}), and its markers are not written yet"
        if self.owner.timeout_ms == NEVER_MS:
            return "prepared, without a timeout: whoever decides it ends it (`oncelog transactions resolve`)"
        return f"it times out after {self.owner.timeout_ms} ms"

    @property
    def name(self) -> str:
        """Whose, in words."""
        return f"producer id {self.producer_id}" if self.owner is None else repr(self.owner.transactional_id)

    def to_json(self, waiting_count: int) -> dict[str, Any]:
        """For the progress report."""
        return {
            "partition": str(self.where),
            "offset": self.start_offset,
            "waiting": waiting_count,
            "transactionalId": None if self.owner is None else self.owner.transactional_id,
            "producerId": self.producer_id,
            "state": None if self.owner is None else self.owner.state,
            "since": as_utc(self.since_ms),
            "ends": self.ends,
            "command": self.command,
        }


def as_utc(ms: int) -> str | None:
    """A time as Spark's progress writes it; None where there is none."""
    if ms < 0:
        return None
    moment = dt.datetime.fromtimestamp(ms / 1000, tz=dt.UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03}Z"


def held(position: Offsets, stable: Offsets, end: Offsets) -> dict[TopicPartition, int]:
    """The partitions where a stream can go no further though records lie there, with how many offsets wait."""
    found = {}
    for topic, partitions in stable.items():
        for partition, offset in partitions.items():
            log_end = end.get(topic, {}).get(partition, offset)
            if position.get(topic, {}).get(partition, -1) >= offset and log_end > offset:
                found[TopicPartition(topic, partition)] = log_end - offset
    return found


def blockers_of(
    where: Mapping[TopicPartition, list[ProducerDescription]], owners: Mapping[int, TransactionDescription]
) -> dict[TopicPartition, Blocker]:
    """The first open transaction of each partition. An owner whose epoch is another's has gone on: then it is unknown."""
    found = {}
    for at, producers in where.items():
        opened = [p for p in producers if p.transaction_start_offset is not None]
        if not opened:
            continue
        first = min(opened, key=lambda p: p.transaction_start_offset or 0)
        owner = owners.get(first.producer_id)
        is_its = owner is not None and owner.is_open and at in owner.partitions
        assert first.transaction_start_offset is not None
        found[at] = Blocker(
            at,
            first.transaction_start_offset,
            first.producer_id,
            first.last_timestamp_ms,
            owner if is_its else None,
        )
    return found


def look(admin: sync.Admin, where: list[TopicPartition]) -> dict[TopicPartition, Blocker]:
    """Ask leaders and coordinators. Partitions that nobody may look at are left out."""
    producers = admin.describe_producers(where, unreadable={})
    opened = {p.producer_id for each in producers.values() for p in each if p.transaction_start_offset is not None}
    owners = {}
    for listed in admin.list_transactions(producer_ids=sorted(opened)) if opened else []:
        try:
            owners[listed.producer_id] = admin.describe_transactions([listed.transactional_id])[listed.transactional_id]
        except errors.TransactionalIdNotFound:
            continue
    return blockers_of(producers, owners)


class Watch:
    """One stream's blockers over time: looks now and then, and tells the log of each that stays once, and when it is gone."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._looked_s: float | None = None
        self._known: dict[TopicPartition, Blocker] = {}
        self._told: dict[TopicPartition, Blocker] = {}

    def blocked(self, admin: sync.Admin, waiting: Mapping[TopicPartition, int], now_ms: int) -> list[dict[str, Any]]:
        """What holds these partitions, for the progress report; `now_ms` is the wall's."""
        for at in [at for at in self._told if at not in waiting]:
            logger.warning("oncelog: %s goes on: %s has ended", at, self._told.pop(at).name)
        self._known = {at: each for at, each in self._known.items() if at in waiting}
        if waiting and (self._looked_s is None or self._now_s() - self._looked_s >= LOOK_EVERY_S):
            self._looked_s = self._now_s()
            self._known = look(admin, sorted(waiting)[:NAMED_MAX])
            self._tell(waiting, now_ms)
        return [self._known[at].to_json(waiting[at]) for at in sorted(self._known)]

    def _tell(self, waiting: Mapping[TopicPartition, int], now_ms: int) -> None:
        for at, each in self._known.items():
            before = self._told.get(at)
            if before is not None and before.start_offset == each.start_offset:
                continue
            if now_ms - each.since_ms >= TOLD_AFTER_MS:
                self._told[at] = each
                logger.warning(
                    "oncelog: %s is held at offset %d, %d behind it, by the open transaction of %s since %s; %s; `%s` ends or "
                    "explains it",
                    at,
                    each.start_offset,
                    waiting[at],
                    each.name,
                    as_utc(each.since_ms),
                    each.ends,
                    each.command,
                )
