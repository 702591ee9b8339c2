"""The mistakes that are found without a broker: options, columns, types. Each is made as Spark makes it, on the format's class.

A mistake is data: what the user wrote, and nothing of what is answered; the answer is asked for anew each time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

from oncelog.spark.data_source import DefaultSource
from oncelog.spark.options import COLUMNS
from oncelog.spark.plainly import TOLD

READ, STREAM, WRITE, STREAM_WRITE = "batch read", "stream", "batch write", "streaming write"
SERVERS = "127.0.0.1:9092"
PLAN = "before anything is read or written"
FULL = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items() if name != "headers")


@dataclass(frozen=True)
class Mistake:
    """One mistake. `options` are beside bootstrap.servers and a topic, unless `bare`; a None takes an option out."""

    what: str
    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    schema: str | None = None
    bare: bool = False
    overwrite: bool = False

    def all_options(self, servers: str = SERVERS) -> dict[str, str]:
        """As the user gives them."""
        if self.bare:
            return dict(self.options)
        reads = self.kind in (READ, STREAM)
        given = {"bootstrap.servers": servers, **({"subscribe": "in"} if reads else {"topic": "out"}), **self.options}
        return {name: str(value) for name, value in given.items() if value is not None}

    def make(self, servers: str = SERVERS) -> Any:
        """As Spark does it: an instance of the format, then its reader or writer."""
        source = DefaultSource(CaseInsensitiveDict(self.all_options(servers)))
        reads = self.kind in (READ, STREAM)
        if reads and self.schema is None:
            source.schema()
        schema = struct(self.schema or (FULL if reads else "value binary"))
        if self.kind == READ:
            return source.reader(schema=schema)
        if self.kind == STREAM:
            return source.streamReader(schema=schema)
        if self.kind == WRITE:
            return source.writer(schema=schema, overwrite=self.overwrite)
        return source.streamWriter(schema=schema, overwrite=self.overwrite)


def struct(ddl: str) -> StructType:
    """A schema without a JVM."""
    names = dict(each.strip().split(" ", 1) for each in _columns(ddl))
    fields = [
        {
            "name": name,
            "type": _JSON.get(kind.removesuffix(NOT_NULL), kind.removesuffix(NOT_NULL)),
            "nullable": not kind.endswith(NOT_NULL),
            "metadata": {},
        }
        for name, kind in names.items()
    ]
    return StructType.fromJson({"type": "struct", "fields": fields})


NOT_NULL = " not null"
_HEADER = {
    "type": "struct",
    "fields": [
        {"name": "key", "type": "string", "nullable": True, "metadata": {}},
        {"name": "value", "type": "binary", "nullable": True, "metadata": {}},
    ],
}
_JSON: dict[str, Any] = {
    "bigint": "long",
    "int": "integer",
    "headers": {"type": "array", "elementType": _HEADER, "containsNull": True},
}


def _columns(ddl: str) -> list[str]:
    return [each.strip() for each in ddl.split(",")]


def told(make: Callable[[], Any]) -> str:
    """What the user is told. Raises AssertionError where nothing is."""
    try:
        make()
    except TOLD as error:
        return str(error)
    raise AssertionError("nothing was told")


PURE: list[Mistake] = [
    # what to read
    Mistake("no options at all, as in a table of `CREATE TABLE ... USING oncelog`", READ, bare=True),
    Mistake("no bootstrap servers", READ, {"bootstrap.servers": None}),
    Mistake("two different bootstrap servers", READ, {"kafka.bootstrap.servers": "127.0.0.1:9093"}),
    Mistake("nothing says what to read", READ, {"subscribe": None}),
    Mistake("two options say what to read", READ, {"assign": '{"in": [0]}'}),
    Mistake("`subscribe` names nothing", READ, {"subscribe": " , "}),
    Mistake("`assign` is no JSON", READ, {"subscribe": None, "assign": "in:0"}),
    Mistake("`subscribePattern` is a shell's pattern", READ, {"subscribe": None, "subscribePattern": "*"}),
    Mistake("a misspelt option", READ, {"subscribee": "in"}),
    Mistake("an option of another connector", READ, {"checkpoint.interval": "5"}),
    Mistake("`.load(path)`", READ, {"path": "/data"}),
    Mistake("an option for writing", READ, {"topic": "out"}),
    Mistake("an option for batch reads", STREAM, {"endingOffsets": "latest"}),
    Mistake("an option for streams", READ, {"maxOffsetsPerTrigger": "10"}),
    # from where to where
    Mistake("`startingOffsets` is no JSON", READ, {"startingOffsets": "begin"}),
    Mistake("an offset that is a text", READ, {"startingOffsets": '{"in": {"0": "5"}}'}),
    Mistake("a partition twice", READ, {"startingOffsets": '{"in": {"0": 5, "0": 7}}'}),
    Mistake("an offset below -2", READ, {"startingOffsets": '{"in": {"0": -3}}'}),
    Mistake("a batch read from `latest`", READ, {"startingOffsets": "latest"}),
    Mistake("a batch read up to `earliest`", READ, {"endingOffsets": "earliest"}),
    Mistake("two options say where to start", READ, {"startingOffsets": "earliest", "startingTimestamp": "0"}),
    Mistake("a time that is no number", READ, {"startingTimestamp": "2024-01-01"}),
    Mistake("a strategy without a time", READ, {"startingOffsetsByTimestampStrategy": "latest"}),
    Mistake("a strategy that is none", READ, {"startingTimestamp": "0", "startingOffsetsByTimestampStrategy": "earliest"}),
    # how much
    Mistake("a number that is none", STREAM, {"maxOffsetsPerTrigger": "1k"}),
    Mistake("at least more than at most", STREAM, {"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "5"}),
    Mistake("a delay without what it bounds", STREAM, {"maxTriggerDelay": "5m"}),
    Mistake("a duration without its unit's name", STREAM, {"minOffsetsPerTrigger": "5", "maxTriggerDelay": "5 minutes"}),
    Mistake("yes for true", READ, {"failOnDataLoss": "yes"}),
    Mistake("an isolation level of a database", READ, {"isolationLevel": "serializable"}),
    Mistake("two isolation levels", READ, {"isolationLevel": "read_committed", "kafka.isolation.level": "read_uncommitted"}),
    # columns of a read
    Mistake("a column that is not there", READ, {"columns": "value,offsets"}),
    Mistake("a column twice", READ, {"columns": "value,value"}),
    Mistake("headers wanted and not named", READ, {"columns": "value", "includeHeaders": "true"}),
    Mistake("a schema with a type of one's own", READ, schema="value string"),
    Mistake("a schema that promises no null", READ, schema="value binary not null"),
    # clients' options of a read
    Mistake("a client's option that Spark does", READ, {"kafka.auto.offset.reset": "earliest"}),
    Mistake("deserializers", READ, {"kafka.value.deserializer": "org.apache.kafka.common.serialization.StringDeserializer"}),
    Mistake("a group for a batch read", READ, {"kafka.group.id": "g"}),
    Mistake("two groups", STREAM, {"kafka.group.id": "g", "groupIdPrefix": "g"}),
    Mistake("an option for producers", READ, {"kafka.acks": "all"}),
    Mistake("a misspelt client's option", READ, {"kafka.fetch.max.byte": "1"}),
    Mistake("a client's option with a wrong value", READ, {"kafka.fetch.max.bytes": "much"}),
    Mistake("an option that means nothing here", READ, {"kafka.metric.reporters": "a.B"}),
    # writing
    Mistake("no topic", WRITE, {"topic": None}),
    Mistake("a column without a meaning", WRITE, schema="value binary, id bigint"),
    Mistake("a value that is a number", WRITE, schema="value bigint"),
    Mistake("no value", WRITE, schema="key binary"),
    Mistake("headers wanted, and no such column", WRITE, {"includeHeaders": "true"}),
    Mistake("headers not wanted, and there", WRITE, {"includeHeaders": "false"}, schema="value binary, headers headers"),
    Mistake('`mode("overwrite")`', WRITE, overwrite=True),
    Mistake("a misspelt option", WRITE, {"toppic": "out"}),
    Mistake("an option for reading", STREAM_WRITE, {"subscribe": "in"}),
    Mistake("an application without a version", WRITE, {"txnAppId": "a"}),
    Mistake("a version in a stream", STREAM_WRITE, {"txnAppId": "a", "txnVersion": "1"}),
    Mistake("a prefix with a dot", STREAM_WRITE, {"transactionalIdPrefix": "my.app"}),
    Mistake("a backend that is none", STREAM_WRITE, {"backend": "2pc"}),
    Mistake("two places for decisions", STREAM_WRITE, {"decisionTopic": "d", "decisionUrl": "sqlite:///d.db"}),
    Mistake("a margin without a clock", STREAM_WRITE, {"backend": "prepared", "completionMarginMs": "5"}),
    Mistake("a transactional id of one's own", STREAM_WRITE, {"kafka.transactional.id": "mine"}),
    Mistake("a transaction timeout", STREAM_WRITE, {"kafka.transaction.timeout.ms": "1000"}),
    Mistake("acknowledgements that a transaction cannot do with", STREAM_WRITE, {"kafka.acks": "1"}),
    Mistake("a login without its password", STREAM_WRITE, {"kafka.security.protocol": "SASL_SSL"}),
]  # fmt: skip
