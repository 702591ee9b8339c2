"""Spark: our format beside Spark's own Kafka connector, in one Spark session, on both brokers.

The connector is for one Spark version only, so a Spark of that version is put beside it under build/bench/.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Producer

from bench.brokers import make_topic
from bench.pairs import both, median
from bench.selection import Wanted
from bench.servers import ROOT, Server, build_directory
from bench.table import Row

SPARK = "4.2.0"
JARS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.0",
)
ROWS = 2_000_000
ROWS_WRITTEN = 1_000_000
BATCHES = 40
ROWS_COPIED = 50_000  # more than the micro-batches of all sessions take
OURS, THEIRS, EMPTY = "oncelog", "Spark's Kafka connector", "a format in Python that does nothing"
FORMATS = {OURS: "oncelog", THEIRS: "kafka", EMPTY: "nothing"}


class Missing(Exception):
    """Something that is downloaded could not be had; the message says what."""


def environment() -> pathlib.Path:
    """A Python with Spark `SPARK` and what oncelog needs, made once. Raises Missing."""
    folder = build_directory() / "spark-jvm"
    python = folder / "bin" / "python"
    if (folder / ".complete").exists():
        return python
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    wanted += [f"pyspark=={SPARK}", "pyarrow", "pandas"]
    make: list[Any]
    install: list[Any]
    uv = shutil.which("uv")
    make = (
        [uv, "venv", "-q", "--clear", "--python", sys.executable] if uv else [sys.executable, "-m", "venv", "--clear"]
    )
    install = [uv, "pip", "install", "-q", "--python", python] if uv else [python, "-m", "pip", "install", "-q"]
    for command in ([*make, folder], [*install, *wanted]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise Missing(f"pyspark {SPARK} could not be installed: {done.stderr.strip()[-200:]}")
    (folder / ".complete").touch()
    return python


def jars() -> str:
    """The connector's jars, fetched once with Maven, as Spark wants them. Raises Missing."""
    folder = build_directory() / "spark-jars"
    if not (folder / ".complete").exists():
        if not shutil.which("mvn"):
            raise Missing("mvn is missing, so Spark's Kafka connector cannot be fetched")
        folder.mkdir(exist_ok=True)
        (folder / "pom.xml").write_text(_project(JARS))
        command: list[Any] = ["mvn", "-q", "-B", "-f", folder / "pom.xml", "dependency:copy-dependencies"]
        done = subprocess.run([*command, f"-DoutputDirectory={folder}"], capture_output=True, text=True)
        if done.returncode:
            raise Missing(f"the connector's jars could not be had: {(done.stdout + done.stderr).strip()[-200:]}")
        (folder / ".complete").touch()
    return ",".join(str(path) for path in sorted(folder.glob("*.jar")))


def _project(coordinates: tuple[str, ...]) -> str:
    # Each one named, none of theirs: the connector's own parents would bring a second Spark.
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
        for group, artifact, version in (each.split(":") for each in coordinates)
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>bench</groupId>'
        "<artifactId>spark-kafka</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )


class Session:
    """The Spark process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.spark = self._answer()["spark"]
        self.errors: dict[str, str] = {}

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise Missing(f"Spark ended: see {build_directory() / 'spark.log'}")
        return dict(json.loads(line))

    def run(self, job: str, name: str, server: Server, topic: str, **more: Any) -> float:
        """One figure; 0.0 where it failed (`errors` then has the reason)."""
        order = {"job": job, "format": FORMATS[name], "bootstrap": server.bootstrap, "topic": topic, **more}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        if "error" in answer:
            self.errors[f"{job} {name}"] = answer["error"]
            print(f"bench: {job} with {name} on {server.name}: {answer['error']}", file=sys.stderr)
        return float(answer.get("figure", 0.0))


@contextlib.contextmanager
def session() -> Iterator[Session]:
    """Spark with both formats. Raises Missing."""
    python, classpath = environment(), jars()
    with (build_directory() / "spark.log").open("w") as log:
        process = subprocess.Popen(
            [python, ROOT / "bench" / "spark_session.py", classpath],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
        try:
            yield Session(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def fill(server: Server, topic: str, count: int) -> None:
    """`count` records of 100 B, dealt out over two partitions."""
    make_topic(server, topic, 2)
    producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 20, "batch.size": 1_000_000})
    for i in range(count):
        while True:
            try:
                producer.produce(topic, b"%0100d" % i, partition=i & 1)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(120) == 0


def spark(with_kafka: bool, wanted: Wanted) -> list[Row]:
    try:
        with both(with_kafka, flush_policy="os") as servers, session() as open_session:
            return list(_figures(servers, open_session, wanted))
    except Missing as missing:
        return [Row("Spark", "", None, note=f"not measured: {missing}")]


def _figures(servers: list[Server], session: Session, wanted: Wanted) -> Iterator[Row]:
    # Both formats on the same broker where that is ours; the connector on Apache Kafka beside it.
    pairs = [(OURS, servers[0]), (THEIRS, servers[0]), *((THEIRS, server) for server in servers[1:])]
    for server in servers:
        fill(server, "read", ROWS if wanted("read") or wanted("read-into-python") else ROWS_COPIED)
        for topic in ("write", "stream", "copy"):
            make_topic(server, topic, 2)
    if wanted("read"):
        yield from _rows(session, pairs, "read_into_noop", "batch read", "rows/s", ">= 1x", "read", rows=ROWS)
    if wanted("read-into-python"):
        what = "batch read into mapInArrow"
        yield from _rows(session, pairs, "read_into_python", what, "rows/s", ">= 1x", "read", rows=ROWS)
    if wanted("write"):
        yield from _rows(session, pairs, "write", "batch write", "rows/s", ">= 0.7x", "write", rows=ROWS_WRITTEN)
    pairs.append((EMPTY, servers[0]))
    if wanted("copy"):
        what, aim = "micro-batch of 20 rows, topic to topic", "<= connector + 100 ms"
        yield from _rows(session, pairs, "copy", what, "ms", aim, "copy", batches=BATCHES)
    if wanted("stream"):
        what = "micro-batch of 20 rows"
        yield from _rows(session, pairs, "stream", what, "ms", "<= 420 ms", "stream", batches=BATCHES)


def _rows(
    session: Session,
    pairs: list[tuple[str, Server]],
    job: str,
    what: str,
    unit: str,
    aim: str,
    topic: str,
    **more: Any,
) -> Iterator[Row]:
    figures: dict[str, list[float]] = {}
    for name, server in pairs:
        session.run(job, name, server, topic, **more)  # the first one of a kind starts workers and compiles
    for i in range(3):
        for name, server in pairs if i % 2 == 0 else reversed(pairs):
            figures.setdefault(f"{name} on {server.name}", []).append(session.run(job, name, server, topic, **more))
    ours, *others = figures
    for other in others:
        error = session.errors.get(f"{job} {OURS}") or session.errors.get(f"{job} {other.rpartition(' on ')[0]}")
        yield Row(
            f"Spark {session.spark}: {what}",
            unit,
            median(figures, ours),
            median(figures, other),
            other_name=other.removeprefix("Spark's ") if EMPTY not in other else EMPTY,
            better="less" if unit == "ms" else "more",
            aim=aim,
            note=f"median of 3{'; FAILED: ' + error[:80] if error else ''}",
        )
