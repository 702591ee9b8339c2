"""Wrong arguments: refused where the caller is, in one line that says what to do; the producer and its neighbours go on."""

import pytest
from evidence.world.client import ScriptedBroker, producer, run

from oncelog import OffsetAndMetadata, PreparedTxnState, TopicPartition, errors
from oncelog.client.producer.arguments import checked_timestamp, header_pairs
from oncelog.wire.api import ApiKey

SURROGATE = "a\ud800"
WRONG = [
    ({"topic": None}, "topic must be text, not None"),
    ({"topic": b"t"}, "topic must be text, not b't' .bytes.: decode it first"),
    ({"topic": ["t"]}, "topic must be text"),
    ({"topic": SURROGATE}, "topic must be text that can be encoded, not 'a.ud800' .str.: .* position 1"),
    ({"partition": "0"}, "partition must be a whole number"),
    ({"partition": 0.0}, "partition must be a whole number"),
    ({"partition": True}, "partition must be a whole number"),
    ({"timestamp_ms": "5"}, "timestamp_ms must be a whole number, not '5' .str.: milliseconds since 1970"),
    ({"timestamp_ms": 1.5}, "timestamp_ms must be a whole number"),
    ({"timestamp_ms": True}, "timestamp_ms must be a whole number"),
    (
        {"timestamp_ms": -5},
        "timestamp_ms must be from -1 to 9223372036854775807, not -5 .int.: milliseconds since 1970",
    ),
    ({"timestamp_ms": 2**63}, "timestamp_ms must be from -1 to"),
    ({"value": "text"}, "value must be bytes or None, not str: encode it, or set value_serializer"),
    ({"key": 5}, "key must be bytes or None, not int"),
    ({"headers": {"h": "x"}}, "header 'h' must be bytes or None, not 'x' .str.: encode it"),
    ({"headers": [(b"a", b"1")]}, "the name of a header must be text, not b'a' .bytes.: decode it first"),
    ({"headers": [(None, b"1")]}, "the name of a header must be text, not None"),
    ({"headers": [(SURROGATE, b"1")]}, "the name of a header must be text that can be encoded, not 'a.ud800'"),
    ({"headers": [("a", b"1", 2)]}, "a header must be a pair"),
    ({"headers": ["ab"]}, "a header must be a pair"),
    ({"headers": "ab"}, "headers must be a mapping or pairs"),
    ({"headers": 0}, "headers must be a mapping or pairs"),
]


@pytest.mark.parametrize(("wrong", "says"), WRONG)
def test_what_is_wrong_is_refused_and_nothing_else(wrong, says):
    async def work():
        broker = ScriptedBroker()
        async with producer(broker, linger_ms=50) as p:
            neighbour = await p.send("t", b"neighbour", partition=0)
            with pytest.raises(errors.InvalidArgument, match=says) as found:
                await p.send(**{"topic": "t", "value": b"v", "partition": 0, **wrong})
            assert isinstance(found.value, TypeError)
            assert isinstance(found.value, ValueError)
            assert (await neighbour).offset == 0
            assert (await p.send_and_wait("t", b"after", partition=0)).offset == 1
        assert [value for *_, values in broker.produced() for value in values] == [b"neighbour", b"after"]

    run(work)


class Seven:
    def __index__(self):
        return 7


def test_what_is_right_is_taken_as_it_is():
    assert [checked_timestamp(each) for each in (-1, 0, Seven(), 2**63 - 1)] == [-1, 0, 7, 2**63 - 1]
    assert header_pairs({"ä": memoryview(b"x"), "n": None}) == (("ä", b"x"), ("n", None))
    assert header_pairs([["a", bytearray(b"1")], ("a", b"2")]) == (("a", b"1"), ("a", b"2"))


def test_pairs_and_partitioners_are_looked_at_too():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker, partitioner=lambda key, count: "0" if key == b"text" else 1) as p:
            with pytest.raises(errors.InvalidArgument, match="what the partitioner chose must be a whole number"):
                await p.send("t", b"v", b"text")
            with pytest.raises(errors.InvalidArgument, match="send_many takes pairs of key and value, not b'value'"):
                await p.send_many("t", [(b"k", b"1"), b"value"])
            for records in (5, None, b"values", "text", {b"k": b"v"}):
                with pytest.raises(errors.InvalidArgument, match="records must be pairs of key and value"):
                    await p.send_many("t", records)
            with pytest.raises(errors.InvalidArgument, match="topic must be text"):
                await p.partitions_for(b"t")
            await p.flush()
        assert [(partition, values) for partition, _, _, values in broker.produced()] == [(1, [b"1"])]

    run(work)


