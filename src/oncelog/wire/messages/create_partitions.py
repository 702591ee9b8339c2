"""CreatePartitions: raise the number of a topic's partitions."""

from oncelog.wire.schema import EMPTY, Bool, Int16, Int32, String, Struct


class CreatePartitionsAssignment(Struct):
    broker_ids: list[Int32] = EMPTY


class CreatePartitionsTopic(Struct):
    name: String = ""
    count: Int32 = 0
    assignments: list[CreatePartitionsAssignment] | None = EMPTY


class CreatePartitionsRequest(Struct, key=37, versions=(0, 3), flexible=2):
    """`count` is the new total."""

    topics: list[CreatePartitionsTopic] = EMPTY
    timeout_ms: Int32 = 0
    validate_only: Bool = False


class CreatePartitionsTopicResult(Struct):
    name: String = ""
    error_code: Int16 = 0
    error_message: String | None = None


class CreatePartitionsResponse(Struct, key=37, versions=(0, 3), flexible=2):
    """One result per topic."""

    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult] = EMPTY
