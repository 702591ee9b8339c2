"""The same frames over real sockets, to an `oncelog serve` of its own: what the doors in memory leave out.

The process must live, answer an honest client within a second, and neither log an error nor grow.
"""

from __future__ import annotations

import contextlib
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from random import Random

from evidence.fuzz.broker_target import Life
from evidence.fuzz.findings import Findings
from oncelog.wire.api import ApiKey
from oncelog.wire.frame import FrameReader, decode_response, encode_request
from oncelog.wire.messages.api_versions import ApiVersionsRequest

FRAMES = 4_000
CONFIG = (
    "oncelog.max.topics=30",
    "oncelog.max.partitions=200",
    "flush.policy=os",
    "group.initial.rebalance.delay.ms=0",
)
GROWTH_BYTES_MAX = 64 * 1024 * 1024


def one_life(seed: str, findings: Findings, count: int = FRAMES) -> None:
    """One server, `count` frames over some connections."""
    random = Random(f"fuzz {seed}")
    life = Life(seed, findings, 0)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as log:
        command = [sys.executable, "-m", "oncelog", "serve", "--data-dir", f"{folder}/data", "--listen", "127.0.0.1:0"]
        command += ["--log-level", "error", *(part for each in CONFIG for part in ("-c", each))]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL)
        try:
            assert server.stdout is not None
            line = server.stdout.readline().decode()
            if not line.startswith("ready "):
                log.seek(0)
                findings.add("the server did not start", life.repeat, log.read()[-2000:])
                return
            port = int(line.split()[1].rpartition(":")[2])
            _fire(life, random, port, findings, server.pid, count)
            if server.poll() is not None:
                findings.add(f"the server ended with {server.returncode}", life.repeat)
        finally:
            server.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                if server.wait(20) != 0:
                    findings.add(f"the server stopped with {server.returncode}", life.repeat)
            server.kill()
            server.wait()
            assert server.stdout is not None
            server.stdout.close()
        log.seek(0)
        text = log.read()
        if text.strip():
            findings.add(f"logged: {text.strip().splitlines()[0][:200]}", life.repeat, text[-3000:])
    findings.inputs["frames over sockets"] += count


def _fire(life: Life, random: Random, port: int, findings: Findings, pid: int, count: int) -> None:
    connections: list[socket.socket] = []
    base = 0
    for number in range(count):
        if len(connections) < 20:
            connections.append(socket.create_connection(("127.0.0.1", port), timeout=5))
            connections[-1].setblocking(False)
        connection = random.choice(connections)
        try:
            connection.send(life.frame())
            if random.random() < 0.7:
                while connection.recv(1 << 16):
                    pass
                raise ConnectionResetError
        except BlockingIOError:
            pass
        except OSError:
            connections.remove(connection)
            connection.close()
        if random.random() < 0.01:
            connections.remove(gone := random.choice(connections)) if connections else None
            gone.close()
        if not number % 200:
            _honest(port, findings, life.repeat)
            if number == count // 4 // 200 * 200:
                base = _resident(pid)
    _honest(port, findings, life.repeat)
    if base and _resident(pid) - base > GROWTH_BYTES_MAX:
        findings.add(f"the server grew by {(_resident(pid) - base) >> 20} MiB", life.repeat)
    for connection in connections:
        connection.close()


def _honest(port: int, findings: Findings, repeat: str) -> None:
    begun = time.monotonic()
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(b"".join(encode_request(ApiKey.API_VERSIONS, 0, 1, "honest", ApiVersionsRequest())))
            reader, frames = FrameReader(), []
            while not frames:
                select.select([connection], [], [], 10)
                frames = reader.receive(connection.recv(1 << 16))
            decode_response(ApiKey.API_VERSIONS, 0, frames[0])
    except OSError as error:
        findings.add_error(error, repeat, "an honest client was not served")
    taken_s = time.monotonic() - begun
    if taken_s > 5:  # of the wall's clock: the machine may be busy
        findings.add(f"an honest client waited {taken_s:.1f} s", repeat)


def _resident(pid: int) -> int:
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096
