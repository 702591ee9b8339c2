"""The sink's rules, and a random-interleaving model of tasks, zombies, speculation and dying drivers over them."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from oncelog.core.two_phase.exactly_once_sink import (
    DECISION,
    DONE,
    TOPICS_REMEMBERED_MAX,
    VERSIONS_KEPT,
    VETO,
    Attempt,
    BatchDecision,
    Decide,
    DecisionLog,
    KnownRecords,
    LeaveToSweep,
    Refuse,
    RollForward,
    Veto,
    attempt_name,
    batch_write_query_id,
    decided_elsewhere,
    decision_from_value,
    decision_value,
    described_batch_write,
    earlier_versions,
    is_named,
    is_of_query,
    may_be_forgotten,
    oldest_kept,
    on_abort,
    on_claim,
    on_commit,
    orphans_after_decision,
    orphans_after_veto,
    record_key,
    transactional_id_for,
    unwritten_topics,
    winners_at_risk,
)
from tests.core.two_phase.sink_model import ModelRun

A, B, EMPTY = Attempt("p.q.0.0.run1.1", "1:0", 5), Attempt("p.q.0.1.run1.2", "2:0", 5), Attempt("", "", 0)
DECIDED = BatchDecision("q", "0", "run1", (A,))


def test_a_commit_decides_for_the_attempts_that_wrote() -> None:
    assert on_commit(KnownRecords(), "q", "0", "run1", [A, EMPTY, B]) == Decide(BatchDecision("q", "0", "run1", (A, B)))


def test_a_batch_that_was_decided_rolls_forward_with_its_first_winners() -> None:
    assert on_commit(KnownRecords(DECIDED), "q", "0", "run2", [B]) == RollForward(DECIDED)


def test_a_vetoed_run_may_not_decide_and_another_may() -> None:
    vetoed = KnownRecords(vetoed_runs=frozenset({"run1"}))
    assert isinstance(on_commit(vetoed, "q", "0", "run1", [A]), Refuse)
    assert isinstance(on_commit(vetoed, "q", "0", "run2", [A]), Decide)


def test_an_abort_after_the_decision_rolls_forward() -> None:
    assert on_abort(KnownRecords(DECIDED), "run1") == RollForward(DECIDED)
    assert on_abort(KnownRecords(), "run1") == Veto("run1")
    assert on_abort(KnownRecords(), None) == LeaveToSweep()


def test_a_sweep_spares_winners_later_batches_and_other_queries() -> None:
    open_ids = [
        A.transactional_id, "p.q.0.0.run1.7", "p.q.1.0.run1.8", "p.other.0.0.run1.9", "x.q.0.0.run1.9", "orders",
        "p.q.0.0.run1.x",
    ]  # fmt: skip
    assert orphans_after_decision("p", DECIDED, open_ids) == ["p.q.0.0.run1.7"]
    later = BatchDecision("q", "10", "run1", ())
    assert orphans_after_decision("p", later, ["p.q.9.0.r.1", "p.q.10.0.r.1", "p.q.11.0.r.1"]) == [
        "p.q.9.0.r.1",
        "p.q.10.0.r.1",
    ]


def test_a_veto_ends_only_its_own_runs_attempts() -> None:
    first, second = (
        transactional_id_for("p", "q", "0", 0, "aaaaaaaa-1", 1),
        transactional_id_for("p", "q", "0", 0, "bbbbbbbb-1", 1),
    )
    assert orphans_after_veto("p", "q", "0", "aaaaaaaa-1", [first, second]) == [first]


def test_an_id_says_where_it_comes_from() -> None:
    name = attempt_name("oncelog-spark", transactional_id_for("oncelog-spark", "1f3c-9", "12", 3, "0123456789", 44))
    assert name is not None
    assert (name.query_id, name.batch_id, name.partition, name.run_start, name.task_attempt_id) == (
        "1f3c-9",
        "12",
        3,
        "01234567",
        44,
    )


def test_winners_near_their_timeout_are_at_risk() -> None:
    assert winners_at_risk({A.transactional_id: 60_000}, [A, B], 30_000) == [B.transactional_id]
    assert winners_at_risk({A.transactional_id: 29_999, B.transactional_id: None}, [A, B], 30_000) == [
        A.transactional_id,
        B.transactional_id,
    ]


def test_the_first_decision_in_the_log_stands_and_a_tombstone_forgets_it() -> None:
    log = DecisionLog()
    for foreign in (b"not ours", b"5", b"[" * 100_000):
        log.apply(foreign, b"1")
    log.apply(record_key("q", "0", VETO, "run0"), b"{}")
    log.apply(record_key("q", "0", DECISION, "run0"), decision_value(BatchDecision("q", "0", "run0", (B,))))
    assert log.known("q", "0").decision is None, "a vetoed run's decision does not count"
    log.apply(record_key("q", "0", DECISION, "run1"), decision_value(DECIDED))
    log.apply(record_key("q", "0", DECISION, "run2"), decision_value(BatchDecision("q", "0", "run2", (B,))))
    assert log.known("q", "0").decision == DECIDED
    log.apply(record_key("q", "0", DONE, "run1"), b"{}")
    log.apply(record_key("q", "0", DECISION, "run2"), None)
    assert log.decided("q") == [(DECIDED, True)]
    log.apply(record_key("q", "0", DECISION, "run1"), None)
    assert log.decided() == []


def test_a_decision_of_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown format"):
        DecisionLog().apply(record_key("q", "0", DECISION, "r"), b'{"v": 9}')


def test_a_driver_that_slept_may_not_decide_a_batch_that_was_forgotten() -> None:
    """Found by `make spark-kills`: after the tombstone its decision would have been the first in the log again."""
    log = DecisionLog()
    log.apply(record_key("q", "0", DECISION, "run1"), decision_value(DECIDED))
    log.apply(record_key("q", "1", DECISION, "run1"), decision_value(BatchDecision("q", "1", "run1", (B,))))
    log.apply(record_key("q", "0", DECISION, "run1"), None)
    assert log.known("q", "0").is_superseded
    assert isinstance(on_commit(log.known("q", "0"), "q", "0", "slept", [B]), Refuse)
    log.apply(record_key("q", "0", DECISION, "slept"), decision_value(BatchDecision("q", "0", "slept", (B,))))
    assert log.known("q", "0").decision is None
    assert not log.known("q", "2").is_superseded


def test_only_done_batches_of_a_stream_that_are_not_its_newest_are_forgotten() -> None:
    floor = oldest_kept("q", ["0", "1"])
    newer = BatchDecision("q", "1", "run1", ())
    assert may_be_forgotten(DECIDED, True, floor)
    assert not may_be_forgotten(DECIDED, False, floor)
    assert not may_be_forgotten(newer, True, floor)
    assert not may_be_forgotten(BatchDecision("app-report", "1", "r", ()), True, oldest_kept("app-report", ["1", "2"]))


def test_a_batch_write_is_one_version_to_one_destination() -> None:
    names = [
        batch_write_query_id(*given)
        for given in (
            ("report", "a"), ("report", "b"), ("report", None), ("report", "a.b"), ("report@a", "b"), ("report", "a@b"),
            ("report%40a", "b"), ("report", "a", "cluster"), ("report", None, "cluster"),
            ("report" * 40, "a"), ("report" * 40, "b"),
        )
    ]  # fmt: skip
    assert len(set(names)) == len(names)
    assert all("." not in name and len(name) <= 200 and name.startswith("app@") for name in names)
    assert "report@a" in names[0], "people read it in `oncelog recover`"


def test_a_decision_says_where_rows_went_that_a_column_sent() -> None:
    winners = (Attempt("p.x.1.0.r.1", "1:0", 1, frozenset({"b"})), Attempt("p.x.1.1.r.2", "2:0", 1, frozenset({"a"})))
    of_batch = on_commit(KnownRecords(), "app@report@", "1", "run1", winners)
    of_stream = on_commit(KnownRecords(), "q", "1", "run1", winners)
    assert isinstance(of_batch, Decide)
    assert isinstance(of_stream, Decide)
    assert (of_batch.decision.topics, of_stream.decision.topics) == (("a", "b"), ())
    decision = decision_from_value("app@report@", "1", decision_value(of_batch.decision))
    assert decision == of_batch.decision
    assert unwritten_topics(decision, {"a", "c"}) == ["c"]
    assert unwritten_topics(DECIDED, {"a"}) == [], "the option named the topic"
    many = Attempt("p.x.1.0.r.1", "1:0", 1, frozenset(f"t{i}" for i in range(TOPICS_REMEMBERED_MAX + 1)))
    unbounded = on_commit(KnownRecords(), "app@report@", "1", "run1", [many])
    assert isinstance(unbounded, Decide)
    assert unbounded.decision.topics == ()


def test_versions_come_in_any_order_as_long_as_they_are_remembered() -> None:
    log, query_id = DecisionLog(), batch_write_query_id("report", "a")

    def decide(version: str) -> None:
        decision = BatchDecision(query_id, version, f"run-{version}", ())
        log.apply(record_key(query_id, version, DECISION, decision.run_id), decision_value(decision))
        log.apply(record_key(query_id, version, DONE, decision.run_id), b"{}")

    for number in range(2, VERSIONS_KEPT + 1):
        decide(str(number))
    assert not log.known(query_id, "0").is_superseded
    decide("0")
    assert log.known(query_id, "0").decision is not None
    assert not log.known(query_id, "1").is_superseded, "none of the versions below it was forgotten"
    assert log.to_be_forgotten(BatchDecision(query_id, "0", "", ())) == []
    decide("1001")
    assert log.known(query_id, "1").is_superseded
    decide("1")
    assert log.known(query_id, "1").decision is None
    gone = log.to_be_forgotten(BatchDecision(query_id, "1001", "", ()))
    assert {key.split(b",")[1] for key in gone} == {b'"0"', b'"1"'}
    assert not log.known(query_id, "final").is_superseded


def test_a_name_belongs_to_the_query_that_used_it_first() -> None:
    assert on_claim("orders", None, "a", "0", []) is None
    assert on_claim("orders", "a", "a", "0", ["7"]) is None, "a batch that runs again, or a zombie: the decision knows"
    refusal = on_claim("orders", "a", "b", "8", ["7"])
    assert refusal is not None
    assert "belongs to the Spark query a" in refusal.reason
    for owner, asks in ((None, "b"), ("a", None), (None, None)):
        assert [batch for batch in ("6", "7", "8", "9") if on_claim("orders", owner, asks, batch, ["6", "7"])] == ["6"]


def test_what_was_kept_says_what_ends_it() -> None:
    kept = Attempt("p.q.0.0.run1.1", "1:0", 5, acting_state="1:1")
    decision = BatchDecision("q", "0", "run1", (kept, B))
    value = decision_value(decision)
    assert decision_from_value("q", "0", value) == decision
    assert b'["p.q.0.0.run1.1","1:0",5]' in value, "as an earlier version reads it"


def test_a_batch_write_goes_by_the_names_that_its_user_gave() -> None:
    named = batch_write_query_id("a.b@c", "t.1")
    assert [wanted for wanted in ("a.b@c", "a", named, "t.1") if is_named(named, wanted)] == ["a.b@c", named]
    assert is_named("app-report", "report")
    assert is_named("1f3c", "1f3c")
    assert not is_named("1f3c", "1f")
    words = [
        described_batch_write(query_id, "7")
        for query_id in (named, batch_write_query_id("x", None), "app-report", "job-1", "1f3c")
    ]
    assert words == [
        "version 7 of batch write 'a.b@c' to topic 't.1'",
        "version 7 of batch write 'x'",
        "version 7 of batch write 'report'",
        "a batch write without txnAppId (job-1)",
        None,
    ]


def test_only_earlier_versions_of_the_same_write_may_have_been_left() -> None:
    query_id = batch_write_query_id("report", "a")
    ids = [transactional_id_for("p", q, v, 0, "run", 1) for q in (query_id, "q") for v in ("3", "5", "7", "x")]
    assert earlier_versions("p", BatchDecision(query_id, "5", "r", ()), [*ids, "other"]) == [ids[0]]
    assert earlier_versions("p", BatchDecision(query_id, "x", "r", ()), ids) == []
    assert earlier_versions("p", BatchDecision("q", "5", "r", ()), ids) == [], "a stream's sweep ends them"


def test_a_sweep_spares_a_backfill_that_is_being_written() -> None:
    query_id = batch_write_query_id("report", "a")
    open_ids = [transactional_id_for("p", query_id, version, 0, "run", 1) for version in ("3", "5", "7")]
    decision = BatchDecision(query_id, "5", "other", ())
    assert orphans_after_decision("p", decision, open_ids) == [open_ids[1]]
    later = [BatchDecision(query_id, str(n), "r", ()) for n in range(4, VERSIONS_KEPT + 4)]
    assert orphans_after_decision("p", decision, open_ids, later) == open_ids


# --- the model


def test_a_sweep_spares_the_winners_of_every_decision() -> None:
    """Version 1 of a batch write was decided and its driver died; version 2 is decided and sweeps."""
    first = Attempt(transactional_id_for("p", "app-x", "1", 0, "run1", 1), "1:0", 5)
    left = transactional_id_for("p", "app-x", "1", 1, "run1", 2)
    one, two = BatchDecision("app-x", "1", "run1", (first,)), BatchDecision("app-x", "2", "run2", ())
    assert orphans_after_decision("p", two, [first.transactional_id, left], [one, two]) == [left]


def test_a_version_that_is_no_number_takes_nothing_from_the_newest_number() -> None:
    log = DecisionLog()
    for version in ("5", "final", "3"):
        decision = BatchDecision("app-x", version, f"run-{version}", ())
        log.apply(record_key("app-x", version, DECISION, decision.run_id), decision_value(decision))
    assert [decision.batch_id for decision, _ in log.decided("app-x")] == ["5", "final"]
    assert log.known("app-x", "3").is_superseded


class Topic:
    """The decision topic: every record, and what is left of them when the broker has compacted some of it."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes | None]] = []

    def append(self, key: bytes, value: bytes | None) -> None:
        self.records.append((key, value))

    def compact(self, end: int) -> None:
        """Of each key before `end` only the newest stays, and no tombstone."""
        newest = {key: i for i, (key, _) in enumerate(self.records[:end])}
        self.records = [
            (key, value)
            for i, (key, value) in enumerate(self.records)
            if i >= end or (newest[key] == i and value is not None)
        ]

    def read(self) -> DecisionLog:
        log = DecisionLog()
        for key, value in self.records:
            log.apply(key, value)
        return log


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_compaction_changes_nothing_that_is_known(first: int) -> None:
    """Two runs decide each batch, vetoes fall, a driver that slept decides batches of long ago; tombstones come in pieces."""
    for seed in range(first, first + 100):
        rng, topic, batches = random.Random(seed), Topic(), 6
        reader = DecisionLog()
        read = 0

        def say(kind: str, batch: int, run: str, topic: Topic = topic) -> None:
            value = decision_value(BatchDecision("q", str(batch), run, ())) if kind == DECISION else b"{}"
            topic.append(record_key("q", str(batch), kind, run), value)

        for batch in range(batches):
            if rng.random() < 0.4:
                say(VETO, batch, "run-0")
            for run in rng.sample(["run-0", "run-1", "run-2"], rng.randint(1, 3)):
                say(DECISION, batch, run)
            say(DECISION, batch, "run-3")  # the last one of them all is never vetoed
            while rng.random() < 0.4:
                say(rng.choice([DECISION, VETO]), rng.randint(0, batch), f"slept-{rng.random()}")
            for key, value in topic.records[read:]:
                reader.apply(key, value)
            known = reader.known("q", str(batch))
            assert known.decision is not None
            say(DONE, batch, known.decision.run_id)
            forgotten = reader.to_be_forgotten(known.decision)
            for key in forgotten[: rng.choice([len(forgotten), rng.randint(0, len(forgotten))])]:
                topic.append(key, None)
            for key, value in topic.records[read:]:
                reader.apply(key, value)
            whole = topic.read()
            topic.compact(rng.randint(0, len(topic.records)))
            compacted, read = topic.read(), len(topic.records)
            assert compacted.decided("q") == whole.decided("q"), f"seed {seed}, batch {batch}"
            for number in range(batches):
                assert compacted.known("q", str(number)).decision == whole.known("q", str(number)).decision
                if compacted.known("q", str(number)).decision is None and number <= batch:
                    assert compacted.known("q", str(number)).is_superseded
        assert len(topic.read().decided("q")) >= 1
        last = topic.read()
        decision = last.known("q", str(batches - 1)).decision
        assert decision is not None
        for key in last.to_be_forgotten(decision):
            topic.append(key, None)
        topic.compact(len(topic.records))
        kept = {str(key) for key, _ in topic.records}
        assert all(f'"{batches - 1}"' in key or "slept" in key for key in kept), "nothing grows without a bound"


