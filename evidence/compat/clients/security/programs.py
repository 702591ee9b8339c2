"""The clients' programs of this part: how each is made ready and started. One reads settings on stdin (`ways.settings`)."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable

from evidence.compat.clients import programs
from evidence.compat.clients.programs import BUILD, HERE, Program, kafka_jars, run


def _python(module: str) -> Callable[[Program], list[str]]:
    return lambda _: [sys.executable, "-m", f"evidence.compat.clients.security.with_{module}"]


def _node(_: Program) -> list[str]:
    shutil.copy(HERE / "kafkajs" / "secured.js", BUILD / "kafkajs")
    return ["node", str(BUILD / "kafkajs" / "secured.js")]


def _java(_: Program) -> list[str]:
    path = f"{kafka_jars()}/*"
    run(["javac", "-cp", path, "-d", str(BUILD / "java"), "Secured.java"], HERE / "java")
    return [
        "java",
        "-Xmx192m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        f"{BUILD / 'java'}:{path}",
        "Secured",
    ]


def _go(program: Program) -> list[str]:
    return [program.command[0], "secured", program.command[1]]


COMMANDS: dict[str, Callable[[Program], list[str]]] = {
    "confluent-kafka": _python("confluent_kafka"),
    "kafka-python": _python("kafka_python"),
    "aiokafka": _python("aiokafka"),
    "kafkajs": _node,
    "Java kafka-clients": _java,
    "franz-go": _go,
    "sarama": _go,
    "oncelog": _python("oncelog"),
}
assert list(COMMANDS) == list(programs.PROGRAMS)
