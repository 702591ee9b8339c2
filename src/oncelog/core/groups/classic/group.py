"""One classic consumer group: its members, the protocols they vote for, and its state.

`metadata` is what the log says (set by `apply` only). Everything else is soft: it lives between two log records,
starts from `metadata` after a restart (`restore`), and only ever loses a rebalance that clients then repeat. This file
keeps the member tables consistent; `group_rebalance` decides when to rebalance, `group_membership` what to answer.
Groups of KIP-848 are in `consumer_group`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import field
from enum import Enum, IntEnum

from oncelog.errors import ErrorCode, MalformedMessage
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.consumer_protocol import assignment_from_bytes, subscription_from_bytes
from oncelog.wire.log_records.consumer_offsets import GroupMetadata, GroupMetadataMember

CONSUMER_PROTOCOL_TYPE = "consumer"
NO_GENERATION = -1
NO_MEMBER_ID = ""


class GroupState(Enum):
    """Kafka's names, as DescribeGroups and ListGroups show them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


MAY_COME_FROM = {
    GroupState.EMPTY: {GroupState.PREPARING_REBALANCE, GroupState.DEAD},
    GroupState.PREPARING_REBALANCE: {GroupState.EMPTY, GroupState.STABLE, GroupState.COMPLETING_REBALANCE},
    GroupState.COMPLETING_REBALANCE: {GroupState.PREPARING_REBALANCE},
    GroupState.STABLE: {GroupState.COMPLETING_REBALANCE},
    GroupState.DEAD: {GroupState.EMPTY},
}
MAY_REBALANCE = MAY_COME_FROM[GroupState.PREPARING_REBALANCE]


@dataclass(slots=True)
class Member:
    """One member; a token addresses the request that waits for its answer."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes = b""
    join_token: int | None = None
    sync_token: int | None = None
    is_awaiting_join: bool = False
    is_awaiting_sync: bool = False
    is_new: bool = False
    session_deadline_ms: int | None = None

    @property
    def is_static(self) -> bool:
        """KIP-345: a member known by an instance id that outlives its member ids."""
        return self.group_instance_id is not None

    def subscription(self, protocol_name: str | None) -> bytes:
        """The member's metadata for this protocol, empty where it does not speak it."""
        return next((metadata for name, metadata in self.protocols if name == protocol_name), b"")

    def vote(self, candidates: Iterable[str]) -> str:
        """The first of its own protocols that every member speaks."""
        allowed = set(candidates)
        return next(name for name, _ in self.protocols if name in allowed)


class MetadataWriteKind(IntEnum):
    """Why a metadata record is on its way to the log: what is to be done when it is there."""

    ASSIGNMENT = 0
    STATIC_MEMBER = 1
    EMPTY_GROUP = 2


@dataclass(frozen=True, slots=True)
class MetadataWrite:
    """A metadata record between its decision and its `apply`."""

    record: GroupMetadata
    kind: MetadataWriteKind
    member_id: str = NO_MEMBER_ID
    leader_id_told: str | None = None
    may_skip_assignment: bool = False


@dataclass(slots=True)
class WallClock:
    """What to add to the caller's clock for ms since 1970. Sessions run by a clock that nobody sets; timestamps in
    the log and the retention of offsets follow the wall."""

    offset_ms: int = 0


