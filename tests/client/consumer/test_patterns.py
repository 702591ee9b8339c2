"""Topics that come, go and come again under a subscription: found and forgotten, with and without a group."""

from __future__ import annotations

import asyncio

import pytest
from evidence.world.client import BOOTSTRAP, CUT, NO_ANSWER, run

from oncelog import Consumer, TopicPartition
from oncelog.errors import ErrorCode, InvalidArgument
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from oncelog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from oncelog.wire.record_batch import build_batch
from oncelog.wire.schema import ZERO_UUID
from tests.client.consumer import test_consumer_protocol
from tests.client.consumer.test_classic_protocol import Coordinator

MAX_AGE_S = 20
HOUR_MS = 3_600_000
GROUPS = [None, "range", "cooperative-sticky"]


class ManyTopics(Coordinator):
    """Topics of one partition, by name: the id."""

    def __init__(self):
        super().__init__()
        self.topics = {"a1": b"1" * 16, "b1": b"2" * 16}

    def _metadata(self, message, code):
        asked = self.topics if message.topics is None else [each.name for each in message.topics]
        topics = [
            MetadataResponseTopic(
                name=name,
                topic_id=self.topics.get(name, ZERO_UUID),
                error_code=0 if name in self.topics else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                partitions=[MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=0)]
                if name in self.topics
                else [],
            )
            for name in asked
        ]
        broker = MetadataResponseBroker(node_id=1, host="broker", port=9092)
        return MetadataResponse(brokers=[broker], controller_id=1, cluster_id="c", topics=topics)

    def _fetch(self, message, code):
        names = {topic_id: name for name, topic_id in self.topics.items()}
        gone = []
        for topic in message.topics:
            if bytes(topic.topic_id) in names:
                topic.topic = names[bytes(topic.topic_id)]
            else:
                gone.append(topic)
        answer = super()._fetch(message, code)
        for topic in answer.responses:
            if bytes(topic.topic_id) not in names:
                topic.partitions = [
                    PartitionData(partition_index=0, error_code=ErrorCode.UNKNOWN_TOPIC_ID, high_watermark=-1)
                ]
        assert isinstance(answer, FetchResponse)
        assert all(isinstance(topic, FetchableTopicResponse) for topic in answer.responses)
        return answer

    def write(self, name, *values):
        self.append(name, 0, build_batch([(1, None, value, ()) for value in values]))

    def forget(self, name):
        """Its records are gone with it."""
        del self.topics[name], self.log[name, 0], self.end_offsets[name, 0]


def consumer(broker, strategy, **config):
    group = {} if strategy is None else {"group_id": "g", "partition_assignment_strategy": strategy}
    return Consumer(
        host=broker.host(),
        bootstrap_servers=BOOTSTRAP,
        auto_offset_reset="earliest",
        metadata_max_age_ms=MAX_AGE_S * 1000,
        **group,
        **config,
    )


async def polled(c, seconds):
    found, ends = [], asyncio.get_running_loop().time() + seconds
    while (left := ends - asyncio.get_running_loop().time()) > 0:
        found += [record.value for record in await c.poll(timeout_ms=int(left * 1000) + 1)]
    return found


def topics_of(c):
    return {each.topic for each in c.assignment()}


@pytest.mark.parametrize("strategy", GROUPS)
def test_a_topic_that_comes_is_read_and_one_that_goes_is_not(strategy):
    async def work():
        broker = ManyTopics()
        async with consumer(broker, strategy) as c:
            c.subscribe(pattern="a.*")
            await polled(c, 2)
            assert topics_of(c) == {"a1"}
            broker.topics |= {"a2": b"3" * 16, "b2": b"4" * 16}
            broker.write("a2", b"came")
            assert await polled(c, MAX_AGE_S + 1) == [b"came"]
            assert topics_of(c) == {"a1", "a2"}
            broker.forget("a2")
            await polled(c, 3)  # a fetch says so
            assert topics_of(c) == {"a1"}
            last = broker.requests(ApiKey.FETCH)[-3:]
            assert b"3" * 16 not in {bytes(topic.topic_id) for each in last for topic in each.topics}
            broker.topics["a2"] = b"5" * 16
            broker.write("a2", b"again")
            assert await polled(c, MAX_AGE_S + 1) == [b"again"]

    run(work)


@pytest.mark.parametrize("strategy", GROUPS)
def test_all_topics_may_go_and_come(strategy):
    async def work():
        broker = ManyTopics()
        async with consumer(broker, strategy) as c:
            c.subscribe(pattern="a.*")
            await polled(c, 2)
            broker.forget("a1")
            await polled(c, MAX_AGE_S + 1)
            assert c.assignment() == set()
            broker.topics["a9"] = b"9" * 16
            await polled(c, MAX_AGE_S + 1)
            assert topics_of(c) == {"a9"}

    run(work)


