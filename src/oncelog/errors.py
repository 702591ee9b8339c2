"""Kafka's error codes, and the errors a user can meet.

Four kinds are kept apart: protocol errors are `ErrorCode` values that machines return; user errors are the exceptions
below, each saying whether it is retriable, abortable (abort the transaction and go on) or fatal (this producer is over);
corruption is raised where bytes are parsed; our own bugs are assertions. Codes of raft, share groups and streams groups,
which no oncelog client asks for, have no class.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar


class ErrorCode(IntEnum):
    """The numbers on the wire (Apache Kafka 4.3, `org.apache.kafka.common.protocol.Errors`)."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133


class OncelogError(Exception):
    """Everything that oncelog raises on purpose."""


class MalformedMessage(OncelogError):
    """A message's bytes break its schema."""


class MalformedFrame(OncelogError):
    """A frame's size is impossible; the connection cannot be read any further."""


class CorruptBatch(OncelogError):
    """A record batch whose checksum or layout is wrong."""


class CorruptIndex(OncelogError):
    """An index or snapshot file whose content breaks its invariants."""


class StorageError(OncelogError):
    """The disk refused: full, I/O error, failed sync. The log that met"""


class DamagedLog(StorageError):
    """A batch below the recovery point is bad: nothing is cut, the partition stays offline."""


class ConfigurationError(OncelogError, ValueError):
    """An unknown option, or a value that an option does not take."""


class IllegalState(OncelogError):
    """The call does not fit the state of the object, for example `send` after `prepare_transaction`."""


class RecordDeserialization(OncelogError):
    """A consumer's deserializer could not read a record: `offset` of `topic_partition`, where the position stays."""

    def __init__(self, message: str, topic_partition: tuple[str, int], offset: int) -> None:
        super().__init__(message)
        self.topic_partition, self.offset = topic_partition, offset


class InstanceFenced(OncelogError):
    """A newer instance of a dual writer took over; of the transaction that met this nothing was written."""


class OutcomeUnknown(OncelogError):
    """A database was asked to commit a dual write and cannot be asked what became of it; recovery will tell."""


class KafkaError(OncelogError):
    """An error with a code of Kafka's protocol; `retriable`, `abortable` and `fatal` say what can be done about it."""

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR
    retriable: ClassVar[bool] = False
    abortable: ClassVar[bool] = False
    fatal: ClassVar[bool] = False

    def __init_subclass__(
        cls, code: ErrorCode | None = None, retriable: bool = False, abortable: bool = False, fatal: bool = False
    ) -> None:
        """`code` None: an error of the client itself, which no broker sends; its code is UNKNOWN_SERVER_ERROR."""
        cls.retriable, cls.abortable, cls.fatal = retriable, abortable, fatal
        if code is not None:
            cls.code = code
            _CLASS_OF_CODE[code] = cls

    def __init__(self, message: str | None = None) -> None:
        name = self.code.name if _CLASS_OF_CODE.get(self.code) is type(self) else type(self).__name__
        super().__init__(f"{name}: {message}" if message else name)
        self.message = message


_CLASS_OF_CODE: dict[int, type[KafkaError]] = {}


def error_for(code: int, message: str | None = None) -> KafkaError:
    """The exception that stands for `code`; one without a class becomes UnknownServer with the code in its text."""
    found = _CLASS_OF_CODE.get(code)
    if found is None:
        return UnknownServer(f"error code {code_name(code)}" + (f": {message}" if message else ""))
    return found(message)


