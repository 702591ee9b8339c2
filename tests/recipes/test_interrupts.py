"""Ctrl-C in the blocking writer, at each place where the interpreter may raise it: rows are records, and it goes on."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from evidence.world.stores import Store, sqlite_store

from oncelog.errors import IllegalState, InstanceFenced, ProducerFenced
from oncelog.recipes import sync
from oncelog.recipes.sync import DualWriter
from oncelog.types import PreparedTxnState
from tests.interrupts import Interrupts

ALL = bool(os.environ.get("ONCELOG_ALL_STEPS"))
FILES = ("oncelog/recipes/", "oncelog/core/two_phase/", os.path.basename(__file__))


class Topic:
    """A topic in memory: the newest producer may write, what is prepared waits."""

    def __init__(self) -> None:
        self.newest: Producer | None = None
        self.values: list[int] = []
        self.pending: list[int] | None = None
        self.prepared_state = PreparedTxnState()
        self.number = 0

    def end(self, *, commit: bool) -> None:
        nothing = PreparedTxnState()
        if self.pending is not None and commit:
            self.values += self.pending
        self.pending, self.prepared_state = None, nothing


class Producer:
    """As much of `sync.Producer` as the writer uses. Each call is interrupted before and behind what it does."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._calls: list[str] = []
        self.is_interrupted = False
        self.prepared_state = PreparedTxnState()

    def _check(self) -> Topic:
        if self._topic.newest is not self:
            raise ProducerFenced
        return self._topic

    def start(self) -> None:
        self._topic.newest = self
        if self._topic.prepared_state.is_none:
            self._topic.end(commit=False)
        self.prepared_state = self._topic.prepared_state
        self._calls.append("start")

    def stop(self, timeout_ms: int) -> None:
        if self._topic.newest is self and self._topic.prepared_state.is_none:
            self._topic.end(commit=False)
        self._calls.append("stop")

    def begin_transaction(self) -> None:
        topic = self._check()
        assert topic.pending is None
        topic.pending = []
        self._calls.append("begin")

    def send(self, topic: str, value: bytes, *_: Any) -> None:
        pending = self._check().pending
        assert pending is not None
        pending.append(int(value))

    def send_soon(self) -> None:
        """Nothing is buffered."""

    @property
    def announced_state(self) -> PreparedTxnState:
        return PreparedTxnState.of(1, self._check().number + 1)

    def prepare_transaction(self, timeout_ms: int | None = None) -> PreparedTxnState:
        topic = self._check()
        if self.is_interrupted:
            self.is_interrupted = False
            raise KeyboardInterrupt
        topic.number += 1
        topic.prepared_state = self.prepared_state = PreparedTxnState.of(1, topic.number)
        self._calls.append("prepare")
        return self.prepared_state

    def complete_transaction(self, state: PreparedTxnState) -> None:
        self._check().end(commit=state == self._topic.prepared_state)
        self._calls.append("complete")

    def abort_transaction(self) -> None:
        self._check().end(commit=False)
        self._calls.append("abort")

    def begin_completing(self, state: PreparedTxnState, when_ended: Any) -> Completed:
        self.complete_transaction(state)
        when_ended(None)
        return Completed()


class Completed:
    def wait(self, timeout_ms: int | None) -> bool:
        return True

    def error(self) -> None:
        return None


Work = Callable[[DualWriter[Any], Store, int], None]


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    made = Topic()
    monkeypatch.setattr(sync.SyncRuntime, "new_producer", lambda *_: Producer(made))
    return made


def put(writer: DualWriter[Any], store: Store, value: int) -> None:
    with writer.transaction(wait_for_completion=value % 3 == 0) as tx:
        store.write(tx.database, writer.transactional_id, value)
        tx.send("topic", b"%d" % value)


def fail(writer: DualWriter[Any], store: Store, value: int) -> None:
    with contextlib.suppress(ZeroDivisionError), writer.transaction() as tx:
        store.write(tx.database, writer.transactional_id, value)
        tx.send("topic", b"%d" % value)
        raise ZeroDivisionError


def recover(writer: DualWriter[Any], store: Store, value: int) -> None:
    with contextlib.suppress(KeyboardInterrupt), writer.transaction() as tx:
        tx._producer.is_interrupted = True
    writer.recover()


def stop(writer: DualWriter[Any], store: Store, value: int) -> None:
    with writer.transaction() as tx:
        store.write(tx.database, writer.transactional_id, value)
        writer.stop()


