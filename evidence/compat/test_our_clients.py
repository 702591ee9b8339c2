"""Our producer, consumer and admin, end to end: the same scenarios against oncelog and against Apache Kafka 4.3."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from evidence.compat.our_clients import SERVERS, World, eventually, run
from oncelog import Admin, Consumer, OffsetAndMetadata, PreparedTxnState, TopicPartition, errors
from oncelog.client.cluster.cluster import Cluster
from oncelog.client.config import AdminConfig
from oncelog.host.host import real_host
from oncelog.types import CoordinatorKey
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from oncelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.wire.record_batch import build_batch


@pytest.fixture(params=SERVERS)
def server(request):
    return request.param


CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent(server, codec):
    async def scenario(world: World) -> None:
        topic = await world.topic(3)
        async with world.producer(compression_type=codec) as producer:
            first = await producer.send_and_wait(topic, b"v", key=b"k", headers=[("h", b"1"), ("h", None)], partition=2)
            assert (first.topic, first.partition, first.offset) == (topic, 2, 0)
            await producer.send_and_wait(topic, None, key=b"k", partition=2, timestamp_ms=1_700_000_000_000)
        record, tombstone = await world.read_all(topic)
        assert (record.key, record.value, record.headers) == (b"k", b"v", (("h", b"1"), ("h", None)))
        assert (tombstone.value, tombstone.timestamp_ms, tombstone.headers) == (None, 1_700_000_000_000, ())

    run(server, scenario)


def test_idempotent_batches_keep_their_order(server):
    async def scenario(world: World) -> None:
        topic = await world.topic(2)
        async with world.producer(batch_size=200) as producer:
            sent = [await producer.send(topic, b"%d" % n, partition=n % 2) for n in range(2000)]
            await producer.flush()
            assert [delivery.result().offset for delivery in sent] == [n // 2 for n in range(2000)]
        records = await world.read_all(topic)
        for partition in (0, 1):
            assert [int(r.value) for r in records if r.partition == partition] == list(range(partition, 2000, 2))

    run(server, scenario)


def test_a_topic_is_created_when_it_is_written_to(server):
    async def scenario(world: World) -> None:
        async with world.producer() as producer:
            assert (await producer.send_and_wait(f"{world.name}-new", b"v")).offset == 0

    run(server, scenario)


def test_keys_go_where_java_puts_them(server):
    async def scenario(world: World) -> None:
        topic = await world.topic(7)
        async with world.producer() as producer:
            found = [(await producer.send_and_wait(topic, b"", key=key)).partition for key in (b"21", b"foobar", b"")]
        assert found == [(-973932308 & 0x7FFFFFFF) % 7, (-790332482 & 0x7FFFFFFF) % 7, (275646681 & 0x7FFFFFFF) % 7]

    run(server, scenario)


def test_commit_shows_records_and_abort_hides_them(server):
    async def scenario(world: World) -> None:
        topic = await world.topic(2)
        async with world.producer("p") as producer:
            for n in range(6):
                producer.begin_transaction()
                for partition in (0, 1):
                    await producer.send(topic, b"%d" % n, partition=partition)
                await producer.flush()
                await (producer.abort_transaction() if n % 3 == 1 else producer.commit_transaction())
        assert sorted(await world.values(topic)) == [b"0", b"0", b"2", b"2", b"3", b"3", b"5", b"5"]
        assert len(await world.values(topic, "read_uncommitted")) == 12

    run(server, scenario)


def test_interleaved_transactions_are_told_apart(server):
    async def scenario(world: World) -> None:
        topic = await world.topic()
        async with world.producer("a") as a, world.producer("b") as b, world.producer() as plain:
            for n in range(5):
                a.begin_transaction()
                b.begin_transaction()
                for part in (b"1", b"2"):
                    await a.send_and_wait(topic, b"a%d-" % n + part)
                    await b.send_and_wait(topic, b"b%d-" % n + part)
                    await plain.send_and_wait(topic, b"p%d-" % n + part)
                await (a.commit_transaction() if n % 2 else a.abort_transaction())
                await (b.abort_transaction() if n % 2 else b.commit_transaction())
        seen = await world.values(topic)
        assert seen == [
            b"%b%d-%b" % (who, n, part)
            for n in range(5)
            for part in (b"1", b"2")
            for who in ((b"a", b"p") if n % 2 else (b"b", b"p"))
        ]

    run(server, scenario)


def test_an_open_transaction_holds_back_what_comes_after(server):
    async def scenario(world: World) -> None:
        topic = await world.topic()
        async with world.producer("p") as producer, world.producer() as plain:
            await plain.send_and_wait(topic, b"before")
            producer.begin_transaction()
            await producer.send_and_wait(topic, b"open")
            await plain.send_and_wait(topic, b"after")
            assert await world.values(topic, settled=False) == [b"before"]
            assert await world.values(topic, "read_uncommitted", settled=False) == [b"before", b"open", b"after"]
            async with world.consumer(topic, fetch_max_wait_ms=25_000) as consumer:
                assert [r.value for r in await consumer.poll(20_000)] == [b"before"]
                waiting = asyncio.get_running_loop().time()
                await producer.commit_transaction()
                assert [r.value for r in await consumer.poll(60_000)] == [b"open", b"after"]
                assert asyncio.get_running_loop().time() - waiting < 20  # a parked fetch wakes when the LSO moves

    run(server, scenario)


def test_a_block_that_raises_aborts(server):
    async def scenario(world: World) -> None:
        topic = await world.topic()
        async with world.producer("p") as producer:
            with pytest.raises(ZeroDivisionError):
                async with producer.transaction():
                    await producer.send_and_wait(topic, b"no")
                    raise ZeroDivisionError
            async with producer.transaction():
                await producer.send(topic, b"yes")
        assert await world.values(topic) == [b"yes"]

    run(server, scenario)


def test_stop_aborts_what_is_open(server):
    async def scenario(world: World) -> None:
        topic = await world.topic()
        async with world.producer("p") as producer:
            producer.begin_transaction()
            await producer.send_and_wait(topic, b"no")
        assert await world.values(topic) == []
        async with world.admin() as admin:
            (described,) = (await admin.describe_transactions([f"{world.name}-p"])).values()
            assert described.state in ("PrepareAbort", "CompleteAbort")

    run(server, scenario)


def test_a_newer_instance_fences_the_older(server):
    async def scenario(world: World) -> None:
        topic = await world.topic()
        async with world.producer("p") as older:
            older.begin_transaction()
            await older.send_and_wait(topic, b"older")
            async with world.producer("p") as newer:
                with pytest.raises(errors.ProducerFenced):
                    await older.commit_transaction()
                with pytest.raises(errors.ProducerFenced):
                    older.begin_transaction()
                async with newer.transaction():
                    await newer.send(topic, b"newer")
        assert await world.values(topic) == [b"newer"]

    run(server, scenario)


def test_a_transaction_that_timed_out_is_aborted_and_the_producer_goes_on(server):
    async def scenario(world: World) -> None:
        topic = await world.topic()
        async with world.producer("p", transaction_timeout_ms=500) as producer, world.admin() as admin:
            producer.begin_transaction()
            await producer.send_and_wait(topic, b"late")
            described = await admin.describe_transactions([f"{world.name}-p"])
            while described.popitem()[1].state != "CompleteAbort":
                await asyncio.sleep(0.2)
                described = await admin.describe_transactions([f"{world.name}-p"])
            with pytest.raises(errors.KafkaError) as failed:
                await producer.send_and_wait(topic, b"later")
            assert not failed.value.fatal
            with pytest.raises(errors.KafkaError):
                await producer.commit_transaction()
            await producer.abort_transaction()
            while True:
                try:
                    async with producer.transaction():
                        await producer.send(topic, b"again")
                    break
                except errors.KafkaError as error:  # on a busy machine half a second may be over once more
                    if error.fatal:
                        raise
        assert await world.values(topic) == [b"again"]

    run(server, scenario, **{"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"})


def test_empty_transactions_cost_nothing(server):
    async def scenario(world: World) -> None:
        async with world.producer("p") as producer, world.admin() as admin:
            for _ in range(3):
                async with producer.transaction():
                    pass
            (described,) = (await admin.describe_transactions([f"{world.name}-p"])).values()
            assert (described.state, described.producer_epoch) == ("Empty", 0)

    run(server, scenario)


def test_each_transaction_has_its_own_epoch(server):
    """KIP-890: under TV2 every EndTxn brings the next epoch."""

    async def scenario(world: World) -> None:
        topic = await world.topic()
        async with world.producer("p") as producer, world.admin() as admin:
            for n in range(4):
                async with producer.transaction():
                    await producer.send(topic, b"%d" % n)
            (described,) = (await admin.describe_transactions([f"{world.name}-p"])).values()
            assert described.producer_epoch == 4
        assert await world.values(topic) == [b"0", b"1", b"2", b"3"]

    run(server, scenario)


@contextlib.asynccontextmanager
async def transaction_version_1(admin: Admin) -> AsyncIterator[None]:
    """The older protocol, until the end of the block; the broker knows it when the block begins, and that it is over."""
    feature = "transaction.version"
    before = (await admin.describe_features()).finalized[feature]

    async def change(level: int, **how: str) -> None:
        async def broker_knows() -> bool:  # its controller answers before it has heard
            return (await admin.describe_features()).finalized[feature] == level

        await admin.update_features({feature: level}, **how)
        await eventually(broker_knows)

    await change(1, upgrade_type="safe_downgrade")
    try:
        yield
    finally:
        await change(before)


def test_the_older_protocol_of_transaction_version_1(server):
    async def scenario(world: World) -> None:
        async with world.admin() as admin, transaction_version_1(admin):
            topic = await world.topic(3)
            async with world.producer("p") as producer:
                for n in range(6):
                    producer.begin_transaction()
                    for partition in range(3):
                        await producer.send(topic, b"%d" % n, partition=partition)
                    await producer.send_offsets_to_transaction(
                        {TopicPartition(topic, 0): OffsetAndMetadata(n)}, f"{world.name}-group"
                    )
                    await producer.flush()
                    await (producer.abort_transaction() if n == 2 else producer.commit_transaction())
                (described,) = (await admin.describe_transactions([f"{world.name}-p"])).values()
                assert described.producer_epoch == 0  # TV1 does not bump
                stored = await admin.list_consumer_group_offsets(
                    f"{world.name}-group", [TopicPartition(topic, 0)], require_stable=True
                )
                assert stored == {TopicPartition(topic, 0): OffsetAndMetadata(5)}
            values = await world.values(topic)
            assert sorted(values) == sorted([b"0", b"1", b"3", b"4", b"5"] * 3)

    run(server, scenario)


def test_offsets_follow_their_transaction(server):
    async def scenario(world: World) -> None:
        topic = await world.topic()
        where, group = TopicPartition(topic, 0), f"{world.name}-group"
        async with world.producer("p") as producer, world.admin() as admin:
            async with producer.transaction():
                await producer.send_offsets_to_transaction({where: OffsetAndMetadata(5, "note")}, group)
            stored = await admin.list_consumer_group_offsets(group, [where], require_stable=True)
            assert stored == {where: OffsetAndMetadata(5, "note")}
            producer.begin_transaction()
            await producer.send_offsets_to_transaction({where: 9}, group)
            await producer.abort_transaction()
            stored = await admin.list_consumer_group_offsets(group, [where], require_stable=True)
            assert stored[where].offset == 5

    run(server, scenario)


def test_consume_transform_produce_is_exactly_once_over_a_crash(server):
    async def scenario(world: World) -> None:
        source, sink = await world.topic(2, "in"), await world.topic(1, "out")
        async with world.producer() as plain:
            for n in range(200):
                await plain.send(source, b"%d" % n, partition=n % 2)

        async def life(transactions: int, *, dies: bool) -> None:
            group = {"group_id": f"{world.name}-g", "enable_auto_commit": False, "max_poll_records": 20}
            async with world.producer("p") as producer, world.consumer(source, **group) as consumer:
                for n in range(transactions):
                    records = await consumer.poll(500)
                    if not records:
                        continue
                    producer.begin_transaction()
                    for record in records:
                        await producer.send(sink, b"out-" + record.value)
                    await producer.send_offsets_to_transaction(consumer.current_positions(), consumer.group_metadata())
                    if dies and n == transactions - 1:
                        return  # stop() aborts
                    await producer.commit_transaction()

        await life(4, dies=True)
        while len(await world.values(sink)) < 200:
            await life(4, dies=False)
        assert sorted(await world.values(sink)) == sorted(b"out-%d" % n for n in range(200))

    run(server, scenario)


def test_a_member_of_an_older_generation_cannot_commit_in_a_transaction(server):
    async def scenario(world: World) -> None:
        topic = await world.topic()
        where, group_id = TopicPartition(topic, 0), f"{world.name}-g"
        group = {"group_id": group_id, "heartbeat_interval_ms": 100}
        async with world.producer("p") as producer, world.consumer(topic, **group) as consumer:
            while not consumer.assignment():
                await consumer.poll(100)
            stale = consumer.group_metadata()
            await consumer.stop()
            async with world.consumer(topic, **group) as other:
                while not other.assignment():
                    await other.poll(100)
                producer.begin_transaction()
                with pytest.raises((errors.UnknownMemberId, errors.IllegalGeneration)):
                    await producer.send_offsets_to_transaction({where: 1}, stale)
                await producer.abort_transaction()
                async with producer.transaction():
                    await producer.send_offsets_to_transaction({where: 2}, other.group_metadata())

    run(server, scenario)


async def commit(consumer) -> None:
    """In the next generation where this one has just ended; nothing is left to be read meanwhile."""
    while True:
        try:
            return await consumer.commit()
        except (errors.IllegalGeneration, errors.RebalanceInProgress):
            assert await consumer.poll(100) == []


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky", "roundrobin"])
def test_a_group_shares_partitions_and_takes_over(server, strategy):
    async def scenario(world: World) -> None:
        topic = await world.topic(4)
        group = {
            "group_id": f"{world.name}-g",
            "heartbeat_interval_ms": 100,
            "partition_assignment_strategy": strategy,
        }

        async def until(condition, *consumers) -> list:
            records = []
            while not condition():
                for found in await asyncio.gather(*(consumer.poll(200) for consumer in consumers)):
                    records += found
            return records

        async with world.consumer(topic, **group) as a:
            await until(lambda: len(a.assignment()) == 4, a)
            async with world.consumer(topic, **group) as b:
                await until(lambda: len(a.assignment()) == 2 and len(b.assignment()) == 2, a, b)
                assert not a.assignment() & b.assignment()
                async with world.producer() as producer:
                    for n in range(40):
                        await producer.send(topic, b"%d" % n, partition=n % 4)
                seen: list = []
                while len(seen) < 40:
                    for found in await asyncio.gather(a.poll(200), b.poll(200)):
                        seen += found
                assert sorted(int(r.value) for r in seen) == list(range(40))
            await until(lambda: len(a.assignment()) == 4, a)
            await commit(a)
            assert await a.poll(300) == []
            assert sum(at.offset for at in (await a.committed(a.assignment())).values()) == 40

    run(server, scenario)


def test_positions(server):
    async def scenario(world: World) -> None:
        topic = await world.topic()
        where = TopicPartition(topic, 0)
        async with world.producer() as producer:
            for n in range(10):
                await producer.send_and_wait(topic, b"%d" % n, timestamp_ms=1_700_000_000_000 + n)
        async with world.consumer(auto_offset_reset="none") as consumer:
            consumer.assign([where])
            with pytest.raises(errors.OffsetOutOfRange):
                await consumer.poll(20_000)
            consumer.seek(where, 7)
            assert [r.value for r in await consumer.poll(20_000)] == [b"7", b"8", b"9"]
            consumer.seek(where, 3)
            assert [r.value for r in await consumer.poll(20_000, max_records=2)] == [b"3", b"4"]
            assert await consumer.position(where) == 5
            consumer.pause(where)
            assert (await consumer.poll(300), consumer.paused()) == ([], {where})
            consumer.resume(where)
            assert (await consumer.poll(20_000))[0].value == b"5"
            await consumer.seek_to_beginning(where)
            assert (await consumer.poll(20_000, max_records=1))[0].value == b"0"
            await consumer.seek_to_end()
            assert await consumer.position(where) == 10
            assert await consumer.beginning_offsets([where]) == {where: 0}
            assert await consumer.end_offsets([where]) == {where: 10}
            at = await consumer.offsets_for_times({where: 1_700_000_000_004})
            assert at[where] is not None
            assert at[where].offset == 4
            assert await consumer.offsets_for_times({where: 1_900_000_000_000}) == {where: None}
            consumer.seek(where, 99)
            with pytest.raises(errors.OffsetOutOfRange):
                await consumer.poll(20_000)

    run(server, scenario)


def test_iteration_commits_only_what_was_handled(server):
    async def scenario(world: World) -> None:
        topic = await world.topic()
        where = TopicPartition(topic, 0)
        async with world.producer() as producer:
            for n in range(10):
                await producer.send(topic, b"%d" % n)
        async with world.consumer(topic, group_id=f"{world.name}-g", auto_commit_interval_ms=1) as consumer:
            async for record in consumer:
                if record.value == b"4":
                    await asyncio.sleep(0.01)
                    break
            assert (await consumer.committed([where])).get(where, OffsetAndMetadata(0)).offset <= 4
            await consumer.commit()
            assert (await consumer.committed([where]))[where].offset == 5

    run(server, scenario)


def test_arrow_in_and_out(server):
    pa = pytest.importorskip("pyarrow")

    async def scenario(world: World) -> None:
        topic = await world.topic(3)
        rows = pa.record_batch(
            {
                "key": pa.array([b"%d" % (n % 50) for n in range(5000)] + [None]),
                "value": pa.array([b"value %d" % n for n in range(5000)] + [None]),
            }
        )
        async with world.producer("p", compression_type="zstd") as producer:
            async with producer.transaction():
                await producer.send_arrow(topic, rows)
            producer.begin_transaction()
            await producer.send_arrow(topic, rows)
            await producer.flush()
            await producer.abort_transaction()
        found = []
        async with world.consumer(topic) as consumer:
            while sum(batch.num_rows for batch in found) < 5001:
                found.append(await consumer.poll_arrow(max_records=1000))
                assert found[-1].num_rows <= 1000
        table = pa.Table.from_batches(found)
        assert table.column_names[:5] == ["key", "value", "topic", "partition", "offset"]
        assert sorted(v for v in table["value"].to_pylist() if v) == sorted(b"value %d" % n for n in range(5000))
        by_key: dict = {}
        for key, partition in zip(table["key"].to_pylist(), table["partition"].to_pylist(), strict=True):
            by_key.setdefault(key, set()).add(partition)
        assert all(len(partitions) == 1 for partitions in by_key.values())
        assert len(await world.read_all(topic)) == 5001

    run(server, scenario)


def test_a_detached_transaction_is_ended_by_another_process(server):
    """What Spark's *resumed* backend does: commit with the recorded producer id and epoch, any number of times."""

    async def scenario(world: World) -> None:
        topic = await world.topic()
        transactional_id = f"{world.name}-p"
        async with world.producer("p") as producer:
            producer.begin_transaction()
            await producer.send(topic, b"kept")
            state = PreparedTxnState(str(await producer.detach_transaction()))
            with pytest.raises(errors.IllegalState):
                await producer.send(topic, b"too late")
        assert await world.values(topic, settled=False) == []
        async with world.admin() as admin:
            first = await admin.end_transaction(transactional_id, state, commit=True)
            assert first == await admin.end_transaction(transactional_id, state, commit=True)
            assert first.producer_epoch == state.producer_epoch + 1
            with pytest.raises(errors.InvalidTxnState):
                await admin.end_transaction(transactional_id, state, commit=False)
        assert await world.values(topic) == [b"kept"]

    run(server, scenario)


