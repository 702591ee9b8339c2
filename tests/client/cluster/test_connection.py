"""One connection: versions agreed, answers matched, deadlines kept, whoever waits is told when it ends."""

import asyncio
import gc

import pytest
from evidence.world.client import BOOTSTRAP, CUT, NO_ANSWER, ScriptedBroker, run
from evidence.world.network import feed

from oncelog import Producer
from oncelog.client.cluster.connection import BrokerVersions, Connection
from oncelog.client.traffic import Traffic
from oncelog.errors import Network, RequestTimedOut, UnsupportedVersion
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from oncelog.wire.messages.metadata import MetadataRequest, MetadataResponse
from oncelog.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse


async def opened(broker, traffic=None):
    return await Connection.open(broker, "broker", 9092, "me", 1000, traffic)


def test_versions_are_the_highest_that_both_speak():
    versions = BrokerVersions({ApiKey.METADATA: (0, 9), ApiKey.INIT_PRODUCER_ID: (0, 5)})
    assert versions.choose(ApiKey.METADATA, 0, 32767) == 9
    assert versions.choose(ApiKey.METADATA, 1, 4) == 4
    with pytest.raises(UnsupportedVersion, match="needs version 6 to 6, the broker offers 0 to 5"):
        versions.choose(ApiKey.INIT_PRODUCER_ID, 6, 32767)
    with pytest.raises(UnsupportedVersion, match="does not know it"):
        versions.choose(ApiKey.FETCH, 0, 32767)


def test_features_are_told():
    async def work():
        connection = await opened(ScriptedBroker(level=3))
        assert connection.versions.finalized_features == {"transaction.version": 3}
        connection.close()

    run(work)


def test_an_old_broker_is_asked_again_in_its_version():
    async def work():
        broker = ScriptedBroker()
        broker.script(
            ApiKey.API_VERSIONS,
            ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=2)]),
        )
        connection = await opened(broker)
        assert broker.versions_asked(ApiKey.API_VERSIONS) == [4, 2]
        connection.close()

    run(work)


def test_that_nobody_hears_an_end_any_more_is_no_news():
    """A task that was to wait for the answer may have been cancelled before its first step."""

    async def work():
        told = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        broker = ScriptedBroker()
        broker.script(ApiKey.METADATA, NO_ANSWER)
        connection = await opened(broker)
        answer, _ = connection.start_request(MetadataRequest(topics=None), timeout_ms=1000)
        connection.close()
        assert answer.done()
        del answer
        gc.collect()
        assert not told

    run(work)


def test_answers_reach_those_who_asked():
    async def work():
        broker = ScriptedBroker()
        connection = await opened(broker)
        asked = [connection.request(MetadataRequest(topics=None), timeout_ms=1000) for _ in range(10)]
        answers = await asyncio.gather(*asked, connection.request(InitProducerIdRequest(), timeout_ms=1000))
        assert [version for _, version in answers] == [13] * 10 + [6]
        assert answers[-1][0].producer_id == 7
        connection.close()

    run(work)


def test_silence_ends_the_request_and_the_connection():
    async def work(loop):
        broker = ScriptedBroker()
        connection = await opened(broker)
        broker.script(ApiKey.INIT_PRODUCER_ID, NO_ANSWER)
        broker.delay_s[ApiKey.METADATA] = 60
        began = loop.time()
        slow = connection.start_request(MetadataRequest(topics=None), timeout_ms=90000)[0]
        with pytest.raises(RequestTimedOut, match="InitProducerId to broker:9092 got no answer within 700 ms"):
            await connection.request(InitProducerIdRequest(), timeout_ms=700)
        assert loop.time() - began == pytest.approx(0.7)
        with pytest.raises(Network, match="given up"):
            await slow
        with pytest.raises(Network, match="is closed"):
            await connection.request(InitProducerIdRequest(), timeout_ms=700)

    run(work)


def test_a_cut_is_told_to_all_who_wait():
    async def work():
        broker = ScriptedBroker()
        connection = await opened(broker)
        broker.script(ApiKey.METADATA, NO_ANSWER, CUT)
        asked = [connection.request(MetadataRequest(topics=None), timeout_ms=1000) for _ in range(2)]
        for error in await asyncio.gather(*asked, return_exceptions=True):
            assert isinstance(error, Network)

    run(work)


def test_an_answer_to_nothing_ends_the_connection():
    async def work():
        connection = await opened(ScriptedBroker())
        asked = connection.start_request(MetadataRequest(topics=None), timeout_ms=1000)[0]
        feed(connection, b"\x00\x00\x00\x04\x00\x00\x7f\xff")
        with pytest.raises(Network, match="never sent"):
            await asked

    run(work)


def test_an_impossible_frame_ends_the_connection():
    async def work():
        connection = await opened(ScriptedBroker())
        feed(connection, b"\xff\xff\xff\xff")
        assert connection.is_closed

    run(work)


def test_who_stops_waiting_disturbs_nobody():
    async def work():
        broker = ScriptedBroker()
        connection = await opened(broker)
        broker.delay_s[ApiKey.METADATA] = 0.5
        impatient = connection.start_request(MetadataRequest(topics=None), timeout_ms=2000)[0]
        impatient.cancel()
        response, _ = await connection.request(MetadataRequest(topics=None), timeout_ms=2000)
        assert response.controller_id == 1
        connection.close()

    run(work)


def test_silence_ends_the_connection_although_nobody_waits_any_more():
    async def work():
        broker = ScriptedBroker()
        connection = await opened(broker)
        broker.script(ApiKey.METADATA, NO_ANSWER)
        connection.start_request(MetadataRequest(topics=None), timeout_ms=2000)[0].cancel()
        await asyncio.sleep(1)
        assert not connection.is_closed
        await asyncio.sleep(2)
        assert connection.is_closed

    run(work)


