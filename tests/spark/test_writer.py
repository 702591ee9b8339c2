"""Batch writes and streams without a JVM: what a driver and its tasks do with one version of a write."""

from __future__ import annotations

import itertools
import pathlib
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from evidence.world.committed import committed_values

from oncelog import errors, sync
from oncelog.core.two_phase import exactly_once_sink as sink
from oncelog.core.two_phase.transactional_ids import leased_name
from oncelog.spark import committer, writer
from oncelog.spark.backend import choose_backend
from oncelog.spark.committer import CommitRefused, Committer
from oncelog.spark.decision_store import decision_store
from oncelog.spark.options import sink_options
from oncelog.spark.recovery import recover
from oncelog.spark.writer import BatchWriter, StreamWriter
from oncelog.testing import TestBroker
from tests.spark.fakes import FakeContext


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        yield broker


@pytest.fixture(autouse=True)
def context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer.TaskContext, "get", FakeContext)


def rows(*values: bytes, topics: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    columns: dict[str, Any] = {"value": pa.array(list(values), pa.binary())}
    return iter([pa.RecordBatch.from_pydict(columns | ({"topic": topics} if topics else {}))])


def planned(broker: TestBroker, **options: str) -> BatchWriter:
    """As `df.write.format("oncelog")` plans it on the driver."""
    given = sink_options({"bootstrap.servers": broker.bootstrap_servers, **options})
    return BatchWriter(given, choose_backend(given), uuid.uuid4().hex)


def write(broker: TestBroker, *values: bytes, topics: list[str] | None = None, **options: str) -> None:
    """A whole batch write of one task."""
    made = planned(broker, **options)
    made.commit([made.write(rows(*values, topics=topics))])


def visible(broker: TestBroker, topic: str) -> list[bytes]:
    with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        if topic not in admin.list_topics():
            return []
    return committed_values(broker.bootstrap_servers, topic)


def test_one_version_goes_to_two_topics(broker: TestBroker) -> None:
    """Delta's idiom in foreachBatch: the second topic got nothing, without an error."""
    for _ in range(2):  # and a batch that runs again changes neither
        for topic in ("two-a", "two-b"):
            write(broker, b"1", b"2", topic=topic, txnAppId="two.topics".replace(".", "-"), txnVersion="7")
    assert (visible(broker, "two-a"), visible(broker, "two-b")) == ([b"1", b"2"], [b"1", b"2"])


def test_one_version_goes_to_two_clusters_that_share_a_database(broker: TestBroker, tmp_path: pathlib.Path) -> None:
    url = f"sqlite:///{tmp_path / 'decisions.db'}"
    with TestBroker() as other:
        for each in (broker, other, broker):
            write(each, b"1", topic="clusters", txnAppId="clusters", txnVersion="1", decisionUrl=url)
        assert (visible(broker, "clusters"), visible(other, "clusters")) == ([b"1"], [b"1"])
        decision_store(sink_options({"bootstrap.servers": broker.bootstrap_servers, "decisionUrl": url})).close()


def test_a_second_write_of_a_version_to_topics_that_it_never_wrote_to_is_refused(broker: TestBroker) -> None:
    """Topics of a column are known only from the rows: what would be taken for written and is not fails loudly."""
    version = {"txnAppId": "by-column", "txnVersion": "1"}
    write(broker, b"1", b"2", topics=["column-a", "column-b"], **version)
    write(broker, b"1", topics=["column-b"], **version)
    with pytest.raises(
        CommitRefused, match="was written before, to column-a, column-b, and these rows are for column-c"
    ):
        write(broker, b"3", topics=["column-c"], **version)
    found = {topic: visible(broker, topic) for topic in ("column-a", "column-b", "column-c")}
    assert found == {"column-a": [b"1"], "column-b": [b"2"], "column-c": []}


def test_a_write_that_was_decided_beside_it_for_other_topics_is_refused(broker: TestBroker) -> None:
    version = {"txnAppId": "beside", "txnVersion": "1"}
    late, later = planned(broker, **version), planned(broker, **version)
    message = late.write(rows(b"late", topics=["beside-b"]))
    write(broker, b"first", topics=["beside-a"], **version)
    for job, told in ((late, message), (later, later.write(rows(b"later", topics=["beside-b"])))):
        with pytest.raises(CommitRefused, match="these rows are for beside-b"):
            job.commit([told])
    assert (visible(broker, "beside-a"), visible(broker, "beside-b")) == ([b"first"], [])


def test_a_version_that_is_not_written_again_is_told_in_the_log(
    broker: TestBroker, caplog: pytest.LogCaptureFixture
) -> None:
    for value in (b"first", b"second"):
        assert "was written before" not in caplog.text
        write(broker, value, topic="told", txnAppId="skipped", txnVersion="7")

    assert "txnVersion 7 of txnAppId 'skipped' was written before, to told: nothing is written now" in caplog.text
    assert visible(broker, "told") == [b"first"]


@pytest.mark.parametrize("topic", ["old-a", "old-b"])
def test_a_version_that_an_earlier_oncelog_decided_is_not_written_again(broker: TestBroker, topic: str) -> None:
    """Its decision does not say where the rows went: it stands for every destination."""
    options = sink_options({"bootstrap.servers": broker.bootstrap_servers, "topic": topic})
    old_id = "app-upgraded"  # as oncelog named it without the destination
    store = decision_store(options)
    if store.known(old_id, "3").decision is None:
        name = sink.transactional_id_for("oncelog-spark", old_id, "3", 0, "old-run", 1)
        attempt = writer.write_attempt(options, choose_backend(options), name, rows(b"old"))
        store.decide(sink.BatchDecision(old_id, "3", "old-run", (attempt,)))  # and its driver died
    write(broker, b"new", topic=topic, txnAppId="upgraded", txnVersion="3")
    write(broker, b"next", topic=topic, txnAppId="upgraded", txnVersion="4")
    write(broker, b"backfill", topic=topic, txnAppId="upgraded", txnVersion="2")
    assert [value for value in visible(broker, topic) if value != b"old"] == [b"next", b"backfill"]
    assert store.known(old_id, "3").is_done


def test_a_backfill_is_written_once_whatever_came_since(broker: TestBroker) -> None:
    """A version was refused where a later one was decided, and only after everything had been written."""
    for version in ("5", "3", "4", "3", "5"):
        write(broker, version.encode(), topic="backfill", txnAppId="backfill", txnVersion=version)
    assert visible(broker, "backfill") == [b"5", b"3", b"4"]


def test_a_backfill_that_is_being_written_is_not_taken_for_an_orphan(broker: TestBroker) -> None:
    early = planned(broker, topic="beneath", txnAppId="beneath", txnVersion="1")
    message = early.write(rows(b"1"))
    write(broker, b"2", topic="beneath", txnAppId="beneath", txnVersion="2")
    early.commit([message])
    assert sorted(visible(broker, "beneath")) == [b"1", b"2"]


def test_a_version_that_is_too_old_to_be_remembered_is_refused_before_it_is_written(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(sink, "VERSIONS_KEPT", 2)
    for number, where in enumerate(({}, {"decisionUrl": f"sqlite:///{tmp_path / 'd.db'}"})):
        name = {"topic": f"too-old-{number}", "txnAppId": "too-old", **where}
        for version in ("1", "5", "6"):
            write(broker, version.encode(), txnVersion=version, **name)
        for version in ("1", "4"):  # the one was written and is forgotten, the other never was: nobody knows any more
            with pytest.raises(CommitRefused, match="nothing is written"):
                planned(broker, txnVersion=version, **name)
        write(broker, b"5", txnVersion="5", **name)
        assert visible(broker, f"too-old-{number}") == [b"1", b"5", b"6"]
        kept = decision_store(sink_options({"bootstrap.servers": broker.bootstrap_servers, **where})).decided(
            sink.batch_write_query_id("too-old", f"too-old-{number}", choose_backend_id(broker) if where else "")
        )
        assert [decision.batch_id for decision, _ in kept] == ["5", "6"], "nothing grows without a bound"


def choose_backend_id(broker: TestBroker) -> str:
    with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        return admin.describe_cluster().cluster_id


def test_a_version_whose_transactional_ids_expired_is_still_written(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After transactional.id.expiration.ms the broker knows no winner any more; what is done is not completed again."""
    version = {"topic": "expired", "txnAppId": "expired", "txnVersion": "1"}
    write(broker, b"1", **version)

    def expired(*_: object, **__: object) -> None:
        raise errors.InvalidPidMapping("expired")

    monkeypatch.setattr(sync.Admin, "end_transaction", expired)
    write(broker, b"1", **version)
    planned(broker, **version).abort([])
    assert visible(broker, "expired") == [b"1"]


def test_a_stream_that_is_behind_is_refused_before_it_writes(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = sink_options({"bootstrap.servers": broker.bootstrap_servers, "topic": "behind"})
    backend, store = choose_backend(options), decision_store(options)
    with Committer(options, store) as committer:
        committer.commit("behind", "5", "run", [], backend)
    of_batch_4 = FakeContext(
        **{"sql.streaming.queryId": "behind", "streaming.sql.batchId": "4", "spark.jobGroup.id": "late"}
    )
    monkeypatch.setattr(writer.TaskContext, "get", lambda: of_batch_4)
    with pytest.raises(CommitRefused, match="another driver of this query is ahead"):
        StreamWriter(options, backend, looks_first=True).write(rows(b"late"))


@pytest.mark.parametrize(("name", "value"), [("txnAppId", "a.b"), ("txnVersion", "1.2")])
def test_dots_are_refused_where_they_part_the_id(broker: TestBroker, name: str, value: str) -> None:
    with pytest.raises(errors.ConfigurationError, match="have no dots"):
        planned(broker, **{"topic": "x", "txnAppId": "a", "txnVersion": "1", name: value})


def test_a_version_that_the_database_could_not_keep_is_refused_before_it_is_written(
    broker: TestBroker, tmp_path: pathlib.Path
) -> None:
    """PostgreSQL refused the decision and the veto, and what was prepared stayed open for good."""
    name = {"topic": "long-version", "txnAppId": "long-version"}
    with pytest.raises(
        errors.ConfigurationError, match="txnVersion has 41 characters, and a database of decisions keeps 40"
    ):
        planned(broker, **name, txnVersion="v" * 41, decisionUrl="postgresql+psycopg://nobody@127.0.0.1:1/d")
    write(broker, b"topic", **name, txnVersion="v" * 41)
    write(broker, b"sqlite", **name, txnVersion="v" * 41, decisionUrl=f"sqlite:///{tmp_path / 'd.db'}")
    assert visible(broker, "long-version") == [b"topic", b"sqlite"]


@pytest.mark.parametrize("where", ["topic", "database", "legacy"])
def test_a_version_that_was_written_is_not_written_again_in_another_spelling(
    broker: TestBroker, tmp_path: pathlib.Path, where: str
) -> None:
    """A job whose scheduler began to pad its numbers wrote its rows a second time."""
    name = {"topic": f"spelt-{where}", "txnAppId": f"spelt-{where}"}
    if where == "database":
        name["decisionUrl"] = f"sqlite:///{tmp_path / 'd.db'}"
    if where == "legacy":
        store = decision_store(sink_options({"bootstrap.servers": broker.bootstrap_servers, **name, "txnVersion": "1"}))
        legacy_id = sink.legacy_batch_write_query_id(name["txnAppId"])
        store.decide(sink.BatchDecision(legacy_id, "1", "old-run", ()))
        store.decide(sink.BatchDecision(legacy_id, "002", "old-run", ()))
    else:
        for version in ("1", "002"):
            write(broker, version.encode(), **name, txnVersion=version)
    before = visible(broker, name["topic"])
    for version in ("01", "+1", " 1 ", "2", "0002"):
        with pytest.raises(CommitRefused, match=r"is the same number as '(1|002)', which was written before"):
            planned(broker, **name, txnVersion=version)
    for version in ("1", "002"):
        write(broker, b"again", **name, txnVersion=version)
    assert visible(broker, name["topic"]) == before
    write(broker, b"next", **name, txnVersion="0003")
    write(broker, b"a text", **name, txnVersion="1a")
    assert visible(broker, name["topic"]) == [*before, b"next", b"a text"]


def in_a_batch(monkeypatch: pytest.MonkeyPatch, query_id: str, batch_id: str, run_id: str) -> None:
    """As a task of a stream."""
    told = {"sql.streaming.queryId": query_id, "streaming.sql.batchId": batch_id, "spark.jobGroup.id": run_id}
    monkeypatch.setattr(writer.TaskContext, "get", lambda: FakeContext(**told))


@pytest.mark.parametrize("batch_id", ["0", "1"])
def test_a_task_that_comes_after_its_batch_ends_itself(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch, batch_id: str
) -> None:
    """*prepared*: of an executor that Spark had lost. It had no clock any more, and held up all readers for good."""
    query_id = f"zombie-{batch_id}"
    options = sink_options({"bootstrap.servers": broker.bootstrap_servers, "topic": query_id})
    stream = StreamWriter(options, choose_backend(options), looks_first=False)
    for each in range(int(batch_id) + 1):  # in the second case its batch is forgotten, too
        in_a_batch(monkeypatch, query_id, str(each), "run-1")
        stream.commit([stream.write(rows(b"winner"))], each)
    in_a_batch(monkeypatch, query_id, "0", "run-1")
    monkeypatch.setattr(writer, "_ids", {})  # another process
    if batch_id == "0":
        assert stream.write(rows(b"zombie")).attempt.is_empty
    else:
        with pytest.raises(CommitRefused, match="was decided and forgotten long ago"):
            stream.write(rows(b"zombie"))
    assert open_transactions(broker, query_id) == []
    assert visible(broker, query_id) == [b"winner"] * (int(batch_id) + 1)


@pytest.mark.parametrize("where", ["decisionTopic", "decisionUrl"])
def test_transactions_say_where_they_are_decided(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, where: str
) -> None:
    """Whoever looks somewhere else would take what is decided for undecided."""
    place = "home-decisions" if where == "decisionTopic" else f"sqlite:///{tmp_path / 'home.db'}"
    given = {"topic": "home", where: place}
    options = sink_options({"bootstrap.servers": broker.bootstrap_servers, **given})
    home = decision_store(options).home
    in_a_batch(monkeypatch, "home", "0", "run-1")
    stream = StreamWriter(options, choose_backend(options), looks_first=True)
    for job in (stream, planned(broker, **given, txnAppId="home", txnVersion="1"), planned(broker, **given)):
        transactional_id = job.write(rows(b"1")).attempt.transactional_id
        name = leased_name("oncelog-spark", transactional_id) or sink.attempt_name("oncelog-spark", transactional_id)
        assert name is not None
        assert name.decision_home == home
        with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.force_terminate_transaction(transactional_id)


def test_a_batch_that_was_decided_is_read_to_its_end(broker: TestBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stateful query's state is committed by Spark where the last row is taken: the next batch did not find it."""
    options = sink_options({"bootstrap.servers": broker.bootstrap_servers, "topic": "state"})
    backend = choose_backend(options)
    in_a_batch(monkeypatch, "state", "0", "run-1")
    first = StreamWriter(options, backend, looks_first=True)
    first.commit([first.write(rows(b"a"))], 0)
    in_a_batch(monkeypatch, "state", "0", "run-2")
    again = itertools.chain(rows(b"a"), rows(b"b"))
    assert StreamWriter(options, backend, looks_first=True).write(again).attempt.is_empty
    assert list(again) == []

    version = {"topic": "state", "txnAppId": "state", "txnVersion": "0"}  # in foreachBatch
    write(broker, b"a", **version)
    again = itertools.chain(rows(b"a"), rows(b"b"))
    assert planned(broker, **version).write(again).attempt.is_empty
    assert list(again) == []


def plan(checkpoint: pathlib.Path, batch_id: int, at_ms: int) -> None:
    """As Spark writes it down before the batch runs."""
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    head = f'{{"batchWatermarkMs":0,"batchTimestampMs":{at_ms},"conf":{{}}}}'
    (checkpoint / "offsets" / str(batch_id)).write_text(f"v1\n{head}\n{{}}")


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_a_batch_that_is_planned_anew_is_not_taken_for_written(
    broker: TestBroker, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """A checkpoint that was restored, or whose end a power cut took: what was read since was lost in silence."""
    name = f"planned-{len(scheme)}"
    given = {"topic": name, "checkpointLocation": f"{scheme}{tmp_path}"}
    options = sink_options({"bootstrap.servers": broker.bootstrap_servers, **given})

    def run(run_id: str, *values: bytes) -> None:
        in_a_batch(monkeypatch, name, "0", run_id)
        stream = StreamWriter(options, choose_backend(options), looks_first=True)
        stream.commit([stream.write(rows(*values))], 0)

    plan(tmp_path, 0, 1_700_000_000_000)
    run("run-1", b"a")
    run("run-2", b"a")  # the driver died before Spark noted that it was done
    plan(tmp_path, 0, 1_700_000_600_000)
    with pytest.raises(CommitRefused, match=r"planned at 2023-11-14T22:13:20.*planned it anew at 2023-11-14T22:23:20"):
        run("run-3", b"a", b"lost")
    (tmp_path / "offsets" / "0").unlink()  # as where the checkpoint lies in an object store: nobody can tell
    run("run-4", b"a")
    assert visible(broker, name) == [b"a"]


def test_of_two_copies_of_a_checkpoint_the_later_one_is_refused(
    broker: TestBroker, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both were at this batch when the first one decided it."""
    told = []
    for number in (0, 1):
        plan(tmp_path / str(number), 0, 1_700_000_000_000 + number)
        given = {"topic": "copies", "checkpointLocation": str(tmp_path / str(number))}
        options = sink_options({"bootstrap.servers": broker.bootstrap_servers, **given})
        in_a_batch(monkeypatch, "copies", "0", f"{number}-run")
        stream = StreamWriter(options, choose_backend(options), looks_first=True)
        told.append((stream, stream.write(rows(b"%d" % number))))
    told[0][0].commit([told[0][1]], 0)
    with pytest.raises(CommitRefused, match="planned it anew"):
        told[1][0].commit([told[1][1]], 0)
    told[1][0].abort([told[1][1]], 0)
    assert (visible(broker, "copies"), open_transactions(broker, "copies")) == ([b"0"], [])


def test_a_task_of_a_run_that_was_given_up_ends_itself(broker: TestBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    options = sink_options({"bootstrap.servers": broker.bootstrap_servers, "topic": "given-up"})
    stream = StreamWriter(options, choose_backend(options), looks_first=False)
    in_a_batch(monkeypatch, "given-up", "0", "run-1")
    first = stream.write(rows(b"a"))
    stream.abort([first], 0)
    with pytest.raises(CommitRefused, match="was vetoed"):
        stream.write(rows(b"zombie"))
    assert open_transactions(broker, "given-up") == []


def test_a_batch_writes_task_that_comes_too_late_ends_itself(broker: TestBroker) -> None:
    version = {"topic": "late-task", "txnAppId": "late-task", "txnVersion": "1"}
    job = planned(broker, **version)
    message = job.write(rows(b"winner"))
    job.commit([message])
    assert job.write(rows(b"zombie")).attempt.is_empty
    assert (open_transactions(broker, "app@late-task"), visible(broker, "late-task")) == ([], [b"winner"])


def test_a_winner_is_told_as_it_is_however_late_it_looks(broker: TestBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decided between its preparation and its look: by a driver that heard of it in another way."""
    options = sink_options({"bootstrap.servers": broker.bootstrap_servers, "topic": "in-time"})
    backend = choose_backend(options)
    in_a_batch(monkeypatch, "in-time", "0", "run-1")
    attempt = writer.write_attempt(options, backend, writer.leased_id(options, "in-time", "run-1", "0", ""), rows(b"a"))
    decision_store(options).decide(sink.BatchDecision("in-time", "0", "run-1", (attempt,)))
    assert writer._report(options, "in-time", "0", "run-1", attempt).attempt == attempt
    assert open_transactions(broker, "in-time") == [attempt.transactional_id]


def open_transactions(broker: TestBroker, start: str = "") -> list[str]:
    with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        listed = admin.list_transactions(states=["Ongoing"])
    return [each.transactional_id for each in listed if each.transactional_id.startswith(f"oncelog-spark.{start}")]


@pytest.mark.parametrize("backend", ["prepared", "resumed"])
def test_the_next_version_ends_what_a_killed_job_left(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    """A job that takes the time as its version never comes back for the one that was killed."""
    name = {"topic": f"killed-{backend}", "txnAppId": f"killed-{backend}", "backend": backend}
    killed = planned(broker, txnVersion="1", **name)
    message = killed.write(rows(b"killed"))
    whose = f"app@killed-{backend}@"
    write(broker, b"2", txnVersion="2", **name)
    assert len(open_transactions(broker, whose)) == 1, "it may be alive"
    monkeypatch.setattr(committer, "STALE_MS", 0)
    write(broker, b"3", txnVersion="3", **name)
    assert open_transactions(broker, whose) == []
    with pytest.raises(CommitRefused, match="was vetoed"):
        killed.commit([message])  # it was alive after all: it fails, and nothing is lost
    write(broker, b"1", txnVersion="1", **name)
    assert visible(broker, name["topic"]) == [b"2", b"3", b"1"]


def test_what_was_decided_is_completed_however_old_it_is(broker: TestBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its driver died behind the decision: the next version's sweep does not take it for left."""
    monkeypatch.setattr(committer, "STALE_MS", 0)
    name = {"topic": "decided-old", "txnAppId": "decided-old"}
    first = planned(broker, txnVersion="1", **name)
    message = first.write(rows(b"1"))
    options = sink_options({"bootstrap.servers": broker.bootstrap_servers, **name, "txnVersion": "1"})
    query_id = sink.batch_write_query_id("decided-old", "decided-old")
    decision_store(options).decide(sink.BatchDecision(query_id, "1", "run", (message.attempt,)))
    write(broker, b"2", txnVersion="2", **name)
    write(broker, b"1", txnVersion="1", **name)
    assert sorted(visible(broker, "decided-old")) == [b"1", b"2"]


@pytest.mark.parametrize(("backend", "has_clock"), [("auto", True), ("prepared", False), ("resumed", True)])
def test_a_write_that_nobody_submits_again_keeps_its_clock(broker: TestBroker, backend: str, has_clock: bool) -> None:
    """Without txnAppId nobody comes back for what a killed job left: it times out, unless the user wants it otherwise."""
    job = planned(broker, topic="anonymous", backend=backend)
    name = job.write(rows(b"1")).attempt.transactional_id
    with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        described = admin.describe_transactions([name])[name]
        assert (described.timeout_ms == 900_000, described.timeout_ms == 2**31 - 1) == (has_clock, not has_clock)
        admin.force_terminate_transaction(name)


def test_a_long_job_is_told_what_it_needs(broker: TestBroker) -> None:
    job = planned(broker, topic="long", completionMarginMs="900000")
    with pytest.raises(CommitRefused, match="a long job needs txnAppId and txnVersion"):
        job.commit([job.write(rows(b"1"))])
    job.abort([])
    assert open_transactions(broker, "job-") == []


def test_recover_commits_the_rest_of_a_job_whose_driver_died_while_it_committed(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without txnAppId nobody else comes back for it; until its clock ends it the rest of its rows can be had."""
    job = planned(broker, topic="half")
    told = [job.write(rows(value)) for value in (b"1", b"2", b"3")]
    complete, calls = committer.complete, itertools.count()

    def dies(*given: Any) -> None:
        if next(calls):
            raise KeyboardInterrupt
        complete(*given)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(committer, "complete", dies)
        job.commit(told)
    assert len(open_transactions(broker, "job-")) == 2
    report = recover(sink_options({"bootstrap.servers": broker.bootstrap_servers}), job._query_id)
    assert (len(report.completed), report.lost, report.undecided) == (3, [], [])
    assert visible(broker, "half") == [b"1", b"2", b"3"]


def test_recover_knows_batch_writes_by_the_names_that_their_users_gave(broker: TestBroker) -> None:
    left = {}
    for number, application in enumerate(("nightly", "nightly-2")):
        job = planned(broker, topic=f"recover.{number}", txnAppId=application, txnVersion="7")
        left[application] = job.write(rows(b"1")).attempt.transactional_id
    options = sink_options({"bootstrap.servers": broker.bootstrap_servers})
    report = recover(options, "nightly")
    assert report.undecided == [left["nightly"]]
    assert report.undecided_jobs == ["version 7 of batch write 'nightly' to topic 'recover.0'"]
    assert recover(options, "nightly", abandon=True).abandoned == [left["nightly"]]
    assert open_transactions(broker, "app@nightly") == [left["nightly-2"]]
    job = planned(broker, topic="recover.1", txnAppId="nightly-2", txnVersion="7")
    job.commit([job.write(rows(b"again"))])
    assert open_transactions(broker, "app@nightly") == [], "submitted again, it settles what was left"
    assert visible(broker, "recover.1") == [b"again"]


NAMED = {"txnAppId": "failed", "txnVersion": "1"}


@pytest.mark.parametrize("step", ["start", "begin_transaction", "send_arrow", "flush", "detach_transaction", "stop"])
@pytest.mark.parametrize("given", [{}, {"backend": "resumed", **NAMED}, {"backend": "prepared", **NAMED}])
def test_a_job_that_fails_leaves_nothing_of_a_sibling_that_spark_kills(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch, step: str, given: dict[str, str]
) -> None:
    """Spark tells the driver of the failed task at once, and kills its siblings a little later: what one of them opened in
    between held up all readers for 15 minutes. Here the abort comes before one of its steps, the kill when it has flushed."""
    topic = f"siblings-{step}-{given.get('backend')}"
    with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics({topic: 1})
    job = planned(broker, topic=topic, **given)
    stop = sync.Producer.stop
    left: list[list[str]] = []
    calls = itertools.count()

    def behind_the_abort(*arguments: Any) -> Any:
        if next(calls) == 0:
            job.abort([])
        return original(*arguments)

    def killed(producer: sync.Producer) -> None:
        producer.flush()
        raise KeyboardInterrupt

    def when_it_is_dead(producer: sync.Producer, *more: Any) -> None:
        left.append(open_transactions(broker, job._query_id))
        stop(producer, *more)

    with monkeypatch.context() as patch, pytest.raises((KeyboardInterrupt, errors.KafkaError, CommitRefused)):
        patch.setattr(sync.Producer, "detach_transaction", killed)
        patch.setattr(sync.Producer, "stop", when_it_is_dead)
        original = getattr(sync.Producer, step)
        patch.setattr(sync.Producer, step, behind_the_abort)
        job.write(rows(b"never"))
    assert left == [[]]
    write(broker, b"again", topic=topic, **given)
    assert visible(broker, topic) == [b"again"]


@pytest.mark.parametrize("given", [{}, {"backend": "resumed", **NAMED}])
def test_a_task_of_a_failed_job_that_lives_on_ends_itself(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
) -> None:
    """Its look came before the abort, and what the driver listed is older than its id."""
    job = planned(broker, topic=f"lives-on-{len(given)}", **given)
    monkeypatch.setattr(writer, "_refuse_a_run_that_is_over", lambda *_: None)
    job.abort([])
    with pytest.raises(CommitRefused, match="was vetoed"):
        job.write(rows(b"late"))
    assert open_transactions(broker, job._query_id) == []


@pytest.mark.parametrize("step", ["start", "promote"])
def test_a_refused_id_is_answered_with_a_rule_for_all_of_the_query(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The first request needs *write*, the promotion *two-phase-commit*, too: a rule for the first alone would help little."""

    def refused(*_: Any) -> Any:
        raise errors.TransactionalIdAuthorization(
            "refused; User:bob needs the right to write transactional id 'x': oncelog acls"
        )

    job = planned(broker, topic=f"refused-{step}", backend="prepared", **NAMED)
    monkeypatch.setattr(*((writer, "promote") if step == "promote" else (sync.Producer, "start")), refused)
    rule = "--transactional-id oncelog-spark --prefixed --principal User:bob --operation write --operation two-phase-commit$"
    with pytest.raises(errors.TransactionalIdAuthorization, match=rule):
        job.write(rows(b"never"))
