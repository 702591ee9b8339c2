"""What ShareFetch and ShareAcknowledge do alike: take what a member says of its records, partition by partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.share.acknowledging import AcknowledgementBatch, acknowledgements_of
from oncelog.core.share.sessions import ShareSession, Wanted
from oncelog.errors import ErrorCode
from oncelog.types import TopicPartition
from oncelog.wire.access_rules import Operation
from oncelog.wire.log_records.share_state import ShareKey


class Outcome(NamedTuple):
    """What is answered for one partition."""

    error_code: ErrorCode = ErrorCode.NONE
    message: str = ""


Acknowledged = Mapping[Wanted, Outcome]
_MALFORMED = Outcome(ErrorCode.INVALID_REQUEST)


async def acknowledge_all(
    node: Node,
    request: Request,
    session: ShareSession,
    batches: Mapping[Wanted, Sequence[AcknowledgementBatch]],
    *,
    is_renewal: bool,
) -> Acknowledged:
    """The outcome for each partition that something is said of; it is stored when this returns."""
    found = {}
    may_renew = node.share_partitions.settings(session.key.group_id).may_renew
    for wanted, some in batches.items():
        if some:
            acknowledgements = acknowledgements_of(some, may_renew=is_renewal and may_renew)
            if acknowledgements is None:
                found[wanted] = _MALFORMED
                continue
            fault = _fault(node, request, wanted)
            if fault is not ErrorCode.NONE:
                found[wanted] = Outcome(fault)
                continue
            try:
                share = await node.share_partitions.open(ShareKey(session.key.group_id, *wanted))
            except CoordinatorFailed as failed:
                found[wanted] = Outcome(failed.error_code)
                continue
            refused = await share.acknowledge(session.key.member_id, acknowledgements)
            found[wanted] = Outcome() if refused is None else Outcome(refused.error_code, refused.message)
    return found


def _fault(node: Node, request: Request, wanted: Wanted) -> ErrorCode:
    topic = node.metadata.topics_by_id.get(wanted.topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    caller = node.authorization.caller_of(request) if node.authorization is not None else None
    if caller is not None and not caller.may_on_topic(Operation.READ, topic.name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if node.metadata.topic_of(TopicPartition(topic.name, wanted.partition)) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE
