"""Consumer groups (KIP-848) over the wire: heartbeats, description, restart, configs of one group, a clock that is set."""

from __future__ import annotations

import asyncio

import pytest
from evidence.world.broker import Client, broker_and_client, keys, run, until

from oncelog.broker.broker import Broker
from oncelog.broker.coordinators.groups import SteadyClock
from oncelog.broker.handlers import serves
from oncelog.errors import ErrorCode
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from oncelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from oncelog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from oncelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.wire.messages.list_groups import ListGroupsRequest
from oncelog.wire.messages.sync_group import SyncGroupRequest
from oncelog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

E = ErrorCode
AT_ONCE = {"group_consumer_assignment_interval_ms": 0}


async def beat(client, member_id, member_epoch, **fields):
    if member_epoch == 0:
        fields = {"subscribed_topic_names": ["t"], "rebalance_timeout_ms": 5000, "topic_partitions": [], **fields}
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=member_epoch, **fields)
    return await client.call(request, 1)


async def described(client):
    return (await client.call(ConsumerGroupDescribeRequest(group_ids=["g"]), 1)).groups[0]


def held(reply):
    return [p for topic in reply.assignment.topic_partitions for p in topic.partitions]


def test_a_member_joins_is_described_and_survives_a_restart(tmp_path):
    async def main():
        async with broker_and_client(tmp_path, **AT_ONCE) as (_, client):
            await client.create("t", 3)
            reply = await beat(client, "m", 0)
            assert (reply.error_code, reply.member_epoch, held(reply)) == (0, 2, [0, 1, 2])
            before = await described(client)
            assert (before.group_state, before.members[0].client_host) == ("Stable", "/127.0.0.1")
        async with broker_and_client(tmp_path, **AT_ONCE) as (_, client):
            after = await described(client)
            assert (after.members, after.group_epoch) == (before.members, before.group_epoch)
            assert (await beat(client, "m", 2)).error_code == 0
            listed = (await client.call(ListGroupsRequest(types_filter=["consumer"]), 5)).groups
            assert [(each.group_id, each.group_state) for each in listed] == [("g", "Stable")]
            assert (await described(client)).authorized_operations == -(1 << 31)

    run(main())


def test_new_partitions_reach_the_group(tmp_path):
    async def main():
        async with broker_and_client(tmp_path, **AT_ONCE) as (_, client):
            await client.create("t", 1)
            await beat(client, "m", 0)
            wanted = CreatePartitionsTopic(name="t", count=3, assignments=None)
            await client.call(CreatePartitionsRequest(topics=[wanted], timeout_ms=5000), 3)
            assert held(await beat(client, "m", 2)) == [0, 1, 2]

    run(main())


def test_a_pattern_is_resolved_without_another_request(tmp_path):
    async def main():
        async with broker_and_client(tmp_path, **AT_ONCE) as (_, client):
            await client.create("t", 1)
            await beat(client, "m", 0, subscribed_topic_names=None, subscribed_topic_regex="t|u")
            while (await described(client)).group_epoch == 1:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert held(await beat(client, "m", 1)) == [0]

    run(main())


def test_an_answer_waits_for_what_it_rests_on(tmp_path):
    """A retry must not tell an assignment that a crash could still take back."""

    async def main():
        async with broker_and_client(tmp_path, **AT_ONCE) as (broker, client):
            await client.create("t", 1)
            await beat(client, "a", 0)
            holder = await broker.groups.coordinator_of("g")
            partition = holder.partition
            committed, held_back = partition.committed, []
            partition.committed = held_back.append  # type: ignore[method-assign]
            other = await Client.connect(broker)
            first = asyncio.ensure_future(beat(client, "b", 0))
            await asyncio.sleep(0.05)
            assert holder.machine.consumer_groups.is_ahead
            second = asyncio.ensure_future(beat(other, "a", 2))
            await asyncio.sleep(0.05)
            assert not first.done()
            assert not second.done()
            partition.committed = committed  # type: ignore[method-assign]
            partition.committed(partition.log_end_offset)
            assert ((await first).error_code, (await second).error_code) == (0, 0)
            other.close()

    run(main())


