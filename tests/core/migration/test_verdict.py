"""What is exact, what is refused, and what a topic is to be."""

from __future__ import annotations

from dataclasses import replace

from oncelog.core.migration.topics import WHILE_COPYING, final_configs, refusal, switch_changes
from oncelog.core.migration.verdict import (
    MOVED,
    WAITING,
    GroupVerdict,
    PartitionVerdict,
    blocking,
    skipped_counts,
    standing,
)

SAME = PartitionVerdict("t", 0, 10, 10, "d", "d", 12, 12, 11)
GROUP = GroupVerdict("g", "t", 0, 5, 4, MOVED, True)


def test_a_partition_is_exact_where_nothing_differs() -> None:
    assert SAME.is_exact
    assert not replace(SAME, destination_records=11).is_exact
    assert not replace(SAME, destination_digest="e").is_exact
    assert SAME.is_complete
    assert not replace(SAME, source_end_offset=13).is_complete


def test_a_group_is_exact_where_it_was_moved_to_the_same_record() -> None:
    assert GROUP.is_exact
    assert not replace(GROUP, state=WAITING).is_exact
    assert not replace(GROUP, is_same_record=False).is_exact


def test_only_what_a_side_deleted_is_skipped() -> None:
    def skipped(theirs: int, mine: int, *deleted: bool) -> tuple[int, int]:
        return skipped_counts(theirs, mine, has_source_deleted=deleted[0], has_destination_deleted=deleted[1])

    assert skipped(7, 10, True, False) == (0, 3)
    assert skipped(7, 10, False, True) == (0, 0), "records are missing: that is a difference"
    assert skipped(10, 7, False, True) == (3, 0)
    assert skipped(10, 7, True, False) == (0, 0)


def test_a_position_stands_in_the_log() -> None:
    assert standing(5, 3, 9) == (5, "")
    assert standing(9, 3, 9) == (9, "")
    assert standing(2, 3, 9) == (3, "the source deleted records below 3")
    assert standing(10, 3, 9) == (9, "it stood beyond the source's end, 9")


def test_a_compacted_partition_is_exact_where_the_tables_are_the_same() -> None:
    compacted = replace(SAME, source_records=3, source_digest="e")
    assert not compacted.is_exact
    assert not replace(compacted, is_same_table=False).is_exact
    assert replace(compacted, is_same_table=True).is_exact


def test_transactions_that_block_are_told_apart() -> None:
    assert blocking({"a": (True, False), "b": (True, True), "c": (False, True)}) == (["a"], ["b"])


def test_topics_that_cannot_be_copied_into() -> None:
    assert refusal("t", 3, None, False, False) is None
    assert refusal("t", 3, 3, False, False) is None
    assert refusal("t", 3, 3, True, True) is None
    assert refusal("t", 4, 3, True, True) is None, "partitions were added at the source"
    assert refusal("t", 4, 3, False, False) is None, "of an empty one"
    for wrong in [(3, None, False, True), (3, 4, False, False), (4, 3, True, False), (3, 3, True, False)]:
        assert "topic t" in (refusal("t", *wrong) or "")


def test_configs_of_the_copy_give_way_at_the_switch() -> None:
    values = {"retention.ms": "5", "cleanup.policy": "compact", "segment.bytes": "1", "compression.type": "zstd"}
    final = final_configs(values, ["compression.type", "leader.replication.throttled.replicas"])
    assert final == {"cleanup.policy": "compact", "compression.type": "zstd", "retention.ms": "5"}
    changes = switch_changes(final)
    assert changes["retention.ms"] == "5"
    assert changes["message.timestamp.after.max.ms"] is None
    assert set(WHILE_COPYING) <= set(changes)
