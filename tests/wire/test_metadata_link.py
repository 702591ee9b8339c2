"""Messages between processes: what is sent comes out, however it is cut, and anything else is refused."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import MalformedFrame
from oncelog.types import TopicPartition
from oncelog.wire.metadata_link import (
    Anew,
    Append,
    Appended,
    Batches,
    CaughtUp,
    Change,
    Done,
    Hello,
    LinkMessage,
    LinkReader,
    MayChange,
    Offline,
    Refused,
    Welcome,
    encode,
)

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
PARTITIONS = st.builds(TopicPartition, st.from_regex(r"[a-zA-Z0-9._-]{1,9}", fullmatch=True), st.integers(0, 2**31 - 1))
MESSAGES: st.SearchStrategy[LinkMessage] = st.one_of(
    st.sampled_from([Change(), Done(), Anew(), MayChange(), Appended()]),
    st.builds(Append, st.binary(max_size=50)),
    st.builds(Batches, st.binary(max_size=50)),
    st.builds(Welcome, st.text(max_size=20)),
    st.builds(Refused, st.text(max_size=20)),
    st.builds(CaughtUp, INT64),
    st.builds(Offline, INT32, st.lists(PARTITIONS, max_size=4).map(tuple)),
    st.builds(Hello, st.integers(-(2**15), 2**15 - 1), INT32, INT32, INT64),
)


@given(st.lists(MESSAGES, max_size=8), st.lists(st.integers(1, 40), max_size=40))
def test_what_is_sent_comes_out(messages: list[LinkMessage], cuts: list[int]) -> None:
    data, reader, found = b"".join(map(encode, messages)), LinkReader(), list[LinkMessage]()
    for cut in [*cuts, len(data)]:
        part, data = data[:cut], data[cut:]
        found += reader.receive(part)
    found += reader.receive(data)
    assert found == messages


@given(st.binary(max_size=80))
def test_any_bytes_are_messages_or_refused(data: bytes) -> None:
    with contextlib.suppress(MalformedFrame):
        for message in LinkReader().receive(data):
            assert encode(message)


@pytest.mark.parametrize(
    "frame",
    [
        b"\0\0\0\0\0",
        b"\x7f\xff\xff\xff\x01",
        b"\xff\xff\xff\xff\x01",
        b"\0\0\0\x01\x63",
        b"\0\0\0\x02\x02x",
        b"\0\0\0\x02\x01x",
    ],
)
def test_a_frame_that_cannot_be_is_refused(frame: bytes) -> None:
    with pytest.raises(MalformedFrame):
        list(LinkReader().receive(frame))
