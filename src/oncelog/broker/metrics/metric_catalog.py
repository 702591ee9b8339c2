"""Every metric there is: its name, kind, labels, what it says, and which of Kafka's it spells.

Kafka's metrics have the names that the JMX exporter gives them (MBean path in lower case; a meter's count ends in
`_total`), so alerts written for a Kafka cluster fit; the others begin with `oncelog_`. docs/metrics.md is this table.
"""

from __future__ import annotations

from oncelog.broker.metrics.histogram import COUNTS, LAG_MS, REQUEST_MS, SYNC_MS
from oncelog.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Family:
    """One metric. `kafka` is the MBean it spells, or nothing; `bounds` belong to a histogram."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()
    kafka: str = ""
    bounds: tuple[float, ...] = ()


def _counter(name: str, text: str, *labels: str, kafka: str = "") -> Family:
    return Family(f"{name}_total", "counter", text, labels, kafka)


def _gauge(name: str, text: str, *labels: str, kafka: str = "") -> Family:
    return Family(name, "gauge", text, labels, kafka)


def _histogram(name: str, bounds: tuple[float, ...], text: str, *labels: str, kafka: str = "") -> Family:
    return Family(name, "histogram", text, labels, kafka, bounds)


_REQUEST = "kafka.network:type=RequestMetrics,name="
_TOPIC = "kafka.server:type=BrokerTopicMetrics,name="
_REPLICA = "kafka.server:type=ReplicaManager,name="
_CLEANER = "kafka.log:type=LogCleaner,name="
_CLEANER_MANAGER = "kafka.log:type=LogCleanerManager,name="
_GATE = "kafka.server:type=AddPartitionsToTxnManager,name="
_SOCKET = "kafka.server:type=socket-server-metrics,name="
_CLIENT_METRICS = "kafka.server:type=client-metrics,name="
_SESSIONS = "kafka.server:type=FetchSessionCache,name="

FAMILIES: dict[str, Family] = {
    # requests
    "requests": _counter(
        "kafka_network_requestmetrics_requests",
        "Requests answered.",
        *("request", "version"),
        kafka=f"{_REQUEST}RequestsPerSec",
    ),
    "errors": _counter(
        "kafka_network_requestmetrics_errors",
        "Errors in responses, wherever in them; NONE is not counted.",
        *("request", "error"),
        kafka=f"{_REQUEST}ErrorsPerSec",
    ),
    "request_ms": _histogram(
        "kafka_network_requestmetrics_totaltimems",
        REQUEST_MS,
        "Milliseconds from a request's begin to its response, waiting for data, members and syncs included.",
        "request",
        kafka=f"{_REQUEST}TotalTimeMs",
    ),
    "requests_in_flight": _gauge("oncelog_requests_in_flight", "Requests received and not answered yet."),
    "malformed_requests": _counter("oncelog_malformed_requests", "Connections closed because of what came in on them."),
    "handler_failures": _counter(
        "oncelog_handler_failures", "Requests that failed with an unexpected exception: bugs."
    ),
    "limits_hit": _counter("oncelog_limits_hit", "How often a limit was met: docs/limits.md.", "limit"),
    # topics
    "messages_in": _counter(
        "kafka_server_brokertopicmetrics_messagesin", "Records appended.", "topic", kafka=f"{_TOPIC}MessagesInPerSec"
    ),
    "bytes_in": _counter(
        "kafka_server_brokertopicmetrics_bytesin",
        "Bytes of record batches appended.",
        "topic",
        kafka=f"{_TOPIC}BytesInPerSec",
    ),
    "bytes_out": _counter(
        "kafka_server_brokertopicmetrics_bytesout",
        "Bytes of record batches in fetch responses that were sent; what a quota held back is not.",
        "topic",
        kafka=f"{_TOPIC}BytesOutPerSec",
    ),
    "produce_duplicates": _counter("oncelog_produce_duplicates", "Batches that were sent again and found in the log."),
    # connections
    "connections": _gauge(
        "kafka_server_socket_server_metrics_connection_count", "Open connections.", kafka=f"{_SOCKET}connection-count"
    ),
    "connections_accepted": _counter(
        "kafka_server_socket_server_metrics_connection_creation",
        "Connections accepted.",
        kafka=f"{_SOCKET}connection-creation-total",
    ),
    "connections_refused": _counter("oncelog_connections_refused", "Connections closed as soon as they came."),
    "authorization_failures": _counter("oncelog_authorization_failures", "Requests that the authorizer refused whole."),
    "connections_unauthenticated": _gauge(
        "oncelog_connections_unauthenticated", "Open connections of SASL listeners that have not authenticated."
    ),
    "authentications": _counter(
        "kafka_server_socket_server_metrics_successful_authentication",
        "Connections that authenticated.",
        kafka=f"{_SOCKET}successful-authentication-total",
    ),
    "authentications_failed": _counter(
        "kafka_server_socket_server_metrics_failed_authentication",
        "Connections that failed to authenticate.",
        kafka=f"{_SOCKET}failed-authentication-total",
    ),
    "reauthentications": _counter(
        "kafka_server_socket_server_metrics_successful_reauthentication",
        "Sessions that began again on a living connection.",
        kafka=f"{_SOCKET}successful-reauthentication-total",
    ),
    "reauthentications_failed": _counter(
        "kafka_server_socket_server_metrics_failed_reauthentication",
        "Sessions that failed to begin again.",
        kafka=f"{_SOCKET}failed-reauthentication-total",
    ),
    "sessions_expired": _counter(
        "kafka_server_socket_server_metrics_expired_connections_killed",
        "Connections closed because their session had ended.",
        kafka=f"{_SOCKET}expired-connections-killed-count",
    ),
    "oauthbearer_key_sets": _counter(
        "oncelog_oauthbearer_key_sets", "Times that a listener took over other keys for tokens."
    ),
    "oauthbearer_key_set_failures": _counter(
        "oncelog_oauthbearer_key_set_failures", "Times that keys for tokens could not be had."
    ),
    "delegation_tokens_expired": _counter(
        "oncelog_delegation_tokens_expired", "Delegation tokens that were forgotten after their end."
    ),
    "tls_reloads": _counter("oncelog_tls_reloads", "Times that a listener took over other keys or certificates."),
    "connections_closed_idle": _counter("oncelog_connections_closed_idle", "Connections closed after silence."),
    "unsent_reply_bytes": _gauge("oncelog_unsent_reply_bytes", "Bytes of replies that slow clients have not read yet."),
    # partitions
    "partitions": _gauge(
        "kafka_server_replicamanager_partitioncount", "Partitions in use.", kafka=f"{_REPLICA}PartitionCount"
    ),
    "partitions_offline": _gauge(
        "kafka_server_replicamanager_offlinereplicacount",
        "Partitions that take nothing more: their disk refused a write or a sync, or their files are damaged or gone.",
        kafka=f"{_REPLICA}OfflineReplicaCount",
    ),
    "uncleanable_partitions": _gauge(
        "kafka_log_logcleanermanager_uncleanablepartitionscount",
        "Compacted partitions that are not cleaned any more, because their data could not be read.",
        kafka=f"{_CLEANER_MANAGER}uncleanable-partitions-count",
    ),
    "log_cleaner_dirty_percent_max": _gauge(
        "kafka_log_logcleanermanager_maxdirtypercent",
        "The largest dirty share of a compacted partition, when the cleaner looked last.",
        kafka=f"{_CLEANER_MANAGER}max-dirty-percent",
    ),
    "log_cleaner_seconds": _gauge(
        "kafka_log_logcleaner_maxcleantimesecs",
        "How long the last cleaning took.",
        kafka=f"{_CLEANER}max-clean-time-secs",
    ),
    "log_cleaner_recopy_percent": _gauge(
        "kafka_log_logcleaner_cleanerrecopypercent",
        "The share of what the last cleaning read that it wrote again.",
        kafka=f"{_CLEANER}cleaner-recopy-percent",
    ),
    "log_cleaner_buffer_percent": _gauge(
        "kafka_log_logcleaner_maxbufferutilizationpercent",
        "The share of log.cleaner.dedupe.buffer.size that the last cleaning used.",
        kafka=f"{_CLEANER}max-buffer-utilization-percent",
    ),
    "log_cleanings": _counter("oncelog_log_cleanings", "Partitions cleaned."),
    "log_cleaner_bytes_removed": _counter("oncelog_log_cleaner_bytes_removed", "Bytes that cleanings have removed."),
    "log_segments_given_up": _counter("oncelog_log_segments_given_up", "Segments that retention has given up."),
    "journal_segments": _gauge(
        "oncelog_journal_segments", "Segments of the journal, free ones included; 0 without one."
    ),
    "journal_segments_in_use": _gauge(
        "oncelog_journal_segments_in_use",
        "Segments that wait for the data files' sync, up to oncelog.journal.max.bytes.",
    ),
    "journal_pending_bytes": _gauge(
        "oncelog_journal_pending_bytes", "What was appended and is in no entry of the journal yet."
    ),
    "deleted_files": _gauge("oncelog_deleted_files", "Files of such segments that wait for file.delete.delay.ms."),
    "producer_ids": _gauge(
        "kafka_server_replicamanager_produceridcount",
        "Producer ids remembered, over all partitions.",
        kafka=f"{_REPLICA}ProducerIdCount",
    ),
    "partitions_with_late_transactions": _gauge(
        "kafka_server_replicamanager_partitionswithlatetransactionscount",
        "Partitions with a transaction open for longer than transaction.max.timeout.ms and five minutes (KIP-664).",
        kafka=f"{_REPLICA}PartitionsWithLateTransactionsCount",
    ),
    "partition_last_stable_offset_lag": _gauge(
        "kafka_cluster_partition_laststableoffsetlag",
        "High watermark less last stable offset; only of partitions where it is not zero, the 100 largest.",
        *("topic", "partition"),
        kafka="kafka.cluster:type=Partition,name=LastStableOffsetLag",
    ),
    "last_stable_offset_lag": _gauge("oncelog_last_stable_offset_lag", "The same, added up over all partitions."),
    "open_transactions": _gauge(
        "oncelog_open_transactions", "Transactions without marker, added up over all partitions."
    ),
    # fetches
    "fetch_sessions": _gauge(
        "kafka_server_fetchsessioncache_numincrementalfetchsessions",
        "Fetch sessions.",
        kafka=f"{_SESSIONS}NumIncrementalFetchSessions",
    ),
    "share_sessions": _gauge("oncelog_share_sessions", "Sessions of share groups' members."),
    "share_partitions": _gauge("oncelog_share_partitions", "Partitions in use by share groups, each for itself."),
    "share_records_in_flight": _gauge(
        "oncelog_share_records_in_flight", "Records that members of share groups have, or gave back and nobody has yet."
    ),
    "fetch_session_partitions": _gauge(
        "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached",
        "Partitions in fetch sessions.",
        kafka=f"{_SESSIONS}NumIncrementalFetchPartitionsCached",
    ),
    # transactions
    "verification_ms": _histogram(
        "kafka_server_addpartitionstotxnmanager_verificationtimems",
        REQUEST_MS,
        "Milliseconds until the transaction coordinator's word for a partition was there (KIP-890).",
        kafka=f"{_GATE}VerificationTimeMs",
    ),
    "verification_failures": _counter(
        "kafka_server_addpartitionstotxnmanager_verificationfailurerate",
        "Partitions that were not agreed to (KIP-890).",
        kafka=f"{_GATE}VerificationFailureRate",
    ),
    "gate_questions": _gauge("oncelog_gate_questions", "Transactions that wait for the coordinator's word."),
    "active_transaction_open_time_max_ms": _gauge(
        "kafka_coordinator_transaction_transactionstatemanager_activetransactionopentimemaxms",
        "Age of the oldest open transaction (KIP-939).",
        kafka="kafka.coordinator.transaction:type=TransactionStateManager,name=ActiveTransactionOpenTimeMaxMs",
    ),
    "transactional_ids": _gauge("oncelog_transactional_ids", "Transactional ids that the coordinators know."),
    "markers_queued": _gauge(
        "oncelog_markers_queued",
        "Decided transactions whose markers are not all written yet, those that an offline partition refuses included.",
    ),
    "transaction_load_ms_max": _gauge(
        "kafka_server_transaction_coordinator_metrics_partition_load_time_max",
        "Milliseconds that the slowest load of a coordinator partition took, since the start.",
        kafka="kafka.server:type=transaction-coordinator-metrics,name=partition-load-time-max",
    ),
    "transaction_load_ms_avg": _gauge(
        "kafka_server_transaction_coordinator_metrics_partition_load_time_avg",
        "The same, on average.",
        kafka="kafka.server:type=transaction-coordinator-metrics,name=partition-load-time-avg",
    ),
    # groups
    "groups": _gauge(
        "kafka_coordinator_group_groupmetadatamanager_numgroups",
        "Groups that the coordinators know.",
        kafka="kafka.coordinator.group:type=GroupMetadataManager,name=NumGroups",
    ),
    "group_load_ms_max": _gauge(
        "kafka_server_group_coordinator_metrics_partition_load_time_max",
        "Milliseconds that the slowest load of a coordinator partition took, since the start.",
        kafka="kafka.server:type=group-coordinator-metrics,name=partition-load-time-max",
    ),
    "group_load_ms_avg": _gauge(
        "kafka_server_group_coordinator_metrics_partition_load_time_avg",
        "The same, on average.",
        kafka="kafka.server:type=group-coordinator-metrics,name=partition-load-time-avg",
    ),
    "audit_records": _counter("oncelog_audit_records", "Decisions written to __oncelog_audit."),
    "audit_dropped": _counter(
        "oncelog_audit_dropped", "Decisions that were not: too many at once, or it is not writable."
    ),
    # what clients push (KIP-714)
    "client_instances": _gauge(
        "kafka_server_client_metrics_instance_count",
        "Clients that push metrics, or have asked whether they are to.",
        kafka=f"{_CLIENT_METRICS}instance-count",
    ),
    "client_pushes": _counter(
        "kafka_server_client_metrics_plugin_export",
        "Pushes of clients that were taken.",
        kafka=f"{_CLIENT_METRICS}plugin-export-count",
    ),
    "client_push_failures": _counter(
        "kafka_server_client_metrics_plugin_error",
        "Pushes that could not be read.",
        kafka=f"{_CLIENT_METRICS}plugin-error-count",
    ),
    "client_metrics_throttled": _counter(
        "kafka_server_client_metrics_throttle",
        "Questions and pushes that came before their time.",
        kafka=f"{_CLIENT_METRICS}throttle-count",
    ),
    "client_subscriptions_unknown": _counter(
        "kafka_server_client_metrics_unknown_subscription_request",
        "Pushes for subscriptions that have changed meanwhile.",
        kafka=f"{_CLIENT_METRICS}unknown-subscription-request-count",
    ),
    "client_gauge": _gauge(
        "oncelog_client_gauge",
        "What clients pushed of their gauges, under KIP-714's names.",
        *("metric", "client_id", "client_instance_id", "attributes"),
    ),
    "client_counter": _counter(
        "oncelog_client_counter",
        "What clients pushed of their sums that only grow.",
        *("metric", "client_id", "client_instance_id", "attributes"),
    ),
    # disk and process
    "sync_ms": _histogram(
        "kafka_log_logflushstats_logflushrateandtimems",
        SYNC_MS,
        "Milliseconds of one group commit's syncs.",
        kafka="kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
    ),
    "sync_files": _histogram("oncelog_sync_files", COUNTS, "Files synced by one group commit."),
    "sync_commits": _histogram("oncelog_sync_commits", COUNTS, "Appends that waited for one group commit."),
    "event_loop_lag_ms": _histogram(
        "oncelog_event_loop_lag_ms", LAG_MS, "Milliseconds that the event loop came late, asked twice a second."
    ),
    "metadata_changes": _counter("oncelog_metadata_changes", "Batches of cluster metadata taken over."),
    "feature_level": _gauge(
        "kafka_server_node_metrics_finalized_feature_level",
        "Finalized feature levels.",
        "feature",
        kafka="kafka.server:type=node-metrics,name=finalized-feature-level",
    ),
}


def table() -> str:
    """docs/metrics.md's table."""
    rows = ["| metric | kind | labels | what it says | in Apache Kafka |", "|---|---|---|---|---|"]
    for family in FAMILIES.values():
        labels = ", ".join(family.labels)
        kafka = f"`{family.kafka}`" if family.kafka else ""
        rows.append(f"| `{family.name}` | {family.kind} | {labels} | {family.help} | {kafka} |")
    return "\n".join(rows)
