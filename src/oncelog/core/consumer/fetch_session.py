"""A client's side of a fetch session (KIP-227): name partitions once, afterwards only what changed.

One per connection that fetches. The broker answers with a session id where it has room for one; each request then has
the next session epoch. Whenever the two sides may differ (an error, an answer that did not come, other ways to name
topics) the client begins again with all its partitions, and closes the session that it leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from oncelog.lazy_dataclass import dataclass

NO_SESSION_ID = 0
FULL = 0  # the session epoch of a request with everything
SESSION_EPOCH_MAX = 2**31 - 1


class SessionPartition(NamedTuple):
    """A partition of a session; the id (16 bytes) is all zeroes where topics go by name."""

    topic: str
    topic_id: bytes
    partition: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a partition is asked for: if nothing of it changed, it need not be named again."""

    fetch_offset: int
    size_bytes_max: int
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """What a Fetch request says of its session."""

    session_id: int
    session_epoch: int
    named: Mapping[SessionPartition, Wanted]
    forgotten: tuple[SessionPartition, ...]


class ClientFetchSession:
    """See the module. `request` and then `answered` or `unanswered`, one at a time."""

    def __init__(self) -> None:
        self._session_id = NO_SESSION_ID
        self._session_epoch = FULL
        self._known: dict[SessionPartition, Wanted] = {}

    def request(self, wanted: Mapping[SessionPartition, Wanted]) -> SessionRequest:
        """The next request, for exactly these partitions."""
        names_differ = bool(self._known) and bool(wanted) and _by_id(self._known) != _by_id(wanted)
        if names_differ:
            self._session_epoch = FULL
        if self._session_epoch == FULL:
            self._known = dict(wanted)
            return SessionRequest(self._session_id, FULL, dict(wanted), ())
        named = {each: how for each, how in wanted.items() if self._known.get(each) != how}
        forgotten = tuple(each for each in self._known if each not in wanted)
        self._known = dict(wanted)
        return SessionRequest(self._session_id, self._session_epoch, named, forgotten)

    def answered(self, session_id: int, *, is_error: bool) -> None:
        """An answer came; `is_error` where it is one of the whole request."""
        if is_error:
            self.unanswered()
        elif session_id == NO_SESSION_ID:
            self._session_id, self._session_epoch = NO_SESSION_ID, FULL
        else:
            self._session_id = session_id
            self._session_epoch = self._session_epoch + 1 if self._session_epoch < SESSION_EPOCH_MAX else 1

    def unanswered(self) -> None:
        """Nobody knows what the broker made of the last request: begin again, and close what was there."""
        self._session_epoch = FULL


def _by_id(partitions: Mapping[SessionPartition, Wanted]) -> bool:
    return any(next(iter(partitions)).topic_id)
