"""A task's transaction between its preparation and its decision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from oncelog import errors, sync
from oncelog.spark import writer
from oncelog.spark.backend import (
    PREPARED,
    RESUMED,
    TIMEOUT_MAX_KEY,
    Backend,
    ForgottenTransaction,
    TransactionEnded,
    choose_backend,
    complete,
    promote,
    task_producer,
)
from oncelog.spark.options import sink_options
from oncelog.spark.writer import write_attempt
from oncelog.testing import TestBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        yield broker


def test_a_delayed_copy_of_the_tasks_own_initialisation_does_not_abort_what_is_prepared(broker: TestBroker) -> None:
    """Found by `make model`: InitProducerId without keepPreparedTxn, sent again and late, aborts a prepared transaction."""
    client = {"bootstrap.servers": broker.bootstrap_servers}
    options = sink_options({**client, "topic": "late-init", "backend": PREPARED})
    backend = Backend(PREPARED)
    rows = iter([pa.RecordBatch.from_pydict({"value": pa.array([b"row"], pa.binary())})])
    attempt = write_attempt(options, backend, "late-init-0", rows)
    with task_producer(options.client, backend, attempt.transactional_id):
        pass  # the very request that began the task, arriving once more
    with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        complete(admin, options.client, attempt)
    with sync.Consumer(
        "late-init",
        bootstrap_servers=broker.bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    ) as consumer:
        assert [record.value for record in consumer.poll(timeout_ms=60_000)] == [b"row"]


TWO_PHASE_TIMEOUT_MS = 2**31 - 1
ROW = pa.RecordBatch.from_pydict({"value": pa.array([b"row"], pa.binary())})


def test_a_transaction_has_a_clock_until_its_task_has_flushed(broker: TestBroker) -> None:
    """A task that is killed in the middle held up readers until somebody abandoned its transaction."""
    options = sink_options({"bootstrap.servers": broker.bootstrap_servers, "topic": "clock", "backend": PREPARED})
    backend = choose_backend(options)
    timeouts: list[int] = []

    def batches(admin: sync.Admin) -> Iterator[pa.RecordBatch]:
        yield ROW
        while not timeouts:  # the first batch is on its way
            found = admin.list_transactions(states=["Ongoing"])
            timeouts.extend(
                admin.describe_transactions([each.transactional_id])[each.transactional_id].timeout_ms for each in found
            )
        yield ROW

    with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        attempt = write_attempt(options, backend, "clock-0", batches(admin))
        assert timeouts == [backend.timeout_ms]
        described = admin.describe_transactions(["clock-0"])["clock-0"]
        assert (described.state, described.timeout_ms) == ("Ongoing", TWO_PHASE_TIMEOUT_MS)
        for _ in range(2):
            complete(admin, options.client, attempt)
        assert admin.describe_transactions(["clock-0"])["clock-0"].state.endswith("Commit")


def test_a_task_that_took_too_long_says_so_and_leaves_nothing_open(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = sink_options({"bootstrap.servers": broker.bootstrap_servers, "topic": "slow", "backend": PREPARED})
    with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        stop = sync.Producer.stop

        def timed_out(producer: sync.Producer, timeout_ms: int | None = None) -> None:
            stop(producer, timeout_ms)
            admin.force_terminate_transaction("slow-0")

        monkeypatch.setattr(sync.Producer, "stop", timed_out)
        with pytest.raises(TransactionEnded, match="ended before it was prepared"):
            write_attempt(options, choose_backend(options), "slow-0", iter([ROW]))
        assert admin.list_transactions(states=["Ongoing"]) == []


@pytest.mark.parametrize("was_promoted", [False, True])
def test_a_task_that_cannot_be_prepared_leaves_nothing_open(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch, was_promoted: bool
) -> None:
    options = sink_options({"bootstrap.servers": broker.bootstrap_servers, "topic": "fails", "backend": PREPARED})

    def fails(*given: Any) -> str:
        if was_promoted:
            promote(*given)  # the broker did it, and its answer was lost
        raise errors.RequestTimedOut("planned")

    monkeypatch.setattr(writer, "promote", fails)
    with pytest.raises(errors.RequestTimedOut, match="planned"):
        write_attempt(options, choose_backend(options), f"fails-{was_promoted}", iter([ROW]))
    with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert admin.list_transactions(states=["Ongoing"]) == []


@pytest.mark.parametrize(("told", "timeout_ms"), [({TIMEOUT_MAX_KEY: "1000"}, 1000), ({}, 15 * 60 * 1000)])
def test_a_broker_that_does_not_tell_its_largest_timeout_has_kafkas(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch, told: dict[str, str], timeout_ms: int
) -> None:
    """A longer one would be refused (INVALID_TRANSACTION_TIMEOUT), a shorter one gives the driver less time."""
    monkeypatch.setattr(sync.Admin, "describe_broker_configs", lambda _: told)
    options = sink_options({"bootstrap.servers": broker.bootstrap_servers, "topic": "x"})
    assert choose_backend(options) == Backend(RESUMED, timeout_ms)


@pytest.mark.parametrize(
    ("kind", "likely"), [(PREPARED, "there unless somebody forced it to end"), (RESUMED, "committed, or timed out")]
)
def test_what_the_broker_has_forgotten_is_not_called_lost(kind: str, likely: str) -> None:
    """Its driver had committed it and died; a week later the records that are there were said to be gone."""
    with TestBroker() as fresh, sync.Admin(bootstrap_servers=fresh.bootstrap_servers) as admin:
        options = sink_options({"bootstrap.servers": fresh.bootstrap_servers, "topic": "old", "backend": kind})
        attempt = write_attempt(options, choose_backend(options), "old-0", iter([ROW]))
        complete(admin, options.client, attempt)
        while admin.list_transactions():  # the broker looks for expired ones now and then
            fresh.advance(8 * 24 * 60 * 60_000)
        with pytest.raises(ForgottenTransaction) as raised:
            complete(admin, options.client, attempt)
        assert str(raised.value).startswith("UNKNOWN: whether the 1 records of decided transaction old-0")
        assert likely in str(raised.value)
        assert "gone" not in str(raised.value)
        assert "look for them before anything is written again" in str(raised.value)
        complete(admin, options.client, attempt, lambda: True)
