"""The producer's engine: one task that sends what is due, and one per request that waits for its answer.

It decides nothing: which batch may leave is the accumulator's, the sequences' and the transaction manager's business.
Requests to one broker leave in the order in which the batches were numbered.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from oncelog.client.cluster.cluster import VERSION_MAX, Cluster
from oncelog.client.cluster.connection import Connection
from oncelog.client.config import ProducerConfig
from oncelog.client.metrics import SendCounts
from oncelog.client.producer.conditions import takes_condition, why_not_yet
from oncelog.core.producer.accumulator import Place, RecordAccumulator
from oncelog.core.producer.batch import NOT_STORED, Acknowledged, ProducerBatch
from oncelog.core.producer.in_flight import RequestsInFlight
from oncelog.core.producer.produce_responses import MOVED, BatchVerdict, verdict_on_batch
from oncelog.core.producer.requests import TxnRequest
from oncelog.core.producer.responses import on_response, on_unsupported_version
from oncelog.core.producer.splitting import TOO_LARGE, ranges_after
from oncelog.core.producer.states import TransactionState
from oncelog.core.producer.transaction_manager import TransactionManager, again
from oncelog.core.producer.unheard import UnheardFailures
from oncelog.core.producer.verdicts import TxnApi
from oncelog.errors import (
    AuthenticationFailed,
    ErrorCode,
    KafkaError,
    PurgedInFlight,
    PurgedInQueue,
    RequestTimedOut,
    TransactionAbortable,
    UnknownServer,
    UnsupportedVersion,
    error_for,
)
from oncelog.types import Node, TopicPartition
from oncelog.wire.messages.end_txn import EndTxnResponse
from oncelog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from oncelog.wire.record_batch import build_batch_of_section
from oncelog.wire.schema import ZERO_UUID

log = logging.getLogger("oncelog.client")

UNWRITABLE = (TypeError, ValueError, OverflowError, ArithmeticError, RuntimeError, MemoryError)
"""What writing a batch may raise: checked arguments leave the codecs' own errors, and those of their memory."""


