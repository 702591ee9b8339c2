"""Apache Kafka's own Java client as one of the workers: where Java and its jars are, how it is compiled and started."""

from __future__ import annotations

import pathlib

from evidence.compat.clients.programs import Missing, kafka_jars, needs, run
from evidence.differential.brokers import kafka_launcher

SOURCE = pathlib.Path(__file__).parent / "java"
CLASSES = pathlib.Path("build/chaos-java").absolute()


def java_worker(*, fetches: bool = True) -> list[str]:
    """The command, without BOOTSTRAP JOURNAL NUMBER. Raises Missing, with what is missing, unless it can be had."""
    needs("java", "javac")
    if not (kafka_jars() / ".complete").exists() and (not fetches or kafka_launcher() is None):
        raise Missing("Apache Kafka's jars are not here: they need Java 17 and mvn (make conformance fetches them)")
    CLASSES.mkdir(parents=True, exist_ok=True)
    path = f"{kafka_jars()}/*"
    run(["javac", "-cp", path, "-d", str(CLASSES), "TransactionalWorker.java"], SOURCE)
    options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return ["java", *options, "-cp", f"{CLASSES}:{path}", "TransactionalWorker"]
