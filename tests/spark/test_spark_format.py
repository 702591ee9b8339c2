"""Format `oncelog` in Spark itself: one JVM for the file (about half a minute). Kills are in `make spark-kills`."""

from __future__ import annotations

import concurrent.futures
import json
import pathlib
import sqlite3
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from evidence.world.committed import committed_values, wait_for_markers

from oncelog import TopicPartition, sync
from oncelog.spark.java import NoJava, prepare_java
from oncelog.testing import TestBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        yield broker


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Where the session leaves what Spark's history server shows."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="module")
def spark(events: pathlib.Path) -> Iterator[SparkSession]:
    try:
        prepare_java()
    except NoJava as error:
        pytest.skip(str(error))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark's own deprecations are not ours to mend
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]")
        for key, value in {
            "spark.ui.enabled": "false",
            "spark.log.level": "OFF",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": events.as_uri(),
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.session.timeZone": "UTC",
            # A few hundred rows: what the second compiler, code made for a plan, and threads that collect would save later
            # is not earned here; they took half of the file's CPU time. `make spark-kills` has Spark as it comes.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        }.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    yield session
    session.stop()


def fill(broker: TestBroker, topic: str, count: int) -> None:
    """`count` committed records, and aborted ones between them."""
    with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics({topic: 2})
    with sync.Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id=f"fill-{topic}") as producer:
        for begin in range(0, count, 50):
            with producer.transaction():
                for i in range(begin, min(begin + 50, count)):
                    producer.send(
                        topic,
                        b"%d" % i,
                        key=b"k%d" % (i % 5),
                        headers=[("n", b"%d" % i)],
                        timestamp_ms=1_700_000_000_000 + i,
                    )
            producer.begin_transaction()
            producer.send(topic, b"aborted")
            producer.flush()
            producer.abort_transaction()
    wait_for_markers(broker.bootstrap_servers)


def source(spark: SparkSession, broker: TestBroker, topic: str, **options: Any) -> DataFrame:
    reader = (
        spark.read.format("oncelog").option("bootstrap.servers", broker.bootstrap_servers).option("subscribe", topic)
    )
    return reader.options(**options).load()


def stream(spark: SparkSession, broker: TestBroker, topic: str, **options: Any) -> DataFrame:
    reader = spark.readStream.format("oncelog").option("bootstrap.servers", broker.bootstrap_servers)
    return reader.option("subscribe", topic).option("startingOffsets", "earliest").options(**options).load()


def copy(frame: DataFrame, broker: TestBroker, topic: str, checkpoint: pathlib.Path, **options: str) -> Any:
    writer = (
        frame.select("key", "value").writeStream.format("oncelog").option("bootstrap.servers", broker.bootstrap_servers)
    )
    query = writer.option("topic", topic).option("checkpointLocation", str(checkpoint)).options(**options)
    running = query.trigger(availableNow=True).start()
    running.awaitTermination()
    return running


def values(broker: TestBroker, topic: str) -> list[bytes]:
    return committed_values(broker.bootstrap_servers, topic)


def test_a_batch_read_has_the_columns_of_sparks_kafka_source(spark: SparkSession, broker: TestBroker) -> None:
    fill(broker, "columns", 100)
    frame = source(spark, broker, "columns", includeHeaders="true")
    assert frame.dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    rows = sorted(frame.collect(), key=lambda row: int(row.value))
    assert [bytes(row.value) for row in rows] == [b"%d" % i for i in range(100)]
    assert (bytes(rows[7].key), rows[7].topic, rows[7].timestampType) == (b"k2", "columns", 0)
    assert (rows[7].headers[0].key, bytes(rows[7].headers[0].value)) == ("n", b"7")
    assert int(rows[7].timestamp.timestamp() * 1000) == 1_700_000_000_007


def test_offsets_bound_a_batch_read(spark: SparkSession, broker: TestBroker) -> None:
    fill(broker, "bounded", 100)
    offsets = {(row.partition, row.offset) for row in source(spark, broker, "bounded").collect()}
    part = {(p, o) for p, o in offsets if p == 0 and 5 <= o < 20}
    frame = source(
        spark,
        broker,
        "bounded",
        startingOffsets=json.dumps({"bounded": {"0": 5, "1": 0}}),
        endingOffsets=json.dumps({"bounded": {"0": 20, "1": 0}}),
        minPartitions="3",
    )
    assert {(row.partition, row.offset) for row in frame.collect()} == part


