"""The dual write's decisions: the eight steps in order, what each failure leads to, and a world in which all of it happens."""

from __future__ import annotations

from typing import Any

import pytest
from evidence.world.wrong_dual_writes import (
    BelievesAFailedCommit,
    CommitsBeforeItsRecords,
    CompletesFirst,
    ReadsBeforeItFences,
    ReadsWithoutTakingOver,
)

from oncelog.core.two_phase import dual_write as core
from oncelog.core.two_phase.dual_write import DualWrite, Outcome, Phase, StoredState
from oncelog.errors import IllegalState
from oncelog.types import PreparedTxnState
from tests.core.two_phase.dual_write_model import run

NOTHING = PreparedTxnState()
MINE = PreparedTxnState("7:3")
OTHER = PreparedTxnState("7:9")


def answer(machine: DualWrite, *answers: tuple[type[Any], Any]) -> None:
    """Each effect must be the one named; an exception class as result lets it fail."""
    for kind, result in answers:
        effect = machine.next_effect()
        assert type(effect) is kind, (effect, kind)
        if result is IOError:
            machine.failed()
        elif result is TimeoutError:
            machine.failed(is_retriable=True)
        else:
            machine.succeeded(result)


def done(machine: DualWrite) -> None:
    assert machine.next_effect() is None


def ready(version: int = 1, kept: PreparedTxnState = NOTHING, stored: PreparedTxnState = NOTHING) -> DualWrite:
    machine = DualWrite()
    machine.recover()
    answer(
        machine,
        (core.RollbackDatabase, None),
        (core.TakeOver, version),
        (core.KeepTopic, kept),
        (core.ReadState, StoredState(version, stored)),
        (core.CompleteTopic, None),
    )
    done(machine)
    assert machine.phase is Phase.READY
    return machine


def writing() -> DualWrite:
    machine = ready()
    machine.begin()
    answer(machine, (core.BeginDatabase, None), (core.BeginTopic, None))
    done(machine)
    return machine


def asked_to_commit() -> DualWrite:
    machine = writing()
    machine.commit()
    answer(machine, (core.AnnounceState, MINE), (core.StoreState, True), (core.PrepareTopic, MINE))
    return machine


@pytest.mark.parametrize("is_decided", [False, True])
def test_whose_producer_was_stopped_keeps_with_another(is_decided: bool) -> None:
    machine = asked_to_commit() if is_decided else ready()
    if is_decided:
        not_completed = (core.CompleteTopic, TimeoutError)
        answer(machine, (core.CommitDatabase, None), not_completed, not_completed)
        done(machine)
        assert machine.phase is Phase.DECIDED
    machine.start_anew()
    machine.recover()
    stored = MINE if is_decided else NOTHING
    answer(
        machine,
        (core.RollbackDatabase, None),
        (core.TakeOver, 2),
        (core.KeepTopic, stored),
        (core.ReadState, StoredState(2, stored)),
        (core.CompleteTopic, None),
    )
    assert machine.phase is Phase.READY


def test_the_state_is_stored_while_records_travel_and_committed_when_they_have_arrived() -> None:
    machine = writing()
    machine.commit()
    answer(machine, (core.AnnounceState, MINE))
    assert machine.next_effect() == core.StoreState(StoredState(1, MINE))
    machine.succeeded(True)
    assert machine.next_effect() == core.PrepareTopic(MINE, core.HOLD_MS)
    machine.succeeded(MINE)
    answer(machine, (core.CommitDatabase, None))
    assert machine.outcome is Outcome.COMMITTED
    assert machine.next_effect() == core.CompleteTopic(MINE)
    machine.succeeded()
    done(machine)
    assert machine.phase is Phase.READY


