"""Every kind of attack, in the order of the page; importing this makes `ATTACKS` whole."""

from __future__ import annotations

from evidence.attacks import (
    before_authentication,
    exhaustion,
    json_web_tokens,
    names,
    passwords,
    rights,
    scram,
    secrets,
    sessions,
    tls,
    tokens,
)
from evidence.attacks.attack import ATTACKS, Attack

FILES = (
    before_authentication,
    tls,
    passwords,
    scram,
    json_web_tokens,
    tokens,
    sessions,
    names,
    rights,
    secrets,
    exhaustion,
)
KINDS = tuple(each.__name__.rpartition(".")[2].replace("_", " ") for each in FILES)


def of_kind(kind: str) -> list[Attack]:
    """Its attacks, in the order of its file."""
    return [each for each in ATTACKS.values() if each.kind == kind]
