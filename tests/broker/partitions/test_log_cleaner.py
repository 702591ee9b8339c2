"""Compaction in a running broker: what readers see, what coordinators load, what is left on the disk."""

from __future__ import annotations

import asyncio
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
from evidence.world.broker import Client, broker_and_client, eventually, fetch_request, run, until
from evidence.world.requests import visible_records

from oncelog.broker.broker import Broker
from oncelog.broker.partitions import partition_files
from oncelog.broker.partitions.partitions import WAY_OUT
from oncelog.errors import DamagedLog, ErrorCode, StorageError
from oncelog.host.files import RealFiles
from oncelog.log import cleaner as log_cleaner
from oncelog.log.failed_sync import MARKER
from oncelog.types import TopicPartition
from oncelog.wire.messages.delete_topics import DeleteTopicsRequest
from oncelog.wire.messages.fetch import FetchRequest
from oncelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog.wire.record_batch import batches, build_batch

E = ErrorCode
TOPIC, SET = 2, 0
T0 = TopicPartition("t", 0)
EAGER = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.0", "file_delete_delay_ms": "0"}
QUIET = {"log_cleaner_backoff_ms": "600000"}


async def put(client: Client, topic: str, *rows, producer=(-1, -1), sequence=-1, name=None) -> int:
    """One batch of (key, value); its first offset."""
    stamp_ms = time.time_ns() // 1_000_000
    batch = build_batch(
        [(stamp_ms, key.encode(), None if value is None else value.encode(), ()) for key, value in rows],
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        is_transactional=name is not None,
    )
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    request = ProduceRequest(transactional_id=name, acks=-1, timeout_ms=30_000, topic_data=[data])
    answer = (await client.call(request, 12)).responses[0].partition_responses[0]
    assert answer.error_code == E.NONE, E(answer.error_code).name
    return answer.base_offset


async def table(client: Client, topic: str = "t") -> dict[str, str]:
    """What a read_committed reader makes of the topic."""
    found: dict[bytes, bytes | None] = {}
    offset = 0
    while True:
        request: FetchRequest = fetch_request(topic, offset, committed=True)
        data = (await client.call(request, 12)).responses[0].partitions[0]
        assert data.error_code == E.NONE
        if not data.records:
            return {key.decode(): value.decode() for key, value in found.items() if value is not None}
        for record in visible_records(data.records, data.aborted_transactions or []):
            found[record.key] = record.value
        offset = list(batches(data.records))[-1].end_offset


def small_segments(broker, name: TopicPartition, size_bytes: int = 600) -> None:
    """Segments smaller than any topic may ask for, so that a few records fill several."""
    log = broker.partitions.get(name).log
    log.config = replace(log.config, segment_bytes=size_bytes)


async def clean_dirtiest(broker: Broker) -> bool:
    """As the cleaner does now and then; what was appended is in the data files before, as it is a second later."""
    await broker.flusher.sync_all()
    return await broker.log_cleaner.clean_dirtiest()


async def fill(client: Client) -> tuple[dict[str, str], tuple[int, int]]:
    """Transactions committed and aborted, plain records, a tombstone; the table that they make."""
    expected: dict[str, str] = {}
    producer = await client.init("x")
    for index in range(12):
        rows = [(f"k{index % 4}", f"{index}" * 20), ("often", str(index))]
        await put(client, "t", *rows, producer=producer, sequence=0, name="x")
        commit = index % 3 != 0
        reply = await client.end("x", producer, commit=commit)
        producer = (reply.producer_id, reply.producer_epoch)
        if commit:
            expected |= dict(rows)
        await eventually(lambda: ended(client))
        await put(client, "t", ("plain", str(index)))
        expected["plain"] = str(index)
    await put(client, "t", ("k1", None))
    del expected["k1"]
    return expected, producer


async def ended(client: Client) -> bool:
    return (await client.state("x")).startswith("Complete")


def test_a_compacted_topic_is_cleaned_and_reads_the_same(tmp_path):
    async def work():
        async with broker_and_client(tmp_path / "a", **QUIET) as (broker, client):
            await client.create("t", **EAGER)
            small_segments(broker, T0)
            expected, producer = await fill(client)
            log = broker.partitions.get(T0).log
            before, count = log.size_bytes, len(log.segments)
            assert count > 4
            assert await table(client) == expected
            while await clean_dirtiest(broker):
                assert await table(client) == expected
            assert log.size_bytes < before
            assert len(log.segments) < count
            assert broker.metrics.count("log_cleanings") >= 1
            await until(lambda: not list((tmp_path / "a" / "t-0").glob("*.deleted")))
            await put(client, "t", ("k0", "after"), producer=producer, sequence=0, name="x")
            await client.end("x", producer, commit=True)
            expected["k0"] = "after"
            await eventually(lambda: reads(client, expected))
            shutil.copytree(tmp_path / "a", tmp_path / "killed")
        for directory in ("a", "killed"):
            async with broker_and_client(tmp_path / directory, **QUIET) as (broker, client):
                assert await table(client) == expected
                assert broker.partitions.cleaned_offset(T0)

    run(work())


