"""What a mechanism's conversation is to the connection it takes place on: tokens in, challenges and one outcome out."""

from __future__ import annotations

from dataclasses import field
from typing import Protocol

from oncelog.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Challenge:
    """The conversation goes on with this token."""

    token: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Proven:
    """The client is `user`; `token` is the mechanism's last word. What it showed holds for `lifetime_ms`; None: for ever.

    `token_id`: of the delegation token that it came by. `stored_key`: what the password was proved against (RFC 5802), where
    it is kept as one: a session holds while that is in force.
    """

    user: str
    token: bytes = field(default=b"", repr=False)
    lifetime_ms: int | None = None
    token_id: str = ""
    stored_key: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Refused:
    """The client is nobody: `words` for it, `reason` and the name it tried for the log."""

    words: str
    reason: str
    user: str = ""


Outcome = Challenge | Proven | Refused


class Exchange(Protocol):
    """One conversation of one mechanism."""

    def respond(self, token: bytes) -> Outcome:
        """What follows from the client's next token. Never raises for what a client sends."""
        ...
