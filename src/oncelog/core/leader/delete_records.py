"""DeleteRecords: up to which offset the records of a partition may be deleted.

Producers and open transactions outlive their records (KIP-360): see `Partition.delete_records_to`.
"""

from __future__ import annotations

from oncelog.core.leader.partition import Partition
from oncelog.core.leader.verdict import Refuse
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass

TO_HIGH_WATERMARK = -1


@dataclass(frozen=True, slots=True)
class DeleteTo:
    """Move the log start here; it is the LowWatermark of the answer. Below or at the present start nothing moves."""

    log_start_offset: int


def check_delete_records(
    partition: Partition, offset: int, *, is_internal: bool, may_delete: bool
) -> DeleteTo | Refuse:
    """May the records before `offset` go? `may_delete`: the topic's cleanup.policy has "delete", or is empty."""
    if is_internal:
        return Refuse(ErrorCode.INVALID_TOPIC_EXCEPTION, "records of an internal topic may not be deleted")
    if not may_delete:
        return Refuse(ErrorCode.POLICY_VIOLATION, "the topic's cleanup.policy does not allow deletion")
    end_offset = partition.high_watermark if offset == TO_HIGH_WATERMARK else offset
    if not 0 <= end_offset <= partition.high_watermark:
        return Refuse(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} is not within 0..{partition.high_watermark}, the high watermark",
        )
    return DeleteTo(max(end_offset, partition.log_start_offset))
