"""The mistakes that only a broker shows: what is not there, what is gone, what may not be done, what it cannot do.

Each is a function of a world (two brokers, topics); it does what Spark's processes do, and ends in an error that is told.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.streaming.datasource import ReadAllAvailable

from evidence.spark_mistakes.catalogue import READ, SERVERS, STREAM, STREAM_WRITE, WRITE, Mistake
from oncelog import TopicPartition, sync
from oncelog.client.admin.acls import Acl
from oncelog.core.two_phase import exactly_once_sink as sink
from oncelog.spark import dual_write
from oncelog.spark.database_decisions import DatabaseDecisionStore
from oncelog.spark.decision_store import decision_store
from oncelog.spark.options import sink_options
from oncelog.testing import TestBroker

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
LOGIN = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "SCRAM-SHA-256",
    "kafka.sasl.username": "bob",
}
NOW, TASK, COMMIT = "when a batch is planned", "in a task, before anything is visible", "when the batch is committed"
CREATED = "before anything is read or written"
BATCH = "in the batch, before any of its records is visible"


class World:
    """A broker, one that has no two-phase commit and old transactions, and one that asks who one is and what one may."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self.servers = stack.enter_context(TestBroker()).bootstrap_servers
        plain = {"transaction.two.phase.commit.enable": "false", "auto.create.topics.enable": "false"}
        self.plain = stack.enter_context(TestBroker(plain)).bootstrap_servers
        rules = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:admin"}
        users = {"admin": "a", "bob": "b"}
        secured = stack.enter_context(TestBroker(rules, security="SASL_PLAINTEXT", users=users))
        self.secured = secured.bootstrap_servers
        self.secured_admin = stack.enter_context(sync.Admin(**secured.client_options("admin")))
        self.secured_admin.create_topics({"in": 1, "out": 1})
        self.admin = stack.enter_context(sync.Admin(bootstrap_servers=self.servers))
        self.admin.create_topics({"in": 1, "out": 1, "deleted": 1, "anew": 1, "other": 1})
        with sync.Producer(bootstrap_servers=self.servers) as producer:
            for topic in ("in", "deleted", "anew"):
                for _ in range(10):
                    producer.send(topic, b"v", timestamp_ms=1_700_000_000_000)
        self.admin.delete_records({TopicPartition("deleted", 0): 5})

    def made(self, kind: str, schema: str | None = None, **options: Any) -> Any:
        """A reader or writer of the format."""
        return Mistake("", kind, {"kafka.default.api.timeout.ms": "3000", **options}, schema).make(self.servers)

    def written(self, rows: dict[str, pa.Array], schema: str, **options: Any) -> Any:
        """One task of a batch write."""
        writer = self.made(WRITE, schema, **options)
        return writer, in_a_task(lambda: writer.write(iter([pa.RecordBatch.from_pydict(rows)])))

    def as_bob(self, kind: str, **options: Any) -> Any:
        """A reader or writer at the broker that asks who one is."""
        return self.made(kind, **{**LOGIN, "bootstrap.servers": self.secured, "kafka.sasl.password": "b", **options})


def in_a_task(work: Callable[[], Any]) -> Any:
    """With what a task knows of itself."""
    properties = {"sql.streaming.queryId": "q", "streaming.sql.batchId": "3", "spark.jobGroup.id": "11112222-run"}
    context = mock.Mock(partitionId=lambda: 0, taskAttemptId=lambda: 0, getLocalProperty=properties.get)
    with mock.patch.object(TaskContext, "get", return_value=context):
        return work()


def values(*found: bytes) -> pa.Array:
    """A column of bytes."""
    return pa.array(list(found), pa.binary())


def _made_anew(world: World) -> None:
    reader = world.made(STREAM, subscribe="anew", startingOffsets="earliest")
    stands = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    world.admin.delete_topics(["anew"])
    world.admin.create_topics({"anew": 1})
    reader.latestOffset(stands, ReadAllAvailable())


def _deleted(world: World) -> None:
    reader = world.made(STREAM, subscribe="deleted")
    reader.partitions({"v": 1, "t": {"deleted": {"0": 0}}}, {"v": 1, "t": {"deleted": {"0": 10}}})


def _second_destination(world: World) -> None:
    for topic in ("out", "other"):
        rows = {"value": values(b"1"), "topic": pa.array([topic])}
        write = {"topic": None, "txnAppId": "report", "txnVersion": "7"}
        writer, message = world.written(rows, "value binary, topic string", **write)
        writer.commit([message])