def test_nobody_there():
    async def work():
        broker = ScriptedBroker()
        broker.is_reachable = False
        with pytest.raises(Network, match="nobody listens"):
            await opened(broker)

    run(work)


def test_a_broker_that_says_nothing_when_greeted():
    async def work():
        broker = ScriptedBroker()
        broker.script(ApiKey.API_VERSIONS, NO_ANSWER)
        with pytest.raises(RequestTimedOut):
            await opened(broker)

    run(work)


def test_a_broker_that_throttles_gets_nothing_more_for_that_time():
    async def work():
        broker = ScriptedBroker()
        connection = await opened(broker)
        loop = asyncio.get_running_loop()
        broker.script(ApiKey.METADATA, MetadataResponse(throttle_time_ms=700), MetadataResponse(throttle_time_ms=300))
        began, freed = loop.time(), []
        await asyncio.gather(
            *(connection.request(MetadataRequest(topics=None), timeout_ms=1000) for _ in range(2))
        )  # both were on their way
        assert connection.is_throttled(lambda: freed.append(loop.time()))
        await connection.request(MetadataRequest(topics=None), timeout_ms=1000)
        assert 0.7 <= loop.time() - began < 0.8
        assert len(freed) == 1
        assert not connection.is_throttled(lambda: None)
        connection.close()

    run(work)


def test_a_pause_of_minutes_is_kept_and_what_it_holds_up_says_so():
    """After a minute the request left all the same, was not read, and went by a new connection: a quota that was none."""

    async def work():
        broker = ScriptedBroker()
        traffic = Traffic()
        connection = await opened(broker, traffic)
        loop = asyncio.get_running_loop()
        broker.script(ApiKey.METADATA, MetadataResponse(throttle_time_ms=400_000))
        began = loop.time()
        await connection.request(MetadataRequest(topics=None), timeout_ms=1000)
        why = "Metadata could not be sent to .* within 1000 ms: a quota, the broker told a throttle of 400000 ms"
        with pytest.raises(RequestTimedOut, match=why):
            await connection.request(MetadataRequest(topics=None), timeout_ms=1000)
        assert loop.time() - began < 1.5
        assert traffic.throttle_ms == 400_000
        await connection.request(MetadataRequest(topics=None), timeout_ms=500_000)
        assert 400 <= loop.time() - began < 401
        assert len(broker.requests(ApiKey.METADATA)) == 2
        assert traffic.throttle_ms == 0
        connection.close()

    run(work)


def test_who_waits_for_a_pause_hears_of_its_connections_end():
    """A producer whose broker went away and came back sent nothing before the pause of the former connection was over."""

    async def work():
        broker = ScriptedBroker()
        loop = asyncio.get_running_loop()
        async with Producer(bootstrap_servers=BOOTSTRAP, host=broker.host(), enable_idempotence=False) as producer:
            broker.script(ApiKey.PRODUCE, lambda message: throttled(message, 100_000))
            await producer.send_and_wait("t", value=b"1", partition=0)
            waiting = await producer.send("t", value=b"2", partition=0)
            await asyncio.sleep(1)
            assert not waiting.done()
            for pipe in broker.pipes:
                pipe.close()
            began = loop.time()
            await waiting
            assert loop.time() - began < 1

    run(work)


def test_a_pause_is_kept_where_the_transport_has_room_again_meanwhile():
    async def work():
        broker = ScriptedBroker()
        connection = await opened(broker)
        broker.script(ApiKey.METADATA, MetadataResponse(throttle_time_ms=700))
        await connection.request(MetadataRequest(topics=None), timeout_ms=1000)
        connection.pause_writing()
        connection.resume_writing()
        assert not connection.may_write
        await asyncio.sleep(0.7)
        assert connection.may_write
        connection.close()

    run(work)


def test_a_pause_ends_though_its_timer_rings_a_little_early():
    """uvloop's timers do, by up to a millisecond: asked the time, such a connection waited for ever."""

    async def work():
        broker = ScriptedBroker()
        connection = await opened(broker)
        loop, freed = asyncio.get_running_loop(), asyncio.Event()
        call_at = loop.call_at
        loop.call_at = lambda when, *rest, **more: call_at(when - 0.001, *rest, **more)
        broker.script(ApiKey.METADATA, MetadataResponse(throttle_time_ms=700), MetadataResponse(throttle_time_ms=300))
        for _ in range(2):
            await connection.request(MetadataRequest(topics=None), timeout_ms=1000)
            assert connection.is_throttled(freed.set)
            async with asyncio.timeout(2):
                await freed.wait()
            assert not connection.is_throttled(freed.set)
            freed.clear()
        connection.close()

    run(work)


def test_a_throttled_producer_waits_and_goes_on():
    async def work():
        broker = ScriptedBroker()
        loop = asyncio.get_running_loop()
        async with Producer(bootstrap_servers=BOOTSTRAP, host=broker.host(), enable_idempotence=False) as producer:
            broker.script(ApiKey.PRODUCE, throttled)
            await producer.send("t", value=b"1", partition=0)
            await producer.flush()
            began = loop.time()
            await producer.send("t", value=b"2", partition=0)
            await producer.flush()
            assert loop.time() - began >= 2
        assert len(broker.requests(ApiKey.PRODUCE)) == 2

    run(work)


def throttled(message, throttle_ms=2_000):
    result = PartitionProduceResponse(index=0, base_offset=0)
    topic = message.topic_data[0]
    responses = [TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[result])]
    return ProduceResponse(responses=responses, throttle_time_ms=throttle_ms)