@dataclass(slots=True)
class Group:
    """The tables of one group. `generation_id` counts completed join phases."""

    group_id: str
    metadata: GroupMetadata | None = None  # logged; all below is soft
    state: GroupState = GroupState.EMPTY
    previous_state: GroupState = GroupState.EMPTY
    state_timestamp_ms: int | None = None
    generation_id: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)  # instance id -> member id
    pending_members: dict[str, int] = field(default_factory=dict)  # id given, not joined yet -> deadline
    pending_sync: set[str] = field(default_factory=set)
    join_deadline_ms: int | None = None
    join_delay_ms: int = 0  # of the initial rebalance: the delay now running ...
    join_remaining_ms: int | None = None  # ... and what is left after it; None: not an initial rebalance
    has_new_member: bool = False
    sync_deadline_ms: int | None = None
    writes: deque[MetadataWrite] = field(default_factory=deque)
    scheduled_ms: int | None = None  # the coordinator's alarm for this group
    clock: WallClock = field(default_factory=WallClock)

    # -- state -----------------------------------------------------------------------------------------------------

    def is_in(self, *states: GroupState) -> bool:
        """Whether the group is in one of these states."""
        return self.state in states

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        """Takes a step that the table allows."""
        assert self.state in MAY_COME_FROM[state], f"group {self.group_id}: {self.state} -> {state}"
        self.previous_state, self.state = self.state, state
        self.state_timestamp_ms = now_ms + self.clock.offset_ms

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether its members speak the protocol of Kafka's consumers (and not, say, Connect's)."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def has_all_joined(self) -> bool:
        """No member and no given-out id is missing in the join phase."""
        return not self.pending_members and all(member.is_awaiting_join for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """The join phase waits as long as its most patient member."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # -- members ---------------------------------------------------------------------------------------------------

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """NONE, UNKNOWN_MEMBER_ID or, where another member has taken over the instance id, FENCED_INSTANCE_ID."""
        if group_instance_id is not None:
            known = self.static_members.get(group_instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def check_generation(self, member_id: str, group_instance_id: str | None, generation_id: int) -> ErrorCode:
        """As `check_member`, then ILLEGAL_GENERATION where the member speaks of another generation."""
        error_code = self.check_member(member_id, group_instance_id)
        if error_code == ErrorCode.NONE and generation_id != self.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        return error_code

    def add(self, member: Member) -> None:
        """A new member; the first is the leader until the join phase ends."""
        assert member.member_id not in self.members
        if not self.members:
            self.leader_id = None
        self.leader_id = self.leader_id or member.member_id
        self.members[member.member_id] = member
        self.pending_members.pop(member.member_id, None)
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id

    def remove(self, member_id: str) -> Member | None:
        """Forgets a member or a given-out id; the first of the remaining members leads."""
        self.pending_members.pop(member_id, None)
        self.pending_sync.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        instance_id = member.group_instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def rename_static_member(self, member: Member, member_id: str) -> None:
        """KIP-345: the same static member comes back with a new id and keeps its place, its assignment and its rank."""
        assert member.group_instance_id is not None
        old_id = member.member_id
        self.members = {(member_id if known == old_id else known): each for known, each in self.members.items()}
        member.member_id = member_id
        self.static_members[member.group_instance_id] = member_id
        if old_id in self.pending_sync:
            self.pending_sync.remove(old_id)
            self.pending_sync.add(member_id)
        if self.leader_id == old_id:
            self.leader_id = member_id

    def elect_joined_leader(self) -> bool:
        """Whether there is a leader who takes part in this join phase; elects one where the old one is missing."""
        leader = self.members.get(self.leader_id or NO_MEMBER_ID)
        if leader is not None and leader.is_awaiting_join:
            return True
        joined = next((member for member in self.members.values() if member.is_awaiting_join), None)
        if leader is None or joined is None:
            return False
        self.leader_id = joined.member_id
        return True

    # -- protocols -------------------------------------------------------------------------------------------------

    def supported_protocols(self) -> set[str]:
        """The protocols that every member speaks."""
        counts = Counter(name for member in self.members.values() for name in dict(member.protocols))
        return {name for name, count in counts.items() if count == len(self.members)}

    def may_join_with(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with these protocols leaves the group one that all of them speak."""
        names = set(names)
        if self.state is GroupState.EMPTY or not self.members:
            return bool(protocol_type and names)
        return self.protocol_type == protocol_type and not names.isdisjoint(self.supported_protocols())

    def select_protocol(self) -> str:
        """Each member votes for its most preferred common protocol; the earliest vote wins a tie."""
        candidates = self.supported_protocols()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def gives_back(self, member: Member) -> bool:
        """KIP-429: whether the member had partitions when it joined that it was not assigned again. Nobody reads them until it
        joins once more; one that is killed before that does not know, in its next life, that this is waited for."""
        if not self.uses_consumer_protocol:
            return False
        try:
            owned = subscription_from_bytes(member.subscription(self.protocol_name)).owned_partitions
            assigned = assignment_from_bytes(member.assignment).partitions if member.assignment else ()
        except MalformedMessage:  # of a protocol that is not Kafka's
            return False
        return not set(owned).issubset(assigned)

    def start_generation(self, now_ms: int) -> None:
        """Ends the join phase: a new generation with the members that are here."""
        self.generation_id += 1
        self.pending_sync.clear()
        if self.members:
            self.protocol_name = self.select_protocol()
            self.transition_to(GroupState.COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol_name = None
            self.transition_to(GroupState.EMPTY, now_ms)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads this topic; where the subscriptions cannot be read, all topics count."""
        topics = self.subscribed_topics()
        return self.uses_consumer_protocol if topics is None else topic in topics

    def subscribed_topics(self) -> set[str] | None:
        """The topics of the members' subscriptions, None where they are not those of a consumer."""
        if not self.uses_consumer_protocol:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            name = self.protocol_name or member.protocols[0][0]
            try:
                topics.update(subscription_from_bytes(member.subscription(name)).topics)
            except MalformedMessage:
                return None
        return topics

    # -- the log's view --------------------------------------------------------------------------------------------

    def to_metadata(self, assignments: dict[str, bytes] | None = None) -> GroupMetadata:
        """The record of this generation; `assignments` replaces those that the members hold."""

        def logged(member: Member) -> GroupMetadataMember:
            new = member.assignment if assignments is None else assignments.get(member.member_id, b"")
            return GroupMetadataMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.session_timeout_ms,
                subscription=member.subscription(self.protocol_name),
                assignment=new,
            )

        return GroupMetadata(
            group_id=self.group_id,
            protocol_type=self.protocol_type or "",
            generation_id=self.generation_id,
            protocol_name=self.protocol_name,
            leader_id=self.leader_id,
            current_state_timestamp_ms=-1 if self.state_timestamp_ms is None else self.state_timestamp_ms,
            members=tuple(logged(member) for member in self.members.values()),
        )

    def restore(self, now_ms: int) -> None:
        """Starts the soft state from the log: members get a fresh session, whatever a rebalance had begun is gone."""
        record = self.metadata
        if record is None:
            return
        self.generation_id = record.generation_id
        self.protocol_type = record.protocol_type or None
        self.protocol_name = record.protocol_name
        self.leader_id = record.leader_id
        self.state_timestamp_ms = None if record.current_state_timestamp_ms < 0 else record.current_state_timestamp_ms
        self.state = self.previous_state = GroupState.STABLE if record.members else GroupState.EMPTY
        for logged in record.members:
            member = Member(
                member_id=logged.member_id,
                group_instance_id=logged.group_instance_id,
                client_id=logged.client_id,
                client_host=logged.client_host,
                rebalance_timeout_ms=logged.rebalance_timeout_ms,
                session_timeout_ms=logged.session_timeout_ms,
                protocols=((record.protocol_name or "", logged.subscription),),
                assignment=logged.assignment,
                session_deadline_ms=now_ms + logged.session_timeout_ms,
            )
            self.members[member.member_id] = member
            if member.group_instance_id is not None:
                self.static_members[member.group_instance_id] = member.member_id

    # -- time ------------------------------------------------------------------------------------------------------

    def next_deadline(self) -> int | None:
        """When something of this group is due, in ms of the caller's clock."""
        deadlines = [member.session_deadline_ms for member in self.members.values()]
        deadlines += [self.join_deadline_ms, self.sync_deadline_ms, *self.pending_members.values()]
        return min((each for each in deadlines if each is not None), default=None)
