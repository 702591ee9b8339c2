"""What a transform may give."""

from __future__ import annotations

import asyncio
import json

import pytest

from oncelog import ProducerRecord
from oncelog.client.processing.results import Results, TooMuch
from oncelog.client.records import ConsumerRecord
from oncelog.errors import InvalidArgument

SOURCE = ConsumerRecord("in", 2, 7, 1700, 0, b"key", b"value", (("h", b"x"),))
RESULTS = Results(into="out", transaction_bytes_max=1000)


def taken(result, results=RESULTS, source=SOURCE):
    collector = results.collector(source)
    collector.take(result)
    return collector.records


@pytest.mark.parametrize(
    ("result", "records"),
    [
        (None, []),
        (b"v", [ProducerRecord("out", b"v", b"key", None, None, 1700)]),
        (bytearray(b"v"), [ProducerRecord("out", b"v", b"key", None, None, 1700)]),
        ((b"k", b"v"), [ProducerRecord("out", b"v", b"k", None, None, 1700)]),
        ((b"k", None), [ProducerRecord("out", None, b"k", None, None, 1700)]),
        (ProducerRecord("elsewhere", b"v"), [ProducerRecord("elsewhere", b"v", None, None, None, 1700)]),
        (ProducerRecord("", b"v", b"k", {"a": b"1"}, 3, 5), [ProducerRecord("out", b"v", b"k", (("a", b"1"),), 3, 5)]),
        ([b"1", None, (b"k", b"2")], [(b"key", b"1"), (b"k", b"2")]),
        ((part for part in (b"1", b"2")), [(b"key", b"1"), (b"key", b"2")]),
    ],
    ids=["nothing", "bytes", "bytearray", "pair", "tombstone", "record", "record into", "list", "generator"],
)
def test_nothing_one_or_many(result, records):
    found = taken(result)
    if records and not isinstance(records[0], ProducerRecord):
        assert [(each.key, each.value) for each in found] == records
    else:
        assert found == records


def test_what_an_async_generator_gives():
    async def several():
        yield b"1"
        yield b"2"

    collector = RESULTS.collector(SOURCE)
    asyncio.run(collector.take_later(several()))
    assert [each.value for each in collector.records] == [b"1", b"2"]


def test_bytes_made_of_several_records_have_no_key_and_the_time_of_writing():
    assert taken(b"v", source=None) == [ProducerRecord("out", b"v", None, None, None, None)]


def test_a_record_without_a_timestamp_gives_none_on():
    assert taken(b"v", source=SOURCE._replace(timestamp_ms=-1))[0].timestamp_ms is None


def test_with_a_serializer_any_value_will_do():
    results = Results("out", 1000, value_serializer=lambda value: json.dumps(value).encode())
    assert [each.value for each in taken({"total": 3}, results)] == [b'{"total": 3}']
    assert [each.value for each in taken([1, "a"], results)] == [b"1", b'"a"']


def test_the_records_own_key_is_not_serialized_again_but_one_that_was_read_is():
    results = Results("out", 1000, key_serializer=str.encode, value_serializer=bytes)
    assert taken(b"v", results)[0].key == b"key"
    assert taken(b"v", results, SOURCE._replace(key="read"))[0].key == b"read"
    assert taken(("text", b"v"), results)[0].key == b"text"


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (5, "a transform gave 5 .int.: give None, bytes"),
        ({"a": 1}, "or set value_serializer"),
        ("text", "a transform gave 'text'"),
        ((b"a", b"b", b"c"), "a tuple of 3"),
        (ProducerRecord("t", "text"), "value must be bytes or None, not str"),
        (ProducerRecord(5, b"v"), "topic must be text"),
        (ProducerRecord("t", b"v", headers="abc"), "headers must be"),
    ],
)
def test_anything_else_is_refused_in_words(result, says):
    with pytest.raises(InvalidArgument, match=says):
        taken(result)


def test_without_into_a_record_must_name_its_topic():
    with pytest.raises(InvalidArgument, match="`into` names none"):
        taken(b"v", Results(None, 1000))


def test_one_call_gives_no_more_than_a_transaction_takes():
    """A generator that never ends would fill the memory."""

    def endless():
        while True:
            yield b"x" * 100

    with pytest.raises(TooMuch, match="more than transaction_bytes_max=1000 in one call"):
        taken(endless())


def test_a_serializer_that_tells_topics_apart_is_asked_for_the_outputs_topic():
    class ByTopic:
        def for_topic(self, topic):
            return lambda value: f"{topic}:{value}".encode()

    results = Results(into="out", transaction_bytes_max=1000, key_serializer=ByTopic(), value_serializer=ByTopic())
    assert [(r.key, r.value) for r in taken([("k", 1), ProducerRecord("other", 2, "l")], results)] == [
        (b"out:k", b"out:1"),
        (b"other:l", b"other:2"),
    ]
