"""The border between two blocks of producer ids in a living broker.

An id is handed out once, ever, and only out of a block that is on the disk. While the next block is on its way, and
where it cannot be reserved, the ids that are left are handed out and whatever needs no id goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from evidence.world import requests
from evidence.world.direct import DATA, Client, ConnectionClosed, DirectNetwork, SlowSyncer, direct_host
from evidence.world.files import Fault, Keep, SimSyncer
from evidence.world.loop import run_simulated
from evidence.world.power_disk import PowerDisk
from evidence.world.requests import Session

from oncelog.broker.broker import Broker
from oncelog.broker.coordinators import producer_id_blocks
from oncelog.broker.coordinators.producer_id_blocks import ProducerIdBlocks
from oncelog.broker.metadata.metadata_store import DIRECTORY, ControllerAway, MetadataStore
from oncelog.core.transactions import init_producer_id, transaction
from oncelog.core.transactions import table as transaction_table
from oncelog.errors import ErrorCode, StorageError
from oncelog.host.tasks import Tasks
from oncelog.log.open_files import OpenFiles
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest

E = ErrorCode
CONFIG: dict[str, object] = {
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


class HeldSyncer:
    """Syncs as a slow disk does; those of the cluster's metadata only while `may_pass` is set."""

    def __init__(self, seed: int | str) -> None:
        self._slow = SlowSyncer(seed)
        self.may_pass = asyncio.Event()
        self.may_pass.set()
        self.waiting_count = 0
        self.given_up_count = 0

    async def sync(self, files: Any) -> None:
        try:
            if any(DIRECTORY in getattr(each, "path", "") for each in files) and not self.may_pass.is_set():
                self.waiting_count += 1
                await self.may_pass.wait()
            await self._slow.sync(files)
        except asyncio.CancelledError:
            self.given_up_count += 1
            raise

    def close(self) -> None:
        return None


@dataclass
class World:
    """One disk, and the broker that lives on it now. `given` are all ids that anybody ever heard of."""

    disk: PowerDisk
    seed: int | str
    given: list[int] = field(default_factory=list)
    broker: Any = None
    network: Any = None
    syncer: Any = None

    async def start(self, **config: object) -> None:
        self.network = DirectNetwork()
        self.syncer = HeldSyncer(self.seed)
        host = replace(direct_host(self.disk, self.network, self.seed), syncer=self.syncer)
        keys = {name.replace("_", "."): value for name, value in config.items()}
        self.broker = Broker(DATA, CONFIG | keys, host)
        await self.broker.start()

    async def session(self) -> Session:
        return Session(await Client.connect(self.network))

    def hear(self, reply: Any) -> None:
        """An id came out: in the very step in which the broker wrote the reply."""
        self.take(reply.producer_id)

    def take(self, producer_id: int) -> None:
        assert producer_id < self.durable_end(), f"{producer_id} is of a block that is not on the disk"
        self.given.append(producer_id)

    def durable_end(self) -> int:
        """Behind the last block that a power cut now would leave."""
        left = self.disk.copy("left")
        left.crash(Keep.NONE)
        store = MetadataStore(OpenFiles(left), DATA, SimSyncer(), self.broker.host.clock, Tasks(lambda _error: None))
        store.open(is_clean=False)
        return store.metadata.next_producer_id

    @property
    def left_count(self) -> int:
        return sum(map(len, self.broker.producer_id_blocks.ids._blocks))


