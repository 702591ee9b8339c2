"""A disk that is full, or fails, at the n-th operation, once or from then on.

Nothing is acknowledged that is not durable; no request is left without an answer, and the answer names the storage; what
a failed partition held stays readable; it takes nothing more until a restart has recovered it,
also when the disk is well again; and that restart brings everything that was ever acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import dataclass, field
from typing import Any

import pytest

from evidence.crash.ledger import Ledger
from evidence.crash.power import new_broker, record, verify_on
from evidence.crash.power_workload import PARTITIONS, Script
from evidence.world.direct import Client, DirectNetwork
from evidence.world.files import Fault, Keep
from evidence.world.loop import run_simulated
from evidence.world.power_disk import PowerDisk
from evidence.world.requests import Refused, Session
from oncelog.broker.metadata.metadata_store import MetadataStore
from oncelog.broker.partitions.flusher import Flusher
from oncelog.broker.partitions.local_partition import LocalPartition
from oncelog.errors import ErrorCode, StorageError
from oncelog.log.partition_log import PartitionLog

LONG = int(os.environ.get("ONCELOG_LONG", "0"))
E = ErrorCode
# What a client may hear: the partition's own storage, or that of its coordinator or of the cluster's metadata.
STORAGE_ANSWERS = {E.KAFKA_STORAGE_ERROR, E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE, E.NOT_LEADER_OR_FOLLOWER}
STORAGE_ANSWERS |= {E.COORDINATOR_LOAD_IN_PROGRESS}  # Kafka's, where no block of producer ids can be reserved
# A transaction whose coordinator cannot finish it keeps its next one waiting.
# Produce says NOT_ENOUGH_REPLICAS where the coordinator cannot be asked (KIP-890: every client retries that).
CONSEQUENCES = {E.CONCURRENT_TRANSACTIONS, E.UNSTABLE_OFFSET_COMMIT, E.NOT_ENOUGH_REPLICAS}


@pytest.fixture(autouse=True)
def silent():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@dataclass
class Run:
    """One workload on a disk that fails."""

    disk: PowerDisk
    ledger: Ledger = field(default_factory=Ledger)
    refusals: list[Refused] = field(default_factory=list)
    operation_count: int = 0
    offline: set[str] = field(default_factory=set)
    is_started: bool = False
    broker: Any = None


def run_with(fault: Fault | None, operation: int = 0, *, is_sticky: bool = False, stops: bool = False) -> Run:
    """The small workload; the fault comes at the `operation`-th operation after the start."""
    run = Run(PowerDisk(operation))

    async def main(_: Any) -> None:
        network = DirectNetwork()
        broker = run.broker = new_broker(run.disk, network, operation)
        await broker.start()
        run.is_started = True
        if fault is not None:
            run.disk.fail_at(operation, fault, is_sticky=is_sticky)
        before = run.disk.operation_count
        script = Script(network, run.ledger)
        await script.run_small()
        run.operation_count = run.disk.operation_count - before
        run.refusals = script.refusals
        assert script.closed_count == 0, "a connection was closed instead of answered"
        assert broker.failure is not None
        assert not broker.failure.done(), f"a part of the broker died: {broker.failure.result()!r}"
        session = Session(await Client.connect(network))
        await still_readable(session, run)
        run.disk.heal()
        run.offline = {str(each.name) for each in broker.partitions if each.is_offline}
        await stays_offline(session, run)
        if stops:
            await stop(broker)

    run_simulated(operation, main)
    return run


async def still_readable(session: Session, run: Run) -> None:
    """What was acknowledged is read at its place, from a failed partition too; one that was never made says why."""
    for topic, partition in PARTITIONS:
        if topic not in run.ledger.topics:
            continue
        try:
            found = await session.read(topic, partition, committed=False)
        except Refused as refused:
            assert refused.code is E.KAFKA_STORAGE_ERROR, refused  # noqa: PT017
            opened = {str(each.name) for each in run.broker.partitions}
            assert f"{topic}-{partition}" not in opened, "only what could never be opened is refused"
            continue
        for (name, offset), value in run.ledger.records.items():
            assert name != f"{topic}-{partition}" or found.get(offset) == value, f"{name}@{offset}: {value} is not read"


async def stays_offline(session: Session, run: Run) -> None:
    """The disk is well again: a log whose write or sync failed must not go on."""
    for topic, partition in PARTITIONS:
        if f"{topic}-{partition}" in run.offline:
            with pytest.raises(Refused, match="KAFKA_STORAGE_ERROR"):
                await session.produce(topic, partition, ["too early"])


async def stop(broker: Any) -> None:
    try:
        await broker.stop()
    except StorageError:
        return


def check_fault(fault: Fault, operation: int, *, is_sticky: bool) -> Run:
    """The whole life of a fault, with the restart by a clean stop, a kill or a power cut in turn."""
    run = run_with(fault, operation, is_sticky=is_sticky, stops=operation % 3 == 0)
    for refused in run.refusals:
        assert refused.code in STORAGE_ANSWERS | CONSEQUENCES, refused
    if operation % 3 == 1:
        run.disk.kill()
    else:
        run.disk.crash(Keep.RANDOM)
    verify_on(run.disk, run.ledger, operation)
    return run


CASES = [(fault, is_sticky) for fault in Fault for is_sticky in (False, True)]


@pytest.mark.parametrize(("fault", "is_sticky"), CASES, ids=lambda value: str(getattr(value, "name", value)).lower())
def test_every_operation_fails(fault, is_sticky):
    count = run_with(None).operation_count
    assert count > 60
    refused_count = offline_count = 0
    step = 1 if LONG else 5
    for operation in range(1 + is_sticky * (step - 1), count + 1, step):
        try:
            run = check_fault(fault, operation, is_sticky=is_sticky)
        except (AssertionError, TimeoutError) as error:
            raise AssertionError(f"{fault.name} at operation {operation}, sticky {is_sticky}: {error!r}") from error
        refused_count += bool(run.refusals)
        offline_count += bool(run.offline)
    assert refused_count > count // (8 * step)
    assert offline_count > count // (8 * step)


@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name.lower())
def test_every_operation_of_a_restart_fails(fault):
    """The start says so, or goes on without what failed; the next one, on a disk that is well, has everything."""
    cut = record(5).cuts[-120]
    failed_count = 0
    for operation in range(1, 500, 1 if LONG else 7):
        disk = cut.disk.copy(operation)
        disk.crash(Keep.RANDOM)
        disk.fail_at(operation, fault, is_sticky=operation % 2 == 0)
        before = disk.operation_count
        failed_count += not start_only(disk, operation)
        if disk.operation_count - before < operation:
            break
        disk.heal()
        if operation % 3:
            disk.crash(Keep.RANDOM)
        else:
            disk.kill()
        try:
            verify_on(disk, cut.ledger.snapshot(), operation)
        except AssertionError as error:
            raise AssertionError(f"{fault.name} at operation {operation} of the restart: {error!r}") from error
    else:
        pytest.fail("the restart never ended")
    assert failed_count > 2


def start_only(disk: PowerDisk, seed: int) -> bool:
    """Start and go on for a while; False where the start says that the storage failed."""

    async def main(_: Any) -> bool:
        broker = new_broker(disk, DirectNetwork(), seed)
        try:
            await broker.start()
        except StorageError:
            return False
        await asyncio.sleep(0.5)
        assert broker.failure is not None
        assert not broker.failure.done(), f"a part of the broker died: {broker.failure.result()!r}"
        return True

    started: bool = run_simulated(seed, main)
    return started


# Every check can fail.


def faults_found(fault: Fault = Fault.SYNC_ERROR) -> str | None:
    for operation in range(1, 90):
        try:
            check_fault(fault, operation, is_sticky=False)
        except (AssertionError, TimeoutError) as error:
            return str(error)
    return None


def test_going_on_after_a_failed_sync_is_found(monkeypatch):
    """What fsync failed to write is lost for good, and a second fsync says all is well."""

    async def sync(self, partitions):
        for each in partitions:
            files, end_offset = each.files_to_sync(), each.log_end_offset
            for _ in range(2):
                try:
                    await self._syncer.sync(files)
                    break
                except StorageError:
                    continue
            each.synced(end_offset)

    monkeypatch.setattr(Flusher, "sync", sync)
    assert faults_found() is not None


def test_staying_online_after_a_failed_write_is_found(monkeypatch):
    monkeypatch.setattr(LocalPartition, "go_offline", lambda self, reason: None)
    monkeypatch.setattr(PartitionLog, "fail", lambda self, error: None)
    assert faults_found(Fault.DISK_FULL) is not None


def test_closing_the_connection_instead_of_answering_is_found(monkeypatch):
    async def append(self, records):
        await self.append(records)

    monkeypatch.setattr(MetadataStore, "append_or_refuse", append)
    failure = faults_found(Fault.IO_ERROR)
    assert failure is not None
    assert "closed instead of answered" in failure
