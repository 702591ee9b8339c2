"""The upgrade drill, short: old and new clients write while transaction.version goes up to 3 and back to 2."""

from __future__ import annotations

import pathlib

import pytest

from evidence.upgrade.drill import PREPARED_ID, drill_oncelog

pytestmark = pytest.mark.slow


def test_levels_change_under_load(tmp_path: pathlib.Path) -> None:
    drilled = drill_oncelog(tmp_path, 0.2, kinds=("tv2", "tv1", "confluent", "aiokafka", "copy"))
    assert drilled.levels == [0, 1, 2, 3, 2]
    assert drilled.verdict.is_good, drilled.verdict.problems
    assert not drilled.errors, "no client is told of it"
    assert PREPARED_ID in drilled.refused, "the downgrade names the transaction that is in its way"
    assert min(drilled.transactions.values()) > 0
    assert " 0 lost, 0 duplicated, 0 aborted visible, 0 torn, 0 open, errors of clients: none" in drilled.summary()
