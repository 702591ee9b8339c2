"""Brokers to talk to: oncelog in a thread of this process, Apache Kafka as a child process where there is one."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import pathlib
import socket
import subprocess
import threading
from typing import Protocol, Self

from oncelog.broker.broker import Broker

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


class OncelogNode:
    """oncelog, in its own thread and event loop."""

    def __init__(self, directory: pathlib.Path, **config: object) -> None:
        self._directory = str(directory)
        self._config = CONFIG | {name.replace("_", "."): value for name, value in config.items()}

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
                ready.set_result((broker.addresses[0].host, broker.addresses[0].port))
                await self._stopping.wait()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error)
            raise

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(START_S)

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


class ApacheKafkaNode:
    """Apache Kafka through a launcher: `start DIR PORT key=value...`, `stop DIR`."""

    def __init__(self, directory: pathlib.Path, launcher: str, **config: object) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = ("127.0.0.1", free.getsockname()[1])
        self._directory, self._launcher = str(directory), launcher
        both = CONFIG | {"unstable.api.versions.enable": "true", "transaction.two.phase.commit.enable": "true"}
        self._config = [f"{key}={value}" for key, value in (both | config).items()]

    def start(self) -> None:
        environment = {"KAFKA_HEAP": "-Xmx512m -Xms256m"} | os.environ
        command = [self._launcher, "start", self._directory, str(self.address[1]), *self._config]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)

    def stop(self) -> None:
        subprocess.run([self._launcher, "stop", self._directory], check=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
