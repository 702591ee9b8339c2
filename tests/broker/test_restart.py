"""What survives: a clean stop, and a process that ends at any instant (a copy of its directory is what is left)."""

import random
import shutil

import pytest
from evidence.world.broker import Client, broker_and_client, eventually, fetch_request, run

from oncelog import Consumer
from oncelog.broker.broker import Broker
from oncelog.broker.config.config import ConfigInvalid
from oncelog.broker.partitions import partitions
from oncelog.broker.sharing_out import share_out
from oncelog.core.placement import coordinator_partition
from oncelog.errors import CorruptRecord, DamagedLog, ErrorCode, StorageError
from oncelog.host.host import real_host
from oncelog.host.network import NetworkFailed
from oncelog.log import partition_log, recovery
from oncelog.types import TopicPartition
from oncelog.wire.messages.delete_topics import DeleteTopicsRequest
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from tests.broker.coordinators.test_transactions import is_complete, stop_markers

E = ErrorCode


def killed(source, target):
    """The directory as it is now: what SIGKILL leaves behind."""
    shutil.copytree(source, target)
    return target


def test_everything_acknowledged_survives_a_clean_stop(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            cluster_id = broker.cluster_id
            await client.create("t", 2, retention_ms="-1")
            await client.produce("t", "plain")
            producer = await client.init("x")
            await client.produce("t", "open", producer=producer, sequence=0, transactional_id="x")
        assert (tmp_path / ".kafka_cleanshutdown").exists()
        async with broker_and_client(tmp_path) as (broker, client):
            assert broker.is_clean_start
            assert broker.cluster_id == cluster_id
            assert broker.metadata.topics["t"].configs == {"retention.ms": "-1"}
            assert not (tmp_path / ".kafka_cleanshutdown").exists()
            assert await client.read("t") == ["plain"]
            part = await client.produce("t", "more", producer=producer, sequence=1, transactional_id="x")
            assert part.error_code == E.NONE
            await client.end("x", producer, commit=True)
            await eventually(lambda: is_complete(client, "x"))
            assert await client.read("t") == ["plain", "open", "more"]

    run(work())


def test_a_decided_transaction_gets_its_markers_after_a_kill(tmp_path):
    async def work():
        async with broker_and_client(tmp_path / "a") as (broker, client):
            await client.create("t", 2)
            stop_markers(broker)
            for name, commit in (("x", True), ("y", False)):
                producer = await client.init(name)
                for partition in range(2):
                    await client.produce(
                        "t", name, partition=partition, producer=producer, sequence=0, transactional_id=name
                    )
                assert (await client.end(name, producer, commit=commit)).error_code == E.NONE
            assert await client.read("t") == []
            killed(tmp_path / "a", tmp_path / "b")
        async with broker_and_client(tmp_path / "b") as (broker, client):
            assert not broker.is_clean_start
            await eventually(lambda: is_complete(client, "x"))
            await eventually(lambda: is_complete(client, "y"))
            assert await client.read("t") == ["x"]

    run(work())


def test_producer_ids_are_never_handed_out_twice(tmp_path):
    async def work():
        seen = set()
        for directory in ("a", "b", "c"):
            async with broker_and_client(tmp_path / directory) as (_, client):
                for _ in range(5):
                    producer_id, _ = await client.init()
                    assert producer_id not in seen
                    seen.add(producer_id)
                if directory != "c":
                    killed(tmp_path / directory, tmp_path / chr(ord(directory) + 1))

    run(work())


def test_duplicates_are_recognised_after_a_kill(tmp_path):
    async def work():
        async with broker_and_client(tmp_path / "a") as (_, client):
            await client.create("t")
            producer = await client.init()
            await client.produce("t", "a", producer=producer, sequence=0)
            last = await client.produce("t", "b", producer=producer, sequence=1)
            killed(tmp_path / "a", tmp_path / "b")
        async with broker_and_client(tmp_path / "b") as (_, client):
            again = await client.produce("t", "b", producer=producer, sequence=1)
            assert (again.error_code, again.base_offset) == (E.NONE, last.base_offset)
            assert await client.read("t") == ["a", "b"]

    run(work())


def test_what_one_start_recovered_the_next_does_not_read_again(tmp_path, monkeypatch):
    """A broker that is killed before its first checkpoint, again and again, does not need longer each time: no start reads more
    than READ_AGAIN_SIZE_BYTES_MAX that another has read."""
    monkeypatch.setattr("oncelog.log.recovery.READ_AGAIN_SIZE_BYTES_MAX", 0)
    replayed = []
    recover = partitions.recover

    def noting(files, directory, *more, **how):
        report = recover(files, directory, *more, **how)
        if directory.endswith("/t-0"):
            replayed.append(report.replayed_batch_count)
        return report

    monkeypatch.setattr(partitions, "recover", noting)

    async def work():
        async with broker_and_client(tmp_path / "0") as (_, client):
            await client.create("t")
            for n in range(20):
                await client.produce("t", str(n))
            killed(tmp_path / "0", tmp_path / "1")
        for n in range(1, 6):
            async with broker_and_client(tmp_path / str(n)) as (broker, client):
                assert not broker.is_clean_start
                await client.produce("t", f"after {n}")
                killed(tmp_path / str(n), tmp_path / str(n + 1))
        assert replayed == [0, 20, 1, 1, 1, 1]  # the first is the new one
        assert len(list((tmp_path / "6" / "t-0").glob("*.snapshot"))) <= 2
        async with broker_and_client(tmp_path / "6") as (_, client):
            assert await client.read("t") == [*map(str, range(20)), *(f"after {n}" for n in range(1, 6))]

    run(work())


def test_a_start_whose_sync_fails_is_known_to_the_next_one(tmp_path, monkeypatch):
    """A disk that refuses the sync may refuse every mark of it: it is made before. Seed 4046 of old-clients."""

    async def work():
        async with broker_and_client(tmp_path / "a") as (_, client):
            await client.create("t")
            await client.produce("t", "whole")
            killed(tmp_path / "a", tmp_path / "b")
        marker = tmp_path / "b" / "sync-failed"
        with monkeypatch.context() as refusing:
            refusing.setattr(partition_log, "note_failed_sync", lambda *_: None)

            async def fail(self, files):
                raise StorageError("the disk refuses")

            refusing.setattr(partitions.Partitions, "_sync_together", fail)
            with pytest.raises(StorageError, match="the disk refuses"):
                async with Broker(tmp_path / "b"):
                    pass
        assert "t-0" in marker.read_text().splitlines()
        anew = []
        rewrite = recovery.rewrite_after_failed_sync
        monkeypatch.setattr(
            recovery, "rewrite_after_failed_sync", lambda *a: anew.append((a[1], rewrite(*a))) or anew[-1][1]
        )
        async with broker_and_client(tmp_path / "b") as (_, client):
            assert not marker.exists()
            assert (f"{tmp_path}/b/t-0", True) in anew
            assert await client.read("t") == ["whole"]

    run(work())


def test_a_list_of_failed_syncs_is_gone_after_the_next_start(tmp_path):
    """Also where nothing of those partitions has to be synced any more."""

    async def work():
        async with broker_and_client(tmp_path / "a") as (_, client):
            await client.create("t")
            await client.produce("t", "whole")
        (tmp_path / "a" / ".kafka_cleanshutdown").unlink()
        (tmp_path / "a" / "sync-failed").write_text("gone-0\n")
        async with broker_and_client(tmp_path / "a") as (broker, client):
            assert not broker.is_clean_start
            assert not (tmp_path / "a" / "sync-failed").exists()
            assert await client.read("t") == ["whole"]

    run(work())


async def five_in_flight(client):
    """Batches whose acknowledgements the producer may not have got: it sends them again, the first one first."""
    producer = await client.init()
    for n in range(5):
        await client.produce("t", f"{n}", producer=producer, sequence=n)

    async def retry(after):
        again = [await after.produce("t", f"{n}", producer=producer, sequence=n) for n in range(5)]
        assert [(each.error_code, each.base_offset) for each in again] == [(E.NONE, n) for n in range(5)]
        assert (await after.produce("t", "5", producer=producer, sequence=5)).error_code == E.NONE

    return retry


def test_what_was_in_flight_over_two_kills_in_a_row_is_recognised(tmp_path):
    """The second start does not read those batches again, and a snapshot knows only the last one."""

    async def work():
        async with broker_and_client(tmp_path / "a") as (_, client):
            await client.create("t")
            retry = await five_in_flight(client)
            killed(tmp_path / "a", tmp_path / "b")
        async with broker_and_client(tmp_path / "b"):
            killed(tmp_path / "b", tmp_path / "c")
        async with broker_and_client(tmp_path / "c") as (_, client):
            await retry(client)
            assert await client.read("t") == [str(n) for n in range(6)]

    run(work())


def test_what_was_in_flight_at_a_clean_stop_is_recognised(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            retry = await five_in_flight(client)
        async with broker_and_client(tmp_path) as (broker, client):
            assert broker.is_clean_start
            await retry(client)

    run(work())


def test_a_damaged_windows_file_is_said_and_costs_nothing_else(tmp_path, caplog):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            await five_in_flight(client)
        path = tmp_path / "producer-windows-checkpoint"
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        async with broker_and_client(tmp_path) as (_, client):
            assert await client.read("t") == [str(n) for n in range(5)]
        assert "not recognised when it is retried" in caplog.text

    run(work())


def test_a_torn_tail_is_cut_and_served_on(tmp_path):
    async def work():
        async with broker_and_client(tmp_path / "a") as (_, client):
            await client.create("t")
            await client.produce("t", "whole")
            killed(tmp_path / "a", tmp_path / "b")
        log = tmp_path / "b" / "t-0" / "00000000000000000000.log"
        log.write_bytes(log.read_bytes() + log.read_bytes()[:50])
        async with broker_and_client(tmp_path / "b") as (_, client):
            assert await client.read("t") == ["whole"]
            assert (await client.produce("t", "next")).base_offset == 1

    run(work())


def test_damage_below_the_recovery_point_keeps_only_that_partition_offline(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t", 2)
            await client.produce("t", "a" * 100)
            await client.produce("t", "b", partition=1)
        log = tmp_path / "t-0" / "00000000000000000000.log"
        data = bytearray(log.read_bytes())
        data[80] ^= 1
        log.write_bytes(data)
        (tmp_path / "t-0" / "00000000000000000001.snapshot").unlink()
        async with broker_and_client(tmp_path) as (broker, client):
            assert broker.partitions.is_offline(TopicPartition("t", 0))
            assert (await client.produce("t", "x")).error_code == E.KAFKA_STORAGE_ERROR
            assert (await client.produce("t", "x", partition=1)).error_code == E.NONE

    run(work())


def test_readers_get_what_lies_before_a_flipped_byte_and_are_told_where_it_is(tmp_path, caplog):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            for text in ("a", "b", "c", "d"):
                await client.produce("t", text)
        log = tmp_path / "t-0" / "00000000000000000000.log"
        data = bytearray(log.read_bytes())
        data[len(data) // 4 * 3 - 2] ^= 1  # the value of "c": its checksum is wrong, its header is not
        log.write_bytes(data)
        async with broker_and_client(tmp_path) as (broker, client):
            assert await client.read("t") == ["a", "b"]
            assert not broker.partitions.is_offline(TopicPartition("t", 0))
            for _ in range(2):
                reply = await client.call(fetch_request("t", 2, committed=True), 12)
                assert reply.responses[0].partitions[0].error_code == E.CORRUPT_MESSAGE
            assert await client.read("t", offset=3) == ["d"]
            assert broker.partitions.is_offline(TopicPartition("t", 0))
            servers = str(broker.advertised_address)
            async with Consumer("t", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
                assert [record.value for record in await consumer.poll(5000)] == [b"a", b"b"]
                with pytest.raises(CorruptRecord, match="t-0 at offset 2"):
                    await consumer.poll(5000)

    run(work())
    assert [r.message for r in caplog.records if "damaged at offset 2, readers stop there" in r.message][1:] == []


def test_a_directory_belongs_to_one_server(tmp_path):
    async def work():
        async with broker_and_client(tmp_path):
            with pytest.raises(StorageError, match="locked"):
                await Broker(str(tmp_path)).start()
        async with broker_and_client(tmp_path):
            pass
        with pytest.raises(ConfigInvalid, match="node 1"):
            await Broker(str(tmp_path), {"node.id": 2}).start()

    run(work())


REFUSED = [
    ({}, "127.0.0.1:{port}", "in use"),
    ({"oncelog.insecure.listeners": "true"}, "nohost.invalid:{port}", "cannot listen"),
    ({}, "0.0.0.0:{port}", "lets everybody in"),
    ({}, ("127.0.0.1:0", "127.0.0.1:{port}"), "in use"),
    ({"metrics.listen": "127.0.0.1:{port}"}, "127.0.0.1:0", "in use"),
]


async def refused(data, port, config, listen, why):
    listen = [each.format(port=port) for each in ([listen] if isinstance(listen, str) else listen)]
    config = {key: value.format(port=port) for key, value in config.items()}
    with pytest.raises((NetworkFailed, ConfigInvalid), match=why):
        await Broker(str(data), config, listen=listen).start()


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize(("config", "listen", "why"), REFUSED)
def test_a_start_that_is_refused_is_stopped_as_any_other(tmp_path, config, listen, why, is_killed):
    """The next one recovered everything, as after a crash."""

    async def work():
        data = tmp_path / "data"
        async with broker_and_client(data) as (_, client):
            await client.create("t", 1)
            await client.produce("t", "one")
            if is_killed:
                data = killed(data, tmp_path / "copy")
        async with broker_and_client(tmp_path / "other") as (other, _):
            for _ in range(2):
                await refused(data, other.advertised_address.port, config, listen, why)
                assert (data / ".kafka_cleanshutdown").exists()
        async with broker_and_client(data) as (broker, client):
            assert broker.is_clean_start
            assert await client.read("t") == ["one"]

    run(work())


@pytest.mark.parametrize(("config", "listen", "why"), REFUSED)
def test_a_first_start_that_is_refused_leaves_no_crash_behind(tmp_path, config, listen, why):
    """To share the new directory out to processes was refused: it had not been stopped in good order."""

    async def work():
        async with broker_and_client(tmp_path / "other") as (other, _):
            await refused(tmp_path / "new", other.advertised_address.port, config, listen, why)

    run(work())
    assert (tmp_path / "new" / ".kafka_cleanshutdown").exists()
    assert share_out(real_host(), str(tmp_path / "new"), 3) == 3


@pytest.mark.parametrize("is_killed", [False, True])
def test_damaged_metadata_stops_the_start(tmp_path, is_killed):
    """Cutting the log there would forget topics that exist, and their data would look like nobody's."""

    async def work():
        async with broker_and_client(tmp_path / "a") as (_, client):
            await client.create("t")
            killed(tmp_path / "a", tmp_path / "b")
        directory = tmp_path / ("b" if is_killed else "a")
        (log,) = (directory / "__cluster_metadata-0").glob("*.log")
        data = bytearray(log.read_bytes())
        data[70] ^= 1
        log.write_bytes(data)
        for snapshot in log.parent.glob("*.snapshot"):
            snapshot.unlink()
        for _ in range(2):
            with pytest.raises(DamagedLog, match="restore it from a copy"):
                await Broker(str(directory)).start()

    run(work())


@pytest.mark.parametrize("what", ["directory", "log"])
@pytest.mark.parametrize("is_killed", [False, True])
def test_metadata_that_is_gone_stops_the_start(tmp_path, is_killed, what):
    """A start without it would know no topic, and move the partitions aside as nobody's."""

    async def work():
        async with broker_and_client(tmp_path / "a") as (broker, client):
            await client.create("t")
            await client.produce("t", "one")
            broker.partitions.checkpoint()
            killed(tmp_path / "a", tmp_path / "b")
        directory = tmp_path / ("b" if is_killed else "a")
        metadata, kept = directory / "__cluster_metadata-0", tmp_path / "kept"
        shutil.copytree(metadata, kept)
        if what == "directory":
            shutil.rmtree(metadata)
        else:
            for log in metadata.glob("*.log"):
                log.unlink()
        for _ in range(2):
            with pytest.raises(DamagedLog, match=r"__cluster_metadata-0.*: restore it from a copy"):
                await Broker(str(directory)).start()
        shutil.rmtree(metadata, ignore_errors=True)
        shutil.copytree(kept, metadata)
        async with broker_and_client(directory) as (_, client):
            assert await client.read("t") == ["one"]

    run(work())


def test_a_torn_metadata_change_is_forgotten(tmp_path):
    async def work():
        async with broker_and_client(tmp_path / "a") as (_, client):
            await client.create("t")
            await client.create("torn")
            killed(tmp_path / "a", tmp_path / "b")
        (log,) = (tmp_path / "b" / "__cluster_metadata-0").glob("*.log")
        log.write_bytes(log.read_bytes()[:-5])
        async with broker_and_client(tmp_path / "b") as (broker, _):
            assert list(broker.metadata.topics) == ["t"]

    run(work())


def test_an_ephemeral_directory_is_removed(tmp_path):
    async def work():
        async with Broker() as broker:
            client = await Client.connect(broker)
            await client.create("t")
            await client.produce("t", "v")
            client.close()
            directory = broker.data_directory
        with pytest.raises(StorageError):
            broker.host.files.list(directory)

    run(work())


def test_directories_of_no_topic_are_moved_aside(tmp_path):
    async def work():
        (tmp_path / "left-3").mkdir()
        (tmp_path / "left-4.abc-delete").mkdir()
        (tmp_path / "left-\u00b2").mkdir()  # a digit that is no number of a partition: somebody else's
        async with broker_and_client(tmp_path):
            pass
        assert (tmp_path / "left-3-stray").exists()
        assert (tmp_path / "left-\u00b2").exists()
        assert not list(tmp_path.glob("*-delete"))

    run(work())


LONG = "x" * 249  # the longest name that a topic may have


def test_a_topic_of_the_longest_name_is_deleted_and_made_anew(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            for value in ("first", "second"):
                await client.create(LONG)
                await client.produce(LONG, value)
                if value == "first":
                    await client.call(DeleteTopicsRequest(topic_names=[LONG], timeout_ms=1000), 5)
        assert [each.name for each in tmp_path.glob("xxx*")] == [f"{LONG}-0"]
        async with broker_and_client(tmp_path) as (_, client):
            assert await client.read(LONG) == ["second"]

    run(work())


def test_a_directory_of_the_longest_name_is_moved_aside(tmp_path):
    async def work():
        (tmp_path / f"{LONG}-12345").mkdir()
        (tmp_path / f"{'x' * 243}-12345-stray").mkdir()
        async with broker_and_client(tmp_path):
            pass
        assert (tmp_path / f"{'x' * 241}-12345.1-stray").exists()

    run(work())


def flip_in_first_batch(directory):
    log = directory / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)


def test_a_damaged_partition_stays_damaged_over_further_starts(tmp_path):
    """Its recovery point outlives the checkpoints of a broker that could not open it; without it old data would be cut."""

    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            for value in "abc":
                await client.produce("t", value)
        flip_in_first_batch(tmp_path / "t-0")
        (tmp_path / ".kafka_cleanshutdown").unlink()
        size_bytes = (tmp_path / "t-0" / "00000000000000000000.log").stat().st_size
        for _ in range(2):
            async with broker_and_client(tmp_path) as (broker, _):
                assert broker.partitions.is_offline(TopicPartition("t", 0))
                broker.partitions.checkpoint()
            assert (tmp_path / "t-0" / "00000000000000000000.log").stat().st_size == size_bytes

    run(work())


@pytest.mark.parametrize("seed", range(8))
def test_an_index_of_aborted_transactions_that_was_changed_or_lost_is_built_anew(tmp_path, caplog, seed):
    """It has no checksum: without the clean stop's note nobody sees that records of an aborted transaction come back."""
    drawn = random.Random(seed)

    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            for number in range(4):
                producer = await client.init(f"x{number}")
                await client.produce(
                    "t", f"aborted {number}", producer=producer, sequence=0, transactional_id=f"x{number}"
                )
                await client.end(f"x{number}", producer, commit=False)
                await client.produce("t", f"kept {number}")
        kept = [f"kept {number}" for number in range(4)]
        for turn in range(2):
            path = tmp_path / "t-0" / "00000000000000000000.txnindex"
            good = path.read_bytes()
            if turn == 0 and seed < 2:
                path.unlink() if seed == 0 else path.write_bytes(b"")
            else:
                bad = bytearray(good)
                bad[drawn.randrange(len(bad))] ^= 1 << drawn.randrange(8)
                path.write_bytes(bad)
            caplog.clear()
            async with broker_and_client(tmp_path) as (broker, client):
                assert broker.is_clean_start
                assert await client.read("t", committed=True) == kept
                assert "; rebuilt" in caplog.text
            assert path.read_bytes() == good, turn
        async with broker_and_client(tmp_path) as (_, client):
            caplog.clear()
            assert await client.read("t", committed=True) == kept
            assert caplog.text == "", "nothing to say"

    run(work())


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_partition_whose_directory_is_gone_is_offline_until_it_is_put_back(tmp_path, caplog, is_clean):
    """Nobody reads nothing from it, and no start begins it anew: its recovery point says that it was there."""
    directory, kept = tmp_path / "data", tmp_path / "kept"

    async def work():
        async with broker_and_client(directory) as (_, client):
            for topic in ("t", "u"):
                await client.create(topic)
                for value in "abc":
                    await client.produce(topic, value)
        (directory / "t-0").rename(kept)
        for _ in range(2):
            if not is_clean:
                (directory / ".kafka_cleanshutdown").unlink(missing_ok=True)
            caplog.clear()
            async with broker_and_client(directory) as (broker, client):
                assert broker.partitions.is_offline(TopicPartition("t", 0))
                assert "t-0 is damaged and stays offline" in caplog.text
                assert "t-0: is missing, but it was synced up to 3" in caplog.text
                with pytest.raises(StorageError):
                    broker.partitions.find(TopicPartition("t", 0))
                assert await client.read("u") == ["a", "b", "c"]
                broker.partitions.checkpoint()
            assert not (directory / "t-0").exists()
        kept.rename(directory / "t-0")
        async with broker_and_client(directory) as (_, client):
            assert await client.read("t") == ["a", "b", "c"]

    run(work())


def test_a_partition_whose_directory_says_that_it_is_another_topics_is_offline_until_it_is_put_right(tmp_path, caplog):
    """It was moved aside, and the partition began anew at offset 0, with nothing to see."""
    directory = tmp_path / "data"

    async def work():
        async with broker_and_client(directory) as (_, client):
            for topic in ("t", "u"):
                await client.create(topic)
                for value in "abc":
                    await client.produce(topic, value)
        right = (directory / "t-0" / "partition.metadata").read_bytes()
        (directory / "t-0" / "partition.metadata").write_bytes((directory / "u-0" / "partition.metadata").read_bytes())
        for _ in range(2):
            caplog.clear()
            async with broker_and_client(directory) as (broker, client):
                assert broker.partitions.is_offline(TopicPartition("t", 0))
                assert "t-0: is missing, but it was synced up to 3" in caplog.text
                assert "t-0-stray had its name, and says that it is of another topic" in caplog.text
                with pytest.raises(StorageError):
                    broker.partitions.get(TopicPartition("t", 0))
                assert await client.read("u") == ["a", "b", "c"]
            assert not (directory / "t-0").exists()
        (directory / "t-0-stray").rename(directory / "t-0")
        (directory / "t-0" / "partition.metadata").unlink()
        async with broker_and_client(directory) as (_, client):
            assert await client.read("t") == ["a", "b", "c"]
        assert (directory / "t-0" / "partition.metadata").read_bytes() == right

    run(work())


def test_a_segment_that_is_too_much_is_named(tmp_path, caplog):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            for value in "abc":
                await client.produce("t", value)
        copy = tmp_path / "t-0" / f"{1:020d}.log"
        copy.write_bytes((tmp_path / "t-0" / f"{0:020d}.log").read_bytes())
        async with broker_and_client(tmp_path) as (broker, _):
            with pytest.raises(StorageError):
                broker.partitions.find(TopicPartition("t", 0))
            assert f"stop the broker: {copy} is too much (it begins with offset 0, " in caplog.text
        copy.unlink()
        async with broker_and_client(tmp_path) as (_, client):
            assert await client.read("t") == ["a", "b", "c"]

    run(work())


def test_a_file_where_a_partitions_directory_belongs_takes_that_partition_offline_alone(tmp_path, caplog):
    """No start came past it."""
    directory, kept = tmp_path / "data", tmp_path / "kept"

    async def work():
        async with broker_and_client(directory) as (_, client):
            for topic in ("t", "u"):
                await client.create(topic)
                for value in "abc":
                    await client.produce(topic, value)
        (directory / "t-0").rename(kept)
        (directory / "t-0").write_bytes(b"?")
        for _ in range(2):
            caplog.clear()
            async with broker_and_client(directory) as (broker, client):
                assert broker.partitions.is_offline(TopicPartition("t", 0))
                assert "t-0 cannot be opened and stays offline" in caplog.text
                assert await client.read("u") == ["a", "b", "c"]
                broker.partitions.checkpoint()
            assert (directory / "t-0").read_bytes() == b"?"
        (directory / "t-0").unlink()
        kept.rename(directory / "t-0")
        async with broker_and_client(directory) as (_, client):
            assert await client.read("t") == ["a", "b", "c"]

    run(work())


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_first_segment_that_is_gone_takes_its_partition_offline_until_it_is_put_back(tmp_path, caplog, is_clean):
    """The log start moved up in silence, and its readers with it."""
    directory, kept = tmp_path / "data", tmp_path / "kept"
    first = directory / "t-0" / f"{0:020d}.log"

    async def work():
        async with broker_and_client(directory) as (broker, client):
            await client.create("t")
            await client.create("u")
            for value in "abc":
                await client.produce("t", value)
                await client.produce("u", value)
                for name in "tu":
                    await broker.flusher.sync_all()
                    broker.partitions.find(TopicPartition(name, 0)).log.roll()
            broker.partitions.log_starts.delete_records(broker.partitions.find(TopicPartition("u", 0)), 2)
        first.rename(kept)
        for _ in range(2):
            if not is_clean:
                (directory / ".kafka_cleanshutdown").unlink(missing_ok=True)
            caplog.clear()
            async with broker_and_client(directory) as (broker, client):
                with pytest.raises(StorageError):
                    broker.partitions.find(TopicPartition("t", 0))
                assert broker.partitions.is_offline(TopicPartition("t", 0))
                assert "t-0: its first segment begins at offset 1, and its records began at 0: what lies" in caplog.text
                assert await client.read("u", offset=2) == ["c"]
                broker.partitions.checkpoint()
        kept.rename(first)
        async with broker_and_client(directory) as (_, client):
            assert [await client.read("t", offset=offset) for offset in range(3)] == [["a"], ["b"], ["c"]]

    run(work())


def test_without_the_checkpoint_of_log_starts_nobody_knows_where_logs_begin(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            for value in "abc":
                await client.produce("t", value)
                await broker.flusher.sync_all()
                broker.partitions.find(TopicPartition("t", 0)).log.roll()
            broker.partitions.log_starts.delete_records(broker.partitions.find(TopicPartition("t", 0)), 2)
        (tmp_path / "log-start-offset-checkpoint").unlink()
        async with broker_and_client(tmp_path) as (_, client):
            assert await client.read("t", offset=2) == ["c"]

    run(work())


def test_a_topic_whose_directory_is_gone_can_be_deleted_and_made_again(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            await client.produce("t", "old")
        shutil.rmtree(tmp_path / "t-0")
        async with broker_and_client(tmp_path) as (_, client):
            await client.call(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
            await client.create("t")
            await client.produce("t", "new")
        async with broker_and_client(tmp_path) as (_, client):
            assert await client.read("t") == ["new"]

    run(work())


def test_a_topic_made_anew_is_not_judged_by_the_old_ones_recovery_point(tmp_path):
    async def work():
        async with broker_and_client(tmp_path / "a") as (_broker, client):
            await client.create("t")
            for value in "abc":
                await client.produce("t", value)
        async with broker_and_client(tmp_path / "a") as (_, client):
            await client.call(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
            await client.create("t")
            await client.produce("t", "new")
            killed(tmp_path / "a", tmp_path / "b")
        log = tmp_path / "b" / "t-0" / "00000000000000000000.log"
        log.write_bytes(log.read_bytes() + b"torn")
        async with broker_and_client(tmp_path / "b") as (_, client):
            assert await client.read("t") == ["new"]

    run(work())


def test_a_damaged_checkpoint_file_refuses_the_start_in_one_line(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            await client.produce("t", "a")
        (tmp_path / "recovery-point-offset-checkpoint").write_text("0\nmany\n")
        with pytest.raises(StorageError, match=r"recovery-point-offset-checkpoint is damaged"):
            async with Broker(str(tmp_path)):
                pass

    run(work())


def test_a_damaged_coordinator_partition_makes_only_its_coordinator_unavailable(tmp_path):
    """Found at the start (a recovery that replays it) or at its load (after a clean stop)."""

    async def work():
        config = {"transaction_state_log_num_partitions": "4", "offsets_topic_num_partitions": "2"}
        async with broker_and_client(tmp_path / "a", **config) as (_, client):
            ids = {coordinator_partition(name, 4): name for name in map("id-{}".format, range(40))}
            for name in ids.values():
                await client.init(name)
        shutil.copytree(tmp_path / "a", tmp_path / "b")
        for directory in ("a", "b"):
            flip_in_first_batch(tmp_path / directory / "__transaction_state-2")
        (tmp_path / "b" / ".kafka_cleanshutdown").unlink()
        for directory in ("a", "b"):
            async with broker_and_client(tmp_path / directory, **config) as (broker, client):
                for index, name in ids.items():
                    reply = await client.call(
                        InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 4
                    )
                    assert reply.error_code == (E.NOT_COORDINATOR if index == 2 else E.NONE), (directory, index)
                assert broker.partitions.is_offline(TopicPartition("__transaction_state", 2))

    run(work())


def test_a_file_that_the_disk_refuses_ends_the_start_and_what_the_journal_has_is_kept(tmp_path):
    """Not damage: nobody knows what is in it, and the journal that may have it goes when a start is through."""

    async def work():
        async with broker_and_client(tmp_path / "a") as (_, client):
            for topic in ("t", "u"):
                await client.create(topic)
                await client.produce(topic, topic)
            directory = killed(tmp_path / "a", tmp_path / "b")
        segment = directory / "t-0" / f"{0:020d}.log"
        segment.rename(tmp_path / "kept")
        segment.mkdir()
        for _ in range(2):
            with pytest.raises(StorageError, match=r"cannot open .*t-0/0+\.log: Is a directory; .*and start again"):
                async with broker_and_client(directory):
                    pass
        segment.rmdir()
        (tmp_path / "kept").rename(segment)
        async with broker_and_client(directory) as (_, client):
            assert (await client.read("t"), await client.read("u")) == (["t"], ["u"])

    run(work())


def test_without_the_directory_that_the_disk_refuses_the_others_are_recovered(tmp_path):
    """docs/runbook.md, a start that ends at a file that the disk refuses."""

    async def work():
        async with broker_and_client(tmp_path / "a") as (broker, client):
            for topic in ("t", "u"):
                await client.create(topic)
                await client.produce(topic, topic)
        async with broker_and_client(tmp_path / "a") as (broker, client):
            for topic in ("t", "u"):
                await client.produce(topic, "in the journal")
            directory = killed(tmp_path / "a", tmp_path / "b")
        (directory / "t-0").rename(tmp_path / "elsewhere")
        async with broker_and_client(directory) as (broker, client):
            assert broker.partitions.offline_count == 1
            assert await client.read("u") == ["u", "in the journal"]

    run(work())
