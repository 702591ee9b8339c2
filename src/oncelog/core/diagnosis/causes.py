"""From facts to causes: everything that holds a group, a topic or a transaction back, the first to mend first.

The order: what one cannot see first; then what keeps markers from being written (partitions), then transactions, from those
that nobody ends to those that end by themselves; then positions, which can only be moved while a group has no members; then
the members. One transaction is one cause, however many partitions it is open on.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from oncelog.core.diagnosis.facts import (
    Facts,
    GroupFacts,
    GroupLook,
    NotRead,
    OpenTransaction,
    PartitionFacts,
    QuotaFacts,
)
from oncelog.core.diagnosis.transactions import ENDING, HANGING, TWO_PHASE, transaction_verdict
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition

RIGHTS = "rights"
OFFLINE = "offline partition"
DAMAGED = "damaged partition"
MARKER_STUCK = "marker stuck"
HANGING_TRANSACTION = "hanging transaction"
UNKNOWN_OWNER = "unknown owner"
PREPARED = "prepared transaction"
PENDING = "pending offset commit"
OPEN = "open transaction"
OUT_OF_RANGE = "position out of range"
REBALANCING = "rebalancing"
NO_MEMBERS = "no members"
NO_PARTITIONS = "no partitions"
QUOTA = "quota"
KINDS = (
    *(RIGHTS, OFFLINE, DAMAGED, MARKER_STUCK, HANGING_TRANSACTION, UNKNOWN_OWNER, PREPARED, PENDING, OPEN),
    *(OUT_OF_RANGE, REBALANCING, NO_MEMBERS, NO_PARTITIONS, QUOTA),
)
RESOURCES = ("group", "topic", "transactional-id", "cluster")
# Errors that say that a partition serves nobody; others only say that it could not be asked just now.
NOBODY_SERVES = ("KAFKA_STORAGE_ERROR", "CORRUPT_MESSAGE", "LEADER_NOT_AVAILABLE")
REST_MS = 2_000  # a storm of rebalances is at rest between two of them, too
QUOTA_CATCH_UP_MS = 60_000  # a lag that a quota's rate makes up for within that is no reason to stand still

HELD_BACK, FREE, UNKNOWN = "held back", "free", "unknown"


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason to stand still. `open` are a transaction's places, the earliest first; `blocked` counts the offsets that
    wait for it; `pending` are positions that wait for it, which is one of `candidate_count` that it may be."""

    kind: str
    partitions: tuple[TopicPartition, ...] = ()
    blocked: int = 0
    open: tuple[OpenTransaction, ...] = ()
    pending: tuple[TopicPartition, ...] = ()
    candidate_count: int = 1
    seen: tuple[PartitionFacts, ...] = ()
    not_read: tuple[NotRead, ...] = ()
    quota: QuotaFacts | None = None

    @property
    def is_behind(self) -> bool:
        """Whether it is a transaction that holds back nothing yet: others, before it, hold the same partitions."""
        is_seen = any(each.start_offset is not None for each in self.open)
        return is_seen and not self.blocked and not self.pending


def causes(facts: Facts, older_than_ms: int) -> tuple[Cause, ...]:
    """Everything that was seen to hold back. Transactions that have been open for `older_than_ms` or less are left out: a
    healthy system always has some."""
    reads = facts.group is None or not facts.group.is_migration
    has_positions = reads and not (facts.group is not None and facts.group.is_share)
    found = [
        *_rights(facts.not_read),
        *_offline(facts.partitions),
        *_transactions(facts, older_than_ms),
        *(_positions(facts.partitions) if has_positions else ()),
        *(_members(facts.group, facts.partitions) if facts.group is not None and reads else ()),
        *(Cause(QUOTA, quota=each) for each in facts.quotas if each.catch_up_ms > QUOTA_CATCH_UP_MS),
    ]
    return tuple(sorted(found, key=_order))


def _order(cause: Cause) -> tuple[bool, bool, int, int, tuple[TopicPartition, ...]]:
    """Transactions before positions and members, and among them those that wait for nobody else before those behind them."""
    index = KINDS.index(cause.kind)
    return index > KINDS.index(OPEN), cause.is_behind, index, -cause.blocked, cause.partitions


def verdict(facts: Facts, found: Sequence[Cause]) -> str:
    """HELD_BACK, FREE, or UNKNOWN where nothing was found and not everything was seen."""
    if any(cause.kind != RIGHTS for cause in found):
        return HELD_BACK
    return UNKNOWN if found or facts.not_read else FREE


def young_count(facts: Facts, older_than_ms: int) -> int:
    """How many open transactions were left out, being young or just ending."""
    left_out = [each for each in facts.open if not _counts(facts, each, older_than_ms)]
    return len({(each.producer_id, each.producer_epoch) for each in left_out})


def is_settled(looks: Sequence[GroupLook]) -> bool:
    """Whether a group is not rebalancing: seen at rest and never otherwise, or at rest and unchanged for REST_MS since."""
    last = looks[-1]
    if not last.is_at_rest:
        return False
    rest = [last, *itertools.takewhile(lambda each: _is_as(each, last), reversed(looks[:-1]))]
    return len(rest) == len(looks) or last.at_ms - rest[-1].at_ms >= REST_MS


def _is_as(look: GroupLook, other: GroupLook) -> bool:
    return (look.state, look.fingerprint) == (other.state, other.fingerprint)


def needs_another_look(facts: Facts) -> bool:
    """Whether something was seen that is healthy for a moment and a cause when it lasts, or that a moment may hide."""
    group = facts.group
    if group is not None and (not is_settled(group.looks) or has_no_partitions(group) or _may_pause(facts, group)):
        return True
    return any(transaction_verdict(each) == ENDING for each in facts.open)


