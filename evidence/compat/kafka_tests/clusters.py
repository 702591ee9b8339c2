"""Brokers for Kafka's tests: the JVM that runs them asks over a socket, each test gets a fresh one."""

from __future__ import annotations

import base64
import itertools
import pathlib
import signal
import socketserver
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import IO, Any, Protocol, Self

from evidence.world.ports import free_port

STOP_S = 60
# What Kafka's tests set and oncelog has no key for, with the reason why the test asks the same without it.
LEFT_OUT = {
    "group.coordinator.rebalance.protocols": "all protocols are served; a test that wants fewer is skipped",
    "group.share.enable": "gone since Kafka 4.1",
    "group.share.persister.class.name": "what became of records is always stored",
    "unstable.api.versions.enable": "neither broker is asked for unstable versions",
    "share.coordinator.state.topic.replication.factor": "one broker",
    "share.coordinator.state.topic.min.isr": "one broker",
    "offsets.topic.replication.factor": "one broker",
    "transaction.state.log.replication.factor": "one broker",
    "transaction.state.log.min.isr": "one broker",
}


class Brokers(Protocol):
    """Where fresh brokers come from; both answer as the line protocol does."""

    def start(self, properties: Mapping[str, str]) -> str:
        """`ready HOST:PORT NUMBER`, `skip REASON` or `failed REASON`."""

    def stop(self, number: str) -> None: ...


class OncelogBrokers:
    """An `oncelog serve` for each test; what all of them logged is in `log`."""

    def __init__(self, log: pathlib.Path, known_keys: frozenset[str]) -> None:
        self._log, self._known = log, known_keys
        self._numbers = itertools.count(1)
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, properties: Mapping[str, str]) -> str:
        protocols = properties.get("group.coordinator.rebalance.protocols", "streams")
        if not {"share", "streams"} & set(protocols.split(",")):
            return f"skip needs a broker without some of the group protocols ({protocols})"
        given = {key: value for key, value in properties.items() if key in self._known or key not in LEFT_OUT}
        port = free_port()
        settings = [text for key, value in given.items() for text in ("-c", f"{key}={value}")]
        command = [sys.executable, "-m", "oncelog", "serve", "--ephemeral", "--listen", f"127.0.0.1:{port}", *settings]
        with self._log.open("ab") as log:
            began = log.tell()
            broker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        assert broker.stdout is not None
        if not broker.stdout.readline().startswith(b"ready"):
            broker.wait(STOP_S)
            said = self._log.read_bytes()[began:].decode().split("\n")
            return f"failed {said[0]}"
        number = str(next(self._numbers))
        self._running[number] = broker
        return f"ready 127.0.0.1:{port} {number}"

    def stop(self, number: str) -> None:
        broker = self._running.pop(number, None)
        if broker is not None:
            broker.send_signal(signal.SIGTERM)
            broker.wait(STOP_S)
            assert broker.stdout is not None
            broker.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for number in list(self._running):
            self.stop(number)


class ApacheBrokers:
    """One Apache Kafka after the other in a warm JVM of its own (`ApacheClusters.java`)."""

    def __init__(self, command: Sequence[str], log: pathlib.Path) -> None:
        self._command, self._log = command, log

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._jvm: subprocess.Popen[str] = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        self._jvm.stdin.close()
        try:
            self._jvm.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._jvm.kill()
            self._jvm.wait()
        self._jvm.stdout.close()

    def start(self, properties: Mapping[str, str]) -> str:
        return self._say("start " + encoded(properties))

    def stop(self, number: str) -> None:
        self._say(f"stop {number}")

    def _say(self, line: str) -> str:
        stdin, stdout = self._jvm.stdin, self._jvm.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(line + "\n")
        stdin.flush()
        return stdout.readline().strip() or "failed the process of Apache Kafka has ended"


class Served:
    """Serves `brokers` to the tests' JVM for as long as the `with` block: `start .BASE64` and `stop NUMBER`, a line each."""

    def __init__(self, brokers: Brokers) -> None:
        self._lock = threading.Lock()
        served = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                answer = served._answer(self.rfile)
                self.wfile.write(answer.encode() + b"\n")

        self._brokers = brokers
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def _answer(self, stream: IO[Any]) -> str:
        what, _, rest = stream.readline().decode().strip().partition(" ")
        with self._lock:
            if what == "start":
                return self._brokers.start(decoded(rest))
            self._brokers.stop(rest)
            return "stopped"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, name="brokers-for-tests", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def encoded(properties: Mapping[str, str]) -> str:
    lines = "".join(f"{key}={value}\n" for key, value in sorted(properties.items()))
    return "." + base64.b64encode(lines.encode()).decode()


def decoded(text: str) -> dict[str, str]:
    lines = base64.b64decode(text.removeprefix(".")).decode().splitlines()
    return {key: value for key, _, value in (line.partition("=") for line in lines)}
