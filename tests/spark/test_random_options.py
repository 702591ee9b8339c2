"""Random maps of options: each option changes something that is observed, or the map is refused and the option named.

A few maps here; `make spark-options` draws 500 (ONCELOG_OPTION_MAPS) against oncelog and against Apache Kafka
(conftest.py), SEED draws others.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import pathlib
import random
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.types import ArrayType, BinaryType, StringType, StructField, StructType

import oncelog.spark
from oncelog import TopicPartition, sync
from oncelog.errors import ConfigurationError
from oncelog.spark.options import KINDS, SinkOptions, SourceOptions, sink_options, source_options
from oncelog.spark.planning import DataLoss
from oncelog.spark.source import BatchReader, RangePartition, StreamReader
from oncelog.spark.writer import check_columns
from tests.spark.conftest import OptionBroker

COUNT = int(os.environ.get("ONCELOG_OPTION_MAPS", "40"))
SEED = int(os.environ.get("SEED") or 7)
HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
ROW = StructType(
    [StructField("value", BinaryType()), StructField("topic", StringType()), StructField("headers", HEADERS)]
)
# Values that are not the default, and wrong ones.
VALUES = {
    "assign": ['{"m": [0]}', '{"m": [0, 1]}', "[1]"],
    "subscribePattern": ["m.*", "("],
    "columns": ["value,offset", "value,headers", "size"],
    "startingOffsets": ['{"m": {"0": 0, "1": 1}}', '{"m": {"0": 3, "1": -2}}', '{"m": {"0": 3}}', "first"],
    "startingTimestamp": ["1003", "99999", "-1"],
    "startingOffsetsByTimestamp": ['{"m": {"0": 1002, "1": 1004}}', '{"m": {"0": 1002}}'],
    "startingOffsetsByTimestampStrategy": ["latest", "never"],
    "endingOffsets": ['{"m": {"0": 8, "1": 7}}', '{"m": {"0": 99, "1": 7}}', "earliest"],
    "endingTimestamp": ["1006", "x"],
    "endingOffsetsByTimestamp": ['{"m": {"0": 1005, "1": 1006}}', "[]"],
    "failOnDataLoss": ["false", "maybe"],
    "includeHeaders": ["true", "1"],
    "minPartitions": ["5", "0"],
    "maxRecordsPerPartition": ["3", "many"],
    "isolationLevel": ["read_uncommitted", "serializable"],
    "kafkaConsumer.pollTimeoutMs": ["500", "-5"],
    "fetchOffset.numRetries": ["2", "x"],
    "fetchOffset.retryIntervalMs": ["1", "x"],
    "maxOffsetsPerTrigger": ["7", "0"],
    "minOffsetsPerTrigger": ["4", "x"],
    "maxTriggerDelay": ["2m", "soon"],
    "groupIdPrefix": ["lag"],
    "topic": ["out"],
    "transactionalIdPrefix": ["mine", "a.b"],
    "decisionTopic": ["decided"],
    "decisionUrl": ["sqlite:///d.db"],
    "backend": ["prepared", "resumed", "magic"],
    "completionMarginMs": ["5000", "0"],
    "txnAppId": ["app"],
    "txnVersion": ["1"],
    "checkpointLocation": ["c"],
    "path": ["p"],
    "kafka.group.id": ["g"],
    "kafka.client.id": ["me"],
    "kafka.fetch.min.bytes": ["2", "x"],
    "kafka.max.poll.records": ["4"],
    "kafka.exclude.internal.topics": ["false"],
    "kafka.compression.type": ["gzip", "zip"],
    "kafka.linger.ms": ["3"],
    "kafka.acks": ["1"],
    "kafka.metric.reporters": ["x"],
    "kafka.auto.offset.reset": ["earliest"],
    "kafka.request.timeout.ms": ["20000"],
}


@pytest.fixture(scope="module")
def bootstrap(option_broker: OptionBroker) -> str:
    """Topic m: partition 0 from offset 2 to 10, partition 1 from 0 to 10, timestamps 1000 and on (so it keeps them for ever)."""
    servers = option_broker.bootstrap_servers
    with sync.Admin(bootstrap_servers=servers) as admin:
        admin.create_topics({"m": {"partitions": 2, "configs": {"retention.ms": "-1"}}})
        with sync.Producer(bootstrap_servers=servers) as producer:
            for i in range(20):
                producer.send("m", b"%d" % i, partition=i % 2, timestamp_ms=1000 + i // 2)
        admin.delete_records({TopicPartition("m", 0): 2})
    return servers


def drawn(draw: random.Random, kind: str, bootstrap: str) -> dict[str, str]:
    options = {draw.choice(["bootstrap.servers", "kafka.bootstrap.servers"]): bootstrap}
    own = [name for name in VALUES if name in KINDS[kind] or name.startswith("kafka.")]
    for name in draw.sample(own, draw.randint(0, 4)):
        options[name] = draw.choice(
            VALUES[name][:-1] if len(VALUES[name]) > 1 and draw.random() < 0.8 else VALUES[name]
        )
    if draw.random() < 0.2:
        name = draw.choice(list(VALUES))
        options[name] = VALUES[name][0]
    if draw.random() < 0.1:
        name = draw.choice(list(VALUES))
        at = draw.randrange(len(name.removeprefix("kafka."))) + len(name) - len(name.removeprefix("kafka."))
        options[name[:at] + name[at + 1 :]] = VALUES[name][0]
    if "read" in kind or kind == "a stream":
        if not options.keys() & {"assign", "subscribePattern"}:
            options["subscribe"] = "m"
        return {name.lower(): value for name, value in options.items()}
    return {name.lower(): value for name, value in options.items()}


def observed(kind: str, options: dict[str, str]) -> Any:
    """What an option may change: what was made of it, and what is planned or refused by it."""
    if "write" in kind:
        made = sink_options(options, kind)
        check_columns(ROW, made)
        return made
    read = source_options(options, is_stream=kind == "a stream")
    reader = (StreamReader if kind == "a stream" else BatchReader)(read, list(read.columns))
    try:
        if isinstance(reader, BatchReader):
            parts = reader.partitions()
        else:
            start = reader.initialOffset()
            parts = reader.partitions(start, reader.latestOffset(start, reader.getDefaultReadLimit()))
        return read, [part.range for part in parts if isinstance(part, RangePartition)]
    except DataLoss as loss:
        return read, str(loss)


def refusal_or(kind: str, options: dict[str, str]) -> Any:
    try:
        return observed(kind, options)
    except ConfigurationError as error:
        return f"refused: {error}"


@pytest.fixture(autouse=True, scope="module")
def _connections(bootstrap: str) -> Iterator[None]:
    yield
    StreamReader(source_options({"bootstrap.servers": bootstrap, "subscribe": "m"}, is_stream=True), []).stop()


@pytest.mark.parametrize("number", range(COUNT))
def test_each_option_changes_something_or_is_refused(number: int, bootstrap: str) -> None:
    draw = random.Random(f"{SEED}/{number}")
    kind = draw.choice([each for each in KINDS if each != "a dual write"])
    options = drawn(draw, kind, bootstrap)
    found = refusal_or(kind, options)
    shown = json.dumps({"kind": kind, "options": options})
    if isinstance(found, str):
        said = found.lower()
        assert any(name in said or name.removeprefix("kafka.").replace(".", "_") in said for name in options), (
            f"{shown}: {found}: no option is named"
        )
        return
    for name in options:
        without = {other: value for other, value in options.items() if other != name}
        assert refusal_or(kind, without) != found, f"{shown}: {name} changes nothing"


@pytest.mark.parametrize("kind", [SourceOptions, SinkOptions])
def test_each_option_that_is_kept_is_looked_at(kind: type[Any]) -> None:
    """Beside where it is read from the map: a field that nobody asks for is an option that is ignored."""
    folder = pathlib.Path(str(oncelog.spark.__file__)).parent
    asked = {
        node.attr
        for file in folder.glob("*.py")
        if file.name != "options.py"
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute)
    }
    assert {field.name for field in dataclasses.fields(kind)} - asked <= {"columns"}  # what `schema` gives
