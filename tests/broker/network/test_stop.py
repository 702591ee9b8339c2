"""An orderly stop, and a lost connection, while all kinds of requests wait: each is answered or its connection is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest
from evidence.world.direct import DATA, Client, DirectNetwork, SlowSyncer, direct_host
from evidence.world.files import Keep
from evidence.world.loop import run_simulated
from evidence.world.power_disk import PowerDisk
from evidence.world.requests import Session

from oncelog.broker.broker import DRAIN_TIMEOUT_S, Broker
from oncelog.errors import ErrorCode
from oncelog.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from oncelog.wire.messages.end_txn import EndTxnRequest
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from tests.broker.metrics.limits_world import join_request
from tests.broker.network.pipeline import Lane, Pipe

E = ErrorCode
CONFIG: dict[str, object] = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "add.partitions.to.txn.retry.backoff.max.ms": "60000",
}
LONG_MS = 600_000


class GatedSyncer:
    """Syncs of a topic's partitions and of the journal wait while `may_pass` is not set."""

    def __init__(self) -> None:
        self._slow = SlowSyncer("stop")
        self.may_pass = asyncio.Event()
        self.may_pass.set()

    async def sync(self, files: Any) -> None:
        if any(kind in getattr(each, "path", "") for each in files for kind in ("/plain-", "/oncelog.journal.")):
            await self.may_pass.wait()
        await self._slow.sync(files)

    def close(self) -> None:
        return None


class World:
    """A broker on a disk in memory with a topic, and lanes to it."""

    def __init__(self, disk: PowerDisk, journal: str) -> None:
        self.disk = disk
        self._config = CONFIG | {"journal": journal}

    async def start(self) -> None:
        self.network = DirectNetwork()
        self.syncer = GatedSyncer()
        host = replace(direct_host(self.disk, self.network, "stop"), syncer=self.syncer)  # type: ignore[arg-type]
        self.broker = Broker(DATA, self._config, host)
        await self.broker.start()
        self.session = Session(await Client.connect(self.network))

    async def lane(self, index: int = 0) -> Lane:
        return Lane(index, "stop", {}, await Pipe.connect(self.network))

    async def stop(self) -> float:
        """How long it took."""
        begun = asyncio.get_running_loop().time()
        await self.broker.stop()
        return asyncio.get_running_loop().time() - begun

    def log_end_offset(self, index: int = 0) -> int:
        (found,) = [each for each in self.broker.partitions if str(each.name) == f"plain-{index}"]
        return found.log_end_offset


def run(
    work: Callable[[World], Coroutine[Any, Any, Any]], disk: PowerDisk | None = None, *, journal: str = "on"
) -> PowerDisk:
    if disk is None:
        disk = PowerDisk("stop")
        disk.make_directory(DATA)
        disk.sync_directory("")

    async def main(_: Any) -> None:
        world = World(disk, journal)
        await world.start()
        async with asyncio.timeout(3000):
            await work(world)

    run_simulated("stop", main)
    return disk


def is_marked_clean(disk: PowerDisk) -> bool:
    return disk.exists(f"{DATA}/.kafka_cleanshutdown")


def nothing(_reply: Any) -> None:
    return None


@pytest.mark.parametrize("journal", ["on", "off"])
def test_a_stop_answers_a_slow_produce_and_closes_who_only_waits(journal):
    async def work(world: World) -> None:
        await world.session.create_topic("plain", 4)
        writer, reader, muted, joiner = [await world.lane(index) for index in (0, 1, 2, 0)]
        reader.fetch(wait_ms=LONG_MS, min_bytes=1)
        joiner.pipe.send(join_request("g"), 3, nothing)
        await joiner.pipe.finished()  # generation 1: the next one waits until this member joins again
        late = await world.lane(0)
        late.pipe.send(join_request("g"), 3, nothing)
        op = OpData(key="producer_byte_rate", value=1.0, remove=False)
        entry = EntryData(entity=[EntityData(entity_type="client-id", entity_name="pipe")], ops=[op])
        await world.session.client.call(AlterClientQuotasRequest(entries=[entry]), 1)
        muted.produce()
        await muted.pipe.finished()
        muted.produce()  # not read any more
        op.remove = True
        await world.session.client.call(AlterClientQuotasRequest(entries=[entry]), 1)
        world.syncer.may_pass.clear()
        busy = await world.lane(3)
        busy.produce()
        writer.produce()
        writer.fetch(wait_ms=LONG_MS, min_bytes=1 << 19)
        writer.produce()  # behind a fetch that keeps its turn: it never begins
        await asyncio.sleep(0.5)
        stopping = asyncio.ensure_future(world.stop())
        await asyncio.sleep(2)
        assert not stopping.done(), "what is on its way to the disk is waited for"
        busy.produce()
        await asyncio.sleep(0.1)
        assert world.log_end_offset(3) == 1, "nothing more begins"
        assert [lane.pipe.closed.done() for lane in (writer, reader, muted, joiner, late)] == [False] + [True] * 4
        world.syncer.may_pass.set()
        assert await stopping < 2.5
        assert (writer.pipe.answered_count, writer.acknowledged_count) == (1, 1)
        assert writer.pipe.closed.done()
        assert (muted.acknowledged_count, reader.pipe.answered_count, late.pipe.answered_count) == (1, 0, 0)
        assert is_marked_clean(world.disk)

    disk = run(work, journal=journal)
    disk.crash(Keep.NONE)

    async def again(world: World) -> None:
        assert world.broker.is_clean_start
        found = [list((await world.session.read("plain", index, committed=False)).values()) for index in range(4)]
        assert found == [["0.0"], [], ["2.0"], ["3.0"]]

    run(again, disk, journal=journal)


