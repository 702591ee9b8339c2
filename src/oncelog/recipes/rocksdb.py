"""Dual writes with RocksDB through rocksdict: rows and state in one synced WriteBatch.

RocksDB belongs to one process, so the version needs no more than a lock in that process: it defeats an older writer of the
same process (a thread that was left behind). Another process is kept out by RocksDB's own lock file.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from oncelog.client import arguments
from oncelog.core.two_phase.dual_write import StoredState
from oncelog.errors import ConfigurationError, IllegalState, OncelogError, missing
from oncelog.recipes.database import TABLE, NotCommitted
from oncelog.types import PreparedTxnState

try:
    from rocksdict import Options, Rdict, WriteBatch, WriteOptions
except ImportError as error:
    raise missing("oncelog.recipes", error, rocksdict="rocksdb") from error

Key = str | int | float | bytes | bool
_locks: dict[str, threading.Lock] = {}
_locks_lock = threading.Lock()


class RocksWrites:
    """What a transaction writes; reads see it before it is committed."""

    def __init__(self, rows: Rdict, *, raw_mode: bool) -> None:
        self._rows = rows
        self._batch = WriteBatch(raw_mode=raw_mode)
        self._written: dict[tuple[str | None, Key], Any] = {}

    def __getitem__(self, key: Key) -> Any:
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: Key, value: Any) -> None:
        self.put(key, value)

    def __delitem__(self, key: Key) -> None:
        self.delete(key)

    def get(self, key: Key, default: Any = None, *, column_family: str | None = None) -> Any:
        """A value, as this transaction sees it."""
        if (column_family, key) in self._written:
            value = self._written[column_family, key]
        else:
            rows = self._rows if column_family is None else self._rows.get_column_family(column_family)
            value = rows.get(key)
        return default if value is None else value

    def put(self, key: Key, value: Any, *, column_family: str | None = None) -> None:
        """Write a value."""
        self._written[column_family, key] = value
        if column_family is None:
            self._batch.put(key, value)
        else:
            self._batch.put(key, value, self._rows.get_column_family_handle(column_family))

    def delete(self, key: Key, *, column_family: str | None = None) -> None:
        """Remove a value."""
        self._written[column_family, key] = None
        if column_family is None:
            self._batch.delete(key)
        else:
            self._batch.delete(key, self._rows.get_column_family_handle(column_family))


class _Open:
    """A batch that is written as a whole, or not at all."""

    def __init__(self, owner: RocksDatabase) -> None:
        self.handle = RocksWrites(owner.rows, raw_mode=owner.raw_mode)
        self._owner = owner
        self._stored: tuple[str, StoredState] | None = None

    def store(self, transactional_id: str, stored: StoredState) -> bool:
        self._stored = (transactional_id, stored)
        return self._owner.is_version(transactional_id, stored.instance_version)

    def commit(self) -> None:
        if self._stored is None:
            raise IllegalState("commit: no state was stored")
        transactional_id, stored = self._stored
        with self._owner.lock:
            if not self._owner.is_version(transactional_id, stored.instance_version):
                raise NotCommitted(f"{transactional_id!r}: a newer instance took over")
            self._owner.write(self.handle._batch, transactional_id, stored)

    def rollback(self) -> None:
        self.handle._batch.clear()


class RocksDatabase:
    """RocksDB; `handle` is RocksWrites. `raw_mode` is that of the Rdict. The Rdict stays yours to close."""

    errors: tuple[type[Exception], ...] = (Exception,)  # rocksdict raises RocksDB's errors as nothing more special

    def __init__(self, rows: Rdict, *, raw_mode: bool = False) -> None:
        if not isinstance(rows, Rdict):
            raise arguments.refuse("rows", rows, "an Rdict of rocksdict that is open")
        self.rows, self.raw_mode = rows, raw_mode
        self._states: Rdict | None = None
        self._synced = WriteOptions()
        self._synced.sync = True
        with _locks_lock:
            self.lock = _locks.setdefault(rows.path(), threading.Lock())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def migrate(self) -> None:
        """Create the column family `kafka_transaction_state` where it is missing."""
        with self.lock:
            if TABLE not in Rdict.list_cf(self.rows.path()):
                self.rows.create_column_family(TABLE, Options(raw_mode=self.raw_mode))

    def begin(self) -> _Open:
        """An empty batch."""
        return _Open(self)

    def take_over(self, transactional_id: str, expected_version: int | None) -> int | None:
        """Raise the version."""
        with self.lock:
            found = self.read(transactional_id) or StoredState(0, PreparedTxnState())
            if expected_version is not None and found.instance_version != expected_version:
                return None
            raised = StoredState(found.instance_version + 1, found.prepared_state)
            self.write(WriteBatch(raw_mode=self.raw_mode), transactional_id, raised)
        return raised.instance_version

    def write(self, batch: WriteBatch, transactional_id: str, stored: StoredState) -> None:
        """Write a batch and the state, synced. The caller holds the lock."""
        content = f"{stored.instance_version} {stored.prepared_state}".encode()
        batch.put(transactional_id.encode(), content, self.rows.get_column_family_handle(TABLE))
        self.rows.write(batch, self._synced)

    def is_version(self, transactional_id: str, instance_version: int) -> bool:
        """Whether the row has this version now."""
        found = self.read(transactional_id)
        return found is not None and found.instance_version == instance_version

    def read(self, transactional_id: str) -> StoredState | None:
        """The committed row."""
        content = self._column_family().get(transactional_id.encode())
        return None if content is None else _state_of(content)

    def read_all(self) -> Mapping[str, StoredState]:
        """Every committed row."""
        return {key.decode(): _state_of(content) for key, content in self._column_family().items()}

    def _column_family(self) -> Rdict:
        if self._states is None:
            self._states = self.rows.get_column_family(TABLE)
        return self._states

    def close(self) -> None:
        """Let go of the column family; the Rdict is yours."""
        self._states = None


def open_rows(folder: str) -> tuple[Rdict, bool]:
    """An existing RocksDB with all its column families; whether it is in raw mode. Raises ConfigurationError, OncelogError."""
    config = Path(folder, "rocksdict-config.json")
    if not Path(folder, "CURRENT").exists():
        raise ConfigurationError(f"no RocksDB in {folder!r}")
    raw_mode = not config.exists() or bool(json.loads(config.read_text())["raw_mode"])
    families = {name: Options(raw_mode=raw_mode) for name in Rdict.list_cf(folder)}
    try:
        return Rdict(folder, Options(raw_mode=raw_mode), column_families=families), raw_mode
    except RocksDatabase.errors as error:
        raise OncelogError(
            f"{folder!r} cannot be opened (it belongs to one process: the one before must end): {error}"
        ) from error


def _state_of(content: bytes) -> StoredState:
    version, _, prepared_state = content.decode().partition(" ")
    return StoredState(int(version), PreparedTxnState(prepared_state))
