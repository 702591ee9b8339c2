"""A short torture of every client, and that it would notice."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterator

import pytest

from evidence.torture import ends
from evidence.torture.ends import cancelled_ends
from evidence.torture.producers import PRODUCERS, Written
from evidence.torture.run import (
    Findings,
    cancelled,
    cancelled_process,
    cancelled_starts,
    wrong_arguments,
    wrong_options,
)
from evidence.torture.strike import Strike
from evidence.torture.subjects import SUBJECTS, DualWriterSubject, left_out
from oncelog import Admin, Consumer, Producer, ShareConsumer
from oncelog.client import arguments
from oncelog.core.two_phase.dual_write import DualWrite, Effect
from oncelog.errors import Network
from oncelog.recipes import DualWriter
from oncelog.testing import TestBroker

WAITS_OF_A_TRANSACTION = 12
AT_ONCE = {
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.share.heartbeat.interval.ms": "100",
    "group.share.min.heartbeat.interval.ms": "100",
}


@pytest.fixture(scope="module")
def quick_broker() -> Iterator[TestBroker]:
    """Groups are shared out at once: a wait is somebody's mistake."""
    with TestBroker(AT_ONCE) as broker:
        yield broker


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_client_stands_it(name: str, oncelog_broker: TestBroker) -> None:
    findings = Findings()

    async def torture() -> None:
        await cancelled(oncelog_broker.bootstrap_servers, name, 1, findings)
        for seed in range(4):
            await cancelled_starts(oncelog_broker.bootstrap_servers, name, seed, findings)
        await wrong_arguments(oncelog_broker.bootstrap_servers, name, 1, 30, findings)

    asyncio.run(torture())
    assert findings.found == []
    assert findings.cancellation_count + findings.argument_count > 5


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_start_and_a_stop_may_be_cancelled_anywhere_and_a_successor_works_at_once(
    name: str, quick_broker: TestBroker
) -> None:
    findings = Findings()
    asyncio.run(cancelled_ends(quick_broker.bootstrap_servers, name, findings))
    assert findings.found == []
    assert findings.cancellation_count >= 2


def test_wrong_options_are_refused_or_do_no_harm(oncelog_broker: TestBroker) -> None:
    findings = Findings()
    asyncio.run(wrong_options(oncelog_broker.bootstrap_servers, 1, 60, findings))
    assert findings.found == []


def test_a_process_stands_it(oncelog_broker: TestBroker) -> None:
    findings = Findings()
    asyncio.run(cancelled_process(oncelog_broker.bootstrap_servers, 1, findings))
    assert findings.found == []


def test_what_was_told_is_compared_with_what_is_there() -> None:
    written = Written()
    whole, torn, unknown, aborted = (written.new(2) for _ in range(4))
    written.told(whole, True)
    written.told(aborted, False)
    assert written.values(torn) == (2, 3)
    assert written.wrong([0, 1, 4, 5]) == []
    assert written.wrong([0, 1]) == []
    assert written.wrong([0, 1, 2, 6, 7, 4, 5, 4, 9]) == [
        "(2, 3) is there [1, 0] times, told was None",
        "(4, 5) is there [2, 1] times, told was None",
        "(6, 7) is there [1, 1] times, told was False",
        "9 was never written",
    ]
    assert written.wrong([]) == ["(0, 1) is there [0, 0] times, told was True"]
    assert written.values(unknown) == (4, 5)


async def _every_place(bootstrap: str, at: list[set[int]], *, is_late: bool) -> list[str]:
    """A transaction of one writer cancelled at these waits, one after the other; what went wrong, and the end of it."""
    subject = DualWriterSubject()
    await subject.start(bootstrap)
    wrong = []
    for waits in at:
        strike = Strike(waits, is_late=is_late)
        try:
            async with asyncio.timeout(20):
                await strike.around(subject.put())
        except asyncio.CancelledError:
            pass
        except Exception as error:  # noqa: BLE001 (a finding)
            wrong.append(f"{strike}: {error!r}")
    await subject.stop()
    return wrong


@pytest.mark.parametrize("is_late", [False, True])
def test_a_dual_writer_may_be_cancelled_anywhere_and_again_while_it_cleans_up(
    is_late: bool, oncelog_broker: TestBroker
) -> None:
    once = [{at} for at in range(WAITS_OF_A_TRANSACTION)]
    twice = [{at, at + more} for at, more in itertools.product(range(WAITS_OF_A_TRANSACTION), (1, 2))]
    assert asyncio.run(_every_place(oncelog_broker.bootstrap_servers, once + twice, is_late=is_late)) == []


