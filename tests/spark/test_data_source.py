"""What a writer refuses when it is planned: before a task has run, for a batch and for a stream."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from oncelog import sync
from oncelog.core.two_phase import exactly_once_sink as sink
from oncelog.errors import ConfigurationError
from oncelog.host.recently_used import RecentlyUsed
from oncelog.spark import data_source, writer
from oncelog.spark.backend import Backend, choose_backend
from oncelog.spark.data_source import DefaultSource
from oncelog.spark.kept_admins import close_admins
from oncelog.spark.options import SinkOptions, sink_options
from oncelog.spark.writer import BatchWriter
from oncelog.testing import FaultyProxy, TestBroker

SERVER = {"topic": "t", "backend": "prepared"}
VALUE = StructType([StructField("value", StringType())])
WRONG = StructType([StructField("value", LongType())])


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with TestBroker() as broker:
        yield broker.bootstrap_servers


@pytest.mark.parametrize("kind", ["writer", "streamWriter"])
def test_a_wrong_column_is_refused_before_anything_is_written(kind: str, bootstrap: str) -> None:
    own = {"checkpointLocation": "c"} if kind == "streamWriter" else {}
    source = DefaultSource({**SERVER, "kafka.bootstrap.servers": bootstrap, **own})
    with pytest.raises(ConfigurationError, match="column 'value' is bigint"):
        getattr(source, kind)(WRONG, False)
    assert getattr(source, kind)(VALUE, False)


@pytest.mark.parametrize("kind", ["reader", "streamReader"])
def test_a_schema_that_promises_no_null_is_refused(kind: str) -> None:
    """Arrow's own words in the first task, of types that were the same."""
    source = DefaultSource({"subscribe": "t", "kafka.bootstrap.servers": "127.0.0.1:1"})
    promised = [StructField("key", BinaryType(), nullable=False), StructField("value", BinaryType(), nullable=True)]
    with pytest.raises(
        ConfigurationError, match="the schema says NOT NULL of key: a read gives columns that may be null"
    ):
        getattr(source, kind)(StructType(promised))
    assert getattr(source, kind)(StructType(promised[1:]))


@pytest.mark.parametrize(("application_id", "version"), [("a.b", "1"), ("a", "1.0"), ("a.b", "1.0")])
def test_a_name_with_a_dot_is_refused(application_id: str, version: str) -> None:
    """The parts of a transactional id are told apart by dots."""
    options = sink_options(
        {**SERVER, "kafka.bootstrap.servers": "h:1", "txnAppId": application_id, "txnVersion": version}
    )
    with pytest.raises(ConfigurationError, match="no dots"):
        BatchWriter(options, Backend("prepared", None), "run")


