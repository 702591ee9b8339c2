"""A share consumer's membership: heartbeats in the background, and what the broker assigned."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from oncelog.client.cluster.cluster import Cluster
from oncelog.client.cluster.group_offsets import FIND_AGAIN, group_key
from oncelog.client.config import ShareConsumerConfig
from oncelog.client.obstacle import Obstacle, rights_may_come
from oncelog.errors import ErrorCode, KafkaError, UnsupportedVersion, error_for
from oncelog.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

log = logging.getLogger("oncelog.client")

JOIN_EPOCH, LEAVE_EPOCH = 0, -1
FIRST_INTERVAL_MS = 5_000.0  # until the broker has said which
REJOIN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
LATER = (*FIND_AGAIN, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


class ShareMember:
    """One member of a share group. `wake` is called when its partitions have changed, or it cannot go on."""

    def __init__(self, cluster: Cluster, config: ShareConsumerConfig, member_id: str, wake: Callable[[], None]) -> None:
        self._cluster, self._config, self._wake = cluster, config, wake
        self.member_id = member_id
        self.topics: tuple[str, ...] = ()
        self.assigned: frozenset[tuple[bytes, int]] = frozenset()
        self.obstacle = Obstacle()
        self._member_epoch = JOIN_EPOCH
        self._told: tuple[str, ...] | None = None  # the topics that the broker knows of
        self._interval_ms = FIRST_INTERVAL_MS
        self._news = asyncio.Event()
        self._is_asking = asyncio.Lock()
        self._asks_again = False  # a fetch was refused

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Read these topics."""
        self.topics = topics
        self._news.set()

    def refused(self, error: KafkaError) -> None:
        """A fetch heard it first: the member asks again after a while."""
        self.obstacle.met(error)
        self._asks_again = True
        self._news.set()

    async def heartbeats(self) -> None:
        """Tell the coordinator that this member lives, for ever."""
        backoff = self._cluster.new_backoff()
        pause_ms = 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_ms / 1000 if self.topics else None):
                    await self._news.wait()
            self._news.clear()
            pause_ms = self._interval_ms
            if self.obstacle.is_final or not self.topics:
                continue
            if self._asks_again:
                self._asks_again = False
                pause_ms = backoff.next_ms()
                continue
            try:
                async with self._is_asking:
                    telling = self.topics  # others may be subscribed to until the answer is here
                    pause_ms = self._heard(await self._ask(self._request()), telling) or backoff.next_ms()
            except KafkaError as error:
                self._told = None  # the request may have been lost
                if error.retriable and not isinstance(error, UnsupportedVersion):
                    if self.obstacle.passed():
                        self._wake()
                    pause_ms = min(backoff.next_ms(), self._interval_ms)
                    continue
                self.obstacle.met(error)
                self._wake()
                if rights_may_come(error):
                    pause_ms = backoff.next_ms()
                continue
            if self.obstacle.passed():
                self._wake()
            backoff.reset()

    def _request(self) -> ShareGroupHeartbeatRequest:
        names = None if self._told == self.topics else list(self.topics)  # nobody is told when a member joins
        return ShareGroupHeartbeatRequest(
            group_id=self._config.group_id,
            member_id=self.member_id,
            member_epoch=self._member_epoch,
            rack_id=(self._config.client_rack or None) if self._member_epoch == JOIN_EPOCH else None,
            subscribed_topic_names=names,
        )

    def _heard(self, response: ShareGroupHeartbeatResponse, telling: tuple[str, ...]) -> float:
        """When to ask again, in ms; 0 after a back-off. `telling`: the topics when it was asked. Raises what the broker says
        where it is final."""
        code = response.error_code
        if code in REJOIN:
            log.warning(
                "share group %r: %s", self._config.group_id, response.error_message or "this member was put out"
            )
            self._member_epoch, self._told = JOIN_EPOCH, None
            self._take(frozenset())
            return 1.0
        if code in LATER:
            self._cluster.forget_coordinator(group_key(self._config.group_id))
            self._told = None
            return 0.0
        if code:
            text = response.error_message or "the heartbeat was refused"
            name = self._config.group_id
            raise self._cluster.refusal(code, f"share group {name!r}: {text}", name)
        self._member_epoch, self._told = response.member_epoch, telling
        self._interval_ms = float(response.heartbeat_interval_ms)
        if response.assignment is not None:
            topics = response.assignment.topic_partitions
            self._take(frozenset((bytes(each.topic_id), index) for each in topics for index in each.partitions))
        return self._interval_ms

    def _take(self, assigned: frozenset[tuple[bytes, int]]) -> None:
        if assigned != self.assigned:
            self.assigned = assigned
            self._wake()

    async def leave(self) -> None:
        """Others need not wait for the session to time out."""
        self.topics = ()
        async with self._is_asking:
            if self._member_epoch > JOIN_EPOCH:
                request = self._request().replace(member_epoch=LEAVE_EPOCH, subscribed_topic_names=None)
                response = await self._ask(request)
                self._member_epoch = JOIN_EPOCH
                if response.error_code:
                    raise error_for(response.error_code, "leaving the share group")

    async def _ask(self, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
        response: ShareGroupHeartbeatResponse = await self._cluster.ask_coordinator(
            group_key(self._config.group_id), request, version_min=1
        )
        return response
