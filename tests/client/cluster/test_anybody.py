"""Whoever keeps silent is not waited for alone; what fails, and who is cancelled, ends as if one had been asked."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any

import pytest
from evidence.world.client import run

from oncelog import Admin, Producer
from oncelog.client.cluster import anybody
from oncelog.client.cluster.anybody import SILENCE_MS, SILENT_FOR_MS, Anybody
from oncelog.errors import IllegalState, Network, RequestTimedOut
from oncelog.testing import TestBroker
from oncelog.types import Node

NODES = [Node(number, f"broker-{number}", 9092) for number in range(3)]


class World:
    """Brokers that answer with their own id after some seconds (None: never), or raise."""

    def __init__(
        self, *answers: float | BaseException | None, after_s: float = 0.0, timeout_ms: float = 60_000
    ) -> None:
        self.answers = dict(zip(NODES, answers, strict=False))
        self.after_s, self.asked, self.tasks = after_s, list[tuple[float, int]](), list[asyncio.Task[Any]]()
        self.anybody = Anybody(self.pick, self.start, timeout_ms=timeout_ms)

    def pick(self, asked: Any) -> Node | None:
        left = [each for each in self.answers if each not in asked]
        return next((each for each in left if not self.anybody.is_silent(each)), left[0] if left else None)

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        self.tasks.append(asyncio.create_task(work))
        return self.tasks[-1]

    async def question(self, node: Node) -> int:
        self.asked.append((asyncio.get_running_loop().time(), node.node_id))
        answer = self.answers[node]
        if isinstance(answer, BaseException):
            await asyncio.sleep(self.after_s)
            raise answer
        await asyncio.sleep(1e6 if answer is None else answer)
        return node.node_id

    async def ask(self) -> int:
        return await self.anybody.ask(self.question)


def test_the_next_is_asked_after_a_second_and_the_first_answer_counts() -> None:
    async def work(loop: asyncio.AbstractEventLoop) -> None:
        world, began = World(None, 0.25, 0.0), loop.time()
        assert await world.ask() == 1
        assert loop.time() - began == pytest.approx(SILENCE_MS / 1000 + 0.25)
        assert [node for _, node in world.asked] == [0, 1], "nobody else: the second answered in time"
        await asyncio.sleep(0)
        assert world.tasks[0].cancelled()
        began = loop.time()
        assert await world.ask() == 1, "who was silent is not asked first again"
        assert loop.time() - began == pytest.approx(0.25)
        await asyncio.sleep(SILENT_FOR_MS / 1000)
        assert not world.anybody.is_silent(NODES[0]), "for a while"

    run(work)


def test_a_slow_answer_is_taken_too_and_ends_the_silence() -> None:
    async def work(loop: asyncio.AbstractEventLoop) -> None:
        world = World(1.5, None, None)
        assert await world.ask() == 0
        assert loop.time() == pytest.approx(1.5)
        assert [world.anybody.is_silent(each) for each in NODES] == [False, False, False]

    run(work)


def test_a_single_broker_is_waited_for() -> None:
    async def work(loop: asyncio.AbstractEventLoop) -> None:
        assert await World(25.0).ask() == 0
        assert loop.time() == pytest.approx(25.0)

    run(work)


def test_a_refusal_is_told_at_once_and_nobody_else_is_asked() -> None:
    async def work(loop: asyncio.AbstractEventLoop) -> None:
        world = World(Network("refused"), 0.0)
        with pytest.raises(Network, match="refused"):
            await world.ask()
        assert (loop.time(), len(world.asked)) == (0.0, 1)

    run(work)


def test_who_may_still_answer_is_waited_for_when_the_second_refuses() -> None:
    async def work(loop: asyncio.AbstractEventLoop) -> None:
        world = World(3.0, Network("refused"))
        assert await world.ask() == 0
        assert loop.time() == pytest.approx(3.0)

    run(work)


def test_when_all_refuse_the_first_error_is_told() -> None:
    async def work(_: asyncio.AbstractEventLoop) -> None:
        world = World(*(Network(f"refused by {each.node_id}") for each in NODES), after_s=2.5)
        with pytest.raises(Network, match="refused by 0"):
            await world.ask()
        assert len(world.asked) == 3

    run(work)


def test_a_cancelled_question_leaves_nothing_behind() -> None:
    async def work(_: asyncio.AbstractEventLoop) -> None:
        world = World(None, None, None)
        asking = asyncio.create_task(world.ask())
        await asyncio.sleep(2.5 * SILENCE_MS / 1000)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.sleep(0)
        assert [each.cancelled() for each in world.tasks] == [True, True, True]

    run(work)


def test_a_closed_client_is_told() -> None:
    async def work(_: asyncio.AbstractEventLoop) -> None:
        world = World(None)
        asking = asyncio.create_task(world.ask())
        await asyncio.sleep(0.1)
        world.tasks[0].cancel()
        with pytest.raises(IllegalState, match="closed"):
            await asking

    run(work)


def test_who_has_little_time_does_not_spend_it_on_one_that_is_silent() -> None:
    """`--timeout 500ms` with two of three frozen: nothing was shown, although one answered."""

    async def work(loop: asyncio.AbstractEventLoop) -> None:
        world, began = World(None, None, 0.0, timeout_ms=400), loop.time()
        assert await world.ask() == 2
        assert loop.time() - began == pytest.approx(0.1)

    run(work)


def test_a_cluster_is_reached_past_a_server_that_never_answers(
    oncelog_broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was asked for ten seconds, and then perhaps again: commands, which wait for five, found no cluster."""
    monkeypatch.setattr(anybody, "SILENCE_MS", 20)

    async def work(silent: str) -> None:
        for _ in range(8):  # whom to ask first is drawn
            servers = f"{silent},{oncelog_broker.bootstrap_servers}"
            async with Admin(bootstrap_servers=servers, default_api_timeout_ms=5_000) as admin:
                assert len((await admin.describe_cluster()).nodes) == 1

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()  # connections come, and nobody takes them
        asyncio.run(work(f"127.0.0.1:{silent.getsockname()[1]}"))