def test_what_was_prepared_before_is_stored_and_committed() -> None:
    machine = writing()
    machine.prepare()
    assert machine.next_effect() == core.PrepareTopic()
    machine.succeeded(MINE)
    done(machine)
    assert machine.phase is Phase.PREPARED
    machine.commit()
    answer(machine, (core.StoreState, True), (core.CommitDatabase, None), (core.CompleteTopic, None))
    done(machine)
    assert machine.outcome is Outcome.COMMITTED


def test_where_nothing_can_be_announced_the_preparation_says_why() -> None:
    machine = writing()
    machine.commit()
    answer(machine, (core.AnnounceState, NOTHING))
    assert machine.next_effect() == core.PrepareTopic()
    machine.failed()
    answer(machine, (core.RollbackDatabase, None), (core.AbortTopic, None))
    assert machine.outcome is Outcome.ROLLED_BACK


def test_while_records_take_long_the_database_is_told_that_its_session_lives_and_not_for_ever() -> None:
    for _ in range(2):  # the second transaction counts anew
        machine = writing()
        machine.commit()
        answer(machine, (core.AnnounceState, MINE), (core.StoreState, True))
        for _ in range(core.HOLDS_MAX):
            assert machine.next_effect() == core.PrepareTopic(MINE, core.HOLD_MS)
            assert not machine.may_return
            machine.succeeded(None)
            answer(machine, (core.HoldDatabase, None))
        assert machine.next_effect() == core.PrepareTopic(MINE)
        machine.succeeded(MINE)
        answer(machine, (core.CommitDatabase, None), (core.CompleteTopic, None))
        done(machine)


def test_the_caller_waits_for_everything_but_the_completion_of_what_is_decided() -> None:
    machine = writing()
    machine.commit()
    for result in (MINE, True, MINE, None):
        assert machine.next_effect() is not None
        assert not machine.may_return
        machine.succeeded(result)
    assert not machine.may_return
    assert machine.next_effect() == core.CompleteTopic(MINE)
    assert machine.may_return
    with pytest.raises(IllegalState, match="decided"):
        machine.begin()
    with pytest.raises(AssertionError):
        machine.recover()
    machine.abandon()
    machine.succeeded()
    done(machine)
    assert (machine.phase, machine.outcome) == (Phase.READY, Outcome.COMMITTED)
    machine.begin()


def test_a_recovery_is_waited_for_to_its_end() -> None:
    machine = DualWrite()
    machine.recover()
    results: list[Any] = [None, 4, MINE, StoredState(4, MINE), None]
    for result in results:
        assert machine.next_effect() is not None
        assert not machine.may_return
        machine.succeeded(result)
    done(machine)


def test_recovery_takes_over_before_it_fences_and_fences_before_it_reads() -> None:
    machine = DualWrite()
    machine.recover()
    answer(machine, (core.RollbackDatabase, None))
    assert machine.next_effect() == core.TakeOver(None)
    machine.succeeded(4)
    answer(machine, (core.KeepTopic, MINE), (core.ReadState, StoredState(4, MINE)))
    assert machine.next_effect() == core.CompleteTopic(MINE)


def test_nothing_may_be_sent_after_prepare() -> None:
    machine = writing()
    machine.check_may_send()
    machine.prepare()
    answer(machine, (core.PrepareTopic, MINE))
    done(machine)
    with pytest.raises(IllegalState, match="send: this instance is prepared"):
        machine.check_may_send()
    machine.commit()
    assert machine.next_effect() == core.StoreState(StoredState(1, MINE))


@pytest.mark.parametrize("call", ["begin", "commit", "prepare"])
def test_calls_that_do_not_fit_are_refused(call: str) -> None:
    with pytest.raises(IllegalState, match="not recovered"):
        getattr(DualWrite(), call)()
    with pytest.raises(IllegalState, match="a transaction of this writer is open"):
        writing().recover()


def test_a_block_that_raises_writes_nothing() -> None:
    machine = writing()
    machine.abandon()
    answer(machine, (core.RollbackDatabase, None), (core.AbortTopic, None))
    done(machine)
    assert (machine.phase, machine.outcome) == (Phase.READY, Outcome.ROLLED_BACK)
    machine.abandon()
    done(machine)


