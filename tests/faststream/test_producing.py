"""How bodies are encoded; where they go is tested with broker and subscribers."""

from __future__ import annotations

import pytest

from oncelog.errors import InvalidArgument
from tests.faststream.world import QUICK, fill, new_broker, read, run, running


class Upper:
    """A codec."""

    async def decode(self, msg):
        return msg.body.decode().lower()

    async def encode(self, msg, serializer=None):
        return str(msg).upper().encode(), "text/upper"


class UpperBatches(Upper):
    async def encode_batch(self, msgs, serializer=None):
        return [(b"<" + str(each).upper().encode() + b">", None) for each in msgs]

    async def decode_batch(self, msg):
        return [each.decode().lower() for each in msg.body]


@pytest.mark.parametrize(("codec", "batch"), [(Upper(), [b"A", b"B"]), (UpperBatches(), [b"<A>", b"<B>"])])
def test_a_codec_of_the_applications_own(codec, batch):
    async def work(bootstrap):
        await fill(bootstrap, b"ONE")
        broker = new_broker(bootstrap, codec=codec)

        @broker.subscriber("in", group_id="g", **QUICK)
        @broker.publisher("out")
        async def handle(text: str) -> str:
            await broker.publish_batch("a", "b", topic="side")
            return f"{text}!"

        async with running(broker):
            (one,) = await read(bootstrap, "out", 1)
            assert (one.value, dict(one.headers)["content-type"]) == (b"ONE!", b"text/upper")
            assert [each.value for each in await read(bootstrap, "side", 2)] == batch

    run(work)


def test_what_cannot_be_written_is_told_where_it_is_published():
    async def work(bootstrap):
        await fill(bootstrap)
        async with new_broker(bootstrap) as broker:
            with pytest.raises(InvalidArgument, match="header 'a'"):
                await broker.publish("x", "out", headers={"a": 1})
            with pytest.raises(InvalidArgument, match="key must be bytes or None"):
                await broker.publish("x", "out", key=1)

    run(work)
