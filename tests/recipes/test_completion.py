"""The topic's completion behind a block that has ended: waited for where it must be, never lost, a failure mended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from evidence.world.postgresql import PostgreSql
from evidence.world.stores import INSERT, Store, sqlite_store
from evidence.world.topics import open_transaction, values_of, wait_for_markers

from oncelog import Producer, TopicPartition, sync
from oncelog.errors import IllegalState, ProducerFenced, RequestTimedOut
from oncelog.recipes import AsyncPsycopgDatabase, DualWriter, Outcome, dual_writer
from oncelog.recipes import sync as blocking
from oncelog.types import PreparedTxnState

HANGS_S = 60


class Gate:
    """Completions wait until it is opened, or fail as told."""

    def __init__(self) -> None:
        self._is_open = threading.Event()
        self.started = threading.Event()
        self.errors: list[Exception] = []

    def close(self) -> None:
        self._is_open.clear()
        self.started.clear()

    def open(self) -> None:
        self._is_open.set()

    async def passed(self) -> None:
        self.started.set()
        await asyncio.to_thread(self._is_open.wait, HANGS_S)
        if self.errors:
            raise self.errors.pop(0)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made, complete = Gate(), Producer.complete_transaction

    async def gated(self: Producer, state: PreparedTxnState) -> None:
        await made.passed()
        await complete(self, state)

    monkeypatch.setattr(Producer, "complete_transaction", gated)
    monkeypatch.setattr(sync.Producer, "complete_transaction", sync._blocking(gated))
    made.open()
    yield made
    made.open()


@pytest.fixture
def lite(tmp_path: pathlib.Path) -> Store:
    return sqlite_store(tmp_path)


def put(writer: blocking.DualWriter, store: Store, name: str, value: int, **more: bool) -> None:
    with writer.transaction(**more) as tx:
        store.write(tx.database, name, value)
        tx.send(name, b"%d" % value, partition=0)


@contextlib.contextmanager
def opened(store: Store, name: str, broker: str, gate: Gate, **more: bool) -> Iterator[blocking.DualWriter]:
    """A writer whose start is over; from now on the gate is closed."""
    with store.open() as database:
        with blocking.DualWriter(database, transactional_id=name, bootstrap_servers=broker, **more) as writer:
            gate.close()
            yield writer
        assert values_of(broker, name) == store.rows(database, name)


def test_the_block_ends_with_the_databases_commit(lite: Store, name: str, broker: str, gate: Gate) -> None:
    with opened(lite, name, broker, gate) as writer:
        put(writer, lite, name, 1)
        with lite.open() as database:
            assert lite.rows(database, name) == [1]
        assert open_transaction(broker, name) == "Ongoing"
        gate.open()
        writer.complete()
        assert open_transaction(broker, name) != "Ongoing"
        assert writer.recover() is Outcome.COMMITTED


@pytest.mark.parametrize("where", ["writer", "transaction"])
def test_who_reads_his_own_writes_may_wait(lite: Store, name: str, broker: str, gate: Gate, where: str) -> None:
    more = {"wait_for_completion": True}
    with opened(lite, name, broker, gate, **(more if where == "writer" else {})) as writer:
        thread = threading.Thread(target=put, args=(writer, lite, name, 1), kwargs=more if where != "writer" else {})
        thread.start()
        assert gate.started.wait(HANGS_S)
        assert thread.is_alive(), "it waits for the completion, which waits for the gate"
        gate.open()
        thread.join(HANGS_S)
        wait_for_markers(broker, name)
        assert values_of(broker, name) == [1]


def test_the_next_transaction_waits_for_it(lite: Store, name: str, broker: str, gate: Gate) -> None:
    with opened(lite, name, broker, gate) as writer:
        put(writer, lite, name, 1)
        thread = threading.Thread(target=put, args=(writer, lite, name, 2))
        thread.start()
        assert open_transaction(broker, name) == "Ongoing"
        with lite.open() as database:
            assert lite.rows(database, name) == [1]
        gate.open()
        thread.join(HANGS_S)
        with lite.open() as database:
            assert lite.rows(database, name) == [1, 2]


def test_stop_waits_for_it(lite: Store, name: str, broker: str, gate: Gate) -> None:
    with opened(lite, name, broker, gate) as writer:
        put(writer, lite, name, 1)
        stopping = threading.Thread(target=writer.stop)
        stopping.start()
        gate.open()
        stopping.join(HANGS_S)
        assert open_transaction(broker, name) != "Ongoing"


def test_stop_does_not_wait_for_ever(
    lite: Store, name: str, broker: str, gate: Gate, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(blocking, "STOP_SETTLE_TIMEOUT_MS", 10)
    gate.errors = [RequestTimedOut("the broker is away")]
    with lite.open() as database:
        with blocking.DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer:
            gate.close()
            put(writer, lite, name, 1)
        assert "the topic follows" in caplog.text
        assert open_transaction(broker, name) == "Ongoing"
        gate.open()
        gate.errors = []
        with blocking.DualWriter(database, transactional_id=name, bootstrap_servers=broker):
            pass
        assert values_of(broker, name) == [1]


@pytest.mark.parametrize("error", [RequestTimedOut("away"), ProducerFenced("an operator"), OSError("cut")])
def test_a_failure_is_told_and_mended_by_the_next(
    lite: Store, name: str, broker: str, gate: Gate, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(lite, name, broker, gate) as writer:
        gate.errors = [error]
        put(writer, lite, name, 1)
        gate.open()
        put(writer, lite, name, 2)
        assert f"{name}: the database has committed" in caplog.text
        put(writer, lite, name, 3)
        assert not gate.errors


def test_an_error_of_our_own_is_raised_by_the_next_and_recovered(
    lite: Store, name: str, broker: str, gate: Gate
) -> None:
    with opened(lite, name, broker, gate) as writer:
        gate.errors = [ZeroDivisionError()]
        put(writer, lite, name, 1)
        gate.open()
        with pytest.raises(ZeroDivisionError):
            put(writer, lite, name, 2)
        put(writer, lite, name, 3)


def test_an_interrupt_of_the_waiting_loses_nothing(
    lite: Store, name: str, broker: str, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> bool:
        raise KeyboardInterrupt

    with opened(lite, name, broker, gate) as writer:
        put(writer, lite, name, 1)
        with monkeypatch.context() as patch:
            patch.setattr(sync.Begun, "wait", interrupted)
            with pytest.raises(KeyboardInterrupt):
                put(writer, lite, name, 2)
        gate.open()
        put(writer, lite, name, 3)
        with lite.open() as database:
            assert lite.rows(database, name) == [1, 3]


WRITES_AND = """
import os, sqlite3, sys
from oncelog.errors import IllegalState
from oncelog.recipes import SqliteDatabase
from oncelog.recipes.sync import DualWriter
broker, file, name = sys.argv[1:]
database = SqliteDatabase(file)
database.migrate()
writer = DualWriter(database, transactional_id=name, bootstrap_servers=broker)
writer.start()
with writer.transaction() as tx:
    tx.send(name, b"1", partition=0)
