"""What is measured is the work: an error in a reply, or a Fetch without records, is no figure."""

from __future__ import annotations

import pytest
from bench.in_process.measure import Bench
from bench.in_process.work import Refused, check

from bench import frames
from oncelog.wire.frame import encode_response
from oncelog.wire.messages.end_txn import EndTxnResponse
from oncelog.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

END = frames.end_transaction("x", (7, 0), version=1)
FETCH = frames.fetch(bytes(16), 0, 0, max_bytes=100)


def reply(message, version):
    return b"".join(encode_response(message.KEY, version, 1, message))


def fetched(records):
    return reply(FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(records=records)])]), 16)


def test_the_last_message_is_told():
    assert check([FETCH, END], [fetched(b"x"), reply(EndTxnResponse(throttle_time_ms=7), 1)]).throttle_time_ms == 7


def test_an_error_is_refused_unless_it_is_awaited():
    refused = reply(EndTxnResponse(error_code=51), 1)
    with pytest.raises(Refused, match=r"END_TXN v1: \[51\]"):
        check([END], [refused])
    assert check([END], [refused], (51,)).error_code == 51


def test_a_fetch_without_records_is_refused():
    with pytest.raises(Refused, match="without records"):
        check([FETCH], [fetched(None)])


def test_every_work_is_done_as_often_as_asked():
    with Bench() as bench:
        bench.more(1)
        assert set(bench.figures.ratios) == {work.name for work in bench.works}
        for work in bench.works:
            sent = work.next_frames(3)
            assert len(sent) == 3 * work.request_count
        bench.choose(["Fetch"])
        assert [work.name for work in bench.works] == ["Fetch"]
