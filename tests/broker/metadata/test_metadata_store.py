"""The cluster's metadata: its log begins anew when it is large, and no power cut on the way loses a change."""

from __future__ import annotations

import asyncio
import pathlib
import shutil

import pytest
from evidence.world.broker import Client, broker_and_client, run, until
from evidence.world.files import Keep, PowerCut, SimFiles, SimSyncer

from oncelog import sync
from oncelog.broker.metadata import metadata_store
from oncelog.broker.metadata.metadata_store import DIRECTORY, MetadataStore
from oncelog.core.metadata.cluster import TOPIC_RESOURCE
from oncelog.errors import DamagedLog
from oncelog.host.tasks import Tasks
from oncelog.log.checkpoint_files import (
    CLEAN_SHUTDOWN,
    CLUSTER_METADATA,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    offsets_from_bytes,
    offsets_to_bytes,
)
from oncelog.log.open_files import OpenFiles
from oncelog.testing import TestBroker
from oncelog.types import TopicPartition
from oncelog.wire.log_records.cluster_metadata import (
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from oncelog.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from oncelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

LIMIT_SIZE_BYTES = 600


class Clock:
    """Stands still."""

    def now_ms(self) -> int:
        return 1_700_000_000_000


def changes() -> list[MetadataRecord]:
    """Some that stay, some that are taken back, many that say something new of the same thing."""
    found: list[MetadataRecord] = [FeatureLevelRecord(name="f", level=1, features_epoch=1)]
    for index in range(12):
        topic_id = bytes([index + 1]) * 16
        found.append(TopicRecord(name=f"t{index}", topic_id=topic_id, partition_count=index + 1))
        if index % 3:
            found.append(RemoveTopicRecord(topic_id=topic_id))
        found.append(ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t0", name="a", value=str(index)))
    return found


def store_on(files: SimFiles) -> MetadataStore:
    store = MetadataStore(
        OpenFiles(files),
        "data",
        SimSyncer(),
        Clock(),
        Tasks(lambda _error: None),
        lambda: LIMIT_SIZE_BYTES,
    )
    store.open(is_clean=False)
    return store


def state_of(store: MetadataStore) -> object:
    topics = {
        name: (topic.topic_id, topic.partition_count, topic.configs) for name, topic in store.metadata.topics.items()
    }
    return topics, dict(store.metadata.features)


def states() -> list[object]:
    """After no change, after the first, and so on."""
    store = MetadataStore(OpenFiles(SimFiles()), "data", SimSyncer(), Clock(), Tasks(lambda _error: None))
    found = [state_of(store)]
    for change in changes():
        store.metadata.apply(change)
        found.append(state_of(store))
    return found


def life(files: SimFiles, done: list[int]) -> None:
    """Make the changes that are not made yet; `done` counts those that were acknowledged."""

    async def work() -> None:
        store = store_on(files)
        for change in changes()[done[0] :]:
            async with store.changing():
                await store.append([change])
            done[0] += 1

    asyncio.run(work())


def new_files(seed: str) -> SimFiles:
    files = SimFiles(seed)
    files.make_directory("data")
    files.sync_directory("")
    return files


def log_files(files: SimFiles) -> list[str]:
    return [name for name in files.list(f"data/{DIRECTORY}") if name.endswith(".log")]


def test_the_log_begins_anew_and_holds_the_same():
    files, done = new_files("whole"), [0]
    life(files, done)
    assert len(log_files(files)) == 1
    assert log_files(files) != ["00000000000000000000.log"]
    size_bytes = files.size_of(f"data/{DIRECTORY}/{log_files(files)[0]}")
    assert size_bytes < 3 * LIMIT_SIZE_BYTES
    assert state_of(store_on(files)) == states()[-1]
    names = files.list(f"data/{DIRECTORY}")
    assert len(names) < 10, names


@pytest.mark.parametrize(("misdirected_share", "batch_count"), [(0.0, 1000), (0.7, 1000), (0.0, 1)])
@pytest.mark.parametrize("keep", list(Keep), ids=lambda keep: keep.name)
def test_a_power_cut_at_any_operation_loses_no_change(keep, misdirected_share, batch_count, monkeypatch):
    """Also where what holds takes several batches: the last may be on the disk, and the first not."""
    monkeypatch.setattr(metadata_store, "SNAPSHOT_BATCH_COUNT", batch_count)
    expected = states()
    whole = new_files("count")
    before = whole.operation_count
    life(whole, [0])
    cuts = 0
    for operation in range(1, whole.operation_count - before + 1):
        files, done = new_files(f"{keep} {operation}"), [0]
        files.misdirected_share = misdirected_share
        files.cut_power_at(operation)
        with pytest.raises(PowerCut):
            life(files, done)
        files.crash(keep)
        found = state_of(store_on(files))
        assert found in expected[done[0] : done[0] + 2], (operation, done)
        files.crash(keep)
        assert state_of(store_on(files)) == found, "and it stays"
        cuts += 1
    assert cuts > 50


def test_a_brokers_metadata_does_not_grow_with_its_changes(tmp_path):
    async def work():
        config = {"metadata_log_max_record_bytes_between_snapshots": 3000}
        async with broker_and_client(tmp_path, **config) as (_, client):
            for index in range(30):
                await client.create(f"t{index % 2}-{index}")
        sizes = [each.stat().st_size for each in (tmp_path / DIRECTORY).glob("*.log")]
        assert sum(sizes) < 8000
        assert not (tmp_path / DIRECTORY / "00000000000000000000.log").exists()
        async with broker_and_client(tmp_path, **config) as (broker, client):
            assert len(broker.metadata.topics) == 30
            await client.create("one-more")
            other = await Client.connect(broker)
            other.close()

    run(work())


def test_a_stop_waits_for_a_change_whose_client_went_away(tmp_path):
    """Cancelled in the middle of its sync, it made the stop fail."""

    async def work():
        async with broker_and_client(tmp_path) as (broker, _):
            syncer, gate, begun = broker.store._syncer, asyncio.Event(), asyncio.Event()

            class SlowDisk:
                async def sync(self, files):
                    begun.set()
                    await gate.wait()
                    await syncer.sync(files)

            broker.store._syncer = SlowDisk()
            other = await Client.connect(broker)
            other.send(CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)]))
            await begun.wait()
            other.close()
            await until(lambda: len(broker.server._connections) == 1)
            stopping = asyncio.ensure_future(broker.stop())
            for _ in range(100):
                await asyncio.sleep(0)
            gate.set()
            await stopping
        assert (tmp_path / ".kafka_cleanshutdown").exists()
        async with broker_and_client(tmp_path) as (broker, _):
            assert list(broker.metadata.topics) == ["t"]

    run(work())


