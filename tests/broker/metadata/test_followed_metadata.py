"""A process that follows the metadata, and the one that it follows: turns, answers that do not come, a log that begins anew."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from evidence.world.broker import run, until
from evidence.world.files import SimFiles, SimSyncer

from oncelog.broker.metadata import followed_metadata, metadata_leader
from oncelog.broker.metadata.followed_metadata import FollowedMetadata
from oncelog.broker.metadata.metadata_leader import MetadataLeader
from oncelog.broker.metadata.metadata_store import UNCOUNTED, ControllerAway, MetadataStore, TurnWait
from oncelog.core.metadata.cluster import Topic
from oncelog.core.metadata.refusal import ChangeTimedOut
from oncelog.errors import ErrorCode, StorageError
from oncelog.host.network import LOCAL, RealNetwork
from oncelog.host.tasks import Tasks
from oncelog.log.open_files import OpenFiles
from oncelog.types import TopicPartition
from oncelog.wire.log_records.cluster_metadata import MetadataRecord, RemoveTopicRecord, TopicRecord
from oncelog.wire.metadata_link import LINK_VERSION, Append, Change, Hello, LinkMessage, Offline, encode

CLUSTER = "cluster-of-the-test-00"


class Clock:
    """Stands still."""

    def now_ms(self) -> int:
        return 1_700_000_000_000


def topic(number: int) -> TopicRecord:
    return TopicRecord(name=f"t{number}", topic_id=bytes([number]) * 16, partition_count=1)


class World:
    """A controller, and followers."""

    def __init__(self, sockets: str, limit_size_bytes: int) -> None:
        self.host = f"{LOCAL}{sockets}/metadata"
        self.failures: list[BaseException] = []
        self.tasks = Tasks(self.failures.append)
        self.limit_size_bytes = limit_size_bytes
        self.files = SimFiles()
        self.told: list[tuple[str, list[str]]] = []
        self.followers: list[FollowedMetadata] = []

    async def lead(self) -> None:
        """The controller begins, or begins again."""
        files = OpenFiles(self.files)
        self.store = MetadataStore(files, "data", SimSyncer(), Clock(), self.tasks, lambda: self.limit_size_bytes)
        self.store.open(is_clean=False)
        self.store.on_change = self.heard_by("controller")
        self.leader = MetadataLeader(self.store, self.tasks, 2, self.forgotten)
        await self.leader.listen(RealNetwork(), self.host, CLUSTER)

    async def forgotten(self) -> None:
        """The controller has nothing else to do when a topic goes."""
        self.told.append(("forgotten", []))

    def heard_by(self, name: str) -> Any:
        def changed(records: Sequence[MetadataRecord], removed: Sequence[Topic]) -> None:
            self.told.append((name, [each.name for each in removed]))

        return changed

    async def follow(self, name: str = "follower", node_id: int = 2) -> FollowedMetadata:
        """Another follower."""
        found = FollowedMetadata(RealNetwork(), self.host, node_id, 2, Clock(), self.tasks)
        found.on_change = self.heard_by(name)
        self.followers.append(found)
        await found.open()
        return found


@contextlib.asynccontextmanager
async def world(limit_size_bytes: int = 1 << 20) -> AsyncIterator[World]:
    with tempfile.TemporaryDirectory(prefix="o-") as sockets:
        found = World(sockets, limit_size_bytes)
        await found.lead()
        try:
            yield found
        finally:
            found.leader.close()
            for each in found.followers:
                each.unfollow()
            await found.tasks.close()
    assert found.failures == []


async def change(store: MetadataStore | FollowedMetadata, *records: MetadataRecord) -> None:
    async with store.changing():
        await store.append(records)


def test_a_follower_knows_what_was_and_what_comes() -> None:
    async def work() -> None:
        async with world() as found:
            await change(found.store, topic(1))
            follower = await found.follow()
            assert (set(follower.metadata.topics), follower.cluster_id) == ({"t1"}, CLUSTER)
            await change(found.store, topic(2))
            await until(lambda: "t2" in follower.metadata.topics)
            assert follower.end_offset == found.store.end_offset
            await until(lambda: bool(found.told))
            assert found.told == [("controller", []), ("controller", []), ("follower", [])]

    run(work())


def test_a_followers_change_is_here_and_there_when_it_is_answered() -> None:
    async def work() -> None:
        async with world() as found:
            one, other = await found.follow("one"), await found.follow("other")
            await change(one, topic(1))
            assert "t1" in one.metadata.topics
            assert "t1" in found.store.metadata.topics
            await change(other, RemoveTopicRecord(topic_id=bytes([1]) * 16))
            who = ("controller", "forgotten")  # what follows from it is done there before its maker is answered
            assert [each for each in found.told if each[0] in who] == [
                *(("controller", []), ("forgotten", []), ("controller", ["t1"]), ("forgotten", []))
            ]
            await until(lambda: len(found.told) == 8)
            assert [each for each in found.told if each[0] == "one"] == [("one", []), ("one", ["t1"])]
            assert [each for each in found.told if each[0] == "other"] == [("other", []), ("other", ["t1"])]

    run(work())


def test_turns_come_one_after_the_other() -> None:
    async def work() -> None:
        async with world() as found:
            followers = [await found.follow() for _ in range(3)]
            seen: list[int] = []

            async def grow(store: Any) -> None:
                for _ in range(5):
                    async with store.changing() as metadata:
                        seen.append(len(metadata.topics))
                        await store.append([topic(len(metadata.topics) + 1)])

            await asyncio.gather(*(grow(each) for each in (*followers, found.store)))
            assert seen == list(range(20))

    run(work())


def test_a_refused_change_says_why() -> None:
    async def work() -> None:
        async with world() as found:
            follower = await found.follow()
            assert found.store._log is not None
            found.store._log.fail(StorageError("the disk is gone"))
            with pytest.raises(StorageError, match="the disk is gone"):
                await change(follower, topic(1))
            async with follower.changing():
                refusal = await follower.append_or_refuse([topic(1)])
            assert refusal is not None
            assert refusal.error_code is ErrorCode.KAFKA_STORAGE_ERROR

    run(work())


def test_without_a_controller_a_change_may_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        monkeypatch.setattr(followed_metadata, "TURN_WAIT_S", 0.05)
        async with world() as found:
            follower = await found.follow()
            await change(follower, topic(1))
            found.leader.close()
            await until(lambda: follower._link is None)
            async with follower.changing() as metadata:
                assert "t1" in metadata.topics
                refusal = await follower.append_or_refuse([topic(2)])
            assert refusal is not None
            assert refusal.error_code is ErrorCode.NOT_CONTROLLER
            with pytest.raises(ControllerAway):
                await change(follower, topic(2))
            monkeypatch.undo()
            await found.lead()
            await change(follower, topic(2))
            assert set(found.store.metadata.topics) == set(follower.metadata.topics) == {"t1", "t2"}

    run(work())


def test_a_controller_that_dies_in_the_middle_of_a_change_is_told_of() -> None:
    async def work() -> None:
        async with world() as found:
            follower = await found.follow()
            async with follower.changing():
                found.leader.close()
                with pytest.raises(ControllerAway):
                    await follower.append([topic(1)])

    run(work())


def test_a_log_that_has_begun_anew_is_followed_anew() -> None:
    async def work() -> None:
        async with world(limit_size_bytes=300) as found:
            follower = await found.follow()
            await change(found.store, topic(1), topic(2))
            await until(lambda: "t2" in follower.metadata.topics)
            tables, version = follower.metadata.topics, follower.metadata.topics_version
            found.leader.close()
            await until(lambda: follower._link is None)
            await change(found.store, RemoveTopicRecord(topic_id=bytes([1]) * 16))
            for number in range(3, 60):
                await change(found.store, topic(number))
            assert found.store.start_offset > follower.end_offset
            await found.lead()
            await until(lambda: "t59" in follower.metadata.topics)
            assert follower.metadata.topics is tables, "others hold on to it"
            assert follower.metadata.topics_version > version
            assert set(follower.metadata.topics) == set(found.store.metadata.topics)
            await until(lambda: ("follower", ["t1"]) in found.told)

    run(work())


class SlowSyncer:
    """A sync lets others run several times."""

    async def sync(self, files: Sequence[Any]) -> None:
        for each in files:
            for _ in range(12):
                await asyncio.sleep(0)
            each.sync()

    def close(self) -> None:
        """Nothing is kept."""


@pytest.mark.parametrize("steps", range(0, 120, 4))
def test_who_comes_while_the_log_begins_anew_knows_everything(steps: int) -> None:
    async def work() -> None:
        async with world(limit_size_bytes=1 << 20) as found:
            for number in range(1, 12):
                await change(found.store, topic(number))
            found.store._syncer = SlowSyncer()  # type: ignore[assignment]
            found.limit_size_bytes = 1
            changing = asyncio.ensure_future(change(found.store, topic(12)))
            for _ in range(steps):
                await asyncio.sleep(0)
            follower = await found.follow()
            assert set(follower.metadata.topics) >= {f"t{number}" for number in range(1, 12)}
            await changing
            await until(lambda: "t12" in follower.metadata.topics)
            assert set(follower.metadata.topics) == set(found.store.metadata.topics)

    run(work())


def test_a_follower_that_keeps_its_turn_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        monkeypatch.setattr(metadata_leader, "TURN_S", 0.05)
        async with world() as found:
            follower = await found.follow()
            async with follower.changing():
                await change(found.store, topic(1))  # waits until the turn is taken away
                with pytest.raises(ControllerAway):
                    await follower.append([topic(2)])
            await change(follower, topic(3))
            assert set(found.store.metadata.topics) == {"t1", "t3"}

    run(work())


def test_a_controller_that_does_not_answer_is_waited_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        monkeypatch.setattr(followed_metadata, "TURN_WAIT_S", 0.05)
        async with world() as found:
            follower = await found.follow()
            async with found.store.changing():
                async with follower.changing():
                    refusal = await follower.append_or_refuse([topic(1)])
                assert refusal is not None
                assert refusal.error_code is ErrorCode.NOT_CONTROLLER
            monkeypatch.undo()
            await change(follower, topic(1))

    run(work())


def test_who_does_not_wait_so_long_for_the_controller_costs_nobody_the_connection() -> None:
    async def work() -> None:
        async with world() as found:
            follower = await found.follow()
            link = follower._link
            async with found.store.changing():
                for timeout_ms in (1, 1, 0):  # for the controller's turn, behind that question, and not at all
                    with pytest.raises(ChangeTimedOut):
                        async with follower.changing(timeout_ms):
                            pytest.fail("it is not its turn")
            await change(follower, topic(1))
            await change(found.store, topic(2))
            assert follower._link is link
            await until(lambda: set(follower.metadata.topics) == {"t1", "t2"})

    run(work())


def test_who_names_no_time_waits_as_long_as_the_broker_says_and_is_counted() -> None:
    async def work() -> None:
        async with world() as found:
            follower = await found.follow()
            counted: list[int] = []
            follower._turn_wait = TurnWait(lambda: 1, lambda: counted.append(1))
            async with found.store.changing():
                for timeout_ms, count in ((None, 1), (1, 1), (None, 2)):
                    with pytest.raises(ChangeTimedOut, match="longer than 1 ms"):
                        async with follower.changing(timeout_ms):
                            pytest.fail("it is not its turn")
                    assert len(counted) == count
            follower._turn_wait = UNCOUNTED
            await change(follower, topic(1))

    run(work())


def test_a_change_whose_asker_has_gone_before_its_turn_gives_the_turn_back() -> None:
    async def work() -> None:
        async with world() as found:
            follower = await found.follow()
            link = follower._link
            async with found.store.changing():
                asking = found.tasks.start(change(follower, topic(1)))
                assert link is not None
                await until(lambda: link.was_asked)
                asking.cancel()
                await asyncio.wait((asking,))
            await change(found.store, topic(2))
            await change(follower, topic(3))
            assert follower._link is link
            assert set(found.store.metadata.topics) == {"t2", "t3"}

    run(work())


def test_who_waits_behind_others_waits_no_longer_than_they_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten changes waited one behind the other, each as long as one may: the last one ten times as long."""

    async def work() -> None:
        monkeypatch.setattr(followed_metadata, "TURN_WAIT_S", 0.5)
        async with world() as found:
            follower = await found.follow()
            begun: list[float] = []
            turn = follower._turn

            async def noted(until: float | None) -> Any:
                begun.append(asyncio.get_running_loop().time())
                return await turn(until)

            monkeypatch.setattr(follower, "_turn", noted)
            async with found.store.changing():
                changes = [change(follower, topic(number)) for number in range(10)]
                outcomes = await asyncio.gather(*changes, return_exceptions=True)
            assert [type(each) for each in outcomes] == [ControllerAway] * 10
            assert begun[-1] - begun[1] < 0.25, "one waited, the others were refused with it"
            monkeypatch.undo()
            await change(follower, topic(1))

    run(work())


