"""The broker's configuration: Kafka's keys under their own names.

A key `a.b.c` is the field `a_b_c`. A key is honoured here, or Kafka's but named in `unhonoured_keys` (a warning says so),
or unknown (an error with a suggestion): a typing mistake must not pass silently.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field, fields, replace
from functools import cache
from typing import Any, TypeVar, cast

from oncelog.broker.config import group_bounds
from oncelog.broker.config.secret import Secret
from oncelog.broker.config.unhonoured_keys import is_known_to_kafka
from oncelog.core.access.authorizer import FORMER_AUTHORIZER, STANDARD_AUTHORIZER, super_users_of
from oncelog.core.access.listeners import DEFAULT_MAP
from oncelog.core.java_properties import each_property
from oncelog.core.metadata.topic_configs import GZIP_LEVELS
from oncelog.core.number_text import number as number_of
from oncelog.core.number_text import whole_number
from oncelog.errors import ConfigurationError
from oncelog.lazy_dataclass import dataclass

_LONG_MAX = 2**63 - 1
_INT_MAX = 2**31 - 1
_DOUBLE_MAX = 1.7976931348623157e308
DAY_MS = 86_400_000


class ConfigInvalid(ConfigurationError):
    """A configuration that cannot be used; the message is one line for the person who wrote it."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a key accepts; `is_dynamic` keys can be altered while the broker runs."""

    least: int = 0
    most: int = _INT_MAX
    choices: tuple[str, ...] = ()
    is_dynamic: bool = False


def _int(
    default: int, *, least: int = 1, most: int = _INT_MAX, choices: tuple[str, ...] = (), dynamic: bool = False
) -> Any:
    return field(default=default, metadata={"rule": Rule(least, most, choices, dynamic)})


def _long(default: int, *, least: int = 0, dynamic: bool = False) -> Any:
    return _int(default, least=least, most=_LONG_MAX, dynamic=dynamic)


def _double(default: float, *, least: int = 0, most: int = int(_DOUBLE_MAX), dynamic: bool = False) -> Any:
    return field(default=default, metadata={"rule": Rule(least, most, (), dynamic)})


def _bool(default: bool, *, dynamic: bool = False) -> Any:
    return field(default=default, metadata={"rule": Rule(is_dynamic=dynamic)})


def _text(default: str, *choices: str, dynamic: bool = False) -> Any:
    return field(default=default, metadata={"rule": Rule(choices=choices, is_dynamic=dynamic)})


_UNSET = Secret()
_SECRET = {"rule": Rule()}


class ListenerOverrides(dict[str, Any]):
    """Values of `listener.name.*` keys, each of its key's type; shown nowhere."""

    def __repr__(self) -> str:
        return f"{len(self)} keys"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)  # of 200 fields: two methods less to make at each start
