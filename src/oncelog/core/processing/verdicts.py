"""Which error of a transaction calls for what. One table: the shell asks for no error's name."""

from __future__ import annotations

from enum import Enum

from oncelog.errors import ErrorCode, InstanceFenced, InvalidArgument, KafkaError, NotBegun, OutcomeUnknown


class Verdict(Enum):
    """What an error of a transaction means."""

    GROUP = "the group gave the partitions to somebody else, or is about to: abort, and hear from it"
    FENCED = "this producer is over: a newer one has its transactional id, or its transaction timed out"
    RECORD = "one of the records written cannot be stored"
    OUTAGE = "brokers cannot do it now: again, for a while"
    FATAL = "it would be the same every time: authorization, configuration"


_GROUP = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,  # it died of old age while this member slept
    }
)
_FENCED = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    }
)
_RECORD = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_PARTITIONS,  # our own producer's: it names a partition that the topic has not
    }
)
_FATAL = frozenset(
    {
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)


# PEP 249's names, which every database's library has for its errors.
_DATABASE_OUTAGES = frozenset({"OperationalError", "InterfaceError"})
_DATABASE_REFUSALS = frozenset(
    {"IntegrityError", "DataError", "ProgrammingError", "NotSupportedError", "InternalError"}
)


def ends_reading(error: BaseException) -> bool:
    """Whether no later poll would succeed."""
    if isinstance(error, KafkaError) and error.code == ErrorCode.INVALID_TOPIC_EXCEPTION:
        return True  # there will never be such a topic
    return verdict_of(error) in (Verdict.FATAL, Verdict.FENCED)


def verdict_of(error: BaseException) -> Verdict:
    """What to do about an error that a transaction (or the way back from one) met."""
    if isinstance(error, InstanceFenced):
        return Verdict.FENCED
    if isinstance(error, InvalidArgument):
        return Verdict.RECORD
    if isinstance(error, OutcomeUnknown | NotBegun | OSError):
        return Verdict.OUTAGE
    if not isinstance(error, KafkaError):
        names = {kind.__name__ for kind in type(error).__mro__}
        if names & _DATABASE_OUTAGES:
            return Verdict.OUTAGE
        return Verdict.RECORD if names & _DATABASE_REFUSALS else Verdict.FATAL
    for codes, verdict in ((_GROUP, Verdict.GROUP), (_FENCED, Verdict.FENCED), (_RECORD, Verdict.RECORD)):
        if error.code in codes:
            return verdict
    return Verdict.FATAL if error.code in _FATAL else Verdict.OUTAGE
