"""What a run reached: steps of the coordinator's table, and error codes that a broker gave (docs/simulator.md).

CODES are those that transactions meet in Apache Kafka. Each is either given in a run that is long enough, or it is in
IMPOSSIBLE with the reason, and then no run may see it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from oncelog.core.transactions.transaction import MAY_FOLLOW, TransactionState
from oncelog.errors import ErrorCode
from oncelog.wire.log_records.transaction_state import TransactionRecord

TRANSITIONS = sorted(
    f"{before.name} -> {after.name}" for after, befores in MAY_FOLLOW.items() for before in sorted(befores)
)
E = ErrorCode
IMPOSSIBLE: dict[ErrorCode, str] = {
    E.LEADER_NOT_AVAILABLE: "one node leads every partition from its creation; one that is offline says KAFKA_STORAGE_ERROR",
    E.NETWORK_EXCEPTION: "clients give it to themselves; inside the broker it becomes COORDINATOR_LOAD_IN_PROGRESS",
    E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "there are no replicas that could be lost between the append and its commit",
    E.UNSUPPORTED_FOR_MESSAGE_FORMAT: "only format 2 is ever stored; others are refused with INVALID_RECORD or CORRUPT_MESSAGE",
    E.DUPLICATE_SEQUENCE_NUMBER: "a duplicate is answered like the first time, an older one OUT_OF_ORDER_SEQUENCE_NUMBER",
    E.UNKNOWN_PRODUCER_ID: "no Kafka broker gives it since 2.5 (KIP-360); clients still know it from older ones",
    E.OFFSET_NOT_AVAILABLE: "only a newly elected leader gives it, and there are no elections",
    E.FEATURE_UPDATE_FAILED: "a refused level is INVALID_UPDATE_VERSION, as Kafka's controller answers",
    E.REBOOTSTRAP_REQUIRED: "ApiVersions 5 is not served yet (Kafka 4.3 does not know it either)",
}
CODES = sorted(
    {
        *IMPOSSIBLE,
        *(E.UNKNOWN_SERVER_ERROR, E.OFFSET_OUT_OF_RANGE, E.CORRUPT_MESSAGE, E.UNKNOWN_TOPIC_OR_PARTITION),
        *(E.NOT_LEADER_OR_FOLLOWER, E.MESSAGE_TOO_LARGE, E.OFFSET_METADATA_TOO_LARGE, E.COORDINATOR_LOAD_IN_PROGRESS),
        *(E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR, E.INVALID_TOPIC_EXCEPTION, E.RECORD_LIST_TOO_LARGE),
        *(E.NOT_ENOUGH_REPLICAS, E.INVALID_REQUIRED_ACKS, E.ILLEGAL_GENERATION, E.INVALID_GROUP_ID),
        *(E.UNKNOWN_MEMBER_ID, E.REBALANCE_IN_PROGRESS, E.TOPIC_AUTHORIZATION_FAILED, E.GROUP_AUTHORIZATION_FAILED),
        *(E.CLUSTER_AUTHORIZATION_FAILED, E.UNSUPPORTED_SASL_MECHANISM, E.ILLEGAL_SASL_STATE, E.UNSUPPORTED_VERSION),
        *(E.INVALID_REQUEST, E.OUT_OF_ORDER_SEQUENCE_NUMBER, E.INVALID_PRODUCER_EPOCH, E.INVALID_TXN_STATE),
        *(E.INVALID_PRODUCER_ID_MAPPING, E.INVALID_TRANSACTION_TIMEOUT, E.CONCURRENT_TRANSACTIONS),
        *(E.TRANSACTION_COORDINATOR_FENCED, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, E.OPERATION_NOT_ATTEMPTED),
        *(E.KAFKA_STORAGE_ERROR, E.GROUP_ID_NOT_FOUND, E.FENCED_LEADER_EPOCH, E.UNKNOWN_LEADER_EPOCH),
        *(E.UNSUPPORTED_COMPRESSION_TYPE, E.FENCED_INSTANCE_ID, E.INVALID_RECORD, E.UNSTABLE_OFFSET_COMMIT),
        *(E.THROTTLING_QUOTA_EXCEEDED, E.PRODUCER_FENCED, E.INVALID_UPDATE_VERSION, E.UNKNOWN_TOPIC_ID),
        *(E.TRANSACTIONAL_ID_NOT_FOUND, E.STALE_MEMBER_EPOCH, E.TRANSACTION_ABORTABLE, E.INVALID_REGULAR_EXPRESSION),
        *(
            E.SASL_AUTHENTICATION_FAILED,
            E.REQUEST_TIMED_OUT,
        ),  # the second: whose turn to change the metadata came too late
    }
)
POSSIBLE = [code for code in CODES if code not in IMPOSSIBLE]
SEEDS_THAT_REACH_ALL = 2000  # over all profiles: a run of so many that does not reach everything has failed


def transitions_of(records: Iterator[TransactionRecord] | list[TransactionRecord]) -> Iterator[str]:
    """Steps in a coordinator's log, each as often as it was taken."""
    states: dict[str, TransactionState] = {}
    for record in records:
        before = states.get(record.transactional_id)
        if before is not None:
            yield f"{before.name} -> {record.state.name}"
        states[record.transactional_id] = record.state


@dataclass(frozen=True)
class Coverage:
    """How often each step was taken and each code was given, over all seeds of a run."""

    transitions: Mapping[str, int]
    codes: Mapping[int, int]

    @property
    def missing_transitions(self) -> list[str]:
        """Steps of the table that were not taken."""
        return [each for each in TRANSITIONS if not self.transitions.get(each)]

    @property
    def missing_codes(self) -> list[str]:
        """Codes that a broker can give, and none gave."""
        return [code.name for code in POSSIBLE if not self.codes.get(code)]

    @property
    def contradictions(self) -> list[str]:
        """Codes that no broker here can give, and one gave."""
        return [code.name for code in IMPOSSIBLE if self.codes.get(code)]

    def is_enough(self, seeds: int, *, all_profiles: bool) -> bool:
        """Whether nothing is against it: a short run need not reach everything."""
        if self.contradictions:
            return False
        must_reach_all = all_profiles and seeds >= SEEDS_THAT_REACH_ALL
        return not must_reach_all or not (self.missing_transitions or self.missing_codes)

    def lines(self) -> Iterator[str]:
        """For people."""
        left, unseen = self.missing_transitions, self.missing_codes
        yield f"steps of the coordinator's table: {len(TRANSITIONS) - len(left)} of {len(TRANSITIONS)} reached"
        if left:
            yield f"  not reached: {', '.join(left)}"
        given = len(POSSIBLE) - len(unseen)
        yield (
            f"error codes of transactions: {given} of {len(POSSIBLE)} reached "
            f"({len(IMPOSSIBLE)} more cannot be given here: docs/simulator.md)"
        )
        if unseen:
            yield f"  not reached: {', '.join(unseen)}"
        if self.contradictions:
            yield f"  GIVEN, THOUGH THEY CANNOT BE: {', '.join(self.contradictions)}"

    def summary(self) -> dict[str, Any]:
        """For the report."""
        return {
            "transitions reached": {each: self.transitions[each] for each in TRANSITIONS if self.transitions.get(each)},
            "transitions missing": self.missing_transitions,
            "error codes reached": {code.name: self.codes[code] for code in POSSIBLE if self.codes.get(code)},
            "error codes missing": self.missing_codes,
            "error codes impossible": {code.name: reason for code, reason in IMPOSSIBLE.items()},
        }
