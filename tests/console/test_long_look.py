"""What takes long to read: one reading for all who ask, how far it is, what was known before, errors to who asks next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from oncelog.console import long_look
from oncelog.console.long_look import BeingRead, Kept, LongLook, NobodyAnswers, Progress
from oncelog.errors import Network, RequestTimedOut
from oncelog.host.tasks import Tasks


class World:
    """A look whose reading ends when it is told to."""

    def __init__(self) -> None:
        self.tasks = Tasks()
        self.look: LongLook[int] = LongLook(self.tasks, "every partition", "partitions")
        self.answers: list[asyncio.Future[int]] = []

    async def read(self, progress: Progress) -> int:
        progress.done, progress.total = 12_000, 40_000
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]

    async def get(self, good_for_s: float = 0.0) -> Kept[int]:
        return await self.look.get(self.read, lambda _: good_for_s)


def run(work: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        world = World()
        await work(world)
        await world.tasks.close()

    asyncio.run(main())


async def steps() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_look, "PATIENCE_S", 0.0)


def test_all_who_ask_meanwhile_share_one_reading() -> None:
    async def work(world: World) -> None:
        both = asyncio.gather(world.get(), world.get())
        await steps()
        world.answers[0].set_result(7)
        assert [each.value for each in await both] == [7, 7]
        assert (await world.get(good_for_s=60)).value == 7
        assert len(world.answers) == 1

    run(work)


@pytest.mark.usefixtures("no_patience")
def test_how_far_it_is_then_what_was_known_before() -> None:
    async def work(world: World) -> None:
        with pytest.raises(BeingRead, match="every partition is being read: 12,000 of 40,000 partitions"):
            await world.get()
        world.answers[0].set_result(7)
        await steps()
        found = await world.get(good_for_s=1e-9)
        assert (found.value, found.age_ms < 60_000) == (7, True)
        assert len(world.answers) == 2, "it is read anew beside that"

    run(work)


@pytest.mark.usefixtures("no_patience")
def test_what_is_good_for_no_time_is_waited_for() -> None:
    """A broker that was away: the list of topics of before was shown, and no word."""

    async def work(world: World) -> None:
        with pytest.raises(BeingRead):
            await world.get()
        world.answers[0].set_result(7)
        await steps()
        again = asyncio.gather(world.get(), return_exceptions=True)
        await steps()
        world.answers[1].set_exception(Network("gone"))
        assert [type(each) for each in await again] == [Network]

    run(work)


@pytest.mark.usefixtures("no_patience")
def test_brokers_that_say_nothing_are_told_with_the_time_of_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages said only that they were looking, for 35 s; and what was known before was shown as if it were of now."""

    async def work(world: World) -> None:
        for _ in range(2):
            with pytest.raises(NobodyAnswers, match=r"no broker has answered for 0 s: every partition is asked for$"):
                await world.get()
        world.answers[0].set_result(7)
        await steps()
        for good_for_s in (0.0, 1e-9):
            with pytest.raises(NobodyAnswers, match=r"is asked for, which was last read at \d\d:\d\d:\d\d UTC$"):
                await world.get(good_for_s)
        assert len(world.answers) == 2, "it is asked on"

    monkeypatch.setattr(long_look, "SILENT_S", 0.0)
    run(work)


def test_whoever_goes_on_answering_is_not_silent() -> None:
    progress = Progress(heard_s=0.0)
    progress.advance(500, is_heard=False)
    assert (progress.done, progress.heard_s) == (500, 0.0), "five hundred times no answer is none"
    progress.advance(500, is_heard=True)
    assert (progress.done, progress.heard_s > 0.0) == (1000, True)


def test_a_reading_that_failed_for_want_of_answers_ends_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a page would say that it is looking, then that nobody answers, then that it is looking."""

    async def work(world: World) -> None:
        both = asyncio.gather(world.get(), return_exceptions=True)
        await steps()
        heard_s = world.look._progress.heard_s
        world.answers[0].set_exception(RequestTimedOut("list topics: not done within 5000 ms"))
        assert [type(each) for each in await both] == [RequestTimedOut]
        again = asyncio.gather(world.get())
        await steps()
        assert world.look._progress.heard_s == heard_s
        world.answers[1].set_result(8)
        await again

    monkeypatch.setattr(long_look, "ERROR_KEPT_S", 120.0)
    run(work)


@pytest.mark.usefixtures("no_patience")
def test_a_new_reading_is_not_silent_for_what_was_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was known for long was given out as new: the silence of the last reading was over when this one began."""

    async def work(world: World) -> None:
        with pytest.raises(BeingRead):
            await world.get()
        world.answers[0].set_result(7)
        await steps()
        world.look._progress.heard_s = world.look._begun_s = -1e6
        again = asyncio.gather(world.get())
        await steps()
        assert not again.done()
        world.answers[1].set_result(8)
        assert (await again)[0].value == 8

    run(work)


def test_an_error_is_for_all_who_wait_and_the_next_reads_anew() -> None:
    async def work(world: World) -> None:
        both = asyncio.gather(world.get(), world.get(), return_exceptions=True)
        await steps()
        world.answers[0].set_exception(Network("gone"))
        assert [type(each) for each in await both] == [Network, Network]
        again = asyncio.gather(world.get())
        await steps()
        world.answers[1].set_result(8)
        assert (await again)[0].value == 8

    run(work)


@pytest.mark.usefixtures("no_patience")
def test_an_error_that_nobody_waited_for_is_told_once() -> None:
    """Else a page would say for ever that it is being read."""

    async def work(world: World) -> None:
        for _ in range(2):
            with pytest.raises(BeingRead):
                await world.get()
            await steps()
            world.answers[-1].set_exception(Network("gone"))
            await steps()
            with pytest.raises(Network):
                await world.get()
        assert len(world.answers) == 2

    run(work)