HERE = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("offsets", "group", "says"),
    [
        ([(HERE, 1)], "g", "offsets must be a mapping"),
        ({"t": 1}, "g", "a key of offsets must be a TopicPartition, not 't'"),
        ({TopicPartition(None, 0): 1}, "g", "the topic of a key of offsets must be text"),
        ({TopicPartition("t", "0"): 1}, "g", "the partition of a key of offsets must be a whole number"),
        ({HERE: -1}, "g", "must be from 0 to 9223372036854775807, not -1"),
        ({HERE: 1.5}, "g", r"offsets\[t-0\] must be a whole number"),
        ({HERE: OffsetAndMetadata(1, None)}, "g", "metadata of offsets.* must be text"),
        ({HERE: OffsetAndMetadata(1, SURROGATE)}, "g", "metadata of offsets.* must be text that can be encoded"),
        ({HERE: 1}, None, "group must be consumer.group_metadata"),
        ({HERE: 1}, "", "the id of group must be text that is not empty"),
        ({HERE: 1}, SURROGATE, "the id of group must be text that can be encoded"),
    ],
)
def test_offsets_of_a_transaction(offsets, group, says):
    async def work():
        broker = ScriptedBroker()
        async with producer(broker, transactional_id="x") as p, p.transaction():
            with pytest.raises(errors.InvalidArgument, match=says):
                await p.send_offsets_to_transaction(offsets, group)
            await p.send("t", b"v", partition=0)
        assert [each.committed for each in broker.requests(ApiKey.END_TXN)] == [True]
        assert broker.requests(ApiKey.TXN_OFFSET_COMMIT) == []

    run(work)


def test_a_state_is_not_its_text():
    """It was not equal to the prepared one: the transaction was aborted."""

    async def work():
        broker = ScriptedBroker()
        config = {"transactional_id": "x", "transaction_two_phase_commit_enable": True}
        async with producer(broker, **config) as p:
            p.begin_transaction()
            await p.send("t", b"v", partition=0)
            state = await p.prepare_transaction()
            with pytest.raises(
                errors.InvalidArgument,
                match=r"state must be a PreparedTxnState, not '7:0' .str.: PreparedTxnState.text. reads it",
            ):
                await p.complete_transaction(str(state))
            await p.complete_transaction(PreparedTxnState(str(state)))
        assert [each.committed for each in broker.requests(ApiKey.END_TXN)] == [True]

    run(work)


def test_a_batch_that_cannot_be_written_fails_alone(monkeypatch):
    async def work():
        broker = ScriptedBroker()
        async with producer(broker, batch_size=1) as p:
            write = p._sender._encode

            def refuse_one(batch):
                if batch.produced_records()[0][2] == b"unwritable":
                    raise MemoryError("the codec has no room")
                return write(batch)

            monkeypatch.setattr(p._sender, "_encode", refuse_one)
            sent = [await p.send("t", value, partition=0) for value in (b"1", b"unwritable", b"2")]
            other = await p.send("t", b"3", partition=1)
            with pytest.raises(errors.UnknownServer, match="1 records for t-0 cannot be written: MemoryError"):
                await sent[1]
            assert [(await each).offset for each in (sent[0], sent[2], other)] == [0, 1, 0]
        assert [each[1:3] for each in broker.produced() if each[0] == 0] == [(0, 0), (0, 1)], "no number was lost"

    run(work)


@pytest.mark.parametrize(
    ("topic", "columns", "says"),
    [
        (b"t", {"value": [b"v"]}, "topic must be text"),
        (None, {"value": [b"v"]}, "say the topic"),
        (None, {"value": [b"v"], "topic": [5]}, "topic must be text, not 5"),
        ("t", {"key": [b"v"]}, "send_arrow needs one column `value`; there are key"),
        ("t", {"value": [5]}, "send_arrow: "),
        ("t", {"value": [b"v"], "Key": [b"k"]}, "send_arrow would lose 'Key' .str.: a record has key, value, headers"),
        ("t", {"value": [b"v"], "timestamp_ms": [1]}, "send_arrow would lose 'timestamp_ms'"),
        ("t", {"value": [b"v"], "partition": [9]}, "send_arrow: row 0 of 1 names partition 9, outside"),
        ("t", {"value": [b"v"], "partition": ["x"]}, "send_arrow: "),
        ("t", {"value": [b"v"], "timestamp": ["x"]}, "send_arrow: "),
        ("t", {"value": [b"v"], "timestamp": [1.5]}, "send_arrow: "),
        ("t", {"value": [b"v"], "headers": [5]}, "send_arrow: "),
        ("t", {"value": [b"v"], "headers": [[None]]}, "send_arrow: "),
        ("t", {"value": [b"a", b"b"], "timestamp": [-(2**62), 2**62 + 1]}, "send_arrow: timestamps"),
    ],
)
def test_columns(topic, columns, says):
    pa = pytest.importorskip("pyarrow")

    async def work():
        broker = ScriptedBroker()
        async with producer(broker, linger_ms=50) as p:
            neighbour = await p.send("t", b"neighbour", partition=0)
            with pytest.raises(errors.InvalidArgument, match=says):
                await p.send_arrow(topic, pa.record_batch(columns))
            with pytest.raises(errors.InvalidArgument, match="RecordBatch"):
                await p.send_arrow("t", columns)
            with pytest.raises(errors.InvalidArgument, match="to_batches"):
                await p.send_arrow("t", pa.table(columns))
            assert (await neighbour).offset == 0
            await p.flush()
        assert [values for *_, values in broker.produced()] == [[b"neighbour"]]

    run(work)