async def reads(client: Client, expected: dict[str, str]) -> bool:
    return await table(client) == expected


def test_the_cleaner_runs_by_itself_and_obeys_changed_configs(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, log_cleaner_backoff_ms="5") as (broker, client):
            await client.create("t", **EAGER | {"min_cleanable_dirty_ratio": "1.0"})
            small_segments(broker, T0)
            expected, _ = await fill(client)
            assert broker.partitions.cleaned_offset(T0) is None
            config = AlterableConfig(name="min.cleanable.dirty.ratio", config_operation=SET, value="0.0")
            resource = AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[config])
            reply = await client.call(IncrementalAlterConfigsRequest(resources=[resource]))
            assert reply.responses[0].error_code == E.NONE
            await until(lambda: (broker.partitions.cleaned_offset(T0) or 0) > 0)
            assert await table(client) == expected

    run(work())


def test_a_topic_deleted_while_it_is_cleaned_is_gone(tmp_path, monkeypatch):
    async def work():
        async with broker_and_client(tmp_path, **QUIET) as (broker, client):
            await client.create("t", **EAGER)
            small_segments(broker, T0)
            await fill(client)
            cleaning = asyncio.get_running_loop().create_task(clean_dirtiest(broker))
            await asyncio.sleep(0)
            await client.call(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
            await client.create("t", **EAGER)
            await put(client, "t", ("new", "1"))
            await cleaning
            assert await table(client) == {"new": "1"}
            assert broker.partitions.cleaned_offset(T0) in (None, 0)

    run(work())


def test_damaged_data_is_not_cleaned_and_said_once_with_the_way_out(tmp_path, monkeypatch, caplog):
    async def work():
        async with broker_and_client(tmp_path, **QUIET) as (broker, client):
            await client.create("t", **EAGER)
            small_segments(broker, T0)
            expected, _ = await fill(client)

            def damaged(self, pace):
                raise DamagedLog("planted")

            monkeypatch.setattr(log_cleaner.Cleaner, "read_dirty", damaged)
            assert await clean_dirtiest(broker)
            assert not await clean_dirtiest(broker)
            assert broker.log_cleaner.uncleanable_count == 1
            assert await table(client) == expected

    run(work())
    said = [each.getMessage() for each in caplog.records if each.levelname == "CRITICAL"]
    assert said == [f"partition t-0 is not cleaned until the next start: planted; {WAY_OUT}"]


async def commit_offset(client: Client, group: str, offset: int) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
    reply = await client.call(OffsetCommitRequest(group_id=group, topics=[topic]), 8)
    assert reply.topics[0].partitions[0].error_code == E.NONE


async def commit_in_transaction(client: Client, group: str, offset: int, producer: tuple[int, int]) -> None:
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id=group,
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
    )
    reply = await client.call(request, 5)
    assert reply.topics[0].partitions[0].error_code == E.NONE


INTERNAL = {"offsets_topic_num_partitions": "1", "transaction_state_log_num_partitions": "1", **QUIET}


def test_internal_topics_are_cleaned_and_load_to_the_same_state(tmp_path):
    offsets, states = TopicPartition("__consumer_offsets", 0), TopicPartition("__transaction_state", 0)

    async def work():
        async with broker_and_client(tmp_path / "a", **INTERNAL) as (broker, client):
            await client.create("t")
            producer = await client.init("x")
            await commit_offset(client, "g", 0)
            small_segments(broker, offsets, 900)
            small_segments(broker, states, 900)
            for index in range(40):
                await commit_offset(client, f"g{index % 3}", index)
                await commit_in_transaction(client, f"h{index % 2}", index, producer)
                reply = await client.end("x", producer, commit=index % 4 != 0)
                producer = (reply.producer_id, reply.producer_epoch)
                await eventually(lambda: ended(client))
            await commit_in_transaction(client, "h0", 99, producer)  # left open
            for name in (offsets, states):
                log = broker.partitions.get(name).log
                partition = broker.partitions.get(name)
                partition.settings = replace(partition.settings, min_cleanable_dirty_ratio=0.0)
                assert len(log.segments) > 4
            await broker.flusher.sync_all()
            shutil.copytree(tmp_path / "a", tmp_path / "uncleaned")
            sizes = {name: broker.partitions.get(name).log.size_bytes for name in (offsets, states)}
            while await clean_dirtiest(broker):
                pass
            for name, before in sizes.items():
                assert broker.partitions.get(name).log.size_bytes < before / 3, name
            shutil.copytree(tmp_path / "a", tmp_path / "cleaned")
        loaded = [await load(tmp_path / directory) for directory in ("uncleaned", "cleaned", "a")]
        assert loaded[1] == loaded[0]
        assert loaded[2] == loaded[0]
        assert loaded[0][1]

    run(work())


