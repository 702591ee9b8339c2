"""AddRaftVoter: one more controller that votes (KIP-853)."""

from oncelog.wire.schema import EMPTY, ZERO_UUID, Bool, Int16, Int32, String, Struct, Uint16, Uuid, field


class Listener(Struct):
    name: String = ""
    host: String = ""
    port: Uint16 = 0


class AddRaftVoterRequest(Struct, key=80, versions=(0, 1), flexible=0):
    """The controller and where it listens."""

    cluster_id: String | None = ""
    timeout_ms: Int32 = 0
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID
    listeners: list[Listener] = EMPTY
    ack_when_committed: Bool = field(since=1, default=True)


class AddRaftVoterResponse(Struct, key=80, versions=(0, 1), flexible=0):
    """Whether it was added."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = field(ignorable=True, default="")
