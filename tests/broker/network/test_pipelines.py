"""Requests of one connection take effect in their order, and replies leave in it; so too where it is cut, or the broker stops.

What was acknowledged is there after a power cut; what took effect is a beginning of what was sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from evidence.world.direct import DATA, Client, DirectNetwork, broker_on
from evidence.world.files import Keep
from evidence.world.loop import run_simulated
from evidence.world.power_disk import PowerDisk
from evidence.world.requests import Session

from tests.broker.network.pipeline import Lane, Pipe

SEEDS = range(12)
LANE_COUNT = 2
STEPS = 25
CONFIG: dict[str, object] = {
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "2",
    # Held for as long as it takes: a refusal at the bound is no matter of order.
    "add.partitions.to.txn.retry.backoff.max.ms": "60000",
}
STOP_S_MAX = 0.5  # with nothing to wait for but a few syncs


async def lanes_on(network: DirectNetwork, seed: int | str) -> list[Lane]:
    session = Session(await Client.connect(network))
    await session.create_topic("plain", LANE_COUNT)
    await session.create_topic("transactional", LANE_COUNT)
    lanes = []
    for index in range(LANE_COUNT):
        identities = {}
        for name in (f"x{index}", f"y{index}", f"z{index}"):
            reply = await session.init(name)
            identities[name] = reply.producer_id, reply.producer_epoch
        lanes.append(Lane(index, seed, identities, await Pipe.connect(network)))
    return lanes


def run(disk: PowerDisk, seed: int | str, work: Callable[[Any, DirectNetwork], Coroutine[Any, Any, Any]]) -> Any:
    async def main(_: Any) -> Any:
        network = DirectNetwork()
        broker = broker_on(disk, network, seed, CONFIG)
        await broker.start()
        async with asyncio.timeout(300):  # of virtual time
            found = await work(broker, network)
        assert broker.failure is not None
        assert not broker.failure.done()
        return found

    return run_simulated(seed, main)


def new_disk(seed: int | str) -> PowerDisk:
    disk = PowerDisk(seed)
    disk.make_directory(DATA)
    disk.sync_directory("")
    return disk


async def check_kept(network: DirectNetwork, lane: Lane, *, is_whole: bool) -> None:
    """What there is of a lane is a beginning of what was sent, with all that was acknowledged."""
    session = Session(await Client.connect(network))
    found = list((await session.read("plain", lane.index, committed=False)).values())
    assert found == lane.values[: len(found)]
    assert len(found) >= lane.acknowledged_count
    assert len(found) >= lane.seen_end, "what a reader saw"
    position = await session.committed_offset(lane.group, "plain", lane.index)
    count = lane.positions.index(position) + 1 if position >= 0 else 0
    assert count >= lane.acknowledged_position_count
    ended = list((await session.read("transactional", lane.index, committed=True)).values())
    if is_whole:
        assert (found, count, ended) == (lane.values, len(lane.positions), lane.committed)
    else:
        assert ended == [value for value in lane.committed if value in set(ended)], "none that was aborted, in order"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_pipeline_takes_effect_and_is_answered_in_its_order(seed):
    disk = new_disk(seed)

    async def work(_: Any, network: DirectNetwork) -> list[Lane]:
        lanes = await lanes_on(network, seed)
        for lane in lanes:
            lane.send(STEPS)
        for lane in lanes:
            await lane.pipe.finished()
            assert not lane.pipe.closed.done()
        await asyncio.sleep(5)  # the last markers
        for lane in lanes:
            await check_kept(network, lane, is_whole=True)
        return lanes

    lanes = run(disk, seed, work)
    disk.crash(Keep.NONE)

    async def again(_: Any, network: DirectNetwork) -> None:
        await asyncio.sleep(5)
        for lane in lanes:
            await check_kept(network, lane, is_whole=True)

    run(disk, seed, again)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_connection_that_is_cut_leaves_a_beginning_of_its_pipeline(seed):
    disk = new_disk(seed)

    async def work(broker: Any, network: DirectNetwork) -> list[Lane]:
        lanes = await lanes_on(network, seed)
        for lane in lanes:
            lane.send(STEPS)
        cut, other = lanes
        after = cut.random.randrange(cut.pipe.open_count)
        cut.pipe.on_answer = lambda: cut.pipe.transport.close() if cut.pipe.answered_count > after else None
        await cut.pipe.finished()
        await other.pipe.finished()
        assert broker.server.queued_count == 0, "what nobody waits for any more takes no room of others"
        assert not other.pipe.closed.done(), "nobody else hears of it"
        await asyncio.sleep(5)
        await check_kept(network, cut, is_whole=False)
        await check_kept(network, other, is_whole=True)
        return lanes

    lanes = run(disk, seed, work)
    disk.crash(Keep.NONE)

    async def again(_: Any, network: DirectNetwork) -> None:
        for lane in lanes:
            await check_kept(network, lane, is_whole=lane is lanes[1])

    run(disk, seed, again)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stop_in_the_middle_of_pipelines_loses_nothing_that_was_acknowledged(seed):
    disk = new_disk(seed)

    async def work(broker: Any, network: DirectNetwork) -> list[Lane]:
        lanes = await lanes_on(network, seed)
        for lane in lanes:
            lane.send(STEPS)
        await asyncio.sleep(lanes[0].random.uniform(0, 0.3))
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await broker.stop()
        assert loop.time() - begun < STOP_S_MAX
        for lane in lanes:
            await lane.pipe.finished()
            assert not lane.pipe.open_count or lane.pipe.closed.done(), "answered, or its connection is closed"
        assert disk.exists(f"{DATA}/.kafka_cleanshutdown")
        return lanes

    lanes = run(disk, seed, work)
    disk.crash(Keep.NONE)

    async def again(broker: Any, network: DirectNetwork) -> None:
        assert broker.is_clean_start
        await asyncio.sleep(70)  # what was left open is timed out
        for lane in lanes:
            await check_kept(network, lane, is_whole=False)

    run(disk, seed, again)
