"""The schedules D1-D8 of delayed messages, against the real broker, in the old protocol (TV1) and the new one (TV2).

D1 and D2 are the hole of the old protocol (KAFKA-17754): our checker must see it there, which shows that it would see it
anywhere; with the epoch bumped at every end (KIP-890) none of the eight does any harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from evidence.simulator.checkers.anomalies import check_history
from evidence.simulator.checkers.exactly_once import check_exactly_once
from evidence.simulator.checkers.log_oracle import check_logs
from evidence.simulator.checkers.raw_log import read_logs
from evidence.simulator.client_life import value_of
from evidence.simulator.cluster import ADDRESS, DATA, KEYS, Cluster
from evidence.simulator.faults import FaultOptions
from evidence.simulator.history import History, Outcome, Transaction
from evidence.simulator.raw_client import RawProducer
from evidence.world.disk import Disk
from evidence.world.doors import sim_host
from evidence.world.loop import Process, SimLoop, run_simulated
from oncelog.client.consumer.consumer import Consumer
from oncelog.errors import ErrorCode
from oncelog.types import ProducerIdAndEpoch, TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
NONE = ErrorCode.NONE
FENCED = {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH}
GROUP = "group"


class Story:
    """A cluster without faults, one producer, and what it believes to have done."""

    def __init__(self, loop: SimLoop, is_new: bool) -> None:
        self.is_new = is_new
        self.cluster = Cluster(loop, "story", replace(FaultOptions(), transaction_version=2 if is_new else 1))
        self.history = History(loop)
        self.process = Process(loop, "client")
        self.number = self.history.new_process()
        self.producer = RawProducer(self.cluster, self.process, "tid", is_new)
        self.findings: list[str] = []

    async def begin(self) -> None:
        assert await self.cluster.start_broker()
        broker, process = self.cluster.broker, self.cluster.broker_process
        assert broker is not None
        assert process is not None
        for topic in ("a", "b"):
            await process.start(broker.topics.create_automatically(topic))
        assert await self.producer.init() is NONE

    def transaction(self) -> Transaction:
        return self.history.begin(self.number)

    async def add(self, key: TopicPartition) -> None:
        if not self.is_new:
            assert await self.retried(lambda: self.producer.add(key)) is NONE

    async def retried(self, ask: Callable[[], Awaitable[ErrorCode]]) -> ErrorCode:
        while (code := await ask()) is ErrorCode.CONCURRENT_TRANSACTIONS:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        return code

    async def send(self, transaction: Transaction, key: TopicPartition) -> None:
        """One value, acknowledged."""
        await self.add(key)
        value = self.history.new_value(key)
        where = transaction.send(key, value)
        code, offset = await self.producer.produce(key, self.producer.batch(key, value))
        assert code is NONE
        where[0] = offset

    async def end(self, transaction: Transaction, commit: bool, *, expected: ErrorCode = NONE) -> None:
        assert await self.retried(lambda: self.producer.end(commit)) is expected
        self.history.end(transaction, Outcome.OK if commit else Outcome.FAIL)

    async def judge(self) -> None:
        """Wait for timeouts, then read everything, and let the checkers speak."""
        await asyncio.sleep(10)
        broker = self.cluster.broker
        assert broker is not None
        for partition in broker.partitions:
            rules = partition.rules
            if rules.last_stable_offset != rules.log_end_offset:
                self.findings.append(f"hanging: {partition.name}")
        read: dict[str, list[tuple[int, int]]] = {str(key): [] for key in KEYS}
        reader = Process(self.cluster.loop, "reader")
        await reader.start(self._read(reader, read))
        self.findings += check_history(self.history.lines)
        self.findings += check_exactly_once(self.history.transactions, read)
        self.findings += check_logs(read_logs(self.cluster.disk, DATA), is_final=True)
        self.findings += map(str, self.cluster.findings)

    async def _read(self, process: Process, read: dict[str, list[tuple[int, int]]]) -> None:
        host = sim_host(process, self.cluster.network, Disk(0), 0)
        number = self.history.new_process()
        async with Consumer(
            host=host, bootstrap_servers=ADDRESS, isolation_level="read_committed", auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign(KEYS)
            self.history.assigned(number, list(KEYS))
            ends = await consumer.end_offsets(KEYS)
            while any([await consumer.position(key) < ends[key] for key in KEYS]):
                transaction, records = self.history.begin(number), {}
                for record in await consumer.poll(500):
                    name, value = str(record.topic_partition), value_of(record.value)
                    records.setdefault(name, []).append([record.offset, value])
                    read[name].append((record.offset, value))
                transaction.poll(records)
                self.history.end(transaction, Outcome.OK)

    def committed_offset(self) -> int | None:
        broker = self.cluster.broker
        assert broker is not None
        for group in broker.groups.loaded():
            found = group.machine.offsets.get(GROUP, A)
            if found is not None:
                return found.offset
        return None


async def d1_commit_lands_in_the_next_transaction(story: Story) -> None:
    first, producer = story.transaction(), story.producer
    await story.send(first, A)
    late = producer.identity
    await story.end(first, commit=True)  # the retry; the first attempt is still on its way
    second = story.transaction()
    await story.send(second, A)
    code = await producer.end(True, late)
    assert code in (FENCED | {NONE} if story.is_new else {NONE})
    await story.send(second, B)
    await story.end(second, commit=False)


async def d2_abort_lands_in_a_transaction_that_commits(story: Story) -> None:
    first, producer = story.transaction(), story.producer
    await story.send(first, A)
    late = producer.identity
    await story.end(first, commit=False)
    second = story.transaction()
    await story.send(second, A)
    code = await producer.end(False, late)
    assert code in (FENCED | {NONE} if story.is_new else {NONE})
    await story.send(second, B)
    await story.end(second, commit=True)


async def d3_produce_lands_after_the_abort(story: Story) -> None:
    first, producer = story.transaction(), story.producer
    await story.send(first, A)
    value = story.history.new_value(A)
    first.send(A, value)
    late = producer.batch(A, value)
    await story.end(first, commit=False)
    code, _ = await producer.produce(A, late)
    assert code is not NONE


async def d4_produce_lands_inside_the_next_transaction(story: Story) -> None:
    first, producer = story.transaction(), story.producer
    await story.send(first, A)
    value = story.history.new_value(A)
    first.send(A, value)
    late, before = producer.batch(A, value), producer.identity
    await story.end(first, commit=False)
    if not story.is_new:
        # The old client, too, gets a new epoch after a batch whose fate is unknown (KIP-360).
        assert await story.retried(lambda: producer.init(before)) is NONE
    second = story.transaction()
    await story.send(second, A)
    code, _ = await producer.produce(A, late)
    assert code in FENCED
    await story.end(second, commit=True)


async def d5_add_partitions_lands_after_the_marker(story: Story) -> None:
    first, producer = story.transaction(), story.producer
    await story.send(first, A)
    late = producer.identity
    await story.end(first, commit=False)
    code = await story.retried(lambda: producer.add(B, late))
    # In the old protocol this begins a transaction nobody knows of; it writes nothing, and its timeout ends it.
    assert code in FENCED if story.is_new else code is NONE


async def d6_offsets_land_after_the_abort(story: Story) -> None:
    first, producer = story.transaction(), story.producer
    await story.send(first, A)
    late = producer.identity
    if not story.is_new:
        assert await producer.add_offsets(GROUP) is NONE
    await story.end(first, commit=False)
    second = story.transaction()
    await story.send(second, A)
    if not story.is_new:
        assert await producer.add_offsets(GROUP) is NONE
    assert await producer.commit_offset(GROUP, A, 3) is NONE
    await story.end(second, commit=True)
    await asyncio.sleep(0.5)
    code = await producer.commit_offset(GROUP, A, 99, late)
    assert code is not NONE
    await asyncio.sleep(0.5)
    assert story.committed_offset() == 3


async def d7_init_lands_after_a_newer_instance(story: Story) -> None:
    old = story.producer
    late = old.identity
    newer = story.producer = RawProducer(story.cluster, story.process, "tid", story.is_new)
    assert await newer.init() is NONE
    first = story.transaction()
    await story.send(first, A)
    assert await old.init(late) in FENCED
    assert old.identity == late
    await story.send(first, B)
    await story.end(first, commit=True)


async def d8_end_is_duplicated_across_a_failover(story: Story) -> None:
    first, producer = story.transaction(), story.producer
    await story.send(first, A)
    late = producer.identity
    await story.end(first, commit=True)
    story.cluster.end_broker()
    assert await story.cluster.start_broker()
    assert await story.retried(lambda: producer.end(True, late)) is NONE, "a retry gets the first answer again"
    second = story.transaction()
    await story.send(second, A)
    await story.send(second, B)
    if story.is_new:
        code = await producer.end(True, late)
        assert code in FENCED
    await story.end(second, commit=False)


STORIES = (
    d1_commit_lands_in_the_next_transaction,
    d2_abort_lands_in_a_transaction_that_commits,
    d3_produce_lands_after_the_abort,
    d4_produce_lands_inside_the_next_transaction,
    d5_add_partitions_lands_after_the_marker,
    d6_offsets_land_after_the_abort,
    d7_init_lands_after_a_newer_instance,
    d8_end_is_duplicated_across_a_failover,
)


def findings_of(tell: Callable[[Story], Awaitable[None]], is_new: bool) -> list[str]:
    async def main(loop: SimLoop) -> list[str]:
        story = Story(loop, is_new)
        await story.begin()
        await tell(story)
        await story.judge()
        return story.findings

    found: list[str] = run_simulated(7, main)
    return found


@pytest.mark.parametrize("tell", STORIES)
def test_the_new_protocol_is_safe_from_delayed_messages(tell: Callable[[Story], Awaitable[None]]) -> None:
    assert findings_of(tell, is_new=True) == []


@pytest.mark.parametrize("tell", STORIES[2:])
def test_verification_keeps_the_old_protocol_from_harm(tell: Callable[[Story], Awaitable[None]]) -> None:
    assert findings_of(tell, is_new=False) == []


@pytest.mark.parametrize(("tell", "anomalies"), [(STORIES[0], {"G1a"}), (STORIES[1], {"lost-write", "unseen"})])
def test_the_checker_sees_the_hole_of_the_old_protocol(
    tell: Callable[[Story], Awaitable[None]], anomalies: set[str]
) -> None:
    found = findings_of(tell, is_new=False)
    assert {text.partition(":")[0] for text in found} & anomalies, found


def test_an_identity_is_what_the_broker_said() -> None:
    async def main(loop: SimLoop) -> tuple[ProducerIdAndEpoch, ProducerIdAndEpoch]:
        story = Story(loop, is_new=True)
        await story.begin()
        before = story.producer.identity
        transaction = story.transaction()
        await story.send(transaction, A)
        await story.end(transaction, commit=True)
        return before, story.producer.identity

    before, after = run_simulated(7, main)
    assert after == ProducerIdAndEpoch(before.producer_id, before.producer_epoch + 1)
