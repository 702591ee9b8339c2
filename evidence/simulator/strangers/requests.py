"""Requests of transactions, groups and administration that must be refused, whatever the state of the cluster."""

from __future__ import annotations

from functools import cache

from evidence.simulator.strangers.records import SOMEBODYS_ID
from evidence.simulator.strangers.wrong import GROUP, MARK, NOBODY, TOPIC, TRANSACTIONAL_ID, Wrong, wrong
from oncelog.errors import ErrorCode as E
from oncelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from oncelog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from oncelog.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from oncelog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from oncelog.wire.messages.api_versions import ApiVersionsRequest
from oncelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from oncelog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from oncelog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from oncelog.wire.messages.delete_groups import DeleteGroupsRequest
from oncelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog.wire.messages.describe_groups import DescribeGroupsRequest
from oncelog.wire.messages.describe_transactions import DescribeTransactionsRequest
from oncelog.wire.messages.end_txn import EndTxnRequest
from oncelog.wire.messages.heartbeat import HeartbeatRequest
from oncelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from oncelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from oncelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from oncelog.wire.messages.list_transactions import ListTransactionsRequest
from oncelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.wire.messages.sasl_handshake import SaslHandshakeRequest
from oncelog.wire.messages.sync_group import SyncGroupRequest
from oncelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from oncelog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

TOPIC_RESOURCE = 2
METADATA_BYTES = 5000  # more than offset.metadata.max.bytes
TURN_TIMEOUT_MS = 250  # for a turn to change the metadata: a slow disk takes longer


def init(transactional_id: str | None, timeout_ms: int = 4000, **more: object) -> InitProducerIdRequest:
    """InitProducerId."""
    return InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, **more)


def end(transactional_id: str, producer_id: int = NOBODY, producer_epoch: int = 0) -> EndTxnRequest:
    """EndTxn that commits."""
    return EndTxnRequest(
        transactional_id=transactional_id, producer_id=producer_id, producer_epoch=producer_epoch, committed=True
    )


def add(transactional_id: str, *topics: str) -> AddPartitionsToTxnRequest:
    """AddPartitionsToTxn of a client, for a producer that is nobody."""
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=NOBODY,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0]) for topic in topics],
    )


def marker(producer_id: int, producer_epoch: int, topic: str = "a", **more: object) -> WriteTxnMarkersRequest:
    """WriteTxnMarkers: a commit for partition 0."""
    start = more.pop("start_offset", None)
    places = WritableTxnMarkerTopic(
        name=topic, partition_indexes=[0], txn_start_offsets=[] if start is None else [start]
    )
    asked = {"transaction_result": True, **more}
    one = WritableTxnMarker(producer_id=producer_id, producer_epoch=producer_epoch, topics=[places], **asked)
    return WriteTxnMarkersRequest(markers=[one])


def txn_offsets(transactional_id: str, group: str, producer_id: int = NOBODY, **more: object) -> TxnOffsetCommitRequest:
    """TxnOffsetCommit of one position."""
    partition = TxnOffsetCommitRequestPartition(committed_offset=1, committed_metadata=f"{MARK}metadata")
    topics = [TxnOffsetCommitRequestTopic(name="a", partitions=[partition])]
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id, group_id=group, producer_id=producer_id, topics=topics, **more
    )