class Sender:
    """Moves batches and transaction requests of one producer."""

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        manager: TransactionManager,
        accumulator: RecordAccumulator,
    ) -> None:
        self._cluster, self._config = cluster, config
        self._manager, self._accumulator = manager, accumulator
        self._in_flight = RequestsInFlight(
            per_connection_max=config.max_in_flight_requests_per_connection, is_idempotent=config.is_idempotent
        )
        self._woken = asyncio.Event()
        self._leader_is_unknown = False
        self._gathering: list[Connection] = []  # for the commit behind the records
        self.counts = SendCounts()
        self.unheard = UnheardFailures(log.error)
        self._unanswered: dict[ProducerBatch, Connection] = {}  # on their way, also what was purged meanwhile

    # -- for the producer

    def wake(self) -> None:
        """Something may be due now."""
        self._woken.set()

    async def room_for(self, size_bytes: int) -> None:
        """Wait until the buffer has room (back pressure), behind those who wait already."""
        may_look = asyncio.Event()
        place = Place(size_bytes, may_look.set)
        self._accumulator.wait_for_room(place)
        try:
            while not self._accumulator.is_turn_of(place):
                may_look.clear()
                self.wake()
                await may_look.wait()
        finally:
            self._accumulator.leave(place)

    def purge(self, *, in_queue: bool, in_flight: bool) -> int:
        """Give up what waits, what is on its way, or both; how many records that were.

        Sequences stay what they are: as what was on its way may be stored, the producer goes on under another epoch.
        """
        record_count = 0
        if self._manager.conditional.is_undecided:
            return record_count  # the commit is on its way behind them: they are in the transaction, or sent again
        for batch in self._accumulator.take_purged(in_queue=in_queue, in_flight=in_flight):
            record_count += batch.record_count
            batch.is_told = batch.source is None  # the caller is told by what this gives
            if batch.attempt_count:
                text = f"{batch.record_count} records for {batch.topic_partition} were purged while on their way"
                self._fail(batch, PurgedInFlight(text))
            else:
                text = f"{batch.record_count} records for {batch.topic_partition} were purged before they were sent"
                self._fail(batch, PurgedInQueue(text))
        return record_count

    @property
    def requests_in_flight_count(self) -> int:
        """Produce requests on their way."""
        return len(self._in_flight)

    def end_all(self, error: KafkaError) -> None:
        """The producer is over: whatever has not ended ends with `error`."""
        for batch in self._accumulator.incomplete():
            self._note_end(batch, error)
        self._accumulator.fail_all(error)
        self._manager.fatal_error(error)
        self._accumulator.room_may_be_there()

    # -- the loop

    async def run(self) -> None:
        """Send what is due, for ever."""
        while True:
            self._woken.clear()
            now_ms = self._cluster.now_ms()
            self._step(now_ms)
            pause_ms = self._pause_ms(now_ms)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if pause_ms is None else pause_ms / 1000):
                    await self._woken.wait()

    def _pause_ms(self, now_ms: float) -> float | None:
        timers = [self._accumulator.next_timer(now_ms), self._manager.next_timer()]
        if self._leader_is_unknown:
            timers.append(now_ms + self._config.retry_backoff_ms)
        timers += map(self._accumulator.deadline_ms, self._manager.conditional.put_off())
        due = [timer for timer in timers if timer is not None and timer > now_ms]
        return max(min(due) - now_ms, 1) if due else None

    def _step(self, now_ms: float) -> None:
        manager, accumulator = self._manager, self._accumulator
        versions = self._cluster.versions
        manager.note_features(versions.features_epoch, versions.finalized_features.get("transaction.version", 0))
        for counts_now in manager.conditional.take_released():
            counts_now()
        if manager.drops_waiting_batches:
            self._drop_waiting()
        for batch in accumulator.expired(now_ms):
            self._expire(batch)
        for batch in manager.conditional.put_off():
            if accumulator.deadline_ms(batch) <= now_ms:
                self._expire(batch)
        if self._config.is_idempotent and accumulator.has_incomplete:
            manager.ensure_producer_id()
        try:
            self._send_what_is_due(now_ms)
        finally:
            gathering, self._gathering = self._gathering, []
            for connection in gathering:
                connection.send_gathered()

    def _send_what_is_due(self, now_ms: float) -> None:
        manager, accumulator = self._manager, self._accumulator
        self._send_batches(now_ms)
        # EndTxn must not overtake a batch on its way (TV1: it would belong to the next transaction), purged or not.
        is_busy = accumulator.has_incomplete or (manager.is_transactional and bool(self._unanswered))
        request = manager.next_request(now_ms, has_incomplete=is_busy)
        if request is not None:
            self._cluster.tasks.start(self._send_txn_request(request), name="oncelog-txn")
        elif is_busy and manager.is_completing:
            self._commit_behind(now_ms)

    def _drop_waiting(self) -> None:
        error = self._manager.last_error
        for batch in self._accumulator.take_all_waiting():
            self._manager.batch_dropped(batch)
            self._end(batch, again(error) if error else TransactionAbortable("the transaction was aborted"))

    def _expire(self, batch: ProducerBatch) -> None:
        text = f"{batch.record_count} records for {batch.topic_partition} were not acknowledged within "
        text += f"delivery_timeout_ms={self._config.delivery_timeout_ms}"
        error = RequestTimedOut(text + (f"; last error: {batch.last_error}" if batch.last_error else ""))
        error.__cause__ = batch.last_error
        if self._manager.conditional.puts_off(batch, partial(self._manager.batch_failed, batch, error)):
            self._end(batch, error)  # the transaction goes on: it may be committed by now, with this batch
        else:
            self._fail(batch, error)

    def _fail(self, batch: ProducerBatch, error: KafkaError) -> None:
        if self._manager.conditional.puts_off(batch, partial(self._fail, batch, error)):
            return
        if self._config.is_idempotent:
            self._manager.batch_failed(batch, error)
            if not self._manager.is_transactional:
                self._renumber_waiting(batch.topic_partition)
        self._end(batch, error)

    def _renumber_waiting(self, topic_partition: TopicPartition) -> None:
        """A batch failed: what was refused because it follows that one goes on in the next epoch."""
        renumbered = list(filter(self._manager.sequences.renumber, self._accumulator.waiting(topic_partition)))
        if renumbered:
            self._accumulator.put_in_order(topic_partition)

    def _end(self, batch: ProducerBatch, outcome: Acknowledged | KafkaError) -> None:
        self._manager.sequences.resolved(batch, is_acknowledged=isinstance(outcome, Acknowledged))
        self._accumulator.completed(batch)
        self._note_end(batch, outcome)
        batch.end(outcome)
        self._accumulator.room_may_be_there()
        self.wake()

    def _note_end(self, batch: ProducerBatch, outcome: Acknowledged | KafkaError) -> None:
        self.counts.ended(batch, outcome)
        if batch.outcome is not None or not isinstance(outcome, KafkaError) or self._manager.is_transactional:
            return  # the end of a transaction tells
        batch.look_who_waits()
        if batch.unheard_count:
            self.unheard.add(batch, outcome)

    # -- Produce

    def _send_batches(self, now_ms: float) -> None:
        self._leader_is_unknown = False
        by_node: dict[int, list[ProducerBatch]] = {}
        sizes: dict[int, int] = {}
        for batch in self._accumulator.ready(now_ms, may_send=self._may_send):
            leader = self._cluster.view.leader_of(batch.topic_partition)
            if leader is None or leader.leader_id not in self._cluster.view.nodes:
                self._leader_is_unknown = True
                self._cluster.refresh_soon((batch.topic_partition.topic,))
                continue
            node_id = leader.leader_id
            size = sizes.get(node_id, 0) + batch.size_bytes
            if self._in_flight.may_send_to(node_id) and (node_id not in sizes or size <= self._config.max_request_size):
                by_node.setdefault(node_id, []).append(batch)
                sizes[node_id] = size
        for node_id, batches in by_node.items():
            node = self._cluster.view.nodes[node_id]
            refusal = self._cluster.take_refusal(node)
            if refusal is not None:  # no retry mends it, and who sends is not left to wait for the delivery timeout
                for batch in batches:
                    self._accumulator.take(batch)
                    self._fail(batch, again(refusal))
                continue
            connection = self._cluster.open_connection(node, self.wake)
            if connection is not None:
                self._produce(node_id, connection, batches)
                self.wake()  # a partition may have more than one batch to send

    def _may_send(self, batch: ProducerBatch) -> bool:
        if self._in_flight.is_muted(batch.topic_partition):
            return False
        return not self._config.is_idempotent or self._manager.may_send(batch)

    def _produce(self, node_id: int, connection: Connection, batches: list[ProducerBatch]) -> None:
        batches = [batch for batch in batches if self._is_made_ready(batch)]
        if not batches:
            return
        if self._manager.is_completing:
            connection.gather()
            self._gathering.append(connection)
        ids = self._cluster.view.topic_ids({batch.topic_partition.topic for batch in batches})
        request, version_max = self._produce_request(batches, ids)
        self._in_flight.sent(node_id, batches)
        self._unanswered.update(dict.fromkeys(batches, connection))
        deadline_ms = min(self._accumulator.deadline_ms(batch) for batch in batches)
        timeout_ms = max(min(self._config.request_timeout_ms, int(deadline_ms - self._cluster.now_ms())), 1)
        answer: asyncio.Future[Any] | None = None
        error: KafkaError | None = None
        try:
            if request.acks == 0:
                answer = connection.send_only(request, version_max=version_max, timeout_ms=timeout_ms)
            else:
                answer, _ = connection.start_request(request, version_max=version_max, timeout_ms=timeout_ms)
        except KafkaError as failed:
            error = failed
        names = {topic_id: name for name, topic_id in ids.items()} if ids else {}
        self._cluster.tasks.start(self._answer(node_id, batches, answer, error, names), name="oncelog-produce")

    def _is_made_ready(self, batch: ProducerBatch) -> bool:
        """Take the batch, give it its sequence and bytes. One that cannot be written fails alone, as if never numbered."""
        self._accumulator.take(batch)
        if self._config.is_idempotent:
            self._manager.sequences.assign(batch)
        if batch.encoded is None:
            try:
                batch.encoded = self._encode(batch)
            except UNWRITABLE as error:
                if self._config.is_idempotent:
                    self._manager.sequences.take_back(batch)
                refused = UnknownServer(
                    f"{batch.record_count} records for {batch.topic_partition} cannot be written: {error!r}"
                )
                refused.__cause__ = error
                self._fail(batch, refused)
                return False
        batch.attempt_count += 1
        return True

    def _encode(self, batch: ProducerBatch) -> bytearray | bytes:
        is_transactional = self._manager.is_transactional
        producer_id, producer_epoch = batch.identity
        if batch.source is not None:
            return batch.source.encode(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=batch.sequence,
                is_transactional=is_transactional,
            )
        compression = self._config.compression
        return build_batch_of_section(
            batch.section(),
            record_count=batch.record_count,
            base_timestamp=batch.base_timestamp_ms,
            max_timestamp=batch.max_timestamp_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=batch.sequence,
            is_transactional=is_transactional,
            codec=compression.codec,
            compression_level=compression.level,
        )

    def _produce_request(
        self, batches: list[ProducerBatch], ids: dict[str, bytes] | None
    ) -> tuple[ProduceRequest, int]:
        topics: dict[str, list[PartitionProduceData]] = {}
        for batch in batches:
            topic, partition = batch.topic_partition
            topics.setdefault(topic, []).append(PartitionProduceData(index=partition, records=batch.encoded))
        request = ProduceRequest(
            transactional_id=self._config.transactional_id,
            acks=self._config.acks_number,
            timeout_ms=self._config.request_timeout_ms,
            topic_data=[
                TopicProduceData(name=name, topic_id=ids[name] if ids else ZERO_UUID, partition_data=data)
                for name, data in topics.items()
            ],
        )
        version_max = min(VERSION_MAX if ids else 12, self._manager.produce_version_max)
        return request, version_max

    async def _answer(
        self,
        node_id: int,
        batches: list[ProducerBatch],
        answer: asyncio.Future[Any] | None,
        error: KafkaError | None,
        names: dict[bytes, str],
    ) -> None:
        response: ProduceResponse | None = None
        try:
            if answer is not None:
                response = await answer
        except KafkaError as failed:
            error = failed
        self._in_flight.answered(node_id, batches)
        for batch in batches:
            del self._unanswered[batch]
        batches = [batch for batch in batches if batch.outcome is None]  # the others were purged
        if response is not None:  # acks=0 has none
            self._on_response(batches, response, names)
        else:
            for batch in batches:
                batch.may_be_stored |= answer is not None  # else it never left
                self._on_no_answer(batch, error)
        self.wake()

    def _on_no_answer(self, batch: ProducerBatch, error: KafkaError | None) -> None:
        if batch.outcome is not None:
            return  # while its answer was put off
        if error is None:
            self._end(batch, Acknowledged(-1))  # acks=0
        elif self._manager.conditional.puts_off(batch, partial(self._on_no_answer, batch, error)):
            batch.last_error = error
        elif error.retriable:
            self._cluster.refresh_soon()
            self._retry(batch, error)
        else:
            self._fail(batch, error)

    def _on_response(self, batches: list[ProducerBatch], response: ProduceResponse, names: dict[bytes, str]) -> None:
        results: dict[TopicPartition, PartitionProduceResponse] = {}
        for topic in response.responses:
            name = topic.name or names.get(bytes(topic.topic_id), "")
            for result in topic.partition_responses:
                results[TopicPartition(name, result.index)] = result
        for batch in batches:
            found = results.get(batch.topic_partition)
            if found is None:
                batch.may_be_stored = True
                self._on_no_answer(
                    batch, error_for(ErrorCode.UNKNOWN_TOPIC_ID, f"no answer for {batch.topic_partition}")
                )
            else:
                self._on_result(batch, found)

    def _on_result(self, batch: ProducerBatch, result: PartitionProduceResponse) -> None:
        if batch.outcome is not None:
            return  # while its answer was put off
        verdict = verdict_on_batch(batch, result.error_code, result.log_start_offset)
        if verdict is BatchVerdict.DONE:
            self._end(batch, Acknowledged(result.base_offset, result.log_append_time_ms, result.log_start_offset))
            return
        if verdict is BatchVerdict.DONE_BEFORE:
            self._end(batch, Acknowledged(-1))
            return
        if self._manager.conditional.puts_off(batch, partial(self._on_result, batch, result)):
            return
        batch.may_be_stored |= result.error_code not in NOT_STORED
        named = {each.batch_index: each.batch_index_error_message or "" for each in result.record_errors}
        ranges = ranges_after(batch, result.error_code, named)
        if ranges:
            self._split(batch, ranges, result.error_code, named)
            return
        name = batch.topic_partition.topic
        if result.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            name = self._config.transactional_id or ""
        error = self._cluster.refusal(result.error_code, _refusal(batch, result, named), name)
        if verdict is BatchVerdict.RETRY:
            moved = result.error_code in MOVED
            if moved:
                leader = result.current_leader
                self._cluster.view.set_leader(batch.topic_partition, leader.leader_id, leader.leader_epoch)
                self._cluster.refresh_soon()
            self._retry(batch, error)
        else:
            self._fail(batch, error)

    def _split(self, batch: ProducerBatch, ranges: list[range], error_code: int, named: dict[int, str]) -> None:
        """The broker takes it in parts only (KIP-126), or all but the records that it names (KIP-467)."""
        log.debug("%s is sent again in %d parts", batch, len(ranges))
        parts = batch.split(ranges)
        self._accumulator.was_split(batch, parts)
        self._manager.sequences.was_split(batch, parts)
        refused = {} if error_code in TOO_LARGE else named
        for part, each in zip(parts, ranges, strict=True):
            if each.start not in refused:
                self._accumulator.requeue(part, not_before_ms=self._cluster.now_ms())
        if batch.is_behind_gap and not self._manager.is_transactional:
            self._renumber_waiting(batch.topic_partition)
        for part, each in zip(parts, ranges, strict=True):
            if each.start in refused:
                text = f"a record for {part.topic_partition} was refused: {refused[each.start]}"
                self._fail(part, error_for(error_code, text))

    def _retry(self, batch: ProducerBatch, error: KafkaError) -> None:
        now_ms = self._cluster.now_ms()
        follows_another = error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER  # which was refused: not its own retry
        is_over = batch.attempt_count > self._config.retries and not follows_another
        is_behind_gap = batch.is_behind_gap and not self._manager.is_transactional
        is_lost = is_behind_gap and not self._manager.sequences.renumber(batch) and follows_another
        if is_over or is_lost or self._accumulator.deadline_ms(batch) <= now_ms:
            self._fail(batch, error)
            return
        first_ms, max_ms = self._config.retry_backoff_ms, self._config.retry_backoff_max_ms
        if error.code == ErrorCode.CONCURRENT_TRANSACTIONS:
            first_ms = min(first_ms, 20)  # markers of the previous transaction are on their way (KAFKA-18662)
        pause_ms = min(first_ms * 2 ** min(batch.attempt_count - 1, 10), max_ms)
        if follows_another:
            pause_ms = 0  # it waits for the batch before it anyway
        log.debug("retrying %s in %d ms: %s", batch, pause_ms, error)
        batch.last_error = error
        self.counts.retry_count += 1
        self._accumulator.requeue(batch, not_before_ms=now_ms + pause_ms)

    # -- requests of the transaction manager

    def _commit_behind(self, now_ms: float) -> None:
        """Send the commit behind the records that it needs, where all are on their way by the connection that it takes."""
        batches = tuple(self._accumulator.incomplete())
        connections = set(self._unanswered.values())
        if len(connections) != 1 or self._unanswered.keys() != set(batches):  # some wait, or were purged
            return
        node, connection = self._manager.coordinator, connections.pop()
        if (
            node is None
            or self._cluster.ready_connection(node, "") is not connection
            or not takes_condition(connection)
        ):
            return
        request = self._manager.commit_behind(batches, now_ms)
        if request is None:
            return
        answer: asyncio.Future[Any] | None = None
        with contextlib.suppress(KafkaError):  # the connection has ended: it is sent again by another
            answer, _ = connection.start_request(
                request.message,
                version_min=request.version_min,
                version_max=request.version_max,
                timeout_ms=self._config.request_timeout_ms,
            )
        self._cluster.tasks.start(self._send_txn_request(request, answer), name="oncelog-txn")

    async def _answer_to(self, request: TxnRequest) -> Any:
        if request.node is None:  # what any broker can answer: who the coordinator is, a producer id
            return await self._cluster.ask_anybody(request.message, version_min=request.version_min)
        if self._manager.conditional.is_undecided and request.api is TxnApi.END_TXN:
            return await self._again_behind(request, request.node)
        return await self._cluster.request(
            request.node, request.message, version_min=request.version_min, version_max=request.version_max
        )

    async def _again_behind(self, request: TxnRequest, node: Node) -> Any:
        """The answer to a conditional commit whose first one was lost. A broker that does not look at the condition, an older one
        in the place of the one before, must not get it before the transaction has ended; afterwards it commits nothing more."""
        connection = await self._cluster.connection(node)
        if not takes_condition(connection):
            code = await why_not_yet(connection, self._manager, timeout_ms=self._config.request_timeout_ms)
            if code:
                return EndTxnResponse(error_code=code)
        answer, _ = await connection.request(
            request.message,
            version_min=request.version_min,
            version_max=request.version_max,
            timeout_ms=self._config.request_timeout_ms,
        )
        return answer

    async def _send_txn_request(self, request: TxnRequest, answer: asyncio.Future[Any] | None = None) -> None:
        """Send it, or wait for the answer where it was sent."""
        manager = self._manager
        try:
            response = await (self._answer_to(request) if answer is None else answer)
        except UnsupportedVersion as error:
            on_unsupported_version(manager, request, error)
        except AuthenticationFailed as error:
            self._on_refusal(request, error)
        except KafkaError as error:
            log.debug("%s: %s", request.api.name, error)
            request.last_error = error
            manager.disconnected(request, self._cluster.now_ms())
        else:
            on_response(manager, request, response, self._cluster.now_ms())
        for batch in manager.conditional.take_stored():
            self._accumulator.leaves_queue(batch)
            self._end(batch, Acknowledged(-1))  # its own answer was lost
        if manager.state is TransactionState.FATAL_ERROR and manager.last_error is not None:
            self._drop_waiting()
        self.wake()

    def _on_refusal(self, request: TxnRequest, error: AuthenticationFailed) -> None:
        """As in Kafka's TransactionManager.authenticationFailed, except that a producer without transactions lives on."""
        if self._manager.is_transactional:
            self._manager.fatal_error(error)
            return
        self._manager.disconnected(request, self._cluster.now_ms())
        for batch in self._accumulator.take_all_waiting():
            self._fail(batch, again(error))


def _refusal(batch: ProducerBatch, result: PartitionProduceResponse, named: dict[int, str]) -> str:
    """Why a batch was refused, for the text of its error."""
    if result.error_code in TOO_LARGE:
        size = batch.size_bytes
        said = f": {result.error_message}" if result.error_message else ""  # Apache Kafka says nothing
        limit = "max.message.bytes" if result.error_code == ErrorCode.MESSAGE_TOO_LARGE else "segment.bytes"
        return f"a record of about {size} bytes is larger than {batch.topic_partition} takes ({limit}){said}"
    said = result.error_message or f"{batch.record_count} records for {batch.topic_partition} were refused"
    return "; ".join([said] + [f"record {index}: {text}" for index, text in named.items()])


async def all_ended(batches: Sequence[ProducerBatch]) -> None:
    """Wait until each of the batches (some, at least one) has ended."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    left = len(batches)

    def one_ended(_: ProducerBatch) -> None:
        nonlocal left
        left -= 1
        if not left and not ended.done():
            ended.set_result(None)

    for batch in batches:
        batch.on_done.append(one_ended)
    await ended
