"""SQLite behind awaits, so that a dual writer over it can be cancelled before and behind each call's effect."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

from oncelog.core.two_phase.dual_write import StoredState
from oncelog.recipes import SqliteDatabase


class PausingTransaction:
    """A transaction of `PausingDatabase`."""

    def __init__(self, transaction: Any) -> None:
        self._transaction = transaction
        self.handle = transaction.handle

    async def store(self, transactional_id: str, stored: StoredState) -> bool:
        return bool(await _pausing(self._transaction.store, transactional_id, stored))

    async def commit(self) -> None:
        await _pausing(self._transaction.commit)

    async def rollback(self) -> None:
        await _pausing(self._transaction.rollback)


class PausingDatabase:
    """SQLite behind awaits: one before each call takes effect, one behind it."""

    errors: tuple[type[Exception], ...] = (sqlite3.Error,)

    def __init__(self) -> None:
        self.connection = sqlite3.connect("file::memory:", uri=True)
        self._database = SqliteDatabase(lambda: self.connection)
        self._database.migrate()
        self.connection.execute("CREATE TABLE written (value)")

    async def migrate(self) -> None:
        self._database.migrate()

    async def begin(self) -> PausingTransaction:
        await asyncio.sleep(0)
        return PausingTransaction(self._database.begin())

    async def take_over(self, transactional_id: str, expected_version: int | None) -> int | None:
        version: int | None = await _pausing(self._database.take_over, transactional_id, expected_version)
        return version

    async def read(self, transactional_id: str) -> StoredState | None:
        stored: StoredState | None = await _pausing(self._database.read, transactional_id)
        return stored

    async def read_all(self) -> Mapping[str, StoredState]:
        return self._database.read_all()

    async def close(self) -> None:
        self._database.close()


async def _pausing(call: Callable[..., Any], *arguments: Any) -> Any:
    await asyncio.sleep(0)
    result = call(*arguments)
    await asyncio.sleep(0)
    return result
