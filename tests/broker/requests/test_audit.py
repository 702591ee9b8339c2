"""The audit log: one JSON object a line whatever names say, and so many of them."""

from __future__ import annotations

import asyncio
import json
import logging

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncelog.broker.network.log_budget import LogBudget
from oncelog.broker.requests import audit as module
from oncelog.broker.requests.audit import ADDRESSES_MAX, FAILURES_MAX, OTHERS, Audit


def lines(caplog):
    return [json.loads(record.getMessage()) for record in caplog.records if record.name == "oncelog.audit"]


def in_loop(work):
    async def run():
        work()

    asyncio.run(run())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text())
def test_no_name_forges_a_line(caplog, name):
    caplog.set_level(logging.INFO, "oncelog.audit")
    caplog.clear()
    in_loop(lambda: Audit(LogBudget(lambda: 10), lambda: 7).said("login", "::1", principal=name))
    (record,) = caplog.records
    assert record.getMessage().isascii()
    assert record.getMessage().isprintable()
    assert lines(caplog) == [{"time_ms": 7, "event": "login", "address": "::1", "principal": name[:256]}]


def test_what_guessers_do_is_counted(caplog, monkeypatch):
    caplog.set_level(logging.INFO, "oncelog.audit")

    def work():
        audit = Audit(LogBudget(lambda: 1_000), lambda: 0)
        for _ in range(FAILURES_MAX + 5):
            audit.failed("login failed", "10.0.0.1")
        audit.failed("login failed", "10.0.0.2")
        monkeypatch.setattr(module, "WINDOW_S", 0.0)
        audit.failed("login failed", "10.0.0.1")

    in_loop(work)
    said = lines(caplog)
    assert len(said) == FAILURES_MAX + 3
    assert said[-2] == {"time_ms": 0, "event": "failures not shown", "address": "", "count": 5, "addresses": 1}


def test_addresses_are_bounded(caplog):
    caplog.set_level(logging.INFO, "oncelog.audit")

    def work():
        audit = Audit(LogBudget(lambda: 10), lambda: 0)
        for number in range(ADDRESSES_MAX + 100):
            audit.failed("login failed", str(number))
        assert len(audit._failures) == ADDRESSES_MAX + 1
        assert audit._failures[OTHERS] == 100

    in_loop(work)
    assert len(lines(caplog)) == 10, "the log's own bound"


def test_nothing_is_made_where_nobody_listens():
    logging.getLogger("oncelog.audit").setLevel(logging.WARNING)
    try:
        Audit(LogBudget(lambda: 10), lambda: 0).said("login", "::1")  # outside of a loop
    finally:
        logging.getLogger("oncelog.audit").setLevel(logging.NOTSET)
