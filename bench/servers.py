"""Starts the brokers that are compared, each a process of its own on a fresh directory, and tells how long they took."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).parent.parent
ORACLE_PATH = pathlib.Path("shared/oracle/apache-kafka")  # beside the project, or beside a folder of its worktrees
ORACLE = next((each / ORACLE_PATH for each in ROOT.parents if (each / ORACLE_PATH).exists()), ROOT.parent / ORACLE_PATH)


@dataclass
class Server:
    """A running broker: where it listens, its process, when it was launched (time.perf_counter())."""

    name: str
    bootstrap: str
    process_id: int
    launched: float
    stop: object = field(repr=False, default=None)

    def resident_mib(self) -> float:
        """Resident memory now, in MiB."""
        for line in pathlib.Path(f"/proc/{self.process_id}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise RuntimeError("no VmRSS")


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def _settings(config: Mapping[str, object]) -> list[str]:
    """As `key=value`; underscores stand for dots, but not in a key that has dots (listener.name.sasl_ssl...)."""
    return [f"{key if '.' in key else key.replace('_', '.')}={value}" for key, value in config.items()]


@contextlib.contextmanager
def oncelog(name: str = "oncelog", processes: int = 1, **config: object) -> Iterator[Server]:
    """`oncelog serve` on a fresh directory; dotted keys with underscores (flush_policy="os"). The first of `listeners` counts."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-", dir=build_directory()))
    options = [part for each in _settings(config) for part in ("-c", each)]
    command = [
        sys.executable,
        "-m",
        "oncelog",
        "serve",
        "--data-dir",
        str(folder),
        *(() if "listeners" in config else ("--listen", "127.0.0.1:0")),
        *(() if processes == 1 else ("--processes", str(processes))),
        *options,
    ]
    launched = time.perf_counter()
    with (folder / "stderr.log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        if not words or words[0] != "ready":
            raise RuntimeError(f"oncelog did not start: {(folder / 'stderr.log').read_text()[-500:]}")
        yield Server(name, words[1], process.pid, launched)
    finally:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        if process.stdout is not None:
            process.stdout.close()
        shutil.rmtree(folder, ignore_errors=True)


def has_apache_kafka() -> str | None:
    """None where Apache Kafka can be started, else why not."""
    if not ORACLE.exists():
        return "the oracle beside the project is missing"
    done = subprocess.run([ORACLE, "fetch"], capture_output=True, text=True)
    return None if done.returncode == 0 else (done.stderr.strip() or "the oracle could not be had")


@contextlib.contextmanager
def apache_kafka(name: str = "Apache Kafka 4.3", at_port: int = 0, **config: object) -> Iterator[Server]:
    """Apache Kafka itself, one node, formatted before the clock starts. `at_port`: of its plain listener, 0 a free one."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-", dir=build_directory()))
    port = at_port or free_port()
    options = _settings(config)
    launched = time.perf_counter()
    done = subprocess.run([ORACLE, "start", folder, str(port), *options], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"Apache Kafka did not start: {done.stderr[-500:]}")
    words = dict(word.split("=") for word in done.stdout.split() if "=" in word)
    try:
        # The script formats first; `ms` is from the launch of the broker itself.
        yield Server(
            name, f"127.0.0.1:{port}", int(words["pid"]), time.perf_counter() - int(words["ms"]) / 1000, launched
        )
    finally:
        subprocess.run([ORACLE, "stop", folder], capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


def build_directory() -> pathlib.Path:
    folder = ROOT / "build" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def fdatasync_ms(count: int = 200) -> float:
    """The median of one fdatasync after a small append here: the floor of every synced figure."""
    with tempfile.TemporaryFile(dir=build_directory()) as file:
        taken = []
        for _ in range(count):
            os.write(file.fileno(), b"x" * 200)
            started = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - started)
    return sorted(taken)[count // 2] * 1000
