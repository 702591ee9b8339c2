"""What the fuzzer found beside frames (those are in corpus/), each as the shortest way to it."""

from __future__ import annotations

import asyncio
import logging

import pytest

from evidence.fuzz.broker_target import files_of
from evidence.world.client import BOOTSTRAP, ScriptedBroker, producer, run
from evidence.world.direct import Client, DirectNetwork, direct_host
from evidence.world.loop import run_simulated
from evidence.world.requests import Session
from oncelog import Consumer
from oncelog.broker.broker import Broker
from oncelog.cli.durations import duration_from_text
from oncelog.errors import ErrorCode, InconsistentGroupProtocol, KafkaError
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog.wire.messages.find_coordinator import FindCoordinatorResponse
from oncelog.wire.messages.init_producer_id import InitProducerIdResponse
from oncelog.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from oncelog.wire.messages.leave_group import LeaveGroupResponse
from oncelog.wire.messages.metadata import MetadataResponse
from oncelog.wire.messages.sync_group import SyncGroupResponse


def test_a_deletion_during_a_sync_takes_no_other_partition_offline(caplog):
    """The new partition's own file was gone when its sync came, and the whole group commit failed."""

    async def work(loop):
        files, network = files_of({}), DirectNetwork()
        broker = Broker("data", {}, direct_host(files, network, 1))
        await broker.start()
        one, two = Session(await Client.connect(network)), Session(await Client.connect(network))
        await one.create_topic("stays", 1)
        for number in range(10):
            await one.create_topic(f"goes{number}", 1)
            goes = asyncio.ensure_future(two.produce(f"goes{number}", 0, ["x"]))
            stays = asyncio.ensure_future((Session(await Client.connect(network))).produce("stays", 0, ["y"]))
            await asyncio.sleep(0.0005 * number)
            await one.client.call(
                DeleteTopicsRequest(topics=[DeleteTopicState(name=f"goes{number}")], timeout_ms=5_000), 6
            )
            await asyncio.gather(goes, return_exceptions=True)
            assert await stays == number
        await broker.stop()

    with caplog.at_level(logging.CRITICAL, "oncelog"):
        run_simulated(1, work)
    assert caplog.messages == []


@pytest.mark.parametrize("text", ["9" * 400, "1" * 41 + "d", "9" * 5000])
def test_a_duration_without_end(text):
    with pytest.raises(ValueError, match="is no duration"):
        duration_from_text(text)


def group_consumer(broker):
    return Consumer("t", host=broker.host(), bootstrap_servers=BOOTSTRAP, group_id="g", request_timeout_ms=2000)


def test_an_answer_without_a_coordinator_is_asked_again():
    async def work():
        broker = ScriptedBroker()
        broker.script(ApiKey.FIND_COORDINATOR, *[FindCoordinatorResponse(coordinators=[])] * 3)
        broker.script(ApiKey.JOIN_GROUP, *[JoinGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)])
        async with group_consumer(broker) as consumer:
            with pytest.raises(KafkaError) as caught:
                await consumer.poll(20_000)
        assert caught.value.code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert len(broker.requests(ApiKey.FIND_COORDINATOR)) >= 4

    run(work)


@pytest.mark.parametrize("nonsense", ["assignment", "subscription", "protocol"])
def test_nonsense_of_another_member(nonsense):
    async def work():
        broker = ScriptedBroker()
        member = JoinGroupResponseMember(
            member_id="m", metadata=b"\x00\x03\xff" if nonsense == "subscription" else b"\0" * 10
        )
        is_leader = nonsense != "assignment"
        joined = JoinGroupResponse(
            generation_id=1,
            protocol_name="never heard of" if nonsense == "protocol" else "range",
            leader="m" if is_leader else "other",
            member_id="m",
            members=[member] if is_leader else [],
        )
        broker.script(ApiKey.JOIN_GROUP, joined)
        broker.script(ApiKey.LEAVE_GROUP, LeaveGroupResponse())
        broker.script(ApiKey.SYNC_GROUP, SyncGroupResponse(assignment=b"\0\0\x7f\xff\xff\xff"))
        async with group_consumer(broker) as consumer:
            with pytest.raises(InconsistentGroupProtocol):
                await consumer.poll(10_000)

    run(work)


@pytest.mark.parametrize(
    "answer",
    [
        InitProducerIdResponse(producer_id=-1, producer_epoch=-1),
        InitProducerIdResponse(producer_id=7, producer_epoch=-1),
        InitProducerIdResponse(
            producer_id=7, producer_epoch=0, ongoing_txn_producer_id=1, ongoing_txn_producer_epoch=-1
        ),
    ],
)
def test_an_identity_that_nobody_can_have(answer):
    async def work():
        broker = ScriptedBroker()
        broker.script(ApiKey.INIT_PRODUCER_ID, answer)
        with pytest.raises(KafkaError, match="refused"):
            async with producer(broker, transactional_id="tx"):
                pass

    run(work)


def test_a_pause_of_days_is_not_believed():
    async def work(loop):
        broker = ScriptedBroker()
        broker.script(ApiKey.METADATA, MetadataResponse(throttle_time_ms=2**31 - 1))
        async with Consumer("t", host=broker.host(), bootstrap_servers=BOOTSTRAP, request_timeout_ms=2000) as consumer:
            await consumer.poll(500)
        assert loop.time() < 200

    run(work)
