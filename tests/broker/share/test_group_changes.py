"""Changes of share groups: one at a time for each, to its end, and at the next start what one left behind is gone."""

from __future__ import annotations

import asyncio

import pytest
from evidence.world.broker import broker_and_client, run

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.share.group_changes import GroupChanges
from oncelog.errors import ErrorCode
from oncelog.host.tasks import Tasks
from oncelog.wire.log_records.share_state import ShareKey
from tests.broker.share.share_world import Reader, started


class World:
    """Changes that end when they are told to."""

    def __init__(self):
        self.reported, self.begun, self.ended = [], [], []
        self.tasks = Tasks(self.reported.append)
        self.changes = GroupChanges()
        self.gates = {}

    async def run(self, name, group_id="g", error=None):
        gate = self.gates[name] = asyncio.Event()

        async def change():
            self.begun.append(name)
            await gate.wait()
            self.ended.append(name)
            if error is not None:
                raise error
            return name

        task = asyncio.ensure_future(self.changes.run(self.tasks, group_id, change))
        await self.turn()
        return task

    async def turn(self):
        for _ in range(5):
            await asyncio.sleep(0)


def test_one_at_a_time_for_each_group():
    async def main():
        world = World()
        first, second, other = [await world.run(*each) for each in (("first",), ("second",), ("other", "h"))]
        assert (world.begun, len(world.changes)) == (["first", "other"], 2)
        world.gates["first"].set()
        assert await first == "first"
        await world.turn()
        assert world.begun == ["first", "other", "second"]
        assert world.changes.is_under_way("g")
        world.gates["second"].set()
        world.gates["other"].set()
        assert (await second, await other, len(world.changes)) == ("second", "other", 0)

    asyncio.run(main())


def test_one_that_has_begun_goes_on_without_its_client_and_one_that_waits_does_not_begin():
    async def main():
        world = World()
        first, second, third = [await world.run(each) for each in ("first", "second", "third")]
        first.cancel()
        second.cancel()
        await world.turn()
        world.gates["first"].set()
        world.gates["third"].set()
        assert await third == "third"
        assert (world.begun, world.ended) == (["first", "third"], ["first", "third"])

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "reported"), [(CoordinatorFailed(ErrorCode.NOT_COORDINATOR), 0), (ValueError("planted"), 1)]
)
def test_one_that_fails_leaves_the_next_its_turn(error, reported):
    async def main():
        world = World()
        first, second = await world.run("first", error=error), await world.run("second")
        world.gates["first"].set()
        world.gates["second"].set()
        with pytest.raises(type(error)):
            await first
        assert await second == "second"
        assert len(world.reported) == reported

    asyncio.run(main())


def test_one_that_a_stop_cuts_before_its_first_step_leaves_nothing():
    async def main():
        world = World()
        task = asyncio.ensure_future(world.changes.run(world.tasks, "g", asyncio.Event().wait))
        await asyncio.sleep(0)
        await world.tasks.close()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(world.changes) == 0

    asyncio.run(main())


def test_states_that_no_group_knows_are_gone_with_the_next_start(tmp_path):
    """Of a group that has others too: a member's first heartbeat, or a deletion of offsets, was cut by a crash."""

    async def main():
        async with broker_and_client(tmp_path) as (broker, client):
            topic_id = await started(client, "a", "b")
            await client.create("u", 1)
            unknown = ShareKey("g", broker.metadata.topics["u"].topic_id, 0)
            await broker.share_groups.share_partitions.coordinators.begin([unknown])
            assert broker.share_groups.share_partitions.coordinators.key_count == 2
        async with broker_and_client(tmp_path) as (broker, client):
            states = broker.share_groups.share_partitions.coordinators
            assert [key for each in states.loaded() for key in each.machine.by_key] == [ShareKey("g", topic_id, 0)]
            assert await Reader(client, topic_id).fetch() == [(0, 1, 1)]

    run(main())
