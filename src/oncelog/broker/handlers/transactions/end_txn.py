"""EndTxn: answered once the decision is synced; the markers follow."""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Reply, Request
from oncelog.errors import ErrorCode
from oncelog.types import ProducerIdAndEpoch, TopicPartition
from oncelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse


def handle(node: Node, request: Request) -> Reply:
    """Never held: it is what others wait for."""
    message: EndTxnRequest = request.message
    if not message.transactional_id:
        return _refused(ErrorCode.INVALID_REQUEST)
    return node.transactions.begin(
        message.transactional_id,
        lambda machine, now_ms: machine.end_txn(
            message, request.api_version, now_ms, lambda needed: _has_needed(node, message, needed)
        ),
        _refused,
    )


def _has_needed(node: Node, message: EndTxnRequest, needed: Mapping[TopicPartition, int]) -> bool:
    """Whether what a conditional commit needs is appended, and in front of the outcome in the same journal: then no power cut
    leaves the outcome alone. Without that journal the answer is no, and the client commits when its records are acknowledged."""
    producer = ProducerIdAndEpoch(message.producer_id, message.producer_epoch)
    for name, last_sequence in needed.items():
        partition = node.partitions.existing(name)
        if partition is None or partition.is_offline or not node.transactions.shares_journal(partition):
            return False
        if not partition.rules.has_needed(producer, last_sequence):
            return False
    return True


def _refused(code: ErrorCode) -> EndTxnResponse:
    return EndTxnResponse(error_code=code)
