"""The verification itself: each fault is counted under its name, on journals and views made by hand."""

import json

import pytest

from evidence.crash.journal import Journal, merged, send_step
from evidence.crash.log_oracle import examine, examine_files
from evidence.crash.verify import Verdict, judge, judge_copy
from evidence.crash.workers import ATTEMPTS
from oncelog.checker.history import read_history
from oncelog.types import OffsetAndMetadata, TopicPartition
from oncelog.wire.log_records.transaction_state import TransactionRecord, TransactionState, record_to_key_value
from oncelog.wire.record_batch import build_batch, build_end_txn_marker, set_offsets

KEY = "t-0"


def history(*operations):
    """(type, [(value, offset)]) of one process each."""
    lines = []
    for index, (kind, sends) in enumerate(operations):
        steps = [send_step(KEY, value, offset) for value, offset in sends]
        lines.append(json.dumps({"type": kind, "process": index, "time": index, "f": "txn", "value": steps}))
    return read_history(lines)


GOOD = [("ok", [(1, 0), (2, 1)]), ("fail", [(3, 3)]), ("info", [(4, 5), (5, 6)])]
RAW = {KEY: [(0, 1), (1, 2), (3, 3), (5, 4), (6, 5)]}


def verdict_of(raw, committed):
    verdict = Verdict()
    judge(history(*GOOD), raw, committed, verdict)
    return verdict


@pytest.mark.parametrize("unknown", [[], [(5, 4), (6, 5)]])
def test_a_good_log_is_good(unknown):
    verdict = verdict_of(RAW, {KEY: [(0, 1), (1, 2), *unknown]})
    assert verdict.is_good
    assert verdict.acknowledged == 5
    assert (verdict.committed_transactions, verdict.aborted_transactions, verdict.unknown) == (1, 1, 1)


@pytest.mark.parametrize(
    ("name", "raw", "committed"),
    [
        ("lost", [(0, 1), (3, 3), (5, 4), (6, 5)], [(0, 1), (1, 2)]),
        ("lost", RAW[KEY], [(0, 1)]),
        ("lost", [(0, 2), (1, 1), (3, 3), (5, 4), (6, 5)], [(0, 1), (1, 2)]),
        ("duplicated", [*RAW[KEY], (7, 1)], [(0, 1), (1, 2)]),
        ("aborted_visible", RAW[KEY], [(0, 1), (1, 2), (3, 3)]),
        ("torn", RAW[KEY], [(0, 1), (1, 2), (5, 4)]),
    ],
)
def test_each_fault_has_its_name(name, raw, committed):
    verdict = verdict_of({KEY: raw}, {KEY: committed})
    assert getattr(verdict, name) > 0
    assert not verdict.is_good
    others = {"lost", "duplicated", "aborted_visible", "torn"} - {name}
    assert all(getattr(verdict, other) == 0 for other in others)


def test_copies_follow_the_position():
    committed = {
        "crash.in-0": [(0, 7), (1, 8)],
        "crash.in-1": [],
        "crash.out-0": [(0, 7 * ATTEMPTS + 1), (1, 8 * ATTEMPTS + 2)],
        "crash.out-1": [],
    }
    for position, lost, duplicated in ((2, 0, 0), (1, 0, 1)):
        verdict = Verdict()
        judge_copy(committed, {TopicPartition("crash.in", 0): OffsetAndMetadata(position)}, verdict)
        assert (verdict.lost, verdict.duplicated) == (lost, duplicated)
    verdict = Verdict()
    judge_copy({**committed, "crash.out-0": []}, {TopicPartition("crash.in", 0): OffsetAndMetadata(2)}, verdict)
    assert verdict.lost == 2


def test_journals_are_merged_in_the_order_of_time(tmp_path):
    first, second = Journal(tmp_path / "a", 1), Journal(tmp_path / "b", 2)
    first.write("invoke", [send_step(KEY, 1)])
    second.write("invoke", [send_step(KEY, 2)])
    first.write("ok", [send_step(KEY, 1, 0)])
    first.close()
    second.close()
    with (tmp_path / "a").open("a") as cut_short:
        cut_short.write('{"type": "inv')
    operations = read_history(merged([tmp_path / "a", tmp_path / "b"]))
    assert [(each.process, each.type) for each in operations] == [(100, "ok"), (200, "info")]


def log_of(*batches_):
    for offset, batch in enumerate(batches_):
        set_offsets(batch, offset, 0)
    return b"".join(bytes(batch) for batch in batches_)


def record(producer_epoch, sequence, *, transactional=True):
    return build_batch(
        [(1, None, b"v", ())],
        producer_id=5,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )


def marker(producer_epoch, *, commit):
    return build_end_txn_marker(
        commit=commit, producer_id=5, producer_epoch=producer_epoch, coordinator_epoch=0, timestamp_ms=1
    )


def problems_of(*batches_):
    return examine_files({"t-0/00000000000000000000.log": log_of(*batches_)}).problems


def test_a_good_partition_has_no_problems():
    assert problems_of(record(0, 0), record(0, 1), marker(1, commit=True), record(1, 0), marker(2, commit=False)) == []
    assert problems_of(record(0, 0, transactional=False), record(0, 1, transactional=False)) == []


@pytest.mark.parametrize(
    ("found", "made"),
    [
        ("sequence 0 where 1", lambda: (record(0, 0), record(0, 0), marker(1, commit=True))),
        ("sequence 2 where 1", lambda: (record(0, 0), record(0, 2), marker(1, commit=True))),
        ("older epoch", lambda: (record(0, 0), marker(1, commit=True), record(0, 1), marker(1, commit=True))),
        ("belongs to nobody", lambda: (record(0, 0),)),
        ("marker after one of epoch 2", lambda: (marker(2, commit=True), marker(1, commit=True))),
    ],
)
def test_each_problem_of_a_partition_is_found(found, made):
    assert any(found in problem for problem in problems_of(*made()))


def test_a_torn_file_is_a_problem():
    data = log_of(record(0, 0), marker(1, commit=True))
    assert examine_files({"t-0/00000000000000000000.log": data[:-3]}).problems
    damaged = bytearray(data)
    damaged[70] ^= 1
    assert examine_files({"t-0/00000000000000000000.log": bytes(damaged)}).problems


@pytest.mark.parametrize("is_cleaned", [False, True])
def test_only_what_was_cleaned_may_have_gaps(tmp_path, is_cleaned):
    (tmp_path / "t-0").mkdir()
    log = log_of(record(0, 0, transactional=False), record(0, 1, transactional=False))
    (tmp_path / "t-0" / "00000000000000000001.log").write_bytes(log[len(log) // 2 :])
    if is_cleaned:
        (tmp_path / "cleaner-offset-checkpoint").write_bytes(b"0\n1\nt 0 2\n")
    problems = examine(tmp_path)
    assert any("offset 1 where 0 is due" in each for each in problems) == (not is_cleaned)


def state_log(transactional_id, *states):
    records = [record_to_key_value(TransactionRecord(transactional_id, 5, 0, 1000, state)) for state in states]
    return log_of(*[build_batch([(1, key, value, ())]) for key, value in records])


def test_of_a_cleaned_coordinators_log_only_its_own_histories_are_unknown():
    broken = (TransactionState.COMPLETE_COMMIT,)  # that nothing came before
    files = {
        "__transaction_state-0/00000000000000000000.log": state_log("cleaned", *broken),
        "__transaction_state-1/00000000000000000000.log": state_log("whole", *broken),
    }
    problems = examine_files(files, {"__transaction_state-0"}.__contains__).problems
    assert problems == ["whole: COMPLETE_COMMIT follows None"]
