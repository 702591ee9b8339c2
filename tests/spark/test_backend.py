"""A task's transaction between its preparation and its decision."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from oncelog import sync
from oncelog.spark.backend import PREPARED, RESUMED, TIMEOUT_MAX_KEY, Backend, choose_backend, complete, task_producer
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
    backend = Backend(PREPARED, None)
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


@pytest.mark.parametrize(("told", "timeout_ms"), [({TIMEOUT_MAX_KEY: "1000"}, 1000), ({}, 15 * 60 * 1000)])
def test_a_broker_that_does_not_tell_its_largest_timeout_has_kafkas(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch, told: dict[str, str], timeout_ms: int
) -> None:
    """A longer one would be refused (INVALID_TRANSACTION_TIMEOUT), a shorter one gives the driver less time."""
    monkeypatch.setattr(sync.Admin, "describe_broker_configs", lambda _: told)
    options = sink_options({"bootstrap.servers": broker.bootstrap_servers, "topic": "x"})
    assert choose_backend(options) == Backend(RESUMED, timeout_ms)