def set_block_size(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(producer_id_blocks, "BLOCK_SIZE", count)


def set_last_epoch(monkeypatch: pytest.MonkeyPatch, producer_epoch: int) -> None:
    """Producers change their id so early: each second or third EndTxn meets the border."""
    for module in (transaction, transaction_table, init_producer_id):
        monkeypatch.setattr(module, "EXHAUSTED_PRODUCER_EPOCH", producer_epoch)


def run(work: Callable[[World], Coroutine[Any, Any, Any]], seed: int | str = 1, disk: PowerDisk | None = None) -> World:
    world = World(disk or new_disk(seed), seed)

    async def main(_: Any) -> None:
        async with asyncio.timeout(600):  # of virtual time
            await work(world)

    run_simulated(seed, main)
    return world


@pytest.fixture(autouse=True)
def nobody_is_told_later(monkeypatch):
    """Whoever finds no id left waits for the block; COORDINATOR_LOAD_IN_PROGRESS is for where none can come."""
    monkeypatch.setattr(requests, "LATER", {E.CONCURRENT_TRANSACTIONS})


def new_disk(seed: int | str) -> PowerDisk:
    disk = PowerDisk(seed)
    disk.make_directory(DATA)
    disk.sync_directory("")
    return disk


async def plain(world: World, count: int) -> None:
    """A client that wants ids for idempotence."""
    session = await world.session()
    for _ in range(count):
        await session.init(None, world.hear)


async def transactional(world: World, name: str, count: int) -> None:
    """A client whose transactions end by v5: its epochs are soon used up, and the next id comes with EndTxn's reply."""
    session = await world.session()
    reply = await session.init(name, world.hear)
    identity = reply.producer_id, reply.producer_epoch

    def heard(reply: Any) -> None:
        if reply.producer_id != identity[0]:
            assert reply.producer_epoch == 0
            world.hear(reply)

    for index in range(count):
        await session.produce("t", 0, [f"{name} {index}"], identity=identity, sequence=0, name=name)
        reply = await session.end(name, identity, commit=True, heard=heard)
        identity = reply.producer_id, reply.producer_epoch


@pytest.mark.parametrize("block_size", [1, 2, 3, 10, 40])
@pytest.mark.parametrize("seed", range(3))
def test_ids_across_the_border_are_unique_and_of_synced_blocks(monkeypatch, block_size, seed):
    set_block_size(monkeypatch, block_size)
    set_last_epoch(monkeypatch, 1)

    async def work(world: World) -> None:
        await world.start()
        session = await world.session()
        await session.create_topic("t", 1)
        async with asyncio.TaskGroup() as group:
            for _ in range(6):
                group.create_task(plain(world, 12))
            for index in range(4):
                group.create_task(transactional(world, f"x{index}", 6))
        assert len(set(world.given)) == len(world.given)
        assert len(world.given) >= 6 * 12 + 4 * (1 + 6 // 2)

    run(work, seed)


@pytest.mark.parametrize("block_size", [1, 4])
def test_a_restart_at_the_border_hands_out_nothing_again(monkeypatch, block_size):
    set_block_size(monkeypatch, block_size)
    disk, given = new_disk("restarts"), []
    for life in range(12):

        async def work(world: World, life: int = life) -> None:
            await world.start()
            async with asyncio.TaskGroup() as group:
                for _ in range(3):
                    group.create_task(plain(world, 1 + life % 4))
            if life % 3 == 0:
                await world.broker.stop()

        given += run(work, f"{life}", disk).given
        if life % 3 == 1:
            disk.kill()
        else:
            disk.crash(Keep.NONE if life % 2 else Keep.RANDOM)
    assert len(set(given)) == len(given) > 30


def test_a_power_cut_at_any_operation_of_the_border_hands_out_nothing_again(monkeypatch):
    set_block_size(monkeypatch, 1)

    async def many(world: World) -> None:
        await world.start()
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(plain(world, 2))

    async def few(world: World) -> None:
        await world.start()
        await plain(world, 2)

    whole = new_disk("count")
    run(many, "count", whole)
    cut_count = 0
    for keep in (Keep.NONE, Keep.RANDOM, Keep.LAST_TORN):
        for number, cut in enumerate(cuts_of(many)):
            cut.disk.crash(keep)
            after = run(few, f"{keep} {number}", cut.disk).given
            assert not set(after) & set(cut.given), (keep, number)
            cut_count += 1
    assert cut_count > 60


@dataclass
class Cut:
    disk: PowerDisk
    given: list[int]


def cuts_of(work: Callable[[World], Coroutine[Any, Any, Any]]) -> list[Cut]:
    """What is left at each operation, and which ids had come out by then."""
    disk, found = new_disk("cuts"), []
    world = World(disk, "cuts")
    disk.on_operation = lambda _what, _path: found.append(Cut(disk.copy("cut"), list(world.given)))

    async def main(_: Any) -> None:
        await work(world)

    run_simulated("cuts", main)
    return found


async def used_up_to(world: World, left_count: int) -> None:
    """Take ids until so many are left."""
    session = await world.session()
    await session.init(None, world.hear)
    while world.left_count > left_count:
        await session.init(None, world.hear)


def test_while_the_next_block_is_on_its_way_the_ids_that_are_left_are_handed_out(monkeypatch):
    set_block_size(monkeypatch, 20)

    async def work(world: World) -> None:
        await world.start()
        session = await world.session()
        await session.create_topic("t", 1)
        open_one = await session.init("open", world.hear)
        identity = open_one.producer_id, open_one.producer_epoch
        await used_up_to(world, 3)
        world.syncer.may_pass.clear()
        await plain(world, 3)  # no more than are left: nobody waits for the disk
        assert world.left_count == 0
        assert world.syncer.waiting_count == 1
        late = [asyncio.ensure_future(plain(world, 1)) for _ in range(5)]
        other = [asyncio.ensure_future(transactional(world, f"late {index}", 1)) for index in range(2)]
        await asyncio.sleep(5)
        assert not any(each.done() for each in late + other), "they wait for the block, and are told nothing wrong"
        world.syncer.may_pass.set()
        await asyncio.gather(*late, *other)
        assert len(set(world.given)) == len(world.given)
        assert world.syncer.waiting_count == 1, "one block for all who wait"
        await session.produce("t", 0, ["a"], identity=identity, sequence=0, name="open")
        await session.end("open", identity, commit=True)

    run(work)


@pytest.mark.parametrize("fault", ["full", "sync"])
def test_where_no_block_can_be_reserved_what_needs_no_id_goes_on(monkeypatch, fault):
    set_block_size(monkeypatch, 20)

    def fail(self: MetadataStore, *_: Any) -> Any:
        raise StorageError("No space left on device")

    async def work(world: World) -> None:
        await world.start()
        session = await world.session()
        await session.create_topic("t", 1)
        reply = await session.init("open", world.hear)
        identity = reply.producer_id, reply.producer_epoch
        await session.produce("t", 0, ["before"], identity=identity, sequence=0, name="open")
        await used_up_to(world, 3)
        monkeypatch.setattr(MetadataStore, "_write" if fault == "full" else "_sync", fail)
        await plain(world, 3)  # what is left
        assert world.left_count == 0
        for name in (None, "new"):
            request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
            refused = await session.client.call(request, 5)
            assert (refused.error_code, refused.producer_id) == (E.COORDINATOR_LOAD_IN_PROGRESS, -1)
        reply = await session.end("open", identity, commit=True)
        identity = reply.producer_id, reply.producer_epoch
        await session.produce("t", 0, ["after"], identity=identity, sequence=0, name="open")
        await session.end("open", identity, commit=True)
        await asyncio.sleep(1)  # its markers
        assert await session.read("t", 0, committed=True) == {0: "before", 2: "after"}
        assert not world.broker.failure.done()

    disk = new_disk("failed")
    given = run(work, fault, disk).given
    monkeypatch.undo()
    set_block_size(monkeypatch, 20)
    disk.crash(Keep.RANDOM)

    async def again(world: World) -> None:
        await world.start()
        await plain(world, 5)

    assert not set(run(again, "again", disk).given) & set(given)


@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name.lower())
def test_a_fault_at_any_operation_of_the_border_hands_out_nothing_again(monkeypatch, fault):
    """Where the reservation failed half-way, the restart gives the next block, whether or not the record is there."""
    set_block_size(monkeypatch, 2)
    refused_count = 0
    for operation in range(1, 14):
        disk = new_disk(f"{fault} {operation}")

        async def work(world: World, operation: int = operation) -> None:
            await world.start()
            world.disk.fail_at(operation, fault)
            session = await world.session()
            for _ in range(7):
                request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
                async with asyncio.timeout(60):
                    reply = await session.client.call(request, 5)
                if reply.error_code == E.NONE:
                    world.hear(reply)
                else:
                    assert reply.error_code == E.COORDINATOR_LOAD_IN_PROGRESS
                    nonlocal refused_count
                    refused_count += 1
            assert not world.broker.failure.done()

        given = run(work, f"{operation}", disk).given
        assert len(set(given)) == len(given)
        disk.heal()
        disk.crash(Keep.RANDOM)

        async def again(world: World) -> None:
            await world.start()
            await plain(world, 3)

        assert not set(run(again, "again", disk).given) & set(given), operation
    assert refused_count > 3


def test_a_client_that_went_away_takes_no_block_with_it(monkeypatch):
    set_block_size(monkeypatch, 4)

    async def work(world: World) -> None:
        await world.start()
        world.syncer.may_pass.clear()
        for _ in range(3):
            session = await world.session()
            asked = asyncio.ensure_future(plain_call(session))
            await asyncio.sleep(0.01)
            session.client._transport.close()
            with pytest.raises(ConnectionClosed):
                await asked
        world.syncer.may_pass.set()
        await plain(world, 4)
        assert world.given == [0, 1, 2, 3]
        assert world.broker.metadata.next_producer_id <= 8

    run(work)


async def plain_call(session: Session) -> Any:
    return await session.client.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 5)