@pytest.mark.parametrize("steps", range(12))
def test_a_cancelled_change_is_made_or_not_and_the_next_one_works(steps: int) -> None:
    async def work() -> None:
        async with world() as found:
            follower = await found.follow()
            task = asyncio.ensure_future(change(follower, topic(1)))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await change(follower, topic(2))
            assert set(found.store.metadata.topics) == set(follower.metadata.topics) >= {"t2"}

    run(work())


class Raw(asyncio.Protocol):
    """A follower that says what it should not."""

    def __init__(self) -> None:
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def connection_lost(self, _exc: Exception | None) -> None:
        self.lost.set()


GREETED = Hello(1, 2, 2, 0)


@pytest.mark.parametrize(
    "messages",
    [
        [Change()],
        [GREETED, Change(), Change()],
        [GREETED, Change(), *[Append(b"x")] * 30],
        [GREETED, Append(b"x")],
        [GREETED, GREETED, b"\0\0\0\0\0\0"],
        [b"GET / HTTP/1.1\r\n\r\n"],
    ],
)
def test_who_says_what_it_should_not_is_cut_off_and_holds_nobody_up(messages: list[LinkMessage | bytes]) -> None:
    async def work() -> None:
        async with world() as found:
            _, raw = await RealNetwork().connect(found.host, 0, Raw)
            assert isinstance(raw, Raw)
            for each in messages:
                raw.transport.write(each if isinstance(each, bytes) else encode(each))
            await raw.lost.wait()
            await change(found.store, topic(1))
            await change(await found.follow(), topic(2))

    run(work())


