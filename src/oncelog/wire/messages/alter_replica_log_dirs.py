"""AlterReplicaLogDirs: move replicas between disks."""

from oncelog.wire.schema import EMPTY, Int16, Int32, String, Struct


class AlterReplicaLogDirTopic(Struct):
    name: String = ""
    partitions: list[Int32] = EMPTY


class AlterReplicaLogDir(Struct):
    path: String = ""
    topics: list[AlterReplicaLogDirTopic] = EMPTY


class AlterReplicaLogDirsRequest(Struct, key=34, versions=(1, 2), flexible=2):
    """Which replicas go where."""

    dirs: list[AlterReplicaLogDir] = EMPTY


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: String = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = EMPTY


class AlterReplicaLogDirsResponse(Struct, key=34, versions=(1, 2), flexible=2):
    """One error code per partition."""

    throttle_time_ms: Int32 = 0
    results: list[AlterReplicaLogDirTopicResult] = EMPTY
