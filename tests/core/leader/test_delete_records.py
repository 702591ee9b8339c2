"""DeleteRecords (docs/kafka-notes.md F7)."""

from __future__ import annotations

import pytest
from evidence.world.partition_leader import Leader

from oncelog.core.leader.delete_records import DeleteTo, check_delete_records
from oncelog.core.leader.partition import Refuse
from oncelog.errors import ErrorCode


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (-1, 3),  # the high watermark, though the log goes on
        (2, 2),
        (3, 3),
        (1, 1),
        (0, 1),  # below the start: nothing to do, the present start is the answer
        (4, ErrorCode.OFFSET_OUT_OF_RANGE),
        (-2, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_up_to_which_offset(offset, expected):
    leader = Leader()
    leader.plain(3)
    leader.plain(2, sync=False)
    leader.partition.delete_records_to(1)
    verdict = check_delete_records(leader.partition, offset, is_internal=False, may_delete=True)
    if isinstance(verdict, DeleteTo):
        leader.partition.delete_records_to(verdict.log_start_offset)
        assert leader.partition.log_start_offset == verdict.log_start_offset == expected
    else:
        assert verdict.error_code is expected


@pytest.mark.parametrize(
    ("is_internal", "may_delete", "expected"),
    [
        (True, True, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (False, False, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_topics_whose_records_stay(is_internal, may_delete, expected):
    verdict = check_delete_records(Leader().partition, -1, is_internal=is_internal, may_delete=may_delete)
    assert isinstance(verdict, Refuse)
    assert verdict.error_code is expected
