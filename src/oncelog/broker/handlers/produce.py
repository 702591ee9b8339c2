"""Produce: per partition validate, ask the rules, append, wait for the commit, answer. It holds no rule.

Partitions whose transaction the coordinator must vouch for first wait in the gate while the others are appended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from oncelog.broker.local_partition import LocalPartition
from oncelog.broker.request import NO_REPLY, CloseConnection, Reply, Request
from oncelog.core.gate_errors import ClientVersion, GuardedApi
from oncelog.core.produce_rules import check_request
from oncelog.core.topic_configs import INTERNAL_TOPICS
from oncelog.core.verdict import Append, AskCoordinator, Duplicate, Refuse
from oncelog.core.verification import Guard
from oncelog.errors import ErrorCode, StorageError
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
from oncelog.wire.produce_validation import Refused, TimestampRules, validate_produced
from oncelog.wire.record_batch import CREATE_TIME, LOG_APPEND_TIME, RecordBatch

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker

IMPLICIT_ADD_SINCE_VERSION = 12


@dataclass(slots=True, eq=False)
class _Part:
    """One partition of the request on its way; `end_offset` is set when something has to be committed."""

    response: PartitionProduceResponse
    partition: LocalPartition | None = None
    batch: RecordBatch | None = None
    end_offset: int = -1


class _Produce:
    """One Produce request."""

    def __init__(self, broker: Broker, request: Request) -> None:
        self.broker = broker
        self.request = request
        self.message: ProduceRequest = request.message
        self.now_ms = broker.host.clock.now_ms()
        self.parts: list[_Part] = []
        self.response = ProduceResponse()
        self._uncommitted = 0
        self._done: asyncio.Future[Reply] | None = None

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
        )
        part.partition = partition
        if isinstance(outcome, Refused):
            _refuse(part, outcome.error_code, outcome.message)
            part.response.record_errors = [
                BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
                for index, text in outcome.record_errors
            ]
            if outcome.found_in_log:
                part.response.log_start_offset = partition.rules.log_start_offset
        else:
            part.batch = outcome.batch
        return part

    def _partition(self, topic: TopicProduceData, index: int, part: _Part) -> LocalPartition | None:
        known = self.broker.metadata.topic(topic.name, topic.topic_id)
        if known is None:
            by_id = self.request.api_version >= 13
            code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            _refuse(part, code, "This server does not host this topic.")
            return None
        if self.message.acks not in (-1, 0, 1):
            _refuse(part, ErrorCode.INVALID_REQUIRED_ACKS, f"acks is -1, 0 or 1, not {self.message.acks}")
            return None
        if known.name in INTERNAL_TOPICS:
            _refuse(part, ErrorCode.INVALID_TOPIC_EXCEPTION, f"{known.name} is internal: only the broker writes there")
            return None
        try:
            partition = self.broker.partitions.get(TopicPartition(known.name, index))
        except StorageError as error:
            _refuse(part, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
            return None
        if partition is None:
            _refuse(part, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{known.name} has no partition {index}")
        elif partition.is_offline:
            _refuse(part, ErrorCode.KAFKA_STORAGE_ERROR, "the partition is offline")
        elif self.message.acks == -1 and partition.settings.min_insync_replicas > 1:
            _refuse(part, ErrorCode.NOT_ENOUGH_REPLICAS, "min.insync.replicas is above 1 and there is one broker")
        else:
            return partition
        return None

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
            part.response.log_start_offset = rules.log_start_offset
        elif isinstance(verdict, Duplicate):
            self.broker.metrics.add("produce_duplicates")
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
        self.broker.metrics.add("records_produced", part.batch.record_count)
        self.broker.metrics.add("bytes_produced", part.batch.size_bytes)

    async def ask(self, asked: dict[_Part, AskCoordinator]) -> asyncio.Future[Reply]:
        """Ask the gate, append what it agreed to, then wait as `commit` does."""
        client = ClientVersion(GuardedApi.PRODUCE, self.request.api_version)
        names = {part.partition.name: part for part in asked if part.partition is not None}
        refused = await self.broker.gate.ask(self.request, client, {name: asked[part] for name, part in names.items()})
        for part, question in asked.items():
            assert part.partition is not None
            refusal = refused.get(part.partition.name)
            if refusal is not None:
                _refuse(part, refusal.error_code, refusal.message)
            elif part.partition.is_offline:
                _refuse(part, ErrorCode.KAFKA_STORAGE_ERROR, "the partition is offline")
            elif self._append(part, question.guard) is not None:
                # A marker ended the transaction between the coordinator's answer and now: the guard is void.
                _refuse(part, ErrorCode.INVALID_TXN_STATE, "the transaction ended before the batch was appended")
        return self.commit()

    def commit(self) -> asyncio.Future[Reply]:
        """A future of the reply, done when everything that was appended is committed."""
        self._done = asyncio.get_running_loop().create_future()
        for part in self.parts:
            if part.end_offset >= 0 and part.partition is not None:
                self._uncommitted += 1
                part.partition.when_committed(part.end_offset, partial(self._committed, part))
        if not self._uncommitted:
            self._finish()
        return self._done

    def _committed(self, part: _Part, code: ErrorCode) -> None:
        if code is not ErrorCode.NONE:
            _refuse(part, code, "the records could not be made durable")
        self._uncommitted -= 1
        if not self._uncommitted:
            self._finish()

    def _finish(self) -> None:
        assert self._done is not None
        if self._done.done():
            return
        if self.message.acks != 0:
            self._done.set_result(self.response)
        elif any(part.response.error_code for part in self.parts):
            self._done.set_result(CloseConnection("a produce request with acks=0 failed"))
        else:
            self._done.set_result(NO_REPLY)


def handle(broker: Broker, request: Request) -> asyncio.Future[Reply] | Coroutine[Any, Any, asyncio.Future[Reply]]:
    """Append and answer once it is committed."""
    produce = _Produce(broker, request)
    asked = produce.begin()
    return produce.ask(asked) if asked else produce.commit()


def _refuse(part: _Part, error_code: ErrorCode, message: str) -> None:
    part.response.error_code = error_code
    part.response.error_message = message
    part.response.base_offset = -1
    part.response.log_append_time_ms = -1
    part.end_offset = -1