@pytest.mark.parametrize("at", range(5))
def test_a_failure_before_the_commit_writes_nothing(at: int) -> None:
    machine = writing()
    machine.commit()
    steps = [(core.AnnounceState, MINE), (core.StoreState, True), (core.PrepareTopic, None), (core.HoldDatabase, None)]
    steps += [(core.PrepareTopic, MINE)]
    answer(machine, *steps[:at], (steps[at][0], IOError))
    answer(machine, (core.RollbackDatabase, IOError), (core.AbortTopic, None))
    done(machine)
    assert (machine.phase, machine.outcome) == (Phase.READY, Outcome.ROLLED_BACK)


@pytest.mark.parametrize(("stored", "outcome"), [(MINE, Outcome.COMMITTED), (NOTHING, Outcome.ROLLED_BACK)])
def test_an_unanswered_commit_is_read_after_the_version_was_raised(stored: PreparedTxnState, outcome: Outcome) -> None:
    machine = asked_to_commit()
    answer(machine, (core.CommitDatabase, IOError), (core.RollbackDatabase, None))
    assert machine.next_effect() == core.TakeOver(1)
    machine.succeeded(2)
    answer(machine, (core.ReadState, StoredState(2, stored)))
    assert machine.next_effect() == core.CompleteTopic(stored)
    machine.succeeded()
    done(machine)
    assert (machine.phase, machine.outcome, machine.instance_version) == (Phase.READY, outcome, 2)


def test_a_commit_that_certainly_failed_needs_no_reading() -> None:
    machine = asked_to_commit()
    assert isinstance(machine.next_effect(), core.CommitDatabase)
    machine.failed(is_definite=True)
    answer(machine, (core.RollbackDatabase, None), (core.AbortTopic, None))
    assert machine.outcome is Outcome.ROLLED_BACK


def test_while_the_database_cannot_be_asked_the_outcome_is_unknown() -> None:
    machine = asked_to_commit()
    answer(machine, (core.CommitDatabase, IOError), (core.RollbackDatabase, None), (core.TakeOver, IOError))
    done(machine)
    assert (machine.phase, machine.outcome) == (Phase.IN_DOUBT, Outcome.UNKNOWN)
    machine.recover()
    answer(machine, (core.RollbackDatabase, None))
    assert machine.next_effect() == core.TakeOver(None), "it may have been raised or not, by us or by another"
    machine.succeeded(9)
    answer(machine, (core.KeepTopic, MINE), (core.ReadState, StoredState(9, OTHER)), (core.CompleteTopic, None))
    assert machine.outcome is Outcome.ROLLED_BACK, "our transaction was still undecided"


def test_another_later_state_over_ours_stays_unknown() -> None:
    machine = asked_to_commit()
    answer(machine, (core.CommitDatabase, IOError), (core.RollbackDatabase, None), (core.TakeOver, IOError))
    machine.recover()
    answer(
        machine,
        (core.RollbackDatabase, None),
        (core.TakeOver, 9),
        (core.KeepTopic, NOTHING),
        (core.ReadState, StoredState(9, OTHER)),
        (core.CompleteTopic, None),
    )
    assert (machine.phase, machine.outcome) == (Phase.READY, Outcome.UNKNOWN)


def displaced(machine: DualWrite, by: int | type[OSError]) -> None:
    answer(
        machine,
        (core.AnnounceState, MINE),
        (core.StoreState, False),
        (core.RollbackDatabase, None),
        (core.ReadState, by if isinstance(by, type) else StoredState(by, NOTHING)),
    )


