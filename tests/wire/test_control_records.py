import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.errors import CorruptBatch
from oncelog.wire.control_records import EndTxnMarker, end_txn_marker_from_bytes, end_txn_marker_to_bytes


@pytest.mark.parametrize(("commit", "key"), [(False, "00000000"), (True, "00000001")])
def test_layout_of_markers(commit, key):
    assert end_txn_marker_to_bytes(EndTxnMarker(commit, 7)) == (bytes.fromhex(key), bytes.fromhex("000000000007"))


@settings(deadline=None)
@given(st.booleans(), st.integers(-1, 2**31 - 1), st.integers(0, 32767), st.integers(0, 32767), st.binary(max_size=4))
def test_newer_versions_are_read_as_version_0(commit, coordinator_epoch, key_version, value_version, grown):
    key = struct.pack(">hh", key_version, commit) + grown
    value = struct.pack(">hi", value_version, coordinator_epoch) + grown
    assert end_txn_marker_from_bytes(key, value) == EndTxnMarker(commit, coordinator_epoch)


@pytest.mark.parametrize("control_type", [2, 3, 4, 5, 6, 99, -1])
def test_other_types_are_no_markers(control_type):
    assert end_txn_marker_from_bytes(struct.pack(">hh", 0, control_type), None) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\0" * 6),
        (b"\0\0\0", b"\0" * 6),
        (b"\0\0\0\1", None),
        (b"\0\0\0\1", b"\0" * 5),
        (struct.pack(">hh", -1, 1), b"\0" * 6),
        (b"\0\0\0\1", struct.pack(">hi", -1, 0)),
    ],
)
def test_what_cannot_be_a_marker_is_corrupt(key, value):
    with pytest.raises(CorruptBatch):
        end_txn_marker_from_bytes(key, value)
