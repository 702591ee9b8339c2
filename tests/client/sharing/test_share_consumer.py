"""The share consumer with a broker: modes, what a stop and an error give back, failures."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any, Self

import pytest
from evidence.world.broker import broker_and_client, run

import oncelog
from oncelog import sync
from oncelog.errors import (
    ConfigurationError,
    CorruptRecord,
    ErrorCode,
    GroupAuthorization,
    IllegalState,
    InvalidArgument,
    InvalidRecordState,
    InvalidTopic,
    KafkaError,
    Network,
    RecordDeserialization,
    RequestTimedOut,
    UnsupportedVersion,
)
from oncelog.testing import FaultyProxy
from oncelog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.broker.share.share_world import configure, offsets

TEN = [str(number) for number in range(10)]
LAST_SIZE = 61 + 11  # of the batch of the record "last"


class World:
    """A broker, a topic with ten records, a group that reads it from the start."""

    def __init__(self, directory: Any, **configs: str) -> None:
        self._opened = broker_and_client(
            directory,
            group_share_assignment_interval_ms=0,
            group_share_min_record_lock_duration_ms=1000,
            group_share_heartbeat_interval_ms=100,
            group_share_min_heartbeat_interval_ms=100,
        )
        self._configs = configs

    async def __aenter__(self) -> Self:
        self.broker, self.client = await self._opened.__aenter__()
        await self.client.create("t")
        await configure(self.client, auto_offset_reset="earliest", **self._configs)
        await self.client.produce("t", *TEN)
        return self

    async def __aexit__(self, *reason: object) -> None:
        await self._opened.__aexit__(*reason)  # type: ignore[arg-type]

    def admin(self) -> oncelog.Admin:
        return oncelog.Admin(bootstrap_servers=self.broker.bootstrap_servers)

    def consumer(self, **options: Any) -> oncelog.ShareConsumer:
        options = {
            "bootstrap_servers": self.broker.bootstrap_servers,
            "fetch_max_wait_ms": 50,  # a stop waits for a fetch under way
            "enable_metrics_push": False,
            **options,
        }
        return oncelog.ShareConsumer("t", group_id="g", **options)


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


def test_a_stop_says_what_became_of_records_however_long_a_quota_holds_up_the_next(tmp_path, caplog):
    """It waited for the pause of the last fetch, then for that of the next one, and gave up with nothing said."""

    async def main():
        async with World(tmp_path) as world:
            async with world.admin() as admin:
                await admin.alter_client_quotas({"client-id": "slow"}, {"consumer_byte_rate": 1.0})
            slow = world.consumer(share_acknowledgement_mode="explicit", client_id="slow")
            async with slow:
                records = await slow.poll(20_000)
                assert any(each.throttle_ms for each in slow._cluster.traffic.snapshot())
                for record in records[:4]:
                    slow.acknowledge(record)
                commit = asyncio.ensure_future(slow.commit())
                await asyncio.sleep(0)
                assert slow._acknowledging
                slow.acknowledge(records[4])
            assert await commit == {}
            async with world.consumer() as consumer:
                again = await consumer.poll(20_000)
                assert [(each.offset, each.delivery_count) for each in again] == [
                    (offset, 2) for offset in range(5, 10)
                ]
        assert "no answer while the share consumer stopped" not in caplog.text

    run(main())


def test_each_record_can_be_said_something_of(tmp_path):
    async def main():
        async with World(tmp_path) as world, world.consumer(share_acknowledgement_mode="explicit") as consumer:
            records = await consumer.poll(20_000)
            for record in records[:8]:
                consumer.acknowledge(record)
            consumer.acknowledge(records[8], "reject")
            with pytest.raises(IllegalState, match="nothing final was said of 1 records"):
                await consumer.poll(0)
            consumer.acknowledge(records[9], "renew")
            assert await consumer.commit() == {}
            with pytest.raises(IllegalState, match="nothing final was said of 1 records"):
                await consumer.poll(0)
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
            with pytest.raises(RecordDeserialization, match=r"offset 2: .*given to somebody again.* to reject it"):
                await consumer.poll(20_000)
            assert [each.value for each in await consumer.poll(20_000)] == [3, 4, 5, 6, 7, 8, 9]

    run(main())


def test_what_cannot_be(tmp_path):
    with pytest.raises(ConfigurationError, match="group_id is missing"):
        oncelog.ShareConsumer("t")  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match="implicit, explicit"):
        oncelog.ShareConsumer("t", group_id="g", share_acknowledgement_mode="both")
    with pytest.raises(ConfigurationError, match=r"of the group.*configs set --group NAME share\.auto\.offset\.reset="):
        oncelog.ShareConsumer("t", group_id="g", auto_offset_reset="earliest")  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match=r"share\.isolation\.level="):
        oncelog.ShareConsumer.from_config({"group.id": "g", "isolation.level": "read_committed"}, "t")

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


def test_slow_work_is_said_in_time_and_what_would_lapse_is_given_back(tmp_path):
    async def main():
        async with World(tmp_path, record_lock_duration_ms="4000") as world:
            seen: list[int] = []
            async with world.consumer() as consumer:
                async for record in consumer:
                    seen.append(record.offset)
                    await asyncio.sleep(0.45)  # ten of them take longer than a lock lasts
                    if len(set(seen)) == 10:
                        break
                assert await consumer.commit() == {}
            assert sorted(seen) == list(range(10)), "each once"

    run(main())


def test_a_commit_that_is_cancelled_goes_on_and_the_next_waits_for_it(tmp_path):
    async def main():
        async with World(tmp_path) as world, FaultyProxy(world.broker.bootstrap_servers) as proxy:
            options = {"bootstrap_servers": proxy.bootstrap_servers, "max_poll_records": 4}
            async with world.consumer(share_acknowledgement_mode="explicit", **options) as consumer:
                for record in await consumer.poll(20_000):
                    consumer.acknowledge(record)
                proxy.delay("ShareAcknowledge", 0.3)
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(consumer.commit(), 0.02)
                assert await consumer.commit() == {}
                assert (await offsets(world.client))[0][2] == 6
                kept = await consumer.poll(20_000)
                assert [(each.offset, each.delivery_count) for each in kept] == [(n, 1) for n in range(4, 8)]
                for record in kept:
                    consumer.acknowledge(record)

    run(main())


def test_a_poll_takes_no_longer_than_it_may_where_a_broker_is_slow_to_take_what_was_said(tmp_path):
    async def main():
        async with World(tmp_path) as world, FaultyProxy(world.broker.bootstrap_servers) as proxy:
            options = {"bootstrap_servers": proxy.bootstrap_servers, "max_poll_records": 4}
            async with world.consumer(**options) as consumer:
                await consumer.poll(20_000)
                proxy.delay("ShareAcknowledge", 5.0)
                began_s = asyncio.get_running_loop().time()
                assert [each.offset for each in await consumer.poll(20)] == [4, 5, 6, 7]
                assert asyncio.get_running_loop().time() - began_s < 4.5
                assert await consumer.commit() == {}
                assert (await offsets(world.client))[0][2] == 2

    run(main())


def test_a_commit_waits_for_what_a_fetch_under_way_says(tmp_path):
    async def main():
        async with World(tmp_path) as world, FaultyProxy(world.broker.bootstrap_servers) as proxy:
            options = {"bootstrap_servers": proxy.bootstrap_servers}
            async with world.consumer(share_acknowledgement_mode="explicit", **options) as consumer:
                for record in await consumer.poll(20_000):
                    consumer.acknowledge(record)
                proxy.delay("ShareFetch", 0.3)
                assert await consumer.poll(20) == []
                assert await consumer.commit() == {}
                assert (await offsets(world.client))[0][2] == 0

    run(main())


def test_who_was_stopped_or_never_came_up_is_told_so_by_every_call(tmp_path):
    async def main():
        async with World(tmp_path) as world:
            consumer = world.consumer(share_acknowledgement_mode="explicit")
            async with consumer:
                (record, *_) = await consumer.poll(20_000)
            with pytest.raises(IllegalState, match="stopped"):
                consumer.acknowledge(record)
            with pytest.raises(IllegalState, match="stopped"):
                consumer.subscribe(["t"])
            nowhere = world.consumer(bootstrap_servers="127.0.0.1:1", default_api_timeout_ms=1, request_timeout_ms=1)
            with pytest.raises(RequestTimedOut):
                await nowhere.start()
            for call in (nowhere.poll, nowhere.commit, nowhere.__anext__):
                with pytest.raises(IllegalState, match="its start failed: make another"):
                    await call()
            await nowhere.stop()

    run(main())


def test_other_topics_are_read_when_a_member_subscribes_to_them(tmp_path):
    async def main():
        async with World(tmp_path) as world:
            await world.client.create("u")
            await world.client.produce("u", "other")
            async with world.consumer() as consumer:
                assert values(await consumer.poll(5_000)) == TEN
                consumer.subscribe(["u"])
                while values(await consumer.poll(5_000)) != ["other"]:
                    pass

    run(main())


def test_partitions_that_are_added_are_read(tmp_path):
    async def main():
        async with World(tmp_path) as world, world.consumer() as consumer:
            assert values(await consumer.poll(20_000)) == TEN
            async with world.admin() as admin:
                await admin.create_partitions({"t": 2})
            await world.client.produce("t", "there", partition=1)
            (record,) = await consumer.poll(20_000)
            assert (record.partition, record.value) == (1, b"there")

    run(main())


def test_an_error_without_a_name_is_fetched_over_and_what_is_refused_is_told(tmp_path, caplog):
    async def main():
        async with (
            World(tmp_path, record_lock_duration_ms="2000") as world,
            FaultyProxy(world.broker.bootstrap_servers) as proxy,
            world.consumer(bootstrap_servers=proxy.bootstrap_servers) as consumer,
        ):
            proxy.misreport("ShareFetch", ErrorCode.UNKNOWN_SERVER_ERROR)  # Apache Kafka's word for a deleted topic
            records = await consumer.poll(20_000)
            assert (values(records), records[0].delivery_count) == (TEN, 2), "behind the lock of what was lost"
            assert "it is fetched again: UNKNOWN_SERVER_ERROR" in caplog.text
            proxy.misreport("ShareFetch", ErrorCode.GROUP_AUTHORIZATION_FAILED)
            with pytest.raises(GroupAuthorization):
                await consumer.poll(20_000)

    run(main())


@pytest.mark.parametrize("api", ["ShareGroupHeartbeat", "ShareFetch"])
def test_who_was_refused_its_group_works_again_when_it_has_the_right(tmp_path, api):
    """The first heartbeat that was refused was the last one, and poll raised it for ever."""

    async def main():
        async with (
            World(tmp_path) as world,
            FaultyProxy(world.broker.bootstrap_servers) as proxy,
            world.consumer(bootstrap_servers=proxy.bootstrap_servers) as consumer,
        ):
            assert values(await consumer.poll(20_000)) == TEN
            assert await consumer.commit() == {}
            proxy.misreport(api, ErrorCode.GROUP_AUTHORIZATION_FAILED, count=3)
            for _ in range(3):
                with pytest.raises(GroupAuthorization):
                    await consumer.poll(20_000)
            await world.client.produce("t", "last")
            while True:
                with suppress(GroupAuthorization):
                    if values(await consumer.poll(20_000)) == ["last"]:
                        break

    run(main())


def test_what_came_while_the_application_worked_is_not_handed_out_when_its_lock_is_over(tmp_path):
    """shares 67: somebody else may have it by then, and have said that it is done."""

    async def main():
        async with (
            World(tmp_path, record_lock_duration_ms="1000") as world,
            FaultyProxy(world.broker.bootstrap_servers) as proxy,
            world.consumer(bootstrap_servers=proxy.bootstrap_servers) as consumer,
        ):
            proxy.delay("ShareFetch", 0.5)
            while not consumer._fetches:
                assert await consumer.poll(20) == []
            await asyncio.sleep(2.5)
            records = await consumer.poll(20_000)
            assert (values(records), {each.delivery_count for each in records}) == (TEN, {2})
            assert await consumer.commit() == {}

    run(main())


@pytest.mark.parametrize("mode", ["implicit", "explicit"])
def test_a_commit_tells_of_what_was_lost_with_its_session(tmp_path, mode):
    """Nothing was said of it to the broker, so others get it: the commit came back as if it were stored."""

    async def main():
        async with World(tmp_path) as world, world.consumer(share_acknowledgement_mode=mode) as consumer:
            records = await consumer.poll(20_000)
            for each in records if mode == "explicit" else ():
                consumer.acknowledge(each)
            consumer._sessions[1].give_up(Network("cut"))
            (error,) = (await consumer.commit()).values()
            assert isinstance(error, InvalidRecordState if mode == "implicit" else Network)
            assert await consumer.commit() == {}

    run(main())


def test_a_commit_tells_of_what_could_not_leave_as_no_connection_is_to_be_had(tmp_path):
    """(shares, seed 227: it was told to be stored, and came again)"""

    async def main():
        async with World(tmp_path) as world:
            consumer = world.consumer(reconnect_backoff_ms=10, reconnect_backoff_max_ms=10, request_timeout_ms=2000)
            await consumer.start()
            assert values(await consumer.poll(20_000)) == TEN
            await world.broker.stop()
            with suppress(KafkaError):
                await consumer.poll(100)
            assert [str(each) for each in await consumer.commit()] == ["t-0"]
            await consumer.stop(100)

    run(main())


VALUE, IS_CONTROL = (-2, 0x01), (-LAST_SIZE + 22, 0x20)


@pytest.mark.parametrize(("position", "bit"), [VALUE, IS_CONTROL], ids=["its value", "whether it is a marker"])
def test_a_damaged_batch_is_told_and_comes_again(tmp_path, position, bit):
    """shares 171: what looked like a marker was said to be nobody's, and was gone for the whole group."""

    async def main():
        async with World(tmp_path) as world:
            await world.client.produce("t", "last")
            (log,) = tmp_path.glob("**/t-0/*.log")
            whole = log.read_bytes()
            damaged = bytearray(whole)
            damaged[position] ^= bit
            log.write_bytes(damaged)
            async with world.consumer() as consumer:
                assert values(await consumer.poll(20_000)) == TEN, "what is good beside it is handed out first"
                with pytest.raises(CorruptRecord, match="t-0 at offset 10: the batch at offset 10 fails its checksum"):
                    await consumer.poll(20_000)
                log.write_bytes(whole)
                assert values(await consumer.poll(20_000)) == ["last"]
                assert await consumer.commit() == {}

    run(main())