@pytest.mark.parametrize(("found", "expected"), [(0, None), (1, 1)])
def test_a_row_that_is_gone_is_no_newer_instance(found: int, expected: int | None) -> None:
    """Nobody else would abort what this one has prepared; and it goes on, behind a recovery that makes a new row. It is there
    again where it was deleted in this very transaction."""
    machine = writing()
    machine.commit()
    displaced(machine, by=found)
    answer(machine, (core.AbortTopic, None))
    done(machine)
    assert (machine.phase, machine.outcome, machine.row_version) == (Phase.UNRECOVERED, Outcome.ROLLED_BACK, found)
    machine.recover()
    answer(machine, (core.RollbackDatabase, None))
    assert machine.next_effect() == core.TakeOver(expected)
    assert machine.row_version is None


@pytest.mark.parametrize("ends", [None, IOError])
def test_a_row_that_was_put_back_fences_an_instance_which_aborts_what_it_prepared(ends: type[OSError] | None) -> None:
    machine = ready(version=5)
    machine.begin()
    answer(machine, (core.BeginDatabase, None), (core.BeginTopic, None))
    machine.commit()
    displaced(machine, by=3)
    answer(machine, (core.AbortTopic, ends))
    done(machine)
    assert (machine.phase, machine.outcome, machine.row_version) == (Phase.FENCED, Outcome.ROLLED_BACK, 3)


def test_where_nobody_can_say_who_has_the_row_recovery_comes_next() -> None:
    machine = writing()
    machine.commit()
    displaced(machine, by=IOError)
    done(machine)
    assert (machine.phase, machine.outcome, machine.row_version) == (Phase.UNRECOVERED, Outcome.ROLLED_BACK, None)


def test_a_newer_instance_ends_this_one_and_it_writes_nothing() -> None:
    machine = writing()
    machine.commit()
    displaced(machine, by=2)
    done(machine)
    assert (machine.phase, machine.outcome) == (Phase.FENCED, Outcome.ROLLED_BACK)
    for call in (machine.begin, machine.recover):
        with pytest.raises(IllegalState, match="newer instance"):
            call()


@pytest.mark.parametrize(("stored", "outcome"), [(MINE, Outcome.COMMITTED), (OTHER, Outcome.UNKNOWN)])
def test_a_fenced_instance_still_reads_what_became_of_its_commit(stored: PreparedTxnState, outcome: Outcome) -> None:
    machine = asked_to_commit()
    answer(
        machine,
        (core.CommitDatabase, IOError),
        (core.RollbackDatabase, None),
        (core.TakeOver, None),
        (core.ReadState, StoredState(5, stored)),
    )
    done(machine)
    assert (machine.phase, machine.outcome) == (Phase.FENCED, outcome)


def test_the_version_is_looked_at_again_when_the_state_is_read() -> None:
    machine = DualWrite()
    machine.recover()
    answer(
        machine,
        (core.RollbackDatabase, None),
        (core.TakeOver, 4),
        (core.KeepTopic, MINE),
        (core.ReadState, StoredState(5, OTHER)),
    )
    done(machine)
    assert machine.phase is Phase.FENCED, "it would have aborted what the newer instance has committed"


def test_a_completion_is_repeated_and_then_left_to_the_next_call() -> None:
    machine = asked_to_commit()
    answer(machine, (core.CommitDatabase, None))
    answer(machine, *[(core.CompleteTopic, TimeoutError)] * core.COMPLETE_ATTEMPTS_MAX)
    done(machine)
    assert (machine.phase, machine.outcome) == (Phase.DECIDED, Outcome.COMMITTED)
    machine.recover()
    answer(machine, (core.CompleteTopic, None))
    assert machine.phase is Phase.READY


def test_the_rightful_instance_that_was_fenced_on_the_topic_takes_its_place_back() -> None:
    """An operator, or an older instance that started late: the database's version says who it is."""
    machine = asked_to_commit()
    answer(machine, (core.CommitDatabase, None), (core.CompleteTopic, IOError))
    assert machine.next_effect() == core.TakeOver(1)
    machine.succeeded(2)
    answer(machine, (core.KeepTopic, MINE), (core.ReadState, StoredState(2, MINE)), (core.CompleteTopic, None))
    done(machine)
    assert (machine.phase, machine.outcome) == (Phase.READY, Outcome.COMMITTED)


