"""Everything that is asked about a group, a topic, a partition or a transactional id, as facts for core/diagnosis.

Positions are asked for before the offsets of partitions, and open transactions before their owners: what moves on between two
questions must not look as if it stood still. What may be a moment's is looked at again, for as long as `older_than_ms` says.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Collection, Iterable

from oncelog.cli.command import pause
from oncelog.cli.commands.topics import partition_bounds
from oncelog.cli.output import Failed, error_name
from oncelog.cli.transactions.group_scope import NAMED_MAX, SHARE, GroupScope, describe_group
from oncelog.cli.why.looking import Looking, root_of
from oncelog.cli.why.migrations import frozen_topics
from oncelog.cli.why.subject import Subject
from oncelog.client.admin.acls import AclFilter
from oncelog.client.admin.admin import Admin
from oncelog.client.admin.configs import ConfigResource
from oncelog.client.admin.groups import GroupDescription
from oncelog.client.admin.owners import described_if_known, hanging_of, owner_seen, owners_of, seen
from oncelog.client.admin.session import Unreachable
from oncelog.client.admin.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from oncelog.client.admin.transaction_listing import ProducerDescription, TransactionDescription
from oncelog.core.diagnosis.causes import needs_another_look
from oncelog.core.diagnosis.facts import (
    GROUP,
    PARTITION,
    TRANSACTION,
    Facts,
    GroupFacts,
    GroupLook,
    NotRead,
    OpenTransaction,
    PartitionFacts,
)
from oncelog.core.diagnosis.transactions import ENDING, transaction_verdict
from oncelog.core.migration.progress import is_of_migration
from oncelog.core.placement import coordinator_partition
from oncelog.errors import ClusterAuthorization, KafkaError, RequestTimedOut
from oncelog.host.clock import RealClock
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition

IDS_LIST = "the list of transactional ids"
OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")
INTERNAL = {OFFSETS_TOPIC, TRANSACTIONS_TOPIC}
SHARE_ISOLATION = "share.isolation.level"
WATCHED_MAX_MS = 10_000
SETTLING_MS = 15_000
"""KIP-848: a member gives partitions back at its next heartbeat, and another takes them at the one after; heartbeats come every
5 s (`group.consumer.heartbeat.interval.ms`), so a group that is well is at rest after two, and three are waited for."""
LOOK_EVERY_MS = 500
PENDING_LOOKS, PENDING_LOOK_EVERY_MS = 5, 100


async def facts_of(looking: Looking, subject: Subject, older_than_ms: int) -> Facts:
    """All that can be seen of the subject."""
    now_ms = RealClock().now_ms()
    producers, where = await _open_producers(looking, subject)
    # A leader that says nothing is waited for once; who may not describe producers may still look up offsets.
    silent = [at for at, each in producers.unreadable.items() if isinstance(each, RequestTimedOut)]
    bounds_errors: dict[TopicPartition, KafkaError] = {at: producers.unreadable[at] for at in silent}
    bounds = await partition_bounds(looking.admin, where, unreadable=bounds_errors) if where else {}
    looking.could_not_read({at: error for at, error in bounds_errors.items() if at not in producers.unreadable})
    looking.could_not_read(producers.unreadable)
    reads_open = await _reads_uncommitted(looking, subject.scope)
    unserved = set[TopicPartition]() if reads_open else producers.unreadable.keys() & set(where)
    aside = dataclasses.replace(looking, not_read=[])
    (opened, hidden), told = await asyncio.gather(
        owned_transactions(looking, {} if reads_open else producers.found, now_ms),
        told_by_coordinators(aside, unserved, subject.owner),
    )
    looking.not_read += [each for each in aside.not_read if each not in looking.not_read]
    opened = completed(opened, told)
    errors = {**producers.unreadable, **bounds_errors}
    if reads_open:
        bounds = {at: {**each, "last_stable_offset": each["high_watermark"]} for at, each in bounds.items()}
    partitions = [partition_facts(looking, subject.scope, at, bounds.get(at), errors.get(at)) for at in where]
    coordinators = [at for at in _offline_coordinators(looking, subject) if at not in where]
    partitions += [partition_facts(looking, None, at, None, None) for at in coordinators]
    if subject.scope is not None:
        _name_gone_topics(looking, subject.scope)
    group = None if subject.scope is None else group_facts(subject.scope, RealClock().now_ms())
    facts = Facts(
        subject.kind,
        subject.name,
        tuple(partitions),
        tuple(opened),
        group,
        None if subject.owner is None else owner_seen(subject.owner),
        hidden=hidden,
    )
    facts = await _watched(looking, facts, min(older_than_ms, WATCHED_MAX_MS))
    if facts.group is not None:
        if not any(each.where == facts.group.offsets_partition for each in facts.open):
            await _explain_pending(looking, facts)
        waits = not facts.group.member_count or any(each.lag for each in facts.partitions)
        facts = dataclasses.replace(facts, is_guarded=waits and await is_guarded(looking, facts.group.name))
    frozen = await frozen_topics(looking, {each.where.topic for each in facts.partitions} - INTERNAL)
    return dataclasses.replace(facts, frozen=frozen, not_read=tuple(looking.not_read))


async def _reads_uncommitted(looking: Looking, scope: GroupScope | None) -> bool:
    """Whether no open transaction holds it back: so it is with share groups, unless their configuration says otherwise (KIP-932).
    Of others nobody but their members knows."""
    if scope is None or not scope.is_share:
        return False
    resource = ConfigResource("group", scope.name)
    asked = looking.admin.describe_configs([resource], keys=[SHARE_ISOLATION])
    found = await looking.ask(f"{SHARE_ISOLATION} of {scope.name}", asked, scope.name)
    if found is None or ((entry := found[resource].get(SHARE_ISOLATION)) and entry.value == "read_committed"):
        return False
    looking.notes.append(
        f"{scope.name} reads uncommitted records, too ({SHARE_ISOLATION}): no transaction holds it back"
    )
    return True


@dataclass
class _Producers:
    found: dict[TopicPartition, list[ProducerDescription]]
    unreadable: dict[TopicPartition, KafkaError]


async def _open_producers(looking: Looking, subject: Subject) -> tuple[_Producers, list[TopicPartition]]:
    """Open transactions, and the partitions that the subject is about. Of a transactional id every partition is searched: one
    that hangs is just where its coordinator does not know of it."""
    owner, scope = subject.owner, subject.scope
    asked: list[TopicPartition] = []
    if scope is not None:
        where = list(scope.partitions)
        asked = [*where, *([scope.offsets_partition] if scope.offsets_partition else [])]
    elif subject.kind == PARTITION and subject.partition is not None:
        asked = where = [subject.partition]
    elif subject.kind not in (None, GROUP, TRANSACTION):
        asked = where = [at for at in looking.everywhere if at.topic == subject.name]
    else:
        asked = looking.everywhere if owner is not None else []
        where = []
    unreadable: dict[TopicPartition, KafkaError] = {}
    described = await looking.admin.describe_producers(list(dict.fromkeys(asked)), unreadable=unreadable)
    found = {
        at: [each for each in producers if each.transaction_start_offset is not None]
        for at, producers in described.items()
    }
    if owner is not None:
        found = {at: [p for p in opened if p.producer_id == owner.producer_id] for at, opened in found.items()}
        where = sorted({*(at for at, opened in found.items() if opened), *(at for at in owner.partitions)})
    return _Producers({at: opened for at, opened in found.items() if opened}, unreadable), where


async def owned_transactions(
    looking: Looking, producers: dict[TopicPartition, list[ProducerDescription]], now_ms: int
) -> tuple[list[OpenTransaction], tuple[str, ...]]:
    """Each open transaction with its owner; and why owners may be hidden from us."""
    if not producers:
        return [], ()
    ids = {each.producer_id for opened in producers.values() for each in opened}
    before = len(looking.not_read)
    unreachable: Unreachable = {}
    owners = await looking.ask(IDS_LIST, owners_of(looking.admin, ids, unreachable=unreachable)) or {}
    looking.did_not_answer(IDS_LIST, unreachable)
    hanging = {}
    if unreachable:  # what the silent ones have can be of any: who is named and has it no more is not its owner
        owners = {key: each for key, each in owners.items() if each.is_open}
    else:
        hanging = await looking.ask("hanging transactions", hanging_of(looking.admin, producers)) or {}
    hidden = [each.why for each in looking.not_read[before:]]
    again = await looking.admin.describe_producers(list(producers), unreadable={})
    opened = [
        seen(at, each, owners.get(each.producer_id), hanging.get((at, each.producer_id)), now_ms)
        for at in producers
        for each in producers[at]
        if any(_is_same(each, later) for later in again.get(at, [each]))  # what was ended while we asked is no cause
    ]
    if not unreachable and any(each.owner is None for each in opened):
        reasons = await looking.admin.why_owners_may_be_hidden()
        looking.owners_hidden(reasons)
        hidden += reasons
    return opened, tuple(dict.fromkeys(hidden))


async def told_by_coordinators(
    looking: Looking, unserved: Collection[TopicPartition], owner: TransactionDescription | None = None
) -> list[OpenTransaction]:
    """What is open on partitions that cannot be asked: their transactions' coordinators know. `owner`: of this id only."""
    if not unserved:
        return []
    if owner is not None:
        described = {owner.transactional_id: owner}
    else:
        unreachable: Unreachable = {}
        described = await looking.ask(IDS_LIST, _open_ids(looking.admin, unreachable)) or {}
        looking.did_not_answer(IDS_LIST, unreachable)
    return [
        OpenTransaction(at, each.producer_id, each.producer_epoch, None, each.duration_ms or 0, owner_seen(each))
        for each in described.values()
        for at in each.partitions
        if at in unserved and each.is_open
    ]


