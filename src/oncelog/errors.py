"""Kafka's error codes, and the errors a user can meet.

Four kinds are kept apart: protocol errors are `ErrorCode` values that machines return; user errors are the exceptions
below, each saying whether it is retriable, abortable (abort the transaction and go on) or fatal (this producer is over);
corruption is raised where bytes are parsed; our own bugs are assertions. Codes of raft and streams groups,
which no oncelog client asks for, have no class.
"""

from __future__ import annotations

from typing import Any, ClassVar

from oncelog.error_codes import ErrorCode as ErrorCode


class OncelogError(Exception):
    """Everything that oncelog raises on purpose. It can be pickled: it arrives in another process as it was."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (type(self), self.args, self.__dict__)


def _remade(kind: type[OncelogError], args: tuple[Any, ...], state: dict[str, Any]) -> OncelogError:
    """As pickled. `__init__` takes other arguments than the text that it makes of them, and is not asked again."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


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


class InvalidArgument(OncelogError, TypeError, ValueError):
    """An argument of a type or value that the call does not take; nothing was done."""


REPR_LENGTH_MAX = 80


def invalid_argument(name: str, value: object, must_be: str, hint: str = "") -> InvalidArgument:
    """The error of an argument: its name, what it must be, what it is."""
    return InvalidArgument(f"{name} must be {must_be}, not {shown(value)}" + (f": {hint}" if hint else ""))


def shown(value: object) -> str:
    """A value and its type, for a text; a long one is cut."""
    text = repr(value)
    if len(text) > REPR_LENGTH_MAX:
        text = f"{text[:REPR_LENGTH_MAX]}..."
    return text if value is None else f"{text} ({type(value).__name__})"


class MissingLibrary(OncelogError, ImportError):
    """A library of an extra is not installed; the text names the extra that brings it."""


def missing(what: str, error: ImportError, **extras: str) -> ImportError:
    """The error to raise where a library was imported; `extras` are theirs, by library. Of another module it stays as it is."""
    library = (error.name or "").partition(".")[0]
    if library not in extras:
        return error
    text = f"{what}: {library} is not installed; get it with: pip install 'oncelog[{extras[library]}]'"
    return MissingLibrary(text, name=error.name)


def need(what: str, library: str, extra: str) -> None:
    """Raise MissingLibrary where `what` cannot be done without a library."""
    import importlib

    try:
        importlib.import_module(library)
    except ImportError as error:
        raise missing(what, error, **{library: extra}) from error


class IllegalState(OncelogError):
    """The call does not fit the state of the object, for example `send` after `prepare_transaction`."""


class WouldBlock(OncelogError):
    """`send_nowait` would have to wait, for room in the buffer or for metadata: `await send(...)` does. Nothing was taken."""


class WakeupError(OncelogError):
    """`Consumer.wakeup` was called: this poll ended without records, and the consumer can be polled on."""


class RecordDeserialization(OncelogError):
    """A consumer's deserializer could not read a record: `offset` of `topic_partition`, where the position stays."""

    def __init__(self, message: str, topic_partition: tuple[str, int], offset: int) -> None:
        super().__init__(message)
        self.topic_partition, self.offset = topic_partition, offset


class SchemaRegistryError(OncelogError):
    """A schema registry refused, or gave no answer that can be used; the text has its words."""


class SchemaRegistryUnavailable(SchemaRegistryError):
    """A schema registry did not answer in time, or said that it cannot now: the same may succeed later."""


class SchemaRegistryRefused(SchemaRegistryError):
    """A schema registry does not know who asks, or does not let them (401, 403): it says nothing of the record."""


class SchemaNotFound(SchemaRegistryError, ValueError):
    """A schema registry has no schema of a record's id or GUID (404): that record cannot be read, and the others can."""


class InstanceFenced(OncelogError):
    """A newer instance of a dual writer took over; of the transaction that met this nothing was written."""


class OutcomeUnknown(OncelogError):
    """A database was asked to commit a dual write and cannot be asked what became of it; recovery will tell."""


class NotBegun(OncelogError):
    """A dual write could not begin, as of the one before it nobody knows yet whether it was committed. Nothing of it was
    written: it may be tried again at any time."""


class ProcessingFailed(OncelogError):
    """`oncelog.process` ended at a record: `offset` of `topic_partition` failed `attempt_count` times, and nothing of it was
    written; `__cause__` is the last failure."""

    def __init__(self, message: str, topic_partition: tuple[str, int], offset: int, attempt_count: int) -> None:
        super().__init__(message)
        self.topic_partition, self.offset, self.attempt_count = topic_partition, offset, attempt_count


class KafkaError(OncelogError):
    """An error with a code of Kafka's protocol; `retriable`, `abortable` and `fatal` say what can be done about it."""

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR
    retriable: ClassVar[bool] = False
    abortable: ClassVar[bool] = False
    fatal: ClassVar[bool] = False

    def __init_subclass__(
        cls, code: ErrorCode | None = None, retriable: bool = False, abortable: bool = False, fatal: bool = False
    ) -> None:
        """`code` None: an error of the client itself, which no broker sends; its code is its base's, or UNKNOWN_SERVER_ERROR."""
        cls.retriable, cls.abortable, cls.fatal = retriable, abortable, fatal
        if code is not None:
            if code in _CLASS_OF_CODE:  # a second one would stand for it in what every client raises
                raise TypeError(
                    f"{code.name} has a class: {_CLASS_OF_CODE[code].__name__}; a subclass of it has its code"
                )
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


class CorruptRecord(KafkaError, code=ErrorCode.CORRUPT_MESSAGE, retriable=True):
    """What is stored is not what was written. A consumer says where: (topic, partition), and at which offset it stands."""

    topic_partition: tuple[str, int] | None = None
    offset: int | None = None


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


class AuthenticationFailed(SaslAuthentication):
    """A broker, or this client, does not believe who the other says it is: mechanism, user, address, and why."""


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


class ProducerStopped(KafkaError, fatal=True):
    """The producer was stopped before the answer was there. What was on its way may be stored or not; of a commit or abort that
    was under way nobody here knows whether it is done."""


class PurgedLocally(KafkaError, abortable=True):
    """`Producer.purge` gave the record up; the transaction that it belongs to can only be aborted."""


class PurgedInQueue(PurgedLocally, abortable=True):
    """The record was never sent: it is certainly not stored."""


class PurgedInFlight(PurgedLocally, abortable=True):
    """The record was sent and not acknowledged yet: it may be stored or not. Outside a transaction, sending it again may
    double it."""


class InvalidRecordState(KafkaError, code=ErrorCode.INVALID_RECORD_STATE): ...


class ShareSessionNotFound(KafkaError, code=ErrorCode.SHARE_SESSION_NOT_FOUND, retriable=True): ...


class InvalidShareSessionEpoch(KafkaError, code=ErrorCode.INVALID_SHARE_SESSION_EPOCH, retriable=True): ...


class ShareSessionLimitReached(KafkaError, code=ErrorCode.SHARE_SESSION_LIMIT_REACHED, retriable=True): ...
