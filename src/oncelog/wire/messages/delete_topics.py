"""DeleteTopics: by name, from v6 also by id."""

from oncelog.wire.schema import EMPTY, ZERO_UUID, Int16, Int32, String, Struct, Uuid, field


class DeleteTopicState(Struct):
    name: String | None = None
    topic_id: Uuid = ZERO_UUID


class DeleteTopicsRequest(Struct, key=20, versions=(1, 6), flexible=4):
    """The topics to delete."""

    topics: list[DeleteTopicState] = field(since=6, default=EMPTY)
    topic_names: list[String] = field(until=5, ignorable=True, default=EMPTY)
    timeout_ms: Int32 = 0


class DeletableTopicResult(Struct):
    name: String | None = field(nullable_since=6, default="")
    topic_id: Uuid = field(since=6, ignorable=True, default=ZERO_UUID)
    error_code: Int16 = 0
    error_message: String | None = field(since=5, ignorable=True, default=None)


class DeleteTopicsResponse(Struct, key=20, versions=(1, 6), flexible=4):
    """One result per topic."""

    throttle_time_ms: Int32 = 0
    responses: list[DeletableTopicResult] = EMPTY
