"""A retry is told of success no earlier than what it repeats is durable, and never after its sync failed.

The sync of the original is held back; the retry comes, perhaps over another connection; then a reader's question, which is
answered behind everything that could be answered without the sync.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from evidence.world.broker import Client, add_request, broker_and_client, run, until

from oncelog.errors import ErrorCode, StorageError
from oncelog.wire.messages.api_versions import ApiVersionsRequest
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from oncelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.broker.coordinators.test_transactions import end_request

E = ErrorCode
FAR = 60_000


class HeldSyncer:
    """The broker's syncer; while `is_holding` nothing that is asked for begins."""

    def __init__(self, syncer: Any) -> None:
        self._syncer = syncer
        self._gate = asyncio.Event()
        self._gate.set()
        self.failure: StorageError | None = None
        self.asked_count = 0

    def hold(self) -> None:
        self._gate.clear()
        self.asked_count = 0

    def release(self, failure: StorageError | None = None) -> None:
        self.failure = failure
        self._gate.set()

    async def sync(self, files: Any) -> None:
        self.asked_count += 1
        await self._gate.wait()
        if self.failure is not None:
            raise self.failure
        await self._syncer.sync(files)


class Waiting:
    """Two connections: one asks, the other asks again."""

    def __init__(self, broker: Any, first: Client, second: Client) -> None:
        self.broker, self.first, self.second = broker, first, second
        self.syncer = HeldSyncer(broker.flusher._syncer)
        broker.flusher._syncer = self.syncer
        self.asks_later = 0

    async def begun(self) -> None:
        """The original's sync was asked for, and is held back."""
        await until(lambda: self.syncer.asked_count > 0)

    async def a_while(self) -> None:
        """Questions on connections of their own, often enough that whoever could be answered was."""
        for _ in range(3):
            other = await Client.connect(self.broker)
            await other.call(ApiVersionsRequest(client_software_name="x", client_software_version="1"))
            other.close()

    async def nobody_is_answered(self) -> None:
        """Neither of the two has heard anything."""
        await self.a_while()
        for client in (self.first, self.second):
            assert client._protocol.frames.empty(), await client.receive()

    async def heard_refusal(self, code_of: Any) -> bool:
        """Whether the retry was told "later" meanwhile, the only answer that it may have."""
        if self.second._protocol.frames.empty():
            return False
        _, reply = await self.second.receive()
        assert E(code_of(reply)) is E.CONCURRENT_TRANSACTIONS, reply
        return True

    async def asked_twice(self, request: Any, version: int, code_of: Any, *, again: int = 1) -> list[ErrorCode]:
        """The codes of the original and its retries, whose sync is held back until all of them have come."""
        self.syncer.hold()
        self.first.send(request, version)
        await self.begun()
        await self.nobody_is_answered()
        for _ in range(again):
            self.second.send(request, version)
            await self.a_while()
            if await self.heard_refusal(code_of):
                self.asks_later += 1
        await self.nobody_is_answered()
        self.syncer.release()
        replies = [(await self.first.receive())[1]]
        replies += [(await self.second.receive())[1] for _ in range(again - self.asks_later)]
        codes = [E(code_of(reply)) for reply in replies]
        told_later = [
            code for code in codes if code is E.CONCURRENT_TRANSACTIONS
        ]  # with the outcome's commit, not before
        codes = [code for code in codes if code is not E.CONCURRENT_TRANSACTIONS]
        for _ in range(self.asks_later + len(told_later)):
            while (code := E(code_of(await self.second.call(request, version)))) is E.CONCURRENT_TRANSACTIONS:
                pass
            codes.append(code)
        return codes


@contextlib.asynccontextmanager
async def waiting(tmp_path: Any, **config: Any) -> AsyncIterator[Waiting]:
    async with broker_and_client(tmp_path, **config) as (broker, client):
        await client.create("t")
        await client.produce("t", "the partition is there")
        second = await Client.connect(broker)
        held = Waiting(broker, client, second)
        try:
            yield held
        finally:
            held.syncer.release()
            second.close()


