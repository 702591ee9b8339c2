"""A worker that waits, for tests of what goes on meanwhile."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from oncelog.host.worker import InlineWorker, ThreadWorker


def held(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """What is worked on beside this thread's loop waits until the event is set. Others (in other threads) go on."""
    may_go_on, ours, ordinary = asyncio.Event(), threading.get_ident(), ThreadWorker.run

    async def run(self: ThreadWorker, work: Any, **options: Any) -> Any:
        if threading.get_ident() != ours:
            return await ordinary(self, work, **options)
        await may_go_on.wait()
        return await InlineWorker().run(work)

    monkeypatch.setattr(ThreadWorker, "run", run)
    return may_go_on
