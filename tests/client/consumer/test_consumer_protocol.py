"""group_protocol="consumer" against a scripted coordinator in virtual time."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from evidence.world.client import BOOTSTRAP, NO_ANSWER, TOPIC_ID, ScriptedBroker, run

from oncelog import Consumer, TopicPartition, errors
from oncelog.errors import ErrorCode
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from oncelog.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from oncelog.wire.messages.offset_fetch import OffsetFetchResponse, OffsetFetchResponseGroup

E = ErrorCode
HEARTBEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT
ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


class Coordinator(ScriptedBroker):
    """Gives `given` to its only member, once per change; epochs grow with it."""

    def __init__(self):
        super().__init__()
        self.member_epoch = 0
        self.given = [0, 1]
        self.told = None
        self.members = set()

    def _consumer_group_heartbeat(self, message, code):
        if code:
            return ConsumerGroupHeartbeatResponse(error_code=code, error_message="so it is")
        if message.member_epoch < 0:
            self.members.discard(message.member_id)
            return ConsumerGroupHeartbeatResponse(member_epoch=message.member_epoch)
        if message.member_epoch == 0:
            self.told = None
            self.members.add(message.member_id)
        assignment = None
        if self.told != self.given:
            self.told = list(self.given)
            self.member_epoch += 1
            assignment = Assignment(topic_partitions=[TopicPartitions(topic_id=TOPIC_ID, partitions=self.told)])
        return ConsumerGroupHeartbeatResponse(
            member_id=message.member_id,
            member_epoch=self.member_epoch,
            heartbeat_interval_ms=1_000,
            assignment=assignment,
        )

    def _offset_fetch(self, message, code):
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id=message.groups[0].group_id)])

    def _offset_commit(self, message, code):
        topics = [
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
                    for each in topic.partitions
                ],
            )
            for topic in message.topics
        ]
        return OffsetCommitResponse(topics=topics)


class Listener:
    def __init__(self):
        self.heard = []

    async def on_partitions_revoked(self, revoked):
        self.heard.append(("revoked", list(revoked)))

    async def on_partitions_assigned(self, assigned):
        self.heard.append(("assigned", list(assigned)))

    async def on_partitions_lost(self, lost):
        self.heard.append(("lost", list(lost)))


def consumer_of(broker, **config):
    return Consumer(
        "t",
        bootstrap_servers=BOOTSTRAP,
        host=broker.host(),
        group_id="g",
        group_protocol="consumer",
        auto_offset_reset="earliest",
        **config,
    )


async def polled(consumer, seconds=3.0):
    ends = asyncio.get_running_loop().time() + seconds
    while (left := ends - asyncio.get_running_loop().time()) > 0:
        await consumer.poll(timeout_ms=int(left * 1000) + 1)


async def refusals(consumer, seconds, timeout_ms=300):
    """How often poll raised that the group is refused, in this time, and once more where there is none."""
    loop, count = asyncio.get_running_loop(), 0
    ends = loop.time() + seconds
    while True:
        try:
            await consumer.poll(timeout_ms)
        except errors.GroupAuthorization:
            count += 1
            assert count < 10_000, "nobody is asked again"
        if loop.time() >= ends:
            return count


def owned(request):
    return None if request.topic_partitions is None else [p for t in request.topic_partitions for p in t.partitions]


def test_it_joins_takes_over_says_so_and_leaves():
    async def main():
        broker = Coordinator()
        async with consumer_of(broker, client_rack="r", group_remote_assignor="range") as consumer:
            await polled(consumer)
            assert consumer.assignment() == {ZERO, ONE}
            assert consumer.group_metadata().generation_id == 1
        first, second, *_, last = broker.requests(HEARTBEAT)
        assert (first.member_epoch, first.subscribed_topic_names, owned(first)) == (0, ["t"], [])
        assert (first.rack_id, first.server_assignor, first.rebalance_timeout_ms) == ("r", "range", 300_000)
        assert (second.member_epoch, owned(second)) == (1, [0, 1])
        assert last.member_epoch == -1

    run(main)


def test_a_broker_that_knows_no_patterns_serves_who_names_topics():
    async def main():
        broker = Coordinator()
        broker.versions[HEARTBEAT] = 0
        async with consumer_of(broker) as consumer:
            await polled(consumer)
            assert consumer.assignment() == {ZERO, ONE}
            consumer.subscribe(pattern="t")
            with pytest.raises(errors.UnsupportedVersion):
                await polled(consumer)

    run(main)


def test_partitions_come_and_go_inside_poll_only():
    async def main():
        broker, listener = Coordinator(), Listener()
        async with consumer_of(broker) as consumer:
            consumer.subscribe(["t"], listener=listener)
            await polled(consumer)
            broker.given = [1]
            await asyncio.sleep(5)
            assert consumer.assignment() == {ZERO, ONE}
            assert owned(broker.requests(HEARTBEAT)[-1]) is None
            await polled(consumer, 0.1)
            assert consumer.assignment() == {ONE}
            await asyncio.sleep(0.1)
            assert owned(broker.requests(HEARTBEAT)[-1]) == [1]
            assert listener.heard == [("assigned", [ZERO, ONE]), ("revoked", [ZERO])]

    run(main)


@pytest.mark.parametrize("code", [E.FENCED_MEMBER_EPOCH, E.UNKNOWN_MEMBER_ID])
def test_who_is_put_out_loses_its_partitions_and_comes_back(code):
    async def main():
        broker, listener = Coordinator(), Listener()
        async with consumer_of(broker) as consumer:
            consumer.subscribe(["t"], listener=listener)
            await polled(consumer)
            before = consumer.group_metadata()
            broker.script(HEARTBEAT, code)
            await asyncio.sleep(5)
            assert consumer.group_metadata() == before  # what it may still commit for was this epoch's
            assert broker.requests(HEARTBEAT)[-1].member_epoch == before.generation_id
            await polled(consumer)
            assert consumer.assignment() == {ZERO, ONE}
            assert consumer.group_metadata().generation_id > before.generation_id
            assert consumer.group_metadata().member_id == before.member_id
            assert [name for name, _ in listener.heard] == ["assigned", "lost", "assigned"]

    run(main)


def test_an_answer_that_does_not_come_is_asked_for_again_with_everything():
    async def main():
        broker = Coordinator()
        async with consumer_of(broker, request_timeout_ms=2_000) as consumer:
            await polled(consumer)
            broker.script(HEARTBEAT, NO_ANSWER)
            await polled(consumer, 6)
            requests = broker.requests(HEARTBEAT)
            again = [each for each in requests[3:] if each.subscribed_topic_names is not None]
            assert again
            assert owned(again[0]) == [0, 1]
            assert consumer.assignment() == {ZERO, ONE}

    run(main)


def test_a_coordinator_that_moved_is_looked_for_again():
    async def main():
        broker = Coordinator()
        async with consumer_of(broker) as consumer:
            await polled(consumer)
            asked = len(broker.requests(ApiKey.FIND_COORDINATOR))
            broker.script(HEARTBEAT, E.NOT_COORDINATOR)
            await polled(consumer)
            assert len(broker.requests(ApiKey.FIND_COORDINATOR)) == asked + 1
            assert consumer.assignment() == {ZERO, ONE}

    run(main)


def test_what_cannot_be_mended_is_raised():
    async def main():
        broker = Coordinator()
        broker.script(HEARTBEAT, E.UNRELEASED_INSTANCE_ID)
        async with consumer_of(broker, group_instance_id="i") as consumer:
            with pytest.raises(errors.UnreleasedInstanceId, match="so it is"):
                await polled(consumer)

    run(main)


@pytest.mark.parametrize("is_put_out", [False, True])
@pytest.mark.parametrize("polls", [False, True])
def test_who_was_refused_its_group_works_again_when_it_has_the_right(is_put_out, polls):
    """The first refusal ended all heartbeats, and poll raised it for ever."""

    async def main():
        broker, listener = Coordinator(), Listener()
        async with consumer_of(broker) as consumer:
            consumer.subscribe(["t"], listener=listener)
            await polled(consumer)
            before = len(broker.requests(HEARTBEAT))
            broker.script(HEARTBEAT, *[E.GROUP_AUTHORIZATION_FAILED] * 1000)
            await asyncio.sleep(2)
            assert await refusals(consumer, 20 if polls else 0) >= (15 if polls else 1)
            await asyncio.sleep(0 if polls else 20)
            assert len(broker.requests(HEARTBEAT)) - before <= 35, "about once a second"
            broker.scripts[HEARTBEAT].clear()
            broker.script(HEARTBEAT, *([E.UNKNOWN_MEMBER_ID] if is_put_out else []))
            await asyncio.sleep(1.5)
            await polled(consumer)
            assert consumer.assignment() == {ZERO, ONE}
            assert [name for name, _ in listener.heard] == ["assigned", *(["lost", "assigned"] if is_put_out else [])]
            broker.script(HEARTBEAT, *[E.GROUP_AUTHORIZATION_FAILED] * 1000)
            await asyncio.sleep(2)
        assert broker.requests(HEARTBEAT)[-1].member_epoch == -1, "a refused one stops as any other"

    run(main)


@pytest.mark.parametrize("api", [HEARTBEAT, ApiKey.FIND_COORDINATOR])
def test_who_may_not_join_yet_joins_when_it_may(api):
    async def main():
        broker = Coordinator()
        broker.script(api, *[E.GROUP_AUTHORIZATION_FAILED] * 10)
        async with consumer_of(broker) as consumer:
            assert await refusals(consumer, 15, timeout_ms=5) > 10, "also to who hardly waits"
            assert consumer.assignment() == {ZERO, ONE}
            assert len(broker.requests(api)) >= 11

    run(main)


def test_a_refused_member_that_does_not_poll_leaves_and_comes_back():
    async def main():
        broker = Coordinator()
        async with consumer_of(broker, max_poll_interval_ms=5_000) as consumer:
            await polled(consumer)
            broker.script(HEARTBEAT, *[E.GROUP_AUTHORIZATION_FAILED] * 1000)
            await asyncio.sleep(20)
            with pytest.raises(errors.GroupAuthorization):
                await polled(consumer)
            broker.scripts[HEARTBEAT].clear()
            await asyncio.sleep(1.5)
            await polled(consumer)
            assert consumer.assignment() == {ZERO, ONE}

    run(main)


def test_who_does_not_poll_leaves_and_comes_back():
    async def main():
        broker, listener = Coordinator(), Listener()
        async with consumer_of(broker, max_poll_interval_ms=5_000) as consumer:
            consumer.subscribe(["t"], listener=listener)
            await polled(consumer)
            await asyncio.sleep(20)
            epochs = [each.member_epoch for each in broker.requests(HEARTBEAT)]
            assert epochs[-1] == -1
            await polled(consumer)
            assert consumer.assignment() == {ZERO, ONE}
            assert [name for name, _ in listener.heard] == ["assigned", "lost", "assigned"]

    run(main)


def test_a_static_member_says_it_may_be_back():
    async def main():
        broker = Coordinator()
        async with consumer_of(broker, group_instance_id="i") as consumer:
            await polled(consumer)
        last = broker.requests(HEARTBEAT)[-1]
        assert (last.member_epoch, last.instance_id) == (-2, "i")

    run(main)


def test_a_pattern_is_the_brokers():
    async def main():
        broker = Coordinator()
        async with consumer_of(broker) as consumer:
            consumer.subscribe(pattern="t.*")
            await polled(consumer)
            assert consumer.assignment() == {ZERO, ONE}
        patterns = [each.subscribed_topic_regex for each in broker.requests(HEARTBEAT)]
        assert "t.*" in patterns

    run(main)


def test_a_commit_with_an_epoch_that_grew_meanwhile_is_sent_again():
    async def main():
        broker = Coordinator()
        async with consumer_of(broker, enable_auto_commit=False) as consumer:
            await polled(consumer)
            broker.script(ApiKey.OFFSET_COMMIT, E.STALE_MEMBER_EPOCH)
            broker.member_epoch += 1
            await consumer.commit({ZERO: 5})
            first, second = broker.requests(ApiKey.OFFSET_COMMIT)
            assert (first.generation_id_or_member_epoch, second.generation_id_or_member_epoch) == (1, 2)

    run(main)


@pytest.mark.parametrize(
    "way", ["stop", "unsubscribe", "cancel", "cancelled stop", "unsubscribe and stop", "subscribe again"]
)
def test_who_goes_at_any_moment_of_its_join_is_out_of_the_group(way):
    """A member that nobody heard of again would hold its partitions until its session times out (45 s)."""
    told = set()

    async def main(_, wait_ms):
        broker = Coordinator()
        consumer = consumer_of(broker)

        async def use():
            async with consumer:
                await polled(consumer, 60)

        if way == "cancel":
            using = asyncio.ensure_future(use())
            await asyncio.sleep(wait_ms / 1000)
            using.cancel()
            await asyncio.gather(using, return_exceptions=True)
        else:
            await consumer.start()
            using = asyncio.ensure_future(consumer.poll(60_000))
            await asyncio.sleep(wait_ms / 1000)
            if way != "stop" and way != "cancelled stop":
                consumer.unsubscribe()
                if way == "subscribe again":
                    consumer.subscribe(["t"])
            if way == "unsubscribe":
                await asyncio.sleep(1)
            elif way == "cancelled stop":
                stopping = asyncio.ensure_future(consumer.stop())
                await asyncio.sleep(wait_ms / 10_000)
                stopping.cancel()
                await asyncio.gather(stopping, return_exceptions=True)
            await (consumer.stop() if way != "unsubscribe" else asyncio.sleep(0))
            using.cancel()
            await asyncio.gather(using, return_exceptions=True)
        assert broker.members == set(), f"after {wait_ms} ms"
        told.add(tuple(each.member_epoch for each in broker.requests(HEARTBEAT)))
        if way == "unsubscribe":
            consumer.subscribe(["t"])
            await polled(consumer)
            assert consumer.assignment() == {ZERO, ONE}
            await consumer.stop()
            assert broker.members == set()

    for quarter_ms in range(80):
        run(partial(main, wait_ms=quarter_ms / 4))
    assert {(), (0, -1), (0, 1, -1)} <= told, "nobody was heard of, the join was under way, and was over"


def test_unsubscribing_leaves_and_subscribing_comes_back():
    async def main():
        broker = Coordinator()
        async with consumer_of(broker) as consumer:
            await polled(consumer)
            consumer.unsubscribe()
            assert consumer.assignment() == set()
            consumer.subscribe(["t"])
            await polled(consumer)
            assert consumer.assignment() == {ZERO, ONE}
            assert -1 in [each.member_epoch for each in broker.requests(HEARTBEAT)]
            with pytest.raises(errors.IllegalState):
                consumer.assign([ZERO])

    run(main)