class BrokerConfig:
    """Every key the broker honours, with its default (Kafka's, where Kafka has the key and a single node allows it)."""

    # the node and its listeners
    node_id: int = _int(1, least=0)
    broker_id: int = _int(1, least=-1)
    log_dirs: str = _text("")
    log_dir: str = _text("")
    listeners: str = _text("")
    advertised_listeners: str = _text("")
    controller_listener_names: str = _text("")
    listener_security_protocol_map: str = _text(DEFAULT_MAP)
    listener_overrides: ListenerOverrides = field(default_factory=ListenerOverrides, repr=False)  # listener.name.*
    # who clients are
    sasl_enabled_mechanisms: str = _text("")
    sasl_jaas_config: Secret = field(default=_UNSET, metadata=_SECRET)
    sasl_server_max_receive_size: int = _int(524_288)
    sasl_oauthbearer_jwks_endpoint_url: str = _text("")
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = _long(3_600_000, least=1)
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = _long(100, least=1)
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = _long(10_000, least=1)
    sasl_oauthbearer_expected_audience: str = _text("")
    sasl_oauthbearer_expected_issuer: str = _text("")
    sasl_oauthbearer_clock_skew_seconds: int = _int(30, least=0)
    sasl_oauthbearer_sub_claim_name: str = _text("sub")
    sasl_oauthbearer_scope_claim_name: str = _text("scope")
    connections_max_reauth_ms: int = _long(0)
    ssl_client_auth: str = _text("none", "none", "requested", "required", dynamic=True)
    ssl_principal_mapping_rules: str = _text("DEFAULT")
    ssl_enabled_protocols: str = _text("TLSv1.2,TLSv1.3", dynamic=True)
    ssl_cipher_suites: str = _text("", dynamic=True)
    ssl_keystore_type: str = _text("", dynamic=True)
    ssl_keystore_location: str = _text("", dynamic=True)
    ssl_keystore_password: Secret = field(default=_UNSET, metadata=_SECRET)
    ssl_keystore_key: Secret = field(default=_UNSET, metadata=_SECRET)
    ssl_keystore_certificate_chain: Secret = field(default=_UNSET, metadata=_SECRET)
    ssl_key_password: Secret = field(default=_UNSET, metadata=_SECRET)
    ssl_truststore_type: str = _text("", dynamic=True)
    ssl_truststore_location: str = _text("", dynamic=True)
    ssl_truststore_password: Secret = field(default=_UNSET, metadata=_SECRET)
    ssl_truststore_certificates: Secret = field(default=_UNSET, metadata=_SECRET)
    delegation_token_secret_key: Secret = field(default=_UNSET, metadata=_SECRET)
    delegation_token_max_lifetime_ms: int = _long(604_800_000, least=1)
    delegation_token_expiry_time_ms: int = _long(DAY_MS, least=1)
    delegation_token_expiry_check_interval_ms: int = _long(3_600_000, least=1)
    connection_failed_authentication_delay_ms: int = _int(100, least=0)
    # connections
    max_connections: int = _int(_INT_MAX, least=1, dynamic=True)
    max_connections_per_ip: int = _int(_INT_MAX, least=0, dynamic=True)
    max_connections_per_ip_overrides: str = _text("", dynamic=True)
    max_connection_creation_rate: int = _int(_INT_MAX, dynamic=True)
    connections_max_idle_ms: int = _long(600_000, least=-1)
    socket_request_max_bytes: int = _int(104_857_600)
    queued_max_requests: int = _int(500)
    request_timeout_ms: int = _int(30_000)
    # who may do what
    authorizer_class_name: str = _text("", "", STANDARD_AUTHORIZER)
    super_users: str = _text("")
    allow_everyone_if_no_acl_found: bool = _bool(False)
    metadata_log_max_record_bytes_between_snapshots: int = _long(20_971_520, least=1)
    # topics
    auto_create_topics_enable: bool = _bool(True)
    delete_topic_enable: bool = _bool(True)
    num_partitions: int = _int(1)
    min_insync_replicas: int = _int(1, dynamic=True)
    compression_type: str = _text("producer", "uncompressed", "zstd", "lz4", "snappy", "gzip", "producer", dynamic=True)
    compression_gzip_level: int = _int(-1, least=-1, most=9, choices=GZIP_LEVELS, dynamic=True)
    compression_lz4_level: int = _int(9, least=1, most=17, dynamic=True)
    compression_zstd_level: int = _int(3, least=-131_072, most=22, dynamic=True)
    message_max_bytes: int = _int(1_048_588, least=0, dynamic=True)
    log_message_timestamp_type: str = _text("CreateTime", "CreateTime", "LogAppendTime", dynamic=True)
    log_message_timestamp_before_max_ms: int = _long(_LONG_MAX, dynamic=True)
    log_message_timestamp_after_max_ms: int = _long(3_600_000, dynamic=True)
    # the log on disk
    flush_policy: str = _text("fsync", "fsync", "interval", "os")
    flush_interval_ms: int = _long(1_000, least=1)
    journal: str = _text("on", "on", "off")
    log_segment_bytes: int = _int(1_073_741_824, least=1_048_576, dynamic=True)
    log_roll_ms: int = _long(-1, least=1, dynamic=True)  # -1: not set, as in the next ones
    log_roll_hours: int = _int(168)
    log_roll_jitter_ms: int = _long(-1, dynamic=True)
    log_roll_jitter_hours: int = _int(0, least=0)
    log_index_interval_bytes: int = _int(4096, least=0, dynamic=True)
    log_index_size_max_bytes: int = _int(10_485_760, least=4, dynamic=True)
    log_retention_ms: int = _long(-2, least=-1, dynamic=True)
    log_retention_minutes: int = _int(-2, least=-1)
    log_retention_hours: int = _int(168, least=-1)
    log_retention_bytes: int = _long(-1, least=-1, dynamic=True)
    log_retention_check_interval_ms: int = _long(300_000, least=1)
    log_segment_delete_delay_ms: int = _long(60_000, dynamic=True)
    log_cleanup_policy: str = _text("delete", "", "delete", "compact", "compact,delete", "delete,compact", dynamic=True)
    log_cleaner_enable: bool = _bool(True)
    log_cleaner_backoff_ms: int = _long(15_000, dynamic=True)
    log_cleaner_dedupe_buffer_size: int = _long(134_217_728, least=1_048_577, dynamic=True)
    log_cleaner_io_buffer_load_factor: float = _double(0.9, dynamic=True)
    log_cleaner_io_max_bytes_per_second: float = _double(_DOUBLE_MAX, least=1, dynamic=True)
    log_cleaner_min_cleanable_ratio: float = _double(0.5, most=1, dynamic=True)
    log_cleaner_delete_retention_ms: int = _long(DAY_MS, dynamic=True)
    log_cleaner_min_compaction_lag_ms: int = _long(0, dynamic=True)
    log_cleaner_max_compaction_lag_ms: int = _long(_LONG_MAX, least=1, dynamic=True)
    log_flush_offset_checkpoint_interval_ms: int = _int(60_000)
    # fetches
    fetch_max_bytes: int = _int(57_671_680, least=1024)
    max_incremental_fetch_session_cache_slots: int = _int(1_000, least=0)
    max_request_partition_size_limit: int = _int(2_000)
    # groups and their offsets
    group_min_session_timeout_ms: int = _int(6_000)
    group_max_session_timeout_ms: int = _int(1_800_000)
    group_initial_rebalance_delay_ms: int = _int(0, least=0)
    group_max_size: int = _int(_INT_MAX)
    group_consumer_session_timeout_ms: int = _int(45_000)
    group_consumer_min_session_timeout_ms: int = _int(45_000)
    group_consumer_max_session_timeout_ms: int = _int(60_000)
    group_consumer_heartbeat_interval_ms: int = _int(5_000)
    group_consumer_min_heartbeat_interval_ms: int = _int(5_000)
    group_consumer_max_heartbeat_interval_ms: int = _int(15_000)
    group_consumer_assignment_interval_ms: int = _int(1_000, least=0, dynamic=True)
    group_consumer_min_assignment_interval_ms: int = _int(0, least=0)
    group_consumer_max_assignment_interval_ms: int = _int(15_000, least=0)
    group_consumer_max_size: int = _int(_INT_MAX)
    group_consumer_assignors: str = _text("uniform,range", "uniform,range", "range,uniform", "uniform", "range")
    group_consumer_migration_policy: str = _text("bidirectional", "bidirectional", "upgrade", "downgrade", "disabled")
    group_consumer_regex_refresh_interval_ms: int = _int(600_000, least=10_000)
    group_streams_session_timeout_ms: int = _int(45_000)
    group_streams_min_session_timeout_ms: int = _int(45_000)
    group_streams_max_session_timeout_ms: int = _int(60_000)
    group_streams_heartbeat_interval_ms: int = _int(5_000)
    group_streams_min_heartbeat_interval_ms: int = _int(5_000)
    group_streams_max_heartbeat_interval_ms: int = _int(15_000)
    group_streams_assignment_interval_ms: int = _int(1_000, least=0, dynamic=True)
    group_streams_min_assignment_interval_ms: int = _int(0, least=0)
    group_streams_max_assignment_interval_ms: int = _int(15_000, least=0)
    group_streams_initial_rebalance_delay_ms: int = _int(3_000, least=0)
    group_streams_num_standby_replicas: int = _int(0, least=0)
    group_streams_max_standby_replicas: int = _int(2, least=0)
    group_streams_max_size: int = _int(_INT_MAX)
    group_share_session_timeout_ms: int = _int(45_000)
    group_share_min_session_timeout_ms: int = _int(45_000)
    group_share_max_session_timeout_ms: int = _int(60_000)
    group_share_heartbeat_interval_ms: int = _int(5_000)
    group_share_min_heartbeat_interval_ms: int = _int(5_000)
    group_share_max_heartbeat_interval_ms: int = _int(15_000)
    group_share_assignment_interval_ms: int = _int(1_000, least=0, most=15_000, dynamic=True)
    group_share_min_assignment_interval_ms: int = _int(0, least=0)
    group_share_max_assignment_interval_ms: int = _int(15_000, least=0)
    group_share_max_size: int = _int(200, most=1_000)
    group_share_record_lock_duration_ms: int = _int(30_000, least=1_000, most=3_600_000)
    group_share_min_record_lock_duration_ms: int = _int(15_000, least=1_000, most=30_000)
    group_share_max_record_lock_duration_ms: int = _int(60_000, least=30_000, most=3_600_000)
    group_share_delivery_count_limit: int = _int(5, least=2, most=25)
    group_share_min_delivery_count_limit: int = _int(2, least=2, most=5)
    group_share_max_delivery_count_limit: int = _int(10, least=5, most=25)
    group_share_partition_max_record_locks: int = _int(2_000, least=100, most=20_000)
    group_share_min_partition_max_record_locks: int = _int(100, least=100, most=2_000)
    group_share_max_partition_max_record_locks: int = _int(4_000, least=2_000, most=20_000)
    group_share_max_share_sessions: int = _int(2_000)
    share_coordinator_state_topic_num_partitions: int = _int(50)
    share_coordinator_state_topic_segment_bytes: int = _int(104_857_600, least=1_048_576)
    share_coordinator_state_topic_prune_interval_ms: int = _int(300_000)
    share_coordinator_snapshot_update_records_per_snapshot: int = _int(500, least=0, most=500)
    offset_metadata_max_bytes: int = _int(4_096, least=0)
    offsets_retention_minutes: int = _int(10_080)
    offsets_retention_check_interval_ms: int = _long(600_000, least=1)
    offsets_topic_num_partitions: int = _int(50)
    offsets_topic_segment_bytes: int = _int(104_857_600, least=1_048_576)
    # transactions
    transaction_max_timeout_ms: int = _int(900_000)
    transactional_id_expiration_ms: int = _int(604_800_000)
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = _int(10_000)
    transaction_remove_expired_transaction_cleanup_interval_ms: int = _int(3_600_000)
    transaction_two_phase_commit_enable: bool = _bool(False)
    transaction_partition_verification_enable: bool = _bool(True, dynamic=True)
    transaction_state_log_num_partitions: int = _int(50)
    transaction_state_log_min_isr: int = _int(1)
    transaction_state_log_segment_bytes: int = _int(104_857_600, least=1_048_576)
    add_partitions_to_txn_retry_backoff_ms: int = _int(20)
    add_partitions_to_txn_retry_backoff_max_ms: int = _int(100, least=0)
    producer_id_expiration_ms: int = _int(DAY_MS, dynamic=True)
    producer_id_expiration_check_interval_ms: int = _int(600_000)
    # oncelog's own: limits (docs/limits.md), metrics
    oncelog_first_request_max_bytes: int = _int(2_097_152)
    oncelog_request_max_items: int = _int(100_000, dynamic=True)
    oncelog_request_receive_timeout_ms: int = _int(30_000, dynamic=True)
    oncelog_connection_max_in_flight: int = _int(100)
    oncelog_connection_max_unsent_bytes: int = _int(1_048_576)
    oncelog_replies_max_unsent_bytes: int = _int(268_435_456, dynamic=True)
    oncelog_message_max_decompressed_bytes: int = _int(67_108_864, dynamic=True)
    oncelog_journal_max_bytes: int = _long(1_073_741_824, least=1)
    oncelog_max_topics: int = _int(20_000, dynamic=True)
    oncelog_max_partitions: int = _int(100_000, dynamic=True)
    oncelog_max_transactional_ids: int = _int(100_000, dynamic=True)
    oncelog_max_groups: int = _int(100_000, dynamic=True)
    oncelog_max_producer_ids_per_partition: int = _int(100_000, dynamic=True)
    oncelog_max_group_members: int = _int(100_000, dynamic=True)
    oncelog_max_committed_offsets: int = _int(1_000_000, dynamic=True)
    oncelog_max_fetch_session_partitions: int = _int(1_000_000, dynamic=True)
    oncelog_max_acls: int = _int(10_000, dynamic=True)
    oncelog_max_scram_credentials: int = _int(10_000, dynamic=True)
    oncelog_max_delegation_tokens: int = _int(10_000, dynamic=True)
    oncelog_max_client_quotas: int = _int(10_000, dynamic=True)
    oncelog_max_config_resources: int = _int(10_000, dynamic=True)
    oncelog_max_client_instances: int = _int(16_384, dynamic=True)
    oncelog_max_client_metrics_series: int = _int(10_000, dynamic=True)
    oncelog_telemetry_max_decompressed_bytes: int = _int(1_048_576, dynamic=True)
    oncelog_max_clients_under_quota: int = _int(10_000, dynamic=True)
    oncelog_log_max_lines_per_minute: int = _int(600, dynamic=True)
    oncelog_audit_topic: bool = _bool(False, dynamic=True)
    oncelog_insecure_listeners: bool = _bool(False)
    oncelog_oauthbearer_algorithms: str = _text("RS256,RS384,RS512,PS256,PS384,PS512,ES256,ES384,ES512")
    oncelog_oauthbearer_unsecured: bool = _bool(False)
    oncelog_authentication_timeout_ms: int = _int(10_000)
    oncelog_max_unauthenticated_connections: int = _int(500)
    oncelog_max_unauthenticated_connections_per_ip: int = _int(250)
    oncelog_max_unauthenticated_bytes: int = _int(33_554_432)
    telemetry_max_bytes: int = _int(1_048_576)
    metrics_listen: str = _text("")

    @property
    def has_journal(self) -> bool:
        """Whether one sync of a journal commits for all partitions; where nobody waits for a sync there is none to save."""
        return self.journal == "on" and self.flush_policy == "fsync"

    def topic_default(self, key: str) -> str | None:
        """The broker's default for a topic configuration that is a synonym of `key`, or None where it has none."""
        if key == "log.retention.ms":
            return str(self.retention_ms)
        if key == "log.roll.ms":
            return str(self.log_roll_ms if self.log_roll_ms > 0 else self.log_roll_hours * 3_600_000)
        if key == "log.roll.jitter.ms":
            return str(
                self.log_roll_jitter_ms if self.log_roll_jitter_ms >= 0 else self.log_roll_jitter_hours * 3_600_000
            )
        name = key.replace(".", "_")
        return text_of(getattr(self, name)) if name in _rules() else None

    @property
    def retention_ms(self) -> int:
        """The most precise of log.retention.ms, .minutes and .hours that is set; -1 keeps for ever."""
        for value, unit_ms in ((self.log_retention_ms, 1), (self.log_retention_minutes, 60_000)):
            if value != -2:
                return value * unit_ms if value >= 0 else -1
        return self.log_retention_hours * 3_600_000 if self.log_retention_hours >= 0 else -1