def test_a_dual_writers_start_may_be_cancelled_anywhere(oncelog_broker: TestBroker) -> None:
    """And nobody calls stop: `async with` does not, where it was not entered."""

    async def main(at: int) -> None:
        before = asyncio.all_tasks()
        subject = DualWriterSubject()
        writer = await subject.unstarted(oncelog_broker.bootstrap_servers)
        with contextlib.suppress(asyncio.CancelledError):
            await Strike({at}).around(writer.start())
            await writer.stop()  # it was over before
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before, at
        await subject.database.close()

    for at in range(12):
        asyncio.run(main(at))


def test_no_public_call_is_left_out() -> None:
    of_a_group = {"commit", "committed", "group_metadata"}
    of_sync = {"next_and_lend", "poll_and_lend", "polled", "take_back"}  # nobody else's
    assert left_out(Consumer, SUBJECTS["consumer"]()) == of_a_group | of_sync
    assert left_out(Consumer, SUBJECTS["consumer"](), SUBJECTS["member (classic)"]()) == of_sync
    assert left_out(Admin, SUBJECTS["admin"]()) == set()
    own = {"for_sync", "had_failed_before", "say_last_words", "say_unsent", "was_heard"}  # nobody else's
    detached = {"detach_transaction"}  # an end: another process goes on
    named = {"transaction"}  # `put` is one
    assert left_out(Producer, *(SUBJECTS[name]() for name in PRODUCERS)) <= own | detached | named
    of_its_own = {"acknowledge"}  # of a record
    assert left_out(ShareConsumer, SUBJECTS["share member"]()) == of_its_own
    assert left_out(DualWriter, SUBJECTS["dual writer"]()) == {"transaction"}  # `put` is one


def test_a_take_over_that_is_believed_after_an_interrupt_is_noticed(
    oncelog_broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    next_effect = DualWrite.next_effect

    def believing(machine: DualWrite) -> Effect | None:
        known = machine._expected_version
        effect = next_effect(machine)
        machine._expected_version = known
        return effect

    monkeypatch.setattr(DualWrite, "next_effect", believing)
    waits: list[set[int]] = [{at} for at in range(WAITS_OF_A_TRANSACTION) for _ in range(3)]
    wrong = asyncio.run(_every_place(oncelog_broker.bootstrap_servers, waits, is_late=False))
    assert any("took over" in text for text in wrong)


def test_an_argument_that_is_not_checked_is_noticed(
    oncelog_broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arguments, "text", lambda _, value: value)
    findings = Findings()
    asyncio.run(wrong_arguments(oncelog_broker.bootstrap_servers, "admin", 1, 60, findings))
    assert any("TypeError" in each or "AttributeError" in each for each in findings.found)


def test_what_is_left_running_is_noticed(oncelog_broker: TestBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    stop, left, findings = Admin.stop, list[Admin](), Findings()

    async def forgets(admin: Admin) -> None:
        left.append(admin)

    async def torture() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Admin, "stop", forgets)
            await cancelled(oncelog_broker.bootstrap_servers, "admin", 1, findings)
        for admin in left:
            await stop(admin)

    asyncio.run(torture())
    assert any("left running: oncelog-metadata" in each for each in findings.found)
    assert any("left open: " in each for each in findings.found)


def test_an_error_that_nobody_retrieves_is_noticed(oncelog_broker: TestBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    stop, findings = Admin.stop, Findings()

    async def forgets(admin: Admin) -> None:
        asyncio.get_running_loop().create_future().set_exception(Network("nobody hears of it"))
        await stop(admin)

    monkeypatch.setattr(Admin, "stop", forgets)
    asyncio.run(cancelled_ends(oncelog_broker.bootstrap_servers, "admin", findings))
    assert any("exception was never retrieved" in each and "stop cancelled at wait" in each for each in findings.found)


def test_a_member_that_stays_behind_its_stop_is_noticed(
    quick_broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silently(_: Consumer, __: float) -> None:
        pass

    findings = Findings()
    monkeypatch.setattr(ends, "HANGS_S", 1.0)
    monkeypatch.setattr(ends, "WAITS_MAX", 1)
    monkeypatch.setattr(Consumer, "_say_goodbye", silently)
    asyncio.run(cancelled_ends(quick_broker.bootstrap_servers, "member (classic)", findings))
    assert any("its successor: it does not work at once" in each for each in findings.found)