def test_the_logs_of_coordinators_stay_small_however_much_was_committed(tmp_path, monkeypatch):
    monkeypatch.setattr(partition_files, "COORDINATOR_SEGMENT_SIZE_BYTES_MAX", 1500)
    name = TopicPartition("__consumer_offsets", 0)

    async def work():
        async with broker_and_client(tmp_path, **INTERNAL) as (broker, client):
            await client.create("t")
            for index in range(60):
                await commit_offset(client, f"g{index % 3}", index)
                if index % 15 == 14:
                    while await clean_dirtiest(broker):
                        pass
            log = broker.partitions.get(name).log
            assert log.log_end_offset == 60
            assert log.size_bytes < 4 * 1500, "what lives, a segment's worth of what was, and the active one"

    run(work())


@pytest.mark.parametrize(("cleaner", "size_bytes"), [("true", 1 << 20), ("false", 104857600)])
def test_their_segments_are_kafkas_where_nothing_is_cleaned(tmp_path, cleaner, size_bytes):
    async def work():
        async with broker_and_client(tmp_path, log_cleaner_enable=cleaner, **INTERNAL) as (broker, client):
            await client.create("t")
            await commit_offset(client, "g", 0)
            await client.produce("t", "a")
            logs = [broker.partitions.get(each).log for each in (TopicPartition("__consumer_offsets", 0), T0)]
            assert [log.config.segment_bytes for log in logs] == [size_bytes, 1 << 30]

    run(work())


async def load(directory) -> tuple[dict, dict]:
    """What the coordinators know, as far as their logs tell."""
    async with broker_and_client(directory, **INTERNAL) as (broker, _):
        groups = next(broker.groups.loaded()).machine
        known = {
            (group_id, partition): groups.offsets.get(group_id, partition)
            for group_id in groups.groups
            for partition in groups.offsets.all_partitions(group_id)
        }
        transactions = next(broker.transactions.loaded()).machine.table.transactions
        return known, dict(transactions)


