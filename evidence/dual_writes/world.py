"""Broker, PostgreSQL, proxies and stores of the crash tests. No thread lives here: instances are forked from this process."""

from __future__ import annotations

import contextlib
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from evidence.dual_writes.instance import Child, Life
from evidence.dual_writes.proxy import Proxy
from evidence.world import postgresql
from evidence.world.ports import free_port
from evidence.world.postgresql import PostgreSql
from evidence.world.stores import Store, make_written, psycopg_store, rocks_store, sqlite_store
from oncelog import TopicPartition, sync

STALL_LIMIT_MS = 700
BUSY_TIMEOUT_MS = 5000


class World:
    """`broker` is the proxy's address, which the broker advertises as its own."""

    def __init__(self, folder: pathlib.Path, kinds: list[str]) -> None:
        self.folder, self.kinds = folder, kinds
        self._port, proxy_port = free_port(), free_port()
        self.broker = f"127.0.0.1:{proxy_port}"
        self.kafka = Proxy("kafka", ("127.0.0.1", proxy_port), ("127.0.0.1", self._port))
        self.server: subprocess.Popen[bytes]
        self.start_broker()
        self.postgres: PostgreSql | None = None
        self.sql: Proxy | None = None
        self._stack = contextlib.ExitStack()
        if "postgresql" in kinds:
            self.postgres = self._stack.enter_context(postgresql.running())
            make_written(self.postgres.conninfo)
            proxied = self.postgres.folder / "proxy"
            proxied.mkdir()
            self.sql = Proxy("postgresql", str(proxied / ".s.PGSQL.5432"), str(self.postgres.socket))
        self._numbers = 0

    def start_broker(self) -> None:
        """Start `oncelog serve`, and wait until it is ready."""
        command = [sys.executable, "-m", "oncelog", "serve", "--data-dir", str(self.folder / "data")]
        command += ["--listen", f"127.0.0.1:{self._port}", "-c", "transaction.two.phase.commit.enable=true"]
        command += ["-c", f"advertised.listeners=PLAINTEXT://{self.broker}"]
        with (self.folder / "broker.log").open("ab") as log:
            self.server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL)
        assert self.server.stdout is not None
        line = self.server.stdout.readline()
        assert line.startswith(b"ready "), (self.folder / "broker.log").read_text()[-800:]

    def restart_broker(self) -> None:
        """After it was killed, or kill it."""
        self.server.kill()
        self.server.wait()
        assert self.server.stdout is not None
        self.server.stdout.close()
        self.start_broker()

    def restart_postgres(self) -> None:
        """As after a crash: every session is gone at once."""
        assert self.postgres is not None
        self.postgres.stop(signal.SIGQUIT)
        self.postgres.start()

    def close(self) -> None:
        self.server.terminate()
        try:
            self.server.wait(20)
        except subprocess.TimeoutExpired:
            self.server.kill()
            self.server.wait()
        assert self.server.stdout is not None
        self.server.stdout.close()
        self.kafka.close()
        if self.sql is not None:
            self.sql.close()
        self._stack.close()

    # instances

    def store(self, kind: str, name: str, *, busy_timeout_ms: int = BUSY_TIMEOUT_MS) -> Store:
        """The database of a cell; PostgreSQL's through the proxy."""
        if kind == "postgresql":
            assert self.postgres is not None
            conninfo = self.postgres.conninfo.replace(str(self.postgres.folder), str(self.postgres.folder / "proxy"))
            return psycopg_store(conninfo, stall_limit_ms=STALL_LIMIT_MS)
        folder = self.folder / kind / (name if kind == "rocksdb" else "")
        folder.mkdir(parents=True, exist_ok=True)
        if kind == "sqlite":
            return sqlite_store(folder, busy_timeout_ms=busy_timeout_ms)
        return rocks_store(folder)

    def new_name(self, text: str) -> str:
        self._numbers += 1
        return f"{self._numbers}-{text.replace(' ', '-')}"

    def child(self, kind: str, name: str, body: Callable[[Life], None], **more: Any) -> Child:
        store = self.store(kind, name, busy_timeout_ms=more.pop("busy_timeout_ms", BUSY_TIMEOUT_MS))
        return Child(store, self.broker, name, body, **more)

    def ask(self, kind: str, name: str, body: Callable[[Life], None], **more: Any) -> list[Any]:
        """What a child says that lives to its end."""
        child = self.child(kind, name, body, **more)
        lines = child.rest()
        assert child.wait() == 0, f"{kind} {name}: a child failed after {lines}"
        return lines


@contextmanager
def running(folder: pathlib.Path, kinds: list[str]) -> Iterator[World]:
    """A world; everything in it is stopped at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    world = World(folder, kinds)
    try:
        yield world
    finally:
        world.close()


def records_of(broker: str, topic: str) -> dict[str, list[int]]:
    """Committed values by key. Called in a child: a client makes threads."""
    with sync.Admin(bootstrap_servers=broker) as admin:
        while any(each.state.startswith("Prepare") for each in admin.list_transactions()):
            time.sleep(0.005)
        if topic not in admin.list_topics():
            return {}  # nobody got as far as a record
    found: dict[str, list[int]] = {}
    with sync.Consumer(
        bootstrap_servers=broker,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        fetch_max_wait_ms=20,
        max_poll_records=5000,
    ) as consumer:
        where = TopicPartition(topic, 0)
        consumer.assign([where])
        end = consumer.end_offsets([where])[where]
        while consumer.position(where) < end:
            for record in consumer.poll(timeout_ms=1000):
                assert record.key is not None
                assert record.value is not None
                found.setdefault(record.key.decode(), []).append(int(record.value))
    return found
