"""Apache Kafka as three brokers (replication 3, min.insync.replicas 2), each killed and started again."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from typing import Self

from bench.servers import ORACLE, build_directory, free_port

NODES = (1, 2, 3)
PORTS_TRIED = 20


class KafkaCluster:
    """`with KafkaCluster() as cluster:`; `bootstrap` names all three. `config` is each one's, beside the oracle's own."""

    nodes = NODES
    replication_factor = 3
    name = "Apache Kafka 4.3"

    def __init__(self, config: Mapping[str, str] | None = None) -> None:
        self._config = [f"{key}={value}" for key, value in (config or {}).items()]

    def __enter__(self) -> Self:
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="kafka-cluster-", dir=build_directory()))
        try:
            command = [str(ORACLE), "cluster", str(self._folder), str(_three_free_ports()), *self._config]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"the cluster did not start: {done.stderr[-500:]}")
            self.bootstrap = done.stdout.split()[-1]
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def kill(self, node: int) -> None:
        """SIGKILL."""
        os.kill(self._process_id(node), signal.SIGKILL)

    def start(self, node: int) -> None:
        """A killed node again; it is up when this returns, and catches up with the others in its own time."""
        subprocess.run([ORACLE, "node", self._folder / str(node)], check=True, capture_output=True)

    @contextlib.contextmanager
    def paused(self, node: int) -> Iterator[None]:
        """SIGSTOP: its connections stay, and nobody answers."""
        os.kill(self._process_id(node), signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._process_id(node), signal.SIGCONT)

    def data_directory(self, node: int) -> pathlib.Path:
        """Where a node's logs lie."""
        return self._folder / str(node) / "data"

    def _process_id(self, node: int) -> int:
        return int((self._folder / str(node) / "pid").read_text())

    def _end(self) -> None:
        for node in NODES:
            try:
                self.kill(node)
            except (OSError, ValueError):
                continue  # it never began, or is dead
        shutil.rmtree(self._folder, ignore_errors=True)


def _three_free_ports() -> int:
    """The first of three in a row."""
    for _ in range(PORTS_TRIED):
        first = free_port()
        if first + len(NODES) < 65_536 and all(_is_free(first + more) for more in range(1, len(NODES))):
            return first
    raise RuntimeError("no three ports in a row are free")


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) != 0