@pytest.mark.parametrize(("version", "count"), [(LINK_VERSION + 1, 2), (LINK_VERSION, 3)])
def test_another_version_or_number_is_refused(version: int, count: int) -> None:
    async def work() -> None:
        async with world() as found:
            follower = FollowedMetadata(RealNetwork(), found.host, 2, count, Clock(), found.tasks)
            found.followers.append(follower)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(followed_metadata, "LINK_VERSION", version)
                with pytest.raises(StorageError, match="another version or another number"):
                    await follower.open()

    run(work())


def test_a_start_without_a_controller_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        monkeypatch.setattr(followed_metadata, "START_WAIT_S", 0.05)
        async with world() as found:
            found.leader.close()
            with pytest.raises(ControllerAway, match="was not there"):
                await found.follow()

    run(work())


BROKEN, OTHER = TopicPartition("t-1", 1), TopicPartition("other", 0)


def test_what_is_offline_in_one_process_is_known_in_all() -> None:
    async def work() -> None:
        async with world() as found:
            one, other = await found.follow("one", 2), await found.follow("other", 3)
            one.tell_offline([BROKEN])
            await until(lambda: BROKEN in other.offline and BROKEN in found.store.offline)
            assert BROKEN not in one.offline, "it knows its own"
            found.leader.tell_offline(1, [OTHER])
            await until(lambda: OTHER in one.offline and OTHER in other.offline)
            late = await found.follow("late", 4)
            assert (OTHER in late.offline, BROKEN in late.offline) == (True, True)
            one.tell_offline([])
            await until(lambda: BROKEN not in other.offline and BROKEN not in late.offline)
            assert BROKEN not in found.store.offline
            assert OTHER in other.offline, "the controller's stay what they are"

    run(work())


