"""What CreateTopics, DeleteTopics and CreatePartitions may do on one node, as decisions.

Each function looks at the metadata and returns the records to append and the result to answer; it changes nothing. On a
single node the only replica of every partition is this node, so replication factors above 1 are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from oncelog.core.metadata.cluster import TOPIC_RESOURCE, ClusterMetadata, Topic
from oncelog.core.metadata.refusal import Refusal
from oncelog.core.metadata.topic_configs import INTERNAL_TOPICS, collision, config_fault, conflict
from oncelog.core.topic_names import topic_name_fault
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.log_records.cluster_metadata import ConfigRecord, MetadataRecord, RemoveTopicRecord, TopicRecord
from oncelog.wire.messages.create_partitions import CreatePartitionsTopic, CreatePartitionsTopicResult
from oncelog.wire.messages.create_topics import CreatableTopic
from oncelog.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicState

PARTITION_COUNT_MAX = 10_000
METADATA_TOPIC = "__cluster_metadata"


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic that may be created, with the records that create it."""

    topic: Topic
    records: tuple[MetadataRecord, ...]


@dataclass(frozen=True, slots=True)
class Defaults:
    """What -1 stands for, which node the replicas are on (None: several processes share them out), how many topics and
    partitions there may be in all, and the value in force of a broker's key."""

    partition_count: int
    node_id: int | None
    new_topic_id: Callable[[], bytes]
    topic_count_max: int = 20_000
    partition_count_max: int = 100_000
    broker_value: Callable[[str], str | None] = lambda _: None


def create_topic(metadata: ClusterMetadata, asked: CreatableTopic, defaults: Defaults) -> NewTopic | Refusal:
    """Whether `asked` may be created now."""
    refusal = _name_refusal(metadata, asked.name)
    if refusal:
        return refusal
    for config in asked.configs:
        fault = config_fault(config.name, config.value)
        if fault:
            return Refusal(ErrorCode.INVALID_CONFIG, fault)
    configs = {config.name: config.value or "" for config in asked.configs}  # the last of a repeated key wins, as Kafka
    if configs and asked.name not in INTERNAL_TOPICS:  # nobody could use groups while the broker's defaults contradict
        fault = conflict(configs, defaults.broker_value)
        if fault:
            return Refusal(ErrorCode.INVALID_CONFIG, fault)
    count = _partition_count(asked, defaults)
    if isinstance(count, Refusal):
        return count
    # Without the internal ones, of the size that the broker makes them in, there are no groups and transactions.
    if asked.name not in INTERNAL_TOPICS or count > defaults.partition_count:
        full = _no_room(metadata, defaults, 1, count)
        if full:
            return full
    topic = Topic(asked.name, defaults.new_topic_id(), count, configs)
    records: list[MetadataRecord] = [TopicRecord(name=topic.name, topic_id=topic.topic_id, partition_count=count)]
    records += [
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value)
        for name, value in configs.items()
    ]
    return NewTopic(topic, tuple(records))


def _name_refusal(metadata: ClusterMetadata, name: str) -> Refusal | None:
    fault = topic_name_fault(name)
    if fault:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {fault}")
    if name == METADATA_TOPIC:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Creation of internal topic {name} is prohibited.")
    if name in metadata.topics:
        return Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = collision(name, metadata.topics)
    if other:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")
    return None


def _partition_count(asked: CreatableTopic, defaults: Defaults) -> int | Refusal:
    if asked.assignments:
        return _assigned_count(asked, defaults)
    factor, count = asked.replication_factor, asked.num_partitions
    if factor < -1 or factor == 0:
        return Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if count < -1 or count == 0:
        return Refusal(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    if factor > 1:
        return Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be "
            "reached because only 1 broker(s) are registered or some brokers have all their log directories cordoned.",
        )
    return _bounded(defaults.partition_count if count == -1 else count)


def _assigned_count(asked: CreatableTopic, defaults: Defaults) -> int | Refusal:
    if asked.replication_factor != -1 or asked.num_partitions != -1:
        return Refusal(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but the count or replication factor was not set to -1.",
        )
    indexes = sorted(assignment.partition_index for assignment in asked.assignments)
    if indexes != list(range(len(indexes))):
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    faults = (assignment_fault(assignment.broker_ids, defaults.node_id) for assignment in asked.assignments)
    fault = next(filter(None, faults), None)
    if fault is not None:
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, fault)
    return _bounded(len(indexes))


def _bounded(count: int) -> int | Refusal:
    if count > PARTITION_COUNT_MAX:
        return Refusal(
            ErrorCode.POLICY_VIOLATION,
            f"Excessively large number of partitions per request: {count} (at most {PARTITION_COUNT_MAX})",
        )
    return count


def _no_room(metadata: ClusterMetadata, defaults: Defaults, topics: int, partitions: int) -> Refusal | None:
    if len(metadata.topics) + topics > defaults.topic_count_max:
        message = f"There are {len(metadata.topics)} topics, and no more may be (oncelog.max.topics)."
        return Refusal(ErrorCode.POLICY_VIOLATION, message, "oncelog.max.topics")
    partition_count = metadata.partition_count
    if partition_count + partitions > defaults.partition_count_max:
        message = (
            f"There are {partition_count} partitions, and {partitions} more would be too many (oncelog.max.partitions)."
        )
        return Refusal(ErrorCode.POLICY_VIOLATION, message, "oncelog.max.partitions")
    return None


