"""What no broker on this machine can beat: the clients' own time, and the system's, with as good as no broker behind them.

* librdkafka's transactions on the broker that librdkafka brings along for its own tests: C, in memory, nothing is stored.
* The age of a message that a bare socket passes on, without protocol or log; with one `fdatasync` on its way; and with that in a
  thread beside an event loop, as a broker in Python that serves others meanwhile must do it.

An aim below one of these is out of reach here, whoever writes the broker; what lies between a floor and our own figure is ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import IO, cast

from confluent_kafka import Producer

from bench.brokers import transactional, transactions_at_once
from bench.pairs import ROUNDS, percentile
from bench.selection import Wanted
from bench.servers import ROOT, Server, build_directory
from bench.table import Row

SECONDS = 5.0
PARTITIONS = 4  # of every topic of librdkafka's mock broker
MESSAGES = 1_000
WARM_UP = 100
INTERVAL_S = 0.005  # 200 messages/s, as `end-to-end/rate-200`
SIZE_BYTES = 170  # a Produce of 100 B has about as much


# a process of its own: the mock broker, or the relay


def serve_mock() -> None:
    """Print the address of librdkafka's mock broker; it lives until stdin ends."""
    owner = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none:1"})
    brokers = owner.list_topics(timeout=10).brokers.values()
    print(",".join(f"{each.host}:{each.port}" for each in brokers), flush=True)
    sys.stdin.read()


def serve_relay(syncs: bool) -> None:
    """Print a port; what comes from the first connection goes to the second, a message at a time."""
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(tempfile.TemporaryFile(dir=build_directory(), buffering=0))
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        print(listening.getsockname()[1], flush=True)
        sender = stack.enter_context(listening.accept()[0])
        reader = stack.enter_context(listening.accept()[0])
        for each in (sender, reader):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while message := sender.recv(1 << 16):
            if syncs:
                file.write(message)
                os.fdatasync(file.fileno())
            reader.sendall(message)


class _Relay(asyncio.Protocol):
    """Gives each message to a thread that syncs, and what is synced to the others."""

    def __init__(self, file: IO[bytes], transports: list[asyncio.Transport], thread: ThreadPoolExecutor) -> None:
        self._file, self._transports, self._thread = file, transports, thread

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transports.append(cast("asyncio.Transport", transport))

    def data_received(self, data: bytes) -> None:
        synced = asyncio.get_running_loop().run_in_executor(self._thread, self._sync, data)
        synced.add_done_callback(lambda done: self._transports[-1].write(done.result()))

    def _sync(self, message: bytes) -> bytes:
        self._file.write(message)
        os.fdatasync(self._file.fileno())
        return message


async def serve_loop_relay() -> None:
    """As `serve_relay` with its sync, by an event loop and a thread."""
    transports: list[asyncio.Transport] = []
    with tempfile.TemporaryFile(dir=build_directory(), buffering=0) as file, ThreadPoolExecutor(1) as thread:
        server = await asyncio.get_running_loop().create_server(
            lambda: _Relay(file, transports, thread), "127.0.0.1", 0
        )
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


@contextlib.contextmanager
def _process(what: str) -> Iterator[str]:
    """The word that it prints first; it ends with the block."""
    command = [sys.executable, "-m", "bench.floors", what]
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    with process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


# the clients


def transactions_per_second(bootstrap: str, count: int, seconds: float = SECONDS) -> float:
    """`count` producers of librdkafka, transactions of one record."""
    server = Server("librdkafka's mock broker", bootstrap, 0, 0.0)
    producers = [transactional(server, f"floor-{count}-{i}") for i in range(count)]
    return transactions_at_once(producers, "floor", seconds, partitions=PARTITIONS).per_second


class _Reader(asyncio.Protocol):
    """Takes the time when a whole message has come; one at a time is under way."""

    def __init__(self) -> None:
        self.came = asyncio.Event()
        self.at = 0.0
        self._missing = SIZE_BYTES

    def data_received(self, data: bytes) -> None:
        self._missing -= len(data)
        if self._missing <= 0:
            self.at, self._missing = time.perf_counter(), SIZE_BYTES
            self.came.set()


async def relayed_ms(port: int, messages: int = MESSAGES, warm_up: int = WARM_UP) -> list[float]:
    """The age in ms of each message when it is back, in order of size; one client process with one loop, as ours."""
    loop = asyncio.get_running_loop()
    sender, _ = await loop.create_connection(asyncio.Protocol, "127.0.0.1", port)
    receiver, reader = await loop.create_connection(_Reader, "127.0.0.1", port)
    ages = []
    try:
        for _ in range(warm_up + messages):
            await asyncio.sleep(INTERVAL_S)
            reader.came.clear()
            begun = time.perf_counter()
            sender.write(b"x" * SIZE_BYTES)
            await reader.came.wait()
            ages.append((reader.at - begun) * 1000)
    finally:
        sender.close()
        receiver.close()
    return sorted(ages[warm_up:])


# rows


def floors(with_kafka: bool, wanted: Wanted) -> list[Row]:
    """Not to be compared with anything here: the rows of the same work are in other parts."""
    del with_kafka
    rows: list[Row] = []
    if wanted("transactions"):
        for count in (1, 8):
            rates = []
            for _ in range(ROUNDS):
                with _process("mock") as bootstrap:
                    rates.append(transactions_per_second(bootstrap, count))
            name = f"librdkafka on its own mock broker, {count} producer{'s' * (count > 1)}"
            note = f"median of {ROUNDS}"
            rows.append(Row(name, "txn/s", statistics.median(rates), better="more", measures="librdkafka", note=note))
    if wanted("relay"):
        for what, name in (
            ("relay", "a message passed on by a bare socket"),
            ("synced-relay", "a message synced and passed on by a bare socket"),
            ("loop-relay", "a message synced and passed on by an event loop and a thread"),
        ):
            with _process(what) as port:
                ages = asyncio.run(relayed_ms(int(port)))
            rows += [
                Row(f"{name}, 200/s, {word}", "ms", percentile(ages, share), measures="the system")
                for word, share in (("p50", 0.5), ("p99", 0.99))
            ]
    return rows


if __name__ == "__main__":
    {
        "mock": serve_mock,
        "relay": lambda: serve_relay(False),
        "synced-relay": lambda: serve_relay(True),
        "loop-relay": lambda: asyncio.run(serve_loop_relay()),
    }[sys.argv[1]]()
