"""One look at a cluster, as cheap as it can be, and complete where nothing is missing.

A look asks each coordinator for what is open, and the leaders of watched partitions for two offsets. Only where the two
differ a leader is asked for its producers; only what no coordinator owns is asked about once more; groups only while
something stands still. Of many partitions only those with an open transaction are asked each time, all of them every 30 s.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from oncelog.cli.command import pause
from oncelog.cli.hidden import TOPICS, why_not_all
from oncelog.cli.output import error_name
from oncelog.cli.transactions.group_scope import listed
from oncelog.cli.unreadable import WHY_OFFLINE
from oncelog.cli.watch.alarms import MARKER_STUCK, OFFLINE, SILENT, Alarm, Alarms, Ringing
from oncelog.cli.why.looking import Looking, not_read, root_of
from oncelog.client.admin.admin import Admin
from oncelog.client.admin.owners import described_if_known, hanging_of, owner_seen, owners_of, seen
from oncelog.client.admin.session import waited_for_once
from oncelog.client.admin.topics import COORDINATOR_TOPICS, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from oncelog.client.admin.transaction_listing import HangingTransaction, ProducerDescription, TransactionDescription
from oncelog.client.cluster.view import TopicView, offline_partitions
from oncelog.core.diagnosis.facts import TOPIC, Facts, NotRead, OpenTransaction, Owner, PartitionFacts
from oncelog.core.diagnosis.watching import OFFLINE as CANNOT_BE_ASKED
from oncelog.core.diagnosis.watching import STOPPED, Picture, Watching
from oncelog.errors import KafkaError
from oncelog.host.clock import RealClock
from oncelog.lazy_dataclass import dataclass
from oncelog.types import Node, TopicPartition

OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")
EACH_LOOK_MAX = 200  # so many partitions are asked each time, more only when something is open on them
SWEEP_MS = 30_000
DESCRIBED_MAX = 1_000
SUSPECTS_MAX = 50
HANGING_KEPT_MS = 30_000
GROUPS_MAX, GROUPS_KEPT_MS = 100, 15_000
LOOK_AGAIN_MS = 500
IDS_LIST = "the list of transactional ids"


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
    ringing: Ringing = Ringing()

    @property
    def not_read(self) -> tuple[NotRead, ...]:
        """What could not be asked."""
        return self.facts.not_read


@dataclass(frozen=True)
class _Opened:
    """What is open: by id, by producer id, and how many in all. `hidden`: why there may be more of it."""

    descriptions: tuple[TransactionDescription, ...]
    by_producer: dict[int, TransactionDescription]
    count: int
    hidden: tuple[str, ...] = ()


class Looks:
    """Looks at the same partitions, again and again. `now_ms` of a look is a clock that never goes back."""

    def __init__(self, topics: Collection[str], watching: Watching, alarms: Alarms | None = None) -> None:
        self._topics = frozenset(topics)
        self._watching = watching
        self._alarms = alarms or Alarms(0)
        self._swept_ms: int | None = None
        self._hanging: dict[tuple[TopicPartition, int, int], tuple[int, HangingTransaction | None]] = {}
        self._groups: tuple[int, dict[str, dict[TopicPartition, int]]] | None = None

    async def look(self, admin: Admin, now_ms: int) -> Seen:
        """Raises KafkaError where not even the topics are told."""
        with waited_for_once(admin):  # by each look
            return await self._look(admin, now_ms)

    async def _look(self, admin: Admin, now_ms: int) -> Seen:
        topics = await admin.list_topics(include_internal=True)
        views = {name: view for name, view in topics.items() if self._is_wanted(view)}
        looking = Looking(admin, views)
        for name in sorted(self._topics - views.keys()):
            looking.not_read.append(
                NotRead(f"topic {name}", "UNKNOWN_TOPIC_OR_PARTITION", "there is no such topic, or you may not see it")
            )
        if not views and not self._topics and (reason := await why_not_all(admin, TOPICS)):
            looking.not_read.append(NotRead("topics", "TOPIC_AUTHORIZATION_FAILED", reason))
        coordinators = {name: topics[name] for name in COORDINATOR_TOPICS if name in topics}
        offline = offline_partitions((views | coordinators).values())
        looking.not_read += _not_served(offline, topics)
        opened, silent = await self._opened(looking)
        everywhere = looking.everywhere
        where = self._asked(everywhere, opened, now_ms)
        partitions = await _bounds(looking, where)
        held = [each.where for each in partitions if each.blocked]
        transactions, hidden = await self._transactions(looking, held, opened, now_ms)
        transactions += _out_of_sight(partitions, opened)
        owners = None if opened is None else tuple(owner_seen(each) for each in opened.descriptions)
        learned = None if opened is None or opened.hidden else owners
        picture = self._watching.looked(everywhere, partitions, transactions, learned, now_ms)
        unserved = sorted({*offline, *(each.where for each in picture.partitions if each.word == CANNOT_BE_ASKED)})
        stuck = await self._stuck(looking, opened, set(unserved))
        alarms = [Alarm(OFFLINE, str(at), (at,), is_at_once=True) for at in unserved]
        alarms += [*stuck, *(Alarm(SILENT, each) for each in silent)]
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
            self._alarms.looked(alarms, now_ms),
        )

    def _is_wanted(self, view: TopicView) -> bool:
        return view.name in self._topics if self._topics else not view.is_internal

    async def _opened(self, looking: Looking) -> tuple[_Opened | None, list[str]]:
        """What is open, as far as coordinators answer (None: none did), and what was not answered."""
        admin, before = looking.admin, len(looking.not_read)
        unreachable: dict[Node, KafkaError] = {}
        ids = await looking.ask(IDS_LIST, admin.list_transactions(states=OPEN_STATES, unreachable=unreachable))
        for node, error in sorted(unreachable.items()):
            looking.not_read.append(not_read(f"the transactional ids of broker {node.node_id}", error, ""))
        missing = looking.not_read[before:]
        silent = [each.what for each in missing if each.resource is None]
        if ids is None:
            return None, silent
        hidden = tuple(each.why for each in missing)
        producer_ids = {each.transactional_id: each.producer_id for each in ids[:DESCRIBED_MAX]}
        if not producer_ids:
            return _Opened((), {}, 0, hidden), silent
        described = await looking.ask("open transactions", described_if_known(admin, *producer_ids))
        if described is None:
            return None, [*silent, "open transactions"]
        still_open = tuple(each for each in described.values() if each.is_open)
        opened = _Opened(
            still_open,
            {producer_ids[each.transactional_id]: each for each in still_open},
            len(ids) - len(producer_ids) + len(still_open),
            hidden,
        )
        return opened, silent

    async def _stuck(
        self, looking: Looking, opened: _Opened | None, unserved: Collection[TopicPartition]
    ) -> list[Alarm]:
        """Decided transactions whose markers do not arrive: no time brings them to a partition that nobody serves. Who looks
        once only looks again at the others that are old: a long transaction ends just now, too."""
        found = []
        for each in () if opened is None else opened.descriptions:
            owner = owner_seen(each)
            is_watched = not self._topics or any(at.topic in looking.topics or at in unserved for at in each.partitions)
            if owner.state != "Ongoing" and is_watched:
                is_unserved = any(at in unserved for at in each.partitions)
                found.append(Alarm(MARKER_STUCK, each.transactional_id, each.partitions, owner, is_unserved))
        if not self._alarms.is_only_look:
            return found
        certain = [each for each in found if each.is_at_once]
        doubtful = {each.owner.producer_id: each for each in found if each.owner and self._alarms.is_doubtful(each)}
        if not doubtful:
            return certain
        await pause(LOOK_AGAIN_MS / 1000)
        again = await looking.ask(IDS_LIST, owners_of(looking.admin, doubtful)) or {}
        keys = {Alarm(MARKER_STUCK, now.transactional_id, (), owner_seen(now)).key for now in again.values()}
        return certain + [replace(each, is_at_once=True) for each in doubtful.values() if each.key in keys]

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
        hidden = [each.why for each in looking.not_read] if opened is None else list(opened.hidden)
        is_complete = not hidden
        owners = {} if opened is None else dict(opened.by_producer)
        missing = {each.producer_id for _, each in producers} - owners.keys()
        if missing and is_complete:
            owners |= await looking.ask(IDS_LIST, owners_of(looking.admin, missing)) or {}
            if missing - owners.keys():
                hidden = await looking.admin.why_owners_may_be_hidden()
                looking.owners_hidden(hidden)
                is_complete = not hidden
        suspects = [each for each in producers if _is_suspect(*each, owners.get(each[1].producer_id))]
        hanging = await self._hanging_of(looking, suspects if is_complete else [], now_ms)
        wall_ms = RealClock().now_ms()
        found = []
        for where, each in producers:
            is_hanging = hanging.get((where, each.producer_id))
            if (where, each) in suspects and is_hanging is None and is_complete:
                continue  # ended, or begun, while we asked: the next look tells
            found.append(seen(where, each, owners.get(each.producer_id), is_hanging, wall_ms))
        return found, tuple(dict.fromkeys(hidden))

    async def _hanging_of(
        self, looking: Looking, suspects: list[tuple[TopicPartition, ProducerDescription]], now_ms: int
    ) -> dict[tuple[TopicPartition, int], HangingTransaction]:
        """Those of the suspects that no coordinator will end: asked about again, as `why` does, every 30 s."""
        kept: dict[tuple[TopicPartition, int, int], tuple[int, HangingTransaction | None]] = {}
        asked: dict[TopicPartition, dict[tuple[TopicPartition, int], HangingTransaction] | None] = {}
        for where, producer in suspects[:SUSPECTS_MAX]:
            key = (where, producer.producer_id, producer.transaction_start_offset or 0)
            known = self._hanging.get(key)
            if known is None or known[1] is None or now_ms - known[0] >= HANGING_KEPT_MS:
                if where not in asked:
                    asked[where] = await looking.ask("hanging transactions", hanging_of(looking.admin, [where]))
                hanging = (asked[where] or {}).get((where, producer.producer_id))
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


def _not_served(offline: Sequence[TopicPartition], topics: Mapping[str, TopicView]) -> list[NotRead]:
    """Partitions that are offline: one entry for each topic and reason."""
    together: dict[tuple[str, bool], list[TopicPartition]] = {}
    for at in offline:
        is_led = topics[at.topic].partitions[at.partition].leader_id >= 0
        together.setdefault((at.topic, is_led), []).append(at)
    kept = {TRANSACTIONS_TOPIC: "the transactional ids of ", OFFSETS_TOPIC: "the groups of "}
    return [
        NotRead(
            kept.get(topic, "") + listed(partitions),
            "KAFKA_STORAGE_ERROR" if is_led else "LEADER_NOT_AVAILABLE",
            WHY_OFFLINE if is_led else "no broker leads it now",
        )
        for (topic, is_led), partitions in sorted(together.items())
    ]


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
    groups = await looking.ask("the list of groups", looking.admin.list_groups()) or []
    names = [each.group_id for each in groups if each.group_type.lower() in ("", "classic", "consumer", "streams")]
    if len(names) > GROUPS_MAX:
        looking.notes.append(f"{len(names)} groups: {GROUPS_MAX} of them were looked at")
    found = {}
    for name in names[:GROUPS_MAX]:
        positions = await looking.ask(f"group {name}", looking.admin.list_consumer_group_offsets(name), name)
        found[name] = {where: each.offset for where, each in (positions or {}).items()}
    return found
