"""Fetch sessions (KIP-227): a client names its partitions once, later requests and replies carry only what changed.

A session is found by its id and must be asked in the order of its epochs, so a repeated or lost request cannot leave
the two sides with different partitions. The number of sessions is bounded: a full cache gives up the session that was
idle longest, or one of at least two minutes' age that is smaller than the new one; else the client goes on without a
session (session id 0), which costs bytes and nothing else.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import field
from typing import NamedTuple

from oncelog.core.leader.verdict import Refuse
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass

NO_SESSION_ID = 0
INITIAL_SESSION_EPOCH = 0  # a full fetch that wants a session
FINAL_SESSION_EPOCH = -1  # a full fetch that wants none, and closes the one it names
SESSION_EPOCH_MAX = 2**31 - 1
EVICTABLE_AFTER_MS = 120_000
PARTITIONS_MAX = 1_000_000


class PartitionKey(NamedTuple):
    """A partition as the request names it: by topic id (Fetch v13+) or by name."""

    topic: Hashable
    partition: int


@dataclass(frozen=True, slots=True)
class PartitionToFetch:
    """One partition of a Fetch request (-1: not given)."""

    key: PartitionKey
    fetch_offset: int
    partition_bytes_max: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1


@dataclass(slots=True)
class _Remembered:
    wanted: PartitionToFetch
    # What the client was told last; -1 where it was told nothing, or an error, which is told again.
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1


@dataclass(slots=True)
class _Session:
    session_id: int
    uses_topic_ids: bool
    created_ms: int
    used_ms: int
    expected_session_epoch: int = 1
    partitions: OrderedDict[PartitionKey, _Remembered] = field(default_factory=OrderedDict)


class FetchContext:
    """One fetch: what it asks for, in order, and which partitions its reply has to name."""

    def __init__(
        self, session: _Session | None, partitions: Iterable[PartitionToFetch], *, is_incremental: bool
    ) -> None:
        self._session = session
        self._is_incremental = is_incremental
        self.partitions = tuple(partitions)

    @property
    def session_id(self) -> int:
        """For the reply; 0 where there is no session."""
        return NO_SESSION_ID if self._session is None else self._session.session_id

    def must_answer(
        self,
        key: PartitionKey,
        *,
        error_code: ErrorCode,
        high_watermark: int,
        last_stable_offset: int,
        log_start_offset: int,
        has_records: bool,
    ) -> bool:
        """Whether the reply names this partition; ask once per partition, when the reply is final.

        A full fetch names all, an incremental one those with records, an error or a changed offset.
        """
        remembered = None if self._session is None else self._session.partitions.get(key)
        if remembered is None or self._session is None:
            return True
        told = (remembered.high_watermark, remembered.last_stable_offset, remembered.log_start_offset)
        is_error = error_code is not ErrorCode.NONE
        news = (-1, -1, -1) if is_error else (high_watermark, last_stable_offset, log_start_offset)
        remembered.high_watermark, remembered.last_stable_offset, remembered.log_start_offset = news
        if has_records:
            self._session.partitions.move_to_end(key)  # the next request begins with those that got nothing
        return not self._is_incremental or has_records or is_error or news != told


class FetchSessions:
    """The fetch sessions of one broker. `new_session_id` gives random numbers in 1..2147483647."""

    def __init__(
        self,
        *,
        slots_max: int = 1000,
        partitions_max: Callable[[], int] = lambda: PARTITIONS_MAX,
        new_session_id: Callable[[], int],
    ) -> None:
        self._slots_max = slots_max  # max.incremental.fetch.session.cache.slots
        self._partitions_max = partitions_max  # oncelog.max.fetch.session.partitions: names need not exist
        self._new_session_id = new_session_id
        self._sessions: OrderedDict[int, _Session] = OrderedDict()  # the one idle longest first
        self.partition_count = 0  # remembered in all sessions
        self.evicted_count = 0
        self.limit_hit = ""  # the limit that kept the last fetch from a session

    def __len__(self) -> int:
        return len(self._sessions)

    def open(
        self,
        session_id: int,
        session_epoch: int,
        partitions: Iterable[PartitionToFetch],
        forgotten: Iterable[PartitionKey],
        *,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> FetchContext | Refuse:
        """Begin one fetch. Versions below 7 know no sessions: id 0, epoch -1. A refusal is for the whole reply."""
        self.limit_hit = ""
        if session_epoch in (INITIAL_SESSION_EPOCH, FINAL_SESSION_EPOCH):
            self._forget(session_id)
            wanted = list(partitions)
            session = None
            if session_epoch == INITIAL_SESSION_EPOCH:
                session = self._create(wanted, uses_topic_ids, now_ms)
            return FetchContext(session, wanted, is_incremental=False)
        session = self._sessions.get(session_id)
        if session is None:
            return Refuse(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"no fetch session {session_id}")
        if session.expected_session_epoch != session_epoch:
            return Refuse(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"fetch session {session_id} expects epoch {session.expected_session_epoch}, not {session_epoch}",
            )
        if session.uses_topic_ids != uses_topic_ids:
            return Refuse(
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, f"fetch session {session_id} names its topics the other way"
            )
        return self._continue(session, partitions, forgotten, now_ms)

    def reply_held_back(self, session_id: int, session_epoch: int) -> int:
        """The reply of a fetch with this epoch goes out empty: which id it has. Nobody hears of a session that is new; of another
        one, nothing of what the reply would have told was told."""
        if session_epoch == INITIAL_SESSION_EPOCH:
            self._forget(session_id)
            return NO_SESSION_ID
        session = self._sessions.get(session_id)
        for remembered in () if session is None else session.partitions.values():
            remembered.high_watermark = remembered.last_stable_offset = remembered.log_start_offset = -1
        return session_id

    def _forget(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.partition_count -= len(session.partitions)

    def _continue(
        self, session: _Session, partitions: Iterable[PartitionToFetch], forgotten: Iterable[PartitionKey], now_ms: int
    ) -> FetchContext | Refuse:
        count_before = len(session.partitions)
        for wanted in partitions:
            remembered = session.partitions.get(wanted.key)
            if remembered is None:
                session.partitions[wanted.key] = _Remembered(wanted)
            else:
                remembered.wanted = wanted
        for key in forgotten:
            session.partitions.pop(key, None)
        grown = len(session.partitions) - count_before
        self.partition_count += grown
        if grown > 0 and not self._has_room(0, now_ms, besides=session):
            self._forget(session.session_id)  # the client begins anew, and goes on without a session
            return Refuse(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "too many partitions in fetch sessions")
        if not session.partitions:  # nothing left to fetch: the session ends
            self._forget(session.session_id)
            return FetchContext(None, (), is_incremental=True)
        session.expected_session_epoch = (
            session.expected_session_epoch % SESSION_EPOCH_MAX + 1
        )  # after the largest comes 1
        session.used_ms = now_ms
        self._sessions.move_to_end(session.session_id)
        wanted_now = [remembered.wanted for remembered in session.partitions.values()]
        return FetchContext(session, wanted_now, is_incremental=True)

    def _create(self, wanted: list[PartitionToFetch], uses_topic_ids: bool, now_ms: int) -> _Session | None:
        if len(self._sessions) >= self._slots_max and not self._evict(len(wanted), now_ms):
            self.limit_hit = "max.incremental.fetch.session.cache.slots"
            return None
        if not self._has_room(len(wanted), now_ms):
            return None
        session_id = self._new_session_id()
        while session_id in self._sessions or session_id == NO_SESSION_ID:
            session_id = self._new_session_id()
        session = _Session(session_id, uses_topic_ids, created_ms=now_ms, used_ms=now_ms)
        session.partitions.update((partition.key, _Remembered(partition)) for partition in wanted)
        self._sessions[session_id] = session
        self.partition_count += len(session.partitions)
        return session

    def _has_room(self, more: int, now_ms: int, besides: _Session | None = None) -> bool:
        """Whether so many partitions may be remembered; sessions that were long idle make room."""
        while self.partition_count + more > self._partitions_max():
            idle_longest = next(iter(self._sessions.values()), None)
            is_idle = idle_longest is not None and now_ms - idle_longest.used_ms > EVICTABLE_AFTER_MS
            if idle_longest is None or idle_longest is besides or not is_idle:
                self.limit_hit = "oncelog.max.fetch.session.partitions"
                return False
            self._forget(idle_longest.session_id)
            self.evicted_count += 1
        return True

    def _evict(self, partition_count: int, now_ms: int) -> bool:
        idle_longest = next(iter(self._sessions.values()), None)
        if idle_longest is None:
            return False
        if now_ms - idle_longest.used_ms > EVICTABLE_AFTER_MS:
            victim = idle_longest
        else:
            victim = min(self._sessions.values(), key=lambda session: len(session.partitions))
            is_old_enough = now_ms - victim.created_ms > EVICTABLE_AFTER_MS
            if not is_old_enough or len(victim.partitions) >= partition_count:
                return False
        self._forget(victim.session_id)
        self.evicted_count += 1
        return True