@cache
def wrong_transactions() -> tuple[Wrong, ...]:
    """The transaction coordinator's."""
    somebody = "client-0"
    mapping, timeout, request = E.INVALID_PRODUCER_ID_MAPPING, E.INVALID_TRANSACTION_TIMEOUT, E.INVALID_REQUEST
    return (
        wrong("no timeout", init(TRANSACTIONAL_ID, 0), 4, timeout),
        wrong("a timeout without end", init(TRANSACTIONAL_ID, 2**31 - 1), 4, timeout),
        wrong("an empty transactional id", init(""), 4, request),
        wrong("half an identity", init(TRANSACTIONAL_ID, producer_id=5), 4, request),
        wrong("the end of no transaction", end(TRANSACTIONAL_ID), 4, mapping),
        wrong("the end of no transaction, new", end(TRANSACTIONAL_ID), 5, mapping),
        wrong("the end of somebody's transaction", end(somebody), 4, mapping),
        wrong("the end of somebody's transaction, new", end(somebody), 5, mapping),
        wrong("adds to no transaction", add(TRANSACTIONAL_ID, "a"), 3, mapping),
        wrong("adds to somebody's transaction", add(somebody, "a"), 3, mapping),
        wrong(
            "adds a topic that is not there",
            add(somebody, "a", TOPIC),
            3,
            E.UNKNOWN_TOPIC_OR_PARTITION,
            E.OPERATION_NOT_ATTEMPTED,
        ),
        wrong(
            "positions in no transaction",
            AddOffsetsToTxnRequest(transactional_id=TRANSACTIONAL_ID, producer_id=NOBODY, group_id=GROUP),
            3,
            mapping,
        ),
        wrong("positions of no group", txn_offsets(somebody, ""), 3, E.INVALID_GROUP_ID),
        wrong("positions of nobody", txn_offsets(somebody, GROUP), 3, mapping),
        wrong("a marker for nobody", marker(-1, 0), 1, mapping),
        wrong("a marker without an epoch", marker(7, -1), 1, E.INVALID_PRODUCER_EPOCH),
        wrong(
            "describes what is not there",
            DescribeTransactionsRequest(transactional_ids=[TRANSACTIONAL_ID]),
            0,
            E.TRANSACTIONAL_ID_NOT_FOUND,
        ),
        wrong("no pattern", ListTransactionsRequest(transactional_id_pattern="("), 2, E.INVALID_REGULAR_EXPRESSION),
    )


def join(group: str, session_ms: int = 2000, *, member: str = "", instance: str | None = None) -> JoinGroupRequest:
    """JoinGroup of a consumer that knows one assignor."""
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=session_ms,
        member_id=member,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
    )


SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01\x00\x07strange\xff\xff\xff\xff"


def commit(
    group: str, generation: int = -1, member: str = "", metadata: str = f"{MARK}metadata", topic: str = "a"
) -> OffsetCommitRequest:
    """OffsetCommit of one position."""
    partition = OffsetCommitRequestPartition(committed_offset=1, committed_metadata=metadata)
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )


def member_heartbeat(group: str, member: str, member_epoch: int, **more: object) -> ConsumerGroupHeartbeatRequest:
    """ConsumerGroupHeartbeat that begins with nothing."""
    first = {"rebalance_timeout_ms": 2000, "topic_partitions": []} if member_epoch == 0 else {}
    return ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=member_epoch, **{**first, **more}
    )


@cache
def wrong_group_requests() -> tuple[Wrong, ...]:
    """The group coordinator's."""
    unknown, missing = E.UNKNOWN_MEMBER_ID, E.GROUP_ID_NOT_FOUND
    leaving = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id="nobody")])
    sync = SyncGroupRequest(group_id="", member_id="nobody")
    regex = member_heartbeat(GROUP, "m", 0, subscribed_topic_regex="(")
    return (
        wrong("joins no group", join(""), 5, E.INVALID_GROUP_ID),
        wrong("a session too short", join(GROUP, 1), 5, E.INVALID_SESSION_TIMEOUT),
        wrong("a member of nothing", join(GROUP, member="nobody"), 5, unknown),
        wrong("syncs no group", sync, 4, E.INVALID_GROUP_ID),
        wrong("the heart of nobody", HeartbeatRequest(group_id=GROUP, member_id="nobody"), 3, unknown),
        wrong("nobody leaves", leaving, 4, unknown),
        wrong("a generation of no group", commit(GROUP, 5), 8, E.ILLEGAL_GENERATION),
        wrong("a generation of no group, new", commit(GROUP, 5), 9, missing),
        wrong("long metadata", commit(GROUP, metadata=MARK * METADATA_BYTES), 8, E.OFFSET_METADATA_TOO_LARGE),
        wrong("positions of no topic", commit(GROUP, topic=TOPIC), 8, E.UNKNOWN_TOPIC_OR_PARTITION),
        wrong("describes no group", DescribeGroupsRequest(groups=[GROUP]), 6, missing),
        wrong("deletes no group", DeleteGroupsRequest(groups_names=[GROUP]), 2, missing),
        wrong("no regular expression", regex, 1, E.INVALID_REGULAR_EXPRESSION),
        wrong("a member of no consumer group", member_heartbeat(GROUP, "m", 5), 1, missing, unknown),
    )


