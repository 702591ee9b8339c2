"""The clients' configuration: Kafka's keys in snake case as keyword arguments, or dotted as Kafka spells them.

An unknown key is refused with the nearest known name; a key of Kafka's that means nothing here is taken with a warning.
Values may be strings, as in a properties file.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, Self

from oncelog.client.arguments import INT32_MAX, INT64_MAX, is_wire_text
from oncelog.client.security import ClientSecurity, security_of
from oncelog.core.bootstrap_servers import addresses_of
from oncelog.core.consumer.assignors import ASSIGNORS
from oncelog.core.number_text import whole_number
from oncelog.core.offset_reset import check_strategy
from oncelog.core.producer.partitioner import PARTITIONERS, Partitioner
from oncelog.core.topic_names import topic_name_fault
from oncelog.errors import ConfigurationError
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.compression import Codec, Compression

log = logging.getLogger("oncelog.client")

_TRUE, _FALSE = {"true", "1", "yes"}, {"false", "0", "no"}
HAS_NO_MEANING = frozenset(
    {
        "client_dns_lookup",
        "send_buffer_bytes",
        "receive_buffer_bytes",
        "metric_reporters",
        "metrics_num_samples",
        "metrics_sample_window_ms",
        "metrics_recording_level",
        "auto_include_jmx_reporter",
        "socket_connection_setup_timeout_max_ms",
        "metadata_max_idle_ms",
        "metadata_recovery_strategy",
        "partitioner_class",
        "metadata_recovery_rebootstrap_trigger_ms",
        "partitioner_adaptive_partitioning_enable",
        "partitioner_ignore_keys",
        "partitioner_availability_timeout_ms",
        "client_rack",
        "connections_max_idle_ms",
        "group_remote_assignor",
        "security_providers",
        "sasl_login_callback_handler_class",
        "sasl_login_connect_timeout_ms",
        "sasl_login_read_timeout_ms",
        "sasl_login_retry_backoff_ms",
        "sasl_login_retry_backoff_max_ms",
        "sasl_oauthbearer_method",
        "sasl_oauthbearer_jwt_retriever_class",
        "sasl_oauthbearer_jwt_validator_class",
    }
)

# The scales of the codecs (KIP-390). -1 and 0 are what gzip and lz4 do by themselves; Kafka's lz4 is at 9, which is slow.
METADATA_IDLE_MS = 300_000  # of clients for which Kafka has no key: as long as of a producer

LEVELS = {
    "compression_gzip_level": (-1, 9),
    "compression_lz4_level": (0, 17),
    "compression_zstd_level": (-131_072, 22),
    "metadata_max_idle_ms": (5_000, INT64_MAX),
}

ALIASES = {
    "sasl_mechanisms": "sasl_mechanism",
    "sasl_plain_username": "sasl_username",
    "sasl_plain_password": "sasl_password",
    "sasl_oauthbearer_client_id": "sasl_oauthbearer_client_credentials_client_id",
    "sasl_oauthbearer_client_secret": "sasl_oauthbearer_client_credentials_client_secret",
    "ssl_ca_location": "ssl_truststore_location",
    "ssl_ca_pem": "ssl_truststore_certificates",
    "ssl_cafile": "ssl_truststore_location",
    "ssl_certificate_location": "ssl_keystore_location",
    "ssl_certificate_pem": "ssl_keystore_certificate_chain",
    "ssl_certfile": "ssl_keystore_location",
    "ssl_keyfile": "ssl_key_location",
    "ssl_key_pem": "ssl_keystore_key",
}
"""Names that librdkafka and aiokafka have for the same."""
SECRETS = frozenset(
    {
        "sasl_oauthbearer_client_credentials_client_secret",
        "sasl_password",
        "sasl_jaas_config",
        "ssl_keystore_key",
        "ssl_keystore_password",
        "ssl_key_password",
        "ssl_truststore_password",
    }
)

ISOLATION_LEVELS = ("read_uncommitted", "read_committed")
CODING = frozenset(
    {"key_serializer", "value_serializer", "key_deserializer", "value_deserializer", "interceptor_classes"}
)
"""Functions and objects here; the names of Java classes in somebody's properties file say nothing to us."""


class JavaClass(str):
    """What a properties file says under the dotted name of one of those. As a keyword argument a text is a mistake."""

    __slots__ = ()


