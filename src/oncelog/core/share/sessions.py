"""Share sessions (KIP-932): a member names its partitions once; later requests carry what changed and what it acknowledges.

A session is of one member of one group, and of one connection: when that ends, what the member has is available to others. Its
requests come in the order of their epochs, so a repeated or lost one cannot leave the two sides with different partitions. Who
wants one more than there may be is refused: a member that was sent away comes again, and nothing of another's is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from typing import NamedTuple

from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 2**31 - 1


class MemberKey(NamedTuple):
    """Whose session it is."""

    group_id: str
    member_id: str


class Wanted(NamedTuple):
    """A partition of a session."""

    topic_id: bytes
    partition: int


@dataclass(slots=True)
class ShareSession:
    """The partitions that one member reads."""

    key: MemberKey
    connection_id: int
    session_epoch: int = 1
    partitions: dict[Wanted, None] = field(default_factory=dict)  # who was answered with records goes to the end

    def answered(self, wanted: Wanted) -> None:
        """It had records: others come first next time."""
        if wanted in self.partitions:
            del self.partitions[wanted]
            self.partitions[wanted] = None


@dataclass(frozen=True, slots=True)
class RefusedSession:
    """There is no such session, or not in this epoch."""

    error_code: ErrorCode


class ShareSessions:
    """All sessions of this node."""

    def __init__(self, count_max: Callable[[], int], partitions_max: Callable[[], int]) -> None:
        self._count_max = count_max
        self._partitions_max = partitions_max
        self._sessions: dict[MemberKey, ShareSession] = {}
        self._of_connection: dict[int, dict[MemberKey, None]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, key: MemberKey, connection_id: int, wanted: Iterable[Wanted]) -> ShareSession | RefusedSession:
        """Epoch 0: a new session, in the place of the one that the member had."""
        self._forget(key)
        if len(self._sessions) >= self._count_max():
            return RefusedSession(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = ShareSession(key, connection_id, partitions=dict.fromkeys(wanted))
        if not self._has_room(len(session.partitions)):
            return RefusedSession(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        self._sessions[key] = session
        self._of_connection.setdefault(connection_id, {})[key] = None
        return session

    def follow(
        self, key: MemberKey, session_epoch: int, wanted: Iterable[Wanted] = (), forgotten: Iterable[Wanted] = ()
    ) -> ShareSession | RefusedSession:
        """The next request of a session; `wanted` comes to its partitions, `forgotten` goes."""
        session = self._sessions.get(key)
        if session is None:
            return RefusedSession(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if session.session_epoch != session_epoch:
            return RefusedSession(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        new = [each for each in wanted if each not in session.partitions]
        if new and not self._has_room(len(new)):
            return RefusedSession(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session.partitions.update(dict.fromkeys(new))
        for each in forgotten:
            session.partitions.pop(each, None)
        session.session_epoch = session_epoch + 1 if session_epoch < EPOCH_MAX else 1
        return session

    def _has_room(self, count: int) -> bool:
        """Whether so many more partitions may be in sessions."""
        return sum(len(each.partitions) for each in self._sessions.values()) + count <= self._partitions_max()

    def close(self, key: MemberKey) -> ShareSession | RefusedSession:
        """Epoch -1: the session ends."""
        return self._forget(key) or RefusedSession(ErrorCode.SHARE_SESSION_NOT_FOUND)

    def connection_lost(self, connection_id: int) -> list[ShareSession]:
        """The sessions that ended with a connection."""
        gone = [self._forget(key) for key in tuple(self._of_connection.get(connection_id, ()))]
        return [each for each in gone if each is not None]

    def _forget(self, key: MemberKey) -> ShareSession | None:
        session = self._sessions.pop(key, None)
        if session is not None:
            keys = self._of_connection[session.connection_id]
            del keys[key]
            if not keys:
                del self._of_connection[session.connection_id]
        return session