def test_force_terminate_ends_an_open_transaction(server):
    async def scenario(world: World) -> None:
        topic = await world.topic()
        async with world.producer("p") as producer, world.admin() as admin:
            producer.begin_transaction()
            await producer.send_and_wait(topic, b"no")
            listed = await admin.list_transactions(states=["Ongoing"])
            assert f"{world.name}-p" in [each.transactional_id for each in listed]
            await admin.force_terminate_transaction(f"{world.name}-p")
            with pytest.raises(errors.ProducerFenced):
                await producer.commit_transaction()
            with pytest.raises(errors.TransactionalIdNotFound):
                await admin.force_terminate_transaction(f"{world.name}-nobody")
        assert await world.values(topic) == []

    run(server, scenario)


def test_the_tools_do_not_tear_what_its_coordinator_owns(server):
    async def scenario(world: World) -> None:
        topic = await world.topic()
        async with world.producer("p") as producer, world.admin() as admin:
            producer.begin_transaction()
            sent = await producer.send_and_wait(topic, b"yes")
            where = sent.topic_partition
            (described,) = (await admin.describe_producers([where]))[where]
            assert described.transaction_start_offset == sent.offset
            assert await admin.find_hanging_transactions(topic=topic, max_transaction_timeout_ms=-60000) == []
            with pytest.raises(errors.IllegalState, match="belongs to transactional id"):
                await admin.abort_transaction(where, start_offset=sent.offset)
            with pytest.raises(errors.InvalidTxnState):
                await admin.abort_transaction(where, start_offset=sent.offset + 1)
            await producer.commit_transaction()
        assert await world.values(topic) == [b"yes"]

    run(server, scenario)


