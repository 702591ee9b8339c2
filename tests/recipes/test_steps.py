"""The dual writer, its recovery and the janitor with a failure between every two of their steps; deciders that race."""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import sqlite3
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from oncelog import TopicPartition, sync
from oncelog.core.two_phase.dual_write import Outcome
from oncelog.errors import OncelogError
from oncelog.recipes import SqliteDatabase, find_in_doubt, resolve
from oncelog.recipes.sync import DualWriter
from oncelog.testing import TestBroker
from tests.recipes.steps import Cancelled, Died, How, Steps, cases, watching

ALL = bool(os.environ.get("ONCELOG_ALL_STEPS"))
RACES = 200
WAYS = (How.FAILS, How.UNANSWERED, How.DIES_AFTER, How.CANCELLED)


class Gone(ConnectionError):
    """The database is gone."""


class SteppedDatabase:
    """An adapter whose calls are steps; `leave` is what the end of a process does to its connection."""

    def __init__(self, file: pathlib.Path, steps: Steps) -> None:
        self._database, self._steps = SqliteDatabase(file, busy_timeout_ms=300), steps
        self.errors = (*self._database.errors, Gone)

    def begin(self) -> Any:
        begun: list[Any] = []
        try:
            self._steps.around("begin", lambda: begun.append(self._database.begin()), Gone)
        except BaseException:
            if begun and not self._steps.is_dead:
                begun[0].rollback()  # as every adapter does: nothing stays open where it raises
            raise
        return SteppedOpen(begun[0], self._steps)

    def take_over(self, *arguments: Any) -> Any:
        return self._steps.around("take_over", lambda: self._database.take_over(*arguments), Gone)

    def read(self, *arguments: Any) -> Any:
        return self._steps.around("read", lambda: self._database.read(*arguments), Gone)

    def read_all(self) -> Any:
        return self._steps.around("read_all", self._database.read_all, Gone)

    def leave(self) -> None:
        self._database.close()


class SteppedOpen:
    """Its transaction."""

    def __init__(self, opened: Any, steps: Steps) -> None:
        self._opened, self._steps = opened, steps
        self.handle = opened.handle

    def store(self, *arguments: Any) -> Any:
        return self._steps.around("store", lambda: self._opened.store(*arguments), Gone)

    def commit(self) -> None:
        self._steps.around("commit", self._opened.commit, Gone)

    def rollback(self) -> None:
        if not self._steps.is_dead:
            self._opened.rollback()


class World:
    """A broker, a file for each case, and clients that only look."""

    def __init__(self, bootstrap_servers: str, folder: pathlib.Path) -> None:
        self.bootstrap_servers, self.folder = bootstrap_servers, folder
        self.admin = sync.Admin(bootstrap_servers=bootstrap_servers)
        self.admin.start()
        self.consumer = sync.Consumer(
            bootstrap_servers=bootstrap_servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            fetch_max_wait_ms=5,
        )
        self.consumer.start()
        self.count = 0

    def new_name(self) -> str:
        self.count += 1
        name = f"steps-{self.count}"
        self.admin.create_topics({name: 1})
        with contextlib.closing(sqlite3.connect(self.file(name))) as connection:
            connection.execute("CREATE TABLE written (value bigint)")
            connection.commit()
        with SqliteDatabase(self.file(name)) as database:
            database.migrate()
        return name

    def file(self, name: str) -> pathlib.Path:
        return self.folder / f"{name}.db"

    def writer(self, database: Any, name: str) -> DualWriter[Any]:
        config = {"bootstrap_servers": self.bootstrap_servers, "recovery_timeout_ms": 0}
        return DualWriter(database, transactional_id=name, **config)

    def rows(self, name: str) -> list[int]:
        with contextlib.closing(sqlite3.connect(self.file(name))) as connection:
            return [value for (value,) in connection.execute("SELECT value FROM written ORDER BY rowid")]

    def records(self, name: str) -> list[int]:
        """Committed values, in the order of the log."""
        while any(each.state.startswith("Prepare") for each in self.admin.list_transactions()):
            pass
        where, found = TopicPartition(name, 0), []
        self.consumer.assign([where])
        end = self.consumer.end_offsets([where])[where]
        while self.consumer.position(where) < end:
            found += [int(record.value or b"") for record in self.consumer.poll(timeout_ms=1000)]
        return found

    def is_open(self, name: str) -> bool:
        return any(each.transactional_id == name for each in self.admin.list_transactions(states=["Ongoing"]))

    def close(self) -> None:
        self.consumer.stop()
        self.admin.stop()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with TestBroker() as broker:
        made = World(broker.bootstrap_servers, tmp_path_factory.mktemp("steps"))
        yield made
        made.close()


