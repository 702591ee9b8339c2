"""Hypothesis strategies for records and batches."""

from __future__ import annotations

from hypothesis import strategies as st

BYTES = st.one_of(st.none(), st.binary(max_size=70))
TIMESTAMPS = st.one_of(st.just(-1), st.integers(0, 2_000_000_000_000), st.integers(-(2**61), 2**61))
HEADERS = st.lists(st.tuples(st.text(max_size=6), st.one_of(st.none(), st.binary(max_size=8))), max_size=3)
RECORDS = st.lists(st.tuples(TIMESTAMPS, BYTES, BYTES, HEADERS), min_size=1, max_size=12)


def as_records(records, base_offset=0, append_timestamp=None):
    """What reading `records` must give, as plain tuples."""
    return [
        (
            base_offset + index,
            timestamp if append_timestamp is None else append_timestamp,
            key,
            value,
            tuple((name, content) for name, content in headers),
        )
        for index, (timestamp, key, value, headers) in enumerate(records)
    ]
