"""A MariaDB of its own, where its programs are installed (Debian: mariadb-server)."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator

from evidence.world.database_server import DatabaseServer, fresh_folder

DATABASE = "shop"


def program(name: str) -> str | None:
    """A program of MariaDB, on the PATH or where Debian keeps servers."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


def why_not() -> str | None:
    """None where it can be started, else the reason."""
    if program("mariadbd") is None or program("mariadb-install-db") is None:
        return "MariaDB is not installed (apt-get install mariadb-server)"
    if importlib.util.find_spec("pymysql") is None:
        return "pymysql is not installed"
    if os.getuid() == 0 and not any(user.pw_name == "mysql" for user in pwd.getpwall()):
        return "MariaDB does not run as root, and there is no user mysql"
    return None


def _as_its_user(*command: str) -> list[str]:
    return [*command, "--user=mysql"] if os.getuid() == 0 else list(command)


class MariaDb(DatabaseServer):
    """A running server. It listens on a socket in `folder`, short enough for one, and on no port."""

    timeout_s = 60.0
    ready = b"ready for connections"

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(folder)
        self.socket = folder / "server.sock"
        self.url = f"mysql+pymysql://root@localhost/{DATABASE}?unix_socket={self.socket}"

    def start(self, *options: str) -> None:
        """Start, and wait until it takes connections."""
        server = program("mariadbd")
        assert server is not None
        command = [server, "--no-defaults", f"--datadir={self.folder / 'data'}", f"--socket={self.socket}"]
        command += [
            "--skip-networking",
            f"--pid-file={self.folder / 'server.pid'}",
            f"--tmpdir={self.folder}",  # its user may not write to that of whoever runs this
            "--innodb-buffer-pool-size=16M",
            *options,
        ]
        self.launch(_as_its_user(*command))

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """SIGTERM: a clean shutdown; SIGKILL: as after a crash."""
        self.end(how)


@contextlib.contextmanager
def running() -> Iterator[MariaDb]:
    """A server on a fresh directory, removed at the end."""
    install = program("mariadb-install-db")
    assert install is not None
    with fresh_folder("oncelog-my-", "mysql") as folder:
        subprocess.run(
            _as_its_user(
                install,
                "--no-defaults",
                f"--datadir={folder / 'data'}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                "--skip-name-resolve",
            ),
            check=True,
            capture_output=True,
            env={**os.environ, "TMPDIR": str(folder)},
        )
        server = MariaDb(folder)
        server.start()
        try:
            _create_database(server)
            yield server
        finally:
            server.stop()


def _create_database(server: MariaDb) -> None:
    import pymysql

    with contextlib.closing(pymysql.connect(unix_socket=str(server.socket), user="root")) as connection:
        connection.cursor().execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
