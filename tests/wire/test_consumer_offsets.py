"""Records of `__consumer_offsets`: bytes by hand, round trips, what others may have written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import MalformedMessage
from oncelog.wire.log_records.consumer_offsets import (
    GroupDeleted,
    GroupMetadata,
    GroupMetadataMember,
    OffsetCommit,
    OffsetDeleted,
    record_from_key_value,
    record_to_key_value,
)

names = st.text(max_size=20)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
payloads = st.binary(max_size=20)
commits = st.builds(
    OffsetCommit,
    names,
    names,
    int32s,
    int64s,
    int32s,
    names,
    int64s,
    st.just(-1),
    st.just(bytes(16)) | st.binary(min_size=16, max_size=16),
)
members = st.builds(GroupMetadataMember, names, st.none() | names, names, names, int32s, int32s, payloads, payloads)
generations = st.builds(
    GroupMetadata,
    names,
    names,
    int32s,
    st.none() | names,
    st.none() | names,
    int64s,
    st.lists(members, max_size=3).map(tuple),
)
records = commits | generations | st.builds(OffsetDeleted, names, names, int32s) | st.builds(GroupDeleted, names)


@given(records)
def test_what_is_written_is_read_back(record):
    key, value = record_to_key_value(record)
    assert record_from_key_value(key, value) == record
    assert record_from_key_value(memoryview(key), None if value is None else memoryview(value)) == record


@given(records, st.data())
def test_cut_values_are_malformed(record, data):
    key, value = record_to_key_value(record)
    if value:
        end = data.draw(st.integers(0, len(value) - 1))
        with pytest.raises(MalformedMessage):
            record_from_key_value(key, value[:end])


def test_an_offset_commit_in_bytes():
    key, value = record_to_key_value(OffsetCommit("grp", "top", 7, 42, 5, "meta", 1_000))
    assert key.hex() == "0001" + "0003677270" + "0003746f70" + "00000007"
    assert value is not None
    assert value.hex() == "0003" + f"{42:016x}" + "00000005" + "00046d657461" + f"{1_000:016x}"


def test_an_offset_commit_with_an_expiry_of_its_own_is_version_1():
    key, value = record_to_key_value(OffsetCommit("g", "t", 0, 1, -1, "", 5, 9))
    assert value is not None
    assert value.hex() == "0001" + f"{1:016x}" + "0000" + f"{5:016x}" + f"{9:016x}"
    read = record_from_key_value(key, value)
    assert isinstance(read, OffsetCommit)
    assert (read.commit_timestamp_ms, read.expire_timestamp_ms) == (5, 9)


def test_a_generation_in_bytes():
    member = GroupMetadataMember("m", "i", "c", "/h", 2, 1, b"S", b"A")
    key, value = record_to_key_value(GroupMetadata("g", "consumer", 3, "range", "m", 77, (member,)))
    assert key.hex() == "0002" + "000167"
    assert value is not None
    assert value.hex() == (
        "0003" + "0008636f6e73756d6572" + "00000003" + "000572616e6765" + "00016d" + f"{77:016x}" + "00000001"
        "00016d" + "000169" + "000163" + "00022f68" + "00000002" + "00000001" + "0000000153" + "0000000141"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("value", "offset"),
    [
        ("0000" + f"{9:016x}" + "00016d" + f"{1:016x}", OffsetCommit("g", "t", 0, 9, -1, "m", 1)),
        ("0002" + f"{9:016x}" + "00016d" + f"{1:016x}", OffsetCommit("g", "t", 0, 9, -1, "m", 1)),
        (
            "0004" + f"{9:016x}" + "00000002" + "026d" + f"{1:016x}" + "01" + "00" + "10" + "ab" * 16,
            OffsetCommit("g", "t", 0, 9, 2, "m", 1, topic_id=b"\xab" * 16),
        ),
        ("0004" + f"{9:016x}" + "00000002" + "026d" + f"{1:016x}" + "00", OffsetCommit("g", "t", 0, 9, 2, "m", 1)),
    ],
)
@pytest.mark.parametrize("key_version", ["0000", "0001"])
def test_offset_commits_of_other_versions(value, offset, key_version):
    key = bytes.fromhex(key_version + "000167" + "000174" + "00000000")
    assert record_from_key_value(key, bytes.fromhex(value)) == offset


def test_generations_of_other_versions():
    key = bytes.fromhex("0002" + "000167")
    version_0 = "0000" + "000163" + "00000001" + "ffff" + "ffff" + "00000001"
    version_0 += "00016d" + "000163" + "000168" + "00000009" + "00000000" + "00000000"
    assert record_from_key_value(key, bytes.fromhex(version_0)) == GroupMetadata(
        "g", "c", 1, None, None, -1, (GroupMetadataMember("m", None, "c", "h", 9, 9, b"", b""),)
    )
    version_4 = "0004" + "0263" + "00000001" + "0272" + "00" + f"{5:016x}" + "01" + "00"
    assert record_from_key_value(key, bytes.fromhex(version_4)) == GroupMetadata("g", "c", 1, "r", None, 5, ())


def test_records_of_a_transaction_know_their_producer():
    key, value = record_to_key_value(OffsetCommit("g", "t", 0, 1, producer_id=5, producer_epoch=2))
    read = record_from_key_value(key, value, producer_id=5, producer_epoch=2)
    assert isinstance(read, OffsetCommit)
    assert (read.is_transactional, read.producer_id, read.producer_epoch) == (True, 5, 2)
    plain = record_from_key_value(key, value)
    assert isinstance(plain, OffsetCommit)
    assert not plain.is_transactional


@pytest.mark.parametrize("key", [None, b"\x00\x18\x00\x01g", b"\x00\x1a", b"\xff\xff"])
def test_records_of_other_kinds_are_not_ours(key):
    assert record_from_key_value(key, b"\x00\x00") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", b""),
        (b"\x00", b""),
        (b"\x00\x01", b""),
        (b"\x00\x02\x00\x01g", b"\x00\x05"),
        (b"\x00\x02\x00\x01gx", None),
    ],
)
def test_bytes_that_are_no_record(key, value):
    with pytest.raises(MalformedMessage):
        record_from_key_value(key, value)
