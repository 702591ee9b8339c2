"""A consumer's membership in a group (the classic protocol): joining, heartbeats, leaving.

Rule: an assignment is adopted, and given partitions are lost, only inside the application's own `poll`. Otherwise the
generation could change between reading records and committing their offsets in a transaction, and the fence of KIP-447
would let a partition's former owner through.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from oncelog.client.backoff import Backoff
from oncelog.client.cluster.cluster import Cluster
from oncelog.client.cluster.group_offsets import group_error, group_key
from oncelog.client.config import ConsumerConfig
from oncelog.client.obstacle import Obstacle, rights_may_come
from oncelog.core.consumer.assignors import ASSIGNORS, assign_joined, user_data
from oncelog.errors import (
    ErrorCode,
    FencedInstanceId,
    IllegalGeneration,
    InconsistentGroupProtocol,
    KafkaError,
    MalformedMessage,
    UnknownMemberId,
)
from oncelog.lazy_dataclass import dataclass
from oncelog.types import GroupMetadata, TopicPartition
from oncelog.wire.consumer_protocol import (
    Subscription,
    assignment_from_bytes,
    subscription_from_bytes,
    subscription_to_bytes,
)
from oncelog.wire.messages.heartbeat import HeartbeatRequest
from oncelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from oncelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from oncelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

log = logging.getLogger("oncelog.client")

PROTOCOL_TYPE = "consumer"
JOIN_SLACK_MS = 5000  # the broker answers JoinGroup after the rebalance timeout at the latest
JOINS_AT_ONCE = 3  # then with a pause: members of both protocols may take many rounds (KIP-848)
_OF_A_GENERATION = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)


@dataclass(frozen=True, slots=True)
class Joined:
    """A finished join: the generation, and what this member is to read."""

    generation_id: int
    member_id: str
    protocol_name: str
    partitions: tuple[TopicPartition, ...]


PartitionCounts = Callable[[Sequence[str]], Awaitable[Mapping[str, int]]]


class GroupMembership:
    """One member. `wake` is called when the application's next poll has something to do."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        partition_counts: PartitionCounts,
        wake: Callable[[], None],
    ) -> None:
        assert config.group_id is not None
        self._cluster, self._config, self._wake = cluster, config, wake
        self._assignors = {name: ASSIGNORS[name] for name in config.assignment_strategies}
        self.assigned_counts: dict[str, int] | None = None  # what this member as the leader assigned
        self._partition_counts = partition_counts
        self._join: asyncio.Task[Joined] | None = None
        self._refused: asyncio.Future[None] | None = None  # the join under way was, and is tried again after a while
        self._member_id = ""  # as the coordinator knows it, maybe ahead of what was adopted
        self._generation_id = -1
        self._last_poll_ms = 0.0
        self.group_id = config.group_id
        self.adopted: Joined | None = None
        self.needs_join = True
        self.subscribed: tuple[str, ...] = ()  # the topics of the last join
        self.group_topics: frozenset[str] = frozenset()  # as the leader: what anybody of the group subscribed to
        self.to_take_over: tuple[TopicPartition, ...] | None = None  # of `adopted`; None: it is done
        self.lost = False  # the coordinator threw this member out: its partitions may be read by others already
        self.obstacle = Obstacle()

    # -- for the consumer

    def metadata(self) -> GroupMetadata:
        """The member as of the last poll: what fences commits (KIP-447)."""
        if self.adopted is None:
            return GroupMetadata(self.group_id, -1, "", self._config.group_instance_id)
        return GroupMetadata(
            self.group_id, self.adopted.generation_id, self.adopted.member_id, self._config.group_instance_id
        )

    @property
    def is_cooperative(self) -> bool:
        """Whether partitions are kept during a rebalance (KIP-429)."""
        return all(assignor.is_cooperative for assignor in self._assignors.values())

    @property
    def is_joining(self) -> bool:
        """Whether a join is under way or done and not adopted."""
        return self._join is not None

    def polled(self) -> None:
        """The application polled: it is alive (max_poll_interval_ms)."""
        self._last_poll_ms = self._cluster.now_ms()

    def start_join(self, topics: Sequence[str], owned: Sequence[TopicPartition]) -> None:
        """Begin to join; `joined` gives the result."""
        self.needs_join = False
        self.subscribed = tuple(sorted(topics))
        generation_id = self.adopted.generation_id if self.adopted else -1
        subscription = Subscription(
            topics=self.subscribed,
            owned_partitions=tuple(owned),
            generation_id=generation_id,
            rack_id=self._config.client_rack or None,
        )
        self._join = self._cluster.tasks.start(self._joined(subscription), name="oncelog-join")
        self._join.add_done_callback(lambda _: self._wake())

    async def joined(self, timeout_s: float) -> bool:
        """Whether the join ended within the time, with `to_take_over` or with this member `lost`; or it met an obstacle, and
        goes on. Raises what cannot be retried."""
        join = self._join
        assert join is not None
        if self._refused is None or self._refused.done():
            self._refused = asyncio.get_running_loop().create_future()
        waits_for: tuple[asyncio.Future[Any], ...] = (join, self._refused)
        await asyncio.wait(waits_for, timeout=max(timeout_s, 0), return_when=asyncio.FIRST_COMPLETED)
        if self._join is not join:
            return True  # the member left meanwhile, or was put out
        if not join.done() or join.cancelled():
            return self.obstacle.error is not None
        self._join = None
        self.polled()  # who waits for a join is in `poll`
        try:
            self.adopted = join.result()
        except (UnknownMemberId, IllegalGeneration):
            self.needs_join = self.lost = True
        except KafkaError:
            self.needs_join = True
            raise
        else:
            self.to_take_over = self.adopted.partitions
        return True

    def gave_back(self) -> None:
        """KIP-429: only with the next join may somebody else get what was given back."""
        self.needs_join = True

    def let_go(self) -> None:
        """The application has heard that its partitions are lost."""
        self.lost, self.to_take_over = False, None

    def depart(self, reason: str) -> LeaveGroupRequest | None:
        """Out from now on; what the coordinator has to be told. A static member stays (KIP-345)."""
        if self._join is not None:
            self._join.cancel()
            self._join = None
        self.obstacle.passed()
        member_id = self._member_id
        self.adopted, self.to_take_over, self.needs_join = None, None, True
        if not member_id or self._config.group_instance_id is not None:
            return None
        self._member_id, self._generation_id = "", -1
        return LeaveGroupRequest(group_id=self.group_id, members=[MemberIdentity(member_id=member_id, reason=reason)])

    async def leave(self, message: LeaveGroupRequest | None) -> None:
        """Tell it, so that others need not wait for the session to time out."""
        if message is not None:
            try:
                await self._cluster.ask_coordinator(group_key(self.group_id), message, version_min=3)
            except KafkaError as error:
                log.debug("leaving group %r: %s", self.group_id, error)

    # -- joining

    async def _joined(self, subscription: Subscription) -> Joined:
        backoff = self._cluster.new_backoff()
        at_once = JOINS_AT_ONCE
        while True:
            has_id = bool(self._member_id)
            self.obstacle.passed()  # a refusal comes at once, and a join that is let in may wait for others
            try:
                response = await self._join_group(subscription)
                return await self._sync_group(response)
            except MalformedMessage as error:
                raise InconsistentGroupProtocol(f"a member of {self.group_id!r} tells nonsense: {error}") from error
            except KafkaError as error:
                if not self._may_join_again(error, subscription):
                    raise
                log.debug("joining group %r: %s", self.group_id, error)
                if rights_may_come(error):
                    self.obstacle.met(error)
                    if self._refused is not None and not self._refused.done():
                        self._refused.set_result(None)
                    self._wake()
                if error.code == ErrorCode.MEMBER_ID_REQUIRED and not has_id:
                    continue  # the id is good for a session timeout, which may be shorter than a pause
                at_once -= 1
                if error.code != ErrorCode.REBALANCE_IN_PROGRESS or at_once < 0:
                    await asyncio.sleep(backoff.next_ms() / 1000)

    def _may_join_again(self, error: KafkaError, subscription: Subscription) -> bool:
        if error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self._generation_id = -1
            if (
                error.code == ErrorCode.UNKNOWN_MEMBER_ID
            ):  # else it is a member still, and as another one it would never leave
                self._member_id = ""
            # What it owns is lost: others may have read on. Kept, with its places, it would be read again.
            return not subscription.owned_partitions
        if rights_may_come(error):
            return True
        return error.retriable or error.code in (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS)

    async def _join_group(self, subscription: Subscription) -> JoinGroupResponse:
        config = self._config
        had = self.adopted.partitions if self.adopted is not None else ()
        protocols = [
            JoinGroupRequestProtocol(
                name=name,
                metadata=subscription_to_bytes(
                    replace(subscription, user_data=user_data(name, had, subscription.generation_id))
                ),
            )
            for name in self._assignors
        ]
        message = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.max_poll_interval_ms,
            member_id=self._member_id,
            group_instance_id=config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=protocols,
        )
        response: JoinGroupResponse = await self._ask(message, version_min=5)
        if response.error_code:
            if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self._member_id = response.member_id
            raise group_error(self._cluster, self.group_id, response.error_code, "it could not be joined")
        self._member_id, self._generation_id = response.member_id, response.generation_id
        return response

    async def _ask(self, message: JoinGroupRequest | SyncGroupRequest, version_min: int) -> Any:
        """On a connection of its own: the answer waits for the other members, and heartbeats must not."""
        return await self._cluster.ask_coordinator(
            group_key(self.group_id),
            message,
            version_min=version_min,
            timeout_ms=self._config.max_poll_interval_ms + JOIN_SLACK_MS,
            lane="group",
        )

    async def _sync_group(self, joined: JoinGroupResponse) -> Joined:
        protocol_name = joined.protocol_name or ""
        assignments: list[SyncGroupRequestAssignment] = []
        self.assigned_counts = None
        if joined.leader == joined.member_id and not joined.skip_assignment:
            assignments = await self._assign(protocol_name, joined)
        message = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=self._config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=protocol_name,
            assignments=assignments,
        )
        response: SyncGroupResponse = await self._ask(message, version_min=3)
        if response.error_code:
            raise group_error(self._cluster, self.group_id, response.error_code, "it could not be synchronised")
        partitions = assignment_from_bytes(response.assignment).partitions
        return Joined(joined.generation_id, joined.member_id, protocol_name, partitions)

    async def _assign(self, protocol_name: str, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        if protocol_name not in self._assignors:
            raise InconsistentGroupProtocol(f"group {self.group_id!r} chose {protocol_name!r}, which was not offered")
        topics = {t for member in joined.members for t in subscription_from_bytes(member.metadata).topics}
        self.group_topics = frozenset(topics)
        self.assigned_counts = dict(await self._partition_counts(sorted(topics)))
        shares = assign_joined(self._assignors[protocol_name], joined.members, self.assigned_counts)
        return [SyncGroupRequestAssignment(member_id=m, assignment=data) for m, data in shares.items()]

    # -- heartbeats

    async def heartbeats(self) -> None:
        """Tell the coordinator that this member lives, for ever."""
        backoff = self._cluster.new_backoff()
        pause_ms = float(self._config.heartbeat_interval_ms)
        while True:
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = self._config.heartbeat_interval_ms
            if self._generation_id < 0 or (self._join is not None and not self._join.done()):
                continue
            if self._cluster.now_ms() - self._last_poll_ms > self._config.max_poll_interval_ms:
                await self._stop_for_silence()
                continue
            asked_as = self._member_id, self._generation_id
            try:
                await self._heartbeat()
                backoff.reset()
                if not self._has_moved_on(asked_as) and self.obstacle.passed():
                    self._wake()
            except KafkaError as error:
                is_of_then = error.code in _OF_A_GENERATION or rights_may_come(error)
                if not is_of_then or not self._has_moved_on(asked_as):
                    pause_ms = self._heartbeat_failed(error, backoff)

    def _has_moved_on(self, asked_as: tuple[str, int]) -> bool:
        """Whether an answer is about a generation that is over. A join that is under way hears for itself."""
        is_joining = self._join is not None and not self._join.done()
        return is_joining or asked_as != (self._member_id, self._generation_id)

    async def _stop_for_silence(self) -> None:
        log.warning(
            "group %r: no poll for max_poll_interval_ms=%d, leaving", self.group_id, self._config.max_poll_interval_ms
        )
        adopted = self.adopted
        message = self.depart("no poll within max_poll_interval_ms")
        # Until the application polls it commits as who it was: without a generation nothing would fence it (KIP-447).
        self.adopted, self.lost = adopted, True
        self._wake()
        await self.leave(message)

    async def _heartbeat(self) -> None:
        message = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self._generation_id,
            member_id=self._member_id,
            group_instance_id=self._config.group_instance_id,
        )
        response = await self._cluster.ask_coordinator(group_key(self.group_id), message, version_min=3)
        if response.error_code:
            raise group_error(self._cluster, self.group_id, response.error_code, "the heartbeat was refused")

    def _heartbeat_failed(self, error: KafkaError, backoff: Backoff) -> float:
        if rights_may_come(error):
            self.obstacle.met(error)
            self._wake()
            return min(backoff.next_ms(), self._config.heartbeat_interval_ms)
        self.obstacle.passed()
        if error.code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.needs_join = True
            self._wake()
        elif error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self._generation_id = -1
            if error.code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._member_id = ""
            self._join = None  # what came of it was given to others since, and must not be taken over
            self.lost = self.needs_join = True
            self._wake()
        elif isinstance(error, FencedInstanceId) or not error.retriable:
            self._generation_id = -1
            self.obstacle.met(error)
            self._wake()
        else:
            log.debug("heartbeat: %s", error)
            return min(backoff.next_ms(), self._config.heartbeat_interval_ms)
        return self._config.heartbeat_interval_ms