def test_the_loop_is_not_held_while_a_log_is_cleaned(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, **QUIET) as (broker, client):
            await client.create("t", **EAGER | {"segment_bytes": "1048576"})
            for index in range(12):
                rows = [(f"key-{index}-{row % 700}", f"value {row} " * 3) for row in range(8000)]
                await put(client, "t", *rows)
            lags, started = [], time.perf_counter()
            cleaning = asyncio.get_running_loop().create_task(clean_dirtiest(broker))
            while not cleaning.done():
                begun = time.perf_counter()
                await asyncio.sleep(0.001)
                lags.append(time.perf_counter() - begun - 0.001)
            taken_s = time.perf_counter() - started
            assert await cleaning
            lags.sort()
            assert len(lags) > 20
            assert lags[len(lags) // 2] < taken_s / 20, lags[-5:]

    run(work())


def test_a_stop_at_any_moment_of_a_cleaning_loses_nothing(tmp_path):
    async def work():
        expected: dict[str, str] = {}
        for delay_ms in (0, 1, 2, 3, 5, 8, 12, 20):
            async with broker_and_client(tmp_path, log_cleaner_backoff_ms="1") as (broker, client):
                await client.create("t", **EAGER) if not expected else None
                assert await table(client) == expected
                small_segments(broker, T0, 400)
                for index in range(30):
                    rows = [(f"k{index % 5}", f"{delay_ms} {index} " * 9)]
                    await put(client, "t", *rows)
                    expected |= dict(rows)
                await asyncio.sleep(delay_ms / 1000)
        async with broker_and_client(tmp_path, log_cleaner_enable="false") as (broker, client):
            assert await table(client) == expected
            assert broker.partitions.cleaned_offset(T0)
            assert not [p.name for p in (tmp_path / "t-0").iterdir() if p.suffix in (".swap", ".cleaned")]

    run(work())


def test_a_log_that_cannot_be_looked_at_ends_no_broker(tmp_path):
    """How old its segments are is asked of it before any cleaning."""

    async def work():
        async with broker_and_client(tmp_path, **QUIET) as (broker, client):
            for name in "tu":
                await client.create(name, **EAGER, min_compaction_lag_ms="1")
                for value in ("old", "new", "newest"):
                    await put(client, name, ("key", value))
                    broker.partitions.existing(TopicPartition(name, 0)).log.roll()
        async with broker_and_client(tmp_path, log_cleaner_enable=False) as (broker, client):  # it has not looked yet
            await until(lambda: len(list(broker.partitions)) >= 2)
            broker.partitions._files.close_idle()
            for path in (tmp_path / "t-0").glob(f"{0:020d}.*"):
                path.unlink()
            while await clean_dirtiest(broker):
                pass
            assert (broker.partitions.is_offline(T0), broker.partitions.offline_count) == (True, 1)
            assert broker.metrics.count("log_cleanings") >= 1
            assert await table(client, "u") == {"key": "newest"}

    run(work())


def test_compact_and_delete_does_both(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, **QUIET) as (broker, client):
            config = EAGER | {"cleanup_policy": "compact,delete", "retention_ms": "3600000"}
            await client.create("t", **config)
            small_segments(broker, T0)
            expected, _ = await fill(client)
            while await clean_dirtiest(broker):
                pass
            assert await table(client) == expected
            now_ms = broker.host.clock.now_ms()
            assert await broker.partitions.log_starts.apply_retention(broker.partitions, now_ms) == 0
            assert await broker.partitions.log_starts.apply_retention(broker.partitions, now_ms + 7_200_000) > 1
            partition = broker.partitions.get(T0)
            assert partition.rules.log_start_offset == partition.log_end_offset
            assert not await clean_dirtiest(broker)
            await put(client, "t", ("k", "new"))
            assert await client.read("t", offset=partition.log_end_offset - 1) == ["new"]

    run(work())


def test_a_full_disk_only_postpones_a_cleaning(tmp_path, monkeypatch):
    async def work():
        async with broker_and_client(tmp_path, **QUIET) as (broker, client):
            await client.create("t", **EAGER)
            small_segments(broker, T0)
            expected, _ = await fill(client)
            real = log_cleaner._Output.finish

            def full(self):
                raise StorageError("No space left on device")

            monkeypatch.setattr(log_cleaner._Output, "finish", full)
            assert not await clean_dirtiest(broker)
            assert not list((tmp_path / "t-0").glob("*.cleaned")), "what was half written takes no room"
            monkeypatch.setattr(log_cleaner._Output, "finish", real)
            assert await table(client) == expected
            assert await clean_dirtiest(broker)
            assert await table(client) == expected

    run(work())


def leftovers(directory: Path) -> list[str]:
    return sorted(each.suffix for each in directory.iterdir() if each.suffix in (".swap", ".cleaned"))


def refuse(monkeypatch, operation: str, ending: str) -> None:
    """Let one operation fail on files whose names end so."""
    real = getattr(RealFiles, operation)

    def refused(self, path, *more):
        if path.endswith(ending):
            raise StorageError(f"{operation} of {path}: Input/output error")
        return real(self, path, *more)

    monkeypatch.setattr(RealFiles, operation, refused)


def test_a_swap_that_was_announced_in_part_is_taken_back(tmp_path):
    """A `.log.swap` counts as complete at a start, and would come between what later cleanings have made of it."""

    async def work():
        async with broker_and_client(tmp_path, **QUIET) as (broker, client):
            await client.create("t", **EAGER)
            small_segments(broker, T0)
            expected, _ = await fill(client)
            with pytest.MonkeyPatch.context() as patch:
                refuse(patch, "rename", ".timeindex.cleaned")
                assert not await clean_dirtiest(broker)
            assert leftovers(tmp_path / "t-0") == []
            assert not broker.partitions.is_offline(T0)
            assert await clean_dirtiest(broker)
            assert await table(client) == expected

    run(work())


def test_a_swap_that_cannot_be_taken_back_takes_its_partition_offline(tmp_path):
    """With both files left, the next start undoes it; cleaned again meanwhile, it would not know what is older."""

    async def work():
        async with broker_and_client(tmp_path, **QUIET) as (broker, client):
            await client.create("t", **EAGER)
            small_segments(broker, T0)
            expected, _ = await fill(client)
            with pytest.MonkeyPatch.context() as patch:
                refuse(patch, "rename", ".timeindex.cleaned")
                refuse(patch, "remove", ".log.swap")
                assert not await clean_dirtiest(broker)
            assert broker.partitions.is_offline(T0)
            assert ".cleaned" in leftovers(tmp_path / "t-0")
        # Without a cleaner: one that begins at once has such files, too.
        async with broker_and_client(tmp_path, log_cleaner_enable="false") as (broker, client):
            assert leftovers(tmp_path / "t-0") == []
            assert await table(client) == expected

    run(work())


def test_names_that_a_cleanings_sync_may_have_lost_are_made_anew(tmp_path):
    """Also those that the log had just made, a transaction index say: the page cache shows them until the power goes."""

    async def work():
        async with broker_and_client(tmp_path, **QUIET) as (broker, client):
            await client.create("t", **EAGER)
            small_segments(broker, T0)
            expected, _ = await fill(client)
            with pytest.MonkeyPatch.context() as patch:
                refuse(patch, "sync_directory", "t-0")
                assert not await clean_dirtiest(broker)
            assert broker.partitions.is_offline(T0)
            assert (tmp_path / "t-0" / MARKER).exists()
            assert broker.flusher.journal._is_pinned, "the journal was told"
        async with broker_and_client(tmp_path, **QUIET) as (broker, client):
            assert not (tmp_path / "t-0" / MARKER).exists()
            assert await table(client) == expected

    run(work())


def test_a_damaged_cleaner_checkpoint_means_that_everything_is_cleaned_again(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, **QUIET) as (broker, client):
            await client.create("t", **EAGER)
            small_segments(broker, T0)
            expected, _ = await fill(client)
            while await clean_dirtiest(broker):
                pass
        (tmp_path / "cleaner-offset-checkpoint").write_text("0\nmany\n")
        async with broker_and_client(tmp_path, **QUIET) as (broker, client):
            assert await table(client) == expected
            while await clean_dirtiest(broker):
                pass
            assert await table(client) == expected
            assert broker.partitions.cleaned_offset(T0)

    run(work())


def test_the_cleaner_comes_to_rest_and_stays_so_over_a_restart(tmp_path):
    """Until something is written no cleaning is counted, and nothing in the directory changes."""

    def state_of_files() -> dict[str, tuple[int, int, int]]:
        found = [*(tmp_path / "t-0").iterdir(), tmp_path / "cleaner-offset-checkpoint"]
        return {each.name: (each.stat().st_ino, each.stat().st_size, each.stat().st_mtime_ns) for each in found}

    async def work():
        async with broker_and_client(tmp_path, **QUIET) as (broker, client):
            await client.create("t", **EAGER)
            small_segments(broker, T0)
            expected, _ = await fill(client)
            count = 0
            while await clean_dirtiest(broker):
                count += 1
                assert count < 20, "it does not come to rest"
            assert count == broker.metrics.count("log_cleanings") >= 1
            await until(lambda: not list((tmp_path / "t-0").glob("*.deleted")))
            at_rest = state_of_files()
            for _ in range(5):
                assert not await clean_dirtiest(broker)
            assert broker.metrics.count("log_cleanings") == count
            assert state_of_files() == at_rest
        async with broker_and_client(tmp_path, **QUIET) as (broker, client):
            small_segments(broker, T0)
            before = state_of_files()
            for _ in range(5):
                assert not await clean_dirtiest(broker)
            assert broker.metrics.count("log_cleanings") == 0
            assert state_of_files() == before
            more, _ = await fill(client)
            assert await clean_dirtiest(broker), "what was written since is cleaned"
            assert await table(client) == expected | more

    run(work())


def test_nothing_above_the_stored_recovery_point_is_cleaned(tmp_path, monkeypatch):
    """What is dirty is looked at again once the recovery point is stored: a start would cut what was cleaned above it."""

    async def work():
        async with broker_and_client(tmp_path, **QUIET) as (broker, client):
            await client.create("t", **EAGER)
            small_segments(broker, T0)
            expected, _ = await fill(client)
            await broker.flusher.sync_all()
            log = broker.partitions.get(T0).log
            names = [segment.base_offset for segment in log.segments]
            assert log.recovery_point > log.stored_recovery_point
            stores = []

            async def stores_nothing() -> None:
                stores.append(log.stored_recovery_point)

            monkeypatch.setattr(broker.partitions, "checkpoint_aside", stores_nothing)
            assert not await clean_dirtiest(broker)
            assert len(stores) == 1
            assert broker.metrics.count("log_cleanings") == 0
            assert [segment.base_offset for segment in log.segments] == names
            monkeypatch.undo()
            assert await clean_dirtiest(broker)
            assert broker.partitions.cleaned_offset(T0) <= log.stored_recovery_point
            assert await table(client) == expected

    run(work())