def test_fenced_for_ever_by_somebody_it_gives_up() -> None:
    machine = asked_to_commit()
    answer(machine, (core.CommitDatabase, None), (core.CompleteTopic, IOError))
    for version in range(2, 2 + core.ROUNDS_MAX - 1):
        read = StoredState(version, MINE)
        answer(
            machine,
            (core.TakeOver, version),
            (core.KeepTopic, MINE),
            (core.ReadState, read),
            (core.CompleteTopic, IOError),
        )
    done(machine)
    assert machine.outcome is Outcome.COMMITTED
    assert machine.phase is not Phase.READY


@pytest.mark.parametrize("at", range(9))
def test_an_interrupt_at_any_effect_leaves_what_recovery_can_mend(at: int) -> None:
    machine = ready()
    machine.begin()
    effects = [
        (core.BeginDatabase, None),
        (core.BeginTopic, None),
        (core.AnnounceState, MINE),
        (core.StoreState, True),
        (core.PrepareTopic, None),
        (core.HoldDatabase, None),
        (core.PrepareTopic, MINE),
        (core.CommitDatabase, None),
        (core.CompleteTopic, None),
    ]
    answer(machine, *effects[: min(at, 2)])
    if at >= 2:
        done(machine)
        machine.commit()
        answer(machine, *effects[2:at])
    assert type(machine.next_effect()) is effects[at][0]
    machine.interrupted()
    done(machine)
    known = {7: Outcome.UNKNOWN, 8: Outcome.COMMITTED}
    assert machine.outcome is known.get(at, Outcome.ROLLED_BACK)
    machine.recover()
    if at == 8:
        answer(machine, (core.CompleteTopic, None))
    else:
        stored = StoredState(2, MINE if at == 7 else NOTHING)
        answer(
            machine,
            (core.RollbackDatabase, None),
            (core.TakeOver, 2),
            (core.KeepTopic, MINE),
            (core.ReadState, stored),
            (core.CompleteTopic, None),
        )
    assert machine.phase is Phase.READY
    assert machine.outcome is (Outcome.COMMITTED if at >= 7 else Outcome.ROLLED_BACK)


@pytest.mark.parametrize("was_raised", [False, True])
def test_a_take_over_that_is_interrupted_does_not_fence_its_own_instance(was_raised: bool) -> None:
    machine = ready()
    machine.begin()
    answer(machine, (core.BeginDatabase, None))
    machine.interrupted()
    machine.recover()
    answer(machine, (core.RollbackDatabase, None))
    assert machine.next_effect() == core.TakeOver(1)
    machine.interrupted()
    done(machine)
    machine.recover()
    answer(machine, (core.RollbackDatabase, None))
    assert machine.next_effect() == core.TakeOver(None), "it may have been raised, or not"
    version = 3 if was_raised else 2
    machine.succeeded(version)
    answer(machine, (core.KeepTopic, NOTHING), (core.ReadState, StoredState(version, NOTHING)))
    answer(machine, (core.CompleteTopic, None))
    assert machine.phase is Phase.READY


SEEDS = 3000
WRONG = [
    CommitsBeforeItsRecords,
    CompletesFirst,
    ReadsWithoutTakingOver,
    ReadsBeforeItFences,
    BelievesAFailedCommit,
]


def test_in_a_world_where_everything_goes_wrong_rows_and_records_are_the_same() -> None:
    found = {seed: problems for seed in range(SEEDS) if (problems := run(seed))}
    assert not found


@pytest.mark.parametrize("wrong", WRONG)
def test_each_rule_is_needed(wrong: type[DualWrite]) -> None:
    assert any(run(seed, wrong) for seed in range(10 * SEEDS))
