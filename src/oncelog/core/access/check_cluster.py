"""Checks of the requests about the cluster: configs, access rules, quotas, credentials, features, replicas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oncelog.core.access.check_topics import cluster_operations
from oncelog.core.access.passage import Caller, Check, Passage
from oncelog.core.metadata.cluster import GROUP_RESOURCE, TOPIC_RESOURCE
from oncelog.errors import ErrorCode
from oncelog.wire.access_rules import Operation
from oncelog.wire.messages.add_raft_voter import AddRaftVoterResponse
from oncelog.wire.messages.alter_client_quotas import AlterClientQuotasResponse, EntryDataResponse
from oncelog.wire.messages.alter_configs import AlterConfigsResourceResponse as WholeResponse
from oncelog.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsResponse
from oncelog.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from oncelog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from oncelog.wire.messages.create_acls import AclCreationResult, CreateAclsResponse
from oncelog.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsResponse
from oncelog.wire.messages.describe_acls import DescribeAclsResponse
from oncelog.wire.messages.describe_client_quotas import DescribeClientQuotasResponse
from oncelog.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from oncelog.wire.messages.describe_configs import DescribeConfigsResult
from oncelog.wire.messages.describe_log_dirs import DescribeLogDirsResponse
from oncelog.wire.messages.describe_quorum import DescribeQuorumResponse
from oncelog.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsResponse
from oncelog.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from oncelog.wire.messages.incremental_alter_configs import AlterConfigsResourceResponse
from oncelog.wire.messages.list_config_resources import ListConfigResourcesResponse
from oncelog.wire.messages.list_partition_reassignments import ListPartitionReassignmentsResponse
from oncelog.wire.messages.remove_raft_voter import RemoveRaftVoterResponse
from oncelog.wire.messages.unregister_broker import UnregisterBrokerResponse
from oncelog.wire.messages.update_features import UpdateFeaturesResponse

E = ErrorCode
DENIED = E.CLUSTER_AUTHORIZATION_FAILED
MESSAGE = "Cluster authorization failed."
_TEXTS = {
    E.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    E.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    DENIED: MESSAGE,
}


def cluster_check(operation: Operation, refused: Callable[[Any], Any]) -> Check:
    """The check of a request that needs one right to the cluster; `refused` makes the reply when the right is missing."""

    def check(caller: Caller, message: Any, _version: int) -> Passage | None:
        return None if caller.may_on_cluster(operation) else Passage(reply=refused(message))

    return check


def _denied(kind: type[Any], *, has_text: bool = True) -> Callable[[Any], Any]:
    more = {"error_message": MESSAGE} if has_text else {}
    return lambda _message: kind(error_code=DENIED, **more)


def _acls_not_created(message: Any) -> CreateAclsResponse:
    result = AclCreationResult(error_code=DENIED, error_message=MESSAGE)
    return CreateAclsResponse(results=[result] * len(message.creations))


def _acls_not_deleted(message: Any) -> DeleteAclsResponse:
    result = DeleteAclsFilterResult(error_code=DENIED, error_message=MESSAGE)
    return DeleteAclsResponse(filter_results=[result] * len(message.filters))


def _quotas_not_altered(message: Any) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            EntryDataResponse(error_code=DENIED, error_message=MESSAGE, entity=entry.entity)
            for entry in message.entries
        ]
    )


def _credentials_not_altered(message: Any) -> AlterUserScramCredentialsResponse:
    names = dict.fromkeys(each.name for each in [*message.deletions, *message.upsertions])
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(user=name, error_code=DENIED, error_message=MESSAGE) for name in names]
    )


def _replicas_not_moved(message: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=DENIED)
                    for index in topic.partitions
                ],
            )
            for directory in message.dirs
            for topic in directory.topics
        ]
    )


check_describe_acls = cluster_check(Operation.DESCRIBE, _denied(DescribeAclsResponse))
check_create_acls = cluster_check(Operation.ALTER, _acls_not_created)
check_delete_acls = cluster_check(Operation.ALTER, _acls_not_deleted)
check_describe_quotas = cluster_check(
    Operation.DESCRIBE_CONFIGS,
    lambda _message: DescribeClientQuotasResponse(error_code=DENIED, error_message=MESSAGE, entries=None),
)
check_alter_quotas = cluster_check(Operation.ALTER_CONFIGS, _quotas_not_altered)
check_describe_credentials = cluster_check(Operation.DESCRIBE, _denied(DescribeUserScramCredentialsResponse))
check_alter_credentials = cluster_check(Operation.ALTER, _credentials_not_altered)
check_alter_replica_log_dirs = cluster_check(Operation.ALTER, _replicas_not_moved)
check_describe_log_dirs = cluster_check(Operation.DESCRIBE, _denied(DescribeLogDirsResponse, has_text=False))
check_alter_reassignments = cluster_check(Operation.ALTER, _denied(AlterPartitionReassignmentsResponse))
check_list_reassignments = cluster_check(Operation.DESCRIBE, _denied(ListPartitionReassignmentsResponse))
check_describe_quorum = cluster_check(Operation.DESCRIBE, _denied(DescribeQuorumResponse))
check_update_features = cluster_check(Operation.ALTER, _denied(UpdateFeaturesResponse))
check_unregister_broker = cluster_check(Operation.ALTER, _denied(UnregisterBrokerResponse))
check_add_raft_voter = cluster_check(Operation.ALTER, _denied(AddRaftVoterResponse))
check_remove_raft_voter = cluster_check(Operation.ALTER, _denied(RemoveRaftVoterResponse))
check_list_config_resources = cluster_check(
    Operation.DESCRIBE_CONFIGS, _denied(ListConfigResourcesResponse, has_text=False)
)


def check_elect_leaders(caller: Caller, message: ElectLeadersRequest, version: int) -> Passage | None:
    """The cluster to alter. v0 has no error of its own: every partition carries it."""
    if caller.may_on_cluster(Operation.ALTER):
        return None
    results = [
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[
                PartitionResult(partition_id=index, error_code=DENIED, error_message=MESSAGE)
                for index in topic.partitions
            ],
        )
        for topic in message.topic_partitions or []
    ]
    code = DENIED if version >= 1 else E.NONE
    return Passage(reply=ElectLeadersResponse(error_code=code, replica_election_results=results))


def check_describe_cluster(caller: Caller, message: DescribeClusterRequest, _version: int) -> Passage | None:
    """Everybody may ask; only the operations field depends on the caller."""
    if not message.include_cluster_authorized_operations:
        return None

    def complete(reply: DescribeClusterResponse) -> DescribeClusterResponse:
        if reply.error_code == E.NONE:
            reply.cluster_authorized_operations = cluster_operations(caller)
        return reply

    return Passage(message, complete=complete)


def config_check(operation: Operation, refused: Callable[..., Any], into: str) -> Check:
    """The check of requests about configs: a topic's, a group's, or else the cluster's right."""

    def code_of(caller: Caller, resource_type: int, name: str) -> ErrorCode:
        if resource_type == TOPIC_RESOURCE:
            return E.NONE if caller.may_on_topic(operation, name) else E.TOPIC_AUTHORIZATION_FAILED
        if resource_type == GROUP_RESOURCE:
            return E.NONE if caller.may_on_group(operation, name) else E.GROUP_AUTHORIZATION_FAILED
        return E.NONE if caller.may_on_cluster(operation) else DENIED

    def check(caller: Caller, message: Any, _version: int) -> Passage | None:
        codes = [code_of(caller, each.resource_type, each.resource_name) for each in message.resources]
        if not any(codes):
            return None
        passed = [each for each, code in zip(message.resources, codes, strict=True) if not code]
        answers = [
            refused(
                error_code=code,
                error_message=_TEXTS[code],
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each, code in zip(message.resources, codes, strict=True)
            if code
        ]

        def complete(reply: Any) -> Any:
            setattr(reply, into, [*getattr(reply, into), *answers])
            return reply

        return Passage(message.replace(resources=passed), complete=complete)

    return check


check_describe_configs = config_check(Operation.DESCRIBE_CONFIGS, DescribeConfigsResult, "results")
check_alter_configs = config_check(Operation.ALTER_CONFIGS, WholeResponse, "responses")
check_incremental_alter_configs = config_check(Operation.ALTER_CONFIGS, AlterConfigsResourceResponse, "responses")
