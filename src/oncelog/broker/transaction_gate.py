"""The gate's shell: asks transaction coordinators, over the wire, for partitions that `core/gate` collected.

The connection is the gate's own and never holds anything: a question that has to wait for the previous transaction
waits here, and is asked again when this node's coordinator says it is complete (or when its back-off ends).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from oncelog.broker.peer import Peer, PeerLost
from oncelog.broker.request import Request
from oncelog.core.gate import Answer, Gate, GateConfig, Question, TransactionToAsk
from oncelog.core.gate_errors import ClientVersion
from oncelog.core.verdict import AskCoordinator, Refuse
from oncelog.errors import ErrorCode
from oncelog.host.clock import Clock
from oncelog.types import TopicPartition
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)


class TransactionGate:
    """Questions of this node's partition leaders; on one node the only coordinator is behind `peer`."""

    def __init__(self, peer: Peer, node_id: int, clock: Clock, config: Callable[[], GateConfig]) -> None:
        self._peer = peer
        self._node_id = node_id
        self._clock = clock
        self._config = config
        self._gate = Gate(config())
        self._next_token = 0
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._requests: dict[int, Request] = {}
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._gate)

    async def ask(
        self, request: Request, client: ClientVersion, asked: Mapping[TopicPartition, AskCoordinator]
    ) -> Mapping[TopicPartition, Refuse]:
        """Ask for the partitions of one client request; what is refused, in the client's words."""
        first = next(iter(asked.values()))
        self._next_token += 1
        token = self._next_token
        question = Question(
            token, client, first.transactional_id, first.producer_id, first.producer_epoch, frozenset(asked)
        )
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[token] = answer
        self._requests[token] = request
        self._gate.ask(question, self._node_id, self._clock.now_ms())
        self._wake.set()
        try:
            return (await answer).refused
        except asyncio.CancelledError:
            self._gate.drop((token,))
            raise
        finally:
            self._waiting.pop(token, None)
            self._requests.pop(token, None)

    def completed(self, transactional_id: str) -> None:
        """This node's coordinator completed a transaction of the id: ask again what was held for it."""
        if self._gate.wake(transactional_id):
            self._wake.set()

    async def run(self) -> None:
        """For ever: ask what is due, one request at a time."""
        while True:
            now_ms = self._clock.now_ms()
            if self._gate.nodes_due(now_ms):
                await self._ask_now(self._gate.next_request(self._node_id, now_ms))
                continue
            due_ms = self._gate.next_timer()
            try:
                async with asyncio.timeout(None if due_ms is None else max(due_ms - now_ms, 1) / 1000):
                    await self._wake.wait()
                    self._wake.clear()
            except TimeoutError:
                continue

    async def _ask_now(self, entries: tuple[TransactionToAsk, ...]) -> None:
        asked_tokens = set(self._waiting)
        message = AddPartitionsToTxnRequest(transactions=[_entry(each) for each in entries])
        try:
            response: AddPartitionsToTxnResponse = await self._peer.call(ApiKey.ADD_PARTITIONS_TO_TXN, message)
        except PeerLost:
            self._deliver(self._gate.failed(self._node_id, ErrorCode.NETWORK_EXCEPTION))
            return
        if response.error_code != ErrorCode.NONE:
            self._deliver(self._gate.failed(self._node_id, ErrorCode(response.error_code)))
            return
        results = {
            result.transactional_id: {
                TopicPartition(topic.name, each.partition_index): ErrorCode(each.partition_error_code)
                for topic in result.topic_results
                for each in topic.results_by_partition
            }
            for result in response.results_by_transaction
        }
        self._deliver(self._gate.answered(self._node_id, results, self._clock.now_ms()))
        for token in asked_tokens & set(self._waiting):  # asked and not answered: its previous transaction is ending
            self._requests[token].hold()

    def _deliver(self, answers: list[Answer]) -> None:
        for answer in answers:
            waiting = self._waiting.pop(answer.token, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)


def _entry(asked: TransactionToAsk) -> AddPartitionsToTxnTransaction:
    topics: dict[str, list[int]] = {}
    for name in sorted(asked.partitions):
        topics.setdefault(name.topic, []).append(name.partition)
    return AddPartitionsToTxnTransaction(
        transactional_id=asked.transactional_id,
        producer_id=asked.producer_id,
        producer_epoch=asked.producer_epoch,
        verify_only=asked.verify_only,
        topics=[AddPartitionsToTxnTopic(name=topic, partitions=indexes) for topic, indexes in topics.items()],
    )