def test_a_timed_out_transaction_at_its_last_epoch_is_aborted_though_nobody_asks_for_an_id(monkeypatch):
    """After a restart no block is there, and the abort needs a new id: else it would hold its partition's readers."""
    set_last_epoch(monkeypatch, 0)
    disk = new_disk("timeout")

    async def opens(world: World) -> None:
        await world.start()
        session = await world.session()
        await session.create_topic("t", 1)
        reply = await session.init("x", world.hear)
        identity = reply.producer_id, reply.producer_epoch
        await session.produce("t", 0, ["open"], identity=identity, sequence=0, name="x")

    async def waits(world: World) -> None:
        await world.start()
        await asyncio.sleep(120)
        session = await world.session()
        assert await session.end_offset("t", 0, committed=True) == 2
        assert await session.state("x") == "CompleteAbort"

    run(opens, "opens", disk)
    disk.kill()
    run(waits, "waits", disk)


def test_a_stop_in_the_middle_of_a_reservation_is_clean(monkeypatch):
    set_block_size(monkeypatch, 10)
    disk = new_disk("stop")

    async def work(world: World) -> None:
        await world.start()
        await used_up_to(world, 3)
        world.syncer.may_pass.clear()
        await plain(world, 2)  # begins the reservation
        await asyncio.sleep(0.1)
        assert world.syncer.waiting_count == 1
        stopping = asyncio.ensure_future(world.broker.stop())
        await asyncio.sleep(1)
        assert not stopping.done(), "a change in the middle of its sync is waited for"
        world.syncer.may_pass.set()
        await stopping
        assert disk.exists(f"{DATA}/.kafka_cleanshutdown")

    given = run(work, "stop", disk).given
    disk.crash(Keep.NONE)

    async def again(world: World) -> None:
        await world.start()
        assert world.broker.is_clean_start
        await plain(world, 5)

    assert not set(run(again, "again", disk).given) & set(given)


