"""One look at a cluster, as cheap as it can be, and complete where nothing is missing.

A look asks each coordinator for what is open, and the leaders of watched partitions for two offsets. Only where the two
differ a leader is asked for its producers; only what no coordinator owns is asked about once more; groups only while
something stands still. Of many partitions only those with an open transaction are asked each time, all of them every 30 s.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from oncelog.cli.output import error_name
from oncelog.cli.why.looking import Looking, root_of
from oncelog.client.admin.admin import Admin
from oncelog.client.admin.owners import ANY_AGE_MS, described_if_known, owner_seen, owners_of, seen
from oncelog.client.admin.transaction_listing import HangingTransaction, ProducerDescription, TransactionDescription
from oncelog.core.diagnosis.facts import TOPIC, Facts, NotRead, OpenTransaction, Owner, PartitionFacts
from oncelog.core.diagnosis.watching import STOPPED, Picture, Watching
from oncelog.errors import KafkaError
from oncelog.host.clock import RealClock
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition

OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")
EACH_LOOK_MAX = 200  # so many partitions are asked each time, more only when something is open on them
SWEEP_MS = 30_000
DESCRIBED_MAX = 1_000
SUSPECTS_MAX = 50
HANGING_KEPT_MS = 30_000
GROUPS_MAX, GROUPS_KEPT_MS = 100, 15_000


@dataclass(frozen=True)
class BlockedGroup:
    """A group with a position on a partition that stands still. `is_at_end`: it has read all that may be read."""

    name: str
    where: TopicPartition
    position: int
    is_at_end: bool


@dataclass(frozen=True)
class Seen:
    """A look: what was seen, judged. `open_count` counts ids with an open transaction, `owners` those that were described."""

    time_ms: int
    picture: Picture
    facts: Facts
    owners: tuple[Owner, ...]
    open_count: int
    partition_counts: dict[str, int]
    groups: tuple[BlockedGroup, ...]
    notes: tuple[str, ...]

    @property
    def not_read(self) -> tuple[NotRead, ...]:
        """What could not be asked."""
        return self.facts.not_read


@dataclass(frozen=True)
class _Opened:
    """What is open: by id, by producer id, and how many in all; None where no coordinator could be asked."""

    descriptions: tuple[TransactionDescription, ...]
    by_producer: dict[int, TransactionDescription]
    count: int


class Looks:
    """Looks at the same partitions, again and again. `now_ms` of a look is a clock that never goes back."""

    def __init__(self, topics: Collection[str], watching: Watching) -> None:
        self._topics = frozenset(topics)
        self._watching = watching
        self._swept_ms: int | None = None
        self._hanging: dict[tuple[TopicPartition, int, int], tuple[int, HangingTransaction | None]] = {}
        self._groups: tuple[int, dict[str, dict[TopicPartition, int]]] | None = None

    async def look(self, admin: Admin, now_ms: int) -> Seen:
        """Raises KafkaError where not even the topics are told."""
        listed = await admin.list_topics()
        views = {name: view for name, view in listed.items() if not self._topics or name in self._topics}
        looking = Looking(admin, views)
        for name in sorted(self._topics - views.keys()):
            looking.not_read.append(
                NotRead(f"topic {name}", "UNKNOWN_TOPIC_OR_PARTITION", "there is no such topic, or you may not see it")
            )
        opened = await self._opened(looking)
        everywhere = looking.everywhere
        where = self._asked(everywhere, opened, now_ms)
        partitions = await _bounds(looking, where)
        held = [each.where for each in partitions if each.blocked]
        transactions, hidden = await self._transactions(looking, held, opened, now_ms)
        transactions += _out_of_sight(partitions, opened)
        owners = None if opened is None else tuple(owner_seen(each) for each in opened.descriptions)
        picture = self._watching.looked(everywhere, partitions, transactions, owners, now_ms)
        groups = await self._blocked_groups(looking, picture, now_ms)
        if opened is not None and opened.count > len(opened.descriptions):
            looking.notes.append(f"{opened.count} transactions are open: {DESCRIBED_MAX} of them were looked at")
        facts = Facts(
            TOPIC,
            "what is watched",
            tuple(each.facts for each in picture.partitions),
            tuple(transactions),
            not_read=tuple(looking.not_read),
            hidden=hidden,
            still_ending=picture.still_ending,
        )
        return Seen(
            RealClock().now_ms(),
            picture,
            facts,
            owners or (),
            0 if opened is None else opened.count,
            {} if opened is None else {each.transactional_id: len(each.partitions) for each in opened.descriptions},
            groups,
            tuple(looking.notes),
        )

    async def _opened(self, looking: Looking) -> _Opened | None:
        admin = looking.admin
        listed = await looking.ask("the list of transactional ids", admin.list_transactions(states=OPEN_STATES))
        if listed is None:
            return None
        producer_ids = {each.transactional_id: each.producer_id for each in listed[:DESCRIBED_MAX]}
        if not producer_ids:
            return _Opened((), {}, 0)
        asked = looking.ask("open transactions", described_if_known(admin, *producer_ids))
        described = await asked
        if described is None:
            return None
        still_open = tuple(each for each in described.values() if each.is_open)
        return _Opened(
            still_open,
            {producer_ids[each.transactional_id]: each for each in still_open},
            len(listed) - len(producer_ids) + len(still_open),
        )

    def _asked(self, everywhere: Sequence[TopicPartition], opened: _Opened | None, now_ms: int) -> list[TopicPartition]:
        is_sweep = self._swept_ms is None or now_ms - self._swept_ms >= SWEEP_MS
        if len(everywhere) <= EACH_LOOK_MAX or is_sweep:
            self._swept_ms = now_ms
            return list(everywhere)
        wanted = set(self._watching.held)
        for each in () if opened is None else opened.descriptions:
            wanted.update(each.partitions)
        return [where for where in everywhere if where in wanted]

    async def _transactions(
        self, looking: Looking, held: list[TopicPartition], opened: _Opened | None, now_ms: int
    ) -> tuple[list[OpenTransaction], tuple[str, ...]]:
        """What is open on these partitions, and why an owner may be hidden."""
        if not held:
            self._hanging.clear()
            return [], ()
        unreadable: dict[TopicPartition, KafkaError] = {}
        described = await looking.admin.describe_producers(held, unreadable=unreadable)
        looking.could_not_read(unreadable)
        producers = [
            (where, each)
            for where, found in described.items()
            for each in found
            if each.transaction_start_offset is not None
        ]
        hidden = [] if opened is not None else [each.why for each in looking.not_read]
        owners = {} if opened is None else dict(opened.by_producer)
        missing = {each.producer_id for _, each in producers} - owners.keys()
        if missing and opened is not None:
            owners |= await looking.ask("the list of transactional ids", owners_of(looking.admin, missing)) or {}
        suspects = [each for each in producers if _is_suspect(*each, owners.get(each[1].producer_id))]
        hanging = await self._hanging_of(looking, suspects if opened is not None else [], now_ms)
        wall_ms = RealClock().now_ms()
        found = []
        for where, each in producers:
            is_hanging = hanging.get((where, each.producer_id))
            if (where, each) in suspects and is_hanging is None and opened is not None:
                continue  # ended, or begun, while we asked: the next look tells
            found.append(seen(where, each, owners.get(each.producer_id), is_hanging, wall_ms))
        if not hidden and any(each.owner is None for each in found):
            hidden = await looking.ask("who owns what is open", looking.admin.why_owners_may_be_hidden()) or []
        return found, tuple(dict.fromkeys(hidden))

    async def _hanging_of(
        self, looking: Looking, suspects: list[tuple[TopicPartition, ProducerDescription]], now_ms: int
    ) -> dict[tuple[TopicPartition, int], HangingTransaction]:
        """Those of the suspects that no coordinator will end: asked about again, as `why` does, every 30 s."""
        kept: dict[tuple[TopicPartition, int, int], tuple[int, HangingTransaction | None]] = {}
        asked: dict[TopicPartition, list[HangingTransaction] | None] = {}
        for where, producer in suspects[:SUSPECTS_MAX]:
            key = (where, producer.producer_id, producer.transaction_start_offset or 0)
            known = self._hanging.get(key)
            if known is None or known[1] is None or now_ms - known[0] >= HANGING_KEPT_MS:
                if where not in asked:
                    found = looking.admin.find_hanging_transactions(
                        topic=where.topic,
                        partition=where.partition,
                        max_transaction_timeout_ms=ANY_AGE_MS,
                        unreadable={},
                    )
                    asked[where] = await looking.ask("hanging transactions", found)
                answer = asked[where]
                hanging = next((each for each in answer or () if each.producer_id == producer.producer_id), None)
                known = (now_ms, hanging)
            kept[key] = known
        self._hanging = kept
        return {(where, producer_id): each for (where, producer_id, _), (_, each) in kept.items() if each is not None}

    async def _blocked_groups(self, looking: Looking, picture: Picture, now_ms: int) -> tuple[BlockedGroup, ...]:
        stopped = {each.where: each.facts for each in picture.partitions if each.word == STOPPED}
        if not stopped:
            self._groups = None
            return ()
        if self._groups is None or now_ms - self._groups[0] >= GROUPS_KEPT_MS:
            self._groups = (now_ms, await _positions(looking))
        return tuple(
            BlockedGroup(name, where, positions[where], positions[where] >= (facts.last_stable_offset or 0))
            for name, positions in self._groups[1].items()
            for where, facts in stopped.items()
            if where in positions
        )


def _is_suspect(where: TopicPartition, producer: ProducerDescription, owner: TransactionDescription | None) -> bool:
    """Whether its owner, as far as it is known, does not have this transaction on this partition."""
    if owner is None or not owner.is_open or where not in owner.partitions:
        return True
    return owner.state == "Ongoing" and owner.producer_epoch != producer.producer_epoch


def _out_of_sight(partitions: list[PartitionFacts], opened: _Opened | None) -> list[OpenTransaction]:
    """What is open on partitions that cannot be asked, as coordinators tell."""
    away = {each.where for each in partitions if each.last_stable_offset is None}
    return [
        OpenTransaction(where, each.producer_id, each.producer_epoch, None, each.duration_ms or 0, owner_seen(each))
        for each in (() if opened is None else opened.descriptions)
        for where in each.partitions
        if where in away
    ]


async def _bounds(looking: Looking, where: list[TopicPartition]) -> list[PartitionFacts]:
    """Where readers of committed records stand, then where the partition ends: what is written in between is not negative."""

    def is_offline(at: TopicPartition) -> bool:
        return looking.topics[at.topic].partitions[at.partition].is_offline

    asked = [at for at in where if not is_offline(at)]
    unreadable: dict[TopicPartition, KafkaError] = {}
    admin = looking.admin
    stable = await admin.list_offsets(
        dict.fromkeys(asked, "latest"), isolation_level="read_committed", unreadable=unreadable
    )
    ends = await admin.list_offsets({at: "latest" for at in asked if at in stable}, unreadable=unreadable)
    looking.could_not_read({at: root_of(error) for at, error in unreadable.items()})
    return [
        PartitionFacts(
            at,
            None,
            stable[at].offset if at in stable and at in ends else None,
            ends[at].offset if at in ends else None,
            leader_id=looking.topics[at.topic].partitions[at.partition].leader_id,
            is_offline=is_offline(at),
            error=error_name(root_of(unreadable[at])) if at in unreadable else None,
        )
        for at in where
    ]


async def _positions(looking: Looking) -> dict[str, dict[TopicPartition, int]]:
    """What each group has stored; of so many groups at most."""
    listed = await looking.ask("the list of groups", looking.admin.list_groups()) or []
    names = [each.group_id for each in listed if each.group_type.lower() in ("", "classic", "consumer", "streams")]
    if len(names) > GROUPS_MAX:
        looking.notes.append(f"{len(names)} groups: {GROUPS_MAX} of them were looked at")
    found = {}
    for name in names[:GROUPS_MAX]:
        positions = await looking.ask(f"group {name}", looking.admin.list_consumer_group_offsets(name), name)
        found[name] = {where: each.offset for where, each in (positions or {}).items()}
    return found
