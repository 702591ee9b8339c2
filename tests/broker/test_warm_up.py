"""What a producer's first requests need is ready before they come, and whoever asks meanwhile comes first."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from oncelog.broker import warm_up as module
from oncelog.broker.warm_up import ASKED, QUIET_GROWTH, QUIET_S, warm_up
from oncelog.wire.api import APIS

AFTERWARDS = """
import asyncio, builtins
from oncelog import Broker
from oncelog.broker import handlers
from oncelog.broker.warm_up import ASKED, steps
from oncelog.wire.api import APIS
from oncelog.wire.schema import decoder, encoder

async def main():
    async with Broker() as broker:
        for step in steps(broker.node.metadata):
            step()
        assert handlers._loaded.keys() >= ASKED.keys()
        written, real = [], builtins.compile
        builtins.compile = lambda source, title, *rest, **more: written.append(title) or real(source, title, *rest, **more)
        for key, version in ASKED.items():
            for each in (version, handlers.version_max(broker.node.metadata, key)):
                decoder(APIS[key].request, each)
                encoder(APIS[key].response, each)
            APIS[key].response()
        builtins.compile = real
        assert written == [], written

asyncio.run(main())
"""


def test_afterwards_nothing_has_to_be_written() -> None:
    done = subprocess.run([sys.executable, "-c", AFTERWARDS], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_all_versions_exist() -> None:
    assert all(APIS[key].supports(version) for key, version in ASKED.items())


class Loop:
    """What was asked of an event loop, to be run by hand."""

    def __init__(self) -> None:
        self.waiting: list[tuple[float, Callable[[], None]]] = []

    def call_soon(self, act: Callable[[], None]) -> None:
        self.waiting.append((0, act))

    def call_later(self, delay_s: float, act: Callable[[], None]) -> None:
        self.waiting.append((delay_s, act))

    def turn(self) -> float:
        """Run what waits; how long it had to."""
        ((delay_s, act),) = self.waiting
        self.waiting = []
        act()
        return delay_s


class Answering:
    """A node that has answered so many requests."""

    def __init__(self) -> None:
        self.count = 0
        self.metrics = self
        self.metadata = None

    def answered_count(self) -> int:
        return self.count


def test_it_rests_while_somebody_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []
    monkeypatch.setattr(module, "steps", lambda _: iter([lambda each=each: done.append(each) for each in range(4)]))
    loop: Any = Loop()
    node: Any = Answering()
    node.count = 7  # before it began
    warm_up(loop, node)
    assert (loop.turn(), done) == (0, [0])
    node.count += 1
    assert (loop.turn(), done) == (0, [0])
    node.count += 2
    assert (loop.turn(), done) == (QUIET_S, [0])
    assert (loop.turn(), done) == (QUIET_S * QUIET_GROWTH, [0, 1])
    assert (loop.turn(), loop.turn(), done) == (0, 0, [0, 1, 2, 3])
    assert (loop.turn(), loop.waiting) == (0, [])
