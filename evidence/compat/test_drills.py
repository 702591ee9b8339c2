"""The judges of the drills can find fault, and a missing tool is said, not passed over."""

from __future__ import annotations

import socketserver
import threading

import pytest

from evidence.compat.clients.programs import Missing, needs, run
from evidence.compat.clients.spy import Spy
from evidence.compat.drills import copiers, rebalance_storm, streams
from evidence.world.ports import free_port
from oncelog.wire.api import ApiKey
from oncelog.wire.frame import encode_request
from oncelog.wire.messages.heartbeat import HeartbeatRequest

INPUT = [(0, b"", b"a:1"), (0, b"", b"b:2"), (1, b"", b"a:3")]


@pytest.mark.parametrize(
    ("copies", "says"),
    [
        ([b"a:1", b"b:2", b"a:3"], None),
        ([b"a:1", b"b:2"], "1 messages lost"),
        ([b"a:1", b"b:2", b"a:3", b"b:2"], "1 messages twice"),
        ([b"a:1", b"b:2", b"a:3", b"c"], "1 messages from nowhere"),
    ],
)
def test_copies_are_compared_with_the_input(copies, says):
    found = copiers.wrong(INPUT, [(0, b"", value) for value in copies])
    assert [problem.startswith(says) for problem in found] == [True] if says else found == []


@pytest.mark.parametrize(
    ("totals", "is_right"),
    [
        (["a 1:1", "b 1:2", "a 2:4"], True),
        (["a 1:1", "b 1:2"], False),
        (["a 1:1", "b 1:2", "a 2:4", "a 2:4"], False),
        (["a 1:1", "b 1:2", "a 2:5"], False),
        (["a 1:3", "b 1:2", "a 2:4"], True),  # the order of a word's records over partitions is free
    ],
)
def test_totals_count_up_one_by_one(totals, is_right):
    rows = [(0, *total.encode().split(b" ")) for total in totals]
    assert (streams.wrong(INPUT, rows) == []) is is_right


def test_a_partition_that_comes_back_at_once_was_taken_for_nothing():
    storm = rebalance_storm.Storm("nowhere")
    one, other = rebalance_storm.Member(storm, "one"), rebalance_storm.Member(storm, "other")
    storm.given(one, 0)
    storm.taken(one, 0)
    storm.given(other, 0)
    assert storm.problems == []
    storm.taken(other, 0)
    storm.given(other, 0)
    assert storm.problems == ["other had to give up partition 0 and got it back"]


def test_a_missing_tool_has_a_name(tmp_path):
    with pytest.raises(Missing, match="no such-tool here"):
        needs("such-tool")
    with pytest.raises(Missing, match="failed"):
        run(["false"], tmp_path)


def test_a_spy_passes_everything_on_and_notes_versions():
    class Echo(socketserver.StreamRequestHandler):
        def handle(self):
            self.wfile.write(self.rfile.read(len(frame)))

    frame = b"".join(encode_request(ApiKey.HEARTBEAT, 4, 1, "x", HeartbeatRequest(group_id="g")))
    with socketserver.TCPServer(("127.0.0.1", 0), Echo) as server, Spy(free_port(), server.server_address) as spy:
        threading.Thread(target=server.handle_request).start()
        with spy.connect() as connection:
            connection.sendall(frame)
            assert connection.makefile("rb").read(len(frame)) == frame
    assert spy.seen == {(ApiKey.HEARTBEAT, 4)}
