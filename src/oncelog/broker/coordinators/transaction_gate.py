"""The gate's shell: asks transaction coordinators for partitions that `core/gate` collected.

Questions go to the coordinator's node, over the wire, or to this very broker by a plain call. The way is the gate's own
and never holds anything: a question that has to wait for the previous transaction waits here, and is asked again when
this node's coordinator says it is complete (or when its back-off ends).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

from oncelog.broker.metrics.metrics import Metrics
from oncelog.broker.network.peer import Peer, PeerLost
from oncelog.broker.requests.local_peer import LocalPeer
from oncelog.broker.requests.request import Request
from oncelog.core.leader.gate import Answer, Gate, GateConfig, Question, TransactionToAsk
from oncelog.core.leader.gate_errors import ClientVersion
from oncelog.core.leader.verdict import AskCoordinator, Refuse
from oncelog.core.placement import coordinator_partition
from oncelog.errors import ErrorCode
from oncelog.host.clock import Clock
from oncelog.types import ProducerIdAndEpoch, TopicPartition
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

Refusals = Mapping[TopicPartition, Refuse]
VouchesFor = Callable[[str, ProducerIdAndEpoch, frozenset[TopicPartition]], bool]
NO_TOKEN = 0
LANE_COUNT = 64  # of questions to this very broker: one request in flight for each, so that few wait for another's sync


class _Waiting:
    """Somebody who asked."""

    __slots__ = ("begun_at", "request", "then", "transactional_id")

    def __init__(
        self, request: Request, transactional_id: str, then: Callable[[Refusals], None], begun_at: float
    ) -> None:
        self.begun_at = begun_at
        self.request = request
        self.transactional_id = transactional_id
        self.then = then


class TransactionGate:
    """Questions of this node's partition leaders; on one node the only coordinator is behind `peer`.

    `vouches_for` answers at once where that coordinator is this very broker's and the answer is yes.
    """

    def __init__(
        self,
        peer: Peer | LocalPeer,
        node_id: int,
        clock: Clock,
        config: Callable[[], GateConfig],
        metrics: Metrics,
        vouches_for: VouchesFor | None = None,
    ) -> None:
        self._metrics = metrics
        self._time_ms = metrics.histogram("verification_ms")
        self._peer = peer
        self._node_id = node_id
        self._clock = clock
        self._config = config
        self._gate = Gate(config())
        self._next_token = 0
        self._vouches_for = vouches_for
        self._waiting: dict[int, _Waiting] = {}
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._gate)

    def begin(
        self,
        request: Request,
        client: ClientVersion,
        asked: Mapping[TopicPartition, AskCoordinator],
        then: Callable[[Refusals], None],
    ) -> int:
        """Ask for the partitions of one client request; `then` hears what is refused, in the client's words.

        Gives a token for `drop`; `then` may have been called already.
        """
        first = next(iter(asked.values()))
        if self._vouches_for is not None and not client.supports_implicit_add:
            # Only a question, and the usual answer: nothing has to be queued or held.
            identity = ProducerIdAndEpoch(first.producer_id, first.producer_epoch)
            if self._vouches_for(first.transactional_id, identity, frozenset(asked)):
                self._time_ms.observe(0.0)
                then({})
                return NO_TOKEN
        self._next_token += 1
        token = self._next_token
        question = Question(
            token, client, first.transactional_id, first.producer_id, first.producer_epoch, frozenset(asked)
        )
        self._waiting[token] = _Waiting(request, first.transactional_id, then, asyncio.get_running_loop().time())
        lane = self._lane(first.transactional_id)
        self._gate.ask(question, lane, self._clock.now_ms())
        self._due(lane)
        return token

    def drop(self, token: int) -> None:
        """Nobody waits for this any more."""
        if self._waiting.pop(token, None) is not None:
            self._gate.drop((token,))

    async def ask(
        self, request: Request, client: ClientVersion, asked: Mapping[TopicPartition, AskCoordinator]
    ) -> Refusals:
        """As `begin`."""
        answer: asyncio.Future[Refusals] = asyncio.get_running_loop().create_future()

        def then(refused: Refusals) -> None:
            if not answer.done():
                answer.set_result(refused)

        token = self.begin(request, client, asked, then)
        try:
            return await answer
        finally:
            self.drop(token)

    def completed(self, transactional_id: str) -> None:
        """This node's coordinator completed a transaction of the id: ask again what was held for it."""
        lane = self._lane(transactional_id)
        if self._gate.wake(transactional_id, lane):
            self._due(lane)

    def _lane(self, transactional_id: str) -> int:
        if isinstance(self._peer, LocalPeer):
            return coordinator_partition(transactional_id, LANE_COUNT)
        return self._node_id

    def _due(self, lane: int) -> None:
        if isinstance(self._peer, LocalPeer):
            self._ask_here(self._peer, lane)
        else:
            self._wake.set()

    async def run(self) -> None:
        """For ever: ask what is due, one request at a time for each lane."""
        while True:
            now_ms = self._clock.now_ms()
            lanes = self._gate.nodes_due(now_ms)
            for lane in lanes:
                if isinstance(self._peer, LocalPeer):
                    self._ask_here(self._peer, lane)
                else:
                    await self._ask_there(self._peer, lane)
            if lanes:
                continue
            due_ms = self._gate.next_timer()
            try:
                async with asyncio.timeout(None if due_ms is None else max(due_ms - now_ms, 1) / 1000):
                    await self._wake.wait()
                    self._wake.clear()
            except TimeoutError:
                continue

    async def _ask_there(self, peer: Peer, lane: int) -> None:
        entries = self._gate.next_request(lane, self._clock.now_ms())
        try:
            response = await peer.call(ApiKey.ADD_PARTITIONS_TO_TXN, _message(entries))
        except PeerLost:
            self._deliver(self._gate.failed(lane, ErrorCode.NETWORK_EXCEPTION))
            return
        self._answered(lane, entries, response)

    def _ask_here(self, peer: LocalPeer, lane: int) -> None:
        while entries := self._gate.next_request(lane, self._clock.now_ms()):
            peer.ask(ApiKey.ADD_PARTITIONS_TO_TXN, _message(entries), partial(self._answered, lane, entries))

    def _answered(self, lane: int, entries: tuple[TransactionToAsk, ...], response: AddPartitionsToTxnResponse) -> None:
        if response.error_code != ErrorCode.NONE:
            self._deliver(self._gate.failed(lane, ErrorCode(response.error_code)))
            return
        results = {
            result.transactional_id: {
                TopicPartition(topic.name, each.partition_index): ErrorCode(each.partition_error_code)
                for topic in result.topic_results
                for each in topic.results_by_partition
            }
            for result in response.results_by_transaction
        }
        answers = self._gate.answered(lane, results, self._clock.now_ms())
        if len(self._waiting) > len(answers):
            self._hold({entry.transactional_id for entry in entries}, {answer.token for answer in answers})
        self._deliver(answers)

    def _hold(self, asked: set[str], answered: set[int]) -> None:
        """What was asked and not answered waits for the end of its previous transaction."""
        held = [
            each for token, each in self._waiting.items() if token not in answered and each.transactional_id in asked
        ]
        for each in held:
            each.request.hold()
        if held:
            self._wake.set()  # for the timer

    def _deliver(self, answers: list[Answer]) -> None:
        for answer in answers:
            waiting = self._waiting.pop(answer.token, None)
            if waiting is not None:
                self._time_ms.observe((asyncio.get_running_loop().time() - waiting.begun_at) * 1000)
                if answer.refused:
                    self._metrics.add("verification_failures", len(answer.refused))
                waiting.then(answer.refused)


def _message(entries: tuple[TransactionToAsk, ...]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(transactions=[_entry(each) for each in entries])


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
