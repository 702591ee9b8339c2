"""The member's side of a share session: what the broker knows of its partitions, and which epoch comes next (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
EPOCH_MAX = 2**31 - 1
Partition = tuple[bytes, int]  # topic id and index


class SessionStep(NamedTuple):
    """What the next request says of the session."""

    session_epoch: int
    added: tuple[Partition, ...]
    forgotten: tuple[Partition, ...]


class SessionState:
    """The session with one broker."""

    def __init__(self) -> None:
        self.session_epoch = INITIAL_EPOCH
        self._known: set[Partition] = set()

    @property
    def is_open(self) -> bool:
        """Whether the broker knows of it: only then something can be acknowledged."""
        return self.session_epoch != INITIAL_EPOCH

    def next_fetch(self, wanted: Iterable[Partition]) -> SessionStep:
        """The next ShareFetch: these partitions are to be read."""
        now = set(wanted)
        step = SessionStep(
            self.session_epoch,
            tuple(sorted(now - self._known)),
            tuple(sorted(self._known - now)) if self.is_open else (),
        )
        self._known = now
        return step

    def answered(self) -> None:
        """The broker took the request."""
        self.session_epoch = self.session_epoch + 1 if self.session_epoch < EPOCH_MAX else 1

    def lost(self) -> None:
        """It is not known whether the broker took it, or it knows no such session: begin anew."""
        self.session_epoch = INITIAL_EPOCH
        self._known = set()
