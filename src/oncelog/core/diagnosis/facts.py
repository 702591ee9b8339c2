"""What was seen of a group, a topic, a partition or a transactional id: plain values, filled in by whoever asks the brokers.

What could not be seen is a fact, too (`NotRead`, `Facts.hidden`): from its absence nobody may conclude that all is well.
"""

from __future__ import annotations

from dataclasses import field

from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition

GROUP, TOPIC, PARTITION, TRANSACTION = "group", "topic", "partition", "transaction"
AT_REST = ("Stable", "Empty", "Dead")


@dataclass(frozen=True, slots=True)
class Owner:
    """A transactional id as its coordinator describes it. Durations are None where no transaction is open."""

    transactional_id: str
    coordinator_id: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    duration_ms: int | None
    remaining_ms: int | None


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open on one partition: what its leader remembers, and what its coordinator says.

    `start_offset` is None where only the coordinator could be asked. `quiet_ms` is the time since its last record;
    `hanging_reason` says why no coordinator will end it (None: one will).
    """

    where: TopicPartition
    producer_id: int
    producer_epoch: int
    start_offset: int | None
    quiet_ms: int
    owner: Owner | None = None
    hanging_reason: str | None = None

    @property
    def age_ms(self) -> int:
        """For how long it has been open, as its coordinator says; of a hanging one: since its last record."""
        known = self.owner.duration_ms if self.owner is not None and self.hanging_reason is None else None
        return self.quiet_ms if known is None else known


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """A partition that is looked at. Offsets are None where it could not be asked; `error` then is Kafka's name of why.

    `position` is the group's, None where none is stored; `client_id` that of its reader; `damaged_at` the position where what
    is stored is not what was written.
    """

    where: TopicPartition
    log_start_offset: int | None = None
    last_stable_offset: int | None = None
    high_watermark: int | None = None
    position: int | None = None
    client_id: str | None = None
    leader_id: int = -1
    is_offline: bool = False
    error: str | None = None
    damaged_at: int | None = None

    @property
    def blocked(self) -> int:
        """How many offsets lie behind the last stable offset; 0 where that is not known."""
        if self.high_watermark is None or self.last_stable_offset is None:
            return 0
        return max(0, self.high_watermark - self.last_stable_offset)

    @property
    def lag(self) -> int | None:
        """How many offsets a read_committed reader can read now."""
        if self.position is None or self.last_stable_offset is None:
            return None
        return max(0, self.last_stable_offset - self.position)

    @property
    def raw_lag(self) -> int | None:
        """How many offsets lie behind the position."""
        if self.position is None or self.high_watermark is None:
            return None
        return max(0, self.high_watermark - self.position)


@dataclass(frozen=True, slots=True)
class GroupLook:
    """One look at a group. `fingerprint` changes with each rebalance: a group epoch, or the members' ids."""

    state: str
    fingerprint: str
    assigned_count: int
    at_ms: int = 0

    @property
    def is_at_rest(self) -> bool:
        """Whether no rebalance is under way."""
        return self.state in AT_REST


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A consumer group. `looks` are in order, `watched_ms` lie between the first and the last; `late_members` (KIP-848) have
    not reached their target. `pending` positions may still be moved by a transaction that is open on `offsets_partition`.
    `settling_ms`: for how long a rebalance of it is no cause yet, whatever was asked.
    `is_migration`: it keeps the state of a migration; its positions are another broker's offsets, and nobody reads with it.
    `is_share`: records are shared out one by one (KIP-932): its broker moves positions that retention has passed.
    `is_sparks`: a Spark query stores its position in it for who looks, and joins no group."""

    name: str
    state: str
    protocol_type: str
    member_count: int
    looks: tuple[GroupLook, ...] = ()
    watched_ms: int = 0
    settling_ms: int = 0
    late_members: tuple[str, ...] = ()
    pending: frozenset[TopicPartition] = frozenset()
    offsets_partition: TopicPartition | None = None
    is_migration: bool = False
    is_share: bool = False
    is_sparks: bool = False


@dataclass(frozen=True, slots=True)
class QuotaFacts:
    """What the members with a client id may read per second from each broker, whose quota that is, and how much of their lag
    lies on the broker that has the most of it."""

    client_id: str
    entity: tuple[tuple[str, str | None], ...]
    bytes_per_second: float
    lag_bytes: int

    @property
    def catch_up_ms(self) -> int:
        """How long reading the lag takes at least."""
        return int(self.lag_bytes * 1000 / self.bytes_per_second) if self.bytes_per_second > 0 else 2**62


@dataclass(frozen=True, slots=True)
class NotRead:
    """Something that could not be asked: `what`, Kafka's name of the error, what that means. `resource` where rights are
    missing: the kind and the name that they are about."""

    what: str
    error: str
    why: str
    resource: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """All that was seen of `name`. `kind` is None where even that could not be found out.

    `hidden`: why a transaction's owner may exist and not be seen; then nothing is called ownerless. `still_ending`: producer
    ids whose decided transactions were on their way all the time that was watched. `is_guarded`: access rules may keep out
    members that are not there. `frozen`: topics that nobody may write to.
    """

    kind: str | None
    name: str
    partitions: tuple[PartitionFacts, ...] = ()
    open: tuple[OpenTransaction, ...] = ()
    group: GroupFacts | None = None
    owner: Owner | None = None
    quotas: tuple[QuotaFacts, ...] = ()
    not_read: tuple[NotRead, ...] = ()
    hidden: tuple[str, ...] = ()
    still_ending: frozenset[int] = field(default_factory=frozenset)
    is_guarded: bool = False
    frozen: frozenset[str] = field(default_factory=frozenset)
