"""The quota of mutations (KIP-599): how many partitions a client may create or delete a second.

Topics over the quota are taken out of the request and answered THROTTLING_QUOTA_EXCEEDED; what the handler refuses for
another reason is given back. Clients older than that error are served, and made to wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oncelog.broker.requests.completion import finished
from oncelog.broker.requests.request import CloseConnection, Outcome, Reply, Request
from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.core.metadata.quota_rates import Bound, QuotaRates
from oncelog.errors import ErrorCode
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.create_partitions import CreatePartitionsTopic, CreatePartitionsTopicResult
from oncelog.wire.messages.create_topics import CreatableTopic, CreatableTopicResult
from oncelog.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicState

_STRICT_SINCE = {ApiKey.CREATE_TOPICS: 6, ApiKey.CREATE_PARTITIONS: 3, ApiKey.DELETE_TOPICS: 5}
_RESULTS = {ApiKey.CREATE_TOPICS: "topics", ApiKey.CREATE_PARTITIONS: "results", ApiKey.DELETE_TOPICS: "responses"}
_IDS_SINCE_VERSION = 6
_OVER = ErrorCode.THROTTLING_QUOTA_EXCEEDED
MUTATIONS = frozenset(_STRICT_SINCE)


class MutationQuota:
    """One request under the quota."""

    def __init__(
        self,
        metadata: ClusterMetadata,
        num_partitions: int,
        rates: QuotaRates,
        request: Request,
        bound: Bound,
        now_ms: int,
    ) -> None:
        self._metadata = metadata
        self._num_partitions = num_partitions  # of a topic that is created without saying how many
        self._rates = rates
        self._request = request
        self._bound = bound
        self._now_ms = now_ms
        self._costs: dict[Any, int] = {}
        self._refused: list[Any] = []
        self._throttle_ms = 0

    def handle(self, answer: Callable[[Request], Outcome]) -> Outcome:
        """`answer`'s outcome for the topics that may be touched, with the others put in."""
        request = self._request
        is_strict = request.api_version >= _STRICT_SINCE[request.api_key]
        passed = []
        for item in _items(request):
            key, cost = self._cost(item)
            if not cost:  # nothing can come of it
                passed.append(item)
                continue
            may, wait_ms = self._rates.mutations(self._bound, cost, self._now_ms, is_strict=is_strict)
            self._throttle_ms = max(self._throttle_ms, wait_ms)
            if may:
                passed.append(item)
                self._costs[key] = cost
            else:
                self._refused.append(_refusal(item))
        if self._throttle_ms:
            request.connection.mute(self._throttle_ms / 1000)
        if self._refused:
            request.message = _with_items(request, passed)
        return finished(request, answer(request), self._finish)

    def _finish(self, reply: Reply) -> Reply:
        if isinstance(reply, CloseConnection):
            return reply
        into = _RESULTS[self._request.api_key]
        results = getattr(reply, into)
        for result in results:
            if result.error_code:
                cost = self._costs.pop(result.name, 0) or self._costs.pop(getattr(result, "topic_id", None), 0)
                self._rates.return_mutations(self._bound, cost, self._now_ms)
        setattr(reply, into, [*results, *self._refused])
        reply.throttle_time_ms = max(reply.throttle_time_ms, self._throttle_ms)
        return reply

    def _cost(self, item: Any) -> tuple[Any, int]:
        """Under which name or id the result will be, and how many partitions it is about."""
        metadata = self._metadata
        if isinstance(item, CreatableTopic):
            count = item.num_partitions if item.num_partitions > 0 else self._num_partitions
            return item.name, len(item.assignments) or count
        if isinstance(item, CreatePartitionsTopic):
            topic = metadata.topics.get(item.name)
            return item.name, max(item.count - topic.partition_count, 0) if topic else 0
        assert isinstance(item, DeleteTopicState)
        topic = metadata.topic(item.name, item.topic_id)
        return item.name or item.topic_id, topic.partition_count if topic else 0


def _items(request: Request) -> list[Any]:
    if request.api_key == ApiKey.DELETE_TOPICS and request.api_version < _IDS_SINCE_VERSION:
        return [DeleteTopicState(name=name) for name in request.message.topic_names]
    return list(request.message.topics)


def _with_items(request: Request, items: list[Any]) -> Any:
    if request.api_key == ApiKey.DELETE_TOPICS:
        return request.message.replace(topics=items, topic_names=[each.name for each in items if each.name is not None])
    return request.message.replace(topics=items)


def _refusal(item: Any) -> Any:
    if isinstance(item, CreatableTopic):
        return CreatableTopicResult(name=item.name, error_code=_OVER, error_message=None)
    if isinstance(item, CreatePartitionsTopic):
        return CreatePartitionsTopicResult(name=item.name, error_code=_OVER, error_message=None)
    return DeletableTopicResult(name=item.name, topic_id=item.topic_id, error_code=_OVER, error_message=None)
