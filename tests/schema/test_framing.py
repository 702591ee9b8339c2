"""What stands before a payload."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.schema.framing import framed, from_headers, indexes_from_bytes, indexes_to_bytes, unframed


def test_an_id_is_four_bytes_behind_magic_zero() -> None:
    assert framed(258, b"payload") == b"\0\0\0\1\2payload"
    assert unframed(b"\0\0\0\1\2payload", has_indexes=False) == (258, (), 5)


def test_the_first_message_of_a_file_is_one_zero_and_others_are_zigzag_varints() -> None:
    assert indexes_to_bytes((0,)) == b"\0"
    assert indexes_to_bytes((1, 0)) == b"\4\2\0"
    assert indexes_to_bytes((100,)) == b"\2\xc8\1"
    assert unframed(b"\0\0\0\0\7\4\2\0rest", has_indexes=True) == (7, (1, 0), 8)


def test_a_guid_is_behind_magic_one() -> None:
    assert unframed(b"\1" + bytes(15) + b"\7", has_indexes=False)[0] == "00000000-0000-0000-0000-000000000007"


def test_a_header_is_that_of_the_key_or_of_the_value() -> None:
    headers = [("a", b"x"), ("__value_schema_id", b"v"), ("__key_schema_id", b"k")]
    assert (from_headers(headers, is_key=True), from_headers(headers, is_key=False)) == (b"k", b"v")
    assert from_headers([("__value_schema_id", None)], is_key=False) is None


@pytest.mark.parametrize("content", [b"", b"\0\0\0\0", b"\1" + bytes(15), b"\2\0\0\0\1", b"{}"])
def test_what_no_registry_wrote_is_said_so(content: bytes) -> None:
    with pytest.raises(ValueError, match="no schema id stands before it"):
        unframed(content, has_indexes=False)


@pytest.mark.parametrize("content", [b"", b"\4\2", b"\1", b"\x82\1", b"\xff" * 6, b"\2\1"])
def test_indexes_that_are_none_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError):
        indexes_from_bytes(content, 0)


@given(st.lists(st.integers(0, 2**20), min_size=1, max_size=64).map(tuple), st.binary(max_size=8))
def test_indexes_come_back(indexes: tuple[int, ...], rest: bytes) -> None:
    written = indexes_to_bytes(indexes)
    assert indexes_from_bytes(written + rest, 0) == (indexes, len(written))


@given(st.binary(max_size=40))
def test_any_bytes_give_an_identity_or_a_value_error(content: bytes) -> None:
    try:
        _, _, end = unframed(content, has_indexes=True)
    except ValueError:
        return
    assert 5 < end <= len(content)
