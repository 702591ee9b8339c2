"""A database by its URL, for the command line and whoever has no connection of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from oncelog.errors import ConfigurationError, OncelogError
from oncelog.recipes.database import Database
from oncelog.recipes.missing import missing
from oncelog.recipes.sqlite import SqliteDatabase


@contextmanager
def open_database(url: str) -> Iterator[Database[Any]]:
    """The adapter for a URL, closed at the end.

    SQLAlchemy's URLs (sqlite:///file, postgresql+psycopg://user@host/name, mysql+pymysql://...; postgresql:// means psycopg 3),
    rocksdb:///folder (its process must have ended), zookeeper://host:port,host:port/root.

    Raises:
        ConfigurationError: a URL that says no database. MissingLibrary: its library is not installed.
    """
    scheme = urlsplit(url).scheme
    if not scheme or "://" not in url:
        raise ConfigurationError(f"not a database's URL: {url!r} (expected e.g. sqlite:///orders.db)")
    with contextlib.ExitStack() as stack:
        if scheme == "rocksdb":
            yield _rocksdb(url, stack)
        elif scheme == "zookeeper":
            yield _zookeeper(url, stack)
        elif url.startswith("sqlite:///") and "?" not in url:  # nothing is to be installed for that
            yield stack.enter_context(SqliteDatabase(url.removeprefix("sqlite:///") or ":memory:"))
        else:
            yield _sqlalchemy(url, stack)


def _rocksdb(url: str, stack: contextlib.ExitStack) -> Database[Any]:
    from oncelog.recipes.rocksdb import RocksDatabase, open_rows

    parts = urlsplit(url)
    rows, raw_mode = open_rows(parts.netloc + parts.path)
    stack.callback(rows.close)
    return stack.enter_context(RocksDatabase(rows, raw_mode=raw_mode))


def _zookeeper(url: str, stack: contextlib.ExitStack) -> Database[Any]:
    try:
        from kazoo.client import KazooClient
        from kazoo.handlers.threading import KazooTimeoutError
    except ImportError as error:
        raise missing("kazoo", "zookeeper", error) from error
    from oncelog.recipes.zookeeper import ZooKeeperDatabase

    parts = urlsplit(url)
    client = KazooClient(parts.netloc + parts.path.rstrip("/"))
    stack.callback(client.close)
    stack.callback(client.stop)
    try:
        client.start(timeout=10)
    except KazooTimeoutError as error:
        raise OncelogError(f"no ZooKeeper answers at {parts.netloc}") from error
    return ZooKeeperDatabase(client)


def _sqlalchemy(url: str, stack: contextlib.ExitStack) -> Database[Any]:
    try:
        import sqlalchemy as sa
    except ImportError as error:
        raise missing("sqlalchemy", "sql", error) from error
    from oncelog.recipes.sqlalchemy import SqlAlchemyDatabase

    if url.startswith(("postgresql://", "postgres://")):
        url = "postgresql+psycopg" + url[url.index("://") :]
    try:
        engine = sa.create_engine(url)
    except sa.exc.ArgumentError as error:
        raise ConfigurationError(f"not a database's URL: {error}") from error
    except ImportError as error:
        raise ConfigurationError(f"the driver of {urlsplit(url).scheme} is not installed: {error}") from error
    stack.callback(engine.dispose)
    return SqlAlchemyDatabase(engine)
