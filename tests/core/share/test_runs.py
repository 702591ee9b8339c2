"""Runs against the plainest model: a dictionary of offsets."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from oncelog.core.share.runs import RecordState, Run, Runs

runs = st.builds(
    lambda first, length, state, count: Run(first, first + length, state, count),
    st.integers(0, 40),
    st.integers(0, 12),
    st.sampled_from(RecordState),
    st.integers(0, 2),
)


def by_offset(found):
    return {offset: run[2:] for run in found for offset in range(run.first, run.last + 1)}


@given(st.lists(runs, max_size=30), st.integers(0, 55), st.integers(0, 20), st.integers(0, 55))
def test_runs_are_a_dictionary_of_offsets(puts, first, length, cut):
    kept = Runs(puts)
    model = {}
    for run in puts:
        model |= by_offset([run])
    assert by_offset(kept) == model
    listed = list(kept)
    assert all(a.last < b.first for a, b in itertools.pairwise(listed)), "in order, none overlap"
    alike = [(a, b) for a, b in itertools.pairwise(listed) if a.last + 1 == b.first and a[2:] == b[2:]]
    assert not alike, "neighbours that are alike are one"
    last = first + length
    assert by_offset(kept.between(first, last)) == {o: v for o, v in model.items() if first <= o <= last}
    kept.cut_before(cut)
    assert by_offset(kept) == {o: v for o, v in model.items() if o >= cut}


def test_ten_thousand_alike_are_one():
    kept = Runs(Run(offset, offset, RecordState.ACKNOWLEDGED) for offset in range(1000))
    assert len(kept) == 1
