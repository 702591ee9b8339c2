"""A PostgreSQL of its own, where its programs are installed."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator

START_TIMEOUT_S = 120.0  # for a hang


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


class PostgreSql:
    """A running server. It listens on a socket in `folder`, short enough for one."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes]
        self.conninfo = f"host={folder} user=postgres dbname=postgres"
        self.url = f"postgresql+psycopg://postgres@/postgres?host={folder}"
        self.socket = folder / ".s.PGSQL.5432"

    def start(self) -> None:
        """Start, and wait until it takes connections. No thread: whoever calls may fork."""
        server = program("postgres")
        assert server is not None
        command = _as_its_user(
            server, "-D", str(self.folder / "data"), "-k", str(self.folder), "-c", "listen_addresses="
        )
        log = self.folder / "server.log"
        with log.open("ab") as output:
            begins = log.stat().st_size
            self.process = subprocess.Popen(command, stderr=output, stdout=output)
        deadline = time.monotonic() + START_TIMEOUT_S
        while b"ready to accept connections" not in log.read_bytes()[begins:]:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start: {log.read_text()[-500:]}")
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: a fast shutdown; SIGQUIT: as after a crash."""
        self.process.send_signal(how)
        self.process.wait(START_TIMEOUT_S)


@contextlib.contextmanager
def running() -> Iterator[PostgreSql]:
    """A server on a fresh directory, removed at the end."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="oncelog-pg-", dir="/tmp"))
    initdb = program("initdb")
    assert initdb is not None
    try:
        if os.getuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
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
    finally:
        shutil.rmtree(folder, ignore_errors=True)
