"""The demo's job without Spark: the columns that it names are the flights'."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

from oncelog.demo import job


def test_the_totals_are_of_columns_that_a_flight_has(monkeypatch: pytest.MonkeyPatch) -> None:
    functions, frame = MagicMock(), MagicMock()
    functions.col.return_value.__gt__ = lambda *_: functions.condition
    monkeypatch.setattr(job, "f", functions)
    frame.select().select().groupBy().agg().collect.return_value = []
    job.add_totals(MagicMock(), frame, 0)
    columns = {each.split()[0] for each in job.FLIGHT.split(", ")}
    named = [call.args[0] for call in functions.col.call_args_list]
    assert named == ["value", "arr_delay"], "what is read, and what is summed"
    assert set(named) - {"value"} <= columns
    assert set(frame.select().select().groupBy.call_args.args) <= columns
