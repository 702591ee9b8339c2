"""A coordinator whose partition goes offline sends everybody away who waits for it, and rings no timer any more."""

from __future__ import annotations

import dataclasses

from evidence.world.broker import Client, broker_and_client, keys, run, until

from oncelog.broker.broker import Broker
from oncelog.core.metadata.topic_configs import CONSUMER_OFFSETS_TOPIC
from oncelog.errors import ErrorCode
from oncelog.host.host import real_host
from oncelog.types import TopicPartition
from oncelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from oncelog.wire.messages.find_coordinator import FindCoordinatorRequest
from oncelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from oncelog.wire.messages.sync_group import SyncGroupRequest
from tests.broker.network.test_drain import HeldSyncer

E = ErrorCode
ONE_PARTITION = {"offsets_topic_num_partitions": 1, "group_initial_rebalance_delay_ms": 0}
OFFSETS = TopicPartition(CONSUMER_OFFSETS_TOPIC, 0)


def join_request(member_id: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=300_000,
        rebalance_timeout_ms=300_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
    )


async def member_of(client: Client) -> str:
    required = await client.call(join_request(), 5)
    assert required.error_code == E.MEMBER_ID_REQUIRED
    return str(required.member_id)


def take_offline(broker) -> None:
    partition = broker.partitions.get(OFFSETS)
    partition.go_offline("its disk is gone")


def test_who_waits_for_a_generation_is_sent_away(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, **ONE_PARTITION) as (broker, first):
            joined = await first.call(join_request(await member_of(first)), 5)
            assert joined.error_code == E.NONE
            second = await Client.connect(broker)
            second.send(join_request(await member_of(second)), 5)  # waits for the first to join again
            machine = next(broker.groups.loaded()).machine
            await until(lambda: any(each.is_awaiting_join for each in machine.groups["g"].members.values()))
            take_offline(broker)
            _, reply = await second.receive()
            assert reply.error_code == E.NOT_COORDINATOR
            second.close()

    run(work())


def test_who_waits_for_an_assignment_is_sent_away(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, **ONE_PARTITION) as (broker, first):
            second = await Client.connect(broker)
            leader = await member_of(first)
            assert (await first.call(join_request(leader), 5)).generation_id == 1
            follower = await member_of(second)
            second.send(join_request(follower), 5)
            assert (await first.call(join_request(leader), 5)).generation_id == 2
            await second.receive()
            second.send(SyncGroupRequest(group_id="g", generation_id=2, member_id=follower), 3)
            machine = next(broker.groups.loaded()).machine
            await until(lambda: any(each.is_awaiting_sync for each in machine.groups["g"].members.values()))
            take_offline(broker)
            _, reply = await second.receive()
            assert reply.error_code == E.NOT_COORDINATOR
            second.close()

    run(work())


def test_no_timer_rings_any_more(tmp_path):
    """What is due could not be done."""

    async def work():
        async with broker_and_client(tmp_path, **ONE_PARTITION) as (broker, client):
            await client.create("t")
            request = ConsumerGroupHeartbeatRequest(
                group_id="g",
                member_id="m",
                member_epoch=0,
                rebalance_timeout_ms=5000,
                subscribed_topic_names=["t"],
                topic_partitions=[],
            )
            assert (await client.call(request, 1)).error_code == E.NONE
            timer = next(iter(broker.groups.timers.values()))
            assert timer.is_armed
            take_offline(broker)
            assert not timer.is_armed
            timer.arm()
            assert not timer.is_armed

    run(work())


def test_a_heartbeat_that_waits_for_what_it_rests_on_is_refused(tmp_path):
    async def work():
        host = real_host()
        syncer = HeldSyncer(host.syncer)
        config = keys({**ONE_PARTITION, "group_consumer_assignment_interval_ms": 0})
        async with Broker(str(tmp_path), config, dataclasses.replace(host, syncer=syncer)) as broker:
            client = await Client.connect(broker)
            await client.create("t")
            await client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
            syncer.is_held = True
            request = ConsumerGroupHeartbeatRequest(
                group_id="g",
                member_id="m",
                member_epoch=0,
                rebalance_timeout_ms=5000,
                subscribed_topic_names=["t"],
                topic_partitions=[],
            )
            client.send(request, 1)
            await until(lambda: syncer.waiting == 1)
            take_offline(broker)
            _, reply = await client.receive()
            assert reply.error_code == E.NOT_COORDINATOR
            syncer.is_held = False
            syncer.go.set()
            client.close()
        syncer.close()

    run(work())
