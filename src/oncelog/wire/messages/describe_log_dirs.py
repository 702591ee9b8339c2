"""DescribeLogDirs: sizes of logs on disk."""

from oncelog.wire.schema import EMPTY, Bool, Int16, Int32, Int64, String, Struct, field


class DescribableLogDirTopic(Struct):
    topic: String = ""
    partitions: list[Int32] = EMPTY


class DescribeLogDirsRequest(Struct, key=35, versions=(1, 5), flexible=2):
    """Null topics ask for everything."""

    topics: list[DescribableLogDirTopic] | None = EMPTY


class DescribeLogDirsPartition(Struct):
    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: Bool = False


class DescribeLogDirsTopic(Struct):
    name: String = ""
    partitions: list[DescribeLogDirsPartition] = EMPTY


class DescribeLogDirsResult(Struct):
    error_code: Int16 = 0
    log_dir: String = ""
    topics: list[DescribeLogDirsTopic] = EMPTY
    total_bytes: Int64 = field(since=4, ignorable=True, default=-1)
    usable_bytes: Int64 = field(since=4, ignorable=True, default=-1)
    is_cordoned: Bool = field(since=5, ignorable=True, default=False)


class DescribeLogDirsResponse(Struct, key=35, versions=(1, 5), flexible=2):
    """One entry per data directory."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = field(since=3, ignorable=True, default=0)
    results: list[DescribeLogDirsResult] = EMPTY
