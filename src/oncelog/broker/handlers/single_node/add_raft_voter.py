"""AddRaftVoter: the voters of one node are fixed."""

from __future__ import annotations

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.errors import ErrorCode
from oncelog.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse


def handle(node: Node, request: Request) -> AddRaftVoterResponse:
    """What Kafka answers where kraft.version is 0."""
    message: AddRaftVoterRequest = request.message
    if message.cluster_id is not None and message.cluster_id != node.cluster_id:
        return AddRaftVoterResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID, error_message=None)
    if not message.listeners or message.voter_directory_id == bytes(16):
        return AddRaftVoterResponse(
            error_code=ErrorCode.INVALID_REQUEST, error_message="Add voter request didn't include a valid voter"
        )
    return AddRaftVoterResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        error_message="Cluster doesn't support adding voter because the kraft.version feature is 0",
    )
