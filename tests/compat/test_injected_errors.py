"""The cells of tests/core/client_rules.txt live: a proxy makes a broker (oncelog, Apache Kafka) answer so, our producer goes on.

What is refused never reaches the broker, as with a broker that refuses it. In the end the topic holds what was committed, once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from oncelog import Producer, TopicPartition, errors
from oncelog.errors import ErrorCode, KafkaError
from oncelog.testing import FaultyProxy
from tests.compat.our_clients import SERVERS, World, run
from tests.core.client_rules import CASES, RULES, expected_of

# Every line of the table, two of "retriable" and one of "else" that Kafka's brokers do answer.
CODES = [int(word) for row in RULES["errors"][1:] for word in row[0].split() if word.isdecimal()] + [3, 13, -1]
SHARE_SESSIONS = (122, 123, 133)
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
    run(server, main)


@pytest.mark.parametrize(("column", "level"), CASES)
def test_errors_of_coordinators(server, column, level):
    async def scenario(played: Play) -> None:
        wrong = {}
        for code in CODES:
            if code in SHARE_SESSIONS:
                continue
            found, expected = await played.cell(column, code), expected_of(column, code, level)
            if found != expected:
                wrong[code] = (expected, found)
        assert wrong == {}

    play(server, level, scenario)
