"""The share consumer with a broker: modes, what a stop and an error give back, failures."""

from __future__ import annotations

import asyncio
from typing import Any, Self

import pytest
from evidence.world.broker import broker_and_client, run

import oncelog
from oncelog import sync
from oncelog.errors import ConfigurationError, IllegalState, InvalidArgument, RecordDeserialization, UnsupportedVersion
from oncelog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.broker.share.share_world import configure, offsets

TEN = [str(number) for number in range(10)]


class World:
    """A broker, a topic with ten records, a group that reads it from the start."""

    def __init__(self, directory: Any, **configs: str) -> None:
        self._opened = broker_and_client(directory, group_share_assignment_interval_ms=0)
        self._configs = configs

    async def __aenter__(self) -> Self:
        self.broker, self.client = await self._opened.__aenter__()
        await self.client.create("t")
        await configure(self.client, auto_offset_reset="earliest", **self._configs)
        await self.client.produce("t", *TEN)
        return self

    async def __aexit__(self, *reason: object) -> None:
        await self._opened.__aexit__(*reason)  # type: ignore[arg-type]

    def consumer(self, **options: Any) -> oncelog.ShareConsumer:
        options = {
            "fetch_max_wait_ms": 50,
            "enable_metrics_push": False,
            **options,
        }  # a stop waits for a fetch under way
        return oncelog.ShareConsumer("t", group_id="g", bootstrap_servers=self.broker.bootstrap_servers, **options)


def values(records: list[oncelog.ShareRecord]) -> list[str]:
    return [each.value.decode() for each in records]


def test_records_are_accepted_when_the_next_are_asked_for(tmp_path):
    async def main():
        async with World(tmp_path) as world:
            async with world.consumer() as consumer:
                assert values(await consumer.poll(20_000)) == TEN
                assert await consumer.commit() == {}
                await world.client.produce("t", "last")
                (record,) = await consumer.poll(20_000)
                assert (record.value, record.offset, record.delivery_count) == (b"last", 10, 1)
            async with world.consumer() as consumer:
                (again,) = await consumer.poll(20_000)
                assert (again.offset, again.delivery_count) == (10, 2), "stopped before anybody asked for the next"

    run(main())


def test_async_for_gives_back_the_record_that_failed(tmp_path):
    async def main():
        async with World(tmp_path) as world:
            seen = []
            with pytest.raises(ValueError, match="that one"):
                async with world.consumer() as consumer:
                    async for record in consumer:
                        seen.append(record.offset)
                        if record.offset == 3:
                            raise ValueError("that one")
            assert seen == [0, 1, 2, 3]
            async with world.consumer() as consumer:
                assert [each.offset for each in await consumer.poll(20_000)] == [3, 4, 5, 6, 7, 8, 9]

    run(main())


def test_each_record_can_be_said_something_of(tmp_path):
    async def main():
        async with World(tmp_path) as world, world.consumer(share_acknowledgement_mode="explicit") as consumer:
            records = await consumer.poll(20_000)
            for record in records[:8]:
                consumer.acknowledge(record)
            consumer.acknowledge(records[8], "reject")
            with pytest.raises(IllegalState, match="nothing was said of 1 records"):
                await consumer.poll(0)
            consumer.acknowledge(records[9], "renew")
            assert await consumer.commit() == {}
            consumer.acknowledge(records[9], "release")
            with pytest.raises(IllegalState, match="not this consumer's"):
                consumer.acknowledge(records[9])
            with pytest.raises(InvalidArgument, match="accept"):
                consumer.acknowledge(records[9], "accepted")
            (again,) = await consumer.poll(20_000)
            assert (again.offset, again.delivery_count) == (9, 2)
            consumer.acknowledge(again)
            assert await consumer.commit() == {}
            assert (await offsets(world.client))[0][2] == 0

    run(main())


def test_two_members_share_and_transactions_are_seen_when_committed(tmp_path):
    async def main():
        async with World(tmp_path, isolation_level="read_committed") as world:
            producer = await world.client.init("tx")
            for value in ("aborted", "committed"):
                sent = {"producer": producer, "sequence": 0, "transactional_id": "tx"}
                await world.client.produce("t", value, **sent)
                await world.client.end("tx", producer, commit=value == "committed")
                producer = await world.client.init("tx")
            async with (
                world.consumer(max_poll_records=5, share_acquire_mode="record_limit") as a,
                world.consumer() as b,
            ):
                first = await a.poll(20_000)
                assert values(first) == TEN[:5]
                rest: list[str] = []
                while "committed" not in rest:
                    rest += values(await b.poll(20_000))
                assert rest == [*TEN[5:], "committed"]
                assert (await a.commit(), await b.commit()) == ({}, {})
                assert (await offsets(world.client))[0][2] <= 1, "but for the marker, which the next fetch tells of"

    run(main())


def test_what_cannot_be_read_is_released_and_named(tmp_path):
    async def main():
        def number(content: bytes) -> int:
            return int(content) if content != b"2" else int("two")

        async with World(tmp_path) as world, world.consumer(value_deserializer=number) as consumer:
            assert [each.value for each in await consumer.poll(20_000)] == [0, 1]
            with pytest.raises(RecordDeserialization, match="offset 2"):
                await consumer.poll(20_000)
            assert [each.value for each in await consumer.poll(20_000)] == [3, 4, 5, 6, 7, 8, 9]

    run(main())


def test_what_cannot_be(tmp_path):
    with pytest.raises(ConfigurationError, match="group_id is missing"):
        oncelog.ShareConsumer("t")  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match="implicit, explicit"):
        oncelog.ShareConsumer("t", group_id="g", share_acknowledgement_mode="both")

    async def main():
        async with World(tmp_path) as world:
            consumer = world.consumer()
            with pytest.raises(IllegalState, match="not started"):
                await consumer.poll()
            async with consumer:
                (record, *_) = await consumer.poll(20_000)
                with pytest.raises(IllegalState, match="explicit"):
                    consumer.acknowledge(record)
                with pytest.raises(IllegalState, match="started before"):
                    await consumer.start()
            with pytest.raises(IllegalState, match="stopped"):
                await consumer.poll()
            down = FeatureUpdateKey(feature="share.version", max_version_level=0, upgrade_type=2)
            await world.client.call(UpdateFeaturesRequest(feature_updates=[down], timeout_ms=1000))
            with pytest.raises(UnsupportedVersion, match=r"share\.version 1"):
                await world.consumer().start()

    run(main())


def test_without_async(tmp_path):
    async def main():
        async with World(tmp_path) as world:
            servers = world.broker.bootstrap_servers

            def blocking() -> list[bytes]:
                with sync.ShareConsumer("t", group_id="g", bootstrap_servers=servers) as consumer:
                    found = []
                    for record in consumer:
                        found.append(record.value)
                        if len(found) == 10:
                            assert consumer.commit() == {}
                            return found
                    return []

            assert await asyncio.to_thread(blocking) == [each.encode() for each in TEN]

    run(main())