async def hang(world: World, topic: str) -> TopicPartition:
    """Leave a transaction on the partition that no coordinator knows, as old clients could (before KIP-890)."""
    cluster = Cluster(AdminConfig.of({"bootstrap_servers": world.bootstrap}), real_host(), lambda _: None)
    await cluster.start()
    try:
        key = CoordinatorKey(1, f"{world.name}-hung")
        init = InitProducerIdRequest(transactional_id=key.key, transaction_timeout_ms=60000)
        got = await cluster.retry("init", lambda _: cluster.ask_coordinator(key, init))
        while got.error_code:
            got = await cluster.retry("init", lambda _: cluster.ask_coordinator(key, init))
        batch = build_batch(
            [(real_host().clock.now_ms() - 3_600_000, None, b"hung", ())],
            producer_id=got.producer_id,
            producer_epoch=got.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])]
        request = ProduceRequest(transactional_id=key.key, acks=-1, timeout_ms=5000, topic_data=data)
        await cluster.refresh((topic,))
        response = await cluster.request(await cluster.leader(TopicPartition(topic, 0)), request, version_max=11)
        assert response.responses[0].partition_responses[0].error_code == 0
    finally:
        await cluster.close()
    return TopicPartition(topic, 0)


def test_hanging_transactions_are_found_and_aborted(server):
    """KIP-664, from the frozen reader to the marker that frees it."""

    async def scenario(world: World) -> None:
        topic = await world.topic()
        async with world.admin() as admin:
            await admin.alter_configs({("broker", ""): {"transaction.partition.verification.enable": "false"}})
            try:
                await asyncio.sleep(0.3)
                where = await hang(world, topic)
            finally:
                await admin.alter_configs({("broker", ""): {"transaction.partition.verification.enable": None}})
            async with world.producer() as plain:
                await plain.send_and_wait(topic, b"behind")
            assert await world.values(topic, settled=False) == []
            (found,) = await admin.find_hanging_transactions(topic=topic)
            assert (found.topic_partition, found.start_offset, found.transactional_id) == (
                where,
                0,
                f"{world.name}-hung",
            )
            assert "does not include this partition" in found.reason
            with pytest.raises(errors.InvalidTxnState):
                await admin.abort_transaction(where, start_offset=1)
            await admin.abort_transaction(where, start_offset=found.start_offset)
            assert await world.values(topic) == [b"behind"]
            assert await admin.find_hanging_transactions(topic=topic) == []

    run(server, scenario)


