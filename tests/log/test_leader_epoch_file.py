"""Leader epochs: KIP-101's questions, and the text file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import CorruptIndex
from oncelog.log.leader_epoch_file import LeaderEpochs


def test_end_offsets() -> None:
    """As `LeaderEpochFileCache.endOffsetFor` answers."""
    known = LeaderEpochs([(2, 10), (4, 20), (7, 30)])
    answers = {leader_epoch: known.end_offset_for(leader_epoch, 42) for leader_epoch in range(-1, 9)}
    assert answers == {
        -1: (-1, -1),
        0: (0, 10),
        1: (1, 10),
        2: (2, 20),
        3: (2, 20),
        4: (4, 30),
        5: (4, 30),
        6: (4, 30),
        7: (7, 42),
        8: (-1, -1),
    }
    assert LeaderEpochs().end_offset_for(0, 5) == (-1, -1)
    assert [known.leader_epoch_of(offset) for offset in (9, 10, 25, 99)] == [-1, 2, 4, 7]


def test_assign_and_truncate() -> None:
    known = LeaderEpochs()
    assert known.assign(0, 0)
    assert not known.assign(0, 5)
    assert known.assign(2, 10)
    assert not known.assign(-1, 10)
    assert known.assign(1, 8)  # an earlier epoch from an earlier offset: what came later was wrong
    assert known.entries == [(0, 0), (1, 8)]
    known.assign(3, 20)
    known.truncate_start(9)
    assert known.entries == [(1, 9), (3, 20)]
    known.truncate_end(20)
    assert known.entries == [(1, 9)]
    assert known.latest == 1


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 100)), max_size=12))
def test_whatever_is_assigned_ascends_and_survives_the_file(assignments: list[tuple[int, int]]) -> None:
    known = LeaderEpochs()
    for leader_epoch, offset in assignments:
        known.assign(leader_epoch, offset)
    assert LeaderEpochs.from_bytes(known.to_bytes()) == known


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n2\n1 5\n",
        b"0\n1\n1\n",
        b"0\n1\nx 5\n",
        b"0\n2\n1 5\n1 6\n",
        b"0\n2\n1 5\n2 4\n",
        b"\xff",
    ],
)
def test_a_broken_file_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptIndex):
        LeaderEpochs.from_bytes(data)
