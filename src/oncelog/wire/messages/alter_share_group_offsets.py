"""AlterShareGroupOffsets: begin again elsewhere, of a share group without members (KIP-932)."""

from oncelog.wire.schema import EMPTY, ZERO_UUID, Int16, Int32, Int64, String, Struct, Uuid


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: Int32 = 0
    start_offset: Int64 = 0


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: String = ""
    partitions: list[AlterShareGroupOffsetsRequestPartition] = EMPTY


class AlterShareGroupOffsetsRequest(Struct, key=91, versions=(0, 0), flexible=0):
    """Where each partition is to begin."""

    group_id: String = ""
    topics: list[AlterShareGroupOffsetsRequestTopic] = EMPTY


class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None


class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: String = ""
    topic_id: Uuid = ZERO_UUID
    partitions: list[AlterShareGroupOffsetsResponsePartition] = EMPTY


class AlterShareGroupOffsetsResponse(Struct, key=91, versions=(0, 0), flexible=0):
    """One result per partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic] = EMPTY
