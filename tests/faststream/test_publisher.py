"""Publishers over handlers; by themselves they are tested with the broker."""

from __future__ import annotations

from faststream.response import Response

from oncelog.faststream import OncelogMessage, OncelogResponse
from tests.faststream.world import QUICK, fill, new_broker, read, run, running


def test_what_a_handler_gives_wins_over_what_the_publisher_was_declared_with():
    async def work(bootstrap):
        await fill(bootstrap, b"1", b"2", b"3", b"4")
        broker = new_broker(bootstrap)

        @broker.subscriber("in", group_id="g", **QUICK)
        @broker.publisher("out", key="declared", headers={"a": "declared", "b": "declared"})
        @broker.publisher("side", partition=0)
        async def handle(number: int, message: OncelogMessage) -> object:
            if number == 1:
                return OncelogResponse(number, key=message.raw_message.key, timestamp_ms=5, headers={"a": "given"})
            if number == 2:
                return Response(number, headers={"a": "given"})
            return number if number == 3 else None

        async with running(broker):
            one, two, three, four = await read(bootstrap, "out", 4)
            side = await read(bootstrap, "side", 4)
        assert [each.key for each in (one, two, three)] == [b"k0", b"declared", b"declared"]
        assert [dict(each.headers)["a"] for each in (one, two, three)] == [b"given", b"given", b"declared"]
        assert dict(one.headers)["b"] == b"declared"
        assert (one.timestamp_ms, side[0].key, side[1].key) == (5, b"k0", None)
        assert (four.key, four.value) == (b"declared", None), "a tombstone, as FastStream has it"

    run(work)


def test_a_batch_publisher_writes_each_of_a_list():
    async def work(bootstrap):
        await fill(bootstrap, b"3", b"0", b"1")
        broker = new_broker(bootstrap)
        publisher = broker.publisher("out", batch=True)

        @broker.subscriber("in", group_id="g", **QUICK)
        @publisher
        async def handle(number: int) -> list[object]:
            return [OncelogResponse(each, key=str(each)) for each in range(number)]

        async with running(broker):
            found = await read(bootstrap, "out", 4)
            await publisher.publish(["x", "y"], key="all")
            found = await read(bootstrap, "out", 6)
        keys = [b"0", b"1", b"2", b"0", b"all", b"all"]
        assert [(each.key, each.value) for each in found] == list(
            zip(keys, [b"0", b"1", b"2", b"0", b"x", b"y"], strict=True)
        )

    run(work)
