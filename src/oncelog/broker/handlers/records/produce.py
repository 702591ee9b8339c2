"""Produce: per partition validate, ask the rules, append, wait for the commit, answer.

What a log takes is decided in `core/leader`; here is what a request must be: acks, topics, one batch each, an online partition.

Partitions that the transaction's coordinator must verify or add first wait in the gate while the others are appended.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from oncelog.broker.node import Node
from oncelog.broker.partitions.local_partition import LocalPartition
from oncelog.broker.requests.request import NO_REPLY, CloseConnection, Later, Request
from oncelog.core.leader.batch_checks import Refused, TimestampRules, validate_produced
from oncelog.core.leader.gate_errors import ClientVersion, GuardedApi
from oncelog.core.leader.guards import Guard
from oncelog.core.leader.produce import check_request
from oncelog.core.leader.verdict import Append, AskCoordinator, Duplicate, Refuse
from oncelog.core.metadata.topic_configs import BROKER_WRITTEN_TOPICS, INTERNAL_TOPICS
from oncelog.errors import ErrorCode, StorageError
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition
from oncelog.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from oncelog.wire.record_batch import CREATE_TIME, LOG_APPEND_TIME, RecordBatch

IMPLICIT_ADD_SINCE_VERSION = 12


@dataclass(slots=True, eq=False)
class _Part:
    """One partition of the request on its way; `end_offset` is set when something has to be committed."""

    response: PartitionProduceResponse
    partition: LocalPartition | None = None
    batch: RecordBatch | None = None
    produced_size_bytes: int = 0
    end_offset: int = -1


class _Produce:
    """One Produce request."""

    def __init__(self, node: Node, request: Request) -> None:
        self.node = node
        self.request = request
        self.message: ProduceRequest = request.message
        self.now_ms = node.clock.now_ms()
        self.parts: list[_Part] = []
        self.response = ProduceResponse()
        self.later = Later()
        self._uncommitted = 1

    def begin(self) -> dict[_Part, AskCoordinator]:
        """Validate and append what needs nobody's word; what does is returned."""
        for topic in self.message.topic_data:
            answered = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
            self.response.responses.append(answered)
            for data in topic.partition_data:
                part = self._validated(topic, data)
                self.parts.append(part)
                answered.partition_responses.append(part.response)
        batches = [part.batch for part in self.parts if part.batch is not None]
        refusal = check_request(batches, self.message.transactional_id)
        asked: dict[_Part, AskCoordinator] = {}
        for part in self.parts:
            if part.batch is None:
                continue
            if refusal is not None:
                _refuse(part, refusal.error_code, refusal.message)
            else:
                question = self._append(part, None)
                if question is not None:
                    asked[part] = question
        return asked

    def _validated(self, topic: TopicProduceData, data: PartitionProduceData) -> _Part:
        part = _Part(PartitionProduceResponse(index=data.index, base_offset=-1))
        partition = self._partition(topic, data.index, part)
        if partition is None:
            return part
        chosen = partition.settings
        outcome = validate_produced(
            data.records,
            api_version=self.request.api_version,
            size_bytes_max=chosen.max_message_size_bytes,
            compacted=chosen.is_compacted,
            now_ms=self.now_ms,
            timestamp_rules=TimestampRules(
                LOG_APPEND_TIME if chosen.is_log_append_time else CREATE_TIME,
                chosen.timestamp_before_max_ms,
                chosen.timestamp_after_max_ms,
            ),
            decompressed_bytes_max=self.node.config.oncelog_message_max_decompressed_bytes,
            compression=chosen.compression,
        )
        part.partition = partition
        if isinstance(outcome, Refused):
            _refuse(part, outcome.error_code, outcome.message)
            part.response.record_errors = [
                BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
                for index, text in outcome.record_errors
            ]
            if outcome.error_code is ErrorCode.MESSAGE_TOO_LARGE:
                is_long = len(data.records or b"") > chosen.max_message_size_bytes
                limit = "message.max.bytes" if is_long else "oncelog.message.max.decompressed.bytes"
                self.node.metrics.limit_hit(limit)
            if outcome.found_in_log:
                part.response.log_start_offset = partition.rules.log_start_offset
        elif outcome.batch.size_bytes > partition.log.config.segment_bytes:
            size_bytes, segment_bytes = outcome.batch.size_bytes, partition.log.config.segment_bytes
            told = f"the batch has {size_bytes} bytes, a segment takes {segment_bytes}"
            _refuse(part, ErrorCode.RECORD_LIST_TOO_LARGE, told)
        else:
            part.batch = outcome.batch
            part.produced_size_bytes = outcome.produced_size_bytes
        return part

    def _partition(self, topic: TopicProduceData, index: int, part: _Part) -> LocalPartition | None:
        known = self.node.metadata.topic(topic.name, topic.topic_id)
        if known is None:
            by_id = self.request.api_version >= 13
            code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            _refuse(part, code, "This server does not host this topic.")
            return None
        if self.message.acks not in (-1, 0, 1):
            _refuse(part, ErrorCode.INVALID_REQUIRED_ACKS, f"acks is -1, 0 or 1, not {self.message.acks}")
            return None
        if known.name in BROKER_WRITTEN_TOPICS and not self._may_write_own(known.name):
            _refuse(part, ErrorCode.INVALID_TOPIC_EXCEPTION, f"{known.name} is internal: only the broker writes there")
            return None
        try:
            partition = self.node.partitions.get(TopicPartition(known.name, index))
        except StorageError as error:
            _refuse(part, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
            return None
        if partition is None:
            code = self.node.partitions.led.why_not(TopicPartition(known.name, index))
            is_unknown = code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            _refuse(part, code, f"{known.name} has no partition {index}" if is_unknown else "another process leads it")
        elif partition.is_offline:
            _refuse(part, partition.why_offline, partition.why_offline_told)
        else:
            return partition
        return None

    def _may_write_own(self, name: str) -> bool:
        """The coordinators' topics are not written by requests; the others by the broker's own."""
        return name not in INTERNAL_TOPICS and self.request.connection.is_of_broker

    def _append(self, part: _Part, guard: Guard | None) -> AskCoordinator | None:
        assert part.batch is not None
        assert part.partition is not None
        rules = part.partition.rules
        verdict = rules.check_produce(
            part.batch,
            transactional_id=self.message.transactional_id,
            guard=guard,
            supports_implicit_add=self.request.api_version >= IMPLICIT_ADD_SINCE_VERSION,
            now_ms=self.now_ms,
        )
        if isinstance(verdict, AskCoordinator):
            return verdict
        if isinstance(verdict, Refuse):
            _refuse(part, verdict.error_code, verdict.message)
            if not verdict.is_before_log:
                part.response.log_start_offset = rules.log_start_offset
            if verdict.error_code is ErrorCode.POLICY_VIOLATION:
                self.node.metrics.limit_hit("oncelog.max.producer.ids.per.partition")
        elif isinstance(verdict, Duplicate):
            self.node.metrics.add("produce_duplicates")
            part.end_offset = verdict.end_offset
            part.response.base_offset = verdict.base_offset
            part.response.log_append_time_ms = verdict.timestamp
            part.response.log_start_offset = rules.log_start_offset
        else:
            assert isinstance(verdict, Append)
            self._write(part, guard)
        return None

    def _write(self, part: _Part, guard: Guard | None) -> None:
        assert part.batch is not None
        assert part.partition is not None
        try:
            part.end_offset = part.partition.append(part.batch, now_ms=self.now_ms, guard=guard)
        except StorageError as error:
            _refuse(part, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
            return
        part.response.base_offset = part.batch.base_offset
        part.response.log_start_offset = part.partition.rules.log_start_offset
        if part.partition.settings.is_log_append_time:
            part.response.log_append_time_ms = self.now_ms
        counts = self.node.metrics.topic(part.partition.name.topic)
        counts.messages_in += part.batch.record_count
        counts.bytes_in += part.produced_size_bytes

    def ask(self, asked: dict[_Part, AskCoordinator]) -> None:
        """Ask the gate, append what it agreed to, then wait as `commit` does."""
        gate = self.node.gate
        client = ClientVersion(GuardedApi.PRODUCE, self.request.api_version)
        questions = {part.partition.name: question for part, question in asked.items() if part.partition is not None}
        self.later.keeps_turn = True
        token = gate.begin(self.request, client, questions, partial(self._agreed, asked))
        if self.later.keeps_turn:
            self.later.on_drop = partial(gate.drop, token)

    def _agreed(self, asked: dict[_Part, AskCoordinator], refused: Mapping[TopicPartition, Refuse]) -> None:
        for part, question in asked.items():
            assert part.partition is not None
            refusal = refused.get(part.partition.name)
            if refusal is not None:
                _refuse(part, refusal.error_code, refusal.message)
            elif part.partition.is_offline:
                _refuse(part, part.partition.why_offline, part.partition.why_offline_told)
            elif self._append(part, question.guard) is not None:
                # A marker ended the transaction between the coordinator's answer and now: the guard is void.
                _refuse(part, ErrorCode.INVALID_TXN_STATE, "the transaction ended before the batch was appended")
        self.later.on_drop = None
        self.later.release_turn()
        self.commit()

    def commit(self) -> None:
        """Give the reply when everything that was appended is committed."""
        for part in self.parts:
            if part.end_offset >= 0 and part.partition is not None:
                self._uncommitted += 1
                part.partition.when_committed(part.end_offset, partial(self._committed, part))
        self._one_done()

    def _committed(self, part: _Part, code: ErrorCode) -> None:
        if code is not ErrorCode.NONE:
            assert part.partition is not None
            _refuse(part, code, f"the records could not be made durable: {part.partition.why_offline_told}")
        self._one_done()

    def _one_done(self) -> None:
        self._uncommitted -= 1
        if self._uncommitted:
            return
        if self.message.acks != 0:
            self.later.give(self.response)
        elif any(part.response.error_code for part in self.parts):
            self.later.give(CloseConnection("a produce request with acks=0 failed"))
        else:
            self.later.give(NO_REPLY)


def handle(node: Node, request: Request) -> Later:
    """Append and answer once it is committed."""
    produce = _Produce(node, request)
    asked = produce.begin()
    if asked:
        produce.ask(asked)
    else:
        produce.commit()
    return produce.later


def _refuse(part: _Part, error_code: ErrorCode, message: str) -> None:
    part.response.error_code = error_code
    part.response.error_message = message
    part.response.base_offset = -1
    part.response.log_append_time_ms = -1
    part.end_offset = -1
