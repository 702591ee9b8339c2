"""What a dual write costs: prepare and complete beside a plain commit, and PostgreSQL with a topic beside PostgreSQL alone.

The two ways of a pair take turns, so that a machine that is busy for a while hurts both alike.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

import psycopg
from evidence.world import postgresql

from bench.selection import Wanted
from bench.servers import Server, oncelog
from bench.table import Row
from oncelog import Producer
from oncelog.recipes import AsyncPsycopgDatabase, DualWriter, PsycopgDatabase, sync

ROUNDS = 300
WARM_UP = 30
INSERT = "INSERT INTO written VALUES (1, 'a row of a usual size, more or less')"
CREATE = "CREATE TABLE IF NOT EXISTS written (id bigint, what text)"


def in_turns(ways: dict[str, Callable[[], None]], between: Callable[[], object] | None = None) -> dict[str, float]:
    """The median milliseconds of each; `between` ends what one has left running, so that the next is not disturbed."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for i in range(WARM_UP + ROUNDS):
        for name, work in ways.items():
            started = time.perf_counter()
            work()
            if i >= WARM_UP:
                taken[name].append((time.perf_counter() - started) * 1000)
            if between is not None:
                between()
    return {name: statistics.median(samples) for name, samples in taken.items()}


async def in_turns_async(
    ways: dict[str, Callable[[], Awaitable[None]]], between: Callable[[], Awaitable[None]] | None = None
) -> dict[str, float]:
    """As `in_turns`."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for i in range(WARM_UP + ROUNDS):
        for name, work in ways.items():
            started = time.perf_counter()
            await work()
            if i >= WARM_UP:
                taken[name].append((time.perf_counter() - started) * 1000)
            if between is not None:
                await between()
    return {name: statistics.median(samples) for name, samples in taken.items()}


def prepared_and_plain(server: Server) -> dict[str, float]:
    """One record: begin, send, commit; begin, send, prepare, complete."""

    async def main() -> dict[str, float]:
        config = {"bootstrap_servers": server.bootstrap, "linger_ms": 0}
        async with (
            Producer(transactional_id="plain", **config) as plain,
            Producer(transactional_id="prepared", transaction_two_phase_commit_enable=True, **config) as prepared,
        ):

            async def commit() -> None:
                plain.begin_transaction()
                await plain.send("plain", b"x" * 100, partition=0)
                await plain.commit_transaction()

            async def prepare() -> None:
                prepared.begin_transaction()
                await prepared.send("prepared", b"x" * 100, partition=0)
                await prepared.complete_transaction(await prepared.prepare_transaction())

            return await in_turns_async({"plain": commit, "prepared": prepare})

    return asyncio.run(main())


RECORD = b"x" * 100
FIRST, LAST = "records first", "rows first"


def with_postgresql(server: Server, conninfo: str, count: int, order: str) -> dict[str, float]:
    """`count` rows alone, one statement each; as many rows and records, blocking; and one such dual write after another."""
    with psycopg.connect(conninfo, autocommit=True) as alone, PsycopgDatabase(conninfo) as database:
        alone.execute(CREATE)
        database.migrate()
        with sync.DualWriter(database, transactional_id="rows", bootstrap_servers=server.bootstrap) as writer:

            def row() -> None:
                with alone.transaction():
                    for _ in range(count):
                        alone.execute(INSERT)

            def both() -> None:
                with writer.transaction() as tx:
                    if order == FIRST:
                        tx.send_many("rows", [(None, RECORD)] * count, partition=0)
                    for _ in range(count):
                        tx.database.execute(INSERT)
                    if order == LAST:
                        tx.send_many("rows", [(None, RECORD)] * count, partition=0)

            taken = in_turns({"alone": row, "both": both}, between=writer.complete)
            return taken | in_turns({"back to back": both})  # each waits for the completion of the one before


def with_postgresql_async(server: Server, conninfo: str, count: int, order: str) -> dict[str, float]:
    """The same with asyncio."""

    async def main() -> dict[str, float]:
        alone = await psycopg.AsyncConnection.connect(conninfo, autocommit=True)
        async with alone, AsyncPsycopgDatabase(conninfo) as database:
            config = {"transactional_id": "rows-async", "bootstrap_servers": server.bootstrap}
            async with DualWriter(database, **config) as writer:

                async def row() -> None:
                    async with alone.transaction():
                        for _ in range(count):
                            await alone.execute(INSERT)

                async def both() -> None:
                    async with writer.transaction() as tx:
                        if order == FIRST:
                            await tx.send_many("rows", [(None, RECORD)] * count, partition=0)
                        for _ in range(count):
                            await tx.database.execute(INSERT)
                        if order == LAST:
                            await tx.send_many("rows", [(None, RECORD)] * count, partition=0)

                taken = await in_turns_async({"alone": row, "both": both}, between=writer.complete)
                return taken | await in_turns_async({"back to back": both})

    return asyncio.run(main())


def dual_writes(with_kafka: bool, _wanted: Wanted) -> list[Row]:
    """No released Apache Kafka has two-phase commit: there is nothing of it to compare with."""
    del with_kafka
    note = f"median of {ROUNDS}"
    with oncelog(transaction_two_phase_commit_enable="true") as server:
        pair = prepared_and_plain(server)
        what = "one-record transaction: prepare and complete"
        rows = [Row(what, "ms", pair["prepared"], pair["plain"], other_name="plain commit", aim=">= 0.67x", note=note)]
        if postgresql.why_not() is not None:
            return rows
        with postgresql.running() as database:
            for what, measure in (("", with_postgresql), (", asyncio", with_postgresql_async)):
                for count, order in ((1, FIRST), (20, FIRST), (20, LAST)):
                    took = measure(server, database.conninfo, count, order)
                    name = f"PostgreSQL and topic, {count} row{'s' * (count > 1)}, {order}{what}"
                    rows.append(Row(name, "ms", took["both"], took["alone"], "rows alone", aim=">= 0.5x", note=note))
                    rows.append(Row(f"{name}, back to back", "ms", took["back to back"], note=note))
    return rows
