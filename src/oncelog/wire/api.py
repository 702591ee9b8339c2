"""The APIs that oncelog knows: which request belongs to which response, and in which versions.

Ranges are Apache Kafka 4.3's. InitProducerId 6 (KIP-939) is unstable there and only advertised on request.
"""

from dataclasses import dataclass
from enum import IntEnum

from oncelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from oncelog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from oncelog.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from oncelog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from oncelog.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from oncelog.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from oncelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from oncelog.wire.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from oncelog.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from oncelog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from oncelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from oncelog.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from oncelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from oncelog.wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from oncelog.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from oncelog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from oncelog.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from oncelog.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from oncelog.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from oncelog.wire.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from oncelog.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from oncelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from oncelog.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from oncelog.wire.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from oncelog.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from oncelog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from oncelog.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from oncelog.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from oncelog.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from oncelog.wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from oncelog.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from oncelog.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from oncelog.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from oncelog.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from oncelog.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from oncelog.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from oncelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from oncelog.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from oncelog.wire.messages.fetch import FetchRequest, FetchResponse
from oncelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from oncelog.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from oncelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from oncelog.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from oncelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from oncelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from oncelog.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from oncelog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from oncelog.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from oncelog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from oncelog.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from oncelog.wire.messages.metadata import MetadataRequest, MetadataResponse
from oncelog.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from oncelog.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from oncelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from oncelog.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from oncelog.wire.messages.produce import ProduceRequest, ProduceResponse
from oncelog.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from oncelog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from oncelog.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from oncelog.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from oncelog.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from oncelog.wire.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from oncelog.wire.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from oncelog.wire.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from oncelog.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from oncelog.wire.messages.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from oncelog.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from oncelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from oncelog.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from oncelog.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from oncelog.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from oncelog.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from oncelog.wire.schema import Struct


