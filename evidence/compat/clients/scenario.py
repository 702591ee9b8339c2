"""The checks, in terms of an adapter: each Python client brings its own (`with_<client>.py`), as do the Go clients in Go.

A program prints a JSON line per check: {"check", "result": passed | failed | absent, "detail", "seconds"}.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from evidence.compat.clients.checks import CHECKS, CODECS

TIMESTAMP_MS = time.time_ns() // 1_000_000 - 60_000  # old data would roll segments, and be deleted by their age
WAIT_S = 30.0
QUIET_S = 0.5
POLL_S = 1.0  # kafka-python forgets a rebalance that outlasts the poll it began in, and joins again for ever
TOPIC_ALREADY_EXISTS = 36


class Absent(Exception):
    """The client has no such thing; the reason goes on the page."""


class Refused(Exception):
    """An error of the broker, by its number in Kafka's protocol."""

    def __init__(self, code: int) -> None:
        super().__init__(f"error {code}")
        self.code = code


@dataclass
class Record:
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]] = field(default_factory=list)
    timestamp_ms: int = -1


class Producer(Protocol):
    """Sends and waits. A transactional one is ready (InitProducerId) when it is made."""

    def send(self, topic: str, partition: int, value: bytes, **more: Any) -> int: ...
    def send_many(self, topic: str, values: list[tuple[int, bytes]]) -> None: ...
    def begin(self) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def send_offsets(self, consumer: Consumer) -> None:
        """The consumer's positions, as part of the transaction (KIP-447)."""

    def close(self) -> None: ...


class Consumer(Protocol):
    def poll(self, seconds: float) -> list[Record]: ...
    def assignment(self) -> set[int]: ...
    def seek(self, topic: str, partition: int, offset: int) -> None: ...
    def begin_end(self, topic: str, partition: int) -> tuple[int, int]: ...
    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int: ...
    def commit(self) -> None: ...
    def committed(self, topic: str, partition: int) -> int | None: ...
    def close(self) -> None: ...


class Client(Protocol):
    """One per program. Admin calls raise Refused with the broker's error."""

    codecs: tuple[str, ...]

    def producer(self, transactional_id: str | None = None, codec: str = "none") -> Producer: ...
    def assigned(self, topic: str, partitions: int, isolation_level: str) -> Consumer: ...
    def member(self, topic: str, group: str, protocol: str = "classic") -> Consumer: ...
    def create_topic(self, topic: str, partitions: int, configs: dict[str, str]) -> None: ...
    def list_topics(self) -> set[str]: ...
    def partition_count(self, topic: str) -> int: ...
    def create_partitions(self, topic: str, count: int) -> None: ...
    def delete_topic(self, topic: str) -> None: ...
    def topic_configs(self, topic: str) -> dict[str, str | None]: ...
    def broker_configs(self) -> dict[str, str | None]: ...
    def alter_topic_config(self, topic: str, name: str, value: str) -> None: ...
    def list_groups(self) -> set[str]: ...
    def group_state(self, group: str) -> str: ...
    def delete_group(self, group: str) -> None: ...
    def delete_records(self, topic: str, partition: int, before_offset: int) -> None: ...
    def close(self) -> None: ...


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Brokers of a cluster take up what its controller decided a moment later."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.05)