def told(reply: Any) -> str:
    return reply.responses[0].partition_responses[0].error_message


def produced(reply: Any) -> int:
    return int(reply.responses[0].partition_responses[0].error_code)


@pytest.mark.parametrize("acks", [-1, 1])
def test_a_duplicate_waits_for_its_original(tmp_path, acks):
    async def work():
        async with waiting(tmp_path) as held:
            producer = await held.first.init()
            request = held.first.produce_request("t", "once", producer=producer, sequence=0, acks=acks)
            assert await held.asked_twice(request, 12, produced, again=2) == [E.NONE] * 3
            assert await held.first.read("t", offset=1) == ["once"]

    run(work())


def test_a_duplicate_of_one_that_asked_for_no_answer_waits_too(tmp_path):
    async def work():
        async with waiting(tmp_path) as held:
            producer = await held.first.init()
            held.syncer.hold()
            held.first.send(held.first.produce_request("t", "once", producer=producer, sequence=0, acks=0), 12)
            await held.begun()
            held.second.send(held.first.produce_request("t", "once", producer=producer, sequence=0), 12)
            await held.nobody_is_answered()
            held.syncer.release()
            assert produced((await held.second.receive())[1]) == E.NONE
            assert await held.second.read("t", offset=1) == ["once"]

    run(work())


def test_an_older_duplicate_waits_for_what_is_before_it_and_not_for_what_follows(tmp_path):
    """Four batches are in flight; the first of them is asked for again when its own sync is over and theirs is not."""

    async def work():
        async with waiting(tmp_path) as held:
            producer = await held.first.init()
            first = held.first.produce_request("t", "first", producer=producer, sequence=0)
            assert produced(await held.first.call(first, 12)) == E.NONE
            held.syncer.hold()
            for sequence in (1, 2, 3):
                held.first.send(held.first.produce_request("t", "later", producer=producer, sequence=sequence), 12)
            await held.begun()
            assert produced(await held.second.call(first, 12)) == E.NONE
            held.second.send(held.first.produce_request("t", "later", producer=producer, sequence=2), 12)
            await held.nobody_is_answered()
            held.syncer.release()
            for _ in range(3):
                assert produced((await held.first.receive())[1]) == E.NONE
            assert produced((await held.second.receive())[1]) == E.NONE

    run(work())


@pytest.mark.parametrize("acks", [-1, 1])
def test_after_a_failed_sync_no_retry_is_told_of_success(tmp_path, acks):
    async def work():
        async with waiting(tmp_path) as held:
            producer = await held.first.init()
            request = held.first.produce_request("t", "once", producer=producer, sequence=0, acks=acks)
            held.syncer.hold()
            held.first.send(request, 12)
            await held.begun()
            held.second.send(request, 12)
            await held.nobody_is_answered()
            held.syncer.release(StorageError("cannot sync: Input/output error"))
            why = "the partition is offline: cannot sync: Input/output error"
            for client in (held.first, held.second):
                _, reply = await client.receive()
                assert produced(reply) == E.KAFKA_STORAGE_ERROR
                assert told(reply) == f"the records could not be made durable: {why}"
            held.syncer.release()
            for _ in range(2):
                reply = await held.second.call(request, 12)
                assert produced(reply) == E.KAFKA_STORAGE_ERROR
                assert told(reply) == why
            assert await held.second.read("t", offset=1) == []

    run(work())


def test_a_duplicate_within_a_transaction_waits_for_its_original(tmp_path):
    async def work():
        async with waiting(tmp_path) as held:
            producer = await held.first.init("x")
            await held.first.produce("t", "first", producer=producer, sequence=0, transactional_id="x")
            request = held.first.produce_request("t", "once", producer=producer, sequence=1, transactional_id="x")
            assert await held.asked_twice(request, 12, produced, again=2) == [E.NONE] * 3

    run(work())


