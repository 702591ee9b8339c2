"""Promises to clients: when the first byte of an acknowledgement leaves, a power cut leaves what it acknowledges.

Every reply of the trace is judged against the durable half of the world, by what its own request asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from evidence.syscalls.logs import METADATA, Logs
from evidence.syscalls.recorder import BEGIN, END, Call
from oncelog.errors import ErrorCode
from oncelog.log.checkpoint_files import LOG_START_OFFSETS, PARTITION_METADATA, partition_metadata_from_bytes
from oncelog.types import TopicPartition
from oncelog.wire.api import ApiKey
from oncelog.wire.frame import FrameReader, RequestHeader, decode_request, decode_request_header, decode_response
from oncelog.wire.frame import response_correlation_id as correlation_id_of
from oncelog.wire.log_records.cluster_metadata import ProducerIdsRecord, RemoveTopicRecord, TopicRecord
from oncelog.wire.log_records.consumer_groups import CurrentMember
from oncelog.wire.log_records.consumer_offsets import GroupMetadata, OffsetCommit, OffsetDeleted
from oncelog.wire.log_records.transaction_state import TransactionState
from oncelog.wire.record_batch import RecordBatch, batches

NONE = ErrorCode.NONE
COMPLETED = {TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
ENDED = {TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT, *COMPLETED}
GROUPS = TopicPartition("__consumer_offsets", 0)  # the life has one partition for them
CHANGES_OF_METADATA = {
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.UPDATE_FEATURES,
}


class _Connection:
    def __init__(self) -> None:
        self.requests, self.replies = FrameReader(), FrameReader()
        self.open: dict[int, tuple[RequestHeader, Any]] = {}


class Replies:
    """Feed it every call of a connection; `problems` is what was acknowledged too early."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self._has_journal = False
        self._connections: dict[tuple[int, int], _Connection] = {}
        self.problems: list[str] = []
        self.judged: Counter[str] = Counter()
        self._rules: dict[int, Callable[[Any, Any], None]] = {
            ApiKey.PRODUCE: self._produce,
            ApiKey.FETCH: self._fetch,
            ApiKey.INIT_PRODUCER_ID: self._init_producer_id,
            ApiKey.ADD_PARTITIONS_TO_TXN: self._add_partitions,
            ApiKey.END_TXN: self._end_txn,
            ApiKey.WRITE_TXN_MARKERS: self._write_txn_markers,
            ApiKey.OFFSET_COMMIT: self._offset_commit,
            ApiKey.TXN_OFFSET_COMMIT: self._txn_offset_commit,
            ApiKey.OFFSET_DELETE: self._offset_delete,
            ApiKey.SYNC_GROUP: self._sync_group,
            ApiKey.CONSUMER_GROUP_HEARTBEAT: self._consumer_group_heartbeat,
            ApiKey.DELETE_RECORDS: self._delete_records,
        }

    def process_begins(self, *, has_journal: bool) -> None:
        """Another broker on the same directory."""
        self._has_journal = has_journal

    def take(self, call: Call) -> bool:
        """One call; whether a reply begins with it."""
        key = (call.process, call.descriptor)
        if call.name == "accept":
            self._connections[key] = _Connection()
            return False
        connection = self._connections.get(key)
        if connection is None:
            return False
        if call.name == "receive" and call.data:
            for frame in connection.requests.receive(call.data):
                header, pos = decode_request_header(frame)
                connection.open[header.correlation_id] = header, decode_request(header, frame, pos)
        elif call.name == "send" and call.phase == END:
            assert call.result >= 0, f"{call}: a client that went away is no part of this life"
        elif call.name == "send" and call.phase == BEGIN:
            for frame in connection.replies.receive(call.data):
                self._judge(call, *connection.open.pop(correlation_id_of(frame)), frame)
            return True
        return False

    def _judge(self, call: Call, header: RequestHeader, request: Any, frame: memoryview) -> None:
        _, reply = decode_response(header.api_key, header.api_version, frame)
        api = ApiKey(header.api_key)
        before = len(self.problems)
        if api in self._rules:
            self._rules[api](request, reply)
        elif api in CHANGES_OF_METADATA:
            self._metadata(api, request, reply)
        self.problems[before:] = [f"{call}: {api.name}: {problem}" for problem in self.problems[before:]]

    def _must(self, is_so: bool, rule: str, what: object) -> None:
        self.judged[rule] += 1
        if not is_so:
            self.problems.append(f"{rule}: {what}")

    # records

    def _is_durable(self, partition: TopicPartition, batch: RecordBatch) -> bool:
        return any(
            each.base_offset == batch.base_offset and bytes(each.data[17:]) == bytes(batch.data[17:])
            for each in self._logs.batches(partition, durable=True)
        )

    def _produce(self, request: Any, reply: Any) -> None:
        asked = {
            TopicPartition(topic.name, part.index): part.records
            for topic in request.topic_data
            for part in topic.partition_data
        }
        for topic in reply.responses:
            for part in topic.partition_responses:
                partition = TopicPartition(topic.name, part.index)
                if part.error_code == NONE:
                    batch = RecordBatch(bytearray(asked[partition]))
                    batch.set_offsets(part.base_offset, 0)
                    self._must(self._is_durable(partition, batch), "an acknowledged batch is durable", partition)
                    self._names_itself(partition)
                    if batch.is_transactional:
                        self._has_begun(request.transactional_id, partition)

    def _has_begun(self, transactional_id: str, partition: TopicPartition) -> None:
        """Without its record nobody would ever end the transaction there."""
        record = self._logs.transactions(durable=True).get(transactional_id)
        is_there = record is not None and (partition in record.partitions or record.state in COMPLETED)
        self._must(is_there, "what is acknowledged in a transaction has its durable beginning", (partition, record))

    def _names_itself(self, partition: TopicPartition) -> None:
        """Without its topic's id a directory could be taken for that of another topic of the name."""
        data = self._logs.world.durable_bytes(self._logs.path(str(partition), PARTITION_METADATA))
        topic_id = self._topic_id(partition.topic)
        self._must(
            bool(data) and partition_metadata_from_bytes(data or b"") == topic_id,
            "partition.metadata is durable with the first batch",
            partition,
        )

    def _topic_id(self, name: str) -> bytes | None:
        found = None
        for record in self._logs.metadata(durable=True):
            if isinstance(record, TopicRecord) and record.name == name:
                found = record.topic_id
        return found

    def _fetch(self, request: Any, reply: Any) -> None:
        for topic in reply.responses:
            for part in topic.partitions:
                partition = TopicPartition(topic.topic, part.partition_index)
                for batch in batches(part.records or b""):
                    self._must(self._is_durable(partition, batch), "what a reader sees is durable", partition)

    def _delete_records(self, request: Any, reply: Any) -> None:
        starts = self._logs.checkpoint(LOG_START_OFFSETS)
        for topic in reply.topics:
            for part in topic.partitions:
                partition = TopicPartition(topic.name, part.partition_index)
                if part.error_code == NONE:
                    self._must(
                        starts.get(partition, 0) >= part.low_watermark, "a moved log start is durable", partition
                    )

    def _write_txn_markers(self, request: Any, reply: Any) -> None:
        for marker in reply.markers:
            for topic in marker.topics:
                for part in topic.partitions:
                    partition = TopicPartition(topic.name, part.partition_index)
                    found = any(
                        each.is_control and each.producer_id == marker.producer_id
                        for each in self._logs.batches(partition, durable=True)
                    )
                    self._must(found or part.error_code != NONE, "an acknowledged marker is durable", partition)

    # transactions

    def _init_producer_id(self, request: Any, reply: Any) -> None:
        if reply.error_code != NONE:
            return
        reserved = [
            each.next_producer_id for each in self._logs.metadata(durable=True) if isinstance(each, ProducerIdsRecord)
        ]
        self._must(max(reserved, default=0) > reply.producer_id, "a block of producer ids is reserved before", reply)
        if request.transactional_id is not None:
            record = self._logs.transactions(durable=True).get(request.transactional_id)
            identity = (reply.producer_id, reply.producer_epoch)
            found = record is not None and (record.producer_id, record.producer_epoch) == identity
            self._must(found, "a transactional id's new producer is durable", (request, identity, record))

    def _add_partitions(self, request: Any, reply: Any) -> None:
        if self._has_journal:
            return  # answered when it is appended (docs/decisions/005): see `_has_begun`
        record = self._logs.transactions(durable=True).get(request.v3_and_below_transactional_id)
        for topic in reply.results_by_topic_v3_and_below:
            for part in topic.results_by_partition:
                if part.partition_error_code == NONE:
                    partition = TopicPartition(topic.name, part.partition_index)
                    found = record is not None and partition in record.partitions
                    self._must(found, "an added partition is durable", (partition, record))

    def _end_txn(self, request: Any, reply: Any) -> None:
        if reply.error_code == NONE:
            record = self._logs.transactions(durable=True).get(request.transactional_id)
            self._must(record is not None and record.state in ENDED, "an outcome is durable", (request, record))

    # groups

    def _positions(self) -> dict[tuple[str, str, int], Any]:
        return {
            (each.group_id, each.topic, each.partition): each
            for each in self._logs.group_records(durable=True)
            if isinstance(each, OffsetCommit | OffsetDeleted)
        }

    def _offset_commit(self, request: Any, reply: Any) -> None:
        self._committed(request, "a committed position is durable")

    def _txn_offset_commit(self, request: Any, reply: Any) -> None:
        if all(part.error_code == NONE for topic in reply.topics for part in topic.partitions):
            self._committed(request, "a position in a transaction is durable")
            self._has_begun(request.transactional_id, GROUPS)

    def _committed(self, request: Any, rule: str) -> None:
        found = self._positions()
        for topic in request.topics:
            for part in topic.partitions:
                record = found.get((request.group_id, topic.name, part.partition_index))
                is_there = isinstance(record, OffsetCommit) and record.offset == part.committed_offset
                self._must(is_there, rule, (topic.name, part.partition_index, record))

    def _offset_delete(self, request: Any, reply: Any) -> None:
        found = self._positions()
        for topic in reply.topics:
            for part in topic.partitions:
                record = found.get((request.group_id, topic.name, part.partition_index))
                self._must(isinstance(record, OffsetDeleted), "a deleted position is durably gone", record)

    def _sync_group(self, request: Any, reply: Any) -> None:
        if reply.error_code == NONE:
            found = [
                each.generation_id
                for each in self._logs.group_records(durable=True)
                if isinstance(each, GroupMetadata) and each.group_id == request.group_id
            ]
            is_there = max(found, default=-1) >= request.generation_id
            self._must(is_there, "a generation with its assignment is durable", request)

    def _consumer_group_heartbeat(self, request: Any, reply: Any) -> None:
        if reply.error_code == NONE and reply.member_epoch > 0:
            found = [
                each.member_epoch
                for each in self._logs.group_records(durable=True)
                if isinstance(each, CurrentMember) and each.member_id == reply.member_id
            ]
            self._must(bool(found) and found[-1] == reply.member_epoch, "a member's epoch is durable", (reply, found))

    # administration

    def _metadata(self, api: ApiKey, request: Any, reply: Any) -> None:
        seen = list(self._logs.metadata(durable=False))
        self._must(list(self._logs.metadata(durable=True)) == seen, f"{METADATA} is durable", api.name)
        if api is ApiKey.CREATE_TOPICS:
            for topic in reply.topics:
                if topic.error_code == NONE:
                    self._must(self._topic_id(topic.name) == topic.topic_id, "a new topic is durable", topic)
        if api is ApiKey.DELETE_TOPICS:
            gone = {each.topic_id for each in seen if isinstance(each, RemoveTopicRecord)}
            for partition in self._logs.partitions(durable=True):
                data = self._logs.world.durable_bytes(self._logs.path(str(partition), PARTITION_METADATA))
                if data:
                    topic_id = partition_metadata_from_bytes(data)
                    self._must(
                        topic_id not in gone, "a deleted topic's directories durably have other names", partition
                    )