def test_a_producer_moves_to_the_newer_protocol_between_transactions(server):
    """KAFKA-18227: the epoch that the old protocol used is fenced when a reconnected producer sees level 2."""

    async def scenario(world: World) -> None:
        topic = await world.topic()
        async with world.admin() as admin, world.producer("p") as producer, contextlib.AsyncExitStack() as stack:
            async with transaction_version_1(admin):
                old = await stack.enter_async_context(world.producer("q"))
                async with old.transaction():
                    await old.send(topic, b"old")
            for connection in list(old._cluster._connections.values()):
                (await connection).close()
            await old._cluster.refresh((topic,))
            for n in range(3):
                async with old.transaction():
                    await old.send(topic, b"%d" % n)
            (described,) = (await admin.describe_transactions([f"{world.name}-q"])).values()
            assert described.producer_epoch >= 3
            async with producer.transaction():
                await producer.send(topic, b"new")
        assert await world.values(topic) == [b"old", b"0", b"1", b"2", b"new"]

    run(server, scenario)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_topic_that_is_made_again_under_its_group_is_read_from_its_beginning(server, protocol):
    async def scenario(world: World) -> None:
        topic = await world.topic()
        where, wanted = TopicPartition(topic, 0), [b"new %d" % n for n in range(5)]
        options = {"group_id": world.name, "group_protocol": protocol, "metadata_max_age_ms": 500}

        async def read(member: Consumer, count: int) -> list[bytes | None]:
            found: list[bytes | None] = []
            async with asyncio.timeout(60):
                while len(found) < count:
                    found += [record.value for record in await member.poll(timeout_ms=200)]
            return found

        async with world.admin() as admin, world.producer() as producer:

            async def is_made() -> bool:
                try:
                    await admin.create_topics([topic])
                except errors.TopicExists:  # Apache Kafka's is not gone yet
                    return False
                return True

            for _ in range(3):
                await producer.send_and_wait(topic, b"old")
            async with world.consumer(topic, **options) as member:
                assert await read(member, 3) == [b"old"] * 3
                member.pause(where)  # so that it does not look whether the topic is another one
                await admin.delete_topics([topic])
                await eventually(is_made)
                for value in wanted:
                    await producer.send_and_wait(topic, value)
            async with world.consumer(topic, **options) as member:
                assert await read(member, 5) == wanted

    run(server, scenario)


