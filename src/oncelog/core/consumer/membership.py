"""A consumer's own side of the consumer group protocol (KIP-848): what its next heartbeat says, what an answer means.

The member tells what changed since its last heartbeat that was answered; where one was not answered, or it joins, it
tells everything, and so does every tenth heartbeat, in case an assignment was lost: the broker sends it once, and a late
heartbeat of a lost connection may have taken the answer along. It owns what the application has taken over (`owned`),
not what it was assigned: the broker gives a partition to nobody else before the member has said that it does not own it
any more. A member that was fenced owns nothing once the application has let go, and joins again with the same id.

The join of a static member whose answer was lost cannot be repeated: its name is owned then, be it by itself
(UNRELEASED_INSTANCE_ID, also Apache Kafka's answer). So it gives the name back, as a member that leaves does, and joins anew;
if the name is another one's the broker refuses that, and the application hears of it.

What a member is to read, the broker may find out behind its answer: it resolves a pattern, or gathers members for a moment. So a
member that came and was given nothing asks a few times more before the broker's interval, which is five seconds.

A broker that takes partitions away waits until the member says what it has left. Where the application had not even taken them
over, what it has is what it had, and would not be said again before everything is, ten intervals later: it is said at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH = 0, -1, -2
ASKED_SOON = 5  # heartbeats behind the one that joined, or subscribed anew: with Kafka's pauses 2.5 s in all
SAYS_ALL_EVERY = 10  # heartbeats; who says everything hears the whole assignment

Partitions = Mapping[bytes, frozenset[int]]  # topic id -> partitions


class Heard(Enum):
    """What an answer means for the member."""

    WELL = 0
    ASSIGNED = 1  # there is something to take over or to give back
    FENCED = 2  # the broker put it out: others may read its partitions already
    LATER = 3  # ask again, maybe somebody else
    REFUSED = 4  # the error is the application's
    LATE = 5  # of a membership, or an epoch, that is over: it says nothing


_FENCED = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})
_LATER = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,  # as Kafka's consumer: rights may come
    }
)


@dataclass(frozen=True, slots=True)
class MemberIdentity:
    """What does not change while the consumer lives. Times in ms."""

    group_id: str
    member_id: str
    rebalance_timeout_ms: int
    instance_id: str | None = None
    rack_id: str | None = None
    server_assignor: str | None = None


@dataclass(frozen=True, slots=True)
class _Told:
    topics: tuple[str, ...]
    pattern: str | None
    owned: Partitions
    withdrawn_count: int


class ConsumerMembership:
    """One member. Pure: the shell sends `request()`, and gives the answer to `heard` or says `unanswered`."""

    def __init__(self, identity: MemberIdentity) -> None:
        self.identity = identity
        self.member_epoch = JOIN_EPOCH
        self.heartbeat_interval_ms = 0  # the broker's wish, 0 before it has one
        self.assigned: Partitions = {}  # by the broker
        self.owned: Partitions = {}  # by the application
        self.is_fenced = False  # until the application has let go
        self.may_be_member = (
            False  # of what the broker knows: it was asked to let it in, and has not said since that it is out
        )
        self._topics: tuple[str, ...] = ()
        self._pattern: str | None = None
        self._told: _Told | None = None
        self._telling: _Told | None = None
        self._withdrawn_count = 0  # assignments that took away what the application had not taken over yet
        self._soon_left = 0  # heartbeats that may come before their time
        self._since_all = 0  # requests since one that said everything
        self._join_is_unheard = self._must_release = False  # of a static member: see above

    # -- what the application does ---------------------------------------------------------------------------------

    def subscribe(self, topics: tuple[str, ...], pattern: str | None) -> None:
        """Read these topics, or those that the broker finds by the pattern (RE2)."""
        self._topics, self._pattern = tuple(sorted(topics)), pattern

    def own(self, partitions: Partitions) -> None:
        """The application reads exactly these now."""
        self.owned = {topic_id: held for topic_id, held in partitions.items() if held}

    def let_go(self) -> None:
        """The application has heard that its partitions are lost: the member may join again."""
        self.own({})
        self.is_fenced = False

    @property
    def has_subscription(self) -> bool:
        """Whether there is anything to be a member for."""
        return bool(self._topics) or self._pattern is not None

    @property
    def topics(self) -> tuple[str, ...]:
        """What is subscribed by name."""
        return self._topics

    @property
    def is_joined(self) -> bool:
        """Whether the broker knows the member in an epoch."""
        return self.member_epoch > JOIN_EPOCH

    @property
    def must_reconcile(self) -> bool:
        """Whether the application has something to give back or to take over."""
        return self.is_joined and self.assigned != self.owned

    # -- what goes out ---------------------------------------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        """Whether the broker should hear at once, not with the next heartbeat."""
        if self.is_fenced or not self.has_subscription:
            return False
        return self._told is None or self._told != self._now()

    @property
    def must_ask_soon(self) -> bool:
        """Whether the next heartbeat should come before its time: the member has just come, and was given nothing yet."""
        return self.is_joined and not self.assigned and self._soon_left > 0

    def request(self) -> ConsumerGroupHeartbeatRequest:
        """The next heartbeat; a join where the member has no epoch."""
        assert not self.is_fenced
        is_join = not self.is_joined
        assert not (is_join and self.owned), "who joins owns nothing"
        told, now = self._told, self._now()
        self._telling = now
        if self._must_release:
            return self.leave_request()
        is_new = is_join or (told is not None and (told.topics, told.pattern) != (now.topics, now.pattern))
        self._soon_left = ASKED_SOON if is_new else max(self._soon_left - 1, 0)
        says_all = is_join or told is None or self._since_all + 1 >= SAYS_ALL_EVERY
        self._since_all = 0 if says_all else self._since_all + 1
        identity = self.identity
        request = ConsumerGroupHeartbeatRequest(
            group_id=identity.group_id,
            member_id=identity.member_id,
            member_epoch=self.member_epoch,
            instance_id=identity.instance_id,
        )
        if says_all:
            request.rebalance_timeout_ms = identity.rebalance_timeout_ms
            request.rack_id, request.server_assignor = identity.rack_id, identity.server_assignor
        if says_all or told is None or now.topics != told.topics:
            request.subscribed_topic_names = list(now.topics)
        if now.pattern != (told.pattern if told is not None else None) or (says_all and now.pattern is not None):
            request.subscribed_topic_regex = now.pattern or ""
        if says_all or told is None or (now.owned, now.withdrawn_count) != (told.owned, told.withdrawn_count):
            request.topic_partitions = [
                TopicPartitions(topic_id=topic_id, partitions=sorted(held)) for topic_id, held in now.owned.items()
            ]
        return request

    def leave_request(self) -> ConsumerGroupHeartbeatRequest:
        """The last one; a static member says that it may be back (KIP-345)."""
        identity = self.identity
        return ConsumerGroupHeartbeatRequest(
            group_id=identity.group_id,
            member_id=identity.member_id,
            member_epoch=LEAVE_EPOCH if identity.instance_id is None else STATIC_LEAVE_EPOCH,
            instance_id=identity.instance_id,
        )

    def _now(self) -> _Told:
        return _Told(self._topics, self._pattern, self.owned, self._withdrawn_count)

    # -- what comes back -------------------------------------------------------------------------------------------

    def heard(self, response: ConsumerGroupHeartbeatResponse) -> Heard:
        """The answer to the last request."""
        told, self._telling = self._telling, None
        if told is None:
            return Heard.LATE  # it left, or was put out, since it asked
        code = response.error_code
        if self._must_release and code not in _LATER:
            self._must_release = self._join_is_unheard = False
            self._told = None
            return Heard.LATER  # whatever it said: the join tells whose the name is
        if code:
            self._told = None
            if code == ErrorCode.UNRELEASED_INSTANCE_ID and self._join_is_unheard:
                self._must_release = True
                return Heard.LATER
            if code in _FENCED:
                self.may_be_member &= code != ErrorCode.UNKNOWN_MEMBER_ID
                self._fence()
                return Heard.FENCED
            return Heard.LATER if code in _LATER else Heard.REFUSED
        if response.member_epoch < self.member_epoch:
            self._told = None
            return Heard.LATE
        self._told = told
        self._join_is_unheard = False
        self.member_epoch = response.member_epoch
        self.heartbeat_interval_ms = response.heartbeat_interval_ms
        if response.assignment is None:
            return Heard.WELL
        assigned = {
            bytes(each.topic_id): frozenset(each.partitions)
            for each in response.assignment.topic_partitions
            if each.partitions
        }
        nothing: frozenset[int] = frozenset()
        self._withdrawn_count += any(
            held - assigned.get(topic_id, nothing) - self.owned.get(topic_id, nothing)
            for topic_id, held in self.assigned.items()
        )
        self.assigned = assigned
        return Heard.ASSIGNED

    def goes_out(self) -> bool:
        """The last request leaves now, unless this says that the member was put out or left since it was made."""
        self.may_be_member |= self._telling is not None
        return self._telling is not None

    def unanswered(self) -> None:
        """Nobody knows whether the broker heard the last request: the next one says everything."""
        if self._telling is not None and self.identity.instance_id is not None and not self.is_joined:
            self._join_is_unheard = self.may_be_member
        self._told = self._telling = None

    def left(self) -> None:
        """The member is out by its own wish, and says so (`leave_request`)."""
        self.may_be_member = self._join_is_unheard = self._must_release = False
        self._fence()

    def _fence(self) -> None:
        self.member_epoch = JOIN_EPOCH
        self.assigned = {}
        self._told = self._telling = None
        self.is_fenced = bool(self.owned)