def code_name(code: int) -> str:
    """Kafka's name of a code, or the number where Kafka 4.3 has none."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


class UnknownServer(KafkaError, code=ErrorCode.UNKNOWN_SERVER_ERROR): ...


class OffsetOutOfRange(KafkaError, code=ErrorCode.OFFSET_OUT_OF_RANGE): ...


class CorruptRecord(KafkaError, code=ErrorCode.CORRUPT_MESSAGE, retriable=True): ...


class UnknownTopicOrPartition(KafkaError, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, retriable=True): ...


class InvalidFetchSize(KafkaError, code=ErrorCode.INVALID_FETCH_SIZE): ...


class LeaderNotAvailable(KafkaError, code=ErrorCode.LEADER_NOT_AVAILABLE, retriable=True): ...


class NotLeaderOrFollower(KafkaError, code=ErrorCode.NOT_LEADER_OR_FOLLOWER, retriable=True): ...


class RequestTimedOut(KafkaError, code=ErrorCode.REQUEST_TIMED_OUT, retriable=True): ...


class BrokerNotAvailable(KafkaError, code=ErrorCode.BROKER_NOT_AVAILABLE): ...


class ReplicaNotAvailable(KafkaError, code=ErrorCode.REPLICA_NOT_AVAILABLE, retriable=True): ...


class RecordTooLarge(KafkaError, code=ErrorCode.MESSAGE_TOO_LARGE, abortable=True): ...


class ControllerMoved(KafkaError, code=ErrorCode.STALE_CONTROLLER_EPOCH): ...


class OffsetMetadataTooLarge(KafkaError, code=ErrorCode.OFFSET_METADATA_TOO_LARGE): ...


class Network(KafkaError, code=ErrorCode.NETWORK_EXCEPTION, retriable=True): ...


class CoordinatorLoadInProgress(KafkaError, code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, retriable=True): ...


class CoordinatorNotAvailable(KafkaError, code=ErrorCode.COORDINATOR_NOT_AVAILABLE, retriable=True): ...


class NotCoordinator(KafkaError, code=ErrorCode.NOT_COORDINATOR, retriable=True): ...


class InvalidTopic(KafkaError, code=ErrorCode.INVALID_TOPIC_EXCEPTION): ...


class RecordBatchTooLarge(KafkaError, code=ErrorCode.RECORD_LIST_TOO_LARGE, abortable=True): ...


class NotEnoughReplicas(KafkaError, code=ErrorCode.NOT_ENOUGH_REPLICAS, retriable=True): ...


class NotEnoughReplicasAfterAppend(KafkaError, code=ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, retriable=True): ...


class InvalidRequiredAcks(KafkaError, code=ErrorCode.INVALID_REQUIRED_ACKS): ...


class IllegalGeneration(KafkaError, code=ErrorCode.ILLEGAL_GENERATION, abortable=True): ...


class InconsistentGroupProtocol(KafkaError, code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL): ...


class InvalidGroupId(KafkaError, code=ErrorCode.INVALID_GROUP_ID): ...


class UnknownMemberId(KafkaError, code=ErrorCode.UNKNOWN_MEMBER_ID, abortable=True): ...


class InvalidSessionTimeout(KafkaError, code=ErrorCode.INVALID_SESSION_TIMEOUT): ...


class RebalanceInProgress(KafkaError, code=ErrorCode.REBALANCE_IN_PROGRESS): ...


class InvalidCommitOffsetSize(KafkaError, code=ErrorCode.INVALID_COMMIT_OFFSET_SIZE): ...


class TopicAuthorization(KafkaError, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, abortable=True): ...


class GroupAuthorization(KafkaError, code=ErrorCode.GROUP_AUTHORIZATION_FAILED, abortable=True): ...


class ClusterAuthorization(KafkaError, code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, fatal=True): ...


class InvalidTimestamp(KafkaError, code=ErrorCode.INVALID_TIMESTAMP): ...


class UnsupportedSaslMechanism(KafkaError, code=ErrorCode.UNSUPPORTED_SASL_MECHANISM): ...


class IllegalSaslState(KafkaError, code=ErrorCode.ILLEGAL_SASL_STATE): ...


class UnsupportedVersion(KafkaError, code=ErrorCode.UNSUPPORTED_VERSION, fatal=True): ...


class TopicExists(KafkaError, code=ErrorCode.TOPIC_ALREADY_EXISTS): ...


class InvalidPartitions(KafkaError, code=ErrorCode.INVALID_PARTITIONS): ...


class InvalidReplicationFactor(KafkaError, code=ErrorCode.INVALID_REPLICATION_FACTOR): ...


class InvalidReplicaAssignment(KafkaError, code=ErrorCode.INVALID_REPLICA_ASSIGNMENT): ...


class InvalidConfiguration(KafkaError, code=ErrorCode.INVALID_CONFIG): ...


class NotController(KafkaError, code=ErrorCode.NOT_CONTROLLER, retriable=True): ...


class InvalidRequest(KafkaError, code=ErrorCode.INVALID_REQUEST): ...


class UnsupportedForMessageFormat(KafkaError, code=ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, fatal=True): ...


class PolicyViolation(KafkaError, code=ErrorCode.POLICY_VIOLATION): ...


class OutOfOrderSequence(KafkaError, code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, abortable=True): ...


class DuplicateSequence(KafkaError, code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER, abortable=True): ...


class InvalidProducerEpoch(KafkaError, code=ErrorCode.INVALID_PRODUCER_EPOCH, abortable=True): ...


class InvalidTxnState(KafkaError, code=ErrorCode.INVALID_TXN_STATE, fatal=True): ...


class InvalidPidMapping(KafkaError, code=ErrorCode.INVALID_PRODUCER_ID_MAPPING, fatal=True): ...


class InvalidTxnTimeout(KafkaError, code=ErrorCode.INVALID_TRANSACTION_TIMEOUT, fatal=True): ...


class ConcurrentTransactions(KafkaError, code=ErrorCode.CONCURRENT_TRANSACTIONS, retriable=True): ...


class TransactionCoordinatorFenced(KafkaError, code=ErrorCode.TRANSACTION_COORDINATOR_FENCED, fatal=True): ...


class TransactionalIdAuthorization(KafkaError, code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, fatal=True): ...


class SecurityDisabled(KafkaError, code=ErrorCode.SECURITY_DISABLED): ...


class OperationNotAttempted(KafkaError, code=ErrorCode.OPERATION_NOT_ATTEMPTED): ...


class KafkaStorage(KafkaError, code=ErrorCode.KAFKA_STORAGE_ERROR, retriable=True): ...


class LogDirNotFound(KafkaError, code=ErrorCode.LOG_DIR_NOT_FOUND): ...


class SaslAuthentication(KafkaError, code=ErrorCode.SASL_AUTHENTICATION_FAILED): ...


class UnknownProducerId(KafkaError, code=ErrorCode.UNKNOWN_PRODUCER_ID, abortable=True): ...


class ReassignmentInProgress(KafkaError, code=ErrorCode.REASSIGNMENT_IN_PROGRESS): ...


class DelegationTokenDisabled(KafkaError, code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED): ...


class DelegationTokenNotFound(KafkaError, code=ErrorCode.DELEGATION_TOKEN_NOT_FOUND): ...


class DelegationTokenOwnerMismatch(KafkaError, code=ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH): ...


class UnsupportedByAuthentication(KafkaError, code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED): ...


class DelegationTokenAuthorization(KafkaError, code=ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED): ...


class DelegationTokenExpired(KafkaError, code=ErrorCode.DELEGATION_TOKEN_EXPIRED): ...


class InvalidPrincipalType(KafkaError, code=ErrorCode.INVALID_PRINCIPAL_TYPE): ...


class GroupNotEmpty(KafkaError, code=ErrorCode.NON_EMPTY_GROUP): ...


class GroupIdNotFound(KafkaError, code=ErrorCode.GROUP_ID_NOT_FOUND, abortable=True): ...


class FetchSessionIdNotFound(KafkaError, code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, retriable=True): ...


class InvalidFetchSessionEpoch(KafkaError, code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, retriable=True): ...


class ListenerNotFound(KafkaError, code=ErrorCode.LISTENER_NOT_FOUND, retriable=True): ...


class TopicDeletionDisabled(KafkaError, code=ErrorCode.TOPIC_DELETION_DISABLED): ...


class FencedLeaderEpoch(KafkaError, code=ErrorCode.FENCED_LEADER_EPOCH, retriable=True): ...


class UnknownLeaderEpoch(KafkaError, code=ErrorCode.UNKNOWN_LEADER_EPOCH, retriable=True): ...


class UnsupportedCompressionType(KafkaError, code=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE): ...


class StaleBrokerEpoch(KafkaError, code=ErrorCode.STALE_BROKER_EPOCH): ...


class OffsetNotAvailable(KafkaError, code=ErrorCode.OFFSET_NOT_AVAILABLE, retriable=True): ...


class MemberIdRequired(KafkaError, code=ErrorCode.MEMBER_ID_REQUIRED): ...


class PreferredLeaderNotAvailable(KafkaError, code=ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, retriable=True): ...


class GroupMaxSizeReached(KafkaError, code=ErrorCode.GROUP_MAX_SIZE_REACHED): ...


class FencedInstanceId(KafkaError, code=ErrorCode.FENCED_INSTANCE_ID, abortable=True): ...


class EligibleLeadersNotAvailable(KafkaError, code=ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, retriable=True): ...


class ElectionNotNeeded(KafkaError, code=ErrorCode.ELECTION_NOT_NEEDED, retriable=True): ...


class NoReassignmentInProgress(KafkaError, code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS): ...


class GroupSubscribedToTopic(KafkaError, code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC): ...


class InvalidRecord(KafkaError, code=ErrorCode.INVALID_RECORD): ...


class UnstableOffsetCommit(KafkaError, code=ErrorCode.UNSTABLE_OFFSET_COMMIT, retriable=True): ...


class ThrottlingQuotaExceeded(KafkaError, code=ErrorCode.THROTTLING_QUOTA_EXCEEDED, retriable=True): ...


class ProducerFenced(KafkaError, code=ErrorCode.PRODUCER_FENCED, fatal=True): ...


class ResourceNotFound(KafkaError, code=ErrorCode.RESOURCE_NOT_FOUND): ...


class DuplicateResource(KafkaError, code=ErrorCode.DUPLICATE_RESOURCE): ...


class UnacceptableCredential(KafkaError, code=ErrorCode.UNACCEPTABLE_CREDENTIAL): ...


class InvalidUpdateVersion(KafkaError, code=ErrorCode.INVALID_UPDATE_VERSION): ...


class FeatureUpdateFailed(KafkaError, code=ErrorCode.FEATURE_UPDATE_FAILED): ...


class UnknownTopicId(KafkaError, code=ErrorCode.UNKNOWN_TOPIC_ID, retriable=True): ...


class InconsistentTopicId(KafkaError, code=ErrorCode.INCONSISTENT_TOPIC_ID, retriable=True): ...


class InconsistentClusterId(KafkaError, code=ErrorCode.INCONSISTENT_CLUSTER_ID): ...


class TransactionalIdNotFound(KafkaError, code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND): ...


class FetchSessionTopicId(KafkaError, code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, retriable=True): ...


class OffsetMovedToTieredStorage(KafkaError, code=ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE): ...


class FencedMemberEpoch(KafkaError, code=ErrorCode.FENCED_MEMBER_EPOCH): ...


class UnreleasedInstanceId(KafkaError, code=ErrorCode.UNRELEASED_INSTANCE_ID): ...


class UnsupportedAssignor(KafkaError, code=ErrorCode.UNSUPPORTED_ASSIGNOR): ...


class StaleMemberEpoch(KafkaError, code=ErrorCode.STALE_MEMBER_EPOCH, abortable=True): ...


class MismatchedEndpointType(KafkaError, code=ErrorCode.MISMATCHED_ENDPOINT_TYPE): ...


class UnsupportedEndpointType(KafkaError, code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE): ...


class UnknownControllerId(KafkaError, code=ErrorCode.UNKNOWN_CONTROLLER_ID): ...


class TransactionAbortable(KafkaError, code=ErrorCode.TRANSACTION_ABORTABLE, abortable=True): ...


class InvalidRegularExpression(KafkaError, code=ErrorCode.INVALID_REGULAR_EXPRESSION): ...


class RebootstrapRequired(KafkaError, code=ErrorCode.REBOOTSTRAP_REQUIRED): ...


class PurgedLocally(KafkaError, abortable=True):
    """`Producer.purge` gave the record up; the transaction that it belongs to can only be aborted."""


class PurgedInQueue(PurgedLocally, abortable=True):
    """The record was never sent: it is certainly not stored."""


class PurgedInFlight(PurgedLocally, abortable=True):
    """The record was sent and not acknowledged yet: it may be stored or not. Outside a transaction, sending it again may
    double it."""
