"""Requests that are right, from an address to which the authorizer allows nothing."""

from __future__ import annotations

from functools import cache

from evidence.simulator.strangers.records import batch, delete_records, fetch, list_offsets, produce, transactional
from evidence.simulator.strangers.requests import (
    alter,
    commit,
    create,
    delete,
    end,
    feature,
    init,
    join,
    marker,
    member_heartbeat,
    more_partitions,
    txn_offsets,
)
from evidence.simulator.strangers.wrong import GROUP, MARK, TOPIC, Wrong, wrong
from oncelog.core.metadata.acl import CLUSTER_NAME, WILDCARD
from oncelog.errors import ErrorCode as E
from oncelog.wire.access_rules import Operation, PatternType, Permission, ResourceType
from oncelog.wire.log_records.cluster_metadata import AclRecord
from oncelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from oncelog.wire.messages.create_acls import AclCreation, CreateAclsRequest
from oncelog.wire.messages.delete_groups import DeleteGroupsRequest
from oncelog.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from oncelog.wire.messages.find_coordinator import FindCoordinatorRequest
from oncelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

DENIED_HOST = "10.6.6.6"
_RESOURCES = (
    (ResourceType.TOPIC, WILDCARD),
    (ResourceType.GROUP, WILDCARD),
    (ResourceType.CLUSTER, CLUSTER_NAME),
    (ResourceType.TRANSACTIONAL_ID, WILDCARD),
)


def rules() -> list[AclRecord]:
    """Everybody may do everything, but from one address nothing."""
    return [
        AclRecord(
            acl_id=bytes([number + 1]) * 16,
            resource_type=resource_type,
            resource_name=name,
            pattern_type=PatternType.LITERAL,
            principal="User:*",
            host=host,
            operation=Operation.ALL,
            permission_type=permission,
        )
        for number, (resource_type, name, host, permission) in enumerate(
            (resource_type, name, host, permission)
            for resource_type, name in _RESOURCES
            for host, permission in ((WILDCARD, Permission.ALLOW), (DENIED_HOST, Permission.DENY))
        )
    ]


@cache
def denied_requests() -> tuple[Wrong, ...]:
    """Each would be served if another asked."""
    topic, group, cluster = E.TOPIC_AUTHORIZATION_FAILED, E.GROUP_AUTHORIZATION_FAILED, E.CLUSTER_AUTHORIZATION_FAILED
    identity, somebody = E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "client-0"
    verified = AddPartitionsToTxnTransaction(
        transactional_id=somebody, topics=[AddPartitionsToTxnTopic(name="a", partitions=[0])]
    )
    rule = AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name=TOPIC,
        principal=f"User:{MARK}user",
        host=WILDCARD,
        operation=Operation.ALL,
        permission_type=Permission.ALLOW,
    )
    return (
        wrong("denied: a record", produce("a", batch()), 9, topic),
        wrong("denied: a transaction", produce("a", transactional(7, 0), transactional_id=somebody), 12, identity),
        wrong("denied: reads", fetch("a"), 12, topic),  # type: ignore[arg-type]
        wrong("denied: looks for offsets", list_offsets("a", -1), 6, topic),
        wrong("denied: deletes records", delete_records("a", 0), 2, topic),
        wrong("denied: metadata", MetadataRequest(topics=[MetadataRequestTopic(name="a")]), 9, topic),
        wrong("denied: looks for producers", _producers(), 0, topic),
        wrong("denied: a position", commit(GROUP), 8, group),
        wrong("denied: joins", join(GROUP), 5, group),
        wrong("denied: a member", member_heartbeat(GROUP, "m", 0, subscribed_topic_names=["a"]), 1, group),
        wrong("denied: deletes groups", DeleteGroupsRequest(groups_names=["group-0"]), 2, group),
        wrong("denied: looks for a group", FindCoordinatorRequest(coordinator_keys=[GROUP]), 4, group),
        wrong("denied: an idempotent producer", init(None), 4, cluster),
        wrong("denied: somebody's id", init(somebody), 4, identity),
        wrong("denied: somebody's end", end(somebody), 5, identity),
        wrong("denied: somebody's positions", txn_offsets(somebody, GROUP), 3, identity),
        wrong("denied: verifies", AddPartitionsToTxnRequest(transactions=[verified]), 4, cluster),
        wrong("denied: a marker", marker(7, 0), 1, cluster),
        wrong("denied: a topic", create(TOPIC), 5, topic, cluster),
        wrong("denied: more partitions", more_partitions("a", 9), 2, topic),
        wrong("denied: deletes a topic", delete("a"), 6, topic),
        wrong("denied: configures", alter("a", "segment.bytes", "2000000"), 1, topic),
        wrong("denied: a level", feature("transaction.version", 3), 1, cluster),
        wrong("denied: a rule", CreateAclsRequest(creations=[rule]), 2, cluster),
    )


def _producers() -> DescribeProducersRequest:
    return DescribeProducersRequest(topics=[TopicRequest(name="a", partition_indexes=[0])])
