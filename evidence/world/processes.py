"""Several brokers of one cluster in this process (`oncelog serve --processes N` has a process for each), on real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from typing import Any

from evidence.world.broker import TIMEOUT_S, Client, keys
from oncelog.broker.broker import Broker
from oncelog.broker.processes import Processes
from oncelog.core.processes.process_plan import directory_of
from oncelog.host.free_ports import ports_in_a_row


class BrokersInARow:
    """`brokers[k]` is process k, `clients[k]` a raw connection to it; node ids are 1 to `count`."""

    def __init__(self, directory: Any, count: int, config: dict[str, object]) -> None:
        self._directory, self.count = str(directory), count
        self._config = {"add_partitions_to_txn_retry_backoff_max_ms": 1000 * TIMEOUT_S} | config
        self._first_port = ports_in_a_row("127.0.0.1", count)
        self.brokers: list[Broker] = []
        self.clients: list[Client] = []

    def made(self, index: int, sockets: str) -> Broker:
        """A broker that was not started yet."""
        path = directory_of(self._directory, index)
        listen = f"127.0.0.1:{self._first_port + index}"
        config = keys(self._config) | {"node.id": 1 + index}
        return Broker(path, config, listen=listen, processes=Processes(index, self.count, sockets))

    @property
    def bootstrap(self) -> str:
        """Their addresses."""
        return ",".join(f"127.0.0.1:{self._first_port + index}" for index in range(self.count))

    async def start(self, sockets: str) -> None:
        """All at once, as the first process starts them."""
        self.sockets = sockets
        self.brokers = [self.made(index, sockets) for index in range(self.count)]
        await asyncio.gather(*(broker.start() for broker in self.brokers))
        self.clients = [await Client.connect(broker) for broker in self.brokers]

    async def start_again(self, index: int) -> None:
        """One that was stopped."""
        self.brokers[index] = self.made(index, self.sockets)
        await self.brokers[index].start()
        self.clients[index] = await Client.connect(self.brokers[index])

    async def stop(self) -> None:
        """All of them, the followers first."""
        for client in self.clients:
            client.close()
        for broker in reversed(self.brokers):
            await broker.stop()


@contextlib.asynccontextmanager
async def brokers_in_a_row(directory: Any, count: int = 3, **config: object) -> AsyncIterator[BrokersInARow]:
    """Started brokers on `directory` with config keys in snake case."""
    found = BrokersInARow(directory, count, config)
    with tempfile.TemporaryDirectory(prefix="o-") as sockets:  # a socket's path has 107 bytes at most
        await found.start(sockets)
        try:
            yield found
        finally:
            await found.stop()