def test_a_controller_that_comes_back_is_told_again_and_nobody_forgets_meanwhile() -> None:
    async def work() -> None:
        async with world() as found:
            one, other = await found.follow("one", 2), await found.follow("other", 3)
            one.tell_offline([BROKEN])
            await until(lambda: BROKEN in other.offline)
            found.leader.close()
            assert BROKEN in other.offline
            await found.lead()
            assert BROKEN not in found.store.offline
            await until(lambda: BROKEN in found.store.offline)
            assert BROKEN in other.offline

    run(work())


def test_a_process_that_is_away_is_offline_with_what_it_told_and_says_anew_when_it_is_back() -> None:
    async def work() -> None:
        async with world() as found:
            one, other = await found.follow("one", 2), await found.follow("other", 3)
            one.tell_offline([BROKEN])
            await until(lambda: BROKEN in other.offline)
            one.unfollow()
            again = await found.follow("one", 2)
            assert BROKEN in other.offline, "it has not said yet"
            again.tell_offline([])
            await until(lambda: BROKEN not in other.offline)

    run(work())


def test_what_another_process_has_is_not_told_by_this_one() -> None:
    async def work() -> None:
        async with world() as found:
            one = await found.follow("one", 2)
            link = one._link
            assert link is not None
            link.send(Offline(3, (BROKEN,)))
            await until(link.lost.is_set)
            assert BROKEN not in found.store.offline

    run(work())
