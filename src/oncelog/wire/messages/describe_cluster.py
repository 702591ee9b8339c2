"""DescribeCluster: brokers and controller (KIP-700)."""

from oncelog.wire.schema import EMPTY, Bool, Int8, Int16, Int32, String, Struct, field


class DescribeClusterRequest(Struct, key=60, versions=(0, 2), flexible=0):
    """Endpoint type 1 asks for brokers, 2 for controllers."""

    include_cluster_authorized_operations: Bool = False
    endpoint_type: Int8 = field(since=1, default=1)
    include_fenced_brokers: Bool = field(since=2, default=False)


class DescribeClusterBroker(Struct):
    broker_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None
    is_fenced: Bool = field(since=2, default=False)


class DescribeClusterResponse(Struct, key=60, versions=(0, 2), flexible=0):
    """The cluster id and its brokers."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    endpoint_type: Int8 = field(since=1, default=1)
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker] = EMPTY
    cluster_authorized_operations: Int32 = -(1 << 31)
