"""A short day: its counts, and that growth is noticed."""

from __future__ import annotations

import pytest
from bench.servers import oncelog

from evidence.spark_ids.__main__ import Day, run
from oncelog.core.two_phase.transactional_ids import TransactionalIds


def test_twelve_batches_leave_what_two_leave(capsys: pytest.CaptureFixture[str]) -> None:
    with oncelog(transaction_two_phase_commit_enable="true") as broker:
        day = Day(broker, "prepared")
        try:
            moments, wrong = run(day, 12)
            assert (moments[-1].transactional_ids, moments[-1].decisions, wrong) == (3, 1, [])
            day.run_id = "another"
            day.workers = [TransactionalIds(f"{worker:032x}") for worker in range(2)]  # as if ids were not used again
            assert day.left(12).transactional_ids == 3
            day.run(12)
            assert day.left(13).transactional_ids == 5
        finally:
            day.close()
    assert "12 batches: 3 transactional ids" in capsys.readouterr().err
