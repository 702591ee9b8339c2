"""The bare client: what goes out, what is counted, what is an error."""

from __future__ import annotations

import socket
import threading

import pytest
from bench.pipe import Pipe, ReplyCounter, WrongReply, checked, exchange, run

from bench import frames, pipe
from oncelog.wire.frame import encode_response
from oncelog.wire.messages.end_txn import EndTxnResponse

REPLY = b"\0\0\0\x05hello"
END = frames.end_transaction("x", (7, 0), version=1)


def reply(error_code=0):
    return b"".join(encode_response(EndTxnResponse.KEY, 1, 1, EndTxnResponse(error_code=error_code)))


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 7, 9, 10, 100])
def test_replies_are_counted_however_they_are_cut(step):
    data, counter = memoryview(REPLY * 3 + b"\0\0\0\x01x"), ReplyCounter()
    assert sum(counter.add(data[i : i + step]) for i in range(0, len(data), step)) == 4
    assert counter.count == 4


def test_a_reply_of_another_size_is_wrong():
    counter = ReplyCounter(5)
    assert counter.add(memoryview(REPLY)) == 1
    with pytest.raises(WrongReply, match="a reply of 1 bytes among others of 5"):
        counter.add(memoryview(b"\0\0\0\x01x"))


class Echo:
    """A broker's end that answers each frame of four bytes after its size, and counts what was never answered."""

    def __init__(self, count, answer=b"\0\0\0\x01x"):
        self.here, self.there = socket.socketpair()
        self.frames, self.most = [], 0
        self._left, self._answer = count, answer
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        with self.there:
            while self._left:
                data = self.there.recv(1 << 16)
                if not data:
                    break
                self.most = max(self.most, len(data) // 8)
                for i in range(0, len(data), 8):
                    self.frames.append(data[i + 4 : i + 8])
                    self._left -= 1
                    self.there.sendall(self._answer)

    def ended(self):
        self._thread.join(30)
        self.here.close()
        return not self._thread.is_alive()


def test_every_frame_is_sent_with_so_many_under_way():
    sent = [b"\0\0\0\x04%04d" % i for i in range(50)]
    brokers = [Echo(50), Echo(50)]
    run([Pipe(broker.here, sent, 3, 1) for broker in brokers])
    for broker in brokers:
        assert broker.ended()
        assert broker.frames == [b"%04d" % i for i in range(50)]
        assert broker.most <= 3


def test_a_pipe_with_nothing_to_send_is_done():
    here, there = socket.socketpair()
    with here, there:
        run([Pipe(here, [], 3, None)])


def test_a_broker_that_hangs_up_is_an_error():
    broker = Echo(1)
    with pytest.raises(WrongReply, match="closed the connection"):
        run([Pipe(broker.here, [b"\0\0\0\x04aaaa"] * 2, 1, None)])
    assert broker.ended()
    here, there = socket.socketpair()
    there.close()
    with here, pytest.raises((WrongReply, BrokenPipeError)):
        exchange(here, b"\0\0\0\x01x")


def test_a_reply_is_whole_and_without_an_error():
    here, there = socket.socketpair()
    with here, there:
        there.sendall(reply())
        assert checked(END, exchange(here, END)).error_code == 0
    with pytest.raises(WrongReply, match=r"END_TXN v1 was answered with \[51\]"):
        checked(END, reply(51))
    assert checked(END, reply(51), (51,)).error_code == 51


def test_a_large_frame_goes_out_in_pieces():
    here, there = socket.socketpair()
    frame = b"y" * (4 << 20)

    def serve():
        left = len(frame)
        while left:
            left -= len(there.recv(1 << 20))
        there.sendall(b"\0\0\0\x01x")

    thread = threading.Thread(target=serve, daemon=True)
    with here, there:
        one = Pipe(here, [frame], 1, 1)
        assert one.wants & pipe.selectors.EVENT_WRITE
        thread.start()
        run([one])
        thread.join(30)
    assert one.is_done
