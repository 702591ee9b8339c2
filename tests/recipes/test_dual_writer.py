"""The asyncio writer with PostgreSQL, through psycopg and SQLAlchemy: together, fenced, cancelled, found out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from evidence.world.postgresql import PostgreSql
from evidence.world.stores import INSERT, ROWS, written
from evidence.world.topics import values_of
from sqlalchemy.ext.asyncio import create_async_engine

from oncelog import Producer
from oncelog.client.interceptors import ProducerInterceptor
from oncelog.core.two_phase import dual_write as core
from oncelog.errors import ConfigurationError, IllegalState, InstanceFenced, RequestTimedOut
from oncelog.recipes import AsyncDatabase, AsyncPsycopgDatabase, AsyncSqlAlchemyDatabase, DualWriter, Outcome
from oncelog.recipes.database import TABLE
from oncelog.testing import assert_committed_once
from oncelog.types import PreparedTxnState
from tests.test_examples import example


@asynccontextmanager
async def opened(kind: str, server: PostgreSql) -> AsyncIterator[AsyncDatabase[Any]]:
    if kind == "psycopg":
        async with AsyncPsycopgDatabase(server.conninfo, stall_limit_ms=500) as database:
            await database.migrate()
            yield database
    else:
        engine = create_async_engine(server.url)
        alchemy = AsyncSqlAlchemyDatabase(engine, stall_limit_ms=500)
        await alchemy.migrate()
        yield alchemy
        await engine.dispose()


async def put(writer: DualWriter[Any], name: str, value: int, begun: list[Any] | None = None) -> None:
    async with writer.transaction() as tx:
        if begun is not None:
            begun.append(tx)
        if isinstance(tx.database, psycopg.AsyncConnection):
            await tx.database.execute(INSERT, (name, value))
        else:
            await tx.database.execute(sa.insert(written).values(transactional_id=name, value=value))
        await tx.send(name, b"%d" % value, partition=0)


def rows(server: PostgreSql, name: str) -> list[int]:
    with psycopg.connect(server.conninfo) as connection:
        return [value for (value,) in connection.execute(ROWS, (name,))]


@pytest.fixture(params=["psycopg", "sqlalchemy"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_rows_and_records_are_written_together(kind: str, postgres: PostgreSql, broker: str, name: str) -> None:
    async def main() -> None:
        async with opened(kind, postgres) as database:
            async with DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer:
                await asyncio.gather(*(put(writer, name, value) for value in range(5)))
                with pytest.raises(ZeroDivisionError):
                    async with writer.transaction() as tx:
                        await tx.send(name, b"9", partition=0)
                        await tx.prepare()
                        raise ZeroDivisionError
                with pytest.raises(IllegalState, match="in this task"):
                    async with writer.transaction(), writer.transaction():
                        pass
                await put(writer, name, 5)
            stored = await database.read(name)
            assert stored is not None
            assert (await database.read_all())[name] == stored
            assert await database.take_over(name, stored.instance_version + 1) is None

    asyncio.run(main())
    assert sorted(values_of(broker, name)) == rows(postgres, name) == [0, 1, 2, 3, 4, 5]


def test_a_missing_table_names_what_makes_it(kind: str, postgres: PostgreSql, broker: str, name: str) -> None:
    nowhere = "-csearch_path=nowhere"  # a schema without tables

    async def main() -> None:
        engine = create_async_engine(postgres.url, connect_args={"options": nowhere})
        database: AsyncDatabase[Any] = AsyncSqlAlchemyDatabase(engine)
        if kind == "psycopg":
            database = AsyncPsycopgDatabase(f"{postgres.conninfo} options={nowhere}")
        with pytest.raises(ConfigurationError, match=r"call migrate\(\)") as told:
            await DualWriter(database, transactional_id=name, bootstrap_servers=broker).start()
        assert isinstance(told.value.__cause__, database.errors)
        await database.close()
        await engine.dispose()

    asyncio.run(main())


def test_a_transaction_that_sql_text_has_ended_is_refused(
    kind: str, postgres: PostgreSql, broker: str, name: str
) -> None:
    async def main() -> None:
        async with (
            opened(kind, postgres) as database,
            DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer,
        ):
            with pytest.raises(IllegalState, match="was ended by"):
                async with writer.transaction() as tx:
                    await tx.send(name, b"0", partition=0)
                    await tx.database.execute("ROLLBACK" if kind == "psycopg" else sa.text("ROLLBACK"))
                    if kind == "sqlalchemy":  # psycopg begins another one by itself
                        await tx.database.execute(sa.insert(written).values(transactional_id=name, value=0))
            await put(writer, name, 1)

    asyncio.run(main())
    assert values_of(broker, name) == rows(postgres, name) == [1]


def test_a_writer_that_was_stopped_is_started_anew(kind: str, postgres: PostgreSql, broker: str, name: str) -> None:
    async def main() -> None:
        async with opened(kind, postgres) as database:
            writer = DualWriter(database, transactional_id=name, bootstrap_servers=broker)
            for value in range(2):
                await writer.start()
                await put(writer, name, value)
                await writer.stop()
                for _ in range(2):
                    with pytest.raises(IllegalState, match=r"call start\(\)"):
                        await put(writer, name, 9)
            async with DualWriter(database, transactional_id=name, bootstrap_servers=broker):
                with pytest.raises(InstanceFenced, match="start a new DualWriter"):
                    await writer.start()

    asyncio.run(main())
    assert values_of(broker, name) == rows(postgres, name) == [0, 1]


@pytest.mark.parametrize(("more", "expected"), [({}, 1), ({"linger_ms": 5}, 0)])
def test_records_that_are_sent_without_a_pause_travel_together_while_rows_are_written(
    postgres: PostgreSql, broker: str, name: str, more: dict[str, int], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[object] = []

    async def main() -> None:
        async with (
            opened("psycopg", postgres) as database,
            DualWriter(database, transactional_id=name, bootstrap_servers=broker, **more) as writer,
        ):
            await put(writer, name, 0)  # the topic is known now
            monkeypatch.setattr(Producer, "send_soon", lambda producer: heard.append(producer))
            async with writer.transaction() as tx:
                for value in range(3):
                    await tx.send(name, b"%d" % value, partition=0)
                assert heard == []
                await tx.database.execute(INSERT, (name, 1))
                assert len(heard) == expected

    asyncio.run(main())


def test_a_writer_starts_the_producer_that_it_was_made_with(postgres: PostgreSql, broker: str, name: str) -> None:
    """Its interceptors live as long as the writer: none is made, or closed, beside them."""
    heard: list[str] = []

    class Hears(ProducerInterceptor):
        def __init__(self) -> None:
            heard.append("made")

        def close(self) -> None:
            heard.append("closed")

    async def main() -> None:
        async with opened("psycopg", postgres) as database:
            writer = DualWriter(database, transactional_id=name, bootstrap_servers=broker, interceptor_classes=Hears)
            assert heard == ["made"]
            async with writer:
                await put(writer, name, 0)
                await writer.complete()
                assert heard == ["made"]
        assert heard == ["made", "closed"]

    asyncio.run(main())


def test_a_cancelled_commit_is_found_out_by_the_next_call(
    kind: str, postgres: PostgreSql, broker: str, name: str
) -> None:
    async def main() -> None:
        async with opened(kind, postgres) as database:
            asked = asyncio.Event()
            begin = database.begin

            async def slow() -> Any:
                transaction = await begin()
                commit = transaction.commit

                async def late() -> None:
                    await commit()
                    asked.set()
                    await asyncio.Event().wait()

                transaction.commit = late  # type: ignore[method-assign]
                return transaction

            async with DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer:
                await put(writer, name, 0)
                database.begin = slow  # type: ignore[method-assign]
                async with asyncio.TaskGroup() as tasks:
                    begun: list[Any] = []
                    task = tasks.create_task(put(writer, name, 1, begun))
                    await asked.wait()
                    task.cancel()
                assert begun[0].outcome is Outcome.UNKNOWN
                database.begin = begin  # type: ignore[method-assign]
                assert await writer.recover() is Outcome.COMMITTED
                await put(writer, name, 2)
                assert begun[0].outcome is Outcome.COMMITTED, "of that one, not of the last"

    asyncio.run(main())
    assert values_of(broker, name) == rows(postgres, name) == [0, 1, 2]


@asynccontextmanager
async def writing(
    kind: str, server: PostgreSql, broker: str, name: str
) -> AsyncIterator[tuple[AsyncDatabase[Any], DualWriter[Any]]]:
    async with (
        opened(kind, server) as database,
        DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer,
    ):
        yield database, writer


class SlowRecords:
    """A flush that ends when it is told, as records do that take their time; `failing`: they are not acknowledged."""

    def __init__(self, *, failing: bool = False) -> None:
        self.travels, self.arrives, self.failing = asyncio.Event(), asyncio.Event(), failing

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        flush = Producer.flush

        async def slow(producer: Producer) -> None:
            self.travels.set()
            await self.arrives.wait()
            if self.failing:
                raise RequestTimedOut("they did not arrive")
            await flush(producer)

        monkeypatch.setattr(Producer, "flush", slow)


def stored(server: PostgreSql, name: str) -> tuple[str, bool]:
    """The committed state, and whether somebody has the row."""
    one = f"SELECT prepared_transaction_state FROM {TABLE} WHERE transactional_id = %s"
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        state = connection.execute(one, (name,)).fetchone()
        free = connection.execute(f"{one} FOR UPDATE SKIP LOCKED", (name,)).fetchone()
        assert state is not None
        return state[0], free is None


@pytest.mark.parametrize("failing", [False, True])
def test_the_state_is_stored_while_records_travel_and_the_database_commits_behind_them(
    kind: str, failing: bool, postgres: PostgreSql, broker: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with writing(kind, postgres, broker, name) as (_, writer):
            await put(writer, name, 0)
            await writer.complete()
            before, is_held = stored(postgres, name)
            assert before
            assert not is_held
            records = SlowRecords(failing=failing)
            with monkeypatch.context() as patch:
                records.patch(patch)
                task = asyncio.ensure_future(put(writer, name, 1))
                await records.travels.wait()
                assert stored(postgres, name) == (before, True)
                assert rows(postgres, name) == [0]
                records.arrives.set()
                if failing:
                    with pytest.raises(RequestTimedOut):
                        await task
                    assert stored(postgres, name) == (before, False)
                await asyncio.wait((task,))
            assert await writer.recover() is (Outcome.ROLLED_BACK if failing else Outcome.COMMITTED)
            await put(writer, name, 2)

    asyncio.run(main())
    assert values_of(broker, name) == rows(postgres, name) == ([0, 2] if failing else [0, 1, 2])


def test_records_that_take_longer_than_a_session_may_be_idle_are_waited_for(
    kind: str, postgres: PostgreSql, broker: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        records, hold_count = SlowRecords(), 0
        async with writing(kind, postgres, broker, name) as (database, writer):
            begin = database.begin

            async def holding() -> Any:
                transaction = await begin()
                hold = transaction.hold  # type: ignore[attr-defined]

                async def counted() -> None:
                    nonlocal hold_count
                    await hold()
                    hold_count += 1
                    if hold_count == 3:
                        records.arrives.set()

                transaction.hold = counted  # type: ignore[attr-defined]
                return transaction

            database.begin = holding  # type: ignore[method-assign]
            monkeypatch.setattr(core, "HOLD_MS", 1)
            records.patch(monkeypatch)
            await put(writer, name, 1)
            assert hold_count >= 3

    asyncio.run(main())
    assert values_of(broker, name) == rows(postgres, name) == [1]


def test_another_state_than_the_stored_one_is_not_committed(
    kind: str, postgres: PostgreSql, broker: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No broker brings that about: the producer would have to change its epoch while its transaction goes on."""

    async def main() -> None:
        async with writing(kind, postgres, broker, name) as (_, writer):
            with monkeypatch.context() as patch:
                patch.setattr(Producer, "announced_state", PreparedTxnState("7:3"))
                with pytest.raises(IllegalState, match=r"prepared where 7:3 was announced"):
                    await put(writer, name, 1)
            await put(writer, name, 2)

    asyncio.run(main())
    assert values_of(broker, name) == rows(postgres, name) == [2]