def _vetoed(world: World) -> None:
    options = {"bootstrap.servers": world.servers, "topic": "out"}
    decision_store(sink_options(options)).veto("q", "3", "11112222-run")
    writer = world.made(STREAM_WRITE, checkpointLocation="/c")
    message = in_a_task(lambda: writer.write(iter([pa.RecordBatch.from_pydict({"value": values(b"1")})])))
    writer.commit([message], 3)


def _superseded(world: World) -> None:
    store = decision_store(sink_options({"bootstrap.servers": world.servers, "topic": "out"}))
    store.decide(sink.BatchDecision("q", "9", "99990000-run", ()))
    writer = world.made(STREAM_WRITE, checkpointLocation="/another")
    in_a_task(lambda: writer.write(iter([])))


def _decided_elsewhere(world: World) -> None:
    for version, more in (("1", {}), ("2", {"decisionTopic": "decisions-2"})):
        write: dict[str, Any] = {"txnAppId": "moved", "txnVersion": version, **more}
        writer, message = world.written({"value": values(b"1")}, "value binary", **write)
        writer.commit([message])


def _held_back(world: World) -> None:
    world.admin.create_topics({"held": 1})
    with sync.Producer(bootstrap_servers=world.servers, transactional_id="holder") as producer:
        producer.begin_transaction()
        producer.send("held", b"1")
        producer.flush()
        world.made(READ, subscribe="held", endingOffsets='{"held": {"0": 1}}').partitions()


def _near_its_timeout(world: World) -> None:
    more = {"backend": "resumed", "completionMarginMs": "9000000"}
    writer, message = world.written({"value": values(b"1")}, "value binary", txnAppId="late", txnVersion="1", **more)
    writer.commit([message])


def _read(**options: Any) -> Callable[[World], Any]:
    return lambda world: world.made(READ, **options).partitions()


def _stream_at(start: dict[str, Any], end: dict[str, Any]) -> Callable[[World], Any]:
    return lambda world: world.made(STREAM).partitions(start, end)


def _dual(**wrong: Any) -> Callable[[World], Any]:
    def make(world: World) -> Any:
        more: dict[str, Any] = {"query_id": "orders", "database_url": "sqlite:///d.db"}
        more |= {"to_records": lambda frame: frame, "to_database": lambda *_: None}
        options = {"bootstrap.servers": world.servers, "topic": "out"}
        return dual_write(**({"options": options} | more | wrong))

    return make


async def _awaited(_connection: Any, _frame: Any, _batch_id: int) -> None:
    """Nobody awaits it."""


def _committed_by_hand(_: World) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = DatabaseDecisionStore(f"sqlite:///{folder}/d.db")
        try:
            store.decide(sink.BatchDecision("orders", "0", "run", ()), lambda connection: connection.commit())
        finally:
            store.close()


def _old_broker(world: World) -> Any:
    with sync.Admin(bootstrap_servers=world.plain) as admin:
        admin.update_features({"transaction.version": 1}, upgrade_type="safe_downgrade")
    return world.made(WRITE, **{"bootstrap.servers": world.plain, "backend": "resumed"})


