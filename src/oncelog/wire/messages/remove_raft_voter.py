"""RemoveRaftVoter: one controller less that votes (KIP-853)."""

from oncelog.wire.schema import ZERO_UUID, Int16, Int32, String, Struct, Uuid, field


class RemoveRaftVoterRequest(Struct, key=81, versions=(0, 0), flexible=0):
    """The controller."""

    cluster_id: String | None = ""
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID


class RemoveRaftVoterResponse(Struct, key=81, versions=(0, 0), flexible=0):
    """Whether it was removed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = field(ignorable=True, default="")