def text_of(value: Any) -> str:
    """A configuration value as Kafka writes it."""
    if isinstance(value, float):
        return repr(value).upper().replace("E+", "E")  # as Java writes a double
    return str(value).lower() if isinstance(value, bool) else str(value)


@cache
def _rules() -> dict[str, tuple[type, Rule]]:
    return {f.name: (type(f.default), f.metadata["rule"]) for f in fields(BrokerConfig) if "rule" in f.metadata}


@cache
def rules() -> dict[str, tuple[type, Rule]]:
    """Key (dotted) -> (type, rule) for every honoured key. Not to be changed."""
    return {name.replace("_", "."): rule for name, rule in _rules().items()}


def config_from(values: Mapping[str, object], *, base: BrokerConfig | None = None) -> tuple[BrokerConfig, list[str]]:
    """The configuration of these dotted keys, and warnings about keys that Kafka knows and oncelog does not honour.

    Raises ConfigInvalid for unknown keys (with a suggestion) and values out of range.
    """
    changes: dict[str, Any] = {}
    overrides: dict[str, Any] = {}
    warnings: list[str] = []
    faults: list[str] = []
    for key, value in values.items():
        name = key.replace(".", "_")
        try:
            if key.startswith(LISTENER_PREFIX) and (own := listener_key(key)) is not None:
                overrides[key.lower()] = parse_value(own, value)
            elif name in _rules() and "_" not in key:
                changes[name] = parse_value(key, value)
            elif key.endswith(CLASS_KEYS):
                _check_class(key, value)
            elif is_known_to_kafka(key):
                warnings.append(f"config key {key} is Kafka's, but oncelog does not honour it")
            else:
                faults.append(f"unknown config key {key[:80]!r}{_suggestion(key)}")
        except ConfigInvalid as error:
            faults.append(str(error))
    if faults:
        raise ConfigInvalid(in_one_line(faults))
    _take_broker_id(changes)
    if overrides:
        changes["listener_overrides"] = ListenerOverrides(overrides)
    config = replace(base or BrokerConfig(), **changes)
    if wrong := list(group_bounds.faults(lambda key: int(getattr(config, key.replace(".", "_"))))):
        raise ConfigInvalid(in_one_line(wrong))
    if lets_nobody_in(config.max_connections_per_ip, config.max_connections_per_ip_overrides):
        raise ConfigInvalid("max.connections.per.ip=0 needs max.connections.per.ip.overrides: nobody could connect")
    if changes.get("journal") == "on" and config.flush_policy != "fsync":
        raise ConfigInvalid(f"journal=on is for flush.policy=fsync: with {config.flush_policy} nobody waits for a sync")
    if len(config.super_users.split(";")) == 1 and re.search(r",\s*User:", config.super_users):
        warnings.append(f"super.users: {config.super_users[:80]!r} is one user: several are separated by ;")
    if "," in config.log_dirs:
        warnings.append(
            f"log.dirs: only {config.log_dirs.split(',')[0]} is used: oncelog keeps all data in one directory"
        )
    return config, warnings