@pytest.mark.parametrize("strategy", GROUPS)
def test_what_is_known_of_some_topics_is_not_taken_for_all(strategy):
    async def work():
        broker = ManyTopics()
        async with consumer(broker, strategy) as c:
            assert await c.partitions_for_topic("b1") == {0}
            c.subscribe(pattern="a.*")
            await polled(c, 2)
            assert topics_of(c) == {"a1"}
            c.subscribe(pattern="b.*")
            await polled(c, 2)
            assert topics_of(c) == {"b1"}

    run(work)


@pytest.mark.parametrize("strategy", GROUPS)
def test_a_place_in_a_deleted_topic_is_none_in_the_new_one_of_its_name(strategy):
    """Between two looks at the metadata: the same name and partition, so only the id tells. Offset 3 is in both."""

    async def work():
        broker = ManyTopics()
        broker.write("a1", b"1", b"2", b"3")
        async with consumer(broker, strategy) as c:
            c.subscribe(pattern="a.*")
            assert await polled(c, 2) == [b"1", b"2", b"3"]
            broker.forget("a1")
            broker.topics["a1"] = b"7" * 16
            broker.write("a1", b"A", b"B", b"C", b"D")
            assert await polled(c, 3) == [b"A", b"B", b"C", b"D"]

    run(work)


def test_a_place_that_the_application_names_in_the_new_topic_stands():
    async def work():
        broker = ManyTopics()
        broker.write("a1", b"1", b"2", b"3")
        place = TopicPartition("a1", 0)
        async with consumer(broker, None) as c:
            c.assign([place])
            assert await polled(c, 2) == [b"1", b"2", b"3"]
            c.pause(place)
            broker.forget("a1")
            broker.topics["a1"] = b"7" * 16
            broker.write("a1", b"A", b"B", b"C", b"D")
            await c._cluster.refresh(("a1",))
            c.seek(place, 2)
            c.resume(place)
            assert await polled(c, 3) == [b"C", b"D"]

    run(work)


# -- the broker matches (KIP-848): it assigns by id, metadata gives the name


class ById(test_consumer_protocol.Coordinator):
    """Assigns partition 0 of `topic_id`; metadata may fail."""

    fails = False

    def _metadata(self, message, code):
        return super()._metadata(message, ErrorCode.LEADER_NOT_AVAILABLE if self.fails else code)

    def _consumer_group_heartbeat(self, message, code):
        answer = super()._consumer_group_heartbeat(message, code)
        for each in answer.assignment.topic_partitions if answer.assignment is not None else ():
            each.topic_id = self.topic_id
        return answer

    def make_again(self):
        self.topic_id = b"9" * 16
        self.log.clear()
        self.end_offsets.clear()
        self.told = None


@pytest.mark.parametrize("is_known", [False, True])
def test_a_topic_that_is_made_again_is_given_back_and_taken_over_anew(is_known):
    """`is_known`: metadata had the new id before the group."""

    async def work():
        broker, listener = ById(), test_consumer_protocol.Listener()
        broker.given = [0]
        broker.append("t", 0, build_batch([(1, None, value, ()) for value in (b"1", b"2", b"3")]))
        async with test_consumer_protocol.consumer_of(broker, metadata_max_age_ms=HOUR_MS) as c:
            c.subscribe(pattern="t.*", listener=listener)
            assert await polled(c, 3) == [b"1", b"2", b"3"]
            broker.make_again()
            if is_known:
                await c._cluster.refresh(("t",))
            broker.append("t", 0, build_batch([(1, None, value, ()) for value in (b"A", b"B", b"C", b"D")]))
            assert await polled(c, 20) == [b"A", b"B", b"C", b"D"]
            last = [each for each in broker.requests(ApiKey.CONSUMER_GROUP_HEARTBEAT) if each.topic_partitions][-1]
            assert [bytes(each.topic_id) for each in last.topic_partitions] == [broker.topic_id]
            assert [name for name, _ in listener.heard] == ["assigned", "revoked", "assigned"]

    run(work)


def test_metadata_that_fails_for_a_while_gives_nothing_back():
    async def work():
        broker, listener = ById(), test_consumer_protocol.Listener()
        broker.given = [0]
        async with test_consumer_protocol.consumer_of(broker, metadata_max_age_ms=1000) as c:
            c.subscribe(["t"], listener=listener)
            await polled(c, 3)
            broker.fails = True
            await asyncio.sleep(1.5)  # the metadata that is known now names no topic id
            broker.given = [0, 1]
            await polled(c, 8)
            assert ("revoked", [TopicPartition("t", 0)]) not in listener.heard
            broker.fails = False
            await polled(c, 3)
            assert c.assignment() == {TopicPartition("t", 0), TopicPartition("t", 1)}
            assert "revoked" not in [name for name, _ in listener.heard]

    run(work)