def _may_pause(facts: Facts, group: GroupFacts) -> bool:
    """Whether a group that could read, and is behind, was not seen for long enough to know that it is at rest."""
    is_behind = group.member_count > 0 and any(each.lag for each in facts.partitions)
    return is_behind and group.looks[-1].at_ms - group.looks[0].at_ms < REST_MS


def _rights(not_read: Iterable[NotRead]) -> list[Cause]:
    """One cause, whatever one may not see; first what was most likely meant."""
    missing = [each for each in not_read if each.resource is not None]
    missing.sort(key=lambda each: RESOURCES.index(each.resource[0]) if each.resource is not None else 0)
    return [Cause(RIGHTS, not_read=tuple(missing))] if missing else []


def _offline(partitions: Sequence[PartitionFacts]) -> list[Cause]:
    by_reason: dict[tuple[int, str | None], list[PartitionFacts]] = {}
    for each in partitions:
        if each.is_offline or each.error in NOBODY_SERVES:
            by_reason.setdefault((each.leader_id, each.error), []).append(each)
    found = [Cause(OFFLINE, tuple(each.where for each in seen), seen=tuple(seen)) for seen in by_reason.values()]
    return found + [Cause(DAMAGED, (each.where,), seen=(each,)) for each in partitions if each.damaged_at is not None]


def _counts(facts: Facts, found: OpenTransaction, older_than_ms: int) -> bool:
    if transaction_verdict(found) == ENDING:
        return found.producer_id in facts.still_ending or _is_unserved(facts, found.where)
    return found.age_ms > older_than_ms or older_than_ms == 0


def _is_unserved(facts: Facts, where: TopicPartition) -> bool:
    """No marker gets there, however long one waits."""
    return any(each.where == where and (each.is_offline or each.error in NOBODY_SERVES) for each in facts.partitions)


def _transactions(facts: Facts, older_than_ms: int) -> list[Cause]:
    scope = {each.where: each for each in facts.partitions}
    group = facts.group
    pending_at = group.offsets_partition if group is not None and group.pending else None
    candidates = {each.producer_id for each in facts.open if each.where == pending_at}
    by_transaction: dict[tuple[int, int, str], list[OpenTransaction]] = {}
    for each in facts.open:
        if (each.where in scope or each.where == pending_at) and _counts(facts, each, older_than_ms):
            verdict = transaction_verdict(each)
            # While markers are on their way the coordinator is one epoch ahead (KIP-890); what nobody owns may be several.
            producer_epoch = each.producer_epoch if verdict == HANGING else -1
            by_transaction.setdefault((each.producer_id, producer_epoch, verdict), []).append(each)
    found = []
    for places in by_transaction.values():
        places.sort(key=lambda each: (each.start_offset is None, each.where))
        read = [each for each in places if each.where in scope]
        blocked = sum(scope[each.where].blocked for each in read if _is_first(scope[each.where], each))
        pending = group is not None and any(each.where == pending_at for each in places)
        found.append(
            Cause(
                _kind(facts, places[0], is_read=bool(read)),
                tuple(each.where for each in read),
                blocked,
                tuple(places),
                tuple(sorted(group.pending)) if pending and group is not None else (),
                max(1, len(candidates)) if pending else 1,
            )
        )
    return found


def _is_first(partition: PartitionFacts, found: OpenTransaction) -> bool:
    """The last stable offset is where the first open transaction begins."""
    stable, start = partition.last_stable_offset, found.start_offset
    return stable is not None and start is not None and start <= stable


def _kind(facts: Facts, found: OpenTransaction, *, is_read: bool) -> str:
    verdict = transaction_verdict(found)
    if found.owner is None and facts.hidden:
        return UNKNOWN_OWNER  # somebody may own it: an abort on the partition could tear it apart
    if verdict in (HANGING, ENDING, TWO_PHASE):
        return {HANGING: HANGING_TRANSACTION, ENDING: MARKER_STUCK, TWO_PHASE: PREPARED}[verdict]
    return OPEN if is_read else PENDING


def _positions(partitions: Iterable[PartitionFacts]) -> list[Cause]:
    below, beyond = [], []
    for each in partitions:
        if each.position is None:
            continue
        if each.log_start_offset is not None and each.position < each.log_start_offset:
            below.append(each)
        elif each.high_watermark is not None and each.position > each.high_watermark:
            beyond.append(each)
    return [
        Cause(OUT_OF_RANGE, tuple(each.where for each in seen), seen=tuple(seen)) for seen in (below, beyond) if seen
    ]


def _members(group: GroupFacts, partitions: Sequence[PartitionFacts]) -> list[Cause]:
    if not is_settled(group.looks):
        return [Cause(REBALANCING)]
    if has_no_partitions(group):
        return [Cause(NO_PARTITIONS)]
    # A group that ran to the end and left is at rest; one that has something to read is not.
    waiting = [each for each in partitions if each.raw_lag is None or each.raw_lag > 0]
    if not group.member_count and not group.is_sparks and (waiting or group.pending):
        return [Cause(NO_MEMBERS, tuple(each.where for each in waiting), seen=tuple(waiting))]
    return []


def has_no_partitions(group: GroupFacts) -> bool:
    """Members, and none of them reads anything. A group of another protocol (Connect's workers) shares out other things."""
    is_consumers = group.protocol_type in ("consumer", "share", "")
    return is_consumers and group.member_count > 0 and not any(look.assigned_count for look in group.looks)
