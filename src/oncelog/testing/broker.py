"""A real broker in a thread of the test process: real protocol, real transactions, real files in a temporary directory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any, Self

from oncelog.broker.broker import Broker

START_TIMEOUT_SECONDS = 30


class TestBroker:
    """`with TestBroker() as broker:` — `bootstrap_servers` for any Kafka client. Two-phase commit is on.

    `config` has Kafka's keys. The data is kept in `data_dir` if given, else removed at the end.
    """

    __test__ = False  # not a test class, whatever pytest makes of its name

    def __init__(self, config: Mapping[str, Any] | None = None, data_dir: str | None = None) -> None:
        self._config = {
            "transaction.two.phase.commit.enable": "true",
            "group.initial.rebalance.delay.ms": "0",
            "transaction.state.log.num.partitions": "4",
            "offsets.topic.num.partitions": "4",
            **(config or {}),
        }
        self._data_dir = data_dir
        self.bootstrap_servers = ""

    def __enter__(self) -> Self:
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="oncelog-broker", daemon=True)
        self._thread.start()
        if not self._ready.wait(START_TIMEOUT_SECONDS):
            raise TimeoutError("the broker did not start")
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(START_TIMEOUT_SECONDS)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with Broker(data_dir=self._data_dir, config=self._config) as broker:
                self.bootstrap_servers = broker.bootstrap_servers
                self._ready.set()
                await self._stop.wait()
        except BaseException as error:
            self._failure = error
            raise
        finally:
            self._ready.set()
