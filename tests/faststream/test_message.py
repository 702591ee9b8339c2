"""Records as FastStream's messages."""

from __future__ import annotations

import asyncio

import pytest
from faststream.message import AckStatus

from oncelog import ConsumerRecord
from oncelog.client.processing.results import Results
from oncelog.errors import RecordDeserialization
from oncelog.faststream.message import OncelogMessage, Parser
from oncelog.faststream.turn import Turn, taking_turn

PARSER = Parser()


def record(value=b"1", offset=7, **headers):
    pairs = tuple((name.replace("_", "-") if name == "content_type" else name, each) for name, each in headers.items())
    return ConsumerRecord("in", 2, offset, 1_700_000_000_000, 0, b"k", value, pairs)


def test_a_record_becomes_a_message():
    one = record(b"x", correlation_id=b"c", reply_to=b"answers", content_type=b"text/plain", none=None, odd=b"\xff")
    message = asyncio.run(PARSER.parse_message(one))
    assert (message.body, message.raw_message, message.message_id) == (b"x", one, "in-2@7")
    assert (message.correlation_id, message.reply_to, message.content_type) == ("c", "answers", "text/plain")
    assert message.headers["odd"] == "\ufffd", "FastStream's headers are text"
    assert "none" not in message.headers
    assert message.batch_headers == []


def test_several_become_one():
    batch = [record(b"1", 7, a=b"1"), record(None, 9, a=b"2")]
    message = asyncio.run(PARSER.parse_batch(batch))
    assert (message.body, message.raw_message, message.message_id) == ([b"1", b""], tuple(batch), "in-2@7-9")
    assert (message.headers, message.batch_headers) == ({"a": "1"}, [{"a": "1"}, {"a": "2"}])
    single = asyncio.run(PARSER.parse_batch(batch[:1]))
    assert (single.raw_message, single.batch_headers) == ((batch[0],), [{"a": "1"}])


@pytest.mark.parametrize(
    ("one", "body"),
    [
        (record(b'{"a": 1}'), {"a": 1}),
        (record(b'{"a": 1}', content_type=b"application/json"), {"a": 1}),
        (record(b"1", content_type=b"text/plain"), "1"),
        (record(b"no json"), b"no json"),
        (record(b"\xff"), b"\xff"),
        (record(None), b""),
    ],
)
def test_bodies(one, body):
    async def decoded():
        return await PARSER.decode_message(await PARSER.parse_message(one))

    assert asyncio.run(decoded()) == body


def test_a_body_that_is_not_what_its_header_says():
    async def decoded():
        message = await PARSER.parse_batch([record(b"1"), record(b"{", 8, content_type=b"application/json")])
        await PARSER.decode_batch(message)

    with pytest.raises(RecordDeserialization, match="record in-2@8: its value is not application/json, as its header"):
        asyncio.run(decoded())


@pytest.mark.parametrize(
    ("word", "verdict"), [("ack", AckStatus.ACKED), ("nack", AckStatus.NACKED), ("reject", AckStatus.REJECTED)]
)
def test_its_turn_hears_what_is_said_of_it(word, verdict):
    async def said():
        turn = Turn(None, None, Results(None, 1000).collector(None))
        with taking_turn(turn):
            message = await PARSER.parse_message(record())
        await getattr(message, word)()
        await message.ack()
        return turn.verdict, message.committed

    assert asyncio.run(said()) == (verdict, verdict)


def test_without_a_turn_it_only_remembers():
    message = OncelogMessage(record(), b"1")
    asyncio.run(message.nack())
    assert message.committed is AckStatus.NACKED
