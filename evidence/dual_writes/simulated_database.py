"""A database of the simulator: rows, a lock per transactional id, sessions that outlive their clients.

Requests and answers are lost, commits take their time and take effect when their client has given up or is dead, the
server restarts, sessions of the dead are noticed late. It is a process of its own: what a client sent goes on without it.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evidence.world.loop import Process, SimLoop
from oncelog.core.two_phase.dual_write import StoredState
from oncelog.types import PreparedTxnState

CLIENT_PATIENCE = 4.0
STALL_LIMIT = 3.0  # a session that stored its state and does not commit is ended


class DatabaseGone(Exception):
    """What the adapter raises: the connection is lost, or the server refused."""


@dataclass
class DatabaseFaults:
    """Probabilities per request; `restart_every`: mean seconds, 0 never."""

    request_lost: float = 0.0
    answer_lost: float = 0.0
    slow: float = 0.0
    slow_seconds: float = 2.0
    restart_every: float = 0.0
    delay: float = 0.001


def draw(seed: int) -> DatabaseFaults:
    """The faults of one seed, in swarm style."""
    rng = random.Random(f"database {seed}")
    return DatabaseFaults(
        request_lost=rng.choice((0.0, 0.02, 0.1)),
        answer_lost=rng.choice((0.0, 0.02, 0.1)),
        slow=rng.choice((0.0, 0.03, 0.15)),
        slow_seconds=rng.choice((0.5, 2.0, 6.0)),
        restart_every=rng.choice((0.0, 0.0, 3.0, 6.0)),
        delay=rng.choice((0.0005, 0.01, 0.1)),
    )


class Session:
    """A transaction at the server."""

    def __init__(self) -> None:
        self.is_open = True
        self.writes: list[int] = []
        self.stored: tuple[str, StoredState] | None = None
        self.stall: asyncio.TimerHandle | None = None


class SimDatabase:
    """The server. `rows` is committed state, `written` the business rows: (transactional id, value)."""

    def __init__(self, loop: SimLoop, seed: int, faults: DatabaseFaults, note: Callable[[str], None]) -> None:
        self.loop, self.faults, self.note = loop, faults, note
        self.random = random.Random(f"database server {seed}")
        self.rows: dict[str, StoredState] = {}
        self.written: list[tuple[str, int]] = []
        self.is_up = True
        self.counts: dict[str, int] = {}
        self._sessions: list[Session] = []
        self._locks: dict[str, Session] = {}
        self._freed: list[asyncio.Future[None]] = []

    def count(self, kind: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1

    # the server's life

    async def restart_now_and_then(self) -> None:
        """For ever: everything that is not committed is gone, and nobody is served for a while."""
        while self.faults.restart_every:
            await asyncio.sleep(self.random.expovariate(1 / self.faults.restart_every))
            self.note("the database restarts")
            self.count("database restart")
            self.is_up = False
            for session in list(self._sessions):
                self.end(session)
            await asyncio.sleep(self.random.uniform(0.05, 2.0))
            self.is_up = True

    def heal(self) -> None:
        """No more faults."""
        self.faults = DatabaseFaults()
        self.is_up = True

    def open(self) -> Session:
        session = Session()
        self._sessions.append(session)
        return session

    def end(self, session: Session) -> None:
        """Roll back, if it is still open, and free its lock."""
        if not session.is_open:
            return
        session.is_open = False
        self._sessions.remove(session)
        if session.stall is not None:
            session.stall.cancel()
        for name in [name for name, holder in self._locks.items() if holder is session]:
            del self._locks[name]
        freed, self._freed = self._freed, []
        for waiter in freed:
            if not waiter.done():
                waiter.set_result(None)

    # what it does

    async def _lock(self, session: Session, name: str) -> None:
        while self._locks.get(name, session) is not session:
            waiter = self.loop.create_future()
            self._freed.append(waiter)
            await waiter
            self._check(session)
        self._locks[name] = session

    def _check(self, session: Session) -> None:
        if not session.is_open:
            raise DatabaseGone("the server ended this session")

    async def store(self, session: Session, name: str, stored: StoredState) -> bool:
        await self._lock(session, name)
        found = self.rows.get(name)
        if found is None or found.instance_version != stored.instance_version:
            return False
        session.stored = (name, stored)
        session.stall = self.loop.call_later(STALL_LIMIT, self.end, session, context=self.loop.root)
        return True

    async def commit(self, session: Session) -> None:
        assert session.stored is not None
        name, stored = session.stored
        assert self._locks.get(name) is session
        assert self.rows[name].instance_version == stored.instance_version
        self.rows[name] = stored
        self.written += [(name, value) for value in session.writes]
        self.end(session)

    async def take_over(self, session: Session, name: str, expected_version: int | None) -> int | None:
        await self._lock(session, name)
        found = self.rows.get(name, StoredState(0, PreparedTxnState()))
        if expected_version is not None and found.instance_version != expected_version:
            self.end(session)
            return None
        self.rows[name] = StoredState(found.instance_version + 1, found.prepared_state)
        self.end(session)
        return found.instance_version + 1

    async def read(self, session: Session, name: str) -> StoredState | None:
        self.end(session)
        return self.rows.get(name)


@dataclass
class Transaction:
    """A client's view of its session; `write` a value."""

    database: SimAdapter
    session: Session
    handle: list[int] = field(default_factory=list)

    async def store(self, transactional_id: str, stored: StoredState) -> bool:
        self.session.writes = list(self.handle)
        return bool(await self.database.ask(self.session, "store", transactional_id, stored))

    async def commit(self) -> None:
        await self.database.ask(self.session, "commit")

    async def rollback(self) -> None:
        self.database.leave(self.session)


