"""What a broker refuses names itself and takes no neighbour along: batches are split, what followed them goes on."""

import asyncio
import random

import pytest
from evidence.world.client import CUT, ScriptedBroker, producer, run

from oncelog import errors, sync
from oncelog.errors import ErrorCode
from oncelog.testing import TestBroker
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from oncelog.wire.record_batch import RecordBatch

E = ErrorCode
BAD = b"bad"


class StrictBroker(ScriptedBroker):
    """Takes batches of up to `bytes_max`, no record whose value begins with `bad`, and sequences without a gap, as a leader."""

    def __init__(self, bytes_max=10**6, **more):
        super().__init__(**more)
        self.bytes_max = bytes_max
        self.next_sequence = {}
        self.batches = 0

    def _produce(self, message, code):
        if code:
            return super()._produce(message, code)
        topics = []
        for topic in message.topic_data:
            results = [self.judge(topic.name or "t", data.index, bytes(data.records)) for data in topic.partition_data]
            topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=results))
        return ProduceResponse(responses=topics)

    def judge(self, topic, partition, data):
        self.batches += 1
        batch = RecordBatch(data)
        if len(data) > self.bytes_max:
            told = f"the topic takes {self.bytes_max}"
            return PartitionProduceResponse(index=partition, error_code=E.MESSAGE_TOO_LARGE, error_message=told)
        bad = [n for n, record in enumerate(batch.records()) if record.value.startswith(BAD)]
        if bad:
            named = [BatchIndexAndErrorMessage(batch_index=n, batch_index_error_message=f"no {n}") for n in bad]
            return PartitionProduceResponse(index=partition, error_code=E.INVALID_RECORD, record_errors=named)
        if batch.producer_id >= 0:
            known_epoch, expected = self.next_sequence.get(partition, (batch.producer_epoch, batch.base_sequence))
            expected = 0 if batch.producer_epoch > known_epoch else expected
            if batch.producer_epoch < known_epoch or batch.base_sequence != expected:
                return PartitionProduceResponse(index=partition, error_code=E.OUT_OF_ORDER_SEQUENCE_NUMBER)
            self.next_sequence[partition] = (batch.producer_epoch, batch.base_sequence + batch.last_offset_delta + 1)
        return PartitionProduceResponse(index=partition, base_offset=self.append(topic, partition, data))

    def stored(self, partition=0):
        return [record.value for batch in self.log["t", partition] for record in batch.records()]


async def outcomes(deliveries):
    found = []
    for delivery in deliveries:
        try:
            found.append((await delivery).offset)
        except errors.KafkaError as error:
            found.append(type(error))
    return found


PLAIN = {"enable_idempotence": False, "acks": "1"}


@pytest.mark.parametrize("config", [{}, PLAIN], ids=["idempotent", "plain"])
@pytest.mark.parametrize("batch_size", [1, 16384], ids=["alone", "in a batch"])
@pytest.mark.parametrize("kind", [errors.RecordTooLarge, errors.InvalidRecord])
def test_a_refused_record_takes_no_other_along(config, batch_size, kind):
    """One of twelve; five are on their way at once. Up to four that followed it failed, or all of its batch."""
    values = [b"%02d" % n for n in range(12)]
    values[5] = BAD if kind is errors.InvalidRecord else bytes(5000)

    async def work():
        broker = StrictBroker(bytes_max=1000)
        async with producer(broker, batch_size=batch_size, retries=0, **config) as p:
            await p.send_and_wait("t", b"first", partition=0)
            sent = [await p.send("t", value, partition=0) for value in values]
            assert await outcomes(sent) == [1, 2, 3, 4, 5, kind, 6, 7, 8, 9, 10, 11]
            assert sent[5].done()
            assert sent[6].metadata.offset == 6
            assert p.metrics().failed_record_count == 1
        assert broker.stored() == [b"first", *values[:5], *values[6:]]

    run(work)


def test_what_is_refused_says_which_it_was():
    async def work():
        broker = StrictBroker(bytes_max=1000)
        async with producer(broker, linger_ms=50) as p:
            large = await p.send("t", bytes(5000), partition=0)
            await p.send("t", b"fine", partition=0)
            with pytest.raises(
                errors.RecordTooLarge,
                match=r"about 50\d\d bytes .* t-0 takes .max.message.bytes.: the topic takes 1000",
            ):
                await large
            bad = [await p.send("t", value, partition=0) for value in (b"fine", BAD, BAD + b"2")]
            for n in (1, 2):
                with pytest.raises(errors.InvalidRecord, match=f"a record for t-0 was refused: no {n}"):
                    await bad[n]
            assert (await bad[0]).offset == 1

    run(work)


@pytest.mark.parametrize("transactional_id", [None, "x"])
def test_batches_that_are_too_large_are_split(transactional_id):
    """A topic that takes less than batch_size: every record of it was refused."""

    async def work():
        broker = StrictBroker(bytes_max=300)
        async with producer(broker, linger_ms=50, transactional_id=transactional_id) as p:
            if transactional_id:
                p.begin_transaction()
            told = []
            sent = [await p.send("t", b"%03d" % n + bytes(40), partition=0) for n in range(100)]
            for delivery in sent:
                delivery.add_done_callback(lambda done: told.append(done.metadata.offset))
            await p.flush()
            if transactional_id:
                await p.commit_transaction()
            assert await outcomes(sent) == list(range(100))
            await asyncio.sleep(0.01)  # the event loop calls back
            assert sorted(told) == list(range(100))
            assert p._accumulator.used_bytes == 0
        assert [value[:3] for value in broker.stored()] == [b"%03d" % n for n in range(100)]
        assert {(each[1], each[2]) for each in broker.produced() if len(each[3]) == 100} == {(0, 0)}
        assert {each[1] for each in broker.produced()} == {0}, "each record kept its sequence: no new epoch was needed"

    run(work)


