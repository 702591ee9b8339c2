"""What an attack is: a function that does it and tells how it ended, with what must come of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from evidence.attacks.target import Target

Doing = Callable[[Target], Awaitable[str]]
NOT_ASKED_SLOW = "not asked: its only bound is `connections.max.idle.ms`, ten minutes"
NOT_ASKED_OURS = "not asked: there is nothing like it"


@dataclass(frozen=True, slots=True)
class Attack:
    """`ends`: what the attacker gets from oncelog; `says`: what a line of our log about its address must match, "" nothing.

    `not_asked`: why Apache Kafka does not get the same bytes; "" where it does.
    """

    kind: str
    name: str
    text: str
    ends: str
    says: str
    not_asked: str
    do: Doing


ATTACKS: dict[str, Attack] = {}
"""By name, in the order of their files."""


def attack(ends: str, says: str = "", *, not_asked: str = "") -> Callable[[Doing], Doing]:
    """Makes an attack of a function; its docstring says in plain words what it does."""

    def made(do: Doing) -> Doing:
        name, text = do.__name__, (do.__doc__ or "").strip()
        assert text, f"{name} does not say what it does"
        assert name not in ATTACKS, f"there are two {name}"
        kind = do.__module__.rpartition(".")[2].replace("_", " ")
        ATTACKS[name] = Attack(kind, name, text, ends, says, not_asked, do)
        return do

    return made
