"""The gate's shell: asks transaction coordinators for partitions that `core/leader/gate.py` collected.

Questions go to the coordinator's node, over the wire, or to this very broker by a plain call. The way is the gate's own
and never holds anything: a question that has to wait for the previous transaction waits here, and is asked again when
this node's coordinator says it is complete (or when its back-off ends).

A *lane* is a queue with one request in flight (docs/glossary.md). Whoever arrives asks; whoever finds a request in
flight leaves; and whoever ends one (an answer, a refusal, a lost connection) asks for what came meanwhile. What is due
is never left to a timer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping

from oncelog.broker.metrics.metrics import Metrics
from oncelog.broker.network.peer import Peer, PeerLost
from oncelog.broker.requests.local_peer import LocalPeer
from oncelog.broker.requests.request import Request
from oncelog.core.leader.gate import Answer, Gate, GateConfig, Question, TransactionToAsk
from oncelog.core.leader.gate_errors import ClientVersion
from oncelog.core.leader.verdict import AskCoordinator, Refuse
from oncelog.core.placement import coordinator_partition
from oncelog.errors import ErrorCode
from oncelog.types import ProducerIdAndEpoch, TopicPartition
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

Refusals = Mapping[TopicPartition, Refuse]
IsVerified = Callable[[str, ProducerIdAndEpoch, frozenset[TopicPartition]], bool]
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

    `is_verified` answers at once where that coordinator is this very broker's and the answer is yes.
    """

    def __init__(
        self,
        peer: Peer | LocalPeer,
        node_id: int,
        config: Callable[[], GateConfig],
        metrics: Metrics,
        is_verified: IsVerified | None = None,
    ) -> None:
        self._metrics = metrics
        self._time_ms = metrics.histogram("verification_ms")
        self._peer = peer
        self._node_id = node_id
        self._config = config
        self._gate = Gate(config())
        self._next_token = 0
        self._is_verified = is_verified
        self._waiting: dict[int, _Waiting] = {}
        self._wake = asyncio.Event()
        self._lanes_due: dict[int, None] = {}  # where something may be due, in the order of their turns
        self._is_asking = False

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
        if self._is_verified is not None and not client.supports_implicit_add:
            # Only a question, and the usual answer: nothing has to be queued or held.
            identity = ProducerIdAndEpoch(first.producer_id, first.producer_epoch)
            if self._is_verified(first.transactional_id, identity, frozenset(asked)):
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
        self._gate.ask(question, lane, _now_ms())
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
        return _lane_here(transactional_id) if isinstance(self._peer, LocalPeer) else self._node_id

    def _due(self, lane: int) -> None:
        """Something may be due in this lane: somebody asked, a request of it ended, a transaction is complete."""
        if isinstance(self._peer, LocalPeer):
            self._lanes_due[lane] = None
            self._ask_here(self._peer)
        else:
            self._wake.set()

    async def run(self) -> None:
        """For ever: ask what is due, one request at a time for each lane."""
        while True:
            now_ms = _now_ms()
            lanes = self._gate.queues_due(now_ms)
            for lane in lanes:
                if isinstance(self._peer, LocalPeer):
                    self._due(lane)
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
        entries = self._gate.next_request(lane, _now_ms())
        try:
            response = await peer.call(ApiKey.ADD_PARTITIONS_TO_TXN, _message(entries))
        except PeerLost:
            self._failed(lane, ErrorCode.NETWORK_EXCEPTION)
            return
        self._answered(lane, entries, response)

    def _ask_here(self, peer: LocalPeer) -> None:
        """Ask for all lanes that may have something due, in turns, until each has nothing or a request in flight.

        An answer may come before `peer.ask` returns, and begin further questions; both only add a lane to what this
        goes through, so that neither takes stack.
        """
        if self._is_asking:
            return
        self._is_asking = True
        try:
            while self._lanes_due:
                lane = next(iter(self._lanes_due))
                del self._lanes_due[lane]
                entries = self._gate.next_request(lane, _now_ms())
                if entries:
                    self._ask_one_here(peer, lane, entries)
        finally:
            self._is_asking = False
            if self._lanes_due:  # an error goes its way; the other lanes have done nothing
                asyncio.get_running_loop().call_soon(self._ask_here, peer)

    def _ask_one_here(self, peer: LocalPeer, lane: int, entries: tuple[TransactionToAsk, ...]) -> None:
        is_answered = False

        def then(response: AddPartitionsToTxnResponse) -> None:
            nonlocal is_answered
            is_answered = True
            self._answered(lane, entries, response)

        def failed(error: BaseException | None) -> None:
            if error is not None:  # which has been reported; else the broker ends, and asks nothing more
                self._failed(lane, ErrorCode.UNKNOWN_SERVER_ERROR)

        try:
            peer.ask(ApiKey.ADD_PARTITIONS_TO_TXN, _message(entries), then, failed)
        except BaseException:
            if not is_answered:
                self._failed(lane, ErrorCode.UNKNOWN_SERVER_ERROR)
            raise

    def _failed(self, lane: int, error_code: ErrorCode) -> None:
        self._ended(lane, self._gate.failed(lane, error_code))

    def _answered(self, lane: int, entries: tuple[TransactionToAsk, ...], response: AddPartitionsToTxnResponse) -> None:
        if response.error_code != ErrorCode.NONE:
            self._failed(lane, ErrorCode(response.error_code))
            return
        results = {
            result.transactional_id: {
                TopicPartition(topic.name, each.partition_index): ErrorCode(each.partition_error_code)
                for topic in result.topic_results
                for each in topic.results_by_partition
            }
            for result in response.results_by_transaction
        }
        answers = self._gate.answered(lane, results, _now_ms())
        asked = {token for entry in entries for token in entry.tokens}
        self._hold(asked.difference(answer.token for answer in answers))
        self._ended(lane, answers)

    def _hold(self, tokens: set[int]) -> None:
        """What was asked and not answered waits for the end of its previous transaction."""
        for token in sorted(tokens):
            waiting = self._waiting.get(token)
            if waiting is not None:
                waiting.request.hold(waiting.transactional_id)

    def _ended(self, lane: int, answers: list[Answer]) -> None:
        """A lane's request is over: tell who asked, then ask what came meanwhile."""
        try:
            self._deliver(deque(answers))
        finally:
            if self._gate.has_waiting(lane):
                self._wake.set()  # for the timer, which has passed over a lane in flight
                self._due(lane)

    def _deliver(self, answers: deque[Answer]) -> None:
        try:
            while answers:
                answer = answers.popleft()
                waiting = self._waiting.pop(answer.token, None)
                if waiting is not None:
                    self._time_ms.observe((asyncio.get_running_loop().time() - waiting.begun_at) * 1000)
                    if answer.refused:
                        self._metrics.add("verification_failures", len(answer.refused))
                    waiting.then(answer.refused)
        finally:
            if answers:  # an error of one goes its way; the others have done nothing
                asyncio.get_running_loop().call_soon(self._deliver, answers)


def _now_ms() -> int:
    # The loop's clock, not the wall's: what waits must not wait longer where that is set back.
    return int(asyncio.get_running_loop().time() * 1000)


def _lane_here(transactional_id: str) -> int:
    return coordinator_partition(transactional_id, LANE_COUNT)


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