def test_in_a_transaction_the_refused_record_is_the_cause():
    async def work():
        broker = StrictBroker()
        async with producer(broker, linger_ms=50, transactional_id="x") as p:
            with pytest.raises(errors.InvalidRecord, match="no 1"):
                async with p.transaction():
                    sent = [await p.send("t", value, partition=0) for value in (b"0", BAD, b"2")]
            assert await outcomes(sent) == [errors.InvalidRecord] * 3
            async with p.transaction():
                await p.send("t", b"3", partition=0)
        assert broker.stored() == [b"3"]
        assert [each.committed for each in broker.requests(ApiKey.END_TXN)] == [False, True]

    run(work)


def test_what_may_be_stored_is_never_renumbered():
    """Its connection was lost behind the gap: nobody knows whether it came, so it is told, not sent in another epoch."""

    async def work():
        broker = StrictBroker()
        async with producer(broker, batch_size=1, retry_backoff_ms=10) as p:
            await p.send_and_wait("t", b"0", partition=0)
            broker.script(ApiKey.PRODUCE, 0, CUT)
            sent = [await p.send("t", value, partition=0) for value in (BAD, b"2", b"3")]
            found = await outcomes(sent)
            assert found[0] is errors.InvalidRecord
            assert found[1] is errors.OutOfOrderSequence
            assert (await p.send_and_wait("t", b"4", partition=0)).offset == len(broker.log["t", 0]) - 1
        values = [(each[1], each[3]) for each in broker.produced()]
        assert {epoch_ for epoch_, value in values if value == [b"2"]} == {0}
        assert len(set(broker.stored())) == len(broker.stored())

    run(work)


@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_refused_the_others_are_stored_once_and_in_order(seed):
    draw = random.Random(seed)
    values = [draw.choice([b"%03d" % n] * 9 + [BAD + b"%03d" % n, b"%03d" % n + bytes(900)]) for n in range(200)]
    good = [value for value in values if len(value) == 3]

    async def work():
        broker = StrictBroker(bytes_max=600)
        config = {"batch_size": draw.choice([1, 200, 2000]), "linger_ms": draw.choice([0, 5]), "retries": 0}
        async with producer(broker, **config) as p:
            sent = []
            for value in values:
                sent.append(await p.send("t", value, partition=0))
            found = await outcomes(sent)
            assert [offset for offset in found if isinstance(offset, int)] == list(range(len(good)))
            assert [value for value, each in zip(values, found, strict=True) if isinstance(each, int)] == good
            assert p._accumulator.used_bytes == 0
        assert broker.stored() == good

    run(work)


def test_rows_of_arrow_are_split_and_their_sizes_checked():
    pa = pytest.importorskip("pyarrow")

    async def work():
        broker = StrictBroker(bytes_max=300)
        async with producer(broker) as p:
            values = [b"%03d" % n + bytes(40) for n in range(50)]
            headers = [[("h", b"%d" % n)] for n in range(50)]
            kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
            rows = pa.record_batch({"value": pa.array(values, pa.binary()), "headers": pa.array(headers, kind)})
            await p.send_arrow("t", rows, partition=0)
            await p.flush()
            assert broker.stored() == values
            assert [r.headers for b in broker.log["t", 0] for r in b.records()][49] == (("h", b"49"),)
        async with producer(broker, max_request_size=1000) as p:
            for large in ({"value": [b"v", bytes(1000)]}, {"key": [bytes(600)] * 2, "value": [b"v", bytes(600)]}):
                with pytest.raises(errors.RecordTooLarge, match=r"row 1: a record of about .* max_request_size=1000"):
                    await p.send_arrow("t", pa.record_batch(large), partition=1)
            large = pa.record_batch({"value": [b"v"], "headers": pa.array([[("h", bytes(2000))]], kind)})
            with pytest.raises(errors.RecordTooLarge, match=r"a record of about .* max_request_size=1000"):
                await p.send_arrow("t", large, partition=1)
        assert broker.stored(1) == []

    run(work)


@pytest.mark.parametrize(
    ("size_bytes", "says"),
    [
        (3 << 20, r"takes \(max.message.bytes\): the batch has 31\d{5} bytes, the topic takes 2097152"),
        (3 << 19, r"takes \(segment.bytes\): the batch has 15\d{5} bytes, a segment takes 1048576"),
    ],
)
def test_our_broker_tells_both_numbers(size_bytes, says):
    """The error named the limit, and not how far beyond it the record was."""
    configs = {"max.message.bytes": str(2 << 20), "segment.bytes": str(1 << 20)}
    with TestBroker() as broker, sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics({"t": {"partitions": 1, "configs": configs}})
        with (
            sync.Producer(bootstrap_servers=broker.bootstrap_servers, max_request_size=8 << 20) as sender,
            pytest.raises((errors.RecordTooLarge, errors.RecordBatchTooLarge), match=says),
        ):
            sender.send_and_wait("t", bytes(size_bytes))
