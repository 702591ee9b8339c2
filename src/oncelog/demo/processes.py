"""The demo's children: the broker, the loader, the Spark job. Each is killed for real and started again the same way."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

Event = dict[str, Any]


class ChildFailed(RuntimeError):
    """A child ended as it should not; the message says where its log is."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Child:
    """A process in a group of its own, so that a kill takes the JVM and the Python workers too."""

    def __init__(
        self, name: str, module: str, arguments: list[str], folder: pathlib.Path, hear: Callable[[Event], None]
    ) -> None:
        self.name, self._hear = name, hear
        self.log_path = folder / f"{name}.log"
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict):
                    self._hear({"source": self.name, **event})

    def kill(self) -> None:
        """SIGKILL to the whole group; nothing gets a chance to clean up."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def exit_status(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        return self.process.poll()

    def last_words(self) -> str:
        """The end of its log, for an error message."""
        lines = self.log_path.read_text(errors="replace").strip().splitlines()
        return "\n".join(lines[-15:])


class BrokerProcess:
    """`oncelog serve` on a fixed port, so that clients find it again after a kill."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.bootstrap = f"127.0.0.1:{probe.getsockname()[1]}"
        self.process: subprocess.Popen[bytes]
        self.ready_ms = 0

    def start(self) -> None:
        """Start and wait for the line that says it is ready. Raises ChildFailed."""
        begun = now_ms()
        command = [
            *(sys.executable, "-m", "oncelog", "serve"),
            *("--data-dir", str(self._folder / "data"), "--listen", self.bootstrap),
            *("-c", "transaction.two.phase.commit.enable=true", "-c", "num.partitions=4"),
            *("-c", "transaction.state.log.num.partitions=8", "-c", "offsets.topic.num.partitions=8"),
        ]
        with (self._folder / "broker.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith(b"ready "):
            raise ChildFailed(f"the broker did not start; see {self._folder / 'broker.log'}")
        self.ready_ms = now_ms() - begun

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """SIGTERM and wait: a clean shutdown."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
