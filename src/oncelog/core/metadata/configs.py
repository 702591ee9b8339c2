"""What AlterConfigs and IncrementalAlterConfigs may change, as decisions over the cluster's metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from oncelog.core.metadata.cluster import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ClusterMetadata,
)
from oncelog.core.metadata.refusal import Refusal, limit_refusal
from oncelog.core.metadata.resource_configs import (
    CLIENT_METRICS_CONFIGS,
    GROUP_CONFIGS,
    client_metrics_refusal,
    group_refusal,
)
from oncelog.core.metadata.topic_configs import TOPIC_CONFIGS, ConfigKey, config_fault, conflict
from oncelog.core.topic_names import topic_name_fault
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.log_records.cluster_metadata import ConfigRecord

SET, DELETE, APPEND, SUBTRACT = range(4)
_OPERATIONS = frozenset((SET, DELETE, APPEND, SUBTRACT))
OF_THE_CONTROLLER = frozenset((TOPIC_RESOURCE, GROUP_RESOURCE, CLIENT_METRICS_RESOURCE))
_TABLES: dict[int, dict[str, ConfigKey]] = {
    TOPIC_RESOURCE: TOPIC_CONFIGS,
    GROUP_RESOURCE: GROUP_CONFIGS,
    CLIENT_METRICS_RESOURCE: CLIENT_METRICS_CONFIGS,
}


_NAMED_AT_WILL = (GROUP_RESOURCE, CLIENT_METRICS_RESOURCE)
VALUE_SIZE_BYTES_MAX = 32_767  # of a string on the wire: a longer one could not be described


@dataclass(frozen=True, slots=True)
class BrokerKeys:
    """What the rules need to know of the broker's keys.

    `fault(name, value, is_default)` says why a dynamic value is refused, of this broker or (`is_default`) of all;
    `value(name)` is the value in force, None for keys that the broker has not.
    """

    node_id: int
    is_list: Callable[[str], bool]
    fault: Callable[[str, str, bool], str | None]
    value: Callable[[str], str | None]
    resource_count_max: int = 10_000  # oncelog.max.config.resources


@dataclass(frozen=True, slots=True)
class Change:
    """One config to set, or to remove where `value` is None."""

    name: str
    operation: int
    value: str | None


def malformed_changes(changes: Sequence[Change]) -> Refusal | None:
    """What is wrong with changes, whatever they are about."""
    names = [change.name for change in changes]
    if len(set(names)) != len(names):
        return Refusal(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    missing = [change.name for change in changes if change.value is None and change.operation != DELETE]
    if missing:
        return Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(missing)}")
    return None


def unknown_operation(resource_type: int, changes: Sequence[Change]) -> Refusal | None:
    """The first operation that does not exist, if there is one; Kafka has a code for it on a broker's configs only.

    A controller that cannot read one change refuses all that it was asked in the request: see the handler.
    """
    unknown = next((change.operation for change in changes if change.operation not in _OPERATIONS), None)
    if unknown is None:
        return None
    code = ErrorCode.INVALID_REQUEST if resource_type == BROKER_RESOURCE else ErrorCode.UNKNOWN_SERVER_ERROR
    return Refusal(code, f"Unknown operations type {unknown}")


def incremental_changes(
    metadata: ClusterMetadata, resource_type: int, resource_name: str, changes: list[Change], keys: BrokerKeys
) -> list[ConfigRecord] | Refusal:
    """The records that make `changes` (SET, DELETE, APPEND, SUBTRACT) on one resource, or why none is made."""
    current = _current(metadata, resource_type, resource_name, keys)
    if isinstance(current, Refusal):
        return current
    fault = malformed_changes(changes) or unknown_operation(resource_type, changes)
    if fault is not None:
        return fault
    wanted: dict[str, str | None] = {}
    for change in changes:
        value = _changed_value(change, current.get(change.name), resource_type, keys)
        if isinstance(value, Refusal):
            return value
        wanted[change.name] = value
    return _limited(metadata, resource_type, _checked(resource_type, resource_name, wanted, current, keys), keys)


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
    return _limited(metadata, resource_type, _checked(resource_type, resource_name, wanted, current, keys), keys)


def _limited(
    metadata: ClusterMetadata, resource_type: int, outcome: list[ConfigRecord] | Refusal, keys: BrokerKeys
) -> list[ConfigRecord] | Refusal:
    """Groups and subscriptions are named as one likes: so many may have configs of their own."""
    if isinstance(outcome, Refusal) or not outcome or resource_type not in _NAMED_AT_WILL:
        return outcome
    count = sum(len(metadata.configs_of(each)) for each in _NAMED_AT_WILL)
    if outcome[0].resource_name in metadata.configs_of(resource_type) or count < keys.resource_count_max:
        return outcome
    what = "groups and client-metrics subscriptions with configs of their own"
    return limit_refusal("oncelog.max.config.resources", keys.resource_count_max, what)


def _current(metadata: ClusterMetadata, resource_type: int, name: str, keys: BrokerKeys) -> Mapping[str, str] | Refusal:
    invalid = ErrorCode.INVALID_REQUEST
    if resource_type == TOPIC_RESOURCE:
        return _current_of_topic(metadata, name)
    if resource_type == BROKER_RESOURCE:
        if name and not _is_number(name):
            return Refusal(invalid, f"Node id must be an integer, but it is: {name}")
        if name not in ("", str(keys.node_id)):
            return Refusal(invalid, f"Unexpected broker id, expected {keys.node_id}, but received {name}")
    elif resource_type == GROUP_RESOURCE:
        if not name:
            return Refusal(invalid, "Default group resources are not allowed.")
    elif resource_type == CLIENT_METRICS_RESOURCE:
        if not name:
            return Refusal(invalid, "Subscription name can't be empty")
    else:
        return Refusal(invalid, f"Unknown resource type {resource_type}")
    return metadata.configs_of(resource_type).get(name, {})


def _current_of_topic(metadata: ClusterMetadata, name: str) -> Mapping[str, str] | Refusal:
    if not name:
        return Refusal(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    topic = metadata.topics.get(name)
    if topic is not None:
        return topic.configs
    fault = topic_name_fault(name)
    if fault:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {fault}")
    return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and len(text) < 12


def _changed_value(change: Change, current: str | None, resource_type: int, keys: BrokerKeys) -> str | Refusal | None:
    if change.operation == DELETE:
        return None
    if change.operation == SET:
        return change.value
    config = _TABLES.get(resource_type, {}).get(change.name)
    if resource_type == BROKER_RESOURCE:
        is_list = keys.is_list(change.name)
    else:  # lists of a subscription are none to Kafka: it looks them up among the topics' and brokers' keys
        is_list = config is None or (config.kind == "list" and resource_type != CLIENT_METRICS_RESOURCE)
    if not is_list:
        verb = "APPEND" if change.operation == APPEND else "SUBTRACT"
        return Refusal(ErrorCode.INVALID_CONFIG, f"Can't {verb} to key {change.name} because its type is not LIST.")
    inherited = keys.value(change.name) if resource_type == BROKER_RESOURCE else config.default if config else ""
    have = current if current is not None else inherited or ""
    return ",".join(_changed_items([item for item in have.split(",") if item], change))


def _changed_items(items: list[str], change: Change) -> list[str]:
    """As Kafka does it, item by item and by their texts: SUBTRACT takes one of several equal ones."""
    for item in (change.value or "").split(","):
        if change.operation == SUBTRACT and item in items:
            items.remove(item)
        elif change.operation == APPEND and item not in items:
            items.append(item)
    return items


def _checked(
    resource_type: int,
    resource_name: str,
    wanted: Mapping[str, str | None],
    current: Mapping[str, str],
    keys: BrokerKeys,
) -> list[ConfigRecord] | Refusal:
    for name, value in wanted.items():
        if value is not None and len(value.encode()) > VALUE_SIZE_BYTES_MAX:  # grown by APPEND
            return Refusal(
                ErrorCode.INVALID_CONFIG,
                "The configuration value cannot be added because it exceeds the maximum value size of "
                f"{VALUE_SIZE_BYTES_MAX} bytes.",
            )
        refusal = None if value is None else _refusal(resource_type, resource_name, name, value, keys)
        if refusal:
            return refusal
    if resource_type == TOPIC_RESOURCE and wanted:
        together = {name: value for name, value in {**current, **wanted}.items() if value is not None}
        fault = conflict(together, keys.value)
        if fault:
            return Refusal(ErrorCode.INVALID_CONFIG, fault)
    return [
        ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
        for name, value in wanted.items()
        if current.get(name) != value
    ]


def _refusal(resource_type: int, resource_name: str, name: str, value: str, keys: BrokerKeys) -> Refusal | None:
    if resource_type == GROUP_RESOURCE:
        return group_refusal(name, value, keys.value)
    if resource_type == CLIENT_METRICS_RESOURCE:
        return client_metrics_refusal(name, value)
    if resource_type == TOPIC_RESOURCE:
        fault = config_fault(name, value)
        return Refusal(ErrorCode.INVALID_CONFIG, fault) if fault else None
    fault = keys.fault(name, value, not resource_name)
    return Refusal(ErrorCode.INVALID_REQUEST, fault) if fault else None
