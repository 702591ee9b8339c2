"""A broker without share groups makes, and imports, nothing for them; one that has had some finds them again."""

from __future__ import annotations

import asyncio

from evidence.world.broker import Client, broker_and_client, run, until

from oncelog.wire.log_records.share_state import ShareKey
from oncelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.share.share_world import ACCEPT, Reader, offsets, started


def figures(broker):
    groups = broker.node.share_groups
    return groups.session_count, groups.partition_count, groups.in_flight_count


def test_nothing_is_made_where_nobody_has_a_share_group(tmp_path):
    async def main():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t", 1)
            await client.produce("t", "a")
            await client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000))
            groups = broker.node.share_groups
            groups.connection_lost(1)
            await groups.group_deleted("g")
            await groups.forget_orphans(lambda _: False)
            await groups.prune()
            assert groups._made is None
            assert figures(broker) == (0, 0, 0)

    run(main())


def test_the_first_member_makes_it_and_the_next_start_finds_what_is_stored(tmp_path):
    async def main():
        async with broker_and_client(tmp_path) as (broker, client):
            topic_id = await started(client, "a", "b", "c")
            reader = Reader(client, topic_id)
            assert await reader.fetch(records_max=1)
            assert figures(broker) == (1, 1, 3)
            assert await reader.say((0, 1, ACCEPT)) == [0]
            client.close()
            await until(lambda: figures(broker)[0] == 0)
        async with broker_and_client(tmp_path) as (broker, _):
            assert broker.node.share_groups._made is not None, "what is stored is read by the start"
            assert broker.node.share_partitions.coordinators.key_count == 1
            again = Reader(await Client.connect(broker), topic_id, "n")
            assert await again.fetch() == [(2, 2, 2)]

    run(main())


def test_what_is_made_while_the_broker_stops_gives_nobody_a_record(tmp_path):
    async def main():
        async with broker_and_client(tmp_path) as (broker, _):
            broker.node.share_groups.close()
            assert broker.node.share_partitions.is_closing

    run(main())


def test_nobody_is_told_of_a_start_before_it_is_stored(tmp_path):
    """It may be the operator's: a power cut must not take back what was shown."""

    async def main():
        async with broker_and_client(tmp_path) as (broker, client):
            topic_id = await started(client, "a", "b")
            assert await Reader(client, topic_id).fetch(is_last=False) == [(0, 1, 1)]
            states = broker.node.share_partitions.coordinators
            partition = next(each for each in states.loaded() if len(each.machine)).partition
            committed, held_back = partition.committed, []
            partition.committed = held_back.append
            other = await Client.connect(broker)
            moving = asyncio.ensure_future(states.begin_at({ShareKey("g", topic_id, 0): 1}, lambda _: None))
            asked = asyncio.ensure_future(offsets(other))
            await until(lambda: partition.waiting_commit_count == 2)
            assert not asked.done()
            partition.committed = committed
            partition.committed(partition.log_end_offset)
            await moving
            assert await asked == [(0, 1, 1)]
            other.close()

    run(main())
