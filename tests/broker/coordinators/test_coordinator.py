"""A coordinator behind a journal: it goes on with what is appended, and tells nobody before the commit."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest
from evidence.world.broker import Client, keys, run, until
from evidence.world.files import Fault, Keep

from oncelog.broker.broker import Broker
from oncelog.broker.coordinators.coordinator import Coordinator, CoordinatorFailed
from oncelog.core.decision import Decision, MarkersToWrite
from oncelog.errors import ErrorCode
from oncelog.host.host import real_host
from oncelog.wire.messages.describe_transactions import DescribeTransactionsRequest
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from oncelog.wire.messages.list_transactions import ListTransactionsRequest
from tests.broker.network.test_drain import HeldSyncer
from tests.broker.partitions.journal_world import JournalWorld

E = ErrorCode
MARKERS: MarkersToWrite = "the markers"  # type: ignore[assignment]


class Machine:
    """Notes what it is told."""

    is_ahead = False

    def __init__(self):
        self.told = []

    def appended(self, records):
        self.told.append(("appended", *records))

    def apply(self, record):
        self.told.append(("apply", record))

    def failed(self, records):
        self.told.append(("failed", *records))


class Clock:
    def now_ms(self):
        return 0


class World:
    def __init__(self, *, applies_appended=True):
        self.applies_appended = applies_appended
        self.said = []

    async def start(self):
        self.journaled = JournalWorld()
        await self.journaled.start()
        self.partition = self.journaled.partition("a")
        self.machine = Machine()
        self.coordinator = Coordinator(
            self.partition,
            self.machine,
            Clock(),
            to_key_value=lambda record: (record.encode(), b""),
            markers=lambda markers: self.said.append(markers),
            replied=lambda token, reply: self.said.append((token, reply)),
            performed=lambda decision: self.said.append("performed"),
            applies_appended=self.applies_appended,
        )
        return self

    def begin(self, *records, waits=True, markers=(MARKERS,)):
        decision = Decision(records=records, reply="reply", markers=markers, replies=((5, "five"),))
        self.coordinator.perform_then(decision, lambda code: self.said.append(code), waits=waits)

    async def commit(self):
        await self.journaled.flusher.commit()
        await asyncio.sleep(0)

    def codes(self):
        return [said for said in self.take() if isinstance(said, E)]

    def take(self):
        said, self.said = self.said, []
        return said


def test_with_a_journal_markers_follow_at_once_and_the_answer_after_the_commit():
    async def work():
        world = await World().start()
        world.begin("r")
        assert world.machine.told == [("appended", "r"), ("apply", "r")]
        assert world.take() == [MARKERS, "performed"]
        await world.commit()
        assert world.take() == [E.NONE, (5, "five")]

    run(work())


def test_without_one_everything_follows_the_commit():
    async def work():
        world = await World(applies_appended=False).start()
        world.begin("r")
        assert (world.machine.told, world.take()) == ([("appended", "r")], [])
        await world.commit()
        assert world.machine.told == [("appended", "r"), ("apply", "r")]
        assert world.take() == [E.NONE, (5, "five"), MARKERS, "performed"]
        world.begin()
        assert world.take() == [E.NONE, (5, "five"), MARKERS, "performed"]
        await world.coordinator.committed()

    run(work())


def test_an_answer_without_records_waits_for_those_before_it():
    """It may tell what is applied and not committed: a power cut must not take that back."""

    async def work():
        world = await World().start()
        world.begin("r")
        world.take()
        world.begin()
        assert world.take() == [MARKERS, "performed"]
        await world.commit()
        assert world.take() == [E.NONE, (5, "five"), E.NONE, (5, "five")]
        world.begin()
        assert world.take() == [E.NONE, (5, "five"), MARKERS, "performed"], "there is nothing to wait for"

    run(work())


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        (lambda world: world.partition.go_offline("its disk is gone"), E.NOT_COORDINATOR),
        (lambda world: world.partition.go_away(), E.COORDINATOR_NOT_AVAILABLE),
    ],
    ids=["offline", "deleted"],
)
def test_so_does_one_of_a_machine_that_is_ahead_of_its_log(ends, told):
    """Groups and shares decide on what is appended, with a journal or without; all are told the same where the log fails."""

    async def work():
        world = await World(applies_appended=False).start()
        world.machine.is_ahead = True
        shown = begin_all(world)
        await asyncio.sleep(0)
        assert (world.codes(), shown.done()) == ([], False)
        await world.commit()
        await shown
        assert world.codes() == [E.NONE, E.NONE]
        shown = begin_all(world)
        await asyncio.sleep(0)
        ends(world)
        with pytest.raises(CoordinatorFailed) as failed:
            await shown
        assert (world.codes(), failed.value.error_code) == ([told, told], told)

    run(work())


def begin_all(world):
    """A decision with a record, one without, and who looks at the machine."""
    world.begin("r")
    world.begin()
    return asyncio.ensure_future(world.coordinator.committed())


def test_who_only_appends_behind_it_does_not_wait():
    async def work():
        world = await World().start()
        world.begin("r", waits=False)
        assert world.machine.told == [("appended", "r"), ("apply", "r")]
        assert world.take() == [E.NONE, (5, "five"), MARKERS, "performed"]
        world.begin(waits=False)
        assert world.take() == [E.NONE, (5, "five"), MARKERS, "performed"]

    run(work())


@pytest.mark.parametrize("records", [("r",), ()])
def test_a_journal_that_fails_sends_those_away_who_wait(records):
    async def work():
        world = await World().start()
        world.begin("before")
        world.take()
        world.begin(*records)
        world.take()
        world.journaled.files.fail_at(1, Fault.SYNC_ERROR)
        await world.commit()
        assert world.take() == [E.NOT_COORDINATOR, (5, None)] * 2
        world.begin(*records)
        assert world.take() == [E.NOT_COORDINATOR, (5, None), "performed"], "what is applied may never be durable"
        with pytest.raises(CoordinatorFailed):
            await world.coordinator.committed()

    run(work())


def test_an_append_that_fails_applies_nothing():
    async def work():
        world = await World().start()
        world.journaled.files.fail_at(1, Fault.IO_ERROR)
        world.begin("r")
        assert world.machine.told == [("failed", "r")]
        assert world.take() == [E.NOT_COORDINATOR, (5, None), "performed"]

    run(work())


def test_what_the_machine_shows_is_waited_for():
    async def work():
        world = await World().start()
        world.begin("r")
        shown = asyncio.ensure_future(world.coordinator.committed())
        await asyncio.sleep(0)
        assert not shown.done()
        await world.commit()
        await shown
        world.journaled.files.crash(Keep.NONE)
        await world.journaled.start()
        assert list(world.journaled.ends().values()) == [1]

    run(work())


@pytest.mark.parametrize(
    "request_of", [lambda: DescribeTransactionsRequest(transactional_ids=["x"]), ListTransactionsRequest]
)
def test_nobody_is_told_of_a_transaction_before_its_record_is_synced(tmp_path, request_of):
    async def work():
        host = real_host()
        syncer = HeldSyncer(host.syncer)
        settings = keys({"journal": "on", "transaction_state_log_num_partitions": 1})
        broker = Broker(str(tmp_path), settings, dataclasses.replace(host, syncer=syncer))
        await broker.start()
        client, other = await Client.connect(broker), await Client.connect(broker)
        await client.create("t")
        await client.init("x")
        syncer.is_held = True
        client.send(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 5)
        await until(lambda: syncer.waiting >= 1)
        other.send(request_of())
        asked = asyncio.ensure_future(other.receive())
        done, _ = await asyncio.wait([asked], timeout=0.1)
        assert not done, "what it would tell is not synced"
        syncer.is_held = False
        syncer.go.set()
        await asked
        await client.receive()
        for each in (client, other):
            each.close()
        await broker.stop()
        host.syncer.close()

    run(work())