LISTS = ("bootstrap_servers", "partition_assignment_strategy")
LONG = frozenset(
    {
        "buffer_memory",
        "max_block_ms",
        "metadata_max_age_ms",
        "reconnect_backoff_max_ms",
        "reconnect_backoff_ms",
        "retry_backoff_max_ms",
        "retry_backoff_ms",
        "transaction_order_disk_bytes",
        "transaction_order_memory_bytes",
    }
)
"""Options of 64 bits; all other numbers have 32, as in Kafka."""


@dataclass(frozen=True, kw_only=True)
class ClientConfig:
    """What every client takes. Times in milliseconds."""

    bootstrap_servers: str = "127.0.0.1:9092"
    client_id: str = "oncelog"
    request_timeout_ms: int = 30000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1000
    metadata_max_age_ms: int = 300000
    socket_connection_setup_timeout_ms: int = 10000
    default_api_timeout_ms: int = 60000
    enable_metrics_push: bool = True
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str = ""
    sasl_username: str = ""
    sasl_password: str = dataclasses.field(default="", repr=False)
    sasl_jaas_config: str = dataclasses.field(default="", repr=False)
    sasl_tokenauth: bool = False
    sasl_oauth_token_provider: Any = dataclasses.field(default=None, repr=False)
    oauth_cb: Any = dataclasses.field(default=None, repr=False)
    sasl_oauthbearer_config: str = dataclasses.field(default="", repr=False)
    sasl_oauthbearer_token_endpoint_url: str = ""
    sasl_oauthbearer_client_credentials_client_id: str = ""
    sasl_oauthbearer_client_credentials_client_secret: str = dataclasses.field(default="", repr=False)
    sasl_oauthbearer_scope: str = ""
    sasl_oauthbearer_extensions: str = ""
    sasl_oauthbearer_header_urlencode: bool = False
    https_ca_location: str = ""
    https_ca_pem: str = dataclasses.field(default="", repr=False)
    ssl_endpoint_identification_algorithm: str = "https"
    ssl_truststore_type: str = ""
    ssl_truststore_location: str = ""
    ssl_truststore_password: str = dataclasses.field(default="", repr=False)
    ssl_truststore_certificates: str = dataclasses.field(default="", repr=False)
    ssl_keystore_type: str = ""
    ssl_keystore_password: str = dataclasses.field(default="", repr=False)
    ssl_keystore_location: str = ""
    ssl_keystore_key: str = dataclasses.field(default="", repr=False)
    ssl_keystore_certificate_chain: str = dataclasses.field(default="", repr=False)
    ssl_key_location: str = ""
    ssl_key_password: str = dataclasses.field(default="", repr=False)
    ssl_cipher_suites: str = ""
    ssl_enabled_protocols: str = "TLSv1.2,TLSv1.3"

    KIND: ClassVar[str] = "client"

    def __post_init__(self) -> None:
        self.bootstrap_addresses()
        if not is_wire_text(self.client_id):
            raise ConfigurationError(f"client_id={self.client_id[:40]!r}: it is no Unicode text of at most 32767 bytes")
        self.security()
        for field in dataclasses.fields(self):
            if field.type == "int":
                self._check_range(field.name)

    def _check_range(self, name: str) -> None:
        if name in LEVELS:
            low, high = LEVELS[name]
            if not low <= getattr(self, name) <= high:
                raise ConfigurationError(f"{name}={getattr(self, name)} must be from {low} to {high}")
            return
        value, high = getattr(self, name), INT64_MAX if name in LONG else INT32_MAX
        if name in self.must_be_positive() and value <= 0:
            raise ConfigurationError(f"{name}={value} must be more than 0")
        if not 0 <= value <= high:
            raise ConfigurationError(f"{name}={value} must be from 0 to {high}")

    def must_be_positive(self) -> tuple[str, ...]:
        """Keys that take no zero and nothing below."""
        return (
            "request_timeout_ms",
            "default_api_timeout_ms",
            "socket_connection_setup_timeout_ms",
            "metadata_max_age_ms",
        )

    @property
    def metadata_idle_ms(self) -> int:
        """When topics that are not used are forgotten."""
        return METADATA_IDLE_MS

    def security(self) -> ClientSecurity:
        """What connections do before their first request. Raises ConfigurationError."""
        return security_of(self)

    def bootstrap_addresses(self) -> list[tuple[str, int]]:
        """Host and port of each bootstrap server."""
        try:
            return addresses_of(self.bootstrap_servers)
        except ValueError as error:
            raise ConfigurationError(f"bootstrap_servers={self.bootstrap_servers!r:.200}: {error}") from None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """From keyword arguments in snake case. Raises ConfigurationError."""
        fields = {field.name: field for field in dataclasses.fields(cls)}
        taken: dict[str, Any] = {}
        for given, value in values.items():
            name = ALIASES.get(given, given)
            field = fields.get(name)
            if name in taken:
                raise ConfigurationError(f"{cls.KIND}: {name} was given twice, as {given} too")
            is_java_class = isinstance(value, JavaClass)
            if field is not None and not is_java_class:
                taken[name] = _converted(name, value, str(field.type))
            elif name in HAS_NO_MEANING or is_java_class:
                log.warning("%s: %s has no meaning in oncelog and is ignored", cls.KIND, name)
            else:
                check_known(cls.KIND, name, fields)
        return cls(**taken)

    @classmethod
    def of_dotted(cls, values: Mapping[str, Any]) -> Self:
        """From Kafka's dotted keys. Raises ConfigurationError."""
        return cls.of(snake_case(values))


