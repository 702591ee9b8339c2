"""A short scripted life of a real broker: everything that it promises to keep, kills, failed syncs, two clean ends. It is lived
twice, with the journal and without; with it more disks fail, and its segments are filled and used again.

Between two brokers the script leaves in the directory what a kill can leave at moments that no script can meet: a torn
tail, the midst of a swap, the mark of a failed sync, a directory without a topic.
"""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from evidence.crash import small_journal
from evidence.syscalls.logs import base_offset_of
from evidence.syscalls.observed import Observed
from evidence.world.broker import Client
from evidence.world.coordinator_workload import Workload
from oncelog.errors import ErrorCode
from oncelog.host.files import RealFiles
from oncelog.log.checkpoint_files import (
    CLEANED_OFFSETS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    offsets_from_bytes,
    offsets_to_bytes,
    partition_metadata_from_bytes,
)
from oncelog.log.failed_sync import MARKER
from oncelog.log.journal import COPIED_BYTES_MAX, FILE_PREFIX, SEGMENTS_KEPT
from oncelog.log.journal_entries import SEGMENT_HEADER_BYTES, segment_header_from_bytes
from oncelog.log.journal_reading import read_journal
from oncelog.types import TopicPartition
from oncelog.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from oncelog.wire.messages.api_versions import ApiVersionsRequest
from oncelog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from oncelog.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from oncelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from oncelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from oncelog.wire.record_batch import build_batch

E = ErrorCode
CONFIG: dict[str, object] = {
    "transaction.state.log.num.partitions": 1,
    "offsets.topic.num.partitions": 1,
    "transaction.two.phase.commit.enable": "true",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 50,
    "add.partitions.to.txn.retry.backoff.max.ms": 60_000,
    "group.consumer.assignment.interval.ms": 0,
    "group.consumer.session.timeout.ms": 60_000,
    "log.flush.offset.checkpoint.interval.ms": 40,
    "log.retention.check.interval.ms": 30,
    "log.cleaner.backoff.ms": 20,
    "log.segment.delete.delay.ms": 0,
}
HOUR_MS = 3_600_000
ROLLS = {  # a record of the next hour begins a new segment
    "segment_ms": "60000",
    "retention_ms": "-1",
    "message_timestamp_after_max_ms": str(2**60),
}
COMPACTED = {"cleanup_policy": "compact", **ROLLS}
TOPICS: dict[str, dict[str, str]] = {
    "table": {"min_cleanable_dirty_ratio": "0", **COMPACTED},
    "retained": {"retention_bytes": "200", **ROLLS},
    "rolled": ROLLS,
    "swapped": {"min_cleanable_dirty_ratio": "1", **COMPACTED},
    "announced": {"min_cleanable_dirty_ratio": "1", **COMPACTED},
    "half": {"min_cleanable_dirty_ratio": "1", **COMPACTED},
    "failing": ROLLS,
    "passing": {"retention_ms": "-1", "message_timestamp_after_max_ms": str(2**60)},
}
SWAPPED = ("swapped", "announced", "half")
SWAPPED_SEGMENTS = 2  # below the recovery point, as what the cleaner takes
BLOCK_OF_PRODUCER_IDS = 1000
CROWD, CROWDED_SYNCS = 9, 3


async def until(is_so: Callable[[], bool]) -> None:
    """Look again and again; what bounds it is the test's own timeout."""
    while not is_so():  # noqa: ASYNC110 - another process changes files, which is no event here
        await asyncio.sleep(0.005)


