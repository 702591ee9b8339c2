"""Where a partition is fetched from: its leader, or the closer replica that the leader named (KIP-392).

The leader answers a Fetch that says its rack (`client_rack`) with another replica and no records. That one is asked from
then on, until it fails, lags behind what it is asked for, the leader changes or the lease ends: then the leader is asked
again, and may name it anew. Only a leader is believed, so that replicas cannot send a consumer round in circles.
"""

from __future__ import annotations

from collections.abc import Collection

from oncelog.client.cluster.view import PartitionView
from oncelog.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ReadReplica:
    """A replica that may be read until `until_ms` (the loop's monotonic milliseconds), under this leader only."""

    node_id: int
    leader_id: int
    leader_epoch: int
    until_ms: float


def named_by(
    leader: PartitionView | None, answered_by: int, preferred: int, *, now_ms: float, lease_ms: float
) -> ReadReplica | None:
    """What an answer without an error says: another replica than the leader that answered, or nothing new."""
    if leader is None or answered_by != leader.leader_id or preferred < 0 or preferred == answered_by:
        return None
    return ReadReplica(preferred, leader.leader_id, leader.leader_epoch, now_ms + lease_ms)


def node_to_ask(
    leader: PartitionView, replica: ReadReplica | None, known_nodes: Collection[int], now_ms: float
) -> tuple[int, bool]:
    """The node to fetch from, and whether `replica` still holds."""
    holds = (
        replica is not None
        and replica.until_ms > now_ms
        and (replica.leader_id, replica.leader_epoch) == (leader.leader_id, leader.leader_epoch)
        and replica.node_id in known_nodes
    )
    return (replica.node_id if replica is not None and holds else leader.leader_id), holds