@pytest.mark.parametrize("then", ["nothing", "stop"])
def test_a_cancelled_transaction_leaves_nothing_open_in_the_database(
    kind: str, then: str, postgres: PostgreSql, broker: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancelled inside an effect, not inside the block: its session was idle in transaction, behind `stop` for ever."""
    hangs = asyncio.Event()

    async def hanging(_: Producer, timeout_ms: int | None = None) -> PreparedTxnState:
        hangs.set()
        return await asyncio.Future()

    async def main() -> None:
        async with opened(kind, postgres) as database:
            async with DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer:
                with monkeypatch.context() as patch:
                    patch.setattr(Producer, "prepare_transaction", hanging)
                    task = asyncio.ensure_future(put(writer, name, 1))
                    await hangs.wait()
                    assert open_sessions(postgres) == ["idle in transaction"]
                    task.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await task
                if then == "stop":
                    await writer.stop()
                assert open_sessions(postgres) == []
                if then == "nothing":
                    await put(writer, name, 2)
            assert open_sessions(postgres) == []

    asyncio.run(main())
    assert values_of(broker, name) == rows(postgres, name) == ([2] if then == "nothing" else [])


def open_sessions(server: PostgreSql) -> list[str]:
    """The states of sessions, other than the one that asks, that have a transaction open."""
    mine = "pid <> pg_backend_pid() AND backend_type = 'client backend'"
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        found = connection.execute(f"SELECT state FROM pg_stat_activity WHERE {mine} AND xact_start IS NOT NULL")
        return [state for (state,) in found]


def test_a_session_that_stalls_just_before_its_commit_is_ended(
    kind: str, postgres: PostgreSql, broker: str, name: str
) -> None:
    """It holds the row; the newer instance waits for `stall_limit_ms`, no longer."""

    async def main() -> None:
        async with opened(kind, postgres) as old, opened(kind, postgres) as new:
            first = DualWriter(old, transactional_id=name, bootstrap_servers=broker)
            await first.start()
            begin, stored, woken = old.begin, asyncio.Event(), asyncio.Event()

            async def stalling() -> Any:
                transaction = await begin()
                commit = transaction.commit

                async def stall() -> None:
                    stored.set()
                    await woken.wait()
                    await commit()

                transaction.commit = stall  # type: ignore[method-assign]
                return transaction

            old.begin = stalling  # type: ignore[method-assign]

            async def loses() -> None:
                # its state was prepared and not decided: rolled back, or nobody can say once the newer one has written
                with pytest.raises((InstanceFenced, *old.errors, Exception)):
                    await put(first, name, 1)

            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(loses())
                await stored.wait()
                async with DualWriter(new, transactional_id=name, bootstrap_servers=broker) as second:
                    await put(second, name, 2)
                    woken.set()
            with pytest.raises(InstanceFenced):
                await first.recover()
            await first.stop()

    asyncio.run(main())
    assert values_of(broker, name) == rows(postgres, name) == [2]


def test_a_connection_lost_while_idle_is_made_anew(kind: str, postgres: PostgreSql, broker: str, name: str) -> None:
    async def main() -> None:
        async with (
            opened(kind, postgres) as database,
            DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer,
        ):
            await put(writer, name, 0)
            with psycopg.connect(postgres.conninfo, autocommit=True) as killer:
                killer.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE pid <> pg_backend_pid() AND state = 'idle'"
                )
            for value in (1, 2):
                try:
                    await put(writer, name, value)
                except database.errors:  # SQLAlchemy's pool notices it at the first statement
                    assert kind == "sqlalchemy"
            await put(writer, name, 3)

    asyncio.run(main())
    assert values_of(broker, name) == rows(postgres, name)
    assert rows(postgres, name)[-1] == 3


def test_a_database_that_may_forget_its_commits_is_refused(
    kind: str, postgres: PostgreSql, broker: str, name: str
) -> None:
    async def main() -> None:
        async with opened(kind, postgres) as database:
            await database.migrate()
            with psycopg.connect(postgres.conninfo, autocommit=True) as admin:
                admin.execute("ALTER ROLE postgres SET synchronous_commit = off")
            try:
                async with opened(kind, postgres) as forgetful:
                    writer = DualWriter(forgetful, transactional_id=name, bootstrap_servers=broker)
                    with pytest.raises(ConfigurationError, match="synchronous_commit=off"):
                        await writer.start()
                    await writer.stop()
            finally:
                with psycopg.connect(postgres.conninfo, autocommit=True) as admin:
                    admin.execute("ALTER ROLE postgres RESET synchronous_commit")

    asyncio.run(main())


def test_the_example_with_an_async_session_of_the_orm(postgres: PostgreSql, broker: str) -> None:
    for needed in ("fastapi", "httpx"):
        pytest.importorskip(needed, reason=f"needs {needed}")
    import httpx

    module = example("order_service_orm")

    async def main() -> None:
        app = module.create_app(postgres.url, broker)
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://o") as http,
        ):
            pears = {"item": "pear", "pieces": 3}
            for _ in range(2):  # the answer was lost: the client sends it again
                answer = await http.put("/orders/1", json=pears)
                assert (answer.status_code, answer.json()) == (201, pears)
            other = await http.put("/orders/1", json={"item": "plum", "pieces": 1})
            assert other.status_code == 409
            assert "is an order of 3 pear" in other.json()["detail"]
            answers = await asyncio.gather(*(http.put(f"/orders/a{i}", json=pears) for i in range(5)))
            assert {each.status_code for each in answers} == {201}
            assert (await http.get("/orders/1")).json() == pears
            assert (await http.get("/orders/2")).status_code == 404

    for _ in range(2):  # its successor finds them there
        asyncio.run(main())
        assert_committed_once(broker, module.TOPIC, ["1", *(f"a{i}" for i in range(5))], only=True)