@pytest.mark.parametrize("at", ["its last byte", "its first", "the middle"])
def test_a_last_change_that_is_damaged_is_no_torn_end_where_a_partition_shows_that_it_was_synced(at):
    """It was cut off: the topic was gone, its partitions moved aside, and the next producer made an empty one of its name."""
    first, last = bytes([1]) * 16, bytes([2]) * 16
    files = new_files("damage")

    async def work() -> int:
        store = store_on(files)
        for index, topic_id in enumerate((first, last)):
            path = f"data/{DIRECTORY}/{log_files(files)[0]}"
            before = files.size_of(path)
            async with store.changing():
                await store.append([TopicRecord(name=f"t{index}", topic_id=topic_id, partition_count=1)])
        return before

    before = asyncio.run(work())
    path = f"data/{DIRECTORY}/{log_files(files)[0]}"
    size_bytes = files.size_of(path)
    position = {"its last byte": size_bytes - 1, "its first": before + 17, "the middle": (before + size_bytes) // 2}[at]
    files.kill()
    data = bytearray(files.read_whole(path))
    data[position] ^= 1
    files.open(path).write_at(position, data[position : position + 1])

    def opened(owners: dict[str, bytes]) -> MetadataStore:
        store = MetadataStore(OpenFiles(files), "data", SimSyncer(), Clock(), Tasks(lambda _error: None))
        store.open(is_clean=False, owners=lambda: owners)
        return store

    for _ in range(2):  # nothing was cut by the first start
        with pytest.raises(
            DamagedLog, match=f"bad batch at position {before}, and without it data/t1-0 is of no topic"
        ):
            opened({"data/t0-0": first, "data/t1-0": last})
    assert list(opened({"data/t0-0": first}).metadata.topics) == ["t0"], "torn: nothing was made for it yet"


@pytest.mark.parametrize(
    "at", range(9)
)  # from its offset up to the length of a batch, which its checksum does not cover
def test_a_change_in_the_middle_that_is_damaged_is_no_torn_end(at):
    """A kill, and a wrong offset in one: all later changes were cut off, and what they had made was moved aside."""
    files = new_files("offset")

    async def work() -> int:
        store = store_on(files)
        for number in range(4):
            if number == 2:
                before = files.size_of(f"data/{DIRECTORY}/{log_files(files)[0]}")
            async with store.changing():
                await store.append([FeatureLevelRecord(name=f"f{number}", level=1, features_epoch=number + 1)])
        return before

    before = asyncio.run(work())
    path = f"data/{DIRECTORY}/{log_files(files)[0]}"
    files.kill()
    files.open(path).write_at(before + at, bytes([files.read_whole(path)[before + at] ^ 4]))
    for _ in range(2):  # nothing was cut by the first start
        store = MetadataStore(OpenFiles(files), "data", SimSyncer(), Clock(), Tasks(lambda _error: None))
        with pytest.raises(DamagedLog, match=f"bad batch at position {before}, whole ones behind it"):
            store.open(is_clean=False)


def test_a_partition_of_a_topic_that_was_deleted_is_no_sign_of_damage():
    files, topic_id = new_files("deleted"), bytes([1]) * 16

    async def work() -> None:
        store = store_on(files)
        for change in (
            TopicRecord(name="t", topic_id=topic_id, partition_count=1),
            RemoveTopicRecord(topic_id=topic_id),
            TopicRecord(name="u", topic_id=bytes([2]) * 16, partition_count=1),
        ):
            async with store.changing():
                await store.append([change])

    asyncio.run(work())
    path = f"data/{DIRECTORY}/{log_files(files)[0]}"
    files.kill()
    files.open(path).truncate(files.size_of(path) - 1)
    store = MetadataStore(OpenFiles(files), "data", SimSyncer(), Clock(), Tasks(lambda _error: None))
    store.open(is_clean=False, owners=lambda: {"data/t-0": topic_id})
    assert not store.metadata.topics


def test_a_broker_refuses_the_start_and_says_what_can_be_done(tmp_path):
    async def work() -> None:
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("early")
            await client.create("payments")
            await client.produce("payments", "acknowledged")
        (tmp_path / CLEAN_SHUTDOWN).unlink()  # as if it had been killed
        log = next((tmp_path / DIRECTORY).glob("*.log"))
        data = bytearray(log.read_bytes())
        data[data.rindex(b"payments")] ^= 1
        log.write_bytes(data)
        with pytest.raises(
            DamagedLog, match=f"without a copy, delete the line of __cluster_metadata from {RECOVERY_POINTS}"
        ):
            async with broker_and_client(tmp_path):
                pass
        points = offsets_from_bytes((tmp_path / RECOVERY_POINTS).read_bytes())
        del points[CLUSTER_METADATA]
        (tmp_path / RECOVERY_POINTS).write_bytes(offsets_to_bytes(points))
        with pytest.raises(DamagedLog, match=r"payments-0 is of no topic .1 such directories; without a copy, rename"):
            async with broker_and_client(tmp_path):
                pass
        (tmp_path / "payments-0").rename(tmp_path / "payments-0-stray")
        async with broker_and_client(tmp_path) as (broker, client):
            assert "early" in broker.store.metadata.topics
            assert "payments" not in broker.store.metadata.topics
            await client.create("payments")
            await client.produce("payments", "new")
            assert await client.read("payments") == ["new"]

    run(work())


@pytest.mark.parametrize("base_offset", [1, 1000])
def test_a_file_that_is_too_much_is_named(tmp_path, base_offset):
    """What to restore nobody could say: nothing was missing."""

    async def work() -> None:
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
        log = tmp_path / DIRECTORY / f"{0:020d}.log"
        copy = tmp_path / DIRECTORY / f"{base_offset:020d}.log"
        copy.write_bytes(log.read_bytes())
        for _ in range(2):
            with pytest.raises(
                DamagedLog, match=rf"{copy.name} is too much \(it begins with offset 0, .*: move it away$"
            ):
                async with broker_and_client(tmp_path):
                    pass
        copy.unlink()
        async with broker_and_client(tmp_path) as (broker, _):
            assert "t" in broker.store.metadata.topics

    run(work())


@pytest.mark.parametrize("is_noted", [True, False])
def test_a_last_change_that_is_known_to_be_synced_is_not_taken_for_a_torn_end(tmp_path, caplog, *, is_noted: bool):
    """Nothing else tells of a user, a rule or a setting that is lost: the change was acknowledged, and cut in silence."""

    async def work() -> None:
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            await broker.partitions.checkpoint_aside()
            entry = EntryData(
                entity=[EntityData(entity_type="user", entity_name="last")],
                ops=[OpData(key="producer_byte_rate", value=7)],
            )
            assert (await client.call(AlterClientQuotasRequest(entries=[entry]))).entries[0].error_code == 0
            if is_noted:
                await broker.partitions.checkpoint_aside()
            noted = (tmp_path / RECOVERY_POINTS).read_bytes()
            end_offset = broker.store.applied_offset
        (tmp_path / CLEAN_SHUTDOWN).unlink()  # as if it had been killed
        (tmp_path / RECOVERY_POINTS).write_bytes(noted)
        log = next((tmp_path / DIRECTORY).glob("*.log"))
        whole = log.read_bytes()
        damaged = bytearray(whole)
        damaged[-1] ^= 1
        log.write_bytes(damaged)
        if not is_noted:  # whatever it is, it may be torn
            async with broker_and_client(tmp_path) as (broker, _):
                assert not broker.metadata.client_quotas
            return
        for _ in range(2):
            with pytest.raises(DamagedLog, match=rf"but it was synced up to {end_offset} "):
                async with broker_and_client(tmp_path):
                    pass
        log.write_bytes(whole)
        async with broker_and_client(tmp_path) as (broker, client):
            assert len(broker.metadata.client_quotas) == 1
            assert await client.read("t") == []
        assert "is offline" not in caplog.text

    run(work())


def test_an_older_copy_of_the_metadata_is_served_and_told(tmp_path, caplog):
    async def work() -> None:
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            log = next((tmp_path / DIRECTORY).glob("*.log"))
            copy = log.read_bytes()
            await client.create("u")
        (tmp_path / CLEAN_SHUTDOWN).unlink()
        log.write_bytes(copy)
        async with broker_and_client(tmp_path) as (broker, _):
            assert set(broker.metadata.topics) == {"t"}
        assert "what was changed in between is lost" in caplog.text

    run(work())


def test_positions_are_put_back_where_the_change_that_made_their_topic_is_lost(tmp_path: pathlib.Path) -> None:
    """As docs/runbook.md says it of a directory NAME-stray, which the refusal names."""
    where, offsets = TopicPartition("t", 0), "__consumer_offsets"
    with TestBroker(data_dir=str(tmp_path)) as broker, sync.Admin(**broker.client_options()) as admin:
        admin.create_topics(["t"])
        admin.alter_consumer_group_offsets("g", {where: 7})
    (tmp_path / CLEAN_SHUTDOWN).unlink()  # as if it had been killed
    log = next((tmp_path / DIRECTORY).glob("*.log"))
    data = bytearray(log.read_bytes())
    data[data.rindex(offsets.encode())] ^= 1
    log.write_bytes(data)
    forget(tmp_path, CLUSTER_METADATA)
    (former,) = tmp_path.glob(f"{offsets}-*")
    with pytest.raises(DamagedLog, match="then put those of internal topics back under the ones that are made anew"):
        TestBroker(data_dir=str(tmp_path)).__enter__()
    stray = former.rename(tmp_path / f"{former.name}-stray")
    with TestBroker(data_dir=str(tmp_path)) as broker, sync.Admin(**broker.client_options()) as admin:
        assert admin.list_consumer_group_offsets("g") == {}
        admin.alter_consumer_group_offsets("g", {where: 1})
    shutil.rmtree(former)
    stray.rename(former)
    (former / PARTITION_METADATA).unlink()
    forget(tmp_path, TopicPartition(offsets, int(former.name.rpartition("-")[2])))
    with TestBroker(data_dir=str(tmp_path)) as broker, sync.Admin(**broker.client_options()) as admin:
        assert admin.list_consumer_group_offsets("g")[where].offset == 7


def forget(data_directory: pathlib.Path, name: TopicPartition) -> None:
    points = offsets_from_bytes((data_directory / RECOVERY_POINTS).read_bytes())
    del points[name]
    (data_directory / RECOVERY_POINTS).write_bytes(offsets_to_bytes(points))