def test_no_interleaving_duplicates_or_loses() -> None:
    assert [seed for seed in range(1500) if ModelRun(seed).verdict() != (0, 0)] == []


def test_the_model_finds_the_naive_abort() -> None:
    """The control: an abort that ends the very transactions it was given loses decided batches."""
    lossy = [seed for seed in range(150) if ModelRun(seed, eager=True).verdict()[1] > 0]
    assert len(lossy) > 10


def test_a_query_that_committed_here_and_is_not_known_decided_elsewhere() -> None:
    spark_id = "0f0a3a2e-1c8b-4d52-9a3a-6c4f0d9a1b11"
    worker = "0" * 32
    mine, other_prefix = f"p.{spark_id}.run1.{worker}.0", f"q.{spark_id}.run1.{worker}.0"
    for transactional_id in (mine, other_prefix):  # Spark's own ids are unique: whatever the prefix, it is this query
        refused = decided_elsewhere("p", spark_id, {transactional_id: "CompleteCommit"})
        assert refused is not None
        assert transactional_id in refused.reason
    assert decided_elsewhere("p", spark_id, {mine: "PrepareCommit"}) is not None
    undecided = dict.fromkeys([mine, other_prefix], "Ongoing") | {f"p.{spark_id}.run1.{worker}.1": "CompleteAbort"}
    assert decided_elsewhere("p", spark_id, undecided) is None
    assert decided_elsewhere("p", spark_id, {"p.other.run1.0.0": "CompleteCommit", "shop": "CompleteCommit"}) is None
    # A name that somebody chose may be another application's, under another prefix.
    named = {f"q.orders.run1.{worker}.0": "CompleteCommit"}
    assert (decided_elsewhere("p", "orders", named), decided_elsewhere("q", "orders", named) is None) == (None, False)
    batch_write = "app@report@out"
    version = {transactional_id_for("p", batch_write, "7", 0, "run1", 3): "CompleteCommit"}
    refused = decided_elsewhere("p", batch_write, version)
    assert refused is not None
    assert refused.reason.startswith("batch write 'report' to topic 'out' has committed transactions")