@pytest.mark.parametrize("journal", ["on", "off"])
def test_a_stop_ends_in_bounded_time_though_the_disk_does_not_answer(journal):
    """Nothing that was not synced was acknowledged; the stop itself still syncs, as soon as it can."""

    async def work(world: World) -> None:
        await world.session.create_topic("plain", 1)
        lane = await world.lane()
        world.syncer.may_pass.clear()
        lane.produce()
        await asyncio.sleep(0.5)
        stopping = asyncio.ensure_future(world.stop())
        await asyncio.sleep(DRAIN_TIMEOUT_S + 1)
        assert lane.pipe.closed.done()
        assert lane.acknowledged_count == 0
        assert not is_marked_clean(world.disk)
        world.syncer.may_pass.set()
        assert await stopping < DRAIN_TIMEOUT_S + 2
        assert is_marked_clean(world.disk)

    disk = run(work, journal=journal)
    disk.crash(Keep.NONE)

    async def again(world: World) -> None:
        assert list((await world.session.read("plain", 0, committed=False)).values()) == ["0.0"]

    run(again, disk, journal=journal)


@pytest.mark.parametrize("how", ["stop", "lost"])
def test_a_held_request_ends_with_its_connection(how):
    """Its transaction's marker does not come: a stop does not wait for it longer than for anything else. (With a journal the
    marker comes with the outcome.)"""

    async def work(world: World) -> None:
        await world.session.create_topic("plain", 1)
        reply = await world.session.init("x")
        identity = reply.producer_id, reply.producer_epoch
        await world.session.add_partition("x", identity, "plain", 0)
        await world.session.produce("plain", 0, ["a"], identity=identity, sequence=0, name="x", version=11)
        world.syncer.may_pass.clear()  # the marker is not durable
        await world.session.end("x", identity, commit=True, version=4)
        lane = await world.lane()
        lane.identities, lane.transactional_topic = {"x": identity}, "plain"
        lane._add("x")
        lane.ask_metadata()
        await asyncio.sleep(0.5)
        assert lane.pipe.answered_count == 0
        if how == "lost":
            lane.pipe.transport.close()
            await asyncio.sleep(0.1)
            assert len(world.broker.server._connections) == 3, "the session's, and the broker's own two"
            world.syncer.may_pass.set()
            await asyncio.sleep(1)
            assert await world.session.state("x") == "CompleteCommit", "the request that was held adds nothing"
            return
        stopping = asyncio.ensure_future(world.stop())
        await asyncio.sleep(DRAIN_TIMEOUT_S + 1)
        assert lane.pipe.closed.done()
        world.syncer.may_pass.set()
        assert await stopping < DRAIN_TIMEOUT_S + 2
        assert is_marked_clean(world.disk)

    run(work, journal="off")


@pytest.mark.parametrize("is_written", [False, True])
def test_a_lost_connection_leaves_nobody_waiting(is_written):
    async def work(world: World) -> None:
        await world.session.create_topic("plain", 1)
        partitions = world.broker.partitions
        if is_written:
            await world.session.produce("plain", 0, ["a"])
        lane = await world.lane()
        lane.fetch(wait_ms=LONG_MS, min_bytes=100_000)
        await asyncio.sleep(0.1)
        written = [each for each in partitions if str(each.name) == "plain-0"]
        watchers = written[0]._watchers if is_written else partitions._first_watchers
        assert (len(written), len(watchers)) == (int(is_written), 1)
        assert len(world.broker.server.tasks) == 1
        lane.pipe.transport.close()
        await asyncio.sleep(0.1)
        assert not len(watchers)
        assert not len(world.broker.server.tasks)

    run(work)


def test_an_end_of_a_transaction_overtakes_nothing_but_what_is_held():
    """The InitProducerId before it, on its way to the disk, gives the epoch that the EndTxn ends."""

    async def work(world: World) -> None:
        await world.session.init("x")
        codes: list[ErrorCode] = []
        lane = await world.lane()
        for _ in range(10):
            begun = await world.session.init("x")
            identity = begun.producer_id, begun.producer_epoch + 1
            again = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
            ends = EndTxnRequest(
                transactional_id="x", producer_id=identity[0], producer_epoch=identity[1], committed=False
            )
            lane.pipe.send(again, 4, lambda reply: codes.append(E(reply.error_code)))
            lane.pipe.send(ends, 4, lambda reply: codes.append(E(reply.error_code)))
            await lane.pipe.finished()
        assert codes == [E.NONE, E.INVALID_TXN_STATE] * 10, "there is nothing to end, of the new epoch"

    run(work)


def test_appends_behind_one_another_share_a_sync_in_a_transaction_too():
    async def work(world: World) -> None:
        await world.session.create_topic("plain", 1)
        reply = await world.session.init("x")
        lane = await world.lane()
        lane.identities, lane.transactional_topic = {"x": (reply.producer_id, reply.producer_epoch)}, "plain"
        lane._add("x")
        await lane.pipe.finished()
        world.syncer.may_pass.clear()
        for _ in range(5):
            lane._produce_in("x", commits=True)
        await asyncio.sleep(0.5)
        assert world.log_end_offset() == 5
        world.syncer.may_pass.set()
        await lane.pipe.finished()

    run(work)