def test_what_is_said_of_a_record_is_said_of_its_own_topic(tmp_path):
    async def main():
        async with World(tmp_path) as world, world.consumer(share_acknowledgement_mode="explicit") as consumer:
            (old, *rest) = await consumer.poll(20_000)
            for each in rest:
                consumer.acknowledge(each)
            assert await consumer.commit() == {}
            async with world.admin() as admin:
                await admin.delete_topics(["t"])
                await admin.create_topics({"t": 1})
            await world.client.produce("t", "new")
            consumer.acknowledge(old, "release")
            (new,) = await consumer.poll(20_000)
            assert (new.offset, new.value, new.topic_id != old.topic_id) == (0, b"new", True)
            with pytest.raises(IllegalState, match="not this consumer's"):
                consumer.acknowledge(old)
            consumer.acknowledge(new)
            await consumer.commit()

    run(main())


def test_a_poll_waits_where_what_was_fetched_ahead_is_lost(tmp_path):
    async def main():
        async with World(tmp_path) as world, FaultyProxy(world.broker.bootstrap_servers) as proxy:
            options = {"bootstrap_servers": proxy.bootstrap_servers, "max_poll_records": 4}
            async with world.consumer(**options) as consumer:
                assert values(await consumer.poll(20_000)) == TEN[:4]
                proxy.drop("ShareAcknowledge")  # with the six that were fetched ahead
                assert values(await consumer.poll(20_000)) == TEN[:4]
                assert [str(each) for each in await consumer.commit()] == ["t-0"]

    run(main())


