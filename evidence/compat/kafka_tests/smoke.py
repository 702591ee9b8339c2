"""Kafka Streams' smoke test, a program of Kafka's system tests: its driver writes for half a minute and checks every result."""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
import tempfile
import time
from collections.abc import Iterator

from evidence.compat.drills.reading import create_topics
from evidence.compat.kafka_tests.clusters import Brokers
from evidence.compat.kafka_tests.runs import Result

NAME = "StreamsSmokeTest.run group.protocol=streams, exactly_once_v2, two processes"
MAIN = "org.apache.kafka.streams.tests.StreamsSmokeTest"
PROCESSES = 2
PARTITIONS = 5
TOPICS = (
    "data", "echo", "max", "min", "min-suppressed", "min-raw", "dif", "sum", "sws-raw", "sws-suppressed",
    "cnt", "avg", "tagg", "fk",
)  # fmt: skip
RUN_S = 900
STOP_S = 60


def smoke(command: list[str], brokers: Brokers, log: pathlib.Path) -> Result:
    """Run it against a fresh broker; `command` is Java with its class path, `log` gets all that is said."""
    began = time.monotonic()
    answer = brokers.start({"group.streams.initial.rebalance.delay.ms": "0"})
    kind, _, rest = answer.partition(" ")
    if kind != "ready":
        return Result("failed", time.monotonic() - began, NAME, answer)
    bootstrap, _, number = rest.partition(" ")
    try:
        create_topics(bootstrap, **dict.fromkeys(TOPICS, PARTITIONS))
        reason = _drive([*command, MAIN], bootstrap, log)
    finally:
        brokers.stop(number)
    return Result("failed" if reason else "passed", time.monotonic() - began, NAME, reason)


def _drive(command: list[str], bootstrap: str, log: pathlib.Path) -> str:
    """What went wrong, empty where nothing did."""
    with tempfile.TemporaryDirectory(prefix="oncelog-smoke-") as directory, log.open("w+") as said:
        files = [_properties(pathlib.Path(directory) / str(index), bootstrap) for index in range(PROCESSES)]
        with contextlib.ExitStack() as stack:
            for file in files:
                stack.enter_context(_process([*command, file, "process"], log))
            driver = [*command, files[0], "run"]
            ended = subprocess.run(driver, stdout=said, stderr=said, timeout=RUN_S, check=False)
        lines = log.read_text(errors="replace").splitlines()
    if ended.returncode == 0 and "SUCCESS" in lines and "ALL-RECORDS-DELIVERED" in lines:
        return ""
    told = [line for line in lines if "fail" in line.lower() or line.startswith("PROCESSED-")]
    return f"exit status {ended.returncode}: {' / '.join(told[:5]) or 'no SUCCESS'}"


def _properties(directory: pathlib.Path, bootstrap: str) -> str:
    directory.mkdir()
    file = directory / "streams.properties"
    file.write_text(
        f"bootstrap.servers={bootstrap}\nstate.dir={directory}/state\nprocessing.guarantee=exactly_once_v2\n"
        "group.protocol=streams\nnum.stream.threads=2\n"
    )
    return str(file)


@contextlib.contextmanager
def _process(command: list[str], log: pathlib.Path) -> Iterator[None]:
    """One process of the application, as long as the `with` block."""
    with log.with_suffix(".processes.log").open("a") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
