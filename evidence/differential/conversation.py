"""One recorded conversation: verbs that send one request and write one line with the normalised answer.

What differs from run to run is named: producer ids P1.., member ids m1.., generated names without their prefix, times by
their distance from the conversation's own start. What is left is Kafka's behaviour, and can be compared as text.
"""

from __future__ import annotations

import itertools
import os
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

from evidence.differential.asking import AskVerb
from evidence.differential.connection import TIMEOUT_S, Connection, ConnectionClosed, NoReply
from evidence.differential.group_verbs import GroupVerbs
from oncelog.errors import ErrorCode
from oncelog.wire.control_records import COMMIT
from oncelog.wire.record_batch import Codec, RecordBatch, batches, build_batch

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
LABELS = ("RU", "RC")
AGE_MS = 600_000  # data is stamped minutes back: older data would roll the segment at a marker
WAIT_S = 60.0  # for a hang
PAUSE_S = 0.005
_runs = itertools.count()

Producer = tuple[int, int]
NOBODY: Producer = (-1, -1)


def error_name(code: int) -> str:
    return ErrorCode(code).name


class Conversation(GroupVerbs, AskVerb):
    """Everything one scenario says to one broker, and the lines it wrote down."""

    def __init__(self, host: str, port: int, *, transaction_timeout_ms: int = 60_000, prefix: str = "") -> None:
        self.address = (host, port)
        self.lines: list[str] = []
        self.prefix = prefix or f"d{os.getpid()}x{next(_runs)}-"
        self.started_ms = time.time_ns() // 1_000_000 - AGE_MS
        self.transaction_timeout_ms = transaction_timeout_ms
        self._producer_names: dict[int, str] = {}
        self._member_names: dict[str, str] = {}
        self._transactional_ids: set[str] = set()
        self._connections: list[Connection] = []
        self._shared = self.connection()

    def connection(self) -> Connection:
        """One more connection, closed at the end."""
        made = Connection(*self.address)
        self._connections.append(made)
        return made

    def reconnect(self) -> None:
        self._shared = self.connection()

    def close(self) -> None:
        for each in self._connections:
            each.close()

    def call(self, api_name: str, version: int, **fields: Any) -> Any:
        return self._shared.call(api_name, version, fields)

    # -- names

    def name(self, plain: str | None) -> Any:
        """A name nobody else uses."""
        return plain and self.prefix + plain

    def producer_name(self, producer_id: int) -> str:
        if producer_id < 0:
            return str(producer_id)
        return self._producer_names.setdefault(producer_id, f"P{len(self._producer_names) + 1}")

    def producer(self, producer: Producer) -> str:
        return f"{self.producer_name(producer[0])}/{producer[1]}"

    def member(self, member_id: str) -> str:
        if not member_id:
            return "''"
        return self._member_names.setdefault(member_id, f"m{len(self._member_names) + 1}")

    def time(self, timestamp_ms: int) -> str:
        if timestamp_ms < 0:
            return str(timestamp_ms)
        distance_ms = timestamp_ms - self.started_ms
        return f"t0{distance_ms:+d}" if abs(distance_ms) < AGE_MS // 2 else "now"

    def say(self, what: str, *answer: Any) -> None:
        """Write one line down."""
        line = f"{what} -> {' '.join(map(str, answer))}" if answer else what
        self.lines.append(line.replace(self.prefix, "").rstrip())

    def until(self, question: Callable[[], Any]) -> Any:
        """Ask until the answer is not None."""
        ends = time.monotonic() + WAIT_S
        while (answer := question()) is None:
            assert time.monotonic() < ends, "\n".join([*self.lines, "# and then waited in vain"])
            time.sleep(PAUSE_S)
        return answer

    # -- topics

    def topic(self, plain: str, partitions: int = 1, **configs: Any) -> str:
        """Create a topic and wait until each partition has its leader; says nothing."""
        name = self.name(plain)
        entries = [{"name": key.replace("_", "."), "value": str(value)} for key, value in configs.items()]
        wanted = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": entries}

        def created() -> Any:
            code = self.call("CreateTopics", 7, topics=[wanted], timeout_ms=10_000).topics[0].error_code
            assert code in (0, ErrorCode.TOPIC_ALREADY_EXISTS), error_name(code)
            return True if code == 0 else None

        self.until(created)
        self.wait_for_topic(name, partitions)
        return str(name)

    def wait_for_topic(self, name: str, partitions: int) -> None:
        def ready() -> Any:
            request = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
            found = self.call("Metadata", 9, **request).topics[0]
            led = [each for each in found.partitions if each.error_code == 0 and each.leader_id >= 0]
            if len(led) < partitions:
                return None
            answers = [self.fetch_partition(name, index) for index in range(partitions)]
            is_led = all(each.error_code in (0, ErrorCode.OFFSET_OUT_OF_RANGE) for each in answers)
            return True if is_led else None

        self.until(ready)

    def wait_after_restart(self, topic: str, partitions: int) -> None:
        """Wait until the broker leads again what the conversation is about; says nothing."""
        self.wait_for_topic(topic, partitions)

        def loaded() -> Any:
            reply = self.call("DescribeTransactions", 0, transactional_ids=sorted(self._transactional_ids))
            return None if any(self._is_early(each.error_code) for each in reply.transaction_states) else True

        self.until(loaded)

    def topic_id(self, name: str) -> Any:
        request = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
        return self.call("Metadata", 12, **request).topics[0].topic_id

    # -- transactions

    def init(
        self,
        transactional_id: str | None,
        producer_id: int = -1,
        producer_epoch: int = -1,
        *,
        v: int = 5,
        timeout: int | None = None,
        wait: bool = True,
        label: str = "",
        **two_phase: bool,
    ) -> Producer:
        request = {
            "transactional_id": self.name(transactional_id),
            "transaction_timeout_ms": self.transaction_timeout_ms if timeout is None else timeout,
            **({"producer_id": producer_id, "producer_epoch": producer_epoch} if v >= 3 else {}),
            **two_phase,
        }

        def answered() -> Any:
            reply = self.call("InitProducerId", v, **request)
            return None if wait and self._is_early(reply.error_code) else reply

        reply = self.until(answered)
        if transactional_id:
            self._transactional_ids.add(self.name(transactional_id))
        resumed = (producer_id, producer_epoch) != NOBODY
        given = f" resume={self.producer((producer_id, producer_epoch))}" if resumed else ""
        phases = " 2pc" if two_phase.get("enable_2pc") else ""
        result = (reply.producer_id, reply.producer_epoch)
        head = f"init v{v} {transactional_id}{given}{phases}{label}"
        self.say(head, error_name(reply.error_code), self.producer(result))
        if v >= 6:
            ongoing = (reply.ongoing_txn_producer_id, reply.ongoing_txn_producer_epoch)
            self.say("   ongoing", self.producer(ongoing))
        return result

    @staticmethod
    def _is_early(code: int) -> bool:
        """Answers to which a client waits and asks again; never what a conversation is about."""
        return code in (
            ErrorCode.CONCURRENT_TRANSACTIONS,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.NOT_COORDINATOR,
        )

    def describe(self, transactional_id: str, label: str = "") -> None:
        reply = self.call("DescribeTransactions", 0, transactional_ids=[self.name(transactional_id)])
        found = reply.transaction_states[0]
        partitions = []
        for topic in found.topics:
            internal = topic.topic.startswith("__")
            partitions += [topic.topic if internal else f"{topic.topic}-{index}" for index in topic.partitions]
        start_ms = found.transaction_start_time_ms
        producer = (found.producer_id, found.producer_epoch)
        self.say(
            f"describe {transactional_id}{label}",
            error_name(found.error_code),
            found.transaction_state or "''",
            "0/0" if found.error_code else self.producer(producer),
            f"timeout={found.transaction_timeout_ms}",
            f"start={'set' if start_ms > 0 else start_ms}",
            f"[{','.join(sorted(set(partitions)))}]",
        )

    def end(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        commit: bool,
        *,
        v: int = 5,
        label: str = "",
        settle: bool = False,
        quiet: bool = False,
    ) -> Producer:
        """EndTxn; `settle` waits for the markers. Gives what the next transaction goes by."""
        reply = self.call(
            "EndTxn",
            v,
            transactional_id=self.name(transactional_id),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            committed=commit,
        )
        result = (reply.producer_id, reply.producer_epoch) if v >= 5 else (producer_id, producer_epoch)
        given = self.producer((producer_id, producer_epoch))
        if not quiet:
            answer = [error_name(reply.error_code), *([self.producer(result)] if v >= 5 else [])]
            self.say(f"end v{v} {transactional_id} {given} {'COMMIT' if commit else 'ABORT'}{label}", *answer)
        if settle:
            self.settle(transactional_id, quiet=quiet)
        return result

    def settle(self, transactional_id: str, *, quiet: bool = False) -> None:
        """Wait until a transaction is complete."""

        def complete() -> Any:
            reply = self.call("DescribeTransactions", 0, transactional_ids=[self.name(transactional_id)])
            found = reply.transaction_states[0]
            is_over = found.transaction_state.startswith("Complete") or found.transaction_state == "Empty"
            return found if is_over else None

        found = self.until(complete)
        if not quiet:
            producer = self.producer((found.producer_id, found.producer_epoch))
            self.say(f"settled {transactional_id}", found.transaction_state, producer)

    def add(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        topics: Sequence[tuple[str, Sequence[int]]],
        *,
        v: int = 3,
        label: str = "",
    ) -> None:
        reply = self.call(
            "AddPartitionsToTxn",
            v,
            v3_and_below_transactional_id=self.name(transactional_id),
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=producer_epoch,
            v3_and_below_topics=[{"name": name, "partitions": list(indexes)} for name, indexes in topics],
        )
        given = self.producer((producer_id, producer_epoch))
        results = _results_by_partition(reply.results_by_topic_v3_and_below)
        self.say(f"add v{v} {transactional_id} {given}{label}", *results)

    def add4(self, transactions: Sequence[tuple[str, int, int, bool, Any]], *, v: int = 4, label: str = "") -> None:
        """AddPartitionsToTxn between brokers: (transactional id, producer id, epoch, verify only, topics) each."""
        asked = [
            {
                "transactional_id": self.name(transactional_id),
                "producer_id": producer_id,
                "producer_epoch": producer_epoch,
                "verify_only": verify_only,
                "topics": [{"name": name, "partitions": list(indexes)} for name, indexes in topics],
            }
            for transactional_id, producer_id, producer_epoch, verify_only, topics in transactions
        ]
        reply = self.call("AddPartitionsToTxn", v, transactions=asked)
        (transactional_id, producer_id, producer_epoch, verify_only, _) = transactions[0]
        results = [
            f"{each.transactional_id}:{','.join(_results_by_partition(each.topic_results))}"
            for each in reply.results_by_transaction
        ]
        kind = "verify" if verify_only else "add"
        given = self.producer((producer_id, producer_epoch))
        head = f"add v{v} [{kind}] {transactional_id} {given}{label}"
        self.say(head, error_name(reply.error_code), *sorted(results))

    def markers(
        self, markers: Sequence[tuple[int, int, bool, Any, int] | tuple[int, ...]], *, v: int = 1, label: str = ""
    ) -> None:
        """WriteTxnMarkers: (producer id, epoch, commit, topics, coordinator epoch[, transaction version]) each."""
        asked = []
        for producer_id, producer_epoch, commit, topics, coordinator_epoch, *level in markers:
            marker: dict[str, Any] = {
                "producer_id": producer_id,
                "producer_epoch": producer_epoch,
                "transaction_result": commit,
                "topics": [{"name": name, "partition_indexes": list(indexes)} for name, indexes in topics],  # type: ignore[union-attr]
                "coordinator_epoch": coordinator_epoch,
            }
            asked.append(marker | ({"transaction_version": level[0]} if level else {}))
        first = asked[0]
        given = self.producer((first["producer_id"], first["producer_epoch"]))
        level_given = f" tv={first['transaction_version']}" if "transaction_version" in first else ""
        result = "COMMIT" if first["transaction_result"] else "ABORT"
        head = f"markers v{v} {given} {result} ce={first['coordinator_epoch']}{level_given}{label}"
        answers = []
        for each in self.call("WriteTxnMarkers", v, markers=asked).markers:
            for topic in each.topics:
                for partition in topic.partitions:
                    where = f"{self.producer_name(each.producer_id)}:{topic.name}-{partition.partition_index}"
                    answers.append(f"{where}={error_name(partition.error_code)}")
        self.say(head, *sorted(answers))

    # -- records

    def produce(
        self,
        topic: str,
        partition: int,
        values: Sequence[bytes] | None = None,
        *,
        n: int = 1,
        producer: Producer = NOBODY,
        sequence: int = -1,
        transactional_id: str | None = None,
        v: int = 12,
        acks: int = -1,
        codec: int = 0,
        ts: int | None = None,
        ts_step: int = 0,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        null_values: bool = False,
        label: str = "",
        quiet: bool = False,
        retries: bool = False,
    ) -> Any:
        if values is None:
            values = [f"v{max(sequence, 0)}.{index}".encode() for index in range(n)]
        first_ms = self.started_ms if ts is None else ts
        batch = build_batch(
            [
                (first_ms + index * ts_step, keys[index] if keys else None, None if null_values else value, headers)
                for index, value in enumerate(values)
            ],
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
            is_transactional=transactional_id is not None,
            codec=Codec(codec),
        )
        given = f" {self.producer(producer)} seq={sequence}" if producer != NOBODY else ""
        count = f" n={len(values)}" if len(values) != 1 else ""
        transactional = " txn" if transactional_id is not None else ""
        head = f"{given}{count}{transactional}{label}"
        return self.produce_bytes(
            topic, partition, bytes(batch), head, transactional_id, v=v, acks=acks, quiet=quiet, retries=retries
        )

    def produce_bytes(
        self,
        topic: str,
        partition: int,
        data: bytes,
        label: str,
        transactional_id: str | None = None,
        *,
        v: int = 12,
        acks: int = -1,
        quiet: bool = False,
        retries: bool = False,
    ) -> Any:
        request = produce_request(topic, partition, data, self.name(transactional_id), v=v, acks=acks)

        def answered() -> Any:
            found = self.call("Produce", v, **request).responses[0].partition_responses[0]
            early = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS) if retries else ()
            return None if found.error_code in (*early, ErrorCode.NOT_LEADER_OR_FOLLOWER) else found

        found = self.until(answered)
        if not quiet:
            answer = [error_name(found.error_code), f"base={found.base_offset}"]
            if v >= 5:
                answer.append(f"start={found.log_start_offset}")
            if found.log_append_time_ms != -1:
                answer.append(f"appendtime={self.time(found.log_append_time_ms)}")
            if v >= 8 and found.record_errors:
                answer.append(f"rec={','.join(str(each.batch_index) for each in found.record_errors)}")
            self.say(f"produce v{v} {topic if v < 13 else '<id>'}-{partition}{label}", *answer)
        return found

    def fetch_partition(
        self,
        topic: Any,
        partition: int,
        offset: int = 0,
        isolation_level: int = READ_UNCOMMITTED,
        *,
        v: int = 12,
        leader_epoch: int = -1,
        wait_ms: int = 0,
        connection: Connection | None = None,
    ) -> Any:
        where = {
            "partition": partition,
            "fetch_offset": offset,
            "partition_max_bytes": 1 << 20,
            **({"current_leader_epoch": leader_epoch} if v >= 9 else {}),
        }
        request = {
            "max_wait_ms": wait_ms,
            "min_bytes": 1 if wait_ms else 0,
            "max_bytes": 10 << 20,
            "isolation_level": isolation_level,
            "topics": [{"topic_id" if v >= 13 else "topic": topic, "partitions": [where]}],
        }
        reply = (connection or self._shared).call("Fetch", v, request)
        return reply.responses[0].partitions[0]

    def fetch(
        self,
        topic: Any,
        partition: int,
        offset: int,
        isolation_level: int,
        *,
        v: int = 12,
        leader_epoch: int = -1,
        label: str = "",
        shows: bool = True,
        name: str | None = None,
    ) -> None:
        found = self.fetch_partition(topic, partition, offset, isolation_level, v=v, leader_epoch=leader_epoch)
        answer = [
            error_name(found.error_code),
            f"hw={found.high_watermark}",
            f"lso={found.last_stable_offset}",
            f"start={found.log_start_offset if v >= 5 else '-'}",
        ]
        if found.error_code == 0:
            answer.append(f"aborted={self.aborted(found.aborted_transactions)}")
        self.say(f"fetch v{v} {name or topic}-{partition}@{offset} {LABELS[isolation_level]}{label}", *answer)
        if shows:
            self.say_batches(found.records)

    def aborted(self, entries: Any) -> str:
        if entries is None:
            return "null"
        return f"[{' '.join(f'{self.producer_name(each.producer_id)}@{each.first_offset}' for each in entries)}]"

    def say_batches(self, data: Any) -> None:
        for batch in batches(data or b""):
            self.say(f"   {self._batch(batch)}")

    def _batch(self, batch: RecordBatch) -> str:
        where = str(batch.base_offset)
        if batch.last_offset > batch.base_offset:
            where += f"..{batch.last_offset}"
        given = f" {self.producer((batch.producer_id, batch.producer_epoch))} seq={batch.base_sequence}"
        records = batch.records()
        if batch.is_control:
            key, value = bytes(records[0].key or b""), bytes(records[0].value or b"")
            version, kind = struct.unpack(">hh", key)
            (value_version,) = struct.unpack_from(">h", value)
            shape = f"n={batch.record_count} key={version} val={value_version}:{len(value)}"
            return f"{where}:{'COMMIT' if kind == COMMIT else 'ABORT'}{given} {shape}"
        text = f"{where}:data" + (given if batch.producer_id != -1 else "")
        text += " txn" if batch.is_transactional else ""
        text += f" codec{int(batch.codec)}" if batch.codec else ""
        return f"{text} {','.join(bytes(each.value or b'').decode() for each in records)}"

    def marks(self, topic: str, partition: int = 0) -> None:
        """High watermark and last stable offset."""
        found = self.fetch_partition(topic, partition)
        self.say(f"marks {topic}-{partition}", f"lso={found.last_stable_offset} hw={found.high_watermark}")

    def wait_until_stable(self, topic: str, partition: int, offset: int, *, start: int = 0) -> None:
        """Wait until the last stable offset has come so far; says nothing. `start`: of the log."""
        self.until(
            lambda: True if self.fetch_partition(topic, partition, start).last_stable_offset >= offset else None,
        )

    def offsets(
        self,
        topic: str,
        partition: int,
        timestamp_ms: int,
        isolation_level: int = READ_UNCOMMITTED,
        *,
        leader_epoch: int = -1,
        v: int = 7,
        label: str = "",
    ) -> None:
        where = {"partition_index": partition, "current_leader_epoch": leader_epoch, "timestamp": timestamp_ms}
        asked = [{"name": topic, "partitions": [where]}]
        reply = self.call("ListOffsets", v, replica_id=-1, isolation_level=isolation_level, topics=asked)
        found = reply.topics[0].partitions[0]
        self.say(
            f"list-offsets v{v} {topic}-{partition} ts={self.time(timestamp_ms)} {LABELS[isolation_level]}{label}",
            error_name(found.error_code),
            f"offset={found.offset}",
            f"ts={self.time(found.timestamp)}",
            f"le={found.leader_epoch}",
        )

    def delete_records(self, topic: str, before: int, *, partition: int = 0, v: int = 2) -> None:
        where = [{"partition_index": partition, "offset": before}]
        reply = self.call("DeleteRecords", v, topics=[{"name": topic, "partitions": where}], timeout_ms=5000)
        found = reply.topics[0].partitions[0]
        head = f"delete-records v{v} {topic}-{partition} before {before}"
        self.say(head, error_name(found.error_code), f"low={found.low_watermark}")

    def producers(self, topic: str, partition: int = 0, label: str = "") -> None:
        asked = [{"name": topic, "partition_indexes": [partition]}]
        found = self.call("DescribeProducers", 0, topics=asked).topics[0].partitions[0]
        rows = []
        for each in found.active_producers:
            given = self.producer((each.producer_id, each.producer_epoch))
            stamp = "set" if each.last_timestamp > 0 else each.last_timestamp
            coordinator = each.coordinator_epoch if each.coordinator_epoch < 0 else "set"
            state = f"last={each.last_sequence} ts={stamp} coord={coordinator} txn@{each.current_txn_start_offset}"
            rows.append(f"({given} {state})")
        self.say(f"producers {topic}-{partition}{label}", error_name(found.error_code), *sorted(rows))

    # -- raw bytes

    def probe(
        self,
        what: str,
        data: bytes,
        answers: tuple[str, int] | None = None,
        shows: Callable[[Any], str] = str,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Send bytes on a connection of their own and say what becomes of it."""
        connection = self.connection()
        try:
            connection.send_bytes(data)
            if answers is None:
                connection.receive_frame(timeout_s)
                self.say(what, "ANSWER")
            else:
                self.say(what, shows(connection.receive(*answers, timeout_s=timeout_s)[1]))
        except (ConnectionClosed, ConnectionError):
            self.say(what, "CLOSED")
        except NoReply:
            self.say(what, "NO-REPLY")
        finally:
            connection.close()


def produce_request(
    topic: str, partition: int, data: bytes, transactional_id: str | None = None, *, v: int = 12, acks: int = -1
) -> dict[str, Any]:
    return {
        "transactional_id": transactional_id,
        "acks": acks,
        "timeout_ms": 5000,
        "topic_data": [
            {"topic_id" if v >= 13 else "name": topic, "partition_data": [{"index": partition, "records": data}]}
        ],
    }


def _results_by_partition(topics: Any) -> list[str]:
    return sorted(
        f"{topic.name}-{each.partition_index}={error_name(each.partition_error_code)}"
        for topic in topics
        for each in topic.results_by_partition
    )