def in_one_line(faults: Sequence[str]) -> str:
    """Each of them, as far as one line can be read."""
    more = len(faults) - FAULTS_SHOWN_MAX
    return "; ".join(faults[:FAULTS_SHOWN_MAX]) + (f"; and {more} more" if more > 0 else "")


def _check_class(key: str, value: object) -> None:
    if str(value).strip() not in KNOWN_CLASSES:
        raise ConfigInvalid(f"{key}: oncelog loads no classes")


def _take_broker_id(changes: dict[str, Any]) -> None:
    """`broker.id` is what `node.id` was called; -1 draws one."""
    broker_id = changes.get("broker_id", -1)
    if broker_id >= 0 and changes.setdefault("node_id", broker_id) != broker_id:
        raise ConfigInvalid(
            f"node.id={changes['node_id']} and broker.id={broker_id}: they are one thing, leave one out"
        )


RETENTION_TIMES = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
LISTENER_PREFIX = "listener.name."
UNSECURED_KEY = "oncelog.oauthbearer.unsecured"
FAULTS_SHOWN_MAX = 20
TLS_KEYS = (
    "ssl.client.auth",
    "ssl.principal.mapping.rules",
    "ssl.enabled.protocols",
    "ssl.cipher.suites",
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.key.password",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
)
BEARER_KEYS = (
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.oauthbearer.scope.claim.name",
    "oncelog.oauthbearer.algorithms",
    "oncelog.oauthbearer.unsecured",
)
LISTENER_KEYS = (
    *TLS_KEYS,
    *BEARER_KEYS,
    "connections.max.reauth.ms",
    "sasl.enabled.mechanisms",
    "sasl.jaas.config",
    "sasl.server.max.receive.size",
)
CLASS_KEYS = (
    ".callback.handler.class",
    "principal.builder.class",
    "sasl.login.class",
    "ssl.engine.factory.class",
    "sasl.oauthbearer.jwt.validator.class",
)
_OF_BEARER = "org.apache.kafka.common.security.oauthbearer."
KNOWN_CLASSES = (
    "",
    "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    *(f"{_OF_BEARER}OAuthBearer{name}CallbackHandler" for name in ("Validator", "Login")),
    *(f"{_OF_BEARER}secured.OAuthBearer{name}CallbackHandler" for name in ("Validator", "Login")),  # before Kafka 4
    *(f"{_OF_BEARER}{name}JwtValidator" for name in ("Default", "Broker")),
)
"""Who may log in would be decided by what they name: to ignore them would let others in, or keep users out."""


