"""DeleteShareGroupOffsets: forget topics of a share group without members (KIP-932)."""

from oncelog.wire.schema import EMPTY, ZERO_UUID, Int16, Int32, String, Struct, Uuid


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: String = ""


class DeleteShareGroupOffsetsRequest(Struct, key=92, versions=(0, 0), flexible=0):
    """The topics to forget."""

    group_id: String = ""
    topics: list[DeleteShareGroupOffsetsRequestTopic] = EMPTY


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: String = ""
    topic_id: Uuid = ZERO_UUID
    error_code: Int16 = 0
    error_message: String | None = None


class DeleteShareGroupOffsetsResponse(Struct, key=92, versions=(0, 0), flexible=0):
    """One result per topic."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: list[DeleteShareGroupOffsetsResponseTopic] = EMPTY
