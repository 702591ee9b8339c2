"""A log that was cut below the position (KIP-320), against a scripted broker in virtual time."""

from __future__ import annotations

import asyncio

import pytest
from evidence.world.client import BOOTSTRAP, ScriptedBroker, run

from oncelog import Consumer, TopicPartition, errors
from oncelog.errors import ErrorCode
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from oncelog.wire.record_batch import RecordBatch, build_batch, set_offsets

ZERO = TopicPartition("t", 0)
CHECK = ApiKey.OFFSET_FOR_LEADER_EPOCH


class ElectingBroker(ScriptedBroker):
    """Its leader epoch grows when told; the new leader's log ends at `kept` in the former epoch."""

    def __init__(self, kept=2, **versions):
        super().__init__(**versions)
        self.leader_epoch, self.kept = 0, kept
        for value in (b"0", b"1"):
            self.append("t", 0, build_batch([(0, None, value, ())]))

    def _metadata(self, message, code):
        reply = super()._metadata(message, code)
        for topic in reply.topics:
            for each in topic.partitions:
                each.leader_epoch = self.leader_epoch
        return reply

    def _fetch(self, message, code):
        asked = [each.current_leader_epoch for topic in message.topics for each in topic.partitions]
        if any(known < self.leader_epoch for known in asked):
            code = ErrorCode.FENCED_LEADER_EPOCH
        return super()._fetch(message, code)

    def _offset_for_leader_epoch(self, message, code):
        ended = EpochEndOffset(
            partition=0, error_code=code, leader_epoch=0 if self.kept >= 0 else -1, end_offset=self.kept
        )
        topics = [OffsetForLeaderTopicResult(topic="t", partitions=[ended])]
        return OffsetForLeaderEpochResponse(topics=topics)

    def elect(self):
        """What the new leader does not have was written again, in its epoch."""
        self.leader_epoch += 1
        for index, batch in enumerate(self.log["t", 0]):
            if batch.base_offset >= self.kept:
                data = bytearray(batch.data)
                set_offsets(data, batch.base_offset, self.leader_epoch)
                self.log["t", 0][index] = RecordBatch(data)


def consumer_of(broker, **config):
    config.setdefault("auto_offset_reset", "earliest")
    return Consumer(bootstrap_servers=BOOTSTRAP, host=broker.host(), **config)


async def polled(consumer, seconds):
    ends, found = asyncio.get_running_loop().time() + seconds, []
    while (left := ends - asyncio.get_running_loop().time()) > 0:
        found += await consumer.poll(timeout_ms=int(left * 1000) + 1)
    return [record.value for record in found]


def read_then_elect(broker, **config):
    async def work():
        async with consumer_of(broker, **config) as consumer:
            consumer.assign([ZERO])
            consumer.seek(ZERO, 0)
            assert await polled(consumer, 1) == [b"0", b"1"]
            broker.elect()
            again = await polled(consumer, 3)
            return again, await consumer.position(ZERO)

    return work


def test_a_log_that_is_whole_is_read_on():
    broker = ElectingBroker(kept=2)
    assert run(read_then_elect(broker)) == ([], 2)
    (request,) = broker.requests(CHECK)
    (asked,) = request.topics[0].partitions
    assert (request.replica_id, asked.leader_epoch, asked.current_leader_epoch) == (-1, 0, 1)


def test_an_answer_about_partitions_that_nobody_asked_for_is_passed_over(caplog):
    class Talkative(ElectingBroker):
        def _offset_for_leader_epoch(self, message, code):
            reply = super()._offset_for_leader_epoch(message, code)
            other = EpochEndOffset(partition=7, leader_epoch=0, end_offset=0)
            strange = OffsetForLeaderTopicResult(topic="strange", partitions=[other])
            reply.topics[0].partitions.insert(0, other)
            return OffsetForLeaderEpochResponse(topics=[strange, *reply.topics])

    assert run(read_then_elect(Talkative(kept=2))) == ([], 2)
    assert "error of its own" not in caplog.text


def test_a_log_that_was_cut_is_read_from_where_it_was_cut():
    broker = ElectingBroker(kept=1)
    assert run(read_then_elect(broker)) == ([b"1"], 2)


def test_where_nobody_knows_the_epoch_the_policy_decides():
    broker = ElectingBroker(kept=-1)
    assert run(read_then_elect(broker)) == ([b"0", b"1"], 2)


def test_without_a_policy_the_application_is_told():
    broker = ElectingBroker(kept=1)
    with pytest.raises(errors.OffsetOutOfRange, match=r"was cut below position 2 .* it ends at 1 now"):
        run(read_then_elect(broker, auto_offset_reset="none"))


def test_a_leader_that_is_not_ready_is_asked_again():
    broker = ElectingBroker(kept=2)
    broker.script(CHECK, ErrorCode.UNKNOWN_LEADER_EPOCH)
    assert run(read_then_elect(broker)) == ([], 2)
    assert len(broker.requests(CHECK)) == 2


def test_brokers_that_cannot_say_are_not_asked():
    broker = ElectingBroker(kept=1, versions={CHECK: 2})
    assert run(read_then_elect(broker)) == ([], 2)
