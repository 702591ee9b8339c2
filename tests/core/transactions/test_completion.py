"""Markers' answers (KIP-98): what completes, what is sent again, what is stale."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog.core.decision import NOTHING, Decision, MarkersToWrite
from oncelog.core.transactions.coordinator import MarkerResult
from oncelog.core.transactions.transaction import TransactionState as S
from oncelog.errors import ErrorCode as E
from tests.core.transactions.performed_coordinator import P, Q, Shell


def prepared(commit: bool = True) -> tuple[Shell, MarkersToWrite]:
    shell = Shell()
    shell.put(S.ONGOING, partitions=frozenset({P, Q}))
    (markers,) = shell.end(10, 5, commit=commit).markers
    return shell, markers


def written(shell: Shell, markers: MarkersToWrite, *codes: E) -> Decision:
    results = {partition: MarkerResult(code) for partition, code in zip((P, Q), codes, strict=False)}
    return shell.coordinator.markers_written(markers, results, 1)


@pytest.mark.parametrize(("commit", "state"), [(True, S.COMPLETE_COMMIT), (False, S.COMPLETE_ABORT)])
def test_complete_when_every_partition_has_its_marker(commit: bool, state: S) -> None:
    shell, markers = prepared(commit)
    assert written(shell, markers, E.NONE) == NOTHING
    shell.perform(shell.coordinator.markers_written(markers, {Q: MarkerResult()}, 1))
    assert (shell.pay.state, shell.pay.producer_epoch, shell.pay.partitions) == (state, 6, frozenset())


@pytest.mark.parametrize(
    "error_code",
    [
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.NOT_LEADER_OR_FOLLOWER,
        E.NOT_ENOUGH_REPLICAS,
        E.REQUEST_TIMED_OUT,
        E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        E.KAFKA_STORAGE_ERROR,
        E.COORDINATOR_LOAD_IN_PROGRESS,
        E.UNKNOWN_SERVER_ERROR,
        E.CORRUPT_MESSAGE,
        E.MESSAGE_TOO_LARGE,
        E.CLUSTER_AUTHORIZATION_FAILED,
    ],
)
def test_what_is_not_a_success_is_sent_again(error_code: E) -> None:
    """Apache Kafka stops with a fatal illegal state on some of these; a marker has to arrive."""
    shell, markers = prepared()
    (again,) = written(shell, markers, E.NONE, error_code).markers
    assert again == replace(markers, partitions=frozenset({Q}))
    assert written(shell, again, E.NONE, E.NONE).records


@pytest.mark.parametrize(
    "error_code", [E.INVALID_PRODUCER_EPOCH, E.UNSUPPORTED_FOR_MESSAGE_FORMAT, E.UNSUPPORTED_VERSION]
)
def test_what_needs_no_marker_is_done(error_code: E) -> None:
    """INVALID_PRODUCER_EPOCH: in Apache Kafka the id stays undecided until the coordinator is loaded again (gap 1)."""
    shell, markers = prepared()
    (record,) = written(shell, markers, error_code, E.NONE).records
    assert record.state is S.COMPLETE_COMMIT


def test_a_higher_coordinator_epoch_is_met_with_it() -> None:
    """Gap 1 again: an operator's marker carried a coordinator epoch above ours."""
    shell, markers = prepared()
    results = {P: MarkerResult(E.TRANSACTION_COORDINATOR_FENCED, 9), Q: MarkerResult(E.TRANSACTION_COORDINATOR_FENCED)}
    unknown, known = shell.coordinator.markers_written(markers, results, 1).markers
    assert (unknown.partitions, unknown.coordinator_epoch) == (frozenset({Q}), 1)
    assert (known.partitions, known.coordinator_epoch) == (frozenset({P}), 9)
    assert shell.coordinator.table.coordinator_epoch == 1


def test_an_answer_counts_once() -> None:
    shell, markers = prepared()
    complete = shell.perform(written(shell, markers, E.NONE, E.NONE))
    assert complete.records
    assert written(shell, markers, E.NONE, E.NONE) == NOTHING


def test_while_the_complete_record_waits_nothing_is_decided_twice() -> None:
    shell, markers = prepared()
    shell.coordinator.appended(written(shell, markers, E.NONE, E.NONE).records)
    assert written(shell, markers, E.NONE, E.NONE) == NOTHING


def test_a_late_answer_does_not_complete_the_next_transaction() -> None:
    """KAFKA-16352: with old clients both have the same id, epoch and partitions."""
    shell = Shell()
    shell.put(S.ONGOING)
    (first,) = shell.end(10, 5, commit=True, version=4).markers
    shell.write_markers()
    shell.add(10, 5, P, version=3)
    (second,) = shell.end(10, 5, commit=True, version=4).markers
    assert first == second
    assert written(shell, first, E.NONE) == NOTHING
    assert written(shell, second, E.NONE).records


def test_a_restart_sends_all_again_with_its_own_coordinator_epoch() -> None:
    shell, markers = prepared()
    written(shell, markers, E.NONE)
    again = shell.restarted()
    assert written(again, markers, E.NONE, E.NONE) == NOTHING, "an answer to the coordinator before"
    (resent,) = again.markers
    assert resent.partitions == {P, Q}
    again.write_markers()
    assert again.pay.state is S.COMPLETE_COMMIT


def test_a_decided_transaction_without_partitions_is_completed_at_the_start() -> None:
    """Apache Kafka's log may end between the two records of an empty abort."""
    shell = Shell()
    shell.put(S.PREPARE_ABORT, partitions=frozenset(), next_producer_id=11, next_producer_epoch=0)
    (decision,) = shell.coordinator.pending_completions(1)
    shell.perform(decision)
    assert (shell.pay.state, shell.pay.producer_id, shell.pay.producer_epoch) == (S.COMPLETE_ABORT, 11, 0)