@pytest.mark.parametrize(
    ("more", "asked"),
    [
        ({}, []),
        ({"txnAppId": "a", "txnVersion": "1"}, [("app@a@t", "1"), ("app-a", "1")]),
    ],
)
def test_a_decision_is_looked_for_only_where_a_job_may_be_submitted_again(
    more: dict[str, str], asked: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look reads every decision: a job without txnAppId is a new one, which nobody has decided. With it the driver looks
    once, under today's name and an earlier version's. A task looks behind its preparation, which may have come too late."""
    looked: list[tuple[str, str]] = []

    class Store:
        def known(self, query_id: str, batch_id: str) -> sink.KnownRecords:
            looked.append((query_id, batch_id))
            return sink.KnownRecords(None, frozenset(), False, False)

        def decided(self, _: str) -> list[tuple[sink.BatchDecision, bool]]:
            return []

    class Context:
        @classmethod
        def get(cls) -> Context:
            return cls()

        def partitionId(self) -> int:
            return 0

        taskAttemptId = partitionId  # noqa: N815

    written = sink.Attempt("id", "1:0", 1)
    monkeypatch.setattr(writer, "TaskContext", Context)
    monkeypatch.setattr(writer, "decision_store", lambda _: Store())
    monkeypatch.setattr(writer, "write_attempt", lambda *_: written)
    options = sink_options({**SERVER, "kafka.bootstrap.servers": "h:1", **more})
    resumed, prepared = (BatchWriter(options, Backend(kind, 1000), "run") for kind in ("resumed", "prepared"))
    assert looked == asked * 2
    for job in (resumed, prepared):
        looked.clear()
        assert job.write(iter(())).attempt == written
        assert looked == [(job._query_id, job._batch_id)]


def test_each_choice_of_a_backend_is_made_once_and_by_itself(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark plans a writer for every micro-batch: the broker is asked once, and no query gets another's backend."""
    asked: list[str] = []

    def choose(options: SinkOptions, *kept: sync.Admin) -> Backend:
        asked.append(options.backend)
        return choose_backend(options, *kept)

    monkeypatch.setattr(data_source, "_backends", RecentlyUsed(256))
    monkeypatch.setattr(data_source, "choose_backend", choose)
    found = [
        DefaultSource({**SERVER, "backend": backend, "kafka.bootstrap.servers": bootstrap, "checkpointLocation": "c"})
        .streamWriter(VALUE, False)
        ._backend.kind
        for backend in ("prepared", "resumed", "prepared", "resumed")
    ]
    assert (found, asked) == (["prepared", "resumed", "prepared", "resumed"], ["prepared", "resumed"])


def test_a_query_that_starts_later_asks_what_the_broker_can_do_now(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that plans outlives queries: after two-phase commit was switched off each new start failed in its tasks."""
    now_s = [1000.0]
    monkeypatch.setattr(data_source, "_backends", RecentlyUsed(256))
    monkeypatch.setattr(data_source, "time", SimpleNamespace(monotonic=lambda: now_s[0]))

    def planned(bootstrap: str) -> str:
        options = {"topic": "t", "kafka.bootstrap.servers": bootstrap, "checkpointLocation": "c"}
        return str(DefaultSource(options).streamWriter(VALUE, False)._backend.kind)

    with FaultyProxy(bootstrap) as proxy:
        assert planned(proxy.bootstrap_servers) == "prepared"
        proxy.report_feature("transaction.version", 2)
        assert planned(proxy.bootstrap_servers) == "prepared", "while a query runs nothing is asked for each batch"
        now_s[0] += data_source.BACKEND_KEPT_S
        close_admins()  # the broker was started again
        assert planned(proxy.bootstrap_servers) == "resumed"
        close_admins()


@pytest.mark.parametrize("kind", ["writer", "streamWriter"])
@pytest.mark.parametrize(
    ("decisions", "refused"),
    [
        ({"decisionTopic": "a b"}, "decisionTopic 'a b'"),
        ({"decisionUrl": "foo://bar"}, "decisionUrl"),
        ({"decisionUrl": "sqlite:////nowhere/to/be/found.db"}, "decisionUrl: unable to open database file"),
    ],
)
def test_a_store_that_cannot_be_had_is_refused_before_anything_is_written(
    kind: str, decisions: dict[str, str], refused: str, bootstrap: str
) -> None:
    """Found at the commit, it left the tasks' transactions open, and abort could not end them either."""
    own = {"checkpointLocation": "c"} if kind == "streamWriter" else {}
    source = DefaultSource({**SERVER, "kafka.bootstrap.servers": bootstrap, **own, **decisions})
    with pytest.raises(ConfigurationError, match=refused):
        getattr(source, kind)(VALUE, False)


def test_a_process_of_many_queries_remembers_so_many_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each query, topic and set of options had an entry for as long as the process lived."""
    planned: RecentlyUsed[bool] = RecentlyUsed(data_source.TARGETS_MAX)
    monkeypatch.setattr(data_source, "_planned", planned)
    monkeypatch.setattr(data_source, "_backend", lambda _: Backend("prepared"))
    monkeypatch.setattr(data_source, "_look_at_the_target", lambda _: None)

    def looks_first(number: int) -> bool:
        options = {**SERVER, "bootstrap.servers": "localhost:1", "checkpointLocation": f"/checkpoints/{number}"}
        return DefaultSource(options).streamWriter(VALUE, overwrite=False)._looks_first

    assert [looks_first(0), looks_first(0)] == [True, False]
    assert all(looks_first(number) for number in range(1, 300))
    assert len(planned) == data_source.TARGETS_MAX
    assert not looks_first(299)
    assert looks_first(0), "one that was forgotten looks once more"


def test_a_column_in_other_letters_is_known_for_what_it_was_meant(bootstrap: str) -> None:
    meant = StructType([StructField("Key", BinaryType()), StructField("value", BinaryType())])
    with pytest.raises(
        ConfigurationError, match=r"column 'Key' has no meaning here; known are .*: did you mean 'key'\?"
    ):
        DefaultSource({**SERVER, "bootstrap.servers": bootstrap}).writer(meant, overwrite=False)
