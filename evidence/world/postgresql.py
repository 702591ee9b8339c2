"""A PostgreSQL of its own, where its programs are installed."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
from collections.abc import Iterator

from evidence.world.database_server import DatabaseServer, fresh_folder


def program(name: str) -> str | None:
    """A program of PostgreSQL, on the PATH or where Debian keeps it."""
    found = shutil.which(name)
    if found:
        return found
    versions = sorted(pathlib.Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(versions[-1]) if versions else None


def why_not() -> str | None:
    """None where it can be started, else the reason."""
    if program("initdb") is None or program("postgres") is None:
        return "PostgreSQL is not installed"
    if os.getuid() == 0 and shutil.which("setpriv") is None:
        return "PostgreSQL does not run as root, and setpriv is missing"
    return None


def _as_its_user(*command: str) -> list[str]:
    if os.getuid() != 0:
        return list(command)
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]


class PostgreSql(DatabaseServer):
    """A running server. It listens on a socket in `folder`, short enough for one."""

    timeout_s = 120.0
    ready = b"ready to accept connections"

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(folder)
        self.conninfo = f"host={folder} user=postgres dbname=postgres"
        self.url = f"postgresql+psycopg://postgres@/postgres?host={folder}"
        self.socket = folder / ".s.PGSQL.5432"

    def start(self) -> None:
        """Start, and wait until it takes connections. No thread: whoever calls may fork."""
        server = program("postgres")
        assert server is not None
        self.launch(
            _as_its_user(server, "-D", str(self.folder / "data"), "-k", str(self.folder), "-c", "listen_addresses=")
        )

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: a fast shutdown; SIGQUIT: as after a crash."""
        self.end(how)


@contextlib.contextmanager
def running() -> Iterator[PostgreSql]:
    """A server on a fresh directory, removed at the end."""
    initdb = program("initdb")
    assert initdb is not None
    with fresh_folder("oncelog-pg-", "postgres") as folder:
        subprocess.run(
            _as_its_user(initdb, "-D", str(folder / "data"), "-U", "postgres", "-A", "trust", "--no-sync"),
            check=True,
            capture_output=True,
        )
        server = PostgreSql(folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
