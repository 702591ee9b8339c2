"""Which partition a name belongs to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.core.placement import coordinator_partition


@pytest.mark.parametrize(
    ("key", "hash_code"),
    [
        ("", 0),
        ("a", 97),
        ("pay", 110760),
        ("my-transactional-id", -959806496),
        ("polygenelubricants", -(2**31)),
        ("grüße", 98768023),
        ("\U0001f600", 1772899),
    ],
)
def test_a_key_s_partition_is_that_of_java(key: str, hash_code: int) -> None:
    """String.hashCode over UTF-16 code units; abs of the smallest int is 0."""
    expected = 0 if hash_code == -(2**31) else abs(hash_code) % 50
    assert coordinator_partition(key, 50) == expected


@given(st.text(), st.integers(1, 1000))
def test_every_key_has_a_partition(key: str, partition_count: int) -> None:
    assert 0 <= coordinator_partition(key, partition_count) < partition_count
