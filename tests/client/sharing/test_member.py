"""What a member of a share group tells its coordinator, and when it tells it again."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from evidence.world.client import run

from oncelog.client.sharing.member import ShareMember
from oncelog.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse


class Coordinator:
    """Answers when it is let; `told` has the topics of each request."""

    def __init__(self) -> None:
        self.told: list[list[str] | None] = []
        self.asked, self.may_answer = asyncio.Event(), asyncio.Semaphore(0)

    def new_backoff(self) -> Any:
        return SimpleNamespace(next_ms=lambda: 1.0, reset=lambda: None)

    async def ask_coordinator(
        self, _key: object, request: ShareGroupHeartbeatRequest, *, version_min: int
    ) -> ShareGroupHeartbeatResponse:
        assert version_min == 1
        self.told.append(request.subscribed_topic_names)
        self.asked.set()
        await self.may_answer.acquire()
        return ShareGroupHeartbeatResponse(member_id="m", member_epoch=1, heartbeat_interval_ms=1_000)


def test_topics_that_are_subscribed_to_while_a_heartbeat_is_under_way_are_told() -> None:
    """They were taken for told with its answer, and the member waited for ever for records of them."""

    async def work() -> None:
        coordinator: Any = Coordinator()
        config: Any = SimpleNamespace(group_id="g", client_rack="")
        member = ShareMember(coordinator, config, "m", lambda: None)
        beating = asyncio.create_task(member.heartbeats())
        member.subscribe(("t",))
        await coordinator.asked.wait()
        member.subscribe(("u",))
        for _ in range(3):
            coordinator.may_answer.release()
            await asyncio.sleep(2)
        assert coordinator.told[:4] == [["t"], ["u"], None, None], "once, and then no more"
        for _ in range(100):
            coordinator.may_answer.release()
        await asyncio.sleep(10)
        assert 10 <= len(coordinator.told) <= 16, "once in an interval, which is a second"
        beating.cancel()

    run(work)
