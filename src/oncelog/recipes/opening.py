"""A database by its URL, for the command line and whoever has no connection of their own."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import SplitResult, urlsplit

from oncelog.client import arguments
from oncelog.errors import ConfigurationError, OncelogError, missing
from oncelog.recipes.database import Database
from oncelog.recipes.sqlite import SqliteDatabase

_HOST = r"([\w.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?"
_HOSTS = re.compile(f"{_HOST}(,{_HOST})*")


@contextmanager
def open_database(url: str) -> Iterator[Database[Any]]:
    """The adapter for a URL, closed at the end.

    SQLAlchemy's URLs (sqlite:///file, postgresql+psycopg://user@host/name, mysql+pymysql://...; postgresql:// means psycopg 3),
    rocksdb:///folder (its process must have ended), zookeeper://host:port,host:port/root.

    Raises:
        ConfigurationError: a URL that says no database. MissingLibrary: its library is not installed.
    """
    scheme = _parts(url).scheme
    with contextlib.ExitStack() as stack:
        if scheme == "rocksdb":
            yield _rocksdb(url, stack)
        elif scheme == "zookeeper":
            yield _zookeeper(url, stack)
        elif _is_plain_sqlite(url):  # nothing is to be installed for that
            yield stack.enter_context(SqliteDatabase(url.removeprefix("sqlite:///") or ":memory:"))
        else:
            yield _sqlalchemy(url, stack)


@contextmanager
def open_existing_database(url: str) -> Iterator[Database[Any]]:
    """As `open_database`, for who only looks: a file of SQLite's that is not there is not made.

    Raises ConfigurationError for one, too.
    """
    path = url.removeprefix("sqlite:///") if _is_plain_sqlite(url) else ""
    if path not in ("", ":memory:") and not os.path.exists(path):
        raise ConfigurationError(f"there is no database file {path!r}")
    with open_database(url) as database:
        yield database


def check_database_url(url: str) -> None:
    """Whether `open_database` understands the URL and has its library; the database itself is not asked, and may be down.

    Raises:
        ConfigurationError: a URL that says no database. MissingLibrary: its library is not installed.
    """
    parts = _parts(url)
    if parts.scheme == "rocksdb":
        import oncelog.recipes.rocksdb  # noqa: F401
    elif parts.scheme == "zookeeper":
        _kazoo_client()
    elif not _is_plain_sqlite(url):
        with contextlib.ExitStack() as stack:
            _sqlalchemy(url, stack)


def _parts(url: str) -> SplitResult:
    arguments.text("url", url)
    try:
        parts = urlsplit(url)
        _ = parts.port if parts.scheme != "zookeeper" else None  # that one has several hosts, each with a port
    except ValueError as error:
        raise ConfigurationError(f"not a database's URL: {error}") from error
    if not parts.scheme or "://" not in url:
        raise ConfigurationError(f"not a database's URL: {url!r} (expected e.g. sqlite:///orders.db)")
    if parts.scheme == "rocksdb" and not parts.netloc + parts.path:  # not the working directory
        raise ConfigurationError(f"not a RocksDB's URL: {url!r} (expected e.g. rocksdb:///var/lib/app/rows)")
    if parts.scheme == "zookeeper" and not _HOSTS.fullmatch(parts.netloc):
        raise ConfigurationError(
            f"not a ZooKeeper's URL: {url!r} (expected e.g. zookeeper://host:2181,other:2181/root)"
        )
    return parts


def _is_plain_sqlite(url: str) -> bool:
    return url.startswith("sqlite:///") and "?" not in url


def _rocksdb(url: str, stack: contextlib.ExitStack) -> Database[Any]:
    from oncelog.recipes.rocksdb import RocksDatabase, open_rows

    parts = urlsplit(url)
    rows, raw_mode = open_rows(parts.netloc + parts.path)
    stack.callback(rows.close)
    return stack.enter_context(RocksDatabase(rows, raw_mode=raw_mode))


def _kazoo_client() -> Any:
    try:
        from kazoo.client import KazooClient
    except ImportError as error:
        raise missing("oncelog.recipes", error, kazoo="zookeeper") from error
    return KazooClient


def _zookeeper(url: str, stack: contextlib.ExitStack) -> Database[Any]:
    make_client = _kazoo_client()
    from kazoo.handlers.threading import KazooTimeoutError

    from oncelog.recipes.zookeeper import ZooKeeperDatabase

    parts = urlsplit(url)
    client = make_client(parts.netloc + parts.path.rstrip("/"))
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
        raise missing("oncelog.recipes", error, sqlalchemy="sql") from error
    from oncelog.recipes.sqlalchemy import SqlAlchemyDatabase

    if url.startswith(("postgresql://", "postgres://")):
        url = "postgresql+psycopg" + url[url.index("://") :]
    try:
        engine = sa.create_engine(url)
    except sa.exc.NoSuchModuleError as error:
        scheme = urlsplit(url).scheme
        known = "postgresql, mysql+pymysql, sqlite, rocksdb, zookeeper"
        raise ConfigurationError(f"not a database's URL: nothing here knows {scheme!r} (such as {known})") from error
    except (sa.exc.ArgumentError, ValueError, TypeError) as error:
        raise ConfigurationError(f"not a database's URL: {error}") from error
    except ImportError as error:
        raise ConfigurationError(f"the driver of {urlsplit(url).scheme} is not installed: {error}") from error
    stack.callback(engine.dispose)
    return SqlAlchemyDatabase(engine)