def test_admin_of_topics_configs_and_groups(server):
    async def scenario(world: World) -> None:
        topic = await world.topic(1, **{"cleanup.policy": "compact"})
        async with world.admin() as admin:
            with pytest.raises(errors.TopicExists):
                await admin.create_topics([topic])
            await admin.create_partitions({topic: 3})

            async def has_three_partitions() -> bool:
                return sorted((await admin.describe_topics([topic]))[topic].partitions) == [0, 1, 2]

            async def has_new_configs() -> bool:
                ((_, configs),) = (await admin.describe_configs([("topic", topic)])).items()
                return (configs["cleanup.policy"].value, configs["max.message.bytes"].value) == ("delete", "5000")

            await eventually(has_three_partitions)
            await admin.alter_configs({("topic", topic): {"cleanup.policy": None, "max.message.bytes": "5000"}})
            await eventually(has_new_configs)
            async with world.producer() as producer:
                with pytest.raises(errors.RecordTooLarge):
                    await producer.send_and_wait(topic, b"x" * 6000)
                await producer.send_and_wait(topic, b"x" * 4000, partition=0)
            where = TopicPartition(topic, 0)
            assert (await admin.list_offsets({where: "latest"}))[where].offset == 1
            assert await admin.delete_records({where: -1}) == {where: 1}
            assert (await admin.list_offsets({where: "earliest"}))[where].offset == 1
            await admin.alter_consumer_group_offsets(f"{world.name}-g", {where: 1})
            assert f"{world.name}-g" in [group.group_id for group in await admin.list_groups()]
            assert (await admin.describe_groups([f"{world.name}-g"]))[f"{world.name}-g"].state == "Empty"
            await admin.delete_groups([f"{world.name}-g"])
            await admin.delete_topics([topic])

            async def is_gone() -> bool:
                return topic not in await admin.list_topics()

            await eventually(is_gone)
            with pytest.raises(errors.UnknownTopicOrPartition):
                await admin.describe_topics([topic])

    run(server, scenario)


