"""RemoveRaftVoter: the voters of one node are fixed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.requests.request import Request
from oncelog.errors import ErrorCode
from oncelog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> RemoveRaftVoterResponse:
    """What Kafka answers where kraft.version is 0."""
    message: RemoveRaftVoterRequest = request.message
    if message.cluster_id is not None and message.cluster_id != broker.cluster_id:
        return RemoveRaftVoterResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID, error_message=None)
    if message.voter_directory_id == bytes(16):
        return RemoveRaftVoterResponse(
            error_code=ErrorCode.INVALID_REQUEST, error_message="Remove voter request didn't include a valid voter"
        )
    return RemoveRaftVoterResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        error_message="Cluster doesn't support removing voter because the kraft.version feature is 0",
    )
