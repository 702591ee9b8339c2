"""Fetching from the closest replica (KIP-392): who is believed, for how long, and when the leader is asked again."""

from __future__ import annotations

import asyncio

import pytest
from evidence.world.client import BOOTSTRAP, CUT, ScriptedBroker, run

from oncelog import Consumer, TopicPartition, errors
from oncelog.client.cluster.view import PartitionView
from oncelog.client.consumer.read_replica import ReadReplica, named_by, node_to_ask
from oncelog.errors import ErrorCode
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.metadata import MetadataResponseBroker
from oncelog.wire.record_batch import build_batch

WHERE = TopicPartition("t", 0)
LEADER = PartitionView(0, 1, 5)
LEASE_MS = 300_000


@pytest.mark.parametrize(
    ("answered_by", "preferred", "named"), [(1, 2, 2), (1, -1, None), (1, 1, None), (2, 3, None), (2, 1, None)]
)
def test_only_the_leader_is_believed(answered_by, preferred, named):
    found = named_by(LEADER, answered_by, preferred, now_ms=10, lease_ms=90)
    assert found == (None if named is None else ReadReplica(named, 1, 5, 100))
    assert named_by(None, answered_by, preferred, now_ms=10, lease_ms=90) is None


@pytest.mark.parametrize(
    ("replica", "asked"),
    [
        (None, (1, False)),
        (ReadReplica(2, 1, 5, 100), (2, True)),
        (ReadReplica(2, 1, 5, 99), (1, False)),  # the lease ended
        (ReadReplica(2, 1, 4, 100), (1, False)),  # another term of the leader
        (ReadReplica(2, 3, 5, 100), (1, False)),  # another leader
        (ReadReplica(4, 1, 5, 100), (1, False)),  # nobody knows that broker
    ],
)
def test_when_a_replica_is_asked(replica, asked):
    assert node_to_ask(LEADER, replica, {1, 2, 3}, now_ms=99.5) == asked


class TwoBrokers(ScriptedBroker):
    """A leader (1) and a follower (2) with one log. The leader sends whoever says a rack to the follower."""

    def __init__(self) -> None:
        super().__init__()
        self.follower = Follower(self)
        self.names = 2

    async def connect(self, host, port, factory):
        if host == "follower":
            return await self.follower.connect(host, port, factory)
        return await super().connect(host, port, factory)

    def _metadata(self, message, code):
        response = super()._metadata(message, code)
        response.brokers = [*response.brokers, MetadataResponseBroker(node_id=2, host="follower", port=9092)]
        return response

    def _fetch(self, message, code):
        response = super()._fetch(message, code)
        if message.rack_id and not code:
            for topic in response.responses:
                for each in topic.partitions:
                    each.preferred_read_replica, each.records = self.names, b""
        return response


class Follower(ScriptedBroker):
    """Has its leader's log."""

    def __init__(self, leader: TwoBrokers) -> None:
        super().__init__()
        self.log, self.end_offsets = leader.log, leader.end_offsets


def consumer_of(broker, **config):
    return Consumer(
        bootstrap_servers=BOOTSTRAP, host=broker.host(), client_rack="r", enable_auto_commit=False, **config
    )


async def read(consumer, count):
    found = []
    async with asyncio.timeout(60):
        while len(found) < count:
            found += [record.value for record in await consumer.poll()]
    return found


def put(broker, *values):
    for value in values:
        broker.append("t", 0, build_batch([(0, None, value, ())]))


def fetches(broker):
    return len(broker.requests(ApiKey.FETCH))


def test_records_come_from_the_replica_until_the_lease_ends():
    async def work():
        broker = TwoBrokers()
        put(broker, b"0")
        async with consumer_of(broker, metadata_max_age_ms=10_000) as consumer:
            consumer.assign([WHERE])
            consumer.seek(WHERE, 0)
            assert await read(consumer, 1) == [b"0"]
            put(broker, b"1")
            assert await read(consumer, 1) == [b"1"]
            assert fetches(broker) == 1
            assert broker.follower.requests(ApiKey.FETCH)[0].topics[0].partitions[0].current_leader_epoch == 0
            await consumer.poll(timeout_ms=11_000)
            assert fetches(broker) == 2
            put(broker, b"2")
            assert await read(consumer, 1) == [b"2"]
            assert fetches(broker) == 2

    run(work)


def test_without_a_rack_the_leader_is_read():
    async def work():
        broker = TwoBrokers()
        put(broker, b"0")
        async with Consumer(bootstrap_servers=BOOTSTRAP, host=broker.host()) as consumer:
            consumer.assign([WHERE])
            consumer.seek(WHERE, 0)
            assert await read(consumer, 1) == [b"0"]
        assert fetches(broker.follower) == 0

    run(work)


@pytest.mark.parametrize(
    "failure", [ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER, CUT]
)
def test_a_replica_that_fails_leads_back_to_the_leader(failure):
    """OFFSET_OUT_OF_RANGE too: a follower that is behind says nothing of the log, so the position stays."""

    async def work():
        broker = TwoBrokers()
        put(broker, b"0")
        broker.follower.script(ApiKey.FETCH, failure)
        async with consumer_of(broker, auto_offset_reset="none") as consumer:
            consumer.assign([WHERE])
            consumer.seek(WHERE, 0)
            assert await read(consumer, 1) == [b"0"]
            assert fetches(broker) == 2  # and it named the replica again
            assert broker.requests(ApiKey.FETCH)[1].topics[0].partitions[0].fetch_offset == 0

    run(work)


def test_the_leaders_word_about_an_offset_counts():
    async def work():
        broker = TwoBrokers()
        broker.follower.script(ApiKey.FETCH, ErrorCode.OFFSET_OUT_OF_RANGE)
        broker.script(ApiKey.FETCH, 0, ErrorCode.OFFSET_OUT_OF_RANGE)
        async with consumer_of(broker, auto_offset_reset="none") as consumer:
            consumer.assign([WHERE])
            consumer.seek(WHERE, 7)
            with pytest.raises(errors.OffsetOutOfRange):
                await consumer.poll(timeout_ms=5000)

    run(work)


@pytest.mark.parametrize("nonsense", [1, 99, -7])
def test_a_leader_that_names_nonsense_is_read_itself(nonsense):
    async def work():
        broker = TwoBrokers()
        broker.names = nonsense
        put(broker, b"0")
        async with consumer_of(broker) as consumer:
            consumer.assign([WHERE])
            consumer.seek(WHERE, 0)
            await consumer.poll(timeout_ms=2000)
            assert consumer.assignment() == {WHERE}
        assert fetches(broker.follower) == 0
        assert fetches(broker) > 1

    run(work)


def test_replicas_cannot_send_a_consumer_round():
    async def work():
        broker = TwoBrokers()
        put(broker, b"0")
        broker.follower._fetch = lambda message, code: TwoBrokers._fetch(broker, message, code)
        async with consumer_of(broker) as consumer:
            consumer.assign([WHERE])
            consumer.seek(WHERE, 0)
            await consumer.poll(timeout_ms=2000)
        assert fetches(broker) == 1

    run(work)