# -- two-phase commit: oncelog only, as no released Kafka has it


def test_a_prepared_transaction_survives_its_producer():
    async def scenario(world: World) -> None:
        topic = await world.topic()
        two_phase = {"transaction_two_phase_commit_enable": True}
        async with world.producer("p", **two_phase) as producer:
            producer.begin_transaction()
            await producer.send(topic, b"kept")
            stored = str(await producer.prepare_transaction())
            with pytest.raises(errors.IllegalState):
                await producer.send(topic, b"no")
        assert await world.values(topic, settled=False) == []
        async with world.producer("p", **two_phase) as producer:
            assert str(producer.prepared_state) == stored
            with pytest.raises(errors.IllegalState):
                producer.begin_transaction()
            await producer.complete_transaction(PreparedTxnState(stored))
            async with producer.transaction():
                await producer.send(topic, b"next")
        assert await world.values(topic) == [b"kept", b"next"]

    run("oncelog", scenario)


def test_a_transaction_that_was_not_the_decided_one_is_aborted():
    async def scenario(world: World) -> None:
        topic = await world.topic()
        two_phase = {"transaction_two_phase_commit_enable": True}
        async with world.producer("p", **two_phase) as producer:
            producer.begin_transaction()
            await producer.send(topic, b"decided")
            stored = await producer.prepare_transaction()
            await producer.complete_transaction(stored)
            producer.begin_transaction()
            await producer.send(topic, b"prepared, not decided")
            await producer.prepare_transaction()
        async with world.producer("p", **two_phase) as producer:
            await producer.complete_transaction(stored)
        async with world.producer("p", **two_phase) as producer:
            await producer.complete_transaction(stored)  # nothing was kept: nothing to do
        assert await world.values(topic) == [b"decided"]

    run("oncelog", scenario)


