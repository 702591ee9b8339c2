"""Producers under torture: idempotent, with transactions, with two-phase commit; and `oncelog.process`, cancelled while it runs.

What was told is compared with what is in the log: acknowledged or committed is there once, aborted is not, and of what was
cancelled before anybody was told it is all or nothing, once.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import Awaitable, Sequence
from typing import Any
from uuid import uuid4

import pyarrow as pa

from oncelog import Admin, Consumer, OffsetAndMetadata, Processor, Producer, TopicPartition
from oncelog.errors import IllegalState, KafkaError
from oncelog.types import PreparedTxnState

CONFIG = {"default_api_timeout_ms": 4000, "request_timeout_ms": 4000}
TIMES = {"max_block_ms": 4000, "delivery_timeout_ms": 6000, "linger_ms": 0}
LOOK_S = 0.02
SETTLED_S = 20.0
OPEN = {"Ongoing", "PrepareTransaction"}

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class Written:
    """Groups of values that were written together, and what was told of each: True, False, or nothing yet."""

    def __init__(self) -> None:
        self._groups: list[tuple[tuple[int, ...], bool | None]] = []
        self._values = itertools.count()

    def new(self, count: int) -> int:
        """A group that is going to be written; its number."""
        self._groups.append((tuple(itertools.islice(self._values, count)), None))
        return len(self._groups) - 1

    def values(self, number: int) -> tuple[int, ...]:
        """Its values."""
        return self._groups[number][0]

    def told(self, number: int, is_there: bool) -> None:
        """What was said of it."""
        self._groups[number] = self._groups[number][0], is_there

    def wrong(self, found: Sequence[int]) -> list[str]:
        """What the log has, compared with what was told."""
        counts, wrong = Counter(found), []
        for values, is_there in self._groups:
            seen = [counts.pop(value, 0) for value in values]
            if set(seen) not in ({0}, {1}) or (is_there is not None and seen[0] != is_there):
                wrong.append(f"{values} is there {seen} times, told was {is_there}")
        return wrong + [f"{value} was never written" for value in counts]


class ProducerSubject:
    """A producer without transactions. `put` is a record that is waited for."""

    is_transactional = False
    is_stop_cancelled = False

    def __init__(self) -> None:
        self.topic = f"torture-producer-{uuid4()}"
        self.other = f"{self.topic}-other"  # where records with wrong arguments go
        self.written = Written()
        rows = pa.record_batch({"value": pa.array([b"1", b"2"])})
        beside = {"key": b"k", "headers": [("h", b"1")], "partition": 0, "timestamp_ms": 1}
        self.calls: dict[str, Arguments] = {
            "put": ((), {}),
            "send": ((self.other, b"v"), beside),
            "send_nowait": ((self.other, b"v"), beside),
            "send_and_wait": ((self.other, b"v"), beside),
            "send_many": ((self.other, [(b"k", b"v"), (None, b"w")]), {"partition": 0}),
            "send_arrow": ((self.other, rows), {"partition": 0}),
            "flush": ((), {}),
            "send_soon": ((), {}),
            "purge": ((), {"in_queue": True, "in_flight": True}),
            "partitions_for": ((self.other,), {}),
            "metrics": ((), {}),
            "client_instance_id": ((), {}),
        }

    async def unstarted(self, bootstrap: str) -> Producer:
        self._bootstrap = bootstrap
        return self.again()

    def again(self) -> Producer:
        return Producer(bootstrap_servers=self._bootstrap, **CONFIG, **TIMES)

    async def start(self, bootstrap: str) -> None:
        async with Admin(bootstrap_servers=bootstrap) as admin:
            await admin.create_topics([self.topic, self.other])
        self.client = await self.unstarted(bootstrap)
        await self.client.start()

    def work(self, name: str) -> Awaitable[Any]:
        if name == "put":
            return self.put()
        arguments, named = self.calls[name]
        call: Awaitable[Any] = getattr(self.client, name)(*arguments, **named)
        return call

    async def put(self) -> None:
        """One record, and its acknowledgement."""
        number = self.written.new(1)
        (value,) = self.written.values(number)
        await self.client.send_and_wait(self.topic, b"%d" % value, partition=0)
        self.written.told(number, True)

    async def use(self) -> str:
        await self.put()
        return ""

    async def stop(self) -> None:
        await self.client.stop()
        found = await read_all(self._bootstrap, self.topic)
        assert not (wrong := self.written.wrong(found)), "; ".join(wrong)


class TransactionalSubject(ProducerSubject):
    """A producer with transactions; `put` is one, those by hand are whole, too. It is left inside of one."""

    is_transactional = True

    def __init__(self) -> None:
        super().__init__()
        here = TopicPartition(self.other, 0)
        self.calls |= {
            "begin_transaction": ((), {}),
            "init_transactions": ((), {"keep_prepared_txn": False}),
            "send_offsets_to_transaction": (({here: OffsetAndMetadata(0)}, f"{self.topic}-group"), {}),
            "prepare_transaction": ((), {}),
            "complete_transaction": ((PreparedTxnState("1:1"),), {}),
            "commit_transaction": ((), {}),
            "abort_transaction": ((), {}),
        }

    def again(self) -> Producer:
        more = {**self._more(), **CONFIG, **TIMES}
        return Producer(bootstrap_servers=self._bootstrap, transactional_id=self.topic, **more)

    def _more(self) -> dict[str, Any]:
        return {"transaction_timeout_ms": 600_000}  # nothing ends by itself while somebody looks

    def work(self, name: str) -> Awaitable[Any]:
        by_hand = {
            "put": self.put,
            "commit_transaction": self.commit,
            "abort_transaction": self.abort,
        }
        return by_hand[name]() if name in by_hand else super().work(name)

    async def settle(self) -> None:
        """What errors and documentation say for an interrupted call: the same again. Which end it was nobody knows here."""
        for again in (self.client.abort_transaction, self.client.commit_transaction):
            try:
                await again()
            except IllegalState as error:
                if "init_transactions timed out or was cancelled" in str(error):
                    await self.client.init_transactions()
                    return
            else:
                return

    async def put(self) -> None:
        """A whole transaction; it may begin wherever the one before was interrupted, but not inside of one."""
        await self.settle()
        number = self.written.new(2)
        async with self.client.transaction():
            await self._send(number)
        self.written.told(number, True)

    async def commit(self) -> None:
        """A transaction by hand."""
        await self.settle()
        number = self.written.new(2)
        self.client.begin_transaction()
        await self._send(number)
        await self._commit()
        self.written.told(number, True)

    async def abort(self) -> None:
        """One that nobody shall see."""
        await self.settle()
        number = self.written.new(2)
        self.written.told(number, False)
        self.client.begin_transaction()
        await self._send(number)
        await self.client.abort_transaction()

    async def _commit(self) -> None:
        await self.client.commit_transaction()

    async def _send(self, number: int) -> None:
        for value in self.written.values(number):
            await self.client.send(self.topic, b"%d" % value, partition=0)

    async def use(self) -> str:
        await self.put()
        self.client.begin_transaction()
        return ""

    async def stop(self) -> None:
        await self.client.stop()
        if self.is_stop_cancelled:  # what it left open is the next life's to end
            async with await self.unstarted(self._bootstrap):
                pass
        assert not (left := await left_open(self._bootstrap, self.topic)), f"its transaction is {left}"
        found = await read_all(self._bootstrap, self.topic)
        assert not (wrong := self.written.wrong(found)), "; ".join(wrong)


class TwoPhaseSubject(TransactionalSubject):
    """One that prepares, then completes; a prepared transaction is left to the next life, which is started here."""

    def _more(self) -> dict[str, Any]:
        return {"transaction_two_phase_commit_enable": True}

    async def _commit(self) -> None:
        state = await self.client.prepare_transaction()
        await self.client.complete_transaction(state)

    async def stop(self) -> None:
        await self.client.stop()
        async with await self.unstarted(self._bootstrap) as successor:
            with contextlib.suppress(IllegalState):  # nothing was kept
                await successor.abort_transaction()
        await super().stop()


async def left_open(bootstrap: str, transactional_id: str) -> str:
    """Its state, where that is open."""
    async with Admin(bootstrap_servers=bootstrap) as admin:
        try:
            found = (await admin.describe_transactions([transactional_id]))[transactional_id]
        except KafkaError:
            return ""
    state = str(getattr(found, "state", ""))
    return state if state in OPEN else ""


async def read_all(bootstrap: str, topic: str) -> list[int]:
    """Every committed value, once nothing that was decided is still to be written."""
    here, found = TopicPartition(topic, 0), list[int]()
    config = {"isolation_level": "read_committed", "auto_offset_reset": "earliest", "fetch_max_wait_ms": 20}
    async with Consumer(bootstrap_servers=bootstrap, **config) as consumer, asyncio.timeout(SETTLED_S):
        consumer.assign([here])
        end = (await consumer.end_offsets([here], isolation_level="read_uncommitted"))[here]
        while await consumer.position(here) < end:
            found += [int(record.value or b"-1") for record in await consumer.poll(50)]
    return found


class Copying:
    """`oncelog.process` of a topic's records, cancelled wherever it is; a second life does the rest."""

    RECORD_COUNT = 6

    def __init__(self) -> None:
        self.topic = f"torture-process-{uuid4()}"
        self.into = f"{self.topic}-out"

    async def start(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        async with Admin(bootstrap_servers=bootstrap) as admin:
            await admin.create_topics([self.topic, self.into])
        async with Producer(bootstrap_servers=bootstrap) as producer:
            await producer.send_many(self.topic, [(None, b"%d" % n) for n in range(self.RECORD_COUNT)], partition=0)

    async def run(self) -> None:
        """One life, to the end of the topic; two records in each transaction."""

        async def copy(record: Any) -> Any:
            await asyncio.sleep(0)
            return record.value

        await Processor(
            self.topic,
            into=self.into,
            group_id=self.topic,
            transactional_id=self.topic,
            transform=copy,
            transaction_records_max=2,
            transaction_interval_ms=0,
            transaction_timeout_ms=60_000,
            until_end=True,
            heartbeat_interval_ms=50,
            bootstrap_servers=self._bootstrap,
        ).run()

    async def wrong(self) -> list[str]:
        """What is wrong after the lives so far, and one more."""
        found = []
        if left := await left_open(self._bootstrap, self.topic):
            found.append(f"its transaction is {left}")
        await self.run()
        outputs = sorted(await read_all(self._bootstrap, self.into))
        if outputs != list(range(self.RECORD_COUNT)):
            found.append(f"outputs are {outputs}")
        return found


PRODUCERS: dict[str, Any] = {
    "producer": ProducerSubject,
    "producer with transactions": TransactionalSubject,
    "producer with two-phase commit": TwoPhaseSubject,
}
