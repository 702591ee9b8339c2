"""ListPartitionReassignments: moves of replicas that are under way (KIP-455)."""

from oncelog.wire.schema import EMPTY, Int16, Int32, String, Struct


class ListPartitionReassignmentsTopics(Struct):
    name: String = ""
    partition_indexes: list[Int32] = EMPTY


class ListPartitionReassignmentsRequest(Struct, key=46, versions=(0, 0), flexible=0):
    """Null topics ask for all of them."""

    timeout_ms: Int32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None


class OngoingPartitionReassignment(Struct):
    partition_index: Int32 = 0
    replicas: list[Int32] = EMPTY
    adding_replicas: list[Int32] = EMPTY
    removing_replicas: list[Int32] = EMPTY


class OngoingTopicReassignment(Struct):
    name: String = ""
    partitions: list[OngoingPartitionReassignment] = EMPTY


class ListPartitionReassignmentsResponse(Struct, key=46, versions=(0, 0), flexible=0):
    """Present, coming and going replicas."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    topics: list[OngoingTopicReassignment] = EMPTY
