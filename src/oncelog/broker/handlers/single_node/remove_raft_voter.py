"""RemoveRaftVoter: the voters of one node are fixed."""

from __future__ import annotations

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.errors import ErrorCode
from oncelog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse


def handle(node: Node, request: Request) -> RemoveRaftVoterResponse:
    """What Kafka answers where kraft.version is 0."""
    message: RemoveRaftVoterRequest = request.message
    if message.cluster_id is not None and message.cluster_id != node.cluster_id:
        return RemoveRaftVoterResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID, error_message=None)
    if message.voter_directory_id == bytes(16):
        return RemoveRaftVoterResponse(
            error_code=ErrorCode.INVALID_REQUEST, error_message="Remove voter request didn't include a valid voter"
        )
    return RemoveRaftVoterResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        error_message="Cluster doesn't support removing voter because the kraft.version feature is 0",
    )