def test_a_stop_begins_no_reservation_behind_another_change(monkeypatch):
    """It waits for its turn while a topic is made, and the stop comes: a sync that nobody waits for is none."""
    set_block_size(monkeypatch, 10)
    disk = new_disk("stop behind")

    async def work(world: World) -> None:
        await world.start()
        await used_up_to(world, 2)
        world.syncer.may_pass.clear()
        session = await world.session()
        making = asyncio.ensure_future(session.create_topic("t", 1))
        await asyncio.sleep(0.1)
        await plain(world, 1)
        stopping = asyncio.ensure_future(world.broker.stop())
        await asyncio.sleep(20)
        assert not stopping.done()
        world.syncer.may_pass.set()
        await stopping
        with pytest.raises(ConnectionClosed):
            await making
        assert world.syncer.given_up_count == 0
        assert disk.exists(f"{DATA}/.kafka_cleanshutdown")

    given = run(work, "stop", disk).given
    disk.crash(Keep.NONE)

    async def again(world: World) -> None:
        await world.start()
        assert "t" in world.broker.metadata.topics
        await plain(world, 5)

    assert not set(run(again, "again", disk).given) & set(given)


def test_a_block_of_one_id_serves_everybody_in_turn(monkeypatch):
    set_block_size(monkeypatch, 1)

    async def work(world: World) -> None:
        await world.start()
        async with asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(plain(world, 2))
        assert sorted(world.given) == list(range(40))
        assert world.broker.metadata.next_producer_id <= 41, "no block is reserved that nobody asked for"

    run(work)


def test_while_the_process_that_keeps_the_metadata_is_away_nobody_waits_for_a_block_for_ever():
    """`--processes`: a request for an id was not answered for as long as that process stood still."""

    class Store:
        is_away = True
        metadata = SimpleNamespace(next_producer_id=0)

        @contextlib.asynccontextmanager
        async def changing(self) -> Any:
            await asyncio.sleep(0)
            yield self.metadata

        async def append(self, records: Any) -> None:
            if self.is_away:
                raise ControllerAway("it stands still")
            self.metadata.next_producer_id = records[0].next_producer_id

    async def main() -> None:
        store, tasks = Store(), Tasks(lambda error: None)
        blocks = ProducerIdBlocks(store, tasks)
        async with asyncio.timeout(60):
            await blocks.ensure()
            assert (blocks.ids.count, blocks.may_come, blocks.has_failed) == (0, False, False)
            await blocks.ensure()  # refused at once; a block is asked for beside it
            store.is_away = False
            while not blocks.ids.count:
                await blocks.ensure()
                await asyncio.sleep(0.01)
            assert blocks.may_come
        await tasks.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("known", "first"), [(-1, 5), (4, 5), (7, 8), ((1 << 62) - 2, (1 << 62) - 1), ((1 << 63) - 1, 1 << 62)]
)
def test_what_logs_know_is_passed_over(known: int, first: int) -> None:
    """Those that somebody made up use up half of the numbers at most."""

    class Store:
        metadata = SimpleNamespace(next_producer_id=5)

        @contextlib.asynccontextmanager
        async def changing(self) -> Any:
            yield self.metadata

        async def append(self, records: Any) -> None:
            self.metadata.next_producer_id = records[0].next_producer_id

    async def main() -> None:
        store, tasks = Store(), Tasks(lambda error: None)
        blocks = ProducerIdBlocks(store, tasks)
        blocks.pass_over(known)
        await blocks.ensure()
        assert blocks.ids.take() == first
        assert store.metadata.next_producer_id > first
        await tasks.close()

    asyncio.run(main())