class Life:
    """One client's script; `journal` is the broker's own setting, on or off."""

    def __init__(self, observed: Observed, *, journal: str) -> None:
        self._observed = observed
        self._journal = journal
        self.client: Client
        self._clients: list[Client] = []
        self._first_ms = time.time_ns() // 1_000_000
        self._hours: dict[str, int] = {}
        self._puts: Counter[str] = Counter()  # rows

    async def run(self) -> None:
        """All of it; its connection is closed however it ends."""
        try:
            await self._run()
        finally:
            for each in self._clients:
                each.close()

    async def _run(self) -> None:
        await self._begin(CONFIG, has_small_journal=self._has_journal)
        await Workload(self.client).run()
        await self._topics()
        await self._records()
        await self._producer_ids()
        await self._administration()
        await self._deletion()
        await self._markers()
        await self._cleaning()
        await self._retention()
        if self._has_journal:
            await self._fill_the_journal()
            await self._crowd()
        await self._fill("rolled", 4)
        await self._fill("swapped", 5)
        await self._fill("announced", 5)
        await self._fill("half", 5)
        await self._fill("failing", 3)
        await until(lambda: min(self._recovery_point(topic) for topic in SWAPPED) >= SWAPPED_SEGMENTS)
        self._kill()
        self._leave_the_midst_of_things()
        await self._begin(CONFIG | {"log.cleaner.enable": "false"})
        await self._go_on()
        self._stop()
        await self._begin(
            CONFIG | {"metadata.log.max.record.bytes.between.snapshots": 600}, has_small_journal=self._has_journal
        )
        await self._administration()
        if self._has_journal:
            await self._fail_behind_the_journal()
            self._kill()
            await self._begin(CONFIG)
            await self._all_there("failing")
            await self._fail_the_journal()
        else:
            await self._fail()
        self._kill()
        await self._begin(CONFIG)
        await self._go_on()
        await self._fill("failing", 2)
        await self._all_there("failing")
        if self._has_journal:  # its data sync has moved the recovery point to the end, without a snapshot
            await until(lambda: self._recovery_point("failing") >= self._puts["failing"])
        self._stop()

    @property
    def _has_journal(self) -> bool:
        return self._journal == "on"

    async def _begin(self, config: dict[str, object], *, has_small_journal: bool = False) -> None:
        config = config | {"journal": self._journal}
        self.client = await self._observed.start(config, has_small_journal=has_small_journal)
        self._clients.append(self.client)
        await self.client.call(ApiVersionsRequest(client_software_name="life", client_software_version="1"))

    def _kill(self) -> None:
        self.client.close()
        self._observed.kill()

    def _stop(self) -> None:
        self.client.close()
        self._observed.stop()

    # what it asks for

    async def put(
        self, topic: str, *rows: tuple[str, str], producer: tuple[int, int] = (-1, -1), acks: int = -1, **options: Any
    ) -> Any:
        """One batch, an hour later than the one before; the partition's answer, None with acks=0."""
        self._hours[topic] = hour = self._hours.get(topic, 0) + 1
        self._puts[topic] += len(rows)
        name: str | None = options.get("name")
        batch = build_batch(
            [(self._first_ms + hour * HOUR_MS, key.encode(), value.encode(), ()) for key, value in rows],
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=options.get("sequence", -1),
            is_transactional=name is not None,
        )
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
        request = ProduceRequest(transactional_id=name, acks=acks, timeout_ms=30_000, topic_data=[data])
        if acks == 0:
            self.client.send(request, 12)
            return None
        part = (await self.client.call(request, 12)).responses[0].partition_responses[0]
        if part.error_code != E.NONE:
            self._puts[topic] -= len(rows)
        return part

    async def _fill(self, topic: str, count: int) -> None:
        for number in range(count):
            part = await self.put(topic, (f"k{number % 2}", f"{topic} {number} " + "x" * 80))
            assert part.error_code == E.NONE, part

    async def _topics(self) -> None:
        for name, configs in TOPICS.items():
            await self.client.create(name, **configs)

    async def _records(self) -> None:
        """Every kind of acknowledgement, a retry, and a reader."""
        await self.put("passing", ("k", "nobody asks"), acks=0)
        part = await self.put("passing", ("k", "the leader's"), acks=1)
        assert part.error_code == E.NONE
        producer = await self.client.init()
        request = self.client.produce_request("passing", "once", producer=producer, sequence=0)
        for _ in range(2):
            self.client.send(request, 12)
        first, second = [(await self.client.receive())[1].responses[0].partition_responses[0] for _ in range(2)]
        assert (first.error_code, second.error_code) == (E.NONE, E.NONE)
        assert first.base_offset == second.base_offset
        assert await self.client.read("passing")  # what lies in one segment

    async def _producer_ids(self) -> None:
        """Over the border of a block."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        for _ in range(BLOCK_OF_PRODUCER_IDS // 50):
            for _ in range(50):
                self.client.send(request, 4)
            for _ in range(50):
                assert (await self.client.receive())[1].error_code == E.NONE

    async def _administration(self) -> None:
        resource = AlterConfigsResource(resource_type=2, resource_name="passing")
        for number in range(3):
            resource.configs = [AlterableConfig(name="retention.ms", config_operation=0, value=str(10**12 + number))]
            reply = await self.client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
            assert reply.responses[0].error_code == E.NONE
            entry = EntryData(
                entity=[EntityData(entity_type="user", entity_name=f"user {number}")],
                ops=[OpData(key="producer_byte_rate", value=1e9)],
            )
            assert (await self.client.call(AlterClientQuotasRequest(entries=[entry]), 1)).entries[
                0
            ].error_code == E.NONE

    async def _deletion(self) -> None:
        """A topic under whose name there was another one; one that grows; records that are given up by hand."""
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="passing")], timeout_ms=1000)
        assert (await self.client.call(request, 6)).responses[0].error_code == E.NONE
        await until(lambda: not list(self._observed.data.glob("*-delete")))
        await self.client.create("passing", **TOPICS["passing"])
        grown = CreatePartitionsTopic(name="passing", count=2, assignments=None)
        reply = await self.client.call(CreatePartitionsRequest(topics=[grown], timeout_ms=1000), 3)
        assert reply.results[0].error_code == E.NONE, reply
        for number in range(4):
            await self.client.produce("passing", f"again {number}")
        part = DeleteRecordsPartition(partition_index=0, offset=2)
        topics = [DeleteRecordsTopic(name="passing", partitions=[part])]
        reply = await self.client.call(DeleteRecordsRequest(topics=topics, timeout_ms=1000), 2)
        assert reply.topics[0].partitions[0].error_code == E.NONE

    async def _markers(self) -> None:
        """An operator ends a transaction on one partition."""
        producer = await self.client.init("hanging")
        await self.client.produce("passing", "hanging", producer=producer, sequence=0, transactional_id="hanging")
        marker = WritableTxnMarker(producer_id=producer[0], producer_epoch=producer[1], transaction_result=False)
        marker.topics = [WritableTxnMarkerTopic(name="passing", partition_indexes=[0])]
        reply = await self.client.call(WriteTxnMarkersRequest(markers=[marker]), 1)
        assert reply.markers[0].topics[0].partitions[0].error_code == E.NONE

    def _bases(self, topic: str) -> list[int]:
        return sorted(base_offset_of(path.name) for path in (self._observed.data / f"{topic}-0").glob("*.log"))

    def _names(self, topic: str) -> list[str]:
        return [path.name for path in (self._observed.data / f"{topic}-0").iterdir()]

    def _checkpoint(self, name: str) -> dict[TopicPartition, int]:
        path = self._observed.data / name
        return offsets_from_bytes(path.read_bytes()) if path.exists() else {}

    def _recovery_point(self, topic: str, partition: int = 0) -> int:
        return self._checkpoint(RECOVERY_POINTS).get(TopicPartition(topic, partition), 0)

    async def _cleaning(self) -> None:
        """A table with an aborted transaction, cleaned."""
        producer = await self.client.init("tables")
        await self.put("table", ("k0", "aborted"), producer=producer, sequence=0, name="tables")
        reply = await self.client.end("tables", producer, commit=False)
        assert reply.error_code == E.NONE
        await self._fill("table", 8)
        table = TopicPartition("table", 0)
        await until(lambda: self._checkpoint(CLEANED_OFFSETS).get(table, 0) >= 8)
        await until(lambda: not any(name.endswith((".deleted", ".swap", ".cleaned")) for name in self._names("table")))

    async def _retention(self) -> None:
        await self._fill("retained", 6)
        await until(lambda: self._bases("retained")[0] >= 3)
        await until(lambda: not any(name.endswith(".deleted") for name in self._names("retained")))

    async def _all_there(self, topic: str) -> None:
        """What was acknowledged is read, over all segments."""
        found: list[str] = []
        end_offset = self._puts[topic]
        while len(found) < end_offset:
            more = await self.client.read(topic, offset=len(found))
            assert more, (topic, found, end_offset)
            found += more

    async def _go_on(self) -> None:
        """After a start everything is there and takes more; who was in a transaction ends it."""
        for topic in SWAPPED:
            await self._all_there(topic)
        for topic in TOPICS:
            part = await self.put(topic, ("k", "more"))
            assert part.error_code == E.NONE, (topic, part)
        workload = Workload(self.client)
        producer = await workload.init("open 2")
        await workload.write("open 2", producer, 0, protocol=2)
        for _ in range(2):  # and asks again
            await workload.end("open 2", producer, commit=True, protocol=2)

    async def _fail(self) -> None:
        """The disk refuses a sync: nobody is told of success, and the log is out of service."""
        trigger = self._observed.fail_next_sync("/failing-0/")
        part = await self.put("failing", ("k", "lost"))
        assert not trigger.exists(), "the sync of this batch was asked for"
        assert part.error_code == E.KAFKA_STORAGE_ERROR, part

    # with the journal

    def _first_sequences(self) -> list[int]:
        """Of the journal's segments, 0 for one that was not begun."""
        found = []
        for path in self._observed.data.glob(f"{FILE_PREFIX}*"):
            with contextlib.suppress(FileNotFoundError):  # it was just removed
                header = segment_header_from_bytes(path.read_bytes()[:SEGMENT_HEADER_BYTES])
                found.append(0 if header is None else header.first_sequence)
        return found

    async def _fill_the_journal(self) -> None:
        """A batch that is not copied into it as the first one of its partition, and as a later one; one that is as large as
        can be copied; more segments at once than are kept; then each of them is used again, or goes."""
        await self.client.create("large", 2, **ROLLS)  # type: ignore[arg-type]
        for partition in (0, 1, 0):
            part = await self.client.produce("large", "x" * COPIED_BYTES_MAX, partition=partition)
            assert part.error_code == E.NONE, part
        part = await self.put("large", ("k", "x" * COPIED_BYTES_MAX))  # in a segment of its own
        assert part.error_code == E.NONE, part
        requests = [self.client.produce_request("large", "y" * (COPIED_BYTES_MAX - 1000)) for _ in range(SEGMENTS_KEPT)]
        for request in requests:
            self.client.send(request, 12)
        for _ in requests:
            assert (await self.client.receive())[1].responses[0].partition_responses[0].error_code == E.NONE
        first = max(self._first_sequences())
        while min(self._first_sequences()) <= first or len(self._first_sequences()) > SEGMENTS_KEPT:
            part = await self.client.produce("large", "z" * 3000)
            assert part.error_code == E.NONE, part

    async def _crowd(self) -> None:
        """More partitions than are synced together, and a journal slower than they are: the last of them are synced later than
        the first, hold what came after theirs, and all of it is in their files before the journal has it."""
        await self.client.create("crowd", CROWD)
        for partition in range(CROWD):
            await self.client.produce("crowd", "a", partition=partition)
        with self._observed.slow_syncs(f"/{FILE_PREFIX}"):
            for _ in range(CROWDED_SYNCS):
                stored = self._recovery_point("crowd", CROWD - 1)
                while self._recovery_point("crowd", CROWD - 1) == stored:
                    for partition in (0, CROWD - 1):
                        self.client.send(self.client.produce_request("crowd", "b", partition=partition, acks=0), 12)
                    await asyncio.sleep(0.001)

    async def _fail_behind_the_journal(self) -> None:
        """The disk refuses a sync of a data file, after the answer: its partition takes nothing more, and the journal keeps what
        was acknowledged, however much comes after it."""
        trigger = self._observed.fail_next_sync(f"/failing-0/{self._puts['failing']:020d}.log")
        part = await self.put("failing", ("k", "kept"))
        assert part.error_code == E.NONE, part
        await until(lambda: MARKER in self._names("failing"))
        assert not trigger.exists(), "a sync of this batch was asked for"
        part = await self.put("failing", ("k", "refused"))
        assert part.error_code == E.KAFKA_STORAGE_ERROR, part
        await self._all_there("failing")
        for _ in range(SEGMENTS_KEPT * small_journal.SEGMENT_SIZE_BYTES // 3000):  # (they would be used again)
            part = await self.client.produce("large", "z" * 3000)
            assert part.error_code == E.NONE, part
            await asyncio.sleep(0.05)

    async def _fail_the_journal(self) -> None:
        """The disk refuses a sync of the journal: nobody is told of success, and nothing more is taken anywhere."""
        trigger = self._observed.fail_next_sync(f"/{FILE_PREFIX}")
        requests = [self.client.produce_request("large", "lost", partition=partition) for partition in (0, 1)]
        for request in requests:
            self.client.send(request, 12)
        for _ in requests:
            part = (await self.client.receive())[1].responses[0].partition_responses[0]
            assert part.error_code == E.KAFKA_STORAGE_ERROR, part
        assert not trigger.exists(), "the sync of these batches was asked for"
        for topic in TOPICS:
            part = await self.put(topic, ("k", "refused"))
            assert part.error_code == E.KAFKA_STORAGE_ERROR, (topic, part)
        await self._all_there("failing")

    # what a kill can leave

    def _leave_the_midst_of_things(self) -> None:
        data, place = self._observed.data, self._observed.place
        place(data / "passing-0" / MARKER, b"")
        self._observed.make_directory(data / "ghost-0")
        log = data / "t-0" / f"{0:020d}.log"
        place(log, log.read_bytes() + b"torn " * 20)
        self._tear_the_first_segment()
        self._leave_a_swap(data / "swapped-0")
        self._leave_a_swap(data / "announced-0", is_replaced=False)
        self._leave_a_swap(data / "half-0", is_replaced=False, is_announced=False)
        place(data / "table-0" / f"{99:020d}.log.deleted", b"")

    def _tear_the_first_segment(self) -> None:
        """Batches behind a torn one, in later segments: only without a recovery point are they no damage, and where the journal,
        which is used again sooner or later, does not know them any more."""
        if self._journal_names("rolled"):
            return
        path = self._observed.data / RECOVERY_POINTS
        rolled = TopicPartition("rolled", 0)
        self._observed.place(
            path, offsets_to_bytes({**offsets_from_bytes(path.read_bytes()), rolled: 0}), is_durable=True
        )
        second = self._observed.data / "rolled-0" / f"{self._bases('rolled')[1]:020d}.log"
        self._observed.place(second, second.read_bytes()[:-7])

    def _journal_names(self, topic: str) -> bool:
        data = self._observed.data
        topic_id = partition_metadata_from_bytes((data / f"{topic}-0" / PARTITION_METADATA).read_bytes())
        found = read_journal(RealFiles(), str(data))
        return found is not None and any(
            piece.topic_id == topic_id for entry in found.entries() for piece in entry.pieces
        )

    def _leave_a_swap(self, directory: pathlib.Path, *, is_replaced: bool = True, is_announced: bool = True) -> None:
        """The first two segments become one. It ends in the midst of its announcement, before the sync of that, or before
        the sync of the old ones' new names."""
        place, rename = self._observed.place, self._observed.rename
        bases = self._bases(directory.name.removesuffix("-0"))[:SWAPPED_SEGMENTS]
        logs = [directory / f"{base:020d}.log" for base in bases]
        place(directory / f"{logs[0].name}.cleaned", b"".join(path.read_bytes() for path in logs), is_durable=True)
        indexes = [logs[0].with_suffix(f".{suffix}") for suffix in ("index", "timeindex")]
        for path in indexes:
            place(directory / f"{path.name}.cleaned", path.read_bytes(), is_durable=True)
        for path in [logs[0], *indexes] if is_announced else [logs[0], indexes[0]]:
            rename(directory / f"{path.name}.cleaned", f"{path.name}.swap")
        if is_replaced or not is_announced:
            self._observed.sync_names(directory)
        for path in logs if is_replaced else ():
            for each in (path, path.with_suffix(".index"), path.with_suffix(".timeindex")):
                rename(each, f"{each.name}.deleted")