def snake_case(values: Mapping[str, Any]) -> dict[str, Any]:
    """Kafka's dotted keys as keyword arguments. Raises ConfigurationError."""
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise ConfigurationError(f"expected a mapping of Kafka's keys to values, not {values!r:.80}")
    return {name.replace(".", "_"): _said(name, value) for name, value in values.items()}


def _said(name: str, value: Any) -> Any:
    is_java_class = isinstance(value, str) and "." in name and name.replace(".", "_") in CODING
    return JavaClass(value) if is_java_class else value


@dataclass(frozen=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """Kafka's producer keys."""

    transactional_id: str | None = None
    transaction_timeout_ms: int = 60000
    transaction_two_phase_commit_enable: bool = False
    keep_prepared_txn: bool | None = None
    enable_idempotence: bool = True
    acks: str = "all"
    linger_ms: int = 5
    batch_size: int = 16384
    buffer_memory: int = 33554432
    compression_type: str = "none"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 0
    compression_zstd_level: int = 3
    max_request_size: int = 1048576
    max_block_ms: int = 60000
    metadata_max_idle_ms: int = 300000
    delivery_timeout_ms: int = 120000
    retries: int = 2147483647
    max_in_flight_requests_per_connection: int = 5
    partitioner: Any = "murmur2_random"
    key_serializer: Any = None
    value_serializer: Any = None
    interceptor_classes: Any = ()
    tracing: Any = None
    stats_cb: Any = None
    statistics_interval_ms: int = 0

    KIND: ClassVar[str] = "producer"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.transactional_id == "":
            raise ConfigurationError("transactional_id must not be empty")
        if self.acks not in ("all", "-1", "0", "1"):
            raise ConfigurationError(f"acks={self.acks}: expected all, 1 or 0")
        if self.compression_type.upper() not in Codec.__members__:
            names = ", ".join(name.lower() for name in Codec.__members__)
            raise ConfigurationError(f"compression_type={self.compression_type}: expected one of {names}")
        if self.transactional_id is not None and not self.is_idempotent:
            raise ConfigurationError("transactions need enable_idempotence=True and acks=all")
        if self.enable_idempotence and self.acks_number != -1:
            raise ConfigurationError(
                f"acks={self.acks} needs enable_idempotence=False: a retry may then be stored twice"
            )
        if self.is_idempotent and not 1 <= self.max_in_flight_requests_per_connection <= 5:
            raise ConfigurationError("max_in_flight_requests_per_connection must be 1 to 5 with idempotence")
        if not callable(self.partitioner):
            _one_of("partitioner", str(self.partitioner), tuple(PARTITIONERS))
        _functions(self, "key_serializer", "value_serializer", "stats_cb")
        _check_tracing(self.tracing)
        if self.transaction_two_phase_commit_enable and self.transactional_id is None:
            raise ConfigurationError("transaction_two_phase_commit_enable needs a transactional_id")
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise ConfigurationError("delivery_timeout_ms must be at least linger_ms + request_timeout_ms")

    def must_be_positive(self) -> tuple[str, ...]:
        """Keys that take no zero and nothing below."""
        return (
            *super().must_be_positive(),
            "transaction_timeout_ms",
            "buffer_memory",
            "max_request_size",
            "max_in_flight_requests_per_connection",
        )

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """From keyword arguments. KIP-939: a timeout and two-phase commit exclude each other."""
        if values.get("compression_type", "none") is None:  # as aiokafka and kafka-python say it
            values = {**values, "compression_type": "none"}
        config = super().of(values)
        if config.transaction_two_phase_commit_enable and "transaction_timeout_ms" in values:
            raise ConfigurationError("transaction_timeout_ms has no meaning with transaction_two_phase_commit_enable")
        return config

    @property
    def metadata_idle_ms(self) -> int:
        """When topics that nothing is sent to are forgotten."""
        return self.metadata_max_idle_ms

    @property
    def choose_partition(self) -> Partitioner:
        """The function behind `partitioner`."""
        chosen: Partitioner = self.partitioner if callable(self.partitioner) else PARTITIONERS[self.partitioner]
        return chosen

    @property
    def batch_size_bytes(self) -> int:
        """`batch_size`; 0, as in Kafka, means that each record is a batch of its own."""
        return max(self.batch_size, 1)

    @property
    def is_idempotent(self) -> bool:
        """Whether batches carry a producer id and sequences."""
        return self.enable_idempotence and self.acks_number == -1

    @property
    def acks_number(self) -> int:
        """`acks` as the wire has it."""
        return -1 if self.acks == "all" else int(self.acks)

    @property
    def compression(self) -> Compression:
        """Of new batches: the codec, and its level (KIP-390)."""
        codec = Codec[self.compression_type.upper()]
        return Compression(codec, getattr(self, f"compression_{self.compression_type.lower()}_level", None))

    @property
    def keeps_prepared(self) -> bool:
        """Whether `start` keeps a prepared transaction of an earlier life (KIP-939)."""
        if self.keep_prepared_txn is None:
            return self.transaction_two_phase_commit_enable
        return self.keep_prepared_txn


@dataclass(frozen=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """Kafka's consumer keys. `order` is ours, with the bounds of what it keeps of open transactions."""

    group_id: str | None = None
    group_instance_id: str | None = None
    group_protocol: str = "classic"
    group_remote_assignor: str | None = None
    client_rack: str = ""
    isolation_level: str = "read_uncommitted"
    order: str = "offset"
    transaction_order_memory_bytes: int = 33554432
    transaction_order_disk_bytes: int = 10737418240
    auto_offset_reset: str = "latest"
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5000
    session_timeout_ms: int = 45000
    heartbeat_interval_ms: int = 3000
    max_poll_interval_ms: int = 300000
    max_poll_records: int = 500
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52428800
    fetch_max_wait_ms: int = 500
    max_partition_fetch_bytes: int = 1048576
    check_crcs: bool = True
    allow_auto_create_topics: bool = True
    exclude_internal_topics: bool = True
    partition_assignment_strategy: str = "range,cooperative-sticky"
    key_deserializer: Any = None
    value_deserializer: Any = None
    interceptor_classes: Any = ()
    tracing: Any = None
    stats_cb: Any = None
    statistics_interval_ms: int = 0

    KIND: ClassVar[str] = "consumer"

    def __post_init__(self) -> None:
        super().__post_init__()
        _one_of("isolation_level", self.isolation_level, ISOLATION_LEVELS)
        _one_of("order", self.order, ("offset", "transaction"))
        if self.order == "transaction" and not self.is_read_committed:
            raise ConfigurationError('order="transaction" needs isolation_level="read_committed"')
        _functions(self, "key_deserializer", "value_deserializer", "stats_cb")
        _check_tracing(self.tracing)
        _one_of("group_protocol", self.group_protocol, ("classic", "consumer"))
        try:
            check_strategy(self.auto_offset_reset)
        except ValueError as error:
            raise ConfigurationError(f"auto_offset_reset={self.auto_offset_reset:.80}: {error}") from None
        if self.group_id == "":
            raise ConfigurationError("group_id must not be empty")
        if self.group_instance_id is not None and (fault := topic_name_fault(self.group_instance_id)) is not None:
            raise ConfigurationError(f"group_instance_id={self.group_instance_id!r:.80}: {fault}")  # as a topic's name
        for name in self.assignment_strategies:
            _one_of("partition_assignment_strategy", name, tuple(ASSIGNORS))
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigurationError(
                f"heartbeat_interval_ms={self.heartbeat_interval_ms} must be less than "
                f"session_timeout_ms={self.session_timeout_ms}: a third of it at most, usually"
            )

    def must_be_positive(self) -> tuple[str, ...]:
        """Keys that take no zero and nothing below."""
        return (
            *super().must_be_positive(),
            "heartbeat_interval_ms",
            "max_poll_interval_ms",
            "max_poll_records",
            "session_timeout_ms",
        )

    @property
    def assignment_strategies(self) -> tuple[str, ...]:
        """The names in `partition_assignment_strategy`, in their order."""
        return tuple(name.strip() for name in self.partition_assignment_strategy.split(","))

    @property
    def is_read_committed(self) -> bool:
        """Whether only committed transactions are delivered."""
        return self.isolation_level == "read_committed"

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether groups are joined by KIP-848, where the broker assigns."""
        return self.group_protocol == "consumer"


@dataclass(frozen=True, kw_only=True)
class ShareConsumerConfig(ClientConfig):
    """Kafka's keys of share consumers (KIP-932)."""

    group_id: str = ""
    client_rack: str = ""
    share_acknowledgement_mode: str = "implicit"
    share_acquire_mode: str = "batch_optimized"
    max_poll_records: int = 500
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52428800
    fetch_max_wait_ms: int = 500
    check_crcs: bool = True
    key_deserializer: Any = None
    value_deserializer: Any = None

    KIND: ClassVar[str] = "share consumer"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.group_id:
            raise ConfigurationError(
                "share consumer: group_id is missing: records are shared among those who name the same"
            )
        _one_of("share_acknowledgement_mode", self.share_acknowledgement_mode, ("implicit", "explicit"))
        _one_of("share_acquire_mode", self.share_acquire_mode, ("batch_optimized", "record_limit"))
        _functions(self, "key_deserializer", "value_deserializer")

    def must_be_positive(self) -> tuple[str, ...]:
        """Keys that take no zero and nothing below."""
        return (*super().must_be_positive(), "max_poll_records")


@dataclass(frozen=True, kw_only=True)
class AdminConfig(ClientConfig):
    """Kafka's admin keys."""

    KIND: ClassVar[str] = "admin"


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigurationError(f"{name}={value}: expected one of {', '.join(allowed)}")


def _check_tracing(tracing: Any) -> None:
    if tracing is not None and (isinstance(tracing, type) or not hasattr(tracing, "begin_transaction")):
        raise ConfigurationError(f"tracing={tracing!r:.80}: expected an oncelog.opentelemetry.Tracing()")


def _functions(config: ClientConfig, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        if value is not None and not callable(value):
            raise ConfigurationError(f"{name}={value!r}: expected a function")


NEAR = 0.57  # below it the nearest option means something else
OF_SHARE_GROUPS = {"auto_offset_reset": "share.auto.offset.reset", "isolation_level": "share.isolation.level"}


def check_known(kind: str, name: str, known: Collection[str]) -> None:
    """Raises ConfigurationError, with the nearest name, for an option that nobody knows."""
    if name not in known and name not in HAS_NO_MEANING:
        if kind == ShareConsumerConfig.KIND and name in OF_SHARE_GROUPS:
            way = f"`oncelog configs set --group NAME {OF_SHARE_GROUPS[name]}=...`"
            raise ConfigurationError(f"{kind}: {name!r} is a config of the group, for all its members: {way}")
        import difflib

        near = difflib.get_close_matches(name, known, n=1, cutoff=NEAR)
        raise ConfigurationError(f"{kind}: unknown option {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


def _converted(name: str, value: Any, kind: str) -> Any:
    """Strings become what the key takes; other values must be of that type already."""
    if kind == "Any" or (value is None and "None" in kind):
        return value
    base = kind.removesuffix(" | None")
    readers: dict[str, Callable[[Any], Any]] = {"bool": _boolean, "int": _integer, "str": _text}
    try:
        if name in LISTS and isinstance(value, list | tuple):
            return ",".join(map(_text, value))
        return readers[base](value)
    except (ValueError, TypeError, OverflowError) as error:
        if name in SECRETS:
            raise ConfigurationError(f"{name}: expected {base}") from None
        wanted = (
            "it is no Unicode text of at most 32767 bytes"
            if base == "str" == type(value).__name__
            else f"expected {base}"
        )
        raise ConfigurationError(f"{name}={value!r:.200}: {wanted}") from error


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text not in _TRUE | _FALSE:
        raise ValueError(text)
    return text in _TRUE


def _integer(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError(value)
    return whole_number(value) if isinstance(value, str) else int(value)


def _text(value: Any) -> str:
    if isinstance(value, str | int) and not isinstance(value, bool):
        text = str(value)
        if is_wire_text(text):
            return text
    raise ValueError(value)
