"""Recipes: what an application builds from clients and something else. Dual writes (KIP-939): docs/dual-writes.md.

Names load on first use; an adapter whose library is missing says which extra brings it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oncelog.core.two_phase.dual_write import Outcome as Outcome
    from oncelog.core.two_phase.dual_write import StoredState as StoredState
    from oncelog.errors import InstanceFenced as InstanceFenced
    from oncelog.errors import NotBegun as NotBegun
    from oncelog.errors import OutcomeUnknown as OutcomeUnknown
    from oncelog.recipes import sync as sync
    from oncelog.recipes.database import AsyncDatabase as AsyncDatabase
    from oncelog.recipes.database import Database as Database
    from oncelog.recipes.database import NotCommitted as NotCommitted
    from oncelog.recipes.dual_writer import DualWriter as DualWriter
    from oncelog.recipes.dual_writer import Transaction as Transaction
    from oncelog.recipes.janitor import InDoubt as InDoubt
    from oncelog.recipes.janitor import find_in_doubt as find_in_doubt
    from oncelog.recipes.janitor import metrics_text as metrics_text
    from oncelog.recipes.janitor import resolve as resolve
    from oncelog.recipes.opening import open_database as open_database
    from oncelog.recipes.psycopg import AsyncPsycopgDatabase as AsyncPsycopgDatabase
    from oncelog.recipes.psycopg import PsycopgDatabase as PsycopgDatabase
    from oncelog.recipes.rocksdb import RocksDatabase as RocksDatabase
    from oncelog.recipes.sqlalchemy import AsyncSqlAlchemyDatabase as AsyncSqlAlchemyDatabase
    from oncelog.recipes.sqlalchemy import SqlAlchemyDatabase as SqlAlchemyDatabase
    from oncelog.recipes.sqlalchemy import SqlAlchemySessions as SqlAlchemySessions
    from oncelog.recipes.sqlite import SqliteDatabase as SqliteDatabase
    from oncelog.recipes.zookeeper import ZooKeeperDatabase as ZooKeeperDatabase

_HOME = {
    "AsyncDatabase": "oncelog.recipes.database",
    "AsyncPsycopgDatabase": "oncelog.recipes.psycopg",
    "AsyncSqlAlchemyDatabase": "oncelog.recipes.sqlalchemy",
    "Database": "oncelog.recipes.database",
    "DualWriter": "oncelog.recipes.dual_writer",
    "InDoubt": "oncelog.recipes.janitor",
    "InstanceFenced": "oncelog.errors",
    "NotBegun": "oncelog.errors",
    "NotCommitted": "oncelog.recipes.database",
    "Outcome": "oncelog.core.two_phase.dual_write",
    "OutcomeUnknown": "oncelog.errors",
    "PsycopgDatabase": "oncelog.recipes.psycopg",
    "RocksDatabase": "oncelog.recipes.rocksdb",
    "SqlAlchemyDatabase": "oncelog.recipes.sqlalchemy",
    "SqlAlchemySessions": "oncelog.recipes.sqlalchemy",
    "SqliteDatabase": "oncelog.recipes.sqlite",
    "StoredState": "oncelog.core.two_phase.dual_write",
    "Transaction": "oncelog.recipes.dual_writer",
    "ZooKeeperDatabase": "oncelog.recipes.zookeeper",
    "find_in_doubt": "oncelog.recipes.janitor",
    "metrics_text": "oncelog.recipes.janitor",
    "open_database": "oncelog.recipes.opening",
    "resolve": "oncelog.recipes.janitor",
}

__all__ = [*_HOME, "sync"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    elif name == "sync":
        value = importlib.import_module("oncelog.recipes.sync")
    else:
        raise AttributeError(f"module 'oncelog.recipes' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """For who completes names: those that load on first use, too."""
    return sorted({*globals(), *__all__})
