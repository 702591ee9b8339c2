"""The configs of groups and of client-metrics subscriptions: keys, kinds, bounds (KIP-848, KIP-714).

Groups honour theirs, of each kind. Subscriptions: `core/client_metrics`.
"""

from __future__ import annotations

from collections.abc import Callable

from oncelog.core.metadata.refusal import Refusal
from oncelog.core.metadata.topic_configs import ConfigKey, value_fault
from oncelog.core.name_pattern import InvalidPattern, NamePattern
from oncelog.core.offset_reset import check_strategy
from oncelog.errors import ErrorCode

_INT_MAX = 2**31 - 1


def _int(name: str, default: int, synonym: str = "", least: int = 0) -> ConfigKey:
    return ConfigKey(name, "int", str(default), synonym or name, least, _INT_MAX)


_GROUP = (
    _int("consumer.session.timeout.ms", 45_000, "group.consumer.session.timeout.ms", 1),
    _int("consumer.heartbeat.interval.ms", 5_000, "group.consumer.heartbeat.interval.ms", 1),
    _int("consumer.assignment.interval.ms", 1_000, "group.consumer.assignment.interval.ms"),
    _int("share.session.timeout.ms", 45_000, "group.share.session.timeout.ms", 1),
    _int("share.heartbeat.interval.ms", 5_000, "group.share.heartbeat.interval.ms", 1),
    _int("share.assignment.interval.ms", 1_000, "group.share.assignment.interval.ms"),
    _int("share.record.lock.duration.ms", 30_000, "group.share.record.lock.duration.ms", 1000),
    _int("share.delivery.count.limit", 5, "group.share.delivery.count.limit", 2),
    _int("share.partition.max.record.locks", 2_000, "group.share.partition.max.record.locks", 100),
    ConfigKey("share.auto.offset.reset", "string", "latest", "share.auto.offset.reset"),
    ConfigKey(
        "share.isolation.level",
        "string",
        "read_uncommitted",
        "share.isolation.level",
        choices=("read_committed", "read_uncommitted"),
    ),
    ConfigKey("share.renew.acknowledge.enable", "boolean", "true", "share.renew.acknowledge.enable"),
    _int("streams.session.timeout.ms", 45_000, "group.streams.session.timeout.ms", 1),
    _int("streams.heartbeat.interval.ms", 5_000, "group.streams.heartbeat.interval.ms", 1),
    _int("streams.assignment.interval.ms", 1_000, "group.streams.assignment.interval.ms"),
    _int("streams.initial.rebalance.delay.ms", 3_000, "group.streams.initial.rebalance.delay.ms"),
    _int("streams.num.standby.replicas", 0, "group.streams.num.standby.replicas"),
)
GROUP_CONFIGS: dict[str, ConfigKey] = {config.name: config for config in _GROUP}

_METRICS = (
    ConfigKey("interval.ms", "int", "300000", least=-_INT_MAX - 1, most=_INT_MAX),
    ConfigKey("match", "list", ""),
    ConfigKey("metrics", "list", ""),
)
CLIENT_METRICS_CONFIGS: dict[str, ConfigKey] = {config.name: config for config in _METRICS}
_INTERVAL_MS_MIN, _INTERVAL_MS_MAX = 100, 3_600_000
_MATCHABLE = frozenset(
    (
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    )
)
_MEMBER_KINDS = ("consumer.", "share.", "streams.")
_STANDBYS, _STANDBYS_MAX = "streams.num.standby.replicas", "group.streams.max.standby.replicas"
_BOUNDED = (
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "assignment.interval.ms",
    "record.lock.duration.ms",
    "delivery.count.limit",
    "partition.max.record.locks",
)


def group_refusal(name: str, value: str, broker_value: Callable[[str], str | None]) -> Refusal | None:
    """Why a group cannot have this value; `broker_value` gives the broker's bounds, None for keys it has not."""
    config = GROUP_CONFIGS.get(name)
    if config is None:
        return Refusal(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}")
    fault = value_fault(config, value.strip())
    if fault is None and name.startswith(_MEMBER_KINDS) and name.endswith(_BOUNDED):
        kind, _, rest = name.partition(".")
        low, high = broker_value(f"group.{kind}.min.{rest}"), broker_value(f"group.{kind}.max.{rest}")
        if low is not None and int(value) < int(low):
            fault = f"{name} must be greater than or equal to group.{kind}.min.{rest}"
        elif high is not None and int(value) > int(high):
            fault = f"{name} must be less than or equal to group.{kind}.max.{rest}"
    elif fault is None and name == _STANDBYS:
        high = broker_value(_STANDBYS_MAX)
        if high is not None and int(value) > int(high):
            fault = f"{name} must be less than or equal to {_STANDBYS_MAX}"
    elif fault is None and name == "share.auto.offset.reset":
        fault = _reset_fault(value.strip())
    return Refusal(ErrorCode.INVALID_CONFIG, fault) if fault else None


def _reset_fault(value: str) -> str | None:
    """Why a share group cannot begin so: as a consumer's `auto.offset.reset`, but that it has to begin somewhere."""
    try:
        check_strategy(value)
    except ValueError as error:
        return f"Invalid value {value} for configuration share.auto.offset.reset: {error}"
    return "Invalid value none for configuration share.auto.offset.reset" if value == "none" else None


def match_patterns(match: str) -> dict[str, NamePattern]:
    """`selector=pattern,...`, by selector; the last of several counts. Raises InvalidPattern with the item as its text.

    Apache Kafka's patterns are Java's; these are matched in linear time and are the everyday part of them.
    """
    found = {}
    for item in filter(None, (each.strip() for each in match.split(","))):
        selector, *texts = item.rstrip("=").split("=")
        if selector.strip() not in _MATCHABLE or len(texts) != 1:
            raise InvalidPattern(item)
        try:
            found[selector.strip()] = NamePattern(texts[0].strip())
        except InvalidPattern as error:
            raise InvalidPattern(item) from error
    return found


def client_metrics_refusal(name: str, value: str) -> Refusal | None:
    """Why a subscription cannot have this value."""
    config = CLIENT_METRICS_CONFIGS.get(name)
    if config is None:
        return Refusal(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name}")
    fault = value_fault(config, value.strip())
    if fault is None and config.kind == "list" and value.strip() and not all(map(str.strip, value.split(","))):
        fault = f"Configuration '{name}' values must not be empty."
    if fault:
        return Refusal(ErrorCode.INVALID_CONFIG, fault)
    if name == "interval.ms" and not _INTERVAL_MS_MIN <= int(value) <= _INTERVAL_MS_MAX:
        return Refusal(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {value} for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        )
    if name == "match":
        try:
            match_patterns(value)
        except InvalidPattern as error:
            return Refusal(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {error}")
    return None
