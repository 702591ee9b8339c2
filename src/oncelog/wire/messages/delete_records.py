"""DeleteRecords: move the log start offset forward."""

from oncelog.wire.schema import EMPTY, Int16, Int32, Int64, String, Struct


class DeleteRecordsPartition(Struct):
    partition_index: Int32 = 0
    offset: Int64 = 0


class DeleteRecordsTopic(Struct):
    name: String = ""
    partitions: list[DeleteRecordsPartition] = EMPTY


class DeleteRecordsRequest(Struct, key=21, versions=(0, 2), flexible=2):
    """Offset -1 is the high watermark."""

    topics: list[DeleteRecordsTopic] = EMPTY
    timeout_ms: Int32 = 0


class DeleteRecordsPartitionResult(Struct):
    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


class DeleteRecordsTopicResult(Struct):
    name: String = ""
    partitions: list[DeleteRecordsPartitionResult] = EMPTY


class DeleteRecordsResponse(Struct, key=21, versions=(0, 2), flexible=2):
    """The new log start offset of each partition."""

    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult] = EMPTY
