"""What a page may need beside oncelog: Apache Kafka or its tools, Spark, PostgreSQL, Polars. What is not there is left out."""

from __future__ import annotations

import contextlib
import importlib.util
import pathlib
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from evidence.compat.servers import apache_kafka
from evidence.differential.brokers import kafka_launcher
from evidence.tutorials.terminal import KAFKA_SHOWN, PORTS_SHOWN, quiet_port
from evidence.world import postgresql

KAFKA, KAFKA_TOOLS, SPARK = "apache-kafka", "apache-kafka-tools", "spark"
POSTGRESQL, POLARS = "postgresql", "polars"
POSTGRESQL_SHOWN = "postgresql://app@db/shop"
TOOLS = {
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
}


@dataclass
class Surroundings:
    """`found`: of what was wanted; `texts`: what a text on the page is here; `path`: where more programs are."""

    found: set[str] = field(default_factory=set)
    texts: dict[str, str] = field(default_factory=lambda: {each: str(quiet_port()) for each in PORTS_SHOWN})
    path: list[pathlib.Path] = field(default_factory=list)


@contextlib.contextmanager
def surroundings(wanted: Collection[str], *, has_time: bool) -> Iterator[Surroundings]:
    """What can be had of it; Apache Kafka, its tools and Spark only where there is time."""
    around = Surroundings()
    with contextlib.ExitStack() as stack:
        launcher = kafka_launcher() if has_time and {KAFKA, KAFKA_TOOLS} & set(wanted) else None
        if launcher is not None:
            tools = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oncelog-tools-")))
            for name, tool in TOOLS.items():
                (tools / name).write_text(f'#!/bin/sh\nexec "{launcher}" tool {tool} "$@" 2> /dev/null\n')
                (tools / name).chmod(0o755)
            around.path.append(tools)
            around.found.add(KAFKA_TOOLS)
        if KAFKA in wanted and launcher is not None:
            around.texts[KAFKA_SHOWN] = str(stack.enter_context(apache_kafka(launcher)))
            around.found.add(KAFKA)
        if SPARK in wanted and has_time and importlib.util.find_spec("pyspark") is not None:
            around.found.add(SPARK)
        if POSTGRESQL in wanted and postgresql.why_not() is None:
            around.texts[POSTGRESQL_SHOWN] = stack.enter_context(_postgresql())
            around.found.add(POSTGRESQL)
        if POLARS in wanted and importlib.util.find_spec("polars") is not None:
            around.found.add(POLARS)
        yield around


@contextlib.contextmanager
def _postgresql() -> Iterator[str]:
    with postgresql.running() as server:
        yield f"postgresql://postgres@/postgres?host={server.folder}"