def test_a_read_past_the_logs_start_is_data_loss(spark: SparkSession, broker: TestBroker) -> None:
    fill(broker, "deleted", 100)
    with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition("deleted", 0): 10})
    start = json.dumps({"deleted": {"0": 0, "1": 0}})
    with pytest.raises(Exception, match="the log starts at 10"):
        source(spark, broker, "deleted", startingOffsets=start).collect()
    rows = source(spark, broker, "deleted", startingOffsets=start, failOnDataLoss="false").collect()
    assert min(row.offset for row in rows if row.partition == 0) >= 10


def test_a_stream_copies_exactly_once_and_a_repeated_batch_changes_nothing(
    spark: SparkSession, broker: TestBroker, tmp_path: pathlib.Path
) -> None:
    fill(broker, "in", 400)
    query = copy(stream(spark, broker, "in", maxOffsetsPerTrigger="60"), broker, "out", tmp_path / "c")
    batch_count = len([p for p in query.recentProgress if p["numInputRows"]])
    assert batch_count >= 6
    with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        ids = [t for t in admin.list_transactions() if str(query.id) in t.transactional_id]
    assert len(ids) < batch_count, "of two tasks a batch; ids are used again"
    assert sorted(values(broker, "out"), key=int) == [b"%d" % i for i in range(400)]
    commits = tmp_path / "c" / "commits"
    last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink()  # as if the driver had died before it could note the last batch
    copy(stream(spark, broker, "in", maxOffsetsPerTrigger="150"), broker, "out", tmp_path / "c")
    assert sorted(values(broker, "out"), key=int) == [b"%d" % i for i in range(400)]


def test_an_open_transaction_bounds_the_stream(spark: SparkSession, broker: TestBroker, tmp_path: pathlib.Path) -> None:
    fill(broker, "held", 50)
    with sync.Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="holder") as producer:
        producer.begin_transaction()
        for partition in range(2):
            producer.send("held", b"1000", partition=partition)
        producer.flush()
        copy(stream(spark, broker, "held"), broker, "held-out", tmp_path / "c")
        assert len(values(broker, "held-out")) == 50
        producer.commit_transaction()
    wait_for_markers(broker.bootstrap_servers)
    copy(stream(spark, broker, "held"), broker, "held-out", tmp_path / "c")
    assert sorted(values(broker, "held-out"), key=int)[-2:] == [b"1000", b"1000"]
    assert len(values(broker, "held-out")) == 52


def test_a_batch_write_with_a_version_is_written_once(spark: SparkSession, broker: TestBroker) -> None:
    with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics({"once": 2})
    frame = spark.range(30).selectExpr("cast(id as string) as value", "'once' as topic")
    for _ in range(2):
        writer = frame.write.format("oncelog").mode("append").option("bootstrap.servers", broker.bootstrap_servers)
        writer.option("txnAppId", "report").option("txnVersion", "7").save()
    assert sorted(values(broker, "once"), key=int) == [b"%d" % i for i in range(30)]


def test_one_version_of_a_micro_batch_goes_to_two_topics(
    spark: SparkSession, broker: TestBroker, tmp_path: pathlib.Path
) -> None:
    """Delta's idiom: the second topic got nothing, without an error."""
    fill(broker, "two-in", 50)
    with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics(dict.fromkeys(("two-a", "two-b"), 2))

    def write(frame: DataFrame, batch_id: int) -> None:
        for topic in ("two-a", "two-b"):
            writer = frame.select("value").write.format("oncelog").mode("append").option("topic", topic)
            version = {"txnAppId": "two", "txnVersion": str(batch_id)}
            writer.option("bootstrap.servers", broker.bootstrap_servers).options(**version).save()

    query = stream(spark, broker, "two-in").writeStream.foreachBatch(write)
    query.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start().awaitTermination()
    found = [sorted(values(broker, topic), key=int) for topic in ("two-a", "two-b")]
    assert found == [[b"%d" % i for i in range(50)]] * 2


def test_a_wrong_option_or_column_fails_before_anything_is_written(spark: SparkSession, broker: TestBroker) -> None:
    def write(frame: DataFrame, **options: str) -> None:
        writer = frame.write.format("oncelog").mode("append").option("bootstrap.servers", broker.bootstrap_servers)
        writer.options(**options).save()

    good = spark.sql("select '1' as value")
    with pytest.raises(Exception, match="did you mean 'topic'"):
        write(good, topics="wrong")
    with pytest.raises(Exception, match="column 'id' has no meaning"):
        write(spark.range(1), topic="wrong")
    with pytest.raises(Exception, match="option 'topic' or a column"):
        write(good)
    with pytest.raises(Exception, match="one of the options 'subscribe'"):
        spark.read.format("oncelog").option("bootstrap.servers", broker.bootstrap_servers).load().collect()
    with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert "wrong" not in admin.list_topics()


