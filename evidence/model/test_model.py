"""A short profile of `make model`: small limits, every kind of search, and defects that it has to find."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from evidence.model import clients, coordinator, leader
from evidence.model.search import explore
from evidence.model.states import Limits, Rules
from oncelog.core.leader import markers as marker_rules
from oncelog.core.leader.verdict import APPEND
from oncelog.core.transactions import end_txn as end_transaction
from oncelog.core.transactions import timeouts as transaction_expiry

TV1, TV2, TWO_PHASE = Rules(1), Rules(2), Rules(3, two_phase=True)


@pytest.fixture
def _fresh() -> Iterator[None]:
    """Steps are remembered by their arguments; a patched rule makes them wrong."""
    _forget()
    yield
    _forget()


def _forget() -> None:
    for step in (
        leader.produce,
        leader.marker,
        coordinator.synced,
        coordinator.crashed,
        coordinator.timed_out,
        coordinator.request,
        coordinator.written,
        clients.requests,
        clients.answered,
    ):
        step.cache_clear()


@pytest.mark.parametrize(
    ("rules", "limits"),
    [
        (TV1, Limits(5, 1, 0, 0)),
        (TV2, Limits(5, 0, 0, 0)),
        (TV2, Limits(4, 1, 0, 0)),
        (TV2, Limits(3, 1, 1, 0)),
        (TV2, Limits(4, 0, 0, 1)),
        (TWO_PHASE, Limits(5, 0, 0, 0)),
        (TWO_PHASE, Limits(4, 1, 1, 0)),
    ],
)
def test_nothing_is_found_within_small_limits(rules: Rules, limits: Limits) -> None:
    result = explore(rules, limits)
    assert (result.violation, result.story) == ("", [])
    assert result.is_complete
    assert result.last_states > 10


def test_the_same_search_counts_the_same_states() -> None:
    first, second = explore(TV2, Limits(4, 0, 0, 0)), explore(TV2, Limits(4, 0, 0, 0))
    assert (first.states, first.transitions) == (second.states, second.transitions)
    assert first.states > 1000


def test_two_phase_commit_begun_without_keep_is_torn_by_a_delayed_copy_of_its_first_request() -> None:
    result = explore(Rules(3, two_phase=True, always_keeps=False), Limits(4, 0, 0, 0))
    assert "its commit was promised" in result.violation
    assert any("send A0 init" in line for line in result.story)


@pytest.mark.usefixtures("_fresh")
def test_a_marker_of_the_transactions_own_epoch_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without KIP-890's bumped marker a delayed Produce opens a transaction that nobody ends."""
    monkeypatch.setattr(end_transaction, "marker_epoch_of", lambda transaction: transaction.producer_epoch)
    assert "S4" in explore(TV2, Limits(5, 1, 0, 0)).violation


@pytest.mark.usefixtures("_fresh")
def test_a_leader_that_takes_every_marker_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncelog.core.leader.partition.check_marker", lambda *_, **__: APPEND)
    monkeypatch.setattr(marker_rules, "check_marker", lambda *_, **__: APPEND)
    assert "S4" in explore(TV2, Limits(4, 0, 1, 0)).violation


@pytest.mark.usefixtures("_fresh")
def test_a_timeout_of_a_two_phase_transaction_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_expiry, "is_two_phase", lambda _: False)
    assert "S14" in explore(TWO_PHASE, Limits(3, 1, 0, 0)).violation
