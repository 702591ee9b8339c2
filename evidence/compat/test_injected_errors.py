"""The cells of `client_rules.txt` live: a proxy makes a broker (oncelog, Apache Kafka) answer so, our producer goes on.

What is refused never reaches the broker, as with a broker that refuses it. In the end the topic holds what was committed, once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from evidence.compat.our_clients import SERVERS, World, run
from evidence.world.client_rules import CASES, RULES, expected_of, ours
from oncelog import Producer, TopicPartition, errors
from oncelog.errors import ErrorCode, KafkaError
from oncelog.testing import FaultyProxy

# Every line of the table, two of "retriable" and one of "else" that Kafka's brokers do answer.
CODES = [int(word) for row in RULES["errors"][1:] for word in row[0].split() if word.isdecimal()] + [3, 13, -1]
API = {
    "InitPid": "InitProducerId",
    "AddParts": "AddPartitionsToTxn",
    "AddOffsets": "AddOffsetsToTxn",
    "TxnOffsetCommit": "TxnOffsetCommit",
    "EndTxn commit": "EndTxn",
    "EndTxn abort": "EndTxn",
    "FindCoord": "FindCoordinator",
}


@pytest.fixture(params=SERVERS)
def server(request):
    return request.param


@dataclass
class Play:
    """One column, or Produce, played against one server; `committed` is what must be in the topic in the end."""

    world: World
    proxy: FaultyProxy
    topic: str
    committed: list[bytes] = field(default_factory=list)

    def producer(self, name: str | None) -> Producer:
        world = World(self.world.server, self.proxy.bootstrap_servers, self.world.name)
        return world.producer(name, retry_backoff_ms=1, retry_backoff_max_ms=50)

    async def transaction(
        self, producer: Producer, value: bytes, group: str | None = None, *, aborts: bool = False
    ) -> None:
        producer.begin_transaction()
        await producer.send(self.topic, value)
        if group is not None:
            await producer.send_offsets_to_transaction({TopicPartition(self.topic, 0): 1}, group)
        if aborts:
            await producer.flush()  # of what was not sent yet nobody is asked to end anything
            await producer.abort_transaction()
        else:
            await producer.commit_transaction()
            self.committed.append(value)

    async def cell(self, column: str, code: int) -> str:
        """The letter for what the producer does."""
        name = f"{column}-{code}"
        producer = self.producer(name)
        await producer.start()
        self.proxy.seen.clear()
        self.proxy.refuse(API[column], code)
        group = f"{self.world.name}-{name}" if column in ("AddOffsets", "TxnOffsetCommit", "FindCoord") else None
        try:
            if column == "InitPid":
                await producer.init_transactions()
            else:
                await self.transaction(producer, name.encode(), group, aborts=column == "EndTxn abort")
        except KafkaError as error:
            found = await self.after(producer, column, code, error)
        else:
            finds_without_fault = 0 if group is None else 1
            is_found_again = self.proxy.seen["FindCoordinator"] > finds_without_fault and column != "FindCoord"
            found = "C" if is_found_again else "R"
            await self.transaction(producer, b"next " + name.encode())
        assert self.proxy.pending_count == 0, f"{column} {code} was never asked"
        await producer.stop()
        if found in "FP":
            async with self.producer(name):  # ends what was left open
                pass
        return found

    async def after(self, producer: Producer, column: str, code: int, error: KafkaError) -> str:
        """What can still be done with a producer that met an error."""
        name = f"{column}-{code}"
        is_fenced = isinstance(error, errors.ProducerFenced) and column != "FindCoord"
        assert is_fenced or error.code in (code, ErrorCode.UNKNOWN_SERVER_ERROR)
        if column == "InitPid":
            try:
                await producer.init_transactions()
            except KafkaError:
                letter = "A"
            else:
                await self.transaction(producer, b"next " + name.encode())
                return "U"
        else:
            letter = "A"
        inits = self.proxy.seen["InitProducerId"]
        try:
            await producer.abort_transaction()
            if self.proxy.seen["InitProducerId"] > inits:
                letter = "A*"
            if column == "InitPid":
                await producer.init_transactions()
        except (KafkaError, errors.IllegalState):
            return "P" if is_fenced else "F"
        await self.transaction(producer, b"next " + name.encode())
        return letter


def play(server: str, level: int, scenario: Callable[[Play], Awaitable[None]]) -> None:
    async def main(world: World) -> None:
        topic = await world.topic()
        async with FaultyProxy(world.bootstrap) as proxy:
            if level == 1:
                proxy.report_feature("transaction.version", 1)
            played = Play(world, proxy, topic)
            async with played.producer(
                "warm"
            ) as producer:  # the coordinators' topics are made when they are first asked for
                await played.transaction(producer, b"warm", f"{world.name}-warm")
            await scenario(played)
        assert sorted(value for value in await world.values(topic) if value) == sorted(played.committed)

    main.__qualname__ = f"injected_{level}"
    run(server, main, **{"flush.policy": "os"})


@pytest.mark.parametrize(("column", "level"), CASES)
def test_errors_of_coordinators(server, column, level):
    async def scenario(played: Play) -> None:
        wrong = {}
        for code in CODES:
            found, expected = await played.cell(column, code), expected_of(column, code, level)
            if (server, column, level, code) == ("oncelog", "EndTxn commit", 2, ErrorCode.OPERATION_NOT_ATTEMPTED):
                expected = (
                    "R"  # to a commit right behind its records (docs/decisions/008): it goes again without a condition
                )
            if found != expected:
                wrong[code] = (expected, found)
        assert wrong == {}

    play(server, level, scenario)


# Lines of the table -> codes that a proxy can put into the answer to a first batch; the other lines need a history.
PRODUCE_CODES = {"retriable": "6 19", "45, first": "45", "59, otherwise": "59", "else": "10 120 -1"} | {
    label: label for label in ("46", "48", "31 53 90 35 49", "47")
}
PRODUCED = [
    (int(code), transactional, idempotent)
    for label, transactional, idempotent in RULES["produce"][1:]
    for code in PRODUCE_CODES.get(label, "").split()
]


@pytest.mark.parametrize("level", [1, 2])
def test_errors_of_batches_in_a_transaction(server, level):
    """46 says that the batch is stored, so the broker has it; all else it has never seen."""

    async def one(play: Play, code: int) -> str:
        name = f"batch-{code}"
        producer = play.producer(name)
        await producer.start()
        play.proxy.seen.clear()
        (play.proxy.misreport if code == 46 else play.proxy.refuse)("Produce", code)
        try:
            await play.transaction(producer, name.encode())
            found = "R" if play.proxy.seen["Produce"] == 2 else "done"
        except KafkaError as error:
            found = "TA" if error.code == ErrorCode.TRANSACTION_ABORTABLE != code else "A"
            try:
                await producer.abort_transaction()
            except KafkaError:
                found = "F"
            else:
                assert (play.proxy.seen["InitProducerId"] > 0) is (level == 1)  # the next epoch
        if found != "F":
            await play.transaction(producer, b"next " + name.encode())
        await producer.stop()
        if found == "F":
            async with play.producer(name):
                pass
        return found

    async def scenario(played: Play) -> None:
        wrong = {}
        for code, transactional, _ in PRODUCED:
            found, expected = await one(played, code), ours(transactional)
            if found != expected:
                wrong[code] = (expected, found)
        assert wrong == {}

    play(server, level, scenario)


def test_errors_of_batches_without_transactions(server):
    async def one(play: Play, code: int) -> str:
        async with play.producer(None) as producer:
            await producer.send_and_wait(play.topic, b"first %d" % code)
            play.committed.append(b"first %d" % code)
            play.proxy.seen.clear()
            (play.proxy.misreport if code == 46 else play.proxy.refuse)("Produce", code)
            before = producer._manager.identity
            try:
                await producer.send_and_wait(play.topic, b"second %d" % code)
            except KafkaError as error:
                told = error.code
            else:
                play.committed.append(b"second %d" % code)
                return "R" if play.proxy.seen["Produce"] == 2 else "done"
            assert told == code
            try:
                await producer.send_and_wait(play.topic, b"third %d" % code)
            except KafkaError:
                return "F"
            play.committed.append(b"third %d" % code)
            if producer._manager.identity.producer_id != before.producer_id:
                return "id"
            assert producer._manager.identity.producer_epoch == before.producer_epoch + 1
            return "bump"

    async def scenario(played: Play) -> None:
        wrong = {}
        for code, _, idempotent in PRODUCED:
            found, expected = await one(played, code), ours(idempotent)
            if found != expected:
                wrong[code] = (expected, found)
        assert wrong == {}

    play(server, 2, scenario)
