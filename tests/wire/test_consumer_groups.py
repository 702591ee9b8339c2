"""Records of consumer groups: Kafka's bytes, and whatever is written is read."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from oncelog.errors import MalformedMessage
from oncelog.wire.log_records.consumer_groups import (
    ClassicMember,
    ConsumerGroupKey,
    CurrentMember,
    GroupEpoch,
    MemberMetadata,
    ResolvedRegex,
    TargetEpoch,
    TargetMember,
    Tombstone,
)
from oncelog.wire.log_records.consumer_offsets import record_from_key_value, record_to_key_value

ID = bytes(range(16))

names = st.text(max_size=6)
maybe = st.none() | names
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
ids = st.binary(min_size=16, max_size=16)
partitions = st.dictionaries(ids, st.frozensets(st.integers(0, 99), max_size=4), max_size=3)
epochs = st.dictionaries(
    ids, st.dictionaries(st.integers(0, 99), st.integers(0, 99), min_size=1, max_size=4), max_size=3
)
classic = st.builds(
    ClassicMember, st.integers(1, 2**31 - 1), st.lists(st.tuples(names, st.binary(max_size=5)), max_size=2).map(tuple)
)
records = st.one_of(
    st.builds(GroupEpoch, names, int32, int64),
    st.builds(
        MemberMetadata,
        names,
        names,
        maybe,
        maybe,
        names,
        names,
        st.lists(names, max_size=3).map(tuple),
        names,
        int32,
        maybe,
        st.none() | classic,
    ),
    st.builds(TargetEpoch, names, int32, int64),
    st.builds(TargetMember, names, names, partitions),
    st.builds(CurrentMember, names, names, int32, int32, st.integers(0, 127), epochs, epochs),
    st.builds(ResolvedRegex, names, names, st.lists(names, max_size=3).map(tuple), int64, int64),
    st.builds(Tombstone, st.sampled_from([ConsumerGroupKey.GROUP_EPOCH, ConsumerGroupKey.TARGET_EPOCH]), names),
    st.builds(Tombstone, st.sampled_from([ConsumerGroupKey.MEMBER, ConsumerGroupKey.REGULAR_EXPRESSION]), names, names),
)


@given(records)
def test_what_is_written_is_read(record):
    assert record_from_key_value(*record_to_key_value(record)) == record


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        # epoch 2, and as a tagged field the hash
        (GroupEpoch("g", 2, 7), "0003 0001 67", "0000 00000002 01 00 08 0000000000000007"),
        (GroupEpoch("g", 1), "0003 0001 67", "0000 00000001 00"),
        (TargetEpoch("g", 2, 5), "0006 0001 67", "0000 00000002 01 00 08 0000000000000005"),
        (
            TargetMember("g", "m", {ID: frozenset({1, 0})}),
            "0007 0001 67 0001 6d",
            "0000 02" + ID.hex() + "03 00000000 00000001 00 00",
        ),
        (
            CurrentMember("g", "m", 2, 0, 1, {ID: {0: 2}}, {}),
            "0008 0001 67 0001 6d",
            "0000 00000002 00000000 01 02" + ID.hex() + "02 00000000 01 00 05 02 00000002 01 00",
        ),
        (
            ResolvedRegex("g", "t.*", ("t",), 3, 4),
            "0010 0001 67 0003 742e2a",
            "0000 02 02 74 0000000000000003 0000000000000004 00",
        ),
        (Tombstone(ConsumerGroupKey.MEMBER, "g", "m"), "0005 0001 67 0001 6d", None),
    ],
)
def test_the_bytes_are_kafkas(record, key, value):
    expected = None if value is None else bytes.fromhex(value)
    assert record_to_key_value(record) == (bytes.fromhex(key), expected)


MEMBER = MemberMetadata("modern", "m1", None, None, "test", "/127.0.0.1", ("t",), "", 5000, None)
MEMBER_KEY = "0005 0006 6d6f6465726e 0002 6d31"
MEMBER_VALUE = "0000 00 00 05 74657374 0b 2f3132372e302e302e31 02 02 74 01 00001388 00"


def test_a_member_of_the_new_protocol_says_so_as_apache_kafka_does():
    """The bytes are Apache Kafka 4.3's: without the tag it would take the member for one of the classic protocol."""
    value = bytes.fromhex(MEMBER_VALUE + "01 00 01 00")
    assert record_from_key_value(bytes.fromhex(MEMBER_KEY), value) == MEMBER
    assert record_to_key_value(MEMBER) == (bytes.fromhex(MEMBER_KEY), value)


def test_a_member_that_an_older_oncelog_wrote_is_none_of_the_classic_protocol():
    assert record_from_key_value(bytes.fromhex(MEMBER_KEY), bytes.fromhex(MEMBER_VALUE + "00")) == MEMBER


def test_a_partition_without_an_epoch_has_its_members():
    """Before Apache Kafka 4.3."""
    value = bytes.fromhex("0000 00000007 00000006 01 02" + ID.hex() + "02 00000003 00 01 00")
    read = record_from_key_value(bytes.fromhex("0008 0001 67 0001 6d"), value)
    assert read == CurrentMember("g", "m", 7, 6, 1, {ID: {3: 7}}, {})


def test_partition_metadata_of_older_brokers_is_passed_over():
    assert record_from_key_value(bytes.fromhex("0004 0001 67"), b"\x00\x00\x01\x00") is None


def test_a_cut_value_is_malformed():
    with pytest.raises(MalformedMessage):
        record_from_key_value(bytes.fromhex("0003 0001 67"), b"\x00\x00\x00")