def test_whoever_must_be_asked_alone_is_one_who_has_answered(
    oncelog_broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A producer asked a server that stands still who its coordinator is, or for a producer id: for ten seconds, often again.
    So did what changes something, which only one broker may be asked."""
    monkeypatch.setattr(anybody, "SILENCE_MS", 20)

    async def work(servers: str) -> None:
        for _ in range(6):  # whom to ask is drawn
            options: dict[str, Any] = {"bootstrap_servers": servers}
            transactional = Producer(**options, transactional_id="past-the-silent")
            async with asyncio.timeout(5), transactional as producer, producer.transaction():
                await producer.send("past-the-silent", b"x")
            async with asyncio.timeout(5), Producer(**options) as producer:
                await producer.send("past-the-silent", b"x")
            async with asyncio.timeout(5), Admin(**options) as admin:
                assert (await admin.describe_features()).finalized
            async with asyncio.timeout(5), Admin(**options) as admin:
                nodes = admin._cluster.view.nodes.values()
                assert {admin._cluster.any_node() for _ in range(20)} <= set(nodes), "no bootstrap server beside them"

    with socket.socket() as one, socket.socket() as other:
        for silent in (one, other):
            silent.bind(("127.0.0.1", 0))
            silent.listen()
        names = [f"127.0.0.1:{silent.getsockname()[1]}" for silent in (one, other)]
        asyncio.run(work(",".join([*names, oncelog_broker.bootstrap_servers])))


def test_within_several_questions_who_said_nothing_is_waited_for_once_and_behind_them_again() -> None:
    async def work(_: asyncio.AbstractEventLoop) -> None:
        world, silence = World(None, None), RequestTimedOut("no connection to broker-0:9092 within 5000 ms")
        world.anybody.was_silent(NODES[0], silence)
        assert not world.anybody.has_given_up(silence)
        world.anybody.check_not_given_up(NODES[0])  # nobody said that once is enough
        with world.anybody.waited_for_once():
            world.anybody.was_silent(NODES[0])
            world.anybody.check_not_given_up(NODES[0])  # slow with one answer
            with world.anybody.waited_for_once():
                world.anybody.was_silent(NODES[0], silence)
            world.anybody.check_not_given_up(NODES[1])
            with pytest.raises(RequestTimedOut, match=r"broker-0:9092 within 5000 ms$"):
                world.anybody.check_not_given_up(NODES[0])
            assert world.anybody.has_given_up(RequestTimedOut(silence.message))
            assert not world.anybody.has_given_up(RequestTimedOut("something else"))
        world.anybody.check_not_given_up(NODES[0])

    run(work)
