"""The states of share partitions that are needed no more."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from oncelog.broker.coordinators.coordinator_table import CoordinatorFailed
from oncelog.broker.share.share_coordinators import ShareCoordinators
from oncelog.errors import ErrorCode


def test_what_is_needed_no_more_is_given_up_in_one_step(monkeypatch):
    """A group that begins stores its states, one coordinator after the other, before it is known: they are no orphans."""

    async def work():
        given_up, waiting = [], []

        def coordinator(key):
            def perform(decision):
                given_up.append(decision)
                waiting.append(asyncio.get_running_loop().create_future())
                return waiting[-1]

            return SimpleNamespace(machine=SimpleNamespace(by_key={key: None}, delete=list), perform=perform)

        found = [coordinator("old-0"), coordinator("old-1")]
        monkeypatch.setattr(ShareCoordinators, "loaded", lambda _: iter(found))
        forgetting = asyncio.ensure_future(ShareCoordinators.forget(object.__new__(ShareCoordinators), lambda _: True))
        await asyncio.sleep(0)
        found[1].machine.by_key["new-1"] = None
        waiting[0].set_exception(CoordinatorFailed(ErrorCode.KAFKA_STORAGE_ERROR))
        waiting[1].set_result(None)
        await forgetting
        assert given_up == [["old-0"], ["old-1"]]

    asyncio.run(work())