def create(name: str, *, replicas: int = 1, validate_only: bool = False, **configs: str) -> CreateTopicsRequest:
    """CreateTopics of one partition."""
    chosen = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=replicas, configs=chosen)
    return CreateTopicsRequest(topics=[topic], timeout_ms=TURN_TIMEOUT_MS, validate_only=validate_only)


def alter(topic: str, name: str, value: str, operation: int = 0) -> IncrementalAlterConfigsRequest:
    """IncrementalAlterConfigs of one key of a topic."""
    config = AlterableConfig(name=name, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[config])
    return IncrementalAlterConfigsRequest(resources=[resource])


def more_partitions(topic: str, count: int) -> CreatePartitionsRequest:
    """CreatePartitions."""
    topics = [CreatePartitionsTopic(name=topic, count=count, assignments=None)]
    return CreatePartitionsRequest(topics=topics, timeout_ms=TURN_TIMEOUT_MS)


def delete(name: str | None, topic_id: bytes = bytes(16)) -> DeleteTopicsRequest:
    """DeleteTopics."""
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name, topic_id=topic_id)], timeout_ms=TURN_TIMEOUT_MS)


def feature(name: str, level: int) -> UpdateFeaturesRequest:
    """UpdateFeatures, upwards."""
    return UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature=name, max_version_level=level)])


def quota(key: str, value: float) -> AlterClientQuotasRequest:
    """A quota for a client id."""
    entity = [EntityData(entity_type="client-id", entity_name=f"{MARK}client")]
    return AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=[OpData(key=key, value=value)])])


@cache
def wrong_administration() -> tuple[Wrong, ...]:
    """What operators ask for by mistake."""
    user = ScramCredentialUpsertion(
        name=f"{MARK}user", mechanism=9, iterations=4096, salt=b"salt", salted_password=b"secret"
    )
    scram = AlterUserScramCredentialsRequest(upsertions=[user])
    software = ApiVersionsRequest(client_software_name="!", client_software_version=MARK)
    missing, config = E.UNKNOWN_TOPIC_OR_PARTITION, E.INVALID_CONFIG
    return (
        wrong("a name that is none", create(f"{MARK}name!"), 5, E.INVALID_TOPIC_EXCEPTION),
        wrong("a topic that is there", create("a"), 5, E.TOPIC_ALREADY_EXISTS),
        wrong("three replicas", create(TOPIC, replicas=3), 5, E.INVALID_REPLICATION_FACTOR),
        wrong("a bad configuration", create(TOPIC, segment_bytes=MARK), 5, config),
        wrong("fewer partitions", more_partitions("a", 1), 2, E.INVALID_PARTITIONS),
        wrong("more partitions of nothing", more_partitions(TOPIC, 5), 2, missing),
        wrong("deletes what is not there", delete(TOPIC), 6, missing),
        wrong("deletes nobody's topic", delete(None, SOMEBODYS_ID), 6, E.UNKNOWN_TOPIC_ID),
        wrong("configures nothing", alter(TOPIC, "segment.bytes", "2000000"), 1, missing),
        wrong("configures badly", alter("a", "segment.bytes", MARK), 1, config),
        wrong("does something else to a key", alter("a", "segment.bytes", MARK, 9), 1, E.UNKNOWN_SERVER_ERROR),
        wrong("a level nobody has", feature("transaction.version", 99), 1, E.INVALID_UPDATE_VERSION),
        wrong("a feature nobody has", feature(f"{MARK}feature", 1), 1, E.INVALID_UPDATE_VERSION),
        wrong("a mechanism nobody has", scram, 0, E.UNSUPPORTED_SASL_MECHANISM),
        wrong("a quota of nothing", quota(f"{MARK}rate", 1.0), 1, E.INVALID_REQUEST),
        wrong("a login where there is none", SaslHandshakeRequest(mechanism="PLAIN"), 1, E.ILLEGAL_SASL_STATE),
        wrong("software without a name", software, 3, E.INVALID_REQUEST),
    )
