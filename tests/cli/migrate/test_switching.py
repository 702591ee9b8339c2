"""What the source is left as when a switch ends early."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

switching = pytest.importorskip("oncelog.cli.migrate.switching", reason="needs pyarrow")


class Stopped(Exception):
    """Where the switch ends."""


class World:
    """A source with rules of access, and a destination that breaks in the body of the last transaction, or in its commit."""

    def __init__(self, breaks_in: str) -> None:
        self.rules: list[str] = []
        self.said: list[str] = []
        self.breaks_in = breaks_in
        source = SimpleNamespace(list_transactions=self._none, create_acls=self._frozen, delete_acls=self._thawed)
        self.sides = SimpleNamespace(
            source=source,
            topics=("orders",),
            progress={},
            commit=self._commit,
            note=lambda *text: self.said.extend(text),
        )

    async def _none(self, **_: Any) -> list[Any]:
        return []

    async def _frozen(self, rules: list[Any]) -> None:
        self.rules += [each.resource_name for each in rules]

    async def _thawed(self, filters: list[Any]) -> None:
        for each in filters:
            self.rules.remove(each.resource_name)

    async def _commit(self, *_: object) -> None:
        if self.breaks_in == "body":
            raise Stopped

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        yield
        if self.breaks_in == "commit":
            raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("breaks_in", "rules", "says"), [("body", [], "writable again"), ("commit", ["orders"], "stays frozen")]
)
def test_the_source_stays_frozen_once_the_switch_may_be_stored(
    breaks_in: str, rules: list[str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule was taken away, and the next run took the switch for made: both sides were written."""
    world = World(breaks_in)

    async def nothing(*_: object) -> None:
        pass

    for name in ("refuse_changed", "finish_topics"):
        monkeypatch.setattr(switching, name, nothing)
    monkeypatch.setattr(switching.Switch, "_until_still", nothing)
    switch = switching.Switch(world.sides, SimpleNamespace(can_freeze=True), None, world, 1000)
    with pytest.raises((Stopped, asyncio.CancelledError)):
        asyncio.run(switch.everything())
    assert world.rules == rules
    assert any(says in text for text in world.said)