def add_partitions(metadata: ClusterMetadata, asked: CreatePartitionsTopic, defaults: Defaults) -> NewTopic | Refusal:
    """Whether the topic's partition count may be raised to `asked.count`."""
    topic = metadata.topics.get(asked.name)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    if asked.name in INTERNAL_TOPICS:
        # The count decides which coordinator owns a group or transactional id: it is fixed at first use.
        return Refusal(ErrorCode.INVALID_PARTITIONS, f"The partition count of {asked.name} cannot be changed.")
    added = asked.count - topic.partition_count
    if added == 0:
        return Refusal(ErrorCode.INVALID_PARTITIONS, f"Topic already has {asked.count} partition(s).")
    if added < 0:
        return Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {asked.name} currently has {topic.partition_count} partition(s); "
            f"{asked.count} would not be an increase.",
        )
    if asked.assignments is not None:
        if len(asked.assignments) != added:
            return Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {added} additional partition(s), but only {len(asked.assignments)} assignment(s) "
                "were specified.",
            )
        faults = (assignment_fault(each.broker_ids, defaults.node_id) for each in asked.assignments)
        fault = next(filter(None, faults), None)
        if fault is not None:
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, fault)
    count = _bounded(asked.count)
    if isinstance(count, Refusal):
        return count
    full = _no_room(metadata, defaults, 0, added)
    if full:
        return full
    record = TopicRecord(name=topic.name, topic_id=topic.topic_id, partition_count=count)
    return NewTopic(Topic(topic.name, topic.topic_id, count, topic.configs), (record,))


def partitions_result(asked: CreatePartitionsTopic, refusal: Refusal | None) -> CreatePartitionsTopicResult:
    """The wire result for one topic of CreatePartitions."""
    if refusal is None:
        return CreatePartitionsTopicResult(name=asked.name, error_code=ErrorCode.NONE)
    return CreatePartitionsTopicResult(name=asked.name, error_code=refusal.error_code, error_message=refusal.message)


def states_to_delete(request: DeleteTopicsRequest, version: int) -> Sequence[DeleteTopicState]:
    """What DeleteTopics asks for, in its order."""
    return request.topics if version >= 6 else [DeleteTopicState(name=name) for name in request.topic_names]


def delete_topics(
    metadata: ClusterMetadata, request: DeleteTopicsRequest, version: int, *, is_enabled: bool
) -> tuple[list[tuple[Topic, RemoveTopicRecord]], list[DeletableTopicResult]]:
    """The topics that may be deleted, and every result, in the order of the request."""
    states = states_to_delete(request, version)
    found: list[tuple[Topic, RemoveTopicRecord]] = []
    results: list[DeletableTopicResult] = []
    seen: set[bytes] = set()
    times = Counter(state.name for state in states if state.name is not None)
    for name in [name for name, count in times.items() if count > 1]:  # one refusal, and nothing is deleted
        refused = DeletableTopicResult(name=name, error_code=ErrorCode.INVALID_REQUEST)
        results.append(refused.replace(error_message="Duplicate topic name."))
    for state in states:
        if state.name is not None and times[state.name] > 1:
            continue
        outcome = _deletable(metadata, state, seen, version, is_enabled=is_enabled)
        result = DeletableTopicResult(name=state.name, topic_id=state.topic_id)
        if isinstance(outcome, Refusal):
            result.error_code, result.error_message = outcome.error_code, outcome.message
        else:
            seen.add(outcome.topic_id)
            found.append((outcome, RemoveTopicRecord(topic_id=outcome.topic_id)))
            result.name, result.topic_id = outcome.name, outcome.topic_id
        results.append(result)
    return found, results


def _deletable(
    metadata: ClusterMetadata, state: DeleteTopicState, seen: set[bytes], version: int, *, is_enabled: bool
) -> Topic | Refusal:
    if not is_enabled:
        code = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
        return Refusal(code, "Topic deletion is disabled.")
    if state.name is not None and state.topic_id != bytes(16):
        return Refusal(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    topic = metadata.topic(state.name, state.topic_id)
    if topic is None:
        if state.name is None:
            return Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    if topic.topic_id in seen:
        return Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic in the request.")
    if topic.name in INTERNAL_TOPICS:
        # The coordinators' memory lives there; without it committed transactions could be decided a second time.
        return Refusal(ErrorCode.INVALID_REQUEST, f"The internal topic {topic.name} cannot be deleted.")
    return topic


def assignment_fault(broker_ids: Sequence[int], node_id: int | None) -> str | None:
    """Why a partition's replicas cannot be on these brokers, or None."""
    if node_id is None:
        return (
            "Partitions cannot be assigned to brokers here: the processes of oncelog serve --processes share them out."
        )
    if not broker_ids:
        return "The manual partition assignment includes an empty replica list."
    ordered = sorted(broker_ids)
    for position, broker_id in enumerate(ordered):
        if broker_id in ordered[:position]:
            return f"The manual partition assignment includes the broker {broker_id} more than once."
        if broker_id != node_id:
            return f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
    return None