def test_polls_that_do_not_wait_get_what_came_between_them(tmp_path):
    async def main():
        async with World(tmp_path) as world, world.consumer() as consumer:
            found: list[oncelog.ShareRecord] = []
            while not found:
                found = await consumer.poll(0)
                await asyncio.sleep(0.01)
            assert values(found) == TEN

    run(main())


def test_an_error_that_says_nothing_of_the_record_loses_none(tmp_path):
    async def main():
        is_down = True

        def asked_for(content: bytes) -> bytes:
            if content == b"2" and is_down:
                raise TimeoutError("the registry is down")
            return content

        async with World(tmp_path) as world, world.consumer(value_deserializer=asked_for) as consumer:
            assert values(await consumer.poll(20_000)) == TEN[:2]
            for _ in range(2):
                with pytest.raises(TimeoutError, match="down"):
                    await consumer.poll(20_000)
            is_down = False
            records = await consumer.poll(20_000)
            assert (values(records), records[0].delivery_count) == (TEN[2:], 1)

    run(main())


def test_names_that_no_topic_can_have_and_none_at_all_are_told(tmp_path):
    async def main():
        async with World(tmp_path) as world, world.consumer() as consumer:
            consumer.subscribe(["a b", "t"])
            with pytest.raises(InvalidTopic, match="'a b' cannot be read: a name has 1 to 249"):
                await consumer.poll(20_000)
            consumer.subscribe([])
            for call in (consumer.poll, consumer.__anext__):
                with pytest.raises(IllegalState, match="nothing to read: name topics, or subscribe"):
                    await call()
            with pytest.raises(IllegalState, match="another event loop"):
                await asyncio.to_thread(asyncio.run, subscribed(consumer))

    async def subscribed(consumer: oncelog.ShareConsumer) -> None:
        consumer.subscribe(["t"])

    run(main())


def test_who_polls_again_and_again_without_waiting_lets_the_loop_run(tmp_path):
    async def work():
        async with World(tmp_path) as world, world.consumer() as consumer:
            count = 0
            while count < 10:
                count += len(await consumer.poll(0))
            assert count == 10

    run(work())


def test_a_topic_that_does_not_exist_is_told_once(tmp_path, caplog):
    """A mistyped name looked like an empty queue."""

    async def main():
        async with World(tmp_path) as world:
            options = {"bootstrap_servers": world.broker.bootstrap_servers, "enable_metrics_push": False}
            async with oncelog.ShareConsumer("t", "nowhere", group_id="g", **options) as consumer:
                assert values(await consumer.poll(10_000)) == TEN
                for _ in range(3):
                    await consumer._cluster.refresh(("t", "nowhere"))

    with caplog.at_level(logging.WARNING, "oncelog.client"):
        run(main())
    told = [record.getMessage() for record in caplog.records if "nowhere" in record.getMessage()]
    assert told == ["topic 'nowhere' does not exist; it is read when somebody creates it"]