def test_open_transactions_of_a_query_are_found_under_every_prefix_it_had() -> None:
    spark_id = "0f0a3a2e-1c8b-4d52-9a3a-6c4f0d9a1b11"
    worker = "0" * 32
    ids = [f"p.{spark_id}.run1.{worker}.0", f"q.{spark_id}.run1.{worker}.0", f"q.orders.run1.{worker}.0", "shop", "a.b"]
    assert [i for i in ids if is_of_query("p", spark_id, i)] == ids[:2]
    assert [i for i in ids if is_of_query("q", "orders", i)] == ids[2:3]
    assert [i for i in ids if is_of_query("p", "orders", i)] == []


def test_a_log_says_whether_it_decided_anything_of_a_query() -> None:
    log = DecisionLog()
    assert not log.known("q", "0").has_history
    log.apply(record_key("q", "0", VETO, "run1"), b"{}")
    assert not log.known("q", "0").has_history
    log.apply(record_key("q", "0", DECISION, "run2"), decision_value(BatchDecision("q", "0", "run2", ())))
    assert log.known("q", "0").has_history
    assert log.known("q", "1").has_history
    assert not log.known("other", "1").has_history


@pytest.mark.parametrize("version", ["\u00b2", "\u0663", "9" * 5000, "-1", "", "1.5"])
def test_a_version_that_python_does_not_read_as_a_number_is_a_word(version: str) -> None:
    """Its decision is in the topic for good: an error here would end every query that reads it."""
    query_id = batch_write_query_id("app", "t")
    log = DecisionLog()
    for each in (version, "5"):
        value = decision_value(BatchDecision(query_id, each, "run1", (A,)))
        log.apply(record_key(query_id, each, DECISION, "run1"), value)
    decided = [decision for decision, _ in log.decided(query_id)]
    assert [each.batch_id for each in decided] == [version, "5"]
    assert oldest_kept("q", [version, "5"]) == 5
    assert earlier_versions("p", decided[0], [A.transactional_id]) == []
    assert on_claim("q", None, None, version, ["5"]) is None
    assert not may_be_forgotten(decided[0], True, 10)


def test_an_id_with_digits_of_another_script_is_not_one_of_the_sinks() -> None:
    assert attempt_name("p", "p.q.0.\u00b2.run1.1") is None
    assert attempt_name("p", "p.q.0.1.run1.\u00b2") is None


def test_a_decision_says_when_its_batch_was_planned_where_that_is_known() -> None:
    for decision in (DECIDED, replace(DECIDED, planned_ms="1700000000000")):
        assert decision_from_value("q", "0", decision_value(decision)) == decision
    assert b"planned" not in decision_value(DECIDED), "as earlier versions wrote it"
