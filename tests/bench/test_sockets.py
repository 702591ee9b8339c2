"""Rows of bare sockets: every row has a key, and what is sent is what the row says."""

from __future__ import annotations

import contextlib
from itertools import islice

import pytest
from bench.parts import RECORD_SIZES
from bench.pipe import WrongReply
from bench.sockets import BATCH_BYTES, BATCHES_PER_FETCH, STORED_MB, batch_frame, fetch_frames

from bench import frames, sockets
from oncelog.wire.frame import decode_request, decode_request_header, encode_response
from oncelog.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
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


class Replies:
    """A connection that gives these replies, one to each frame."""

    def __init__(self, monkeypatch, *codes):
        self.left = list(codes)
        monkeypatch.setattr(sockets.pipe, "connected", lambda server: contextlib.nullcontext(self))
        monkeypatch.setattr(sockets.pipe, "exchange", lambda connection, frame: connection.next())
        monkeypatch.setattr(sockets.time, "sleep", lambda seconds: None)

    def next(self):
        part = PartitionProduceResponse(index=0, error_code=self.left.pop(0))
        topic = TopicProduceResponse(name="t", partition_responses=[part])
        return b"".join(encode_response(0, 10, 1, ProduceResponse(responses=[topic])))


def test_a_leader_that_does_not_know_it_yet_is_asked_again(monkeypatch):
    replies = Replies(monkeypatch, 6, 3, 0, 6, 0)
    frame = batch_frame("t", 0, 10_000)
    assert sockets.reply_size(None, frame, frame) > 0
    assert replies.left == []


def test_any_other_error_is_wrong_at_once(monkeypatch):
    replies = Replies(monkeypatch, 6, 51, 0)
    with pytest.raises(WrongReply, match=r"PRODUCE v10 was answered with \[51\]"):
        sockets.reply_size(None, batch_frame("t", 0, 10_000))
    assert replies.left == [0]
