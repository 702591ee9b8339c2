"""One file per API, each with one `handle(node, request)`. It asks a core and performs its answer.

What it decides itself is the form of its request, and what only the broker knows (a partition is offline).

`MODULES` is what the broker serves; what is not in it is not advertised. A handler is imported with its first request,
so a broker that never sees a group never loads one.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Coroutine
from types import CoroutineType
from typing import Any

from oncelog.broker.node import Node
from oncelog.broker.requests.handler_task import begin_in_task
from oncelog.broker.requests.request import Outcome, Reply, Request
from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.core.metadata.features import api_version_max
from oncelog.wire.api import APIS, ApiKey

Handler = Callable[[Node, Request], Outcome | Coroutine[Any, Any, Reply]]

MODULES: dict[ApiKey, str] = {
    ApiKey.PRODUCE: "records.produce",
    ApiKey.FETCH: "records.fetch",
    ApiKey.LIST_OFFSETS: "records.list_offsets",
    ApiKey.METADATA: "metadata.metadata",
    ApiKey.OFFSET_COMMIT: "groups.offset_commit",
    ApiKey.OFFSET_FETCH: "groups.offset_fetch",
    ApiKey.FIND_COORDINATOR: "groups.find_coordinator",
    ApiKey.JOIN_GROUP: "groups.join_group",
    ApiKey.HEARTBEAT: "groups.heartbeat",
    ApiKey.LEAVE_GROUP: "groups.leave_group",
    ApiKey.SYNC_GROUP: "groups.sync_group",
    ApiKey.DESCRIBE_GROUPS: "groups.describe_groups",
    ApiKey.LIST_GROUPS: "groups.list_groups",
    ApiKey.SASL_HANDSHAKE: "single_node.sasl_handshake",
    ApiKey.API_VERSIONS: "metadata.api_versions",
    ApiKey.CREATE_TOPICS: "metadata.create_topics",
    ApiKey.DELETE_TOPICS: "metadata.delete_topics",
    ApiKey.DELETE_RECORDS: "records.delete_records",
    ApiKey.INIT_PRODUCER_ID: "transactions.init_producer_id",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "records.offset_for_leader_epoch",
    ApiKey.ADD_PARTITIONS_TO_TXN: "transactions.add_partitions_to_txn",
    ApiKey.ADD_OFFSETS_TO_TXN: "transactions.add_offsets_to_txn",
    ApiKey.END_TXN: "transactions.end_txn",
    ApiKey.WRITE_TXN_MARKERS: "transactions.write_txn_markers",
    ApiKey.TXN_OFFSET_COMMIT: "transactions.txn_offset_commit",
    ApiKey.DESCRIBE_ACLS: "metadata.describe_acls",
    ApiKey.CREATE_ACLS: "metadata.create_acls",
    ApiKey.DELETE_ACLS: "metadata.delete_acls",
    ApiKey.DESCRIBE_CONFIGS: "metadata.describe_configs",
    ApiKey.ALTER_CONFIGS: "metadata.alter_configs",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "single_node.alter_replica_log_dirs",
    ApiKey.DESCRIBE_LOG_DIRS: "single_node.describe_log_dirs",
    ApiKey.SASL_AUTHENTICATE: "single_node.sasl_authenticate",
    ApiKey.CREATE_PARTITIONS: "metadata.create_partitions",
    ApiKey.CREATE_DELEGATION_TOKEN: "metadata.create_delegation_token",
    ApiKey.RENEW_DELEGATION_TOKEN: "metadata.renew_delegation_token",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "metadata.expire_delegation_token",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "metadata.describe_delegation_token",
    ApiKey.DELETE_GROUPS: "groups.delete_groups",
    ApiKey.ELECT_LEADERS: "single_node.elect_leaders",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "metadata.incremental_alter_configs",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "single_node.alter_partition_reassignments",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "single_node.list_partition_reassignments",
    ApiKey.OFFSET_DELETE: "groups.offset_delete",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "metadata.describe_client_quotas",
    ApiKey.ALTER_CLIENT_QUOTAS: "metadata.alter_client_quotas",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "metadata.describe_user_scram_credentials",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "metadata.alter_user_scram_credentials",
    ApiKey.DESCRIBE_QUORUM: "single_node.describe_quorum",
    ApiKey.UPDATE_FEATURES: "metadata.update_features",
    ApiKey.DESCRIBE_CLUSTER: "metadata.describe_cluster",
    ApiKey.DESCRIBE_PRODUCERS: "records.describe_producers",
    ApiKey.UNREGISTER_BROKER: "single_node.unregister_broker",
    ApiKey.DESCRIBE_TRANSACTIONS: "transactions.describe_transactions",
    ApiKey.LIST_TRANSACTIONS: "transactions.list_transactions",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "groups.consumer_group_heartbeat",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "groups.consumer_group_describe",
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: "telemetry.get_telemetry_subscriptions",
    ApiKey.PUSH_TELEMETRY: "telemetry.push_telemetry",
    ApiKey.LIST_CONFIG_RESOURCES: "metadata.list_config_resources",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "metadata.describe_topic_partitions",
    ApiKey.SHARE_GROUP_HEARTBEAT: "share.share_group_heartbeat",
    ApiKey.SHARE_GROUP_DESCRIBE: "share.share_group_describe",
    ApiKey.SHARE_FETCH: "share.share_fetch",
    ApiKey.SHARE_ACKNOWLEDGE: "share.share_acknowledge",
    ApiKey.ADD_RAFT_VOTER: "single_node.add_raft_voter",
    ApiKey.REMOVE_RAFT_VOTER: "single_node.remove_raft_voter",
    ApiKey.STREAMS_GROUP_HEARTBEAT: "groups.streams_group_heartbeat",
    ApiKey.STREAMS_GROUP_DESCRIBE: "groups.streams_group_describe",
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: "share.describe_share_group_offsets",
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: "share.alter_share_group_offsets",
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: "share.delete_share_group_offsets",
}

_loaded: dict[ApiKey, Handler] = {}


def handler_for(api_key: ApiKey) -> Handler:
    """The handler of a served API."""
    handler = _loaded.get(api_key)
    if handler is None:
        module = importlib.import_module(f"{__name__}.{MODULES[api_key]}")
        handler = _loaded[api_key] = module.handle
    return handler


def answer(node: Node, request: Request) -> Outcome:
    """What the request's handler answers, now or later."""
    outcome = handler_for(request.api_key)(node, request)
    return begin_in_task(request, outcome) if isinstance(outcome, CoroutineType) else outcome


def version_max(metadata: ClusterMetadata, api_key: int) -> int:
    """The newest version of an API that is served now: InitProducerId v6 needs `transaction.version` 3."""
    return api_version_max(api_key, APIS[api_key].max_version, metadata.features)


def serves(metadata: ClusterMetadata, api_key: int, api_version: int) -> bool:
    """Whether a request of this API and version is answered."""
    return api_key in MODULES and APIS[api_key].min_version <= api_version <= version_max(metadata, api_key)
