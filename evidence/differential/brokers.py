"""Brokers to talk to: oncelog in a thread of this process, Apache Kafka as a child process where there is one."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Protocol, Self

from evidence.differential.seeding import tell_apache_kafka, tell_oncelog
from evidence.world.ports import free_port
from oncelog.broker.broker import Broker
from oncelog.broker.coordinators.marker_sender import MarkerSender

LAUNCHER = pathlib.Path(__file__).parent.parent / "compat" / "apache_kafka" / "apache-kafka"
START_S = 60.0
CONFIG: dict[str, object] = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
    "group.initial.rebalance.delay.ms": 0,
}


class Node(Protocol):
    """A broker on a directory of its own that can be stopped and started again."""

    @property
    def address(self) -> tuple[str, int]: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def kill(self) -> None:
        """Nothing is said to the broker: SIGKILL, or what it would leave."""

    def seed(self, seeds: Mapping[str, int]) -> None:
        """Make transactional ids known that have reached a producer epoch."""

    def stalled(self) -> contextlib.AbstractContextManager[None]:
        """Meanwhile a marker that a leader refused is not sent again, so that its transaction stays in Prepare."""


class OncelogNode:
    """oncelog, in its own thread and event loop."""

    def __init__(self, directory: pathlib.Path, config: Mapping[str, object] | None = None) -> None:
        self._directory = str(directory)
        self._config = CONFIG | {"transaction.two.phase.commit.enable": True} | (config or {})

    @property
    def address(self) -> tuple[str, int]:
        return self._address

    def start(self) -> None:
        ready: concurrent.futures.Future[tuple[str, int]] = concurrent.futures.Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(ready)), name="oncelog-broker")
        self._thread.start()
        self._address = ready.result(START_S)

    async def _serve(self, ready: concurrent.futures.Future[tuple[str, int]]) -> None:
        self._stopping, self._loop = asyncio.Event(), asyncio.get_running_loop()
        try:
            async with Broker(self._directory, self._config) as broker:
                self._broker = broker
                ready.set_result((broker.addresses[0].host, broker.addresses[0].port))
                await self._stopping.wait()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error)
            raise

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(START_S)

    def kill(self) -> None:
        """What is in its directory now is what a SIGKILL would leave; what it writes at its end is thrown away."""
        left = f"{self._directory}.left"
        shutil.copytree(self._directory, left, ignore=shutil.ignore_patterns(".lock"))
        self.stop()
        shutil.rmtree(self._directory)
        pathlib.Path(left).rename(self._directory)

    def seed(self, seeds: Mapping[str, int]) -> None:
        asyncio.run_coroutine_threadsafe(tell_oncelog(self._broker, seeds), self._loop).result(START_S)

    @contextlib.contextmanager
    def stalled(self) -> Iterator[None]:
        sends_later = MarkerSender.send_later
        MarkerSender.send_later = lambda self, markers: None  # type: ignore[method-assign]
        try:
            yield
        finally:
            MarkerSender.send_later = sends_later  # type: ignore[method-assign]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def kafka_launcher() -> str | None:
    """The launcher of Apache Kafka, None where Java or its jars cannot be had."""
    launcher = os.environ.get("ONCELOG_APACHE_KAFKA", str(LAUNCHER))
    fetched = subprocess.run([launcher, "fetch"], capture_output=True, check=False)
    return launcher if fetched.returncode == 0 else None


def _is_alive(process_id: int) -> bool:
    state = pathlib.Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    return state != "Z"


class ApacheKafkaNode:
    """Apache Kafka through a launcher: `start DIR PORT key=value...`, `stop DIR`."""

    def __init__(self, directory: pathlib.Path, launcher: str, config: Mapping[str, object] | None = None) -> None:
        self.address = ("127.0.0.1", free_port())
        self._directory, self._launcher = str(directory), launcher
        both = CONFIG | {"unstable.api.versions.enable": "true", "transaction.two.phase.commit.enable": "true"}
        given = both | (config or {})
        texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in given.items()}
        self._config = [f"{key}={value}" for key, value in texts.items()]

    def start(self) -> None:
        environment = {"KAFKA_HEAP": "-Xmx512m -Xms256m"} | os.environ
        command = [self._launcher, "start", self._directory, str(self.address[1]), *self._config]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)

    def stop(self) -> None:
        subprocess.run([self._launcher, "stop", self._directory], check=True)

    def kill(self) -> None:
        process_id = int((pathlib.Path(self._directory) / "pid").read_text())
        os.kill(process_id, signal.SIGKILL)
        while pathlib.Path(f"/proc/{process_id}/cmdline").exists() and _is_alive(process_id):
            time.sleep(0.05)

    def seed(self, seeds: Mapping[str, int]) -> None:
        tell_apache_kafka(self.address, seeds)
        self.stop()
        self.start()

    def stalled(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()  # it gives up by itself

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
