"""What AlterConfigs and IncrementalAlterConfigs may change, as decisions over the cluster's metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from oncelog.core.cluster_metadata import BROKER_RESOURCE, TOPIC_RESOURCE, ClusterMetadata
from oncelog.core.topic_admin import Refusal
from oncelog.core.topic_configs import TOPIC_CONFIGS, config_fault, topic_name_fault
from oncelog.errors import ErrorCode
from oncelog.wire.log_records.cluster_metadata import ConfigRecord

SET, DELETE, APPEND, SUBTRACT = range(4)


@dataclass(frozen=True, slots=True)
class BrokerKeys:
    """What the rules need to know of the broker's keys: `fault(name, value)` says why a dynamic value is refused."""

    node_id: int
    is_list: Callable[[str], bool]
    fault: Callable[[str, str], str | None]


@dataclass(frozen=True, slots=True)
class Change:
    """One config to set, or to remove where `value` is None."""

    name: str
    operation: int
    value: str | None


def incremental_changes(
    metadata: ClusterMetadata, resource_type: int, resource_name: str, changes: list[Change], keys: BrokerKeys
) -> list[ConfigRecord] | Refusal:
    """The records that make `changes` (SET, DELETE, APPEND, SUBTRACT) on one resource, or why none is made."""
    current = _current(metadata, resource_type, resource_name, keys)
    if isinstance(current, Refusal):
        return current
    names = [change.name for change in changes]
    if len(set(names)) != len(names):
        return Refusal(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    missing = [change.name for change in changes if change.value is None and change.operation != DELETE]
    if missing:
        return Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(missing)}")
    wanted: dict[str, str | None] = {}
    for change in changes:
        value = _changed_value(change, current.get(change.name), resource_type, keys)
        if isinstance(value, Refusal):
            return value
        wanted[change.name] = value
    return _checked(resource_type, resource_name, wanted, current, keys)


def whole_change(
    metadata: ClusterMetadata, resource_type: int, resource_name: str, values: list[Change], keys: BrokerKeys
) -> list[ConfigRecord] | Refusal:
    """The records that make `values` the whole configuration of one resource (AlterConfigs), or why not."""
    current = _current(metadata, resource_type, resource_name, keys)
    if isinstance(current, Refusal):
        return current
    if any(change.value is None for change in values):
        return Refusal(ErrorCode.INVALID_REQUEST, "Null value not supported")
    wanted: dict[str, str | None] = dict.fromkeys(current)
    wanted |= {change.name: change.value for change in values}
    return _checked(resource_type, resource_name, wanted, current, keys)


def _current(metadata: ClusterMetadata, resource_type: int, name: str, keys: BrokerKeys) -> Mapping[str, str] | Refusal:
    if resource_type == TOPIC_RESOURCE:
        if not name:
            return Refusal(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        topic = metadata.topics.get(name)
        if topic is None:
            code = ErrorCode.INVALID_TOPIC_EXCEPTION if topic_name_fault(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return Refusal(code, f"The topic '{name}' does not exist.")
        return topic.configs
    if resource_type == BROKER_RESOURCE:
        if name not in ("", str(keys.node_id)):
            return Refusal(
                ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {keys.node_id}, but received {name}"
            )
        return metadata.broker_configs.get(name, {})
    return Refusal(ErrorCode.INVALID_REQUEST, f"Unsupported resource type {resource_type}")


def _changed_value(change: Change, current: str | None, resource_type: int, keys: BrokerKeys) -> str | Refusal | None:
    if change.operation == DELETE:
        return None
    if change.operation == SET:
        return change.value
    if change.operation not in (APPEND, SUBTRACT):
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"Unknown config operation {change.operation}")
    config = TOPIC_CONFIGS.get(change.name)
    is_list = (
        config is not None and config.kind == "list" if resource_type == TOPIC_RESOURCE else keys.is_list(change.name)
    )
    if not is_list:
        return Refusal(
            ErrorCode.INVALID_CONFIG,
            f"Config value append/subtract is not allowed for config key: {change.name}",
        )
    given = [item for item in (change.value or "").split(",") if item]
    have = current if current is not None else config.default if config else ""
    items = [item for item in have.split(",") if item]
    if change.operation == APPEND:
        return ",".join(items + [item for item in given if item not in items])
    return ",".join(item for item in items if item not in given)


def _checked(
    resource_type: int,
    resource_name: str,
    wanted: Mapping[str, str | None],
    current: Mapping[str, str],
    keys: BrokerKeys,
) -> list[ConfigRecord] | Refusal:
    for name, value in wanted.items():
        if value is None:
            continue
        fault = config_fault(name, value) if resource_type == TOPIC_RESOURCE else keys.fault(name, value)
        if fault:
            return Refusal(ErrorCode.INVALID_CONFIG, fault)
    return [
        ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
        for name, value in wanted.items()
        if current.get(name) != value
    ]
