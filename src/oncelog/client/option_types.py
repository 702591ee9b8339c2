"""The clients' keyword arguments for type checkers: a wrong name or a wrong kind of value is a red line in an editor.

What each means, its default and its bounds are `config.py`'s, which also takes numbers as text and Kafka's keys that mean
nothing here (`from_config`); a test compares both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Required, TypedDict

from oncelog.client.metrics import ConsumerMetrics, ProcessMetrics, ProducerMetrics
from oncelog.client.records import ConsumerRecord
from oncelog.client.tracing import Tracing
from oncelog.core.producer.partitioner import Partitioner
from oncelog.host.host import Host

Several = str | list[str] | tuple[str, ...]
Serializer = Callable[[Any], bytes | None] | None
Deserializer = Callable[[Any], Any] | None
TokenProvider = Any  # a function, or an object with `token`


class ClientOptions(TypedDict, total=False):
    """What every client takes: Kafka's keys, and librdkafka's and aiokafka's names for some."""

    bootstrap_servers: Several
    client_id: str
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    metadata_max_age_ms: int
    socket_connection_setup_timeout_ms: int
    default_api_timeout_ms: int
    enable_metrics_push: bool
    security_protocol: str
    sasl_mechanism: str
    sasl_username: str
    sasl_password: str
    sasl_jaas_config: str
    sasl_tokenauth: bool
    sasl_oauth_token_provider: TokenProvider
    oauth_cb: TokenProvider
    sasl_oauthbearer_config: str
    sasl_oauthbearer_token_endpoint_url: str
    sasl_oauthbearer_client_credentials_client_id: str
    sasl_oauthbearer_client_credentials_client_secret: str
    sasl_oauthbearer_scope: str
    sasl_oauthbearer_extensions: str
    sasl_oauthbearer_header_urlencode: bool
    https_ca_location: str
    https_ca_pem: str
    ssl_endpoint_identification_algorithm: str
    ssl_truststore_type: str
    ssl_truststore_location: str
    ssl_truststore_password: str
    ssl_truststore_certificates: str
    ssl_keystore_type: str
    ssl_keystore_password: str
    ssl_keystore_location: str
    ssl_keystore_key: str
    ssl_keystore_certificate_chain: str
    ssl_key_location: str
    ssl_key_password: str
    ssl_cipher_suites: str
    ssl_enabled_protocols: str
    sasl_mechanisms: str
    sasl_plain_username: str
    sasl_plain_password: str
    sasl_oauthbearer_client_id: str
    sasl_oauthbearer_client_secret: str
    ssl_ca_location: str
    ssl_ca_pem: str
    ssl_cafile: str
    ssl_certificate_location: str
    ssl_certificate_pem: str
    ssl_certfile: str
    ssl_keyfile: str
    ssl_key_pem: str


class ReadingOptions(ClientOptions, total=False):
    """What a consumer takes, whoever it reads for."""

    group_instance_id: str | None
    group_protocol: str
    group_remote_assignor: str | None
    client_rack: str
    transaction_order_memory_bytes: int
    transaction_order_disk_bytes: int
    auto_offset_reset: str
    auto_commit_interval_ms: int
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    max_poll_records: int
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    max_partition_fetch_bytes: int
    check_crcs: bool
    allow_auto_create_topics: bool
    exclude_internal_topics: bool
    partition_assignment_strategy: Several
    key_deserializer: Deserializer
    value_deserializer: Deserializer
    tracing: Tracing | None


class SendingOptions(ClientOptions, total=False):
    """How records are sent, with or without transactions."""

    linger_ms: int
    batch_size: int
    buffer_memory: int
    compression_type: str | None
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    max_request_size: int
    max_block_ms: int
    metadata_max_idle_ms: int
    delivery_timeout_ms: int
    retries: int
    max_in_flight_requests_per_connection: int
    partitioner: str | Partitioner
    key_serializer: Serializer
    value_serializer: Serializer
    tracing: Tracing | None


class WritingOptions(SendingOptions, total=False):
    """What a producer takes, whoever it writes for."""

    transactional_id: str | None
    transaction_timeout_ms: int


class ShareConsumerOptions(ClientOptions, total=False):
    """The keyword arguments of a ShareConsumer."""

    group_id: Required[str]
    client_rack: str
    share_acknowledgement_mode: str
    share_acquire_mode: str
    max_poll_records: int
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    check_crcs: bool
    key_deserializer: Deserializer
    value_deserializer: Deserializer


class ConsumerOptions(ReadingOptions, total=False):
    """The keyword arguments of a Consumer."""

    group_id: str | None
    isolation_level: str
    order: str
    enable_auto_commit: bool
    interceptor_classes: Any
    stats_cb: Callable[[ConsumerMetrics], None] | None
    statistics_interval_ms: int


class DualWriterOptions(SendingOptions, total=False):
    """What a DualWriter hands on to its producer; its id, the timeout and two-phase commit are decided there."""

    enable_idempotence: bool
    acks: str | int
    interceptor_classes: Any
    stats_cb: Callable[[ProducerMetrics], None] | None
    statistics_interval_ms: int


class ProducerOptions(WritingOptions, DualWriterOptions, total=False):
    """The keyword arguments of a Producer."""

    transaction_two_phase_commit_enable: bool
    keep_prepared_txn: bool | None


class AdminOptions(ClientOptions, total=False):
    """The keyword arguments of an Admin."""


class ProcessClientOptions(ReadingOptions, WritingOptions, total=False):
    """What `oncelog.process` hands on to its clients; the rest is decided there."""


class ProcessOptions(ProcessClientOptions, total=False):
    """The keyword arguments of `oncelog.process`; `Processor` has what each means."""

    group_id: Required[str]
    into: str | None
    transform: Callable[..., Any] | None
    transform_batch: Callable[[list[ConsumerRecord]], Any] | None
    dead_letter_topic: str | None
    permanent_errors: type[BaseException] | Iterable[type[BaseException]]
    writer: Any
    concurrency: int
    transform_timeout_ms: int
    transform_retries: int
    transform_backoff_ms: int
    transform_backoff_max_ms: int
    transaction_records_max: int
    transaction_bytes_max: int
    transaction_interval_ms: int
    outage_timeout_ms: int
    stop_timeout_ms: int
    restart_when_fenced: bool | None
    handle_sigterm: bool
    until_end: bool
    max_records: int | None
    stats_cb: Callable[[ProcessMetrics], None] | None
    statistics_interval_ms: int
    host: Host | None