def test_a_write_from_another_thread_finds_the_format(spark: SparkSession, broker: TestBroker) -> None:
    from oncelog.spark import activate

    with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics({"threads": 1})

    def write() -> None:
        activate(spark)
        writer = spark.sql("select '1' as value").write.format("oncelog").mode("append")
        writer.option("bootstrap.servers", broker.bootstrap_servers).option("topic", "threads").save()

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(write).result()
    assert values(broker, "threads") == [b"1"]


def test_options_of_producers_headers_and_columns_change_what_is_written_and_read(
    spark: SparkSession, broker: TestBroker
) -> None:
    with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics({"optional": 2})
    rows = spark.sql(
        "select 'k' as key, 'v' as value, 1 as partition, array(named_struct('key', 'h', 'value', binary('x'))) as headers"
    )
    writer = rows.write.format("oncelog").mode("append").option("bootstrap.servers", broker.bootstrap_servers)
    given = {"topic": "optional", "includeHeaders": "true", "kafka.compression.type": "gzip", "kafka.acks": "all"}
    writer.options(**given).save()
    by_time = {"startingOffsetsByTimestampStrategy": "latest"}  # partition 0 has no record
    read = source(spark, broker, "optional", columns="headers,partition,value", startingTimestamp="0", **by_time)
    assert read.columns == ["headers", "partition", "value"]
    row = read.collect()[0]
    assert (row.headers[0].key, bytes(row.headers[0].value), row.partition, bytes(row.value)) == ("h", b"x", 1, b"v")
    reader = spark.read.format("oncelog").option("bootstrap.servers", broker.bootstrap_servers)
    by_schema = reader.option("subscribePattern", "opt.*l").schema("value binary, offset bigint").load()
    assert by_schema.collect()[0].asDict() == {"value": bytearray(b"v"), "offset": 0}
    with pytest.raises(Exception, match="the schema has a column value string"):
        reader.schema("value string").load().collect()


def test_each_trigger_of_spark_reads_a_topic_to_its_end(
    spark: SparkSession, broker: TestBroker, tmp_path: pathlib.Path
) -> None:
    fill(broker, "triggered", 20)
    seen: list[bytes] = []
    for number, trigger in enumerate(({"once": True}, {"availableNow": True}, {"processingTime": "0 seconds"})):
        frame = stream(spark, broker, "triggered", minOffsetsPerTrigger="1000").select("value")
        query = (
            frame.writeStream.foreachBatch(lambda rows, _: seen.extend(bytes(row.value) for row in rows.collect()))
            .option("checkpointLocation", str(tmp_path / f"{number}"))
            .trigger(**trigger)  # type: ignore[arg-type]
            .start()
        )
        if "processingTime" in trigger:
            query.processAllAvailable()
            query.stop()
        query.awaitTermination()
        assert sorted(seen, key=int) == [b"%d" % i for i in range(20)]
        seen.clear()


def test_a_dual_write_puts_rows_and_records_together_once(
    spark: SparkSession, broker: TestBroker, tmp_path: pathlib.Path
) -> None:
    import sqlalchemy as sa

    from oncelog.spark import dual_write

    fill(broker, "dual", 120)
    database = tmp_path / "dual.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE sums (batch INTEGER, total INTEGER)")
    fails = [True]

    def add(connection: sa.Connection, frame: DataFrame, batch_id: int) -> None:
        total = sum(int(row.value) for row in frame.collect())
        connection.execute(sa.text("INSERT INTO sums VALUES (:b, :t)"), {"b": batch_id, "t": total})
        if fails and batch_id == 1:
            fails.clear()
            raise RuntimeError("planned: the database says no, once")

    write = dual_write(
        query_id="dual",
        database_url=f"sqlite:///{database}",
        to_records=lambda frame: frame.select("key", "value"),
        to_database=add,
        options={"bootstrap.servers": broker.bootstrap_servers, "topic": "dual-out"},
    )

    def run(checkpoint: str = "c") -> None:
        frame = stream(spark, broker, "dual", maxOffsetsPerTrigger="60")
        query = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / checkpoint))
        query.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(Exception, match="the database says no"):
        run()
    with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert admin.list_transactions(states=["Ongoing"]) == [], "a failure holds up no reader"
    run()
    assert sorted(values(broker, "dual-out"), key=int) == [b"%d" % i for i in range(120)]
    with sqlite3.connect(database) as connection:
        assert connection.execute("SELECT sum(total) FROM sums").fetchone() == (sum(range(120)),)
    owner = json.loads((tmp_path / "c" / "metadata").read_text())["id"]
    with pytest.raises(Exception, match=f"belongs to the Spark query {owner}"):
        run("another-checkpoint")