def put(writer: DualWriter[Any], name: str, value: int) -> None:
    with writer.transaction(wait_for_completion=value % 2 == 1) as tx:
        tx.send(name, b"%d" % value, partition=0)
        tx.database.execute("INSERT INTO written VALUES (?)", (value,))


Told = dict[int, bool]
Scenario = Callable[[World, Any, str, Told], None]


def write(world: World, database: Any, name: str, told: Told) -> None:
    """Two writes of one instance; what its caller was told of each."""
    writer = world.writer(database, name)
    try:
        writer.start()
        for value in (1, 2):
            with contextlib.suppress(Exception):
                put(writer, name, value)
                told[value] = True
            if writer._machine.outcome is Outcome.ROLLED_BACK:
                told[value] = False
    finally:
        writer.stop()


def leave_one(world: World, name: str, *, is_decided: bool) -> None:
    """An instance that died before, or behind, its database's commit."""
    steps = Steps()
    database = SteppedDatabase(world.file(name), steps)
    with watching(steps), contextlib.suppress(Died):
        writer = world.writer(database, name)
        writer.start()
        with writer.transaction() as tx:
            tx.send(name, b"1", partition=0)
            tx.database.execute("INSERT INTO written VALUES (1)")
            tx.prepare()
            if not is_decided:
                steps.is_dead = True
            else:
                steps.at, steps.how = len(steps.names) + 1, steps.how.DIES_AFTER  # store, commit
    database.leave()


def recover_decided(world: World, database: Any, name: str, told: Told) -> None:
    recover(world, database, name, told)


def recover(world: World, database: Any, name: str, told: Told) -> None:
    with world.writer(database, name):
        pass


def janitor(world: World, database: Any, name: str, told: Told) -> None:
    found = find_in_doubt(database, bootstrap_servers=world.bootstrap_servers)
    mine = [each for each in found if each.transactional_id == name]
    resolve(database, mine, bootstrap_servers=world.bootstrap_servers, recovery_timeout_ms=0)


def janitor_decided(world: World, database: Any, name: str, told: Told) -> None:
    janitor(world, database, name, told)


SCENARIOS: list[Scenario] = [write, recover, recover_decided, janitor, janitor_decided]


def run(world: World, scenario: Scenario, steps: Steps) -> list[str]:
    """One life that is struck, then one that recovers and writes; what is wrong after it."""
    name, told, wrong = world.new_name(), {}, []
    if scenario is not write:
        leave_one(world, name, is_decided=scenario.__name__.endswith("_decided"))
    database = SteppedDatabase(world.file(name), steps)
    with watching(steps):
        try:
            scenario(world, database, name, told)
        except (Died, Cancelled):
            pass
        except Exception:  # noqa: BLE001
            assert steps.was_struck
        steps.happen_late()
        if not steps.is_dead:
            wrong += _left_open(world, name)
        database.leave()
        with steps.off():
            successor = SteppedDatabase(world.file(name), steps)
            with world.writer(successor, name) as writer:
                for value in (3, 5):
                    put(writer, name, value)
            successor.leave()
            rows, records = world.rows(name), world.records(name)
    if rows != records:
        wrong.append(f"rows {rows}, records {records}")
    if scenario.__name__.endswith("_decided") and 1 not in rows:
        wrong.append(f"what was decided is gone: {rows}")
    if scenario in (recover, janitor) and 1 in rows:
        wrong.append(f"what was not decided is there: {rows}")
    wrong += [f"{value} was told {is_there}: {rows}" for value, is_there in told.items() if (value in rows) != is_there]
    if world.is_open(name):
        wrong.append("a transaction is open")
    return wrong