class ApiKey(IntEnum):
    """The numbers in request headers, under Kafka's names."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_QUORUM = 55
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


@dataclass(frozen=True, slots=True)
class Api:
    """One API. Versions are inclusive; `advertised_min_version` is what ApiVersions tells (KAFKA-18659)."""

    key: int
    name: str
    request: type[Struct]
    response: type[Struct]
    min_version: int
    max_version: int
    max_stable_version: int
    advertised_min_version: int

    def request_header_version(self, version: int) -> int:
        """2 has tagged fields. Flexible versions start in requests and responses alike."""
        return 2 if version >= self.request.FLEXIBLE else 1

    def response_header_version(self, version: int) -> int:
        """ApiVersions answers with header 0 always: its client does not know yet what the broker can say (KIP-511)."""
        return 1 if version >= self.response.FLEXIBLE and self.key != ApiKey.API_VERSIONS else 0

    def supports(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version


# librdkafka turns off compression where version 0 is not offered, although nobody serves it (KAFKA-18659)
_ADVERTISED_MIN_VERSION = {ApiKey.PRODUCE: 0}
_MAX_STABLE_VERSION = {ApiKey.INIT_PRODUCER_ID: 5}


def _api(request: type[Struct], response: type[Struct]) -> Api:
    first, last = request.VERSIONS
    assert response.KEY == request.KEY
    assert response.VERSIONS == request.VERSIONS
    assert response.FLEXIBLE == request.FLEXIBLE
    key = ApiKey(request.KEY)
    return Api(
        key=key,
        name=request.__name__.removesuffix("Request"),
        request=request,
        response=response,
        min_version=first,
        max_version=last,
        max_stable_version=_MAX_STABLE_VERSION.get(key, last),
        advertised_min_version=_ADVERTISED_MIN_VERSION.get(key, first),
    )


_ALL = (
    _api(ProduceRequest, ProduceResponse),
    _api(FetchRequest, FetchResponse),
    _api(ListOffsetsRequest, ListOffsetsResponse),
    _api(MetadataRequest, MetadataResponse),
    _api(OffsetCommitRequest, OffsetCommitResponse),
    _api(OffsetFetchRequest, OffsetFetchResponse),
    _api(FindCoordinatorRequest, FindCoordinatorResponse),
    _api(JoinGroupRequest, JoinGroupResponse),
    _api(HeartbeatRequest, HeartbeatResponse),
    _api(LeaveGroupRequest, LeaveGroupResponse),
    _api(SyncGroupRequest, SyncGroupResponse),
    _api(DescribeGroupsRequest, DescribeGroupsResponse),
    _api(ListGroupsRequest, ListGroupsResponse),
    _api(SaslHandshakeRequest, SaslHandshakeResponse),
    _api(ApiVersionsRequest, ApiVersionsResponse),
    _api(CreateTopicsRequest, CreateTopicsResponse),
    _api(DeleteTopicsRequest, DeleteTopicsResponse),
    _api(DeleteRecordsRequest, DeleteRecordsResponse),
    _api(InitProducerIdRequest, InitProducerIdResponse),
    _api(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
    _api(AddPartitionsToTxnRequest, AddPartitionsToTxnResponse),
    _api(AddOffsetsToTxnRequest, AddOffsetsToTxnResponse),
    _api(EndTxnRequest, EndTxnResponse),
    _api(WriteTxnMarkersRequest, WriteTxnMarkersResponse),
    _api(TxnOffsetCommitRequest, TxnOffsetCommitResponse),
    _api(DescribeAclsRequest, DescribeAclsResponse),
    _api(CreateAclsRequest, CreateAclsResponse),
    _api(DeleteAclsRequest, DeleteAclsResponse),
    _api(DescribeConfigsRequest, DescribeConfigsResponse),
    _api(AlterConfigsRequest, AlterConfigsResponse),
    _api(AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse),
    _api(DescribeLogDirsRequest, DescribeLogDirsResponse),
    _api(SaslAuthenticateRequest, SaslAuthenticateResponse),
    _api(CreatePartitionsRequest, CreatePartitionsResponse),
    _api(CreateDelegationTokenRequest, CreateDelegationTokenResponse),
    _api(RenewDelegationTokenRequest, RenewDelegationTokenResponse),
    _api(ExpireDelegationTokenRequest, ExpireDelegationTokenResponse),
    _api(DescribeDelegationTokenRequest, DescribeDelegationTokenResponse),
    _api(DeleteGroupsRequest, DeleteGroupsResponse),
    _api(ElectLeadersRequest, ElectLeadersResponse),
    _api(IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse),
    _api(AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse),
    _api(ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse),
    _api(OffsetDeleteRequest, OffsetDeleteResponse),
    _api(DescribeClientQuotasRequest, DescribeClientQuotasResponse),
    _api(AlterClientQuotasRequest, AlterClientQuotasResponse),
    _api(DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse),
    _api(AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse),
    _api(DescribeQuorumRequest, DescribeQuorumResponse),
    _api(UpdateFeaturesRequest, UpdateFeaturesResponse),
    _api(DescribeClusterRequest, DescribeClusterResponse),
    _api(DescribeProducersRequest, DescribeProducersResponse),
    _api(UnregisterBrokerRequest, UnregisterBrokerResponse),
    _api(DescribeTransactionsRequest, DescribeTransactionsResponse),
    _api(ListTransactionsRequest, ListTransactionsResponse),
    _api(AllocateProducerIdsRequest, AllocateProducerIdsResponse),
    _api(ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse),
    _api(ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse),
    _api(GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse),
    _api(PushTelemetryRequest, PushTelemetryResponse),
    _api(ListConfigResourcesRequest, ListConfigResourcesResponse),
    _api(DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse),
    _api(ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse),
    _api(ShareGroupDescribeRequest, ShareGroupDescribeResponse),
    _api(ShareFetchRequest, ShareFetchResponse),
    _api(ShareAcknowledgeRequest, ShareAcknowledgeResponse),
    _api(AddRaftVoterRequest, AddRaftVoterResponse),
    _api(RemoveRaftVoterRequest, RemoveRaftVoterResponse),
    _api(StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse),
    _api(StreamsGroupDescribeRequest, StreamsGroupDescribeResponse),
    _api(DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse),
    _api(AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse),
    _api(DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse),
)
APIS: dict[int, Api] = {api.key: api for api in _ALL}