"""
FORKS = """
child = os.fork()
if child:
    _, status = os.waitpid(child, 0)
    writer.stop()
    print("parent", status)
else:
    try:
        with writer.transaction(): pass
    except IllegalState as error:
        print("child", error, flush=True)
    writer.stop()
    os._exit(0)
"""


def run(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_program_that_ends_without_stop_has_completed(tmp_path: pathlib.Path, name: str, broker: str) -> None:
    run(WRITES_AND, broker, str(tmp_path / "rows.db"), name)
    assert open_transaction(broker, name) != "Ongoing"
    assert values_of(broker, name) == [1]


def test_a_forked_child_does_not_wait_for_its_parents(tmp_path: pathlib.Path, name: str, broker: str) -> None:
    said = run(WRITES_AND + FORKS, broker, str(tmp_path / "rows.db"), name)
    assert "child this client was made before a fork" in said
    assert "parent 0" in said
    assert values_of(broker, name) == [1]


def test_within_the_clients_own_thread_it_is_refused(lite: Store, name: str, broker: str, gate: Gate) -> None:
    with opened(lite, name, broker, gate) as writer:
        put(writer, lite, name, 1)
        begun = writer._completion
        assert begun is not None

        async def inside() -> None:
            with pytest.raises(IllegalState, match="wait for itself"):
                begun.wait()

        begun._owner.call(inside)
        gate.open()


# asyncio


async def put_async(writer: DualWriter, name: str, value: int, **more: bool) -> None:
    async with writer.transaction(**more) as tx:
        await tx.database.execute(INSERT, (name, value))
        await tx.send(name, b"%d" % value, partition=0)


def test_with_asyncio_it_is_the_same(
    postgres: PostgreSql, name: str, broker: str, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    async def main() -> None:
        async with AsyncPsycopgDatabase(postgres.conninfo) as database:
            await database.migrate()
            async with DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer:
                gate.close()
                await put_async(writer, name, 1)
                next_one = asyncio.ensure_future(put_async(writer, name, 2))
                await asyncio.to_thread(gate.started.wait, HANGS_S)
                next_one.cancel()  # while it waits
                with pytest.raises(asyncio.CancelledError):
                    await next_one
                assert await asyncio.to_thread(open_transaction, broker, name) == "Ongoing"
                gate.errors = [RequestTimedOut("away")]
                gate.open()
                await put_async(writer, name, 3)
                assert f"{name}: the database has committed" in caplog.text
                await put_async(writer, name, 4, wait_for_completion=True)
                assert await asyncio.to_thread(open_transaction, broker, name) != "Ongoing"
                await put_async(writer, name, 5)
                await writer.complete()
                await put_async(writer, name, 6)

    asyncio.run(main())
    assert values_of(broker, name) == [1, 3, 4, 5, 6]


def test_with_asyncio_stop_leaves_it_to_the_next_start(
    postgres: PostgreSql, name: str, broker: str, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with AsyncPsycopgDatabase(postgres.conninfo) as database:
            await database.migrate()
            writer = DualWriter(database, transactional_id=name, bootstrap_servers=broker)
            async with writer:
                gate.close()
                await put_async(writer, name, 1)
                with monkeypatch.context() as patch:
                    patch.setattr(dual_writer, "STOP_SETTLE_TIMEOUT_MS", 10)
                    await writer.stop()
                assert await asyncio.to_thread(open_transaction, broker, name) == "Ongoing"
                gate.open()
            await writer.start()  # the same object, once more
            await put_async(writer, name, 2)
            await writer.stop()

    asyncio.run(main())
    assert values_of(broker, name) == [1, 2]
    where = TopicPartition(name, 0)
    with sync.Consumer(bootstrap_servers=broker, isolation_level="read_committed") as consumer:
        consumer.assign([where])
        assert consumer.end_offsets([where])[where] > 0