def test_progress_has_the_numbers_of_source_and_sink(
    spark: SparkSession, broker: TestBroker, tmp_path: pathlib.Path
) -> None:
    from oncelog.spark import ProgressListener

    fill(broker, "seen", 50)
    listener = ProgressListener({"bootstrap.servers": broker.bootstrap_servers})
    spark.streams.addListener(listener)
    try:
        with sync.Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="seen-holder") as producer:
            producer.begin_transaction()
            producer.send("seen", b"1000", partition=0)
            producer.flush()
            query = copy(stream(spark, broker, "seen"), broker, "seen-out", tmp_path / "c")
            assert listener.wait_for_the_end(str(query.runId))
            producer.abort_transaction()
    finally:
        spark.streams.removeListener(listener)
        listener.close()
    found = next(each["oncelog"] for each in listener.reports if each["id"] == str(query.id) and each["numInputRows"])
    assert (found["sink"]["rows"], found["sink"]["transactionsCompleted"]) == (50, found["sink"]["transactionsOpened"])
    assert found["sink"]["bytes"] == sum(len(b"%d" % i) + len(b"k0") for i in range(50))
    source_part = found["sources"][0]
    assert (source_part["behindLastStableOffset"], source_part["behindLatest"]) == (0, 1)
    assert [(each["partition"], each["transactionalId"]) for each in source_part["blocked"]] == [
        ("seen-0", "seen-holder")
    ]


def test_a_mistake_is_one_line_behind_sparks_words(spark: SparkSession, broker: TestBroker) -> None:
    """Of a plan and of a task: no frames, neither of Python nor of Java."""
    writer = spark.sql("select '1' as value, cast(null as string) as topic").write.format("oncelog").mode("append")
    writer = writer.option("bootstrap.servers", broker.bootstrap_servers)
    for make in (writer.save, writer.option("topics", "wrong").save):
        with pytest.raises(Exception, match="ConfigurationError: ") as told:
            make()
        lines = [line for line in str(told.value).splitlines() if "SQLSTATE" not in line]
        assert len(lines) <= 2, lines


def test_a_temporary_view_is_read_and_written_by_sql(spark: SparkSession, broker: TestBroker) -> None:
    fill(broker, "sql-in", 20)
    with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics({"sql-out": 1})
    servers = f"'bootstrap.servers' '{broker.bootstrap_servers}'"
    spark.sql(f"CREATE TEMPORARY VIEW sql_in USING oncelog OPTIONS ({servers}, subscribe 'sql-in')")
    spark.sql(f"CREATE TEMPORARY VIEW sql_out (value BINARY) USING oncelog OPTIONS ({servers}, topic 'sql-out')")
    spark.sql("INSERT INTO sql_out SELECT value FROM sql_in WHERE partition = 0")
    in_first = {bytes(row.value) for row in spark.read.table("sql_in").collect() if row.partition == 0}
    assert set(values(broker, "sql-out")) == in_first


def test_a_password_is_in_no_plan_event_or_checkpoint(
    spark: SparkSession, events: pathlib.Path, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """In an option whose name Spark redacts, and in a JAAS line, whose name it does not; options, and SQL."""
    password = "pa55-Word-xyzzy"
    jaas = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="ana" password="{password}";'
    ways = ({"kafka.sasl.username": "ana", "kafka.sasl.password": password}, {"kafka.sasl.jaas.config": jaas})
    with TestBroker(security="SASL_PLAINTEXT", mechanism="PLAIN", users={"ana": password}) as broker:
        with sync.Admin(**broker.client_options("ana")) as admin:
            admin.create_topics({"secret-in": 1, "secret-out": 1})
        for number, way in enumerate(ways):
            options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "secret-in", **way}
            options |= {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"}
            given = ", ".join(f"'{key}' '{value}'" for key, value in options.items())
            spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW secret_in USING oncelog OPTIONS ({given})")
            spark.read.table("secret_in").explain(extended=True)
            frame = spark.readStream.format("oncelog").options(**options).load()
            to = {**options, "topic": "secret-out", "checkpointLocation": str(tmp_path / f"{number}")}
            del to["subscribe"]
            query = frame.select("value").writeStream.format("oncelog").options(**to).trigger(availableNow=True).start()
            query.awaitTermination()
            query.explain(extended=True)
            assert password not in "".join(each.json for each in query.recentProgress)
    told = "".join(capfd.readouterr())
    assert "BatchScan oncelog" in told
    left = {path: path.read_bytes() for place in (events, tmp_path) for path in place.rglob("*") if path.is_file()}
    assert any(b"secret_in" in text for text in left.values()), "the views are among the events"
    assert [path for path, text in left.items() if password.encode() in text] == []
    assert password not in told
