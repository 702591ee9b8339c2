"""Retention and DeleteRecords in a running broker: what readers see, what is left on the disk, and in which order."""

from __future__ import annotations

import pytest
from evidence.world.broker import broker_and_client, run, until

from oncelog.broker.partitions.checkpoint_file import CheckpointFile
from oncelog.errors import StorageError
from oncelog.log.checkpoint_files import LOG_START_OFFSETS, read_offsets
from oncelog.log.config import LogConfig
from oncelog.types import TopicPartition

T0 = TopicPartition("t", 0)


def test_retention_gives_up_the_active_segment_too(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t", retention_ms="1000", file_delete_delay_ms="0")
            await client.produce("t", "a", "b")
            now_ms = broker.host.clock.now_ms()
            assert await broker.partitions.log_starts.apply_retention(broker.partitions, now_ms - 600_000) == 0
            assert await broker.partitions.log_starts.apply_retention(broker.partitions, now_ms) == 1, (
                "written ten minutes ago, by its timestamp"
            )
            assert await client.read("t", offset=2) == []
            partition = broker.partitions.get(T0)
            assert (partition.rules.log_start_offset, partition.log_end_offset) == (2, 2)
            await broker.flusher.sync_all()
            await broker.partitions.checkpoint_aside()
            assert [segment.base_offset for segment in partition.log.segments] == [2]
            await until(lambda: [p.name for p in (tmp_path / "t-0").glob("*.log*")] == [f"{2:020d}.log"])
            await client.produce("t", "c")
            assert await client.read("t", offset=2) == ["c"]

    run(work())


def test_an_idle_partition_is_looked_at_once_by_retention(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t", retention_ms="1000000000")
            await client.produce("t", "a")
            now_ms = broker.host.clock.now_ms()
            await broker.partitions.log_starts.apply_retention(broker.partitions, now_ms)
            log = broker.partitions.get(T0).log
            looks = []
            log.segments_past_retention = lambda *args: looks.append(args) or []
            await broker.partitions.log_starts.apply_retention(broker.partitions, now_ms + 1)
            assert looks == []
            await broker.partitions.log_starts.apply_retention(broker.partitions, now_ms + 1_000_000_000)
            await client.produce("t", "b")
            await broker.partitions.log_starts.apply_retention(broker.partitions, now_ms + 1)
            assert len(looks) == 2

    run(work())


def test_a_partition_that_cannot_be_looked_at_hinders_no_other(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            for name in ("t", "u"):
                await client.create(name, retention_ms="1000")
                await client.produce(name, "a")
                broker.partitions.existing(TopicPartition(name, 0)).log.roll()
                await client.produce(name, "b")
        async with broker_and_client(tmp_path) as (broker, client):
            await until(lambda: len(list(broker.partitions)) >= 2)
            broker.partitions._files.close_idle()
            for path in (tmp_path / "t-0").glob(f"{0:020d}.*"):
                path.unlink()
            assert (
                await broker.partitions.log_starts.apply_retention(broker.partitions, broker.host.clock.now_ms()) == 2
            )
            assert (broker.partitions.is_offline(T0), broker.partitions.offline_count) == (True, 1)
            assert broker.partitions.existing(TopicPartition("u", 0)).rules.log_start_offset == 2

    run(work())


def test_deleted_files_wait_for_their_delay(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t", retention_ms="1", file_delete_delay_ms="3600000")
            await client.produce("t", "a")
            await broker.partitions.log_starts.apply_retention(broker.partitions, broker.host.clock.now_ms())
            await broker.flusher.sync_all()
            await broker.partitions.checkpoint_aside()
            assert [p.name for p in (tmp_path / "t-0").glob("*.log.deleted")] == [f"{0:020d}.log.deleted"]
            assert len(broker.partitions.deleted) >= 1
        async with broker_and_client(tmp_path) as (_, client):
            assert not list((tmp_path / "t-0").glob("*.deleted"))
            assert await client.read("t", offset=1) == []

    run(work())


def test_a_log_start_is_in_its_checkpoint_before_a_record_is_out_of_reach(tmp_path, monkeypatch):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            await client.produce("t", "a", "b", "c")
            partition, starts = broker.partitions.get(T0), broker.partitions.log_starts

            def full(_self, _offsets):
                raise StorageError("no space left on device")

            with monkeypatch.context() as patched:
                patched.setattr(CheckpointFile, "write", full)
                with pytest.raises(StorageError, match="no space left"):
                    starts.delete_records(partition, 2)
            assert partition.rules.log_start_offset == 0
            assert await client.read("t") == ["a", "b", "c"]
            starts.delete_records(partition, 2)
            assert read_offsets(broker.host.files, str(tmp_path), LOG_START_OFFSETS)[T0] == 2
            starts.delete_records(partition, 1)
            assert partition.rules.log_start_offset == 2, "it never goes back"

    run(work())


@pytest.mark.parametrize("days", [-30, 3000])
@pytest.mark.parametrize("size_bytes", [1, 100_000])
def test_no_index_alone_has_records_deleted_or_kept(tmp_path, caplog, days, size_bytes):
    """A flipped bit of a time index says that a segment is old, or of the future: the start had believed it."""

    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t", retention_ms="86400000", file_delete_delay_ms="0")
            await client.produce("t", "a", "b" * size_bytes)
            now_ms = broker.host.clock.now_ms()
            broker.partitions.existing(T0).log.roll()
            await client.produce("t", "c")
        index = tmp_path / "t-0" / f"{0:020d}.timeindex"
        whole = index.read_bytes()
        lie = int.from_bytes(whole[-12:-4], "big") + days * 86_400_000
        index.write_bytes(whole[:-12] + lie.to_bytes(8, "big") + whole[-4:])
        async with broker_and_client(tmp_path) as (broker, client):
            assert len(await client.read("t")) == 2
            starts, log = broker.partitions.log_starts, broker.partitions.existing(T0).log
            assert await starts.apply_retention(broker.partitions, now_ms + 1000) == 0
            assert (log.log_start_offset, index.read_bytes()) == (0, whole), "what was built anew is written"
            assert caplog.text.count("built anew from the log") == 1, caplog.text
            assert await starts.apply_retention(broker.partitions, now_ms + 90_000_000) == 2
            assert log.log_start_offset == 3

    run(work())


def test_a_damaged_segment_is_not_deleted_by_time(tmp_path, caplog):
    """How old it is nobody can tell; it is said once. What retention.bytes asks for goes."""

    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t", retention_ms="1000", index_interval_bytes="0")
            await client.produce("t", "a")
            await client.produce("t", "b")
            broker.partitions.existing(T0).log.roll()
            await client.produce("t", "c")
        log_file = tmp_path / "t-0" / f"{0:020d}.log"
        damaged = bytearray(log_file.read_bytes())
        damaged[8] ^= 64  # the length of the first batch
        log_file.write_bytes(damaged)
        async with broker_and_client(tmp_path) as (broker, client):
            assert await client.read("t", offset=2) == ["c"]
            starts, log = broker.partitions.log_starts, broker.partitions.existing(T0).log
            for _ in range(2):
                assert await starts.apply_retention(broker.partitions, broker.host.clock.now_ms()) == 0
            assert (log.log_start_offset, log.failure) == (0, None)
            assert caplog.text.count("retention.ms does not delete it") == 1
            log.config = LogConfig(retention_bytes=0)
            assert await starts.apply_retention(broker.partitions, broker.host.clock.now_ms()) == 2

    run(work())