def _unreachable(kind: str) -> Callable[[World], Any]:
    def ask(world: World) -> Any:
        given = {"bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "2000"}
        found = world.made(kind, **given)
        return found.partitions()

    return ask


def _with_right(resource_type: str, name: str, operation: str) -> Callable[[World], Any]:
    """Rights are given one after the other; each shows the next that is missing."""

    def write(world: World) -> None:
        pattern = "prefixed" if resource_type == "transactional-id" else "literal"
        world.secured_admin.create_acls([Acl(resource_type, name, "User:bob", operation, pattern_type=pattern)])
        writer = world.as_bob(WRITE, **{"backend": "resumed", "kafka.enable.idempotence": "true"})
        message = in_a_task(lambda: writer.write(iter([pa.RecordBatch.from_pydict({"value": values(b"1")})])))
        writer.commit([message])

    return write


ENDS = {"v": 1, "t": {"in": {"0": 99}}}
LIVE: list[tuple[str, str, Callable[[World], Any]]] = [
    ("nobody listens at `bootstrap.servers`", NOW, _unreachable(READ)),
    ("the same, when a write is begun", CREATED, _unreachable(WRITE)),
    ("a topic that is not there", NOW, _read(subscribe="inn")),
    ("a partition that is not there", NOW, _read(subscribe=None, assign='{"in": [0, 7]}')),
    ("`startingOffsets` for some of the partitions", NOW, _read(startingOffsets='{"inn": {"0": 0}}')),
    ("a start behind the end", NOW, _read(startingOffsets='{"in": {"0": 99}}')),
    ("an end behind the end", NOW, _read(endingOffsets='{"in": {"0": 99}}')),
    ("an end that an open transaction holds back", NOW, _held_back),
    ("a time after every record", NOW, _read(startingTimestamp="1900000000000")),
    ("records that retention has deleted", NOW, _deleted),
    ("a topic that was deleted and made again", NOW, _made_anew),
    ("a log that is shorter than the checkpoint", NOW, _stream_at({"v": 1, "t": {"in": {"0": 9}}}, ENDS)),
    ("a checkpoint of a newer oncelog", NOW, _stream_at({"v": 9}, {"v": 9})),
    ("a checkpoint of another source", NOW, _stream_at({"logOffset": 4}, {"logOffset": 5})),
    ("a first batch of Spark's own source, never finished", NOW, _stream_at({"v": 1, "start": "initial"}, {"in": {"0": 5}})),
    ("`backend=prepared` where the broker has no two-phase commit", CREATED,
     lambda world: world.made(WRITE, **{"bootstrap.servers": world.plain, "backend": "prepared"})),
    ("a broker of before Apache Kafka 4.0", CREATED, _old_broker),
    ("a broker that wants a login", CREATED,
     lambda world: world.made(
         WRITE, **{"bootstrap.servers": world.secured, "kafka.default.api.timeout.ms": "2000"})),
    ("a wrong password", CREATED, lambda world: world.as_bob(WRITE, **{"kafka.sasl.password": "wrong"})),
    ("no right to read the topic", NOW, lambda world: world.as_bob(READ).partitions()),
    ("no right to see what the broker can do", CREATED, lambda world: world.as_bob(WRITE)),
    ("no right to the decision topic", CREATED, _with_right("cluster", "kafka-cluster", "describe-configs")),
    ("no right to the transactional ids", TASK, _with_right("topic", "__oncelog_decisions", "all")),
    ("no right to write to the topic", TASK, _with_right("transactional-id", "oncelog-spark", "write")),
    ("a database that is none", CREATED, lambda world: world.made(WRITE, decisionUrl="orders.db", txnAppId="a", txnVersion="1")),
    ("a dot in a version", CREATED, lambda world: world.made(WRITE, txnAppId="a", txnVersion="1.2")),
    ("a row without a topic", TASK,
     lambda world: world.written(
         {"value": values(b"1"), "topic": pa.array([None], pa.string())}, "value binary, topic string", topic=None)),
    ("a partition that the topic has not", TASK,
     lambda world: world.written(
         {"value": values(b"1"), "partition": pa.array([7], pa.int32())}, "value binary, partition int")),
    ("a record that is too large", TASK,
     lambda world: world.written({"value": values(b"1" * 3_000_000)}, "value binary")),
    ("a second write of a version, to another topic", COMMIT, _second_destination),
    ("tasks that took longer than the broker keeps a transaction", COMMIT, _near_its_timeout),
    ("a run that an abort has forbidden", COMMIT, _vetoed),
    ("a copied checkpoint, or a driver that slept", TASK, _superseded),
    ("another `decisionTopic` than before", COMMIT, _decided_elsewhere),
    ("a `query_id` of a dual write with a space", CREATED, _dual(query_id="my orders")),
    ("a `database_url` of a dual write that is none", CREATED, _dual(database_url="orders.db")),
    ("a `to_records` that is no function", CREATED, _dual(to_records=None)),
    ("a `to_database` that takes other arguments", CREATED, _dual(to_database=lambda frame, batch_id: None)),
    ("a `to_database` that is `async def`", CREATED, _dual(to_database=_awaited)),
    ("a `to_database` that commits", BATCH, _committed_by_hand),
]  # fmt: skip


@contextlib.contextmanager
def world() -> Iterator[World]:
    """Three brokers."""
    with contextlib.ExitStack() as stack:
        yield World(stack)


def settled(text: str, world: World) -> str:
    """Without what differs from run to run: ports, ids, times."""
    for servers in (world.servers, world.plain, world.secured):
        text = text.replace(servers, SERVERS).replace(servers.rpartition(":")[2], "9092")
    text = re.sub(r"its id was [\w-]+, now [\w-]+", "its id was ID, now ID", text)
    text = re.sub(r"oncelog-spark\.\S+?\.[0-9a-f]{8}\.[0-9a-f.]+", "oncelog-spark.ID", text)
    text = re.sub(r"oncelog-spark\.app@[\w.@-]*\w", "oncelog-spark.ID", text)
    return " ".join(text.split())


__all__ = ["LIVE", "World", "settled", "world"]
