"""`oncelog serve --processes N`, each process killed while the others serve; the first process starts it again."""

from __future__ import annotations

import contextlib
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Self

from bench.servers import build_directory

STARTS_S_MAX = 60.0
LOOK_S = 0.05


class OncelogProcesses:
    """`with OncelogProcesses(3) as cluster:`; `bootstrap` names all. Node ids are 1 to `count`. `stderr` is their log."""

    replication_factor = 1
    name = "oncelog"

    def __init__(self, count: int = 3, *options: str) -> None:
        self.nodes = tuple(range(1, count + 1))
        self._options = options

    def __enter__(self) -> Self:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="oncelog-processes-", dir=build_directory()))
        try:
            self._begin("--processes", str(len(self.nodes)))
        except BaseException:
            self._end()
            raise
        return self

    def _begin(self, *options: str) -> None:
        command = [sys.executable, "-m", "oncelog", "serve", *options, *self._options]
        command += ["--data-dir", str(self.folder / "data"), "--listen", "127.0.0.1:0"]
        self.log = (self.folder / "log").open("ab")
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        assert self._process.stdout is not None
        words = self._process.stdout.readline().split()
        if not words or words[0] != "ready":
            raise RuntimeError(f"oncelog did not start: {(self.folder / 'log').read_text()[-500:]}")
        self.addresses = words[1].split(",")
        self.bootstrap = words[1]

    def __exit__(self, *_: object) -> None:
        self._end()

    def kill(self, node: int) -> None:
        """SIGKILL; it is dead when this returns."""
        watched = os.pidfd_open(process_id := self.process_id(node))
        try:
            os.kill(process_id, signal.SIGKILL)
            select.select([watched], [], [], STARTS_S_MAX)
        finally:
            os.close(watched)

    def kill_the_first(self) -> None:
        """SIGKILL of the process that has started the others."""
        self._process.kill()
        self._process.wait()

    def start(self, node: int) -> None:
        """A killed node is started again by itself: it listens when this returns."""
        host, port = self.addresses[self.nodes.index(node)].rsplit(":", 1)
        ends = time.monotonic() + STARTS_S_MAX
        while True:
            with socket.socket() as tried:
                if tried.connect_ex((host, int(port))) == 0:
                    return
            if time.monotonic() > ends:
                raise RuntimeError(f"process {node} did not come back: {(self.folder / 'log').read_text()[-500:]}")
            time.sleep(LOOK_S)

    @contextlib.contextmanager
    def paused(self, node: int) -> Iterator[None]:
        """SIGSTOP: its connections stay, and nobody answers."""
        process_id = self.process_id(node)
        os.kill(process_id, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(process_id, signal.SIGCONT)

    def process_id(self, node: int) -> int:
        """Of the process that is this node now."""
        wanted = f"{node - 1}/{len(self.nodes)}"
        for each in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                words = (each / "cmdline").read_bytes().decode().split("\0") if each.name.isdecimal() else []
                if wanted in words and "--process" in words and str(self.folder) in " ".join(words):
                    return int(each.name)
        raise ProcessLookupError(f"no process is node {node}")

    def stop(self) -> int:
        """SIGTERM, and the exit status."""
        self._process.terminate()
        return self._process.wait(STARTS_S_MAX)

    def start_again(self, *options: str) -> None:
        """After `stop`: the same directory, at other ports; with as many processes as `options` say."""
        self._stop()
        self.log.close()
        self._begin(*options)

    def _stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STARTS_S_MAX)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _end(self) -> None:
        if hasattr(self, "_process"):
            self._stop()
        if hasattr(self, "log"):
            self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)
