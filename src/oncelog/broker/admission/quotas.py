"""Requests under client quotas: over its bound a client is told for how long, and not read for that long.

A Fetch reply that would be over the bound goes out empty, as Kafka's does, and nothing is read that would be over it for
certain; who was refused for long gets its turn (`core/metadata/quota_turns.py`). A Produce has been appended, and only its
connection waits. Sizes are those of whole requests and replies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol

from oncelog.broker.admission.handling_time import HandlingTime
from oncelog.broker.admission.mutation_quota import MUTATIONS, MutationQuota
from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.metrics.metrics import Metrics
from oncelog.broker.requests.completion import finished
from oncelog.broker.requests.request import CloseConnection, Later, NoReply, Outcome, Reply, Request
from oncelog.core.metadata.cluster import REQUEST_PERCENTAGE, ClusterMetadata
from oncelog.core.metadata.quota_rates import Bound, QuotaRates, bound_for, bytes_at_once_max, connection_bound
from oncelog.core.metadata.quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
)
from oncelog.errors import ErrorCode
from oncelog.host.clock import Clock
from oncelog.wire.api import ApiKey
from oncelog.wire.frame import encode_request, encode_response
from oncelog.wire.messages.fetch import SESSIONS_SINCE_VERSION, FetchResponse
from oncelog.wire.messages.produce import ProduceResponse

_KEYS = (
    {ApiKey.PRODUCE: PRODUCER_BYTE_RATE}
    | dict.fromkeys((ApiKey.FETCH, ApiKey.SHARE_FETCH), CONSUMER_BYTE_RATE)
    | dict.fromkeys(MUTATIONS, CONTROLLER_MUTATION_RATE)
)
THROTTLE_MS_MAX = 1_000  # of handling times and connections: one window, as in Kafka
_BETWEEN_BROKERS = frozenset((ApiKey.WRITE_TXN_MARKERS,))


class Sessions(Protocol):
    """The sessions of fetches."""

    def reply_held_back(self, session_id: int, session_epoch: int) -> int:
        """The reply of a fetch with this epoch goes out empty: which id it has."""
        ...


class Quotas:
    """What clients have used of their quotas."""

    def __init__(
        self,
        metadata: ClusterMetadata,
        config: Callable[[], BrokerConfig],
        metrics: Metrics,
        clock: Clock,
        sessions: Sessions,
    ) -> None:
        self._sessions = sessions
        self._metadata = metadata
        self._config = config
        self._clock = clock
        self._rates = QuotaRates(
            clients_max=lambda: config().oncelog_max_clients_under_quota,
            on_forgotten=lambda: metrics.limit_hit("oncelog.max.clients.under.quota"),
        )

    def handle(self, request: Request, answer: Callable[[Request], Outcome]) -> Outcome:
        """`answer`'s outcome, throttled where a quota says so."""
        if request.connection.is_of_broker:
            return answer(request)
        metadata = self._metadata
        if metadata.has_request_quotas and request.api_key not in _BETWEEN_BROKERS:
            bound = bound_for(metadata.client_quotas, REQUEST_PERCENTAGE, _user_of(request), request.client_id)
            if bound is not None:
                spent = HandlingTime(asyncio.get_running_loop().time)
                outcome = spent.measured(request, partial(self._under_rates, answer=answer))
                return finished(request, outcome, partial(self._handled, request, bound, spent))
        return self._under_rates(request, answer)

    def connection_wait_ms(self, host: str) -> int:
        """For how long a new connection of an address has to wait before it is closed; 0 where it may stay (KIP-612)."""
        bound = connection_bound(self._metadata.client_quotas, host)
        if bound is None:
            return 0
        throttle_ms = self._rates.record_unless_over(CONNECTION_CREATION_RATE, bound, 1, self._now_ms())
        return min(throttle_ms, THROTTLE_MS_MAX)

    def _handled(self, request: Request, bound: Bound, spent: HandlingTime, reply: Reply) -> Reply:
        throttle_ms = self._rates.record(REQUEST_PERCENTAGE, bound, 100 * spent.used_s, self._now_ms())
        if not throttle_ms or isinstance(reply, CloseConnection):
            return reply
        throttle_ms = min(throttle_ms, THROTTLE_MS_MAX)
        request.connection.mute(throttle_ms / 1000)
        told_ms = getattr(reply, "throttle_time_ms", None)
        return reply if told_ms is None else reply.replace(throttle_time_ms=max(told_ms, throttle_ms))

    def _under_rates(self, request: Request, answer: Callable[[Request], Outcome]) -> Outcome:
        key = _KEYS.get(request.api_key)
        if key is None:
            return answer(request)
        bound = bound_for(self._metadata.client_quotas, key, _user_of(request), request.client_id)
        if bound is None:
            return answer(request)
        if request.api_key in MUTATIONS:
            return MutationQuota(
                self._metadata, self._config().num_partitions, self._rates, request, bound, self._now_ms()
            ).handle(answer)
        if request.api_key == ApiKey.FETCH:
            _ask_for_less(request, bound)
            return finished(request, answer(request), partial(self._fetched, request, bound))
        if request.api_key == ApiKey.SHARE_FETCH:
            _ask_for_less(request, bound)
            return finished(request, answer(request), partial(self._share_fetched, request, bound))
        # Counted in the step in which it begins, so that what was sent behind it already waits.
        size_bytes = _request_size_bytes(request)
        outcome = answer(request)
        if _is_refused_for_its_id(outcome):
            return outcome
        throttle_ms = self._rates.record(PRODUCER_BYTE_RATE, bound, size_bytes, self._now_ms())
        if not throttle_ms:
            return outcome
        request.connection.mute(throttle_ms / 1000)
        return finished(request, outcome, partial(_produced, throttle_ms))

    def _fetched(self, request: Request, bound: Bound, reply: Reply) -> Reply:
        if isinstance(reply, CloseConnection):
            return reply
        size_bytes = sum(map(len, encode_response(request.api_key, request.api_version, 0, reply)))
        reader = request.connection.connection_id
        throttle_ms = self._rates.record_in_turn(CONSUMER_BYTE_RATE, bound, size_bytes, reader, self._now_ms())
        if not throttle_ms:
            return reply
        request.connection.mute(throttle_ms / 1000)
        session_id = self._sessions.reply_held_back(reply.session_id, request.message.session_epoch)
        empty = FetchResponse(throttle_time_ms=throttle_ms)
        if request.api_version >= SESSIONS_SINCE_VERSION:
            empty = empty.replace(error_code=ErrorCode.NONE, session_id=session_id)
        return empty

    def _share_fetched(self, request: Request, bound: Bound, reply: Reply) -> Reply:
        """Its records are the member's by now: they are sent, and the next request waits."""
        if isinstance(reply, CloseConnection):
            return reply
        size_bytes = sum(map(len, encode_response(request.api_key, request.api_version, 0, reply)))
        throttle_ms = self._rates.record(CONSUMER_BYTE_RATE, bound, size_bytes, self._now_ms())
        if not throttle_ms:
            return reply
        request.connection.mute(throttle_ms / 1000)
        return reply.replace(throttle_time_ms=throttle_ms)

    def _now_ms(self) -> int:
        return self._clock.now_ms()


def _user_of(request: Request) -> str:
    """Whom a quota names: the principal without its type."""
    return request.connection.principal.partition(":")[2]


def _ask_for_less(request: Request, bound: Bound) -> None:
    """Not for more than may be read at once; nor wait for more. A first batch comes in any size."""
    message, bytes_max = request.message, bytes_at_once_max(bound)
    request.message = message.replace(
        max_bytes=min(message.max_bytes, bytes_max), min_bytes=min(message.min_bytes, bytes_max)
    )


def _is_refused_for_its_id(outcome: Outcome) -> bool:
    """Whether a Produce had no right to its transactional id, which Apache Kafka finds before it counts."""
    reply = outcome.reply if isinstance(outcome, Later) and outcome.is_given else outcome
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return isinstance(reply, ProduceResponse) and any(
        part.error_code == code for topic in reply.responses for part in topic.partition_responses
    )


def _produced(throttle_ms: int, reply: Reply) -> Reply:
    if not isinstance(reply, NoReply | CloseConnection):
        reply.throttle_time_ms = throttle_ms
    return reply


def _request_size_bytes(request: Request) -> int:
    parts = encode_request(request.api_key, request.api_version, 0, request.client_id, request.message)
    return sum(map(len, parts))