def completed(opened: list[OpenTransaction], told: list[OpenTransaction]) -> list[OpenTransaction]:
    """What leaders and what coordinators told; a coordinator that answered late still says whose the leaders' are."""
    owners = {each.producer_id: each.owner for each in told}
    return [
        dataclasses.replace(each, owner=owners.get(each.producer_id))
        if each.owner is None and each.hanging_reason is None
        else each
        for each in opened
    ] + told


async def _open_ids(admin: Admin, unreachable: Unreachable) -> dict[str, TransactionDescription]:
    listed = await admin.list_transactions(states=OPEN_STATES, unreachable=unreachable)
    return await described_if_known(admin, *(each.transactional_id for each in listed))


def _is_same(one: ProducerDescription, other: ProducerDescription) -> bool:
    return (one.producer_id, one.producer_epoch, one.transaction_start_offset) == (
        other.producer_id,
        other.producer_epoch,
        other.transaction_start_offset,
    )


def partition_facts(
    looking: Looking,
    scope: GroupScope | None,
    at: TopicPartition,
    bounds: dict[str, int] | None,
    error: KafkaError | None,
) -> PartitionFacts:
    """A partition as it was seen; `scope`: with the position and the reader of this group."""
    view = looking.topics[at.topic].partitions.get(at.partition) if at.topic in looking.topics else None
    members = scope.group.members if scope is not None and scope.group is not None else ()
    start, stable, end = (None, None, None) if bounds is None else _offsets(bounds)
    position = None if scope is None else scope.position_of(at, end)
    return PartitionFacts(
        at,
        start,
        stable,
        end,
        position=position,
        client_id=next((each.client_id for each in members if at in each.partitions), None),
        leader_id=-1 if view is None else view.leader_id,
        is_offline=view is not None and view.is_offline,
        error=None if error is None else error_name(root_of(error)),
    )