class Checks:
    """Each method named after a check in checks.py."""

    def __init__(self, client: Client, prefix: str) -> None:
        self.client, self.prefix = client, prefix

    # -- what the checks have in common

    def topic(self, name: str, partitions: int = 1, **configs: str) -> str:
        topic = f"{self.prefix}-{name}"
        self.client.create_topic(topic, partitions, {key.replace("_", "."): value for key, value in configs.items()})
        eventually(lambda: topic in self.client.list_topics(), "the new topic is listed")
        return topic

    @contextlib.contextmanager
    def producer(self, transactional_id: str | None = None, codec: str = "none") -> Iterator[Producer]:
        full = None if transactional_id is None else f"{self.prefix}-{transactional_id}"
        with contextlib.closing(self.client.producer(full, codec)) as producer:
            yield producer

    def read(
        self, topic: str, count: int, isolation_level: str = "read_committed", partitions: int = 1
    ) -> list[Record]:
        """`count` records, and whatever else comes in the half second after them."""
        with contextlib.closing(self.client.assigned(topic, partitions, isolation_level)) as consumer:
            records: list[Record] = []
            deadline = time.monotonic() + WAIT_S
            while len(records) < count and time.monotonic() < deadline:
                records += consumer.poll(POLL_S)
            quiet = time.monotonic() + QUIET_S
            while time.monotonic() < quiet:
                records += consumer.poll(0.1)
            return records

    def values(self, topic: str, count: int, isolation_level: str = "read_committed") -> list[str]:
        return [(record.value or b"").decode() for record in self.read(topic, count, isolation_level)]

    # -- records

    def records(self, codec: str) -> None:
        if codec not in self.client.codecs:
            raise Absent("no such codec in this client")
        topic = self.topic(f"records-{codec}")
        value = b"value " * 400
        with self.producer(codec=codec) as producer:
            offset = producer.send(topic, 0, value, key=b"k", headers=[("h", b"1")], timestamp_ms=TIMESTAMP_MS)
        assert offset == 0, offset
        (record,) = self.read(topic, 1)
        assert (record.key, record.value, record.headers) == (b"k", value, [("h", b"1")]), record
        assert (record.offset, record.timestamp_ms) == (0, TIMESTAMP_MS), record

    def idempotent(self) -> None:
        topic = self.topic("idempotent", 3)
        with self.producer(codec="gzip") as producer:
            # One alone per partition: the first batch of a new topic may find no leader yet in Apache Kafka, which then takes
            # the second one whatever its sequence number, and refuses the first for ever
            for index in range(3):
                producer.send(topic, index, b"%d" % index)
            producer.send_many(topic, [(index % 3, b"%d" % index) for index in range(3, 1000)])
        records = self.read(topic, 1000, partitions=3)
        for partition in range(3):
            found = [int(record.value or b"") for record in records if record.partition == partition]
            assert found == list(range(partition, 1000, 3)), f"partition {partition}: {len(found)} records"

    def positions(self) -> None:
        topic = self.topic("positions")
        with self.producer() as producer:
            for index in range(10):
                producer.send(topic, 0, b"%d" % index, timestamp_ms=TIMESTAMP_MS + index)
        with contextlib.closing(self.client.assigned(topic, 1, "read_uncommitted")) as consumer:
            assert consumer.begin_end(topic, 0) == (0, 10), consumer.begin_end(topic, 0)
            assert consumer.offset_at(topic, 0, TIMESTAMP_MS + 5) == 5
            consumer.seek(topic, 0, 7)
            records: list[Record] = []
            eventually(lambda: bool(records.extend(consumer.poll(POLL_S)) or len(records) >= 3), "records after a seek")
            assert [record.offset for record in records] == [7, 8, 9], records

    # -- groups

    def resume(self) -> None:
        topic, group = self.topic("resume"), f"{self.prefix}-resume"
        with self.producer() as producer:
            producer.send_many(topic, [(0, b"%d" % index) for index in range(10)])
            with contextlib.closing(self.client.member(topic, group)) as first:
                records: list[Record] = []
                eventually(lambda: bool(records.extend(first.poll(POLL_S)) or len(records) >= 10), "ten records")
                first.commit()
            producer.send_many(topic, [(0, b"%d" % index) for index in range(10, 15)])
        with contextlib.closing(self.client.member(topic, group)) as second:
            assert second.committed(topic, 0) == 10
            records = []
            eventually(lambda: bool(records.extend(second.poll(POLL_S)) or len(records) >= 5), "five records more")
        assert [record.offset for record in records] == [10, 11, 12, 13, 14], records

    def rebalance(self, protocol: str = "classic") -> None:
        topic, group = self.topic(f"rebalance-{protocol}", 4), f"{self.prefix}-rebalance-{protocol}"
        seen: set[str] = set()

        def poll(*members: Consumer) -> None:
            with concurrent.futures.ThreadPoolExecutor() as pool:
                for records in pool.map(lambda member: member.poll(POLL_S), members):
                    seen.update((record.value or b"").decode() for record in records)

        def until(condition: Callable[[], bool], what: str, *members: Consumer) -> None:
            eventually(lambda: bool(poll(*members) or condition()), what)

        with self.producer() as producer:
            producer.send_many(topic, [(index % 4, b"a%d" % index) for index in range(100)])
            with contextlib.closing(self.client.member(topic, group, protocol)) as staying:
                until(lambda: len(staying.assignment()) == 4, "one member has all", staying)
                leaving = self.client.member(topic, group, protocol)
                try:
                    both = (staying, leaving)
                    until(lambda: [len(m.assignment()) for m in both] == [2, 2], "two members share", *both)
                    assert not staying.assignment() & leaving.assignment()
                    producer.send_many(topic, [(index % 4, b"b%d" % index) for index in range(100)])
                    until(lambda: len(seen) == 200, "every record is read", *both)
                finally:
                    leaving.close()
                until(lambda: len(staying.assignment()) == 4, "the one that stays has all again", staying)
                producer.send_many(topic, [(index % 4, b"c%d" % index) for index in range(100)])
                until(lambda: len(seen) == 300, "every record is read", staying)

    # -- transactions

    def commit_abort(self) -> None:
        topic = self.topic("commit-abort")
        with self.producer("commit-abort") as producer:
            for index in range(6):
                producer.begin()
                producer.send(topic, 0, b"%d" % index)
                if index % 3 == 1:
                    producer.abort()
                else:
                    producer.commit()
        assert self.values(topic, 4) == ["0", "2", "3", "5"]
        assert self.values(topic, 6, "read_uncommitted") == ["0", "1", "2", "3", "4", "5"]

    def interleaved(self) -> None:
        topic = self.topic("interleaved")
        with self.producer("a") as a, self.producer("b") as b, self.producer() as plain:
            for index in range(4):
                a.begin()
                b.begin()
                for part in "xy":
                    for producer, who in ((a, "a"), (b, "b"), (plain, "p")):
                        producer.send(topic, 0, f"{who}{index}{part}".encode())
                (a.commit if index % 2 else a.abort)()
                (b.abort if index % 2 else b.commit)()
        expected = [f"{who}{i}{part}" for i in range(4) for part in "xy" for who in ("ap" if i % 2 else "bp")]
        assert self.values(topic, 16) == expected

    def held_back(self) -> None:
        topic = self.topic("held-back")
        with self.producer("held-back") as producer, self.producer() as plain:
            plain.send(topic, 0, b"before")
            producer.begin()
            producer.send(topic, 0, b"open")
            plain.send(topic, 0, b"after")
            assert self.values(topic, 1) == ["before"]
            assert self.values(topic, 3, "read_uncommitted") == ["before", "open", "after"]
            producer.commit()
            assert self.values(topic, 3) == ["before", "open", "after"]

    def fenced(self) -> None:
        topic = self.topic("fenced")
        with self.producer("fenced") as older:
            older.begin()
            older.send(topic, 0, b"older")
            with self.producer("fenced") as newer:
                newer.begin()
                newer.send(topic, 0, b"newer")
                newer.commit()
            try:
                older.commit()
            except Exception as error:  # noqa: BLE001 - each client has its own
                print(f"fenced: {error!r}", file=sys.stderr)
            else:
                raise AssertionError("the older instance could commit")
            assert self.values(topic, 1) == ["newer"]

    def offsets(self) -> None:
        source, target, group = self.topic("offsets"), self.topic("offsets-copied"), f"{self.prefix}-offsets"
        with self.producer() as producer:
            producer.send_many(source, [(0, b"%d" % index) for index in range(20)])
        for commits in (False, True):
            with (
                contextlib.closing(self.client.member(source, group)) as consumer,
                self.producer("offsets") as producer,
            ):
                records: list[Record] = []
                eventually(
                    lambda consumer=consumer, records=records: bool(
                        records.extend(consumer.poll(POLL_S)) or len(records) >= 20
                    ),
                    "20 records to copy",
                )
                producer.begin()
                producer.send_many(target, [(0, record.value or b"") for record in records])
                producer.send_offsets(consumer)
                (producer.commit if commits else producer.abort)()
        assert self.values(target, 20) == [str(index) for index in range(20)]
        assert len(self.values(target, 40, "read_uncommitted")) == 40
        with contextlib.closing(self.client.member(source, group)) as consumer:
            eventually(lambda: consumer.committed(source, 0) == 20, "offset 20 is committed")

    # -- admin

    def topics(self) -> None:
        topic = self.topic("topics", 3, retention_ms="12345678")
        assert self.client.partition_count(topic) == 3
        code = 0
        try:
            self.client.create_topic(topic, 3, {})
        except Refused as error:
            code = error.code
        assert code == TOPIC_ALREADY_EXISTS, f"created twice: error {code}"
        self.client.create_partitions(topic, 5)
        eventually(lambda: self.client.partition_count(topic) == 5, "five partitions")
        self.client.delete_topic(topic)
        eventually(lambda: topic not in self.client.list_topics(), "the topic is gone")

    def configs(self) -> None:
        topic = self.topic("configs", retention_ms="12345678")
        assert self.client.topic_configs(topic)["retention.ms"] == "12345678"
        self.client.alter_topic_config(topic, "max.message.bytes", "54321")
        eventually(lambda: self.client.topic_configs(topic)["max.message.bytes"] == "54321", "the new value")
        assert (self.client.broker_configs()["transactional.id.expiration.ms"] or "").isdigit()

    def groups(self) -> None:
        topic, group = self.topic("groups"), f"{self.prefix}-groups"
        with self.producer() as producer:
            producer.send_many(topic, [(0, b"x")] * 3)
        with contextlib.closing(self.client.member(topic, group)) as member:
            records: list[Record] = []
            eventually(lambda: bool(records.extend(member.poll(POLL_S)) or len(records) >= 3), "three records")
            member.commit()
            assert self.client.group_state(group) == "Stable", self.client.group_state(group)
            assert member.committed(topic, 0) == 3
        eventually(lambda: self.client.group_state(group) == "Empty", "the group is empty")
        assert group in self.client.list_groups()
        self.client.delete_group(group)
        eventually(lambda: group not in self.client.list_groups(), "the group is gone")

    def delete_records(self) -> None:
        topic = self.topic("delete-records")
        with self.producer() as producer:
            producer.send_many(topic, [(0, b"%d" % index) for index in range(10)])
        self.client.delete_records(topic, 0, 4)
        with contextlib.closing(self.client.assigned(topic, 1, "read_uncommitted")) as consumer:
            eventually(lambda: consumer.begin_end(topic, 0) == (4, 10), "the log starts at 4")
        assert [record.offset for record in self.read(topic, 6)] == [4, 5, 6, 7, 8, 9]


def _check(checks: Checks, name: str) -> Callable[[], None]:
    if name.removeprefix("records-") in CODECS:
        return lambda: checks.records(name.removeprefix("records-"))
    if name == "rebalance-848":
        return lambda: checks.rebalance("consumer")
    return getattr(checks, name.replace("-", "_"))


def main(make: Callable[[str], Client]) -> int:
    """`PROGRAM BOOTSTRAP PREFIX [CHECK ...]`"""
    bootstrap, prefix, *names = sys.argv[1:]
    client = make(bootstrap)
    checks = Checks(client, prefix)
    for name in names or CHECKS:
        began, result, detail = time.monotonic(), "passed", ""
        try:
            _check(checks, name)()
        except Absent as absent:
            result, detail = "absent", str(absent)
        except Exception as error:  # noqa: BLE001 - reported
            traceback.print_exc()
            result, detail = "failed", f"{type(error).__name__}: {error}"
        seconds = round(time.monotonic() - began, 2)
        print(json.dumps({"check": name, "result": result, "detail": detail, "seconds": seconds}), flush=True)
    client.close()
    return 0