def test_empty_prepared_transactions_do_not_lend_their_state_to_the_next():
    """A database that holds the state of an empty transaction must not decide about a later one."""

    async def scenario(world: World) -> None:
        topic = await world.topic()
        two_phase = {"transaction_two_phase_commit_enable": True}
        async with world.producer("p", **two_phase) as producer:
            producer.begin_transaction()
            stored = await producer.prepare_transaction()
            await producer.complete_transaction(stored)
            producer.begin_transaction()
            await producer.send(topic, b"undecided")
            assert await producer.prepare_transaction() != stored
        async with world.producer("p", **two_phase) as producer:
            await producer.complete_transaction(stored)
        assert await world.values(topic) == []

    run("oncelog", scenario)


def test_two_phase_commit_needs_the_brokers_consent():
    async def scenario(world: World) -> None:
        with pytest.raises(errors.TransactionalIdAuthorization):
            async with world.producer("p", transaction_two_phase_commit_enable=True):
                pass

    run("oncelog", scenario, **{"transaction.two.phase.commit.enable": "false"})


def test_an_ordinary_transaction_can_be_kept_too():
    """KIP-939: keepPreparedTxn works without two-phase commit; the timeout runs on."""

    async def scenario(world: World) -> None:
        topic = await world.topic()
        async with world.producer("p") as producer:
            producer.begin_transaction()
            await producer.send(topic, b"kept")
            state = await producer.detach_transaction()
        async with world.producer("p", keep_prepared_txn=True) as producer:
            assert producer.prepared_state == state
            await producer.complete_transaction(state)
        assert await world.values(topic) == [b"kept"]

    run("oncelog", scenario)
