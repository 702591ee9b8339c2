"""What is stored of share partitions: updates, snapshots, replay through the log's bytes."""

from __future__ import annotations

from oncelog.core.decision import NOTHING
from oncelog.core.share.runs import RecordState
from oncelog.core.share.states import ShareStates
from oncelog.core.share.window import Change, StateBatch
from oncelog.wire.log_records.share_state import ShareKey, ShareSnapshot, ShareStateDeleted, ShareUpdate, StoredBatch

KEY = ShareKey("g", b"t" * 16, 0)
ACKED = RecordState.ACKNOWLEDGED


def perform(states, decision, log):
    states.appended(decision.records)
    for record in decision.records:
        log.append(states.record_to_key_value(record))
        states.apply(record)
    return decision.records


def replayed(log):
    states = ShareStates()
    for key, value in log:
        record = states.record_from_key_value(key, value)
        assert record is not None
        states.replay(record)
    return states


def shown(states):
    return {
        key: (s.snapshot_epoch, s.state_epoch, s.start_offset, s.complete_count, s.batches(), s.update_count)
        for key, s in states.by_key.items()
    }


def test_a_share_partition_begins_is_written_and_deleted():
    states, log = ShareStates(updates_per_snapshot=3), []
    (begun,) = perform(states, states.initialize([KEY, KEY], 5), log)
    assert isinstance(begun, ShareSnapshot)
    assert (begun.start_offset, begun.create_timestamp_ms) == (-1, 5)
    assert states.initialize([KEY], 6) == NOTHING, "it has begun"
    perform(states, states.begin_at(KEY, 10, 6), log)
    assert states.by_key[KEY].state_epoch == 0, "the first start is no change of it"
    (update,) = perform(states, states.write(KEY, Change(10, 1, (StateBatch(12, 12, ACKED, 1),)), 7), log)
    assert isinstance(update, ShareUpdate)
    assert states.write(KEY, Change(10, 1, ()), 7) == NOTHING
    perform(states, states.write(KEY, Change(10, 2, (StateBatch(13, 13, ACKED, 1),)), 8), log)
    assert states.by_key[KEY].batches() == (StoredBatch(12, 13, ACKED, 1),)
    (snapshot,) = perform(states, states.write(KEY, Change(13, 1, (StateBatch(14, 14, ACKED, 1),)), 9), log)
    assert isinstance(snapshot, ShareSnapshot)
    assert snapshot.batches == (StoredBatch(13, 14, ACKED, 1),), "what lies below the start is not said again"
    assert shown(replayed(log)) == shown(states)
    perform(states, states.begin_at(KEY, 3, 9), log)
    assert (states.by_key[KEY].state_epoch, states.by_key[KEY].batches()) == (1, ())
    for decision in states.snapshots(10):
        perform(states, decision, log)
    assert shown(replayed(log)) == shown(states)
    assert shown(replayed(log[-1:])) == shown(states), "nothing before the snapshots is needed"
    other = ShareKey("h", b"t" * 16, 0)
    assert perform(states, states.delete([KEY, other]), log) == (ShareStateDeleted(KEY),)
    assert len(replayed(log)) == len(states) == 0


def test_an_update_of_what_nobody_knows_is_nothing():
    states = ShareStates()
    states.replay(ShareUpdate(KEY, 0, 0, 5, 0))
    assert len(states) == 0


def test_an_update_without_a_start_leaves_it_where_it_is():
    """Apache Kafka writes -1 where only the records' states changed: its log is read, too."""
    states, log = ShareStates(), []
    perform(states, states.initialize([KEY], 5), log)
    perform(states, states.begin_at(KEY, 10, 6), log)
    states.replay(ShareUpdate(KEY, 0, 0, -1, 1, (StoredBatch(12, 12, ACKED, 1),)))
    assert states.by_key[KEY].start_offset == 10
    assert states.by_key[KEY].batches() == (StoredBatch(12, 12, ACKED, 1),)
