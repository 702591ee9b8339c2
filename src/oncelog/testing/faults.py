"""Faults for the n-th request of an API, and the answers a broker would give if it refused one.

What `FaultyProxy` does to requests is decided here; how bytes travel is in `proxy`.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import Any

from oncelog.client import arguments
from oncelog.errors import ErrorCode, InvalidArgument
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.api import APIS
from oncelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from oncelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from oncelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from oncelog.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from oncelog.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from oncelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from oncelog.wire.schema import Struct

DELAY_SECONDS_MAX = 86_400
API_KEYS = {api.name: key for key, api in APIS.items()}


class Kind(Enum):
    """What is done to a request."""

    REFUSE = "the broker never sees it; the answer says an error"
    MISREPORT = "the broker does it; the answer says an error"
    DELAY = "it waits, and all behind it on its connection"
    LOSE_REQUEST = "its connection breaks before the broker has it"
    LOSE_ANSWER = "its connection breaks before the answer comes"
    DUPLICATE = "the broker gets it twice; the second answer is dropped"


@dataclass
class Fault:
    """`skip` requests of the API pass first, then `count` are struck."""

    kind: Kind
    api_key: int
    skip: int
    count: int
    error_code: int = 0
    seconds: float = 0.0


class Faults:
    """What is to happen to which request. `seen` counts requests by the name of their API.

    `api` is Kafka's name ("EndTxn"), `nth` counts from the call on: 1 is the next request; `count` of them are struck.
    """

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self._faults: list[Fault] = []

    def refuse(self, api: str, error_code: int, *, nth: int = 1, count: int = 1) -> None:
        """Answer with `error_code` in the broker's stead, which never sees the request.

        For Produce, FindCoordinator, InitProducerId, AddPartitionsToTxn (v0-3), AddOffsetsToTxn, TxnOffsetCommit, EndTxn.
        """
        if not isinstance(api, str) or API_KEYS.get(api) not in REFUSALS:
            raise InvalidArgument(
                f"{api} cannot be refused here, only {', '.join(sorted(APIS[key].name for key in REFUSALS))}"
            )
        if _checked_code(error_code) == ErrorCode.NONE:
            raise arguments.refuse("error_code", error_code, "an error's", "0 says that it was done, and nobody did it")
        self._add(Kind.REFUSE, api, nth, count, error_code=error_code)

    def misreport(self, api: str, error_code: int, *, nth: int = 1, count: int = 1) -> None:
        """Let the broker do it, and put `error_code` in every place of its answer that has one."""
        self._add(Kind.MISREPORT, api, nth, count, error_code=_checked_code(error_code))

    def delay(self, api: str, seconds: float, *, nth: int = 1, count: int = 1) -> None:
        """Hold the request back, and with it all behind it on its connection."""
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= DELAY_SECONDS_MAX:
            raise arguments.refuse("seconds", seconds, f"a number from 0 to {DELAY_SECONDS_MAX}")
        self._add(Kind.DELAY, api, nth, count, seconds=seconds)

    def drop(self, api: str, *, nth: int = 1, count: int = 1, after: bool = False) -> None:
        """Break the connection: before the broker has the request, or (`after`) when it has done it."""
        self._add(Kind.LOSE_ANSWER if after else Kind.LOSE_REQUEST, api, nth, count)

    def duplicate(self, api: str, *, nth: int = 1, count: int = 1) -> None:
        """Give the broker the request twice, the second time right behind the first."""
        self._add(Kind.DUPLICATE, api, nth, count)

    def clear(self) -> None:
        """Forget all faults and what was seen."""
        self._faults.clear()
        self.seen.clear()

    @property
    def pending_count(self) -> int:
        """How many faults have not struck as often as they were to."""
        return len(self._faults)

    def _add(self, kind: Kind, api: str, nth: int, count: int, *, error_code: int = 0, seconds: float = 0.0) -> None:
        if not isinstance(api, str) or api not in API_KEYS:
            raise InvalidArgument(f"there is no API {api!r}; Kafka's names are as in EndTxn, Produce, FindCoordinator")
        nth, count = arguments.integer("nth", nth, low=1), arguments.integer("count", count, low=1)
        self._faults.append(Fault(kind, API_KEYS[api], nth - 1, count, error_code, seconds))

    def strikes(self, api_key: int) -> Fault | None:
        """What happens to a request that has just come; the first fault that strikes wins, all of them count it."""
        if api_key in APIS:
            self.seen[APIS[api_key].name] += 1
        struck: Fault | None = None
        for fault in [each for each in self._faults if each.api_key == api_key]:
            if fault.skip:
                fault.skip -= 1
            elif struck is None:
                struck = fault
                fault.count -= 1
                if not fault.count:
                    self._faults.remove(fault)
        return struck


def _checked_code(error_code: Any) -> int:
    hint = "as in ErrorCode.NOT_COORDINATOR, or its number"
    return arguments.integer("error_code", error_code, low=-1, high=arguments.INT16_MAX, hint=hint)


# -- answers


def _find_coordinator(request: FindCoordinatorRequest, code: int) -> FindCoordinatorResponse:
    if not request.coordinator_keys:  # v0-3
        return FindCoordinatorResponse(error_code=code, node_id=-1, port=-1)
    return FindCoordinatorResponse(
        coordinators=[Coordinator(key=key, node_id=-1, port=-1, error_code=code) for key in request.coordinator_keys],
    )


def _init_producer_id(_: InitProducerIdRequest, code: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


def _add_partitions(request: AddPartitionsToTxnRequest, code: int) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
                    for index in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
    )


def _add_offsets(_: AddOffsetsToTxnRequest, code: int) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=code)


def _txn_offset_commit(request: TxnOffsetCommitRequest, code: int) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code)
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _end_txn(_: EndTxnRequest, code: int) -> EndTxnResponse:
    return EndTxnResponse(error_code=code, producer_id=-1, producer_epoch=-1)


def _produce(request: ProduceRequest, code: int) -> ProduceResponse:
    knows_its_log = code in (ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=data.index, error_code=code, base_offset=-1, log_start_offset=0 if knows_its_log else -1
                    )
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


REFUSALS: dict[int, Any] = {
    API_KEYS["Produce"]: _produce,
    API_KEYS["FindCoordinator"]: _find_coordinator,
    API_KEYS["InitProducerId"]: _init_producer_id,
    API_KEYS["AddPartitionsToTxn"]: _add_partitions,
    API_KEYS["AddOffsetsToTxn"]: _add_offsets,
    API_KEYS["TxnOffsetCommit"]: _txn_offset_commit,
    API_KEYS["EndTxn"]: _end_txn,
}
"""API key -> what a broker says that refuses such a request with an error code."""


def put_error(message: Struct, error_code: int, version: int) -> None:
    """Write the code in every field for one that this version has, in the message and all that it holds."""
    for each in message.FIELDS:
        value = getattr(message, each.name)
        if each.name.endswith("error_code") and each.in_version(version):
            setattr(message, each.name, error_code)
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, Struct):
                    put_error(item, error_code, version)
