"""Records of share groups and of their states: what is written is what is read, and others' keys are not ours."""

from __future__ import annotations

import pytest

from oncelog.errors import MalformedMessage
from oncelog.wire.log_records import consumer_offsets, share_state
from oncelog.wire.log_records.share_groups import (
    ShareCurrentMember,
    ShareGroupEpoch,
    ShareGroupKey,
    ShareMember,
    ShareStatePartitions,
    ShareTargetEpoch,
    ShareTargetMember,
    ShareTombstone,
)
from oncelog.wire.log_records.share_state import (
    ShareKey,
    ShareSnapshot,
    ShareStateDeleted,
    ShareUpdate,
    StoredBatch,
)

T = b"t" * 16
OF_GROUPS = [
    ShareGroupEpoch("g", 3, -7),
    ShareMember("g", "m", "rack", "client", "/127.0.0.1", ("a", "b")),
    ShareTargetEpoch("g", 3, 1_000),
    ShareTargetMember("g", "m", {T: frozenset((0, 2))}),
    ShareCurrentMember("g", "m", 3, 2, {T: frozenset((0,))}),
    ShareStatePartitions("g", {T: frozenset((0, 1))}, {T: "a"}),
    *(ShareTombstone(key, "g", "m" if key in (10, 13, 14) else "") for key in ShareGroupKey),
]
KEY = ShareKey("g", T, 4)
BATCHES = (StoredBatch(0, 4, 2, 1), StoredBatch(7, 7, 0, 3))
OF_STATES = [
    ShareSnapshot(KEY, 1, 2, 3, 4, 5, 6, 7, BATCHES),
    ShareSnapshot(KEY, 0, 0, 0, -1, -1, 6, 7),
    ShareUpdate(KEY, 1, 0, 4, 2, BATCHES),
    ShareStateDeleted(KEY),
]


@pytest.mark.parametrize("record", OF_GROUPS, ids=str)
def test_of_groups(record):
    key, value = consumer_offsets.record_to_key_value(record)
    assert consumer_offsets.record_from_key_value(key, value) == record


@pytest.mark.parametrize("record", OF_STATES, ids=str)
def test_of_states(record):
    key, value = share_state.record_to_key_value(record)
    assert share_state.record_from_key_value(key, value) == record


def test_the_bytes_are_kafkas():
    """As Apache Kafka 4.3 wrote them for the same state."""
    key, value = share_state.record_to_key_value(ShareSnapshot(KEY, 0, 0, 0, -1, -1, 0, 0))
    assert key.hex() == "0000" + "0001" + "67" + T.hex() + "00000004"
    assert value is not None
    assert value.hex() == "0000" + "00000000" * 3 + "ff" * 8 + "00" * 16 + "01" + "00"


def test_others_keys_and_broken_ones():
    assert share_state.record_from_key_value(None, b"") is None
    assert share_state.record_from_key_value(b"\x00\x07", b"") is None
    for key, value in (
        (b"\x00", b""),
        (b"\x00\x00\x00", b""),
        (share_state.record_to_key_value(OF_STATES[0])[0], b"\0\0\0"),
    ):
        with pytest.raises(MalformedMessage):
            share_state.record_from_key_value(key, value)
    assert str(KEY) == "g:dHR0dHR0dHR0dHR0dHR0dA:4"