def _offsets(bounds: dict[str, int]) -> tuple[int, int, int]:
    return bounds["log_start"], bounds["last_stable_offset"], bounds["high_watermark"]


def _name_gone_topics(looking: Looking, scope: GroupScope) -> None:
    """Positions, and members' partitions, of topics that are not there: where a group has nothing else, nothing was looked at,
    and that is no all-clear. A migration's positions are another broker's; Connect's workers share out other things."""
    group = scope.group
    members = () if group is None else group.members
    is_consumers = group is None or group.protocol_type in ("consumer", "share", "")
    if is_of_migration(scope.name) or not is_consumers:
        return
    named = {*scope.positions, *(at for each in members for at in each.partitions)}
    gone = sorted({at.topic for at in named if at.topic not in looking.topics})
    more = f" and {len(gone) - NAMED_MAX} more" if len(gone) > NAMED_MAX else ""
    topics = f"{', '.join(gone[:NAMED_MAX])}{more}"
    if scope.partitions and gone:
        looking.notes.append(
            f"{scope.name} has positions of what is not there (any more), or may not be seen: {topics}"
        )
    elif gone:
        text = "its positions name only topics that are not there (any more), or that you may not see"
        looking.not_read.append(NotRead(f"what {scope.name} reads ({topics})", "UNKNOWN_TOPIC_OR_PARTITION", text))
    elif not scope.partitions and not members:
        text = "no position is stored and nobody reads: its topics are gone, or it never stored one"
        looking.not_read.append(NotRead(f"what {scope.name} reads", Failed.__name__, text))