class SimAdapter:
    """`oncelog.recipes.AsyncDatabase` of one simulated process."""

    errors: tuple[type[Exception], ...] = (DatabaseGone,)

    def __init__(self, server: SimDatabase, process: Process) -> None:
        self._server, self._process = server, process
        self._loop = server.loop

    def _session(self) -> Session:
        session = self._server.open()
        self._process.died.add_done_callback(lambda _: self.leave(session), context=self._loop.root)
        return session

    def leave(self, session: Session) -> None:
        """The connection is gone: the server notices it some time, and what it was asked to do meanwhile it does."""
        seconds = self._server.random.choice((0.0, 0.01, 1.0, 3.0))
        self._loop.call_later(seconds, self._server.end, session, context=self._loop.root)

    async def ask(self, session: Session, what: str, *arguments: Any) -> Any:
        """One request and its answer, or DatabaseGone."""
        server, faults = self._server, self._server.faults
        if not server.is_up:
            await asyncio.sleep(0.01)
            raise DatabaseGone("connection refused")
        if server.random.random() < faults.request_lost:
            server.count("database request lost")
            self.leave(session)
            raise DatabaseGone("the connection broke before the request arrived")
        answer: asyncio.Future[Any] = self._loop.create_future()
        work = getattr(server, what)
        self._loop.create_task(self._serve(session, lambda: work(session, *arguments), answer), context=self._loop.root)
        try:
            async with asyncio.timeout(CLIENT_PATIENCE):
                return await answer
        except TimeoutError:
            self.leave(session)
            raise DatabaseGone("no answer in time") from None

    async def _serve(self, session: Session, work: Callable[[], Awaitable[Any]], answer: asyncio.Future[Any]) -> None:
        server, faults = self._server, self._server.faults
        is_slow = server.random.random() < faults.slow
        if is_slow:
            server.count("database slow")
        mean = faults.slow_seconds if is_slow else faults.delay
        await asyncio.sleep(server.random.expovariate(1 / mean))
        error: DatabaseGone | None = None
        result = None
        try:
            server._check(session)
            result = await work()
        except DatabaseGone as gone:
            error = gone
        if server.random.random() < faults.answer_lost:
            server.count("database answer lost")
            self.leave(session)
            error = DatabaseGone("the connection broke before the answer")
        await asyncio.sleep(server.random.expovariate(1 / faults.delay))
        with contextlib.suppress(asyncio.InvalidStateError):
            if error is not None:
                answer.set_exception(error)
                answer.exception()  # a client that is dead does not look
            else:
                answer.set_result(result)

    async def migrate(self) -> None:
        """There is nothing to do."""

    async def begin(self) -> Transaction:
        if not self._server.is_up:
            raise DatabaseGone("connection refused")
        return Transaction(self, self._session())

    async def take_over(self, transactional_id: str, expected_version: int | None) -> int | None:
        result: int | None = await self.ask(self._session(), "take_over", transactional_id, expected_version)
        return result

    async def read(self, transactional_id: str) -> StoredState | None:
        result: StoredState | None = await self.ask(self._session(), "read", transactional_id)
        return result

    async def read_all(self) -> Mapping[str, StoredState]:
        return dict(self._server.rows)

    async def close(self) -> None:
        """Nothing is open."""