def listener_key(key: str) -> str | None:
    """Which of the broker's keys a `listener.name.*` key sets for one listener, None where it is none that can be."""
    return next((own for own in LISTENER_KEYS if key.endswith("." + own)), None)


def is_secret_key(key: str) -> bool:
    """Whether a key's value is shown nowhere."""
    own = listener_key(key) if key.startswith(LISTENER_PREFIX) else key
    return own is not None and own in rules() and rules()[own][0] is Secret


T = TypeVar("T")


def of_listener(config: BrokerConfig, listener: str, key: str, otherwise: T, mechanism: str = "") -> T:
    """The value of a key for one listener (and mechanism), the most precise one that is set; `otherwise` the broker's."""
    scopes = [f"{listener}.{mechanism}", listener] if mechanism else [listener]
    for scope in scopes:
        if (found := config.listener_overrides.get(f"{LISTENER_PREFIX}{scope.lower()}.{key}")) is not None:
            return cast("T", found)
    return otherwise


def _suggestion(key: str) -> str:
    import difflib

    near = difflib.get_close_matches(key.replace("_", "."), rules(), n=1, cutoff=0.6)
    return f" (did you mean {near[0]}?)" if near else ": Kafka has none of this name either, take the line out"


def parse_value(key: str, value: object) -> Any:
    """`value` as the type of `key`. Raises ConfigInvalid."""
    kind, rule = _rules()[key.replace(".", "_")]
    if kind is Secret:
        return value if isinstance(value, Secret) else Secret(str(value).strip())
    text = text_of(value).strip()
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise ConfigInvalid(f"{key}={text!r}: expected true or false")
        return text.lower() == "true"
    if kind is float:
        return _double_value(key, text, rule)
    if kind is int:
        try:
            number = whole_number(text) if len(text) < 25 else rule.most + 1
        except ValueError:
            raise ConfigInvalid(f"{key}={text!r}: expected a whole number") from None
        if not rule.least <= number <= rule.most:
            raise ConfigInvalid(f"{key}={text[:30]}: expected {rule.least} to {rule.most}")
        if number == 0 and key in RETENTION_TIMES:
            raise ConfigInvalid(f"{key} must be unlimited (-1) or, greater than or equal to 1")
        if rule.choices and str(number) not in rule.choices:
            raise ConfigInvalid(f"{key}={text[:30]}: expected one of {', '.join(rule.choices)}")
        return number
    if key in ("log.dir", "log.dirs") and not all(each.strip() for each in text.split(",")):
        raise ConfigInvalid(f"{key}={text[:80]!r}: expected directories, and an empty name is none")
    if key == "max.connections.per.ip.overrides":
        addresses_with_counts(text)
    if key == "super.users":
        _check_super_users(text)
    if key == "group.consumer.migration.policy":
        text = text.lower()  # Kafka's names of it are in any letters
    if rule.choices and text not in rule.choices:
        choices = ", ".join(choice or "nothing" for choice in rule.choices)
        gone = "; Kafka 4 took that class away as well" if text == FORMER_AUTHORIZER else ""
        raise ConfigInvalid(f"{key}={text!r}: expected one of {choices}{gone}")
    return text