def _offline_coordinators(looking: Looking, subject: Subject) -> list[TopicPartition]:
    """Partitions of the internal topics without which the subject has no coordinator."""
    found = []
    for topic, kinds in ((OFFSETS_TOPIC, (GROUP, None)), (TRANSACTIONS_TOPIC, (TRANSACTION, None))):
        view = looking.topics.get(topic)
        if view is not None and view.partitions and subject.kind in kinds:
            found += looking.offline(topic, [coordinator_partition(subject.name, len(view.partitions))])
    return found


def group_facts(scope: GroupScope, now_ms: int) -> GroupFacts:
    """A group as it was seen at one look."""
    group = scope.group
    members = () if group is None else group.members
    return GroupFacts(
        scope.name,
        "Dead" if group is None else group.state,
        "" if group is None else group.protocol_type,
        len(members),
        (_look(group, now_ms),),
        settling_ms=SETTLING_MS if group is not None and group.group_epoch is not None else 0,
        late_members=_late_members(group),
        pending=scope.pending,
        offsets_partition=scope.offsets_partition,
        is_migration=is_of_migration(scope.name),
        is_share=scope.is_share,
        is_sparks=scope.is_sparks,
    )


def _look(group: GroupDescription | None, now_ms: int) -> GroupLook:
    if group is None:
        return GroupLook("Dead", "", 0, now_ms)
    names = ",".join(sorted(each.member_id for each in group.members))
    fingerprint = names if group.group_epoch is None else str(group.group_epoch)
    assigned_count = sum(len(each.partitions) for each in group.members)
    return GroupLook(group.state, fingerprint, assigned_count, now_ms)


def _late_members(group: GroupDescription | None) -> tuple[str, ...]:
    """Members of a KIP-848 group that have not reached its epoch, or not given back or taken what they are to."""
    if group is None or group.group_epoch is None:
        return ()
    is_share = group.group_type == SHARE  # its members are told no targets
    late = [
        each
        for each in group.members
        if (each.member_epoch or 0) < group.group_epoch
        or (not is_share and set(each.partitions) != set(each.target_partitions))
    ]
    return tuple(f"{each.client_id} on {each.client_host} ({each.member_id})" for each in late)