def _left_open(world: World, name: str) -> list[str]:
    """A writer that was stopped holds no lock, though its adapter is open."""
    with contextlib.closing(sqlite3.connect(world.file(name), timeout=0)) as other:
        try:
            other.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            return [f"after stop: {error}"]
    return []


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_failure_between_every_two_steps(world: World, scenario: Scenario) -> None:
    clean = Steps()
    assert run(world, scenario, clean) == []
    found = []
    for at, how in cases(clean.names, WAYS, all_of_them=ALL):
        steps = Steps(at, how)
        wrong = run(world, scenario, steps)
        if wrong:
            found.append(f"{at} {clean.names[at]} {how.name}: {wrong}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("first", range(0, RACES, 50))
@pytest.mark.parametrize("is_decided", [True, False], ids=["decided", "undecided"])
def test_two_recoveries_and_a_janitor_that_race_agree(world: World, is_decided: bool, first: int) -> None:
    """At every step the seed says whose turn it is. Whoever is fenced says so; one decision stands for all."""
    for seed in range(first, first + (50 if ALL else 25)):
        name = world.new_name()
        leave_one(world, name, is_decided=is_decided)
        turns = Turns(seed)
        racers: list[Callable[[Any], None]] = [
            lambda database, name=name: recover(world, database, name, {}),
            lambda database, name=name: recover(world, database, name, {}),
            lambda database, name=name: janitor(world, database, name, {}),
        ]
        failures = turns.race([_with_database(world, name, racer) for racer in racers])
        unexpected = [error for error in failures if not isinstance(error, (OncelogError, sqlite3.Error))]
        assert not unexpected, f"seed {seed}: {unexpected}"
        with SqliteDatabase(world.file(name)) as database, world.writer(database, name) as writer:
            put(writer, name, 3)
        assert world.rows(name) == world.records(name) == ([1, 3] if is_decided else [3]), f"seed {seed}"


def _with_database(world: World, name: str, racer: Callable[[Any], None]) -> Callable[[Steps], None]:
    def life(steps: Steps) -> None:
        database = SteppedDatabase(world.file(name), steps)
        try:
            racer(database)
        finally:
            database.leave()

    return life


class Turns(Steps):
    """Of several threads one goes on at a time, from one of its steps to the next; a seed draws which."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = random.Random(seed)
        self._changed = threading.Condition()
        self._waiting: set[int] = set()
        self._count = 0
        self._turn: int | None = None
        self._mine = threading.local()

    def race(self, lives: list[Callable[[Steps], None]]) -> list[BaseException]:
        """Run them to their ends; what they raised."""
        failures: list[BaseException] = []
        self._count = len(lives)

        def live(number: int, life: Callable[[Steps], None]) -> None:
            self._mine.number = number
            try:
                self._wait()
                life(self)
            except Exception as error:  # noqa: BLE001
                failures.append(error)
            finally:
                with self._changed:
                    self._count -= 1
                    self._turn = None
                    self._draw()

        with watching(self):
            threads = [threading.Thread(target=live, args=each) for each in enumerate(lives)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
                assert not thread.is_alive(), "a race that does not end"
        return failures

    def _draw(self) -> None:
        if self._turn is None and self._count and len(self._waiting) == self._count:
            self._turn = self._random.choice(sorted(self._waiting))
            self._changed.notify_all()

    def _wait(self) -> None:
        me: int = self._mine.number
        with self._changed:
            self._waiting.add(me)
            self._turn = None
            self._draw()
            assert self._changed.wait_for(lambda: self._turn == me, 60)
            self._waiting.discard(me)

    def around(self, name: str, work: Callable[[], Any], error: Callable[[], Exception] | None = None) -> Any:
        if not self.is_off:
            self._wait()
        return work()