HOW = [(None, "a1", None), (None, None, "a.*"), ("range", None, "a.*"), ("cooperative-sticky", None, "a.*")]


@pytest.mark.parametrize(("strategy", "topic", "pattern"), HOW)
@pytest.mark.parametrize("is_refused", [True, False])
def test_a_poll_ends_in_time_where_no_broker_can_say_which_topics_there_are(strategy, topic, pattern, is_refused):
    """A broker that restarts or stands still just when topics are asked for was raised by poll, or waited for beyond its end."""

    async def work(loop):
        broker = ManyTopics()
        broker.write("a1", b"late")
        async with consumer(broker, strategy, default_api_timeout_ms=30_000) as c:
            c.subscribe([topic] if topic else (), pattern=pattern)
            asked = len(broker.requests(ApiKey.METADATA))
            broker.script(ApiKey.METADATA, *[CUT if is_refused else NO_ANSWER] * 2)
            if is_refused:
                broker.pipes[-1].close()
                broker.is_reachable = False
            for _ in range(3):
                began = loop.time()
                assert await c.poll(timeout_ms=500) == []
                assert loop.time() - began == pytest.approx(0.5, abs=0.01)
            broker.is_reachable = True
            assert await polled(c, 100) == [b"late"]
            assert len(broker.requests(ApiKey.METADATA)) - asked < 10, "nobody asks without a pause"

    run(work)


def test_topics_are_listed_again_where_a_broker_is_away_for_a_moment():
    async def work():
        broker = ManyTopics()
        async with consumer(broker, None) as c:
            broker.script(ApiKey.METADATA, CUT)
            assert await c.topics() == {"a1", "b1"}

    run(work)


def test_a_subscription_that_changes_while_topics_are_asked_for_is_heard_of():
    async def work():
        broker = ManyTopics()
        broker.write("b1", b"other")
        async with consumer(broker, None) as c:
            broker.script(ApiKey.METADATA, NO_ANSWER)
            c.subscribe(pattern="a.*")
            assert await c.poll(timeout_ms=100) == []
            c.subscribe(["b1"])
            assert await polled(c, 100) == [b"other"]
            assert topics_of(c) == {"b1"}

    run(work)


@pytest.mark.parametrize("strategy", GROUPS)
def test_the_subscription_names_the_topics_that_match(strategy):
    async def work():
        broker = ManyTopics()
        async with consumer(broker, strategy) as c:
            c.subscribe(pattern="a.*")
            assert c.subscription() == set(), "nobody has said which topics there are"
            await polled(c, 2)
            assert c.subscription() == {"a1"}
            broker.topics |= {"a2": b"3" * 16, "b2": b"4" * 16}
            await polled(c, MAX_AGE_S + 1)
            assert c.subscription() == {"a1", "a2"}
            c.subscribe(["b1"])
            assert c.subscription() == {"b1"}
            c.unsubscribe()
            assert c.subscription() == set()

    run(work)


def test_where_the_broker_matches_the_subscription_names_what_is_read():
    async def work():
        broker = test_consumer_protocol.Coordinator()
        async with consumer(broker, None, group_id="g", group_protocol="consumer") as c:
            c.subscribe(pattern=r"\Qt\E|[[:digit:]]\pN")
            await polled(c, 3)
            assert c.subscription() == topics_of(c) == {"t"}
            patterns = {each.subscribed_topic_regex for each in broker.requests(ApiKey.CONSUMER_GROUP_HEARTBEAT)}
            assert r"\Qt\E|[[:digit:]]\pN" in patterns, "whatever Python's re thinks of it"

    run(work)


@pytest.mark.parametrize("pattern", ["a[[:digit:]]", "a[_[:^alpha:]]"])
def test_a_class_that_python_would_read_as_something_else_is_refused(pattern):
    async def work():
        async with consumer(ManyTopics(), None) as c:
            with pytest.raises(InvalidArgument, match="knows no classes of POSIX"):
                c.subscribe(pattern=pattern)

    run(work)


def test_no_warning_of_pythons_reaches_who_subscribes():
    async def work():
        async with consumer(ManyTopics(), None) as c:
            c.subscribe(pattern="a[[0-9&&x]")
            await polled(c, 2)
            assert c.subscription() == {"a1"}

    run(work)