def test_a_marker_that_is_asked_for_again_waits(tmp_path):
    """As another coordinator's retry, or an operator's: each answer is behind a sync of its own marker."""

    async def work():
        async with waiting(tmp_path) as held:
            producer = await held.first.init("x")
            await held.first.produce("t", "aborted", producer=producer, sequence=0, transactional_id="x")
            marker = WritableTxnMarker(producer_id=producer[0], producer_epoch=producer[1], transaction_result=False)
            marker.topics = [WritableTxnMarkerTopic(name="t", partition_indexes=[0])]
            codes = await held.asked_twice(
                WriteTxnMarkersRequest(markers=[marker]),
                1,
                lambda reply: reply.markers[0].topics[0].partitions[0].error_code,
            )
            assert codes[0] == E.NONE

    run(work())


@pytest.mark.parametrize("version", [4, 5])
def test_an_end_that_is_asked_for_again_waits_for_its_outcome(tmp_path, version):
    async def work():
        async with waiting(tmp_path, add_partitions_to_txn_retry_backoff_max_ms=FAR) as held:
            producer = await held.first.init("x")
            await held.first.add("x", producer, "t")
            codes = await held.asked_twice(end_request("x", producer), version, lambda reply: reply.error_code)
            assert codes == [E.NONE, E.NONE]

    run(work())


@pytest.mark.parametrize("journal", ["on", "off"])
def test_an_end_whose_sync_failed_is_never_told_of_success(tmp_path, journal):
    async def work():
        async with waiting(tmp_path, journal=journal, add_partitions_to_txn_retry_backoff_max_ms=FAR) as held:
            producer = await held.first.init("x")
            await held.first.add("x", producer, "t")
            request = end_request("x", producer)
            held.syncer.hold()
            held.first.send(request, 5)
            await held.begun()
            held.second.send(request, 5)
            await held.a_while()
            is_told_later = await held.heard_refusal(lambda reply: reply.error_code)
            assert is_told_later is (journal == "off"), "with a journal even that waits: it tells of the outcome"
            held.syncer.release(StorageError("cannot sync: Input/output error"))
            assert (await held.first.receive())[1].error_code == E.NOT_COORDINATOR
            if not is_told_later:
                assert (await held.second.receive())[1].error_code == E.NOT_COORDINATOR
            held.syncer.release()
            assert (await held.second.call(request, 5)).error_code == E.NOT_COORDINATOR

    run(work())


def test_an_added_partition_that_is_asked_for_again_waits(tmp_path):
    """With a journal nobody waits: what is acknowledged of the transaction later lies behind it (test_coordinator.py)."""

    async def work():
        async with waiting(tmp_path, journal="off", add_partitions_to_txn_retry_backoff_max_ms=FAR) as held:
            producer = await held.first.init("x")

            def code_of(reply: Any) -> int:
                return int(reply.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

            assert await held.asked_twice(add_request("x", producer, "t"), 3, code_of) == [E.NONE, E.NONE]

    run(work())


def test_a_new_producer_epoch_that_is_asked_for_again_waits(tmp_path):
    """KIP-360: the same identity asks twice, and both hear the same new epoch once it is durable."""

    async def work():
        async with waiting(tmp_path, add_partitions_to_txn_retry_backoff_max_ms=FAR) as held:
            producer = await held.first.init("x")
            request = InitProducerIdRequest(
                transactional_id="x", transaction_timeout_ms=60_000, producer_id=producer[0], producer_epoch=producer[1]
            )
            heard = []

            def code_of(reply: Any) -> int:
                heard.append((reply.producer_id, reply.producer_epoch))
                return int(reply.error_code)

            assert await held.asked_twice(request, 4, code_of) == [E.NONE, E.NONE]
            assert heard == [(producer[0], producer[1] + 1)] * 2

    run(work())


def test_a_position_that_is_committed_again_waits(tmp_path):
    async def work():
        async with waiting(tmp_path) as held:
            where = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
            request = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=[where])])

            def code_of(reply: Any) -> int:
                return int(reply.topics[0].partitions[0].error_code)

            await held.first.call(request, 7)  # the group is there
            assert await held.asked_twice(request, 7, code_of) == [E.NONE, E.NONE]

    run(work())
