"""A topic's configuration: Kafka's names, kinds and bounds, and where a default comes from.

A value set on the topic wins, then the broker's key it is a synonym of, then Kafka's default. `settings` gives the
typed values the partitions work with. Values are kept as the text they were set with, as Kafka does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from oncelog.core.number_text import number as number_of
from oncelog.core.number_text import whole_number
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.compression import Codec, Compression

_LONG_MAX = 2**63 - 1
_INT_MAX = 2**31 - 1

GZIP_LEVELS = ("-1", *map(str, range(1, 10)))  # 0 would not compress
_COMPRESSIONS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}

TRANSACTION_STATE_TOPIC = "__transaction_state"
CONSUMER_OFFSETS_TOPIC = "__consumer_offsets"
SHARE_STATE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset((TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC, SHARE_STATE_TOPIC))
AUDIT_TOPIC = "__oncelog_audit"  # an ordinary topic, but that nobody else writes there
BROKER_WRITTEN_TOPICS = INTERNAL_TOPICS | {AUDIT_TOPIC}


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key a topic may set. `kind` is Kafka's name of the type; `synonym` is the broker's key for its default."""

    name: str
    kind: str
    default: str
    synonym: str = ""
    least: int = -_LONG_MAX
    most: int = _LONG_MAX
    choices: tuple[str, ...] = ()
    is_honoured: bool = True


def _long(name: str, default: int, synonym: str = "", least: int = 0, *, is_honoured: bool = True) -> ConfigKey:
    return ConfigKey(name, "long", str(default), synonym, least, is_honoured=is_honoured)


def _int(name: str, default: int, synonym: str = "", least: int = 0) -> ConfigKey:
    return ConfigKey(name, "int", str(default), synonym, least, _INT_MAX)


def _ignored(name: str, kind: str, default: str, synonym: str = "") -> ConfigKey:
    return ConfigKey(name, kind, default, synonym, is_honoured=False)