def _double_value(key: str, text: str, rule: Rule) -> float:
    try:
        number = number_of(text)
    except ValueError:
        raise ConfigInvalid(f"{key}={text!r}: expected a number") from None
    if not rule.least <= number <= rule.most:
        raise ConfigInvalid(f"{key}={text[:30]}: expected {rule.least} to {rule.most}")
    return number


def _check_super_users(text: str) -> None:
    try:
        super_users_of(text)
    except ValueError as error:
        raise ConfigInvalid(f"super.users: {error}") from error


def lets_nobody_in(per_ip: int, overrides: str) -> bool:
    """Whether no address may connect: `max.connections.per.ip` and `max.connections.per.ip.overrides`, looked at together."""
    return per_ip == 0 and not overrides.strip()


def addresses_with_counts(text: str) -> dict[str, int]:
    """`max.connections.per.ip.overrides`: "address:count,address:count". Raises ConfigInvalid."""
    found: dict[str, int] = {}
    for part in text.split(","):
        if not part.strip():
            continue
        address, colon, count = part.strip().rpartition(":")
        if not colon or not address or not count.isdecimal() or len(count) > 10:
            raise ConfigInvalid(f"max.connections.per.ip.overrides={text[:60]!r}: expected address:count,...")
        found[address.strip("[]")] = int(count)
    return found


def properties_from(text: str) -> dict[str, str]:
    """The keys and values of a Java properties file (`server.properties`). Raises ConfigInvalid."""
    values: dict[str, str] = {}
    for each in each_property(text):
        if not each.key or not each.has_separator:  # not shown: it may be a line of a key or of a password
            raise ConfigInvalid(
                f"line {each.line_number}: expected key=value (a value of several lines has a backslash at the end of each)"
            )
        values[each.key] = each.value.strip()
    return values
