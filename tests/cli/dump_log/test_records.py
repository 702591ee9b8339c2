"""What a dump says of records whose fields are tables by topic id, and of share groups."""

from __future__ import annotations

import json

import pytest

from oncelog.cli.dump_log.records import record_line, record_row
from oncelog.cli.output import json_text
from oncelog.wire.log_records import consumer_offsets, share_state
from oncelog.wire.log_records.consumer_groups import TargetMember
from oncelog.wire.log_records.share_groups import ShareStatePartitions, ShareTargetMember
from oncelog.wire.log_records.share_state import ShareKey, ShareUpdate, StoredBatch
from oncelog.wire.record_batch import RecordBatch, build_batch

T = b"t" * 16
KEY = ShareKey("g", T, 0)


def row_of(topic, key, value):
    batch = RecordBatch(build_batch([(0, key, value, ())]))
    return record_row(batch, batch.records()[0], topic)


@pytest.mark.parametrize(
    "record",
    [
        TargetMember("g", "m", {T: frozenset((1, 0))}),
        ShareTargetMember("g", "m", {T: frozenset((1, 0))}),
        ShareStatePartitions("g", {T: frozenset((0,))}, {T: "t"}),
    ],
    ids=lambda record: type(record).__name__,
)
def test_tables_by_topic_id(record):
    row = row_of("__consumer_offsets", *consumer_offsets.record_to_key_value(record))
    assert row["type"] == type(record).__name__
    assert T.hex() in row["content"]["partitions"]
    json.loads(json_text(row))
    assert "partitions=" in record_line(row)


def test_the_state_of_a_share_partition():
    record = ShareUpdate(KEY, 1, 0, 4, 1, (StoredBatch(4, 4, 2, 1),))
    row = row_of("__share_group_state", *share_state.record_to_key_value(record))
    assert row["type"] == "ShareUpdate"
    assert row["content"]["key"] == str(KEY)
    assert row["content"]["batches"] == [{"first_offset": 4, "last_offset": 4, "state": 2, "delivery_count": 1}]
    json.loads(json_text(row))
