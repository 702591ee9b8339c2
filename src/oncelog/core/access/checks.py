"""Which check stands before which API; a test holds the table against all APIs that are served.

Fetch is not here: its session remembers partitions, so the handler asks for each of them (`Caller.may_on_topic`).
"""

from __future__ import annotations

from oncelog.core.access import check_cluster as admin
from oncelog.core.access import check_groups as groups
from oncelog.core.access import check_offsets as offsets
from oncelog.core.access import check_records as records
from oncelog.core.access import check_shares as shares
from oncelog.core.access import check_streams_groups as streams_groups
from oncelog.core.access import check_topics as topics
from oncelog.core.access import check_transactions as transactions
from oncelog.core.access.passage import Check
from oncelog.wire.api import ApiKey

CHECKS: dict[ApiKey, Check] = {
    ApiKey.PRODUCE: records.check_produce,
    ApiKey.LIST_OFFSETS: records.check_list_offsets,
    ApiKey.METADATA: topics.check_metadata,
    ApiKey.OFFSET_COMMIT: offsets.check_offset_commit,
    ApiKey.OFFSET_FETCH: offsets.check_offset_fetch,
    ApiKey.FIND_COORDINATOR: groups.check_find_coordinator,
    ApiKey.JOIN_GROUP: groups.check_join_group,
    ApiKey.HEARTBEAT: groups.check_heartbeat,
    ApiKey.LEAVE_GROUP: groups.check_leave_group,
    ApiKey.SYNC_GROUP: groups.check_sync_group,
    ApiKey.DESCRIBE_GROUPS: groups.check_describe_groups,
    ApiKey.LIST_GROUPS: groups.check_list_groups,
    ApiKey.CREATE_TOPICS: topics.check_create_topics,
    ApiKey.DELETE_TOPICS: topics.check_delete_topics,
    ApiKey.DELETE_RECORDS: records.check_delete_records,
    ApiKey.INIT_PRODUCER_ID: transactions.check_init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: records.check_offset_for_leader_epoch,
    ApiKey.ADD_PARTITIONS_TO_TXN: transactions.check_add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: transactions.check_add_offsets,
    ApiKey.END_TXN: transactions.check_end_txn,
    ApiKey.WRITE_TXN_MARKERS: transactions.check_write_markers,
    ApiKey.TXN_OFFSET_COMMIT: transactions.check_txn_offset_commit,
    ApiKey.DESCRIBE_ACLS: admin.check_describe_acls,
    ApiKey.CREATE_ACLS: admin.check_create_acls,
    ApiKey.DELETE_ACLS: admin.check_delete_acls,
    ApiKey.DESCRIBE_CONFIGS: admin.check_describe_configs,
    ApiKey.ALTER_CONFIGS: admin.check_alter_configs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: admin.check_alter_replica_log_dirs,
    ApiKey.DESCRIBE_LOG_DIRS: admin.check_describe_log_dirs,
    ApiKey.CREATE_PARTITIONS: topics.check_create_partitions,
    ApiKey.DELETE_GROUPS: groups.check_delete_groups,
    ApiKey.ELECT_LEADERS: admin.check_elect_leaders,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: admin.check_incremental_alter_configs,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: admin.check_alter_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: admin.check_list_reassignments,
    ApiKey.OFFSET_DELETE: offsets.check_offset_delete,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: admin.check_describe_quotas,
    ApiKey.ALTER_CLIENT_QUOTAS: admin.check_alter_quotas,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: admin.check_describe_credentials,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: admin.check_alter_credentials,
    ApiKey.DESCRIBE_QUORUM: admin.check_describe_quorum,
    ApiKey.UPDATE_FEATURES: admin.check_update_features,
    ApiKey.DESCRIBE_CLUSTER: admin.check_describe_cluster,
    ApiKey.DESCRIBE_PRODUCERS: records.check_describe_producers,
    ApiKey.UNREGISTER_BROKER: admin.check_unregister_broker,
    ApiKey.DESCRIBE_TRANSACTIONS: transactions.check_describe_transactions,
    ApiKey.LIST_TRANSACTIONS: transactions.check_list_transactions,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: groups.check_consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: groups.check_consumer_group_describe,
    ApiKey.STREAMS_GROUP_HEARTBEAT: streams_groups.check_streams_group_heartbeat,
    ApiKey.STREAMS_GROUP_DESCRIBE: streams_groups.check_streams_group_describe,
    ApiKey.SHARE_GROUP_HEARTBEAT: shares.check_share_group_heartbeat,
    ApiKey.SHARE_GROUP_DESCRIBE: shares.check_share_group_describe,
    ApiKey.SHARE_FETCH: shares.check_share_fetch,
    ApiKey.SHARE_ACKNOWLEDGE: shares.check_share_acknowledge,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: shares.check_describe_share_group_offsets,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: shares.check_alter_share_group_offsets,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: shares.check_delete_share_group_offsets,
    ApiKey.LIST_CONFIG_RESOURCES: admin.check_list_config_resources,
    ApiKey.ADD_RAFT_VOTER: admin.check_add_raft_voter,
    ApiKey.REMOVE_RAFT_VOTER: admin.check_remove_raft_voter,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: topics.check_describe_topic_partitions,
}
# Answered to everybody: they tell nothing of the cluster's contents, or refuse by themselves.
OPEN_TO_ALL = frozenset(
    (
        ApiKey.API_VERSIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        ApiKey.FETCH,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKey.PUSH_TELEMETRY,
    )
)