def test_so_does_an_answer_to_the_classic_protocol(tmp_path):
    """JoinGroup and SyncGroup come by another way than the rest: what they tell of a consumer group is no older."""

    async def main():
        async with broker_and_client(tmp_path, **AT_ONCE) as (broker, client):
            await client.create("t", 1)
            await beat(client, "a", 0)
            partition = (await broker.groups.coordinator_of("g")).partition
            committed, held_back = partition.committed, []
            partition.committed = held_back.append  # type: ignore[method-assign]
            leaving = asyncio.ensure_future(beat(client, "a", -1))
            await until(lambda: not next(broker.groups.loaded()).machine.consumer_groups.by_id["g"].members)
            other = await Client.connect(broker)
            asked = asyncio.ensure_future(
                other.call(SyncGroupRequest(group_id="g", generation_id=2, member_id="a", assignments=[]), 3)
            )
            await until(lambda: partition.waiting_commit_count == 2)
            assert not asked.done(), "that the member is gone may still be lost"
            partition.committed = committed  # type: ignore[method-assign]
            partition.committed(partition.log_end_offset)
            await leaving
            assert (await asked).error_code == E.UNKNOWN_MEMBER_ID
            other.close()

    run(main())


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_group_is_listed_when_it_is_stored(tmp_path, is_stored):
    async def main():
        async with broker_and_client(tmp_path, **AT_ONCE) as (broker, client):
            await client.create("t", 1)
            partition = (await broker.groups.coordinator_of("g")).partition
            committed, held_back = partition.committed, []
            partition.committed = held_back.append  # type: ignore[method-assign]
            joining = asyncio.ensure_future(beat(client, "a", 0))
            await until(lambda: partition.waiting_commit_count == 1)
            other = await Client.connect(broker)
            listing = asyncio.ensure_future(other.call(ListGroupsRequest()))
            await until(lambda: partition.waiting_commit_count == 2)
            assert not listing.done()
            if is_stored:
                partition.committed = committed  # type: ignore[method-assign]
                partition.committed(partition.log_end_offset)
            else:
                partition.go_offline("its disk is gone")
            assert [each.group_id for each in (await listing).groups] == ["g"] * is_stored
            assert (await joining).error_code == (E.NONE if is_stored else E.NOT_COORDINATOR)
            other.close()

    run(main())


def test_a_group_may_have_times_of_its_own(tmp_path):
    async def main():
        async with broker_and_client(tmp_path, **AT_ONCE) as (_, client):
            await client.create("t", 1)
            config = AlterableConfig(name="consumer.heartbeat.interval.ms", config_operation=0, value="7000")
            resource = AlterConfigsResource(resource_type=32, resource_name="g", configs=[config])
            await client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
            assert (await beat(client, "m", 0)).heartbeat_interval_ms == 7000

    run(main())


def test_sessions_do_not_follow_the_wall_clock(tmp_path):
    async def main():
        async with broker_and_client(tmp_path, **AT_ONCE) as (broker, client):
            await client.create("t", 1)
            await beat(client, "m", 0)
            steady = broker.groups._steady
            begun_ms = steady.now_ms()
            stepped_ms = begun_ms + 86_400_000  # and there it stands: what is measured depends on one clock only
            broker.host.clock.now_ms = lambda: stepped_ms  # type: ignore[method-assign]
            assert (await beat(client, "m", 2)).error_code == 0
            holder = await broker.groups.coordinator_of("g")
            assert stepped_ms - steady.now_ms() <= holder.machine.clock.offset_ms <= stepped_ms - begun_ms
            await asyncio.sleep(0.05)
            assert len((await described(client)).members) == 1

    run(main())


def test_a_steady_clock_goes_on_where_the_wall_jumps():
    class Wall:
        now = 1_000_000

        def now_ms(self):
            return self.now

    async def main():
        wall, loop = Wall(), asyncio.get_running_loop()
        loop_s = 7.25
        loop.time = lambda: loop_s  # type: ignore[method-assign]
        steady = SteadyClock(wall)
        assert steady.now_ms() == 1_000_000
        wall.now += 3_600_000
        loop_s += 0.5
        assert steady.now_ms() == 1_000_500
        assert steady.wall_offset_ms() == 3_599_500

    run(main())


@pytest.mark.parametrize("level", [0, 1])
def test_without_the_feature_there_are_no_consumer_groups(tmp_path, level):
    async def main():
        async with broker_and_client(tmp_path, **AT_ONCE) as (_, client):
            await client.create("t", 1)
            update = FeatureUpdateKey(feature="group.version", max_version_level=level, upgrade_type=3 - 2 * level)
            await client.call(UpdateFeaturesRequest(feature_updates=[update], timeout_ms=5000), 1)
            code = E.NONE if level else E.UNSUPPORTED_VERSION
            assert (await beat(client, "m", 0)).error_code == code
            assert (await described(client)).error_code == code

    run(main())


def test_both_apis_are_advertised():
    async def main():
        async with Broker(config=keys(AT_ONCE)) as broker:
            assert serves(broker.metadata, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)
            assert serves(broker.metadata, ApiKey.CONSUMER_GROUP_DESCRIBE, 1)

    run(main())
