"""The records of `__transaction_state`, against Kafka's schemas TransactionLogKey and TransactionLogValue."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import MalformedMessage
from oncelog.types import TopicPartition
from oncelog.wire.log_records.transaction_state import (
    TransactionLogValue,
    TransactionRecord,
    TransactionState,
    TransactionTombstone,
    newest_records,
    record_by_schema,
    record_from_key_value,
    record_to_key_value,
    value_by_schema,
)
from oncelog.wire.schema import encode_message

RECORD = TransactionRecord(
    transactional_id="pay",
    producer_id=10,
    producer_epoch=3,
    timeout_ms=60000,
    state=TransactionState.PREPARE_COMMIT,
    partitions=frozenset({TopicPartition("b", 7), TopicPartition("a", 1), TopicPartition("a", 0)}),
    last_update_ms=1700,
    start_ms=1600,
    previous_producer_id=10,
    next_producer_id=11,
    next_producer_epoch=0,
    last_producer_epoch=2,
    client_transaction_version=2,
    committed_on_condition=True,
)
KEY = b"\0\0" + b"\0\3pay"


def test_version_1_byte_for_byte() -> None:
    key, value = record_to_key_value(RECORD)
    assert key == KEY
    assert value == (
        struct.pack(">hqhib", 1, 10, 3, 60000, 2)
        + b"\3" + b"\2a\3" + struct.pack(">ii", 0, 1) + b"\0" + b"\2b\2" + struct.pack(">i", 7) + b"\0"
        + struct.pack(">qq", 1700, 1600)
        + b"\6"
        + b"\0\10" + struct.pack(">q", 10)
        + b"\1\10" + struct.pack(">q", 11)
        + b"\2\2" + struct.pack(">h", 2)
        + b"\3\2" + struct.pack(">h", 0)
        + b"\x90\x4e\2" + struct.pack(">h", 2)
        + b"\x91\x4e\1\1"
    )  # fmt: skip


def test_version_0_byte_for_byte() -> None:
    _, value = record_to_key_value(replace(RECORD, value_version=0))
    assert value == (
        struct.pack(">hqhib", 0, 10, 3, 60000, 2)
        + struct.pack(">i", 2) + b"\0\1a" + struct.pack(">iii", 2, 0, 1) + b"\0\1b" + struct.pack(">ii", 1, 7)
        + struct.pack(">qq", 1700, 1600)
    )  # fmt: skip


def test_empty_has_null_partitions_and_complete_an_empty_list() -> None:
    bare = replace(RECORD, partitions=frozenset(), value_version=0)
    position = struct.calcsize(">hqhib")
    for state, length in ((TransactionState.EMPTY, -1), (TransactionState.COMPLETE_COMMIT, 0)):
        value = record_to_key_value(replace(bare, state=state))[1]
        assert value is not None
        assert struct.unpack_from(">i", value, position) == (length,)


def test_a_tombstone_is_a_key_without_a_value() -> None:
    assert record_to_key_value(TransactionTombstone("pay")) == (KEY, None)
    assert record_from_key_value(KEY, None) == TransactionTombstone("pay")


STATES = st.sampled_from([state for state in TransactionState if state <= TransactionState.COMPLETE_ABORT])
INT64 = st.integers(-1, 2**63 - 1)
EPOCHS = st.integers(-1, 32767)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)


@st.composite
def records(draw: st.DrawFn) -> TransactionRecord:
    state = draw(STATES)
    partitions = st.frozensets(st.builds(TopicPartition, NAMES, st.integers(0, 2**31 - 1)), max_size=4)
    next_id = draw(INT64)
    return TransactionRecord(
        draw(NAMES),
        draw(INT64),
        draw(EPOCHS),
        draw(st.integers(0, 2**31 - 1)),
        state,
        frozenset() if state is TransactionState.EMPTY else draw(partitions),
        draw(INT64),
        draw(INT64),
        draw(INT64),
        next_id,
        draw(EPOCHS.filter(lambda e: e >= 0)) if next_id != -1 else -1,
        draw(EPOCHS),
        draw(st.integers(0, 2)),
        draw(st.sampled_from([None, False, True])),
    )


@given(records())
def test_what_is_written_is_read(record: TransactionRecord) -> None:
    assert record_from_key_value(*record_to_key_value(record)) == record


@given(records())
def test_the_short_way_writes_what_the_schema_does(record: TransactionRecord) -> None:
    assert record_to_key_value(record)[1] == value_by_schema(record)


AT_REST = [TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT]


@given(records(), st.sampled_from(AT_REST), st.sampled_from([-1, 3, 2**62]), st.integers(-3, 5), st.data())
def test_the_short_way_reads_what_the_schema_does(record, state, previous_producer_id, last_epoch, data) -> None:
    """Of an id at rest, and of the same bytes with one of them changed: what is not as expected is left to the schema."""
    record = replace(
        record,
        state=state,
        partitions=frozenset(),
        previous_producer_id=previous_producer_id,
        next_producer_id=-1,
        next_producer_epoch=-1,
        last_producer_epoch=last_epoch,
    )
    key, value = record_to_key_value(record)
    assert value is not None
    changed = bytearray(value)
    changed[data.draw(st.integers(2, len(value) - 1))] = data.draw(st.sampled_from([0, 1, 2, 4, 5, 8, 127, 255]))
    for each in (value, bytes(changed)):
        assert attempt(lambda each=each: record_from_key_value(key, each)) == attempt(
            lambda each=each: record_by_schema(record.transactional_id, each)
        )


def attempt(read: Callable[[], object]) -> object:
    try:
        return read()
    except MalformedMessage as error:
        return str(error)


@given(records())
def test_version_0_keeps_all_but_the_tags(record: TransactionRecord) -> None:
    read = record_from_key_value(*record_to_key_value(replace(record, value_version=0)))
    assert read == replace(
        record,
        previous_producer_id=-1,
        next_producer_id=-1,
        next_producer_epoch=-1,
        last_producer_epoch=-1,
        client_transaction_version=0,
        committed_on_condition=None,
    )


@given(records(), st.data())
def test_every_cut_is_malformed(record: TransactionRecord, data: st.DataObject) -> None:
    key, value = record_to_key_value(record)
    assert value is not None
    size = data.draw(st.integers(0, len(value) - 1))
    with pytest.raises(MalformedMessage):
        record_from_key_value(key, value[:size])
    with pytest.raises(MalformedMessage):
        record_from_key_value(key[: data.draw(st.integers(2, len(key) - 1))], value)


def test_what_is_not_known_is_skipped_and_what_is_wrong_refused() -> None:
    key, value = record_to_key_value(RECORD)
    assert value is not None
    assert record_from_key_value(b"\0\1" + key[2:], value) is None
    assert record_from_key_value(key, b"\0\2" + value[2:]) is None
    wrong_state = bytearray(value)
    wrong_state[16] = 8
    for bad_key, bad_value in (
        (None, value),
        (b"\0", value),
        (key, b"\0"),
        (key, value + b"\0"),
        (key, bytes(wrong_state)),
    ):
        with pytest.raises(MalformedMessage):
            record_from_key_value(bad_key, bad_value)


@st.composite
def logs(draw: st.DrawFn) -> list[tuple[bytes, bytes | None]]:
    """Keys and values of a few ids: records, tombstones, and what this oncelog does not know."""
    pairs = []
    for _ in range(draw(st.integers(0, 12))):
        transactional_id = draw(st.sampled_from(("a", "b", "c")))
        key, value = record_to_key_value(replace(draw(records()), transactional_id=transactional_id))
        assert value is not None
        kind = draw(st.sampled_from(("record", "record", "tombstone", "version", "key")))
        pairs.append(
            {
                "record": (key, value),
                "tombstone": (key, None),
                "version": (key, b"\0\2" + value[2:]),
                "key": (b"\0\1" + key[2:], value),
            }[kind]
        )
    return pairs


@given(logs())
def test_the_newest_records_say_what_all_of_them_do(pairs: list[tuple[bytes, bytes | None]]) -> None:
    def state_after(read: Iterable[TransactionRecord | TransactionTombstone | None]) -> dict[str, TransactionRecord]:
        state: dict[str, TransactionRecord] = {}
        for record in read:
            if isinstance(record, TransactionTombstone):
                state.pop(record.transactional_id, None)
            elif record is not None:
                state[record.transactional_id] = record
        return state

    newest = list(newest_records(pairs))
    assert len({record.transactional_id for record in newest}) == len(newest)
    assert state_after(newest) == state_after(record_from_key_value(*pair) for pair in pairs)


def test_a_newest_record_that_cannot_be_read_is_refused() -> None:
    key, value = record_to_key_value(RECORD)
    assert value is not None
    assert list(newest_records([(key, b"\0\1"), (key, value)])) == [RECORD]
    for bad in ((key, b"\0"), (key, value + b"\0"), (None, value)):
        with pytest.raises(MalformedMessage):
            list(newest_records([(key, value), bad]))


def test_the_proposal_s_timeout_of_a_two_phase_transaction_is_accepted() -> None:
    """KIP-939 says -1 on disk, Apache Kafka writes 2147483647."""
    read = record_from_key_value(*record_to_key_value(replace(RECORD, timeout_ms=-1)))
    assert isinstance(read, TransactionRecord)
    assert read.timeout_ms == 2147483647


def from_kafka(**fields: int) -> TransactionRecord:
    """A record as Apache Kafka writes it: it knows neither tag 3 nor ours."""
    value = TransactionLogValue(
        transaction_timeout_ms=60000,
        transaction_last_update_timestamp_ms=7,
        transaction_start_timestamp_ms=6,
        transaction_partitions=[],
        **fields,
    )
    read = record_from_key_value(KEY, b"\0\1" + encode_message(value, 1))
    assert isinstance(read, TransactionRecord)
    return read


def test_apache_kafka_s_overflow_record_goes_on_with_epoch_0() -> None:
    read = from_kafka(
        producer_id=10,
        producer_epoch=32767,
        transaction_status=TransactionState.PREPARE_COMMIT,
        previous_producer_id=10,
        next_producer_id=11,
        client_transaction_version=2,
    )
    assert (read.next_producer_id, read.next_producer_epoch, read.last_producer_epoch) == (11, 0, 32766)


@pytest.mark.parametrize(
    ("state", "client_version", "producer_epoch", "last"),
    [
        (TransactionState.COMPLETE_COMMIT, 2, 6, 5),
        (TransactionState.COMPLETE_ABORT, 2, 0, 32766),
        (TransactionState.PREPARE_ABORT, 2, 1, 0),
        (TransactionState.ONGOING, 2, 6, -1),
        (TransactionState.EMPTY, 2, 6, -1),
        (TransactionState.COMPLETE_COMMIT, 1, 6, -1),
    ],
)
def test_the_last_epoch_of_apache_kafka_s_records(
    state: TransactionState, client_version: int, producer_epoch: int, last: int
) -> None:
    """KIP-890: a loader may tell it; so a retry survives a move of the data directory from Apache Kafka."""
    read = from_kafka(
        producer_id=10,
        producer_epoch=producer_epoch,
        transaction_status=state,
        previous_producer_id=10,
        client_transaction_version=client_version,
    )
    assert read.last_producer_epoch == last
