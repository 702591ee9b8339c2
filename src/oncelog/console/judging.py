"""From lanes to cards: what was seen becomes facts, core/diagnosis finds the causes, cli/why has the words.

The same questions, judgement and texts as `oncelog why`: a card is a row of its JSON. A transaction that seems to hang is called
so only when it does a few seconds later, too: it may have ended between two questions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from oncelog.cli.command import Settings
from oncelog.cli.transactions.group_scope import GroupScope
from oncelog.cli.why.collecting import completed, owned_transactions, told_by_coordinators
from oncelog.cli.why.looking import Looking
from oncelog.cli.why.words import row, told
from oncelog.client.admin.admin import Admin
from oncelog.client.admin.transaction_listing import ProducerDescription
from oncelog.client.cluster.view import TopicView
from oncelog.core.diagnosis.causes import causes, verdict
from oncelog.core.diagnosis.facts import TOPIC, Facts, OpenTransaction, PartitionFacts
from oncelog.core.diagnosis.transactions import ENDING, HANGING, TWO_PHASE, transaction_verdict
from oncelog.core.lanes.lane import Lane
from oncelog.core.lanes.view import CALM_MS, UNKNOWN_KIND, Judged
from oncelog.errors import ErrorCode, code_name
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition

HANGING_SEEN_MS = 5_000
_Key = tuple[TopicPartition, int, int | None]


@dataclass(frozen=True)
class Judgement:
    """What a look found: a verdict for each open transaction, and the causes as rows (`oncelog why -o json`). `hidden`: why
    transactions may have owners that are not seen."""

    judged: Mapping[tuple[TopicPartition, int], Judged] = field(default_factory=dict)
    causes: Sequence[dict[str, Any]] = ()
    verdict: str = "free"
    not_read: Sequence[dict[str, str]] = ()
    open: tuple[OpenTransaction, ...] = ()
    seen_ms: int = 0
    hidden: tuple[str, ...] = ()


@dataclass
class Judge:
    """Looks again and again; remembers since when something hangs or is ending."""

    settings: Settings
    _since: dict[_Key, tuple[str, int]] = field(default_factory=dict)

    async def look(
        self, admin: Admin, topics: Mapping[str, TopicView], partitions: Sequence[PartitionFacts], now_ms: int
    ) -> Judgement:
        """Who holds these partitions, and why. Errors of single questions become `not_read`."""
        looking = Looking(admin, topics)
        unreadable: dict[TopicPartition, Any] = {}
        asked = [each.where for each in partitions if each.error is None]
        described = await admin.describe_producers(asked, unreadable=unreadable)
        looking.could_not_read(unreadable)
        producers: dict[TopicPartition, list[ProducerDescription]] = {}
        for at, found in described.items():
            if opened := [each for each in found if each.transaction_start_offset is not None]:
                producers[at] = opened
        seen, hidden = await owned_transactions(looking, producers, now_ms)
        unserved = {each.where for each in partitions if each.error is not None} | unreadable.keys()
        seen = completed(seen, await told_by_coordinators(looking, unserved))
        kinds = {(each.where, each.producer_id): self._kind(each, bool(hidden), now_ms) for each in seen}
        self._forget({_key(each) for each in seen})
        told_of = tuple(each for each in seen if kinds[each.where, each.producer_id] != UNKNOWN_KIND or hidden)
        facts = Facts(
            TOPIC,
            "what is shown",
            tuple(partitions),
            told_of,
            hidden=hidden,
            not_read=tuple(looking.not_read),
            still_ending=frozenset(each.producer_id for each in told_of if self._age_ms(each, now_ms) > CALM_MS),
        )
        found_causes = causes(facts, CALM_MS)
        return Judgement(
            {key: _judged(each, kinds[key], now_ms) for each in seen if (key := (each.where, each.producer_id))},
            [row(each, told(self.settings, facts, each)) | {"open_on": _places(each.open)} for each in found_causes],
            verdict(facts, found_causes),
            [{"what": each.what, "error": each.error, "why": each.why} for each in looking.not_read],
            tuple(seen),
            now_ms,
            hidden,
        )

    def _kind(self, found: OpenTransaction, is_hidden: bool, now_ms: int) -> str:
        kind = transaction_verdict(found)
        since = self._since.get(_key(found))
        if since is None or since[0] != kind:
            self._since[_key(found)] = since = (kind, now_ms)
        if kind == HANGING and (is_hidden or now_ms - since[1] < HANGING_SEEN_MS):
            return UNKNOWN_KIND
        return kind

    def _age_ms(self, found: OpenTransaction, now_ms: int) -> int:
        kind, since_ms = self._since.get(_key(found), ("", now_ms))
        return now_ms - since_ms if kind == ENDING else 0

    def _forget(self, kept: set[_Key]) -> None:
        self._since = {key: since for key, since in self._since.items() if key in kept}


def _key(found: OpenTransaction) -> _Key:
    return found.where, found.producer_id, found.start_offset


def _places(found: Sequence[OpenTransaction]) -> list[dict[str, Any]]:
    return [
        {"topic": each.where.topic, "partition": each.where.partition, "start_offset": each.start_offset}
        for each in found
    ]


def _judged(found: OpenTransaction, kind: str, now_ms: int) -> Judged:
    owner = found.owner
    remaining_ms = None if owner is None or kind in (TWO_PHASE, HANGING) else owner.remaining_ms
    deadline_ms = None if remaining_ms is None else now_ms + remaining_ms
    return Judged(kind, deadline_ms, None if owner is None else owner.transactional_id)


def facts_of_lane(lane: Lane, topics: Mapping[str, TopicView]) -> PartitionFacts:
    """A lane as core/diagnosis sees a partition."""
    topic = topics.get(lane.where.topic)
    view = None if topic is None else topic.partitions.get(lane.where.partition)
    is_damaged = lane.error == code_name(ErrorCode.CORRUPT_MESSAGE)
    return PartitionFacts(
        lane.where,
        lane.log_start_offset,
        lane.last_stable_offset,
        lane.high_watermark,
        leader_id=-1 if view is None else view.leader_id,
        is_offline=view is not None and view.is_offline,
        error=None if is_damaged else lane.error,  # damaged at one place: the leader answers all other questions
        damaged_at=lane.next_offset if is_damaged else None,
    )


def as_read_by(scope: GroupScope, partition: PartitionFacts) -> PartitionFacts:
    """A partition with the position and the reader of a group."""
    position = scope.positions.get(partition.where)
    members = scope.group.members if scope.group is not None else ()
    client_id = next((each.client_id for each in members if partition.where in each.partitions), None)
    return dataclasses.replace(partition, position=None if position is None else position.offset, client_id=client_id)