async def _watched(looking: Looking, facts: Facts, window_ms: int) -> Facts:
    """Look again, until nothing is left that may be a moment's, or the window is over."""
    ending = {each.producer_id: each for each in facts.open if transaction_verdict(each) == ENDING}
    window_ms = max(window_ms, facts.group.settling_ms if facts.group is not None else 0)
    began_ms = RealClock().now_ms()
    while needs_another_look(facts) and (watched_ms := RealClock().now_ms() - began_ms) < window_ms:
        await pause(min(LOOK_EVERY_MS, window_ms - watched_ms) / 1000)
        if facts.group is not None:
            facts = await _group_again(looking, facts, facts.group, began_ms)
        if ending:
            ending = await _still_ending(looking, ending)
            kept = [e for e in facts.open if transaction_verdict(e) != ENDING or e.producer_id in ending]
            facts = dataclasses.replace(facts, open=tuple(kept))
    return dataclasses.replace(facts, still_ending=frozenset(ending))


async def _group_again(looking: Looking, facts: Facts, group: GroupFacts, began_ms: int) -> Facts:
    described = await looking.ask(f"group {group.name}", describe_group(looking.admin, group.name), group.name)
    now_ms = RealClock().now_ms()
    looks = (*group.looks, _look(described, now_ms))
    state, count = (described.state, len(described.members)) if described is not None else ("Dead", 0)
    later = dataclasses.replace(group, state=state, member_count=count, looks=looks, watched_ms=now_ms - began_ms)
    return dataclasses.replace(facts, group=dataclasses.replace(later, late_members=_late_members(described)))


async def _still_ending(looking: Looking, ending: dict[int, OpenTransaction]) -> dict[int, OpenTransaction]:
    """Those whose very transaction is still on its way; where the coordinators do not answer, all are."""
    owners = await looking.ask("the list of transactional ids", owners_of(looking.admin, ending))
    if owners is None:
        return ending
    kept = {}
    for producer_id, each in ending.items():
        now, was = owners.get(producer_id), each.owner
        assert was is not None
        is_same = now is not None and now.producer_epoch == was.producer_epoch and now.state == was.state
        if is_same and now is not None and (now.duration_ms or 0) >= (was.duration_ms or 0):
            kept[producer_id] = each
    return kept


async def is_guarded(looking: Looking, group_id: str) -> bool:
    """Whether access rules may keep members out."""
    try:
        await looking.admin.describe_acls(AclFilter("group", group_id, pattern_type="match"))
    except ClusterAuthorization:
        return True  # one may not look at them: there are some
    except KafkaError:
        return False
    return True


async def _explain_pending(looking: Looking, facts: Facts) -> None:
    """Positions are pending, and no transaction is open that may have them: it cannot be seen. Where transactions come and go,
    each look may fall between two of them; not every look does."""
    group = facts.group
    at = None if group is None else group.offsets_partition
    if group is None or at is None or any(str(at) in each.what for each in looking.not_read):
        return
    for _ in range(PENDING_LOOKS):
        producers = await looking.admin.describe_producers([at], unreadable={})
        if any(each.transaction_start_offset is not None for each in producers.get(at, ())):
            return
        pending = looking.admin.list_pending_offset_commits(group.name, sorted(group.pending))
        if not await looking.ask(f"group {group.name}", pending, group.name):
            return
        await pause(PENDING_LOOK_EVERY_MS / 1000)
    looking.lost_sight(f"the transaction that has the pending positions of {group.name}", at)


async def positions_again(looking: Looking, facts: Facts, suspects: Iterable[TopicPartition]) -> Facts:
    """The facts with the positions of these partitions as they are now: a reader, or retention, may just have passed by."""
    wanted = set(suspects)
    positions = await looking.ask(
        f"group {facts.name}", looking.admin.list_consumer_group_offsets(facts.name), facts.name
    )
    bounds = await partition_bounds(looking.admin, sorted(wanted), unreadable={})
    partitions = []
    for each in facts.partitions:
        if each.where in wanted and each.where in bounds and positions is not None:
            position, at = positions.get(each.where), bounds[each.where]
            each = dataclasses.replace(
                each,
                position=None if position is None else position.offset,
                log_start_offset=at["log_start"],
                last_stable_offset=at["last_stable_offset"],
                high_watermark=at["high_watermark"],
            )
        partitions.append(each)
    return dataclasses.replace(facts, partitions=tuple(partitions), not_read=tuple(looking.not_read))
