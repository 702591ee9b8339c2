"""Positions in a file, in both forms."""

from __future__ import annotations

import pathlib

import pytest

from oncelog.cli.output import Failed
from oncelog.cli.positions_file import positions_of
from oncelog.types import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 1)


@pytest.mark.parametrize(
    "text",
    [
        "a,0,5\nb,1,7\n",
        '"a",0,5\n"b", 1, 7\n\n',
        "group,a,0,5\ngroup,b,1,7",
        '[{"topic": "a", "partition": 0, "position": 5}, {"topic": "b", "partition": 1, "to": 7}, {"topic": "c"}]',
        '{"topic": "a", "partition": 0, "offset": 5}\n{"topic": "b", "partition": 1, "position": 7, "lag": 3}',
    ],
)
def test_what_can_be_read(tmp_path: pathlib.Path, text: str) -> None:
    file = tmp_path / "positions"
    file.write_text(text)
    assert positions_of(str(file)) == {A: 5, B: 7}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"a,0", "entry 1 is no"),
        (b"a,0,-1", "entry 1 is no"),
        (b"a,0,1\na,zero,1", "entry 2 is no"),
        (b"a,0," + b"9" * 30, "entry 1 is no"),
        (b"a,0,1\na,0,2", "there twice"),
        (b"\xff\xfe", "it is no text"),
        (b"[1]", "it is no list of rows"),
        (b"{", "it is no JSON"),
        (b"[" * 100_000, "it is no JSON"),
        (b'[{"topic": "a", "partition": true, "position": 1}]', "entry 1 is no"),
        (b'[{"topic": 7, "partition": 0, "position": 1}]', "entry 1 is no"),
    ],
)
def test_what_cannot(tmp_path: pathlib.Path, data: bytes, says: str) -> None:
    file = tmp_path / "positions"
    file.write_bytes(data)
    with pytest.raises(Failed, match=says):
        positions_of(str(file))


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(Failed, match="No such file"):
        positions_of("/no/such/file")
