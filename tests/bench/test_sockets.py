"""Rows of bare sockets: every row has a key, and what is sent is what the row says."""

from __future__ import annotations

from itertools import islice

from bench.parts import RECORD_SIZES
from bench.sockets import BATCH_BYTES, BATCHES_PER_FETCH, STORED_MB, batch_frame, fetch_frames

from bench import frames
from oncelog.wire.frame import decode_request, decode_request_header
from oncelog.wire.record_batch import batches


def message_of(frame):
    view = memoryview(frame)[4:]
    header, position = decode_request_header(view)
    return decode_request(header, view, position)


def test_a_batch_has_so_many_bytes_whatever_its_records():
    for size in RECORD_SIZES:
        [batch] = batches(message_of(batch_frame("t", 3, size)).topic_data[0].partition_data[0].records)
        assert [len(record.value) for record in batch.records()] == [size] * (BATCH_BYTES // size)


def test_fetches_go_from_end_to_end_and_begin_again():
    size = 10_000
    records = STORED_MB * 1_000_000 // size
    length = len(frames.batch([b"x" * size] * (BATCH_BYTES // size), 0))
    once = records // (BATCHES_PER_FETCH * BATCH_BYTES // size)
    asked = [
        message_of(frame).topics[0].partitions[0] for frame in islice(fetch_frames(bytes(16), size, length), once + 1)
    ]
    assert [part.fetch_offset for part in asked] == [*range(0, records, records // once), 0]
    assert {part.partition_max_bytes for part in asked} == {BATCHES_PER_FETCH * length}