@pytest.mark.parametrize("work", [put, fail, recover, stop])
@pytest.mark.parametrize("again_after", [0, 3, 25], ids=["once", "twice", "later again"])
def test_it_goes_on_wherever_it_was_interrupted(
    store: Store, topic: Topic, name: str, work: Work, again_after: int
) -> None:
    if not ALL and store.name != "sqlite" and (again_after or work is not put):
        pytest.skip("with ONCELOG_ALL_STEPS=1")
    step = 1 if ALL or (store.name == "sqlite" and work is put and not again_after) else 41
    interrupts, at, value = Interrupts(FILES), 1, 0
    with store.open() as database:
        writer = started(database, name)
        while True:
            value += 2
            with contextlib.suppress(KeyboardInterrupt, IllegalState), interrupts.at(at, at + again_after):
                work(writer, store, value)
            if not interrupts.struck:
                break
            assert topic.newest is not None
            topic.newest.is_interrupted = False
            try:
                if work is stop:
                    writer.stop()
                    writer = started(database, name)
                put(writer, store, value + 1)
            except BaseException as error:
                raise AssertionError(f"after {interrupts.struck}") from error
            assert topic.values[-1] == value + 1
            at += step
        assert store.rows(database, name) == topic.values
    assert interrupts.count > 80


DRIVERS = {"postgresql": ("/psycopg/",), "sqlalchemy": ("/sqlalchemy/engine/", "/sqlalchemy/pool/", "/psycopg/")}


@pytest.fixture
def _closed_connections() -> Iterator[None]:
    """What a driver lost in being interrupted is its own; what outlives the test would warn in whatever test runs then."""
    before = alive()
    yield
    gc.collect()  # the warnings are heard here, where they are expected
    for each in alive():
        if not any(each is one for one in before):  # a frame of what was raised, or a log record, holds it
            each.close()


def alive() -> list[psycopg.Connection[Any]]:
    return [each for each in gc.get_objects() if type(each) is psycopg.Connection]


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("_closed_connections")
@pytest.mark.parametrize(("work", "step"), [(put, 3), (fail, 5), (recover, 7)])
def test_it_goes_on_wherever_its_driver_was_interrupted(
    store: Store, topic: Topic, name: str, work: Work, step: int
) -> None:
    """What was raised is kept, as by a handler that is told: its frames hold cursors and connections, and these locks."""
    files = DRIVERS.get(store.name.partition(" ")[0])
    if files is None:
        pytest.skip("its driver has no Python in it")
    interrupts, at, value, told_count = Interrupts((*files, os.path.basename(__file__))), 1, 0, 0
    raised: BaseException | None = None
    with store.open() as database:
        writer = started(database, name)
        while True:
            value += 2
            raised = None
            try:
                with interrupts.at(at):
                    work(writer, store, value)
            except KeyboardInterrupt as error:
                raised = error
                told_count += 1
            if not interrupts.struck:
                break
            assert topic.newest is not None
            topic.newest.is_interrupted = False
            try:
                put(writer, store, value + 1)
            except BaseException as error:
                raise AssertionError(f"after {interrupts.struck}") from error
            assert topic.values[-1] == value + 1
            at += 1 if ALL else step
            if not value % 20 and hasattr(database, "_engine"):
                database._engine.dispose()  # SQLAlchemy's pool loses a place of its fifteen when it is interrupted giving it away
        assert store.rows(database, name) == topic.values
    assert raised is None
    assert told_count
    assert interrupts.count > 60


def test_a_newer_instance_fences_one_that_was_interrupted(tmp_path: Path, topic: Topic, name: str) -> None:
    store, interrupts, at = sqlite_store(tmp_path), Interrupts(FILES), 1
    with store.open() as database, store.open() as other:
        while True:
            older = started(database, name)
            with contextlib.suppress(KeyboardInterrupt), interrupts.at(at):
                fail(older, store, 0)
            if not interrupts.struck:
                break
            newer = started(other, name)
            put(newer, store, at)
            with contextlib.suppress(ProducerFenced, InstanceFenced):  # whichever side tells it first
                put(older, store, 0)
            with pytest.raises(InstanceFenced):
                put(older, store, 0)
            put(newer, store, at + 1)
            older.stop()
            newer.stop()
            at += 17
        assert store.rows(database, name) == topic.values
    assert at > 80


def test_what_was_interrupted_holds_no_locks_until_its_block_ends(tmp_path: Path, topic: Topic, name: str) -> None:
    store = sqlite_store(tmp_path, busy_timeout_ms=200)
    with store.open() as database, store.open() as other:
        writer = started(database, name)
        with pytest.raises(IllegalState), writer.transaction() as tx:
            store.write(tx.database, name, 1)
            tx._producer.is_interrupted = True
            with contextlib.suppress(KeyboardInterrupt):
                tx.prepare()
            transaction = other.begin()
            store.write(transaction.handle, name, 2)
            transaction.commit()
        put(writer, store, 3)
        assert store.rows(database, name) == [2, 3]
        assert topic.values == [3]


def started(database: Any, name: str) -> DualWriter[Any]:
    writer = DualWriter(database, transactional_id=name)
    writer.start()
    return writer