_ALL = (
    ConfigKey("cleanup.policy", "list", "delete", "log.cleanup.policy", choices=("compact", "delete")),
    ConfigKey(
        "compression.type",
        "string",
        "producer",
        "compression.type",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    ConfigKey("compression.gzip.level", "int", "-1", "compression.gzip.level", -1, 9, choices=GZIP_LEVELS),
    ConfigKey("compression.lz4.level", "int", "9", "compression.lz4.level", 1, 17),
    ConfigKey("compression.zstd.level", "int", "3", "compression.zstd.level", -131_072, 22),
    _long("delete.retention.ms", 86_400_000, "log.cleaner.delete.retention.ms"),
    _long("file.delete.delay.ms", 60_000, "log.segment.delete.delay.ms"),
    _long("flush.messages", _LONG_MAX, "log.flush.interval.messages", 1, is_honoured=False),
    _long("flush.ms", _LONG_MAX, "log.flush.interval.ms", is_honoured=False),
    _ignored("follower.replication.throttled.replicas", "list", ""),
    _int("index.interval.bytes", 4096, "log.index.interval.bytes"),
    _ignored("leader.replication.throttled.replicas", "list", ""),
    _long("local.retention.bytes", -2, "log.local.retention.bytes", -2, is_honoured=False),
    _long("local.retention.ms", -2, "log.local.retention.ms", -2, is_honoured=False),
    _long("max.compaction.lag.ms", _LONG_MAX, "log.cleaner.max.compaction.lag.ms", 1),
    _int("max.message.bytes", 1_048_588, "message.max.bytes"),
    _long("message.timestamp.after.max.ms", 3_600_000, "log.message.timestamp.after.max.ms"),
    _long("message.timestamp.before.max.ms", _LONG_MAX, "log.message.timestamp.before.max.ms"),
    ConfigKey(
        "message.timestamp.type",
        "string",
        "CreateTime",
        "log.message.timestamp.type",
        choices=("CreateTime", "LogAppendTime"),
    ),
    ConfigKey("min.cleanable.dirty.ratio", "double", "0.5", "log.cleaner.min.cleanable.ratio", 0, 1),
    _long("min.compaction.lag.ms", 0, "log.cleaner.min.compaction.lag.ms"),
    _int("min.insync.replicas", 1, "min.insync.replicas", 1),
    ConfigKey("preallocate", "boolean", "false", "log.preallocate", is_honoured=False),
    ConfigKey("remote.log.copy.disable", "boolean", "false", is_honoured=False),
    ConfigKey("remote.log.delete.on.disable", "boolean", "false", is_honoured=False),
    ConfigKey("remote.storage.enable", "boolean", "false", is_honoured=False),
    _long("retention.bytes", -1, "log.retention.bytes", -1),
    _long("retention.ms", 604_800_000, "log.retention.ms", -1),
    _int("segment.bytes", 1_073_741_824, "log.segment.bytes", 1_048_576),
    _int("segment.index.bytes", 10_485_760, "log.index.size.max.bytes", 4),
    _long("segment.jitter.ms", 0, "log.roll.jitter.ms"),
    _long("segment.ms", 604_800_000, "log.roll.ms", 1),
    ConfigKey(
        "unclean.leader.election.enable", "boolean", "false", "unclean.leader.election.enable", is_honoured=False
    ),
)
TOPIC_CONFIGS: dict[str, ConfigKey] = {config.name: config for config in _ALL}
THROTTLED_REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
COMPACTION_LAGS = ("min.compaction.lag.ms", "max.compaction.lag.ms")
_THROTTLED = re.compile(r"\*|[0-9]+:[0-9]+(\s*,\s*[0-9]+:[0-9]+)*")


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The typed values a partition works with; sizes in bytes, times in milliseconds, -1 is without limit."""

    is_compacted: bool
    is_deleted_by_retention: bool
    max_message_size_bytes: int
    is_log_append_time: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    segment_size_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    index_interval_bytes: int
    index_size_bytes_max: int
    retention_ms: int
    retention_size_bytes: int
    delete_retention_ms: int
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    file_delete_delay_ms: int
    compression: Compression | None  # of every batch; None leaves each as its producer compressed it


def collision(name: str, existing: Mapping[str, object]) -> str | None:
    """The existing topic whose name differs from `name` only by '.' and '_' (their metrics would collide)."""
    if "." not in name and "_" not in name:
        return None
    folded = name.replace(".", "_")
    return next((other for other in existing if other != name and other.replace(".", "_") == folded), None)


def config_fault(name: str, value: str | None) -> str | None:
    """Why `name`=`value` is refused for a topic, or None."""
    config = TOPIC_CONFIGS.get(name)
    if config is None:
        return f"Unknown topic config name: {name}"
    if value is None:
        return f"Null value not supported for topic configs: {name}"
    if name == "remote.storage.enable" and value.strip().lower() == "true":
        return "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
    if name in THROTTLED_REPLICAS and value.strip() and not _THROTTLED.fullmatch(value.strip()):
        wanted = "the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],..."
        return f"Invalid value [{value}] for configuration {name}: {name} must be {wanted}"
    return value_fault(config, value.strip())


def value_fault(config: ConfigKey, value: str) -> str | None:
    """Why `value` is refused for a key, or None."""
    wrong = f"Invalid value {value} for configuration {config.name}"
    if config.kind in ("int", "short", "long", "double"):
        try:
            number = number_of(value) if config.kind == "double" else whole_number(value) if len(value) < 25 else None
        except ValueError:
            number = None
        if number is None or number != number:
            return f"{wrong}: Not a number of type {config.kind.upper()}"
        if number < config.least:
            return f"{wrong}: Value must be at least {config.least}"
        if number > config.most:
            return f"{wrong}: Value must be no more than {config.most}"
        if config.choices and str(number) not in config.choices:
            return f"{wrong}: Value must be one of {', '.join(config.choices)}"
    elif config.kind == "boolean" and value.lower() not in ("true", "false"):
        return f"{wrong}: Expected value to be either true or false"
    elif config.kind == "list" and config.choices:
        if value and not all(map(str.strip, value.split(","))):
            return f"Configuration '{config.name}' values must not be empty."
        if any(item.strip() not in config.choices for item in value.split(",") if value):
            return f"{wrong}: String must be one of: {', '.join(config.choices)}"
    elif config.choices and value not in config.choices:
        return f"{wrong}: String must be one of: {', '.join(config.choices)}"
    return None


def effective(name: str, overrides: Mapping[str, str], broker_value: Callable[[str], str | None]) -> str:
    """The value in force: the topic's own, else the broker's default, else Kafka's."""
    if name in overrides:
        return overrides[name]
    config = TOPIC_CONFIGS[name]
    inherited = broker_value(config.synonym) if config.synonym else None
    return config.default if inherited is None else inherited


def conflict(overrides: Mapping[str, str], broker_value: Callable[[str], str | None]) -> str | None:
    """Why a topic cannot have these overrides together, with the broker's defaults for the others; None where it can."""
    least, most = (int(effective(name, overrides, broker_value).strip()) for name in COMPACTION_LAGS)
    if least <= most:
        return None
    return f"conflict topic config setting {COMPACTION_LAGS[0]} ({least}) > {COMPACTION_LAGS[1]} ({most})"


def settings(overrides: Mapping[str, str], broker_value: Callable[[str], str | None]) -> TopicSettings:
    """The typed values in force for a topic with these overrides."""

    def text(name: str) -> str:
        return effective(name, overrides, broker_value).strip()

    policies = {item.strip() for item in text("cleanup.policy").split(",")}
    return TopicSettings(
        is_compacted="compact" in policies,
        is_deleted_by_retention="delete" in policies,
        max_message_size_bytes=int(text("max.message.bytes")),
        is_log_append_time=text("message.timestamp.type") == "LogAppendTime",
        timestamp_before_max_ms=int(text("message.timestamp.before.max.ms")),
        timestamp_after_max_ms=int(text("message.timestamp.after.max.ms")),
        segment_size_bytes=int(text("segment.bytes")),
        segment_ms=int(text("segment.ms")),
        segment_jitter_ms=int(text("segment.jitter.ms")),
        index_interval_bytes=int(text("index.interval.bytes")),
        index_size_bytes_max=int(text("segment.index.bytes")),
        retention_ms=int(text("retention.ms")),
        retention_size_bytes=int(text("retention.bytes")),
        delete_retention_ms=int(text("delete.retention.ms")),
        min_cleanable_dirty_ratio=float(text("min.cleanable.dirty.ratio")),
        min_compaction_lag_ms=int(text("min.compaction.lag.ms")),
        max_compaction_lag_ms=int(text("max.compaction.lag.ms")),
        file_delete_delay_ms=int(text("file.delete.delay.ms")),
        compression=_compression(text),
    )


def _compression(text: Callable[[str], str]) -> Compression | None:
    codec = _COMPRESSIONS.get(name := text("compression.type"))
    if codec is None:
        return None
    level = f"compression.{name}.level"
    return Compression(codec, int(text(level)) if level in TOPIC_CONFIGS else None)
