"""Each line of the tables of options in docs/spark.md, on a broker: what it claims is seen by planning, reading and writing.

`make spark-options` runs this against oncelog and against Apache Kafka (conftest.py). No line needs Spark itself.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import itertools
import json
import pathlib
import sqlite3
import time
from collections.abc import Iterator
from typing import Any

import pytest

import oncelog.spark
from oncelog import TopicPartition, errors, sync
from oncelog.client.admin.configs import ConfigResource
from oncelog.core.two_phase.sink_names import DECISION_TOPIC
from oncelog.errors import ConfigurationError
from oncelog.spark.backend import PREPARED, RESUMED, TIMEOUT_MAX_KEY
from oncelog.spark.client_options import SET_BY_THE_SINK, SET_BY_THE_SOURCE
from oncelog.spark.committer import CommitRefused
from oncelog.spark.options import COLUMNS, KINDS
from oncelog.spark.planning import DataLoss
from oncelog.spark.source import RangePartition
from tests.spark.conftest import OptionBroker
from tests.spark.option_table import PAGE, READ, SHOWN, WRITE, Pipelines, differences, lines_of, rows_of, shows

NO_TIMEOUT_MS = 2**31 - 1  # of a transaction whose clock was taken away
OFFSETS_OF = {"starting": "where the read starts", "ending": "where the read ends"}


@pytest.fixture(scope="module")
def pipelines(option_broker: OptionBroker) -> Iterator[Pipelines]:
    servers = option_broker.bootstrap_servers
    with (
        sync.Admin(bootstrap_servers=servers) as admin,
        sync.Producer(bootstrap_servers=servers, linger_ms=0) as producer,
    ):
        made = Pipelines(option_broker, admin, producer)
        yield made
        made.forget()
        made.stream(subscribe="any").reader.stop()


@pytest.fixture(autouse=True)
def _what_is_shown_is_given(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test gives the options that it says it shows."""
    shown = getattr(request.function, "shown", [])
    if not shown:
        yield
        return
    pipelines: Pipelines = request.getfixturevalue("pipelines")
    pipelines.given.clear()
    yield
    for option in set().union(*(each.options for each in shown)):
        is_setting = option.startswith("spark.")  # of a session: no format is given them
        assert is_setting or fnmatch.filter(pipelines.given, option.lower()), f"{option} was given to nobody"


@contextlib.contextmanager
def transaction_left_open(pipelines: Pipelines, topic: str, value: int) -> Iterator[None]:
    """Aborted at the end."""
    with sync.Producer(bootstrap_servers=pipelines.servers, transactional_id=f"holds-{topic}") as holder:
        holder.begin_transaction()
        holder.send(topic, b"%d" % value, partition=0)
        holder.flush()
        yield
        holder.abort_transaction()


def refused(says: str) -> Any:
    return pytest.raises(ConfigurationError, match=says)


def both_refuse(pipelines: Pipelines, says: str, **options: str | None) -> None:
    """A batch read and a stream, before they ask for anything."""
    for make in (pipelines.batch, pipelines.stream):
        with refused(says):
            make(**options)


# --- the tables themselves


def test_every_line_every_option_and_every_default_is_shown() -> None:
    assert differences(PAGE.read_text(), SHOWN) == []


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("| `path` |", "| `pathos` |", "no test shows the line 'pathos'"),
        ("| `path` |", "| `pathos` |", "shows the line 'path', which is not there"),
        (
            "| `subscribe`, `assign` |",
            "| `subscribe`, `assign`, `x` |",
            "no test shows the line 'subscribe, assign, x'",
        ),
        (
            "| `backend` | `auto` |",
            "| `backend` | `resumed` |",
            "shows the default 'auto' of 'backend', which has 'resumed'",
        ),
        ("| `backend` | `auto` |", "| `backend` | `resumed` |", "no test shows the default 'resumed'"),
        ("`kafka.ssl.*` ...", "`kafka.ssl.*` ...", None),
    ],
)
def test_a_table_that_changes_is_noticed(old: str, new: str, says: str | None) -> None:
    page = PAGE.read_text()
    assert page.count(old) == 1
    found = differences(page.replace(old, new), SHOWN)
    assert any(says in each for each in found) if says else not found, found


def test_an_option_of_a_line_that_no_test_gives_is_noticed() -> None:
    less = [dataclasses.replace(each, options=each.options - {"assign"}) for each in SHOWN]
    assert differences(PAGE.read_text(), less) == [
        "Reading: 'subscribe, assign': tests show ['subscribe'], there are ['assign', 'subscribe']"
    ]


def test_every_option_that_the_format_takes_has_a_line() -> None:
    page = PAGE.read_text()
    for section, kinds, in_each_example in (
        (READ, ("a batch read", "a stream"), set()),
        (WRITE, ("a batch write", "a streaming write"), {"bootstrap.servers", "checkpointLocation"}),
    ):
        named = {name for line in lines_of(page, section).values() for name in line.options}
        taken = {name for kind in kinds for name in KINDS[kind]}
        assert taken - named == in_each_example, section
        assert {name for name in named - taken if not name.startswith(("kafka.", "spark."))} <= {"path"}, section


# --- reading


@shows(READ, "bootstrap.servers")
def test_servers_have_two_spellings(pipelines: Pipelines) -> None:
    topic, servers = pipelines.topic([1]), pipelines.servers
    kafkas: dict[str, Any] = {"bootstrap.servers": None, "kafka.bootstrap.servers": servers, "subscribe": topic}
    assert pipelines.values(subscribe=topic) == pipelines.values(**kafkas) == [1]
    assert pipelines.stream(**kafkas, startingOffsets="earliest").batch() == [1]
    both_refuse(pipelines, "differ: give one", **{"subscribe": topic, "kafka.bootstrap.servers": "127.0.0.1:1"})
    both_refuse(pipelines, "'bootstrap.servers' is missing", **{"subscribe": topic, "bootstrap.servers": None})


@shows(READ, "subscribe, assign")
def test_topics_and_partitions_that_are_named(pipelines: Pipelines) -> None:
    one, other = pipelines.topic([1], [2]), pipelines.topic([3])
    assert sorted(pipelines.values(subscribe=f"{one},{other}")) == [1, 2, 3]
    assert pipelines.values(assign=json.dumps({one: [1]})) == [2]
    assert sorted(pipelines.values(assign=json.dumps({one: [0], other: [0]}))) == [1, 3]
    for what, missing in (
        ({"subscribe": f"{one},nowhere"}, "nowhere"),
        ({"assign": '{"nowhere": [0]}'}, "nowhere"),
        ({"assign": json.dumps({one: [0, 7]})}, f"{one}-7"),
    ):
        for plan in (pipelines.batch(**what).partitions, pipelines.stream(**what).plan):
            with pytest.raises(errors.UnknownTopicOrPartition, match=f"not there: {missing}"):
                plan()
    assert "nowhere" not in pipelines.admin.list_topics(), "asking makes no topic"


@shows(READ, "subscribePattern")
def test_a_pattern_finds_topics_that_come_and_tells_of_those_that_go(pipelines: Pipelines) -> None:
    first = pipelines.topic([1], name="like")
    pipelines.topic([9], name="unlike")
    pattern = {"subscribePattern": "like-[0-9]+"}
    assert pipelines.values(**pattern) == [1], "the whole name"
    stream = pipelines.stream(**pattern, startingOffsets="earliest")
    assert stream.batch() == [1]
    second = pipelines.topic([2, 3], name="like")
    assert stream.batch() == [2, 3]
    pipelines.delete(first)
    with pytest.raises(DataLoss, match=f"'{first}' was deleted"):
        stream.batch()
    pipelines.delete(second)
    both_refuse(pipelines, "no regular expression of Python's", subscribePattern="(")


@shows(READ, "columns", default="all but headers")
def test_columns_are_those_that_are_named(pipelines: Pipelines) -> None:
    topic = pipelines.topic([1])
    assert [list(row) for row in pipelines.rows(subscribe=topic)] == [[name for name in COLUMNS if name != "headers"]]
    wanted = [{"value": b"1", "offset": 0}]
    assert pipelines.rows(subscribe=topic, columns="value,offset") == wanted
    assert pipelines.rows("value binary, offset bigint", subscribe=topic) == wanted
    with refused("no column 'size'"):
        pipelines.rows(subscribe=topic, columns="size")


@shows(READ, "startingOffsets", default="stream latest, batch earliest")
def test_where_a_read_starts(pipelines: Pipelines) -> None:
    topic = pipelines.topic([0, 1], [10, 11], [20, 21])
    stream = pipelines.stream(subscribe=topic)
    assert stream.batch() == []
    pipelines.fill(topic, 2)
    assert stream.batch() == [2]
    assert sorted(pipelines.values(subscribe=topic)) == [0, 1, 2, 10, 11, 20, 21]
    assert sorted(pipelines.stream(subscribe=topic, startingOffsets="earliest").batch()) == [0, 1, 2, 10, 11, 20, 21]
    each = json.dumps({topic: {"0": 1, "1": -1, "2": -2}})
    assert sorted(pipelines.stream(subscribe=topic, startingOffsets=each).batch()) == [1, 2, 20, 21]
    each = json.dumps({topic: {"0": 1, "1": 1, "2": -2}})
    assert sorted(pipelines.values(subscribe=topic, startingOffsets=each)) == [1, 2, 11, 20, 21]
    with refused("may not be 'latest'"):
        pipelines.values(subscribe=topic, startingOffsets="latest")
    behind = {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 50, "1": 0, "2": 0}})}
    for plan in (pipelines.batch(**behind).partitions, pipelines.stream(**behind).plan):
        with refused(f"startingOffsets names offset 50 of {topic}-0, whose records end at 3"):
            plan()


@shows(READ, "endingOffsets", default="latest")
def test_where_a_batch_read_ends(pipelines: Pipelines) -> None:
    topic = pipelines.topic([0, 1], [10, 11])
    assert sorted(pipelines.values(subscribe=topic)) == [0, 1, 10, 11]
    assert sorted(pipelines.values(subscribe=topic, endingOffsets="latest")) == [0, 1, 10, 11]
    each = json.dumps({topic: {"0": 1, "1": -1}})
    assert sorted(pipelines.values(subscribe=topic, endingOffsets=each)) == [0, 10, 11]
    with refused(f"endingOffsets names offset 50 of {topic}-0, whose records end at 2"):
        pipelines.values(subscribe=topic, endingOffsets=each.replace('"0": 1', '"0": 50'))
    with refused("'endingOffsets' is for a batch read, and this is a stream"):
        pipelines.stream(subscribe=topic, endingOffsets="latest")


@pytest.fixture(scope="module")
def timed(pipelines: Pipelines) -> str:
    """A topic whose values are their times."""
    topic = pipelines.topic([], [])
    pipelines.fill(topic, 1000, 2000, 3000, are_times=True)
    pipelines.fill(topic, 1500, partition=1, are_times=True)
    return topic


@shows(READ, "startingTimestamp, endingTimestamp")
def test_a_time_for_all_partitions(pipelines: Pipelines, timed: str) -> None:
    assert sorted(pipelines.values(subscribe=timed, startingTimestamp="1500")) == [1500, 2000, 3000]
    assert sorted(pipelines.stream(subscribe=timed, startingTimestamp="1500").batch()) == [1500, 2000, 3000]
    assert sorted(pipelines.values(subscribe=timed, endingTimestamp="2000")) == [1000, 1500]
    assert pipelines.values(subscribe=timed, startingTimestamp="1001", endingTimestamp="2500") == [2000, 1500]


@shows(READ, "startingOffsetsByTimestamp, endingOffsetsByTimestamp")
def test_a_time_for_each_partition(pipelines: Pipelines, timed: str) -> None:
    each = json.dumps({timed: {"0": 2001, "1": 0}})
    assert sorted(pipelines.values(subscribe=timed, startingOffsetsByTimestamp=each)) == [1500, 3000]
    assert sorted(pipelines.stream(subscribe=timed, startingOffsetsByTimestamp=each).batch()) == [1500, 3000]
    assert sorted(pipelines.values(subscribe=timed, endingOffsetsByTimestamp=each)) == [1000, 2000]
    with refused("names other partitions than are read: missing"):
        pipelines.values(subscribe=timed, startingOffsetsByTimestamp=json.dumps({timed: {"0": 1}}))


@shows(READ, "startingOffsetsByTimestampStrategy", default="error")
def test_a_partition_without_a_record_that_late(pipelines: Pipelines, timed: str) -> None:
    late = {"subscribe": timed, "startingTimestamp": "2500"}
    for more in ({}, {"startingOffsetsByTimestampStrategy": "error"}):
        with refused(f"{timed}-1 has no record at or after 2500 ms"):
            pipelines.values(**late, **more)
        with refused(f"{timed}-1 has no record at or after 2500 ms"):
            pipelines.stream(**late, **more).plan()
    assert pipelines.values(**late, startingOffsetsByTimestampStrategy="latest") == [3000]
    assert pipelines.stream(**late, startingOffsetsByTimestampStrategy="latest").batch() == [3000]


@shows(READ, "two of the three that say where to start, or to end")
def test_two_of_the_three_are_refused(pipelines: Pipelines, timed: str) -> None:
    offsets = {"startingOffsets": "earliest", "endingOffsets": "latest"}
    by_time = json.dumps({timed: {"0": 1000, "1": 1000}})
    for end, says in OFFSETS_OF.items():
        three = {
            f"{end}Timestamp": "1000",
            f"{end}OffsetsByTimestamp": by_time,
            f"{end}Offsets": offsets[f"{end}Offsets"],
        }
        for two in itertools.combinations(three, 2):
            with refused(f"{two[0]} and {two[1]} both say {says}"):
                pipelines.batch(subscribe=timed, **{name: three[name] for name in two})
            if end == "starting":
                with refused(f"{two[0]} and {two[1]} both say {says}"):
                    pipelines.stream(subscribe=timed, **{name: three[name] for name in two})


@shows(READ, "failOnDataLoss", default="true")
def test_what_is_gone_ends_a_read_or_is_passed_over(pipelines: Pipelines) -> None:
    topic = pipelines.topic([0, 1, 2])
    pipelines.admin.delete_records({TopicPartition(topic, 0): 2})
    gone = {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 0}})}
    for more in ({}, {"failOnDataLoss": "true"}):
        with pytest.raises(DataLoss, match="the log starts at 2"):
            pipelines.values(**gone, **more)
    assert pipelines.values(**gone, failOnDataLoss="false") == [2]
    stream = pipelines.stream(subscribe=topic, startingOffsets="earliest")
    assert stream.batch() == [2]
    pipelines.delete(topic)
    pipelines.admin.create_topics({topic: 1})
    pipelines.fill(topic, 10, 11, 12, 13)
    with pytest.raises(DataLoss, match="deleted and made again"):
        stream.batch()
    lenient = pipelines.stream(subscribe=topic, failOnDataLoss="false")
    lenient.stands = stream.stands
    assert lenient.batch() == [10, 11, 12, 13]


@shows(READ, "maxOffsetsPerTrigger")
def test_a_micro_batch_is_shared_out_by_backlog(pipelines: Pipelines) -> None:
    topic = pipelines.topic(range(8), range(4))
    stream = pipelines.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="6")
    sizes = [{part.range.partition: part.range.size for part in stream.plan()} for _ in range(3)]
    assert sizes == [{0: 4, 1: 2}, {0: 4, 1: 2}, {}]
    with refused("'maxOffsetsPerTrigger' is for a stream, and this is a batch read"):
        pipelines.batch(subscribe=topic, maxOffsetsPerTrigger="6")


@shows(READ, "minOffsetsPerTrigger, maxTriggerDelay", default="15m")
def test_a_trigger_waits_for_enough_or_long_enough(pipelines: Pipelines) -> None:
    delays: tuple[tuple[dict[str, str], int], ...] = (({}, 15 * 60), ({"maxTriggerDelay": "10s"}, 10))
    for delay, delay_s in delays:
        topic, now_s = pipelines.topic([1]), [100.0]
        stream = pipelines.stream(subscribe=topic, startingOffsets="earliest", minOffsetsPerTrigger="2", **delay)
        stream.reader.now_s = lambda now_s=now_s: now_s[0]
        assert stream.batch() == [1], "the first of a run waits for nothing"
        pipelines.fill(topic, 2)
        assert stream.batch() == []
        pipelines.fill(topic, 3)
        assert stream.batch() == [2, 3]
        pipelines.fill(topic, 4)
        now_s[0] += delay_s - 1
        assert stream.batch() == []
        now_s[0] += 2
        assert stream.batch() == [4]
        pipelines.fill(topic, 5)
        stream.reader.prepareForTriggerAvailableNow()
        assert stream.batch() == [5]


@shows(READ, "minPartitions, maxRecordsPerPartition")
def test_large_ranges_are_cut(pipelines: Pipelines) -> None:
    topic = pipelines.topic(range(6), [6])
    assert pipelines.sizes(subscribe=topic) == [6, 1]
    assert pipelines.sizes(subscribe=topic, maxRecordsPerPartition="4") == [3, 3, 1]
    assert pipelines.sizes(subscribe=topic, minPartitions="4") == [2, 2, 2, 1]
    assert sorted(pipelines.values(subscribe=topic, minPartitions="4", maxRecordsPerPartition="4")) == list(range(7))
    stream = pipelines.stream(subscribe=topic, startingOffsets="earliest", maxRecordsPerPartition="4")
    assert [part.range.size for part in stream.plan()] == [3, 3, 1]


@shows(READ, "includeHeaders", default="false")
def test_headers_are_read_where_they_are_asked_for(pipelines: Pipelines) -> None:
    topic = pipelines.topic()
    pipelines.producer.send(topic, b"1", headers=[("n", b"x")], partition=0)
    pipelines.producer.flush()
    for more in ({}, {"includeHeaders": "false"}):
        assert "headers" not in pipelines.rows(subscribe=topic, **more)[0]
    assert pipelines.rows(subscribe=topic, includeHeaders="true")[0]["headers"] == [{"key": "n", "value": b"x"}]


@shows(READ, "isolationLevel", default="read_committed")
def test_what_is_not_committed_is_read_only_where_that_is_asked_for(pipelines: Pipelines) -> None:
    topic = pipelines.topic([1])
    with transaction_left_open(pipelines, topic, 2):
        pass
    pipelines.fill(topic, 3)
    with transaction_left_open(pipelines, topic, 4):
        pipelines.fill(topic, 5)
        for level in ({}, {"isolationLevel": "read_committed"}, {"kafka.isolation.level": "read_committed"}):
            assert pipelines.values(subscribe=topic, **level) == [1, 3]
            assert pipelines.stream(subscribe=topic, startingOffsets="earliest", **level).batch() == [1, 3]
        for level in ({"isolationLevel": "read_uncommitted"}, {"kafka.isolation.level": "read_uncommitted"}):
            assert pipelines.values(subscribe=topic, **level) == [1, 2, 3, 4, 5]
    both_refuse(
        pipelines,
        "differ",
        subscribe=topic,
        isolationLevel="read_committed",
        **{"kafka.isolation.level": "read_uncommitted"},
    )


@shows(READ, "kafka.group.id, groupIdPrefix")
def test_the_position_is_stored_in_a_group_that_is_named(pipelines: Pipelines) -> None:
    names = []
    for group in ({"kafka.group.id": "lag-of-mine"}, {"groupIdPrefix": "lag"}, {"groupIdPrefix": "lag"}):
        topic = pipelines.topic([1, 2])
        stream = pipelines.stream(subscribe=topic, startingOffsets="earliest", **group)
        names.append(str(stream.reader.group_id()))
        for position in (2, 3):
            stream.batch()
            assert pipelines.admin.list_consumer_group_offsets(names[-1])[TopicPartition(topic, 0)].offset == position
            pipelines.fill(topic, position)
        with refused("remove it"):
            pipelines.batch(subscribe=topic, **group)
    assert names[0] == "lag-of-mine"
    assert [name.startswith("lag-") and len(name) > 4 for name in names[1:]] == [True, True]
    assert names[1] != names[2], "the word is for what is read"


@shows(READ, "kafkaConsumer.pollTimeoutMs", default="120000")
def test_a_task_without_progress_ends_with_where_the_log_ends(
    pipelines: Pipelines, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[int] = []
    poll = sync.Consumer.poll_arrow

    def noted(consumer: sync.Consumer, *, max_records: int, timeout_ms: int) -> Any:
        waits.append(timeout_ms)
        return poll(consumer, max_records=max_records, timeout_ms=timeout_ms)

    monkeypatch.setattr(sync.Consumer, "poll_arrow", noted)
    topic = pipelines.topic([1])
    assert pipelines.values(subscribe=topic) == [1]
    assert set(waits) == {120_000}
    start, end = ({"v": 1, "t": {topic: {"0": offset}}} for offset in (0, 2))
    with transaction_left_open(pipelines, topic, 2):
        reader = pipelines.stream(subscribe=topic, **{"kafkaConsumer.pollTimeoutMs": "50"}).reader
        with pytest.raises(errors.RequestTimedOut, match=r"within 50 ms .* last stable offset is 1, its end 2"):
            rows_of(reader, reader.partitions(start, end))


@shows(READ, "fetchOffset.numRetries, fetchOffset.retryIntervalMs", default="0, 10")
def test_questions_of_offsets_are_asked_again(pipelines: Pipelines, monkeypatch: pytest.MonkeyPatch) -> None:
    fails = [0]
    describe = sync.Admin.describe_topics

    def failing(client: sync.Admin, names: list[str]) -> Any:
        if fails[0]:
            fails[0] -= 1
            raise errors.RequestTimedOut("planned")
        return describe(client, names)

    monkeypatch.setattr(sync.Admin, "describe_topics", failing)
    topic, twice = pipelines.topic([1]), {"fetchOffset.numRetries": "2"}
    for more, count in (({}, 1), (twice, 3)):
        fails[0] = count
        with pytest.raises(errors.RequestTimedOut, match="planned"):
            pipelines.values(subscribe=topic, **more)
        assert fails == [0], "it was asked as often as that"
    for more, least_ms in (({}, 10), ({"fetchOffset.retryIntervalMs": "60"}, 60)):
        fails[0], begun_s = 2, time.monotonic()
        assert pipelines.values(subscribe=topic, **twice, **more) == [1]
        assert (time.monotonic() - begun_s) * 1000 >= 2 * least_ms


CLIENTS_KEYS = (
    "kafka.fetch.*, kafka.max.partition.fetch.bytes, kafka.max.poll.records, kafka.security.*, kafka.sasl.*, "
    "kafka.ssl.* ..."
)


@shows(READ, CLIENTS_KEYS, "kafka.fetch.*", "kafka.max.partition.fetch.bytes", "kafka.max.poll.records")
def test_consumers_keys_reach_the_consumers_of_the_tasks(pipelines: Pipelines, monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[str, list[dict[str, Any]]] = {"Consumer": [], "Admin": []}
    for client in (sync.Consumer, sync.Admin):
        from_config = client.from_config

        def noted(config: dict[str, Any], make: Any = from_config, kind: str = client.__name__) -> Any:
            made[kind].append(config)
            return make(config)

        monkeypatch.setattr(client, "from_config", noted)
    topic = pipelines.topic(range(5))
    own = {
        "kafka.fetch.min.bytes": "2",
        "kafka.fetch.max.bytes": "1000",
        "kafka.max.partition.fetch.bytes": "1",
        "kafka.max.poll.records": "2",
    }
    everybodys = {"kafka.client.id": "both", "kafka.request.timeout.ms": "20000"}
    reader = pipelines.batch(subscribe=topic, **own, **everybodys)
    batches = [batch.num_rows for part in reader.partitions() for batch in reader.read(part)]
    assert sum(batches) == 5
    assert max(batches) <= 2
    wanted = {name.removeprefix("kafka."): value for name, value in (own | everybodys).items()}
    assert [wanted.items() <= config.items() for config in made["Consumer"]] == [True]
    assert [config.items() & wanted.items() for config in made["Admin"]] == [
        {("client.id", "both"), ("request.timeout.ms", "20000")}
    ]


@shows(READ, CLIENTS_KEYS, "kafka.security.*", "kafka.sasl.*", "kafka.ssl.*")
def test_driver_and_tasks_log_in_over_tls(pipelines: Pipelines) -> None:
    topic, login = (
        pipelines.topic([1, 2]),
        {"bootstrap.servers": pipelines.broker.secured_servers} | pipelines.broker.login,
    )
    assert pipelines.values(subscribe=topic, **login) == [1, 2]
    assert pipelines.stream(subscribe=topic, startingOffsets="earliest", **login).batch() == [1, 2]
    pipelines.write({"value": [b"3"]}, topic=topic, **login)
    assert pipelines.visible(topic) == [1, 2, 3]
    planned = pipelines.batch(subscribe=topic, **login).partitions()
    wrong = pipelines.batch(subscribe=topic, **login | {"kafka.sasl.password": "wrong"})
    with pytest.raises(errors.SaslAuthentication):
        wrong.partitions()
    with pytest.raises(errors.SaslAuthentication):
        rows_of(wrong, [RangePartition(part.range, "") for part in planned if isinstance(part, RangePartition)])


@shows(
    READ,
    "kafka.auto.offset.reset, kafka.enable.auto.commit, kafka.key.deserializer, kafka.value.deserializer, "
    "kafka.interceptor.classes",
)
def test_what_the_source_sets_is_refused(pipelines: Pipelines) -> None:
    for key in (
        "auto.offset.reset",
        "enable.auto.commit",
        "key.deserializer",
        "value.deserializer",
        "interceptor.classes",
    ):
        way_out = SET_BY_THE_SOURCE[key.replace(".", "_")]
        both_refuse(pipelines, f"kafka.{key} is not to be set here: {way_out}", subscribe="t", **{f"kafka.{key}": "x"})


@shows(READ, "other keys of Kafka's that mean nothing here (kafka.metric.reporters, those of a group's members ...)")
def test_keys_that_mean_nothing_are_refused(pipelines: Pipelines) -> None:
    both_refuse(pipelines, "has no meaning .*: remove it", subscribe="t", **{"kafka.metric.reporters": "x"})
    for key in ("session.timeout.ms", "heartbeat.interval.ms", "group.instance.id", "partition.assignment.strategy"):
        both_refuse(pipelines, f"kafka.{key} .*no group is joined", subscribe="t", **{f"kafka.{key}": "1"})


@shows(READ, "settings spark.kafka.consumer.cache.*")
def test_a_worker_keeps_one_consumer_whatever_the_settings(
    pipelines: Pipelines, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    start = sync.Consumer.start
    monkeypatch.setattr(sync.Consumer, "start", lambda consumer: (made.append(consumer), start(consumer)))
    topic = pipelines.topic(range(4), range(4))
    stream = pipelines.stream(
        subscribe=topic, startingOffsets="earliest", minPartitions="4", **{"kafka.client.id": f"one-{topic}"}
    )
    assert len(stream.batch()) == 8
    pipelines.fill(topic, 8)
    assert stream.batch() == [8]
    assert len(made) == 1
    sources = pathlib.Path(str(oncelog.spark.__file__)).parent.glob("*.py")
    assert not [file.name for file in sources if "spark.kafka" in file.read_text()], "nobody looks at them"


# --- writing


@shows(WRITE, "topic", default="column topic")
def test_where_rows_go(pipelines: Pipelines) -> None:
    one, other = pipelines.topic([]), pipelines.topic([])
    columns = {"value": [b"1", b"2"], "topic": [one, other]}
    pipelines.write(columns)
    assert (pipelines.visible(one), pipelines.visible(other)) == ([1], [2])
    pipelines.write_batch(f"query-{one}", 0, columns, topic=other)
    assert (pipelines.visible(one), pipelines.visible(other)) == ([1], [2, 1, 2])
    with refused("say where to write"):
        pipelines.writer({"value": [b"1"]})


@shows(WRITE, "includeHeaders", default="the column headers decides")
def test_the_column_says_whether_headers_are_written(pipelines: Pipelines) -> None:
    topic = pipelines.topic([])
    without = {"value": [b"1"]}
    columns = without | {"headers": [[{"key": "n", "value": b"x"}]]}
    for more in ({}, {"includeHeaders": "true"}):
        pipelines.write(columns, topic=topic, **more)
    for more in ({}, {"includeHeaders": "false"}):
        pipelines.write(without, topic=topic, **more)
    found = [row["headers"] for row in pipelines.rows(subscribe=topic, columns="headers")]
    assert [[(each["key"], each["value"]) for each in row or []] for row in found] == [[("n", b"x")]] * 2 + [[]] * 2
    for given, includes in ((without, "true"), (columns, "false")):
        with refused(f"includeHeaders={includes}, and the column 'headers' is"):
            pipelines.writer(given, topic=topic, includeHeaders=includes)


PRODUCERS_KEYS = (
    "kafka.compression.type, kafka.batch.size, kafka.max.request.size, kafka.partitioner, kafka.delivery.timeout.ms ..."
)


def bytes_of(pipelines: Pipelines, topic: str) -> int:
    """What the broker says that its log holds."""
    sizes = [folder.partition_sizes for folder in pipelines.admin.describe_log_dirs()]
    return sum(size for each in sizes for where, size in each.items() if where.topic == topic)


@shows(WRITE, PRODUCERS_KEYS)
def test_producers_keys_reach_the_producers_of_the_tasks(pipelines: Pipelines, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    rows = {"value": [b"0" * 1000] * 20}
    for more in ({}, {"kafka.compression.type": "gzip"}):
        topic = pipelines.topic([])
        pipelines.write(rows, topic=topic, **more)
        assert pipelines.visible(topic) == [0] * 20
        sizes.append(bytes_of(pipelines, topic))
    assert sizes[1] < sizes[0] / 4
    with pytest.raises(errors.RecordTooLarge, match="larger than max_request_size=900"):
        pipelines.write(rows, topic=topic, **{"kafka.max.request.size": "900"})
    assert len(pipelines.visible(topic)) == 20

    def partitions_used(*batches: dict[str, Any], **more: str) -> int:
        topic = pipelines.topic([], [], [])
        writer = pipelines.writer(batches[0], topic=topic, **more)
        writer.commit([pipelines.task(writer, *batches)])
        return len(pipelines.sizes(subscribe=topic))

    without_key = [{"value": [b"%d" % number]} for number in range(4)]
    assert partitions_used(*without_key) == 1, "they stay where they are until batch.size bytes were written"
    assert partitions_used(*without_key, **{"kafka.batch.size": "1"}) > 1
    assert partitions_used(*without_key, **{"kafka.batch.size": "1", "kafka.partitioner": "murmur2"}) == 1
    delayed: list[Any] = []
    from_config = sync.Producer.from_config

    def noted(config: dict[str, Any], **more: Any) -> sync.Producer:
        delayed.append(config.get("delivery.timeout.ms"))
        return from_config(config, **more)

    monkeypatch.setattr(sync.Producer, "from_config", noted)
    partitions_used(*without_key, **{"kafka.delivery.timeout.ms": "50000"})
    assert "50000" in delayed
    with refused("kafka.delivery.timeout.ms must be at least"):
        pipelines.writer(rows, topic=topic, **{"kafka.delivery.timeout.ms": "5"})


@shows(WRITE, "kafka.acks, kafka.enable.idempotence")
def test_what_a_transaction_needs_is_taken_and_nothing_else(pipelines: Pipelines) -> None:
    topic, row = pipelines.topic([]), {"value": [b"1"]}
    pipelines.write(row, topic=topic, **{"kafka.acks": "all", "kafka.enable.idempotence": "true"})
    assert pipelines.visible(topic) == [1]
    for wrong in ({"kafka.acks": "1"}, {"kafka.acks": "0"}, {"kafka.enable.idempotence": "false"}):
        with refused("transactions need kafka.enable.idempotence=True and acks=all"):
            pipelines.writer(row, topic=topic, **wrong)


@shows(
    WRITE,
    "kafka.transactional.id, kafka.transaction.timeout.ms, kafka.linger.ms, kafka.key.serializer, "
    "kafka.value.serializer, kafka.interceptor.classes, kafka.partitioner.class",
)
def test_what_the_sink_sets_is_refused(pipelines: Pipelines) -> None:
    keys = ("transactional.id", "transaction.timeout.ms", "linger.ms", "key.serializer", "value.serializer")
    for key in (*keys, "interceptor.classes", "partitioner.class"):
        way_out = SET_BY_THE_SINK[key.replace(".", "_")]
        with refused(f"kafka.{key} is not to be set here: {way_out}"):
            pipelines.writer({"value": [b"1"]}, topic="t", **{f"kafka.{key}": "1"})


@shows(WRITE, "transactionalIdPrefix", default="oncelog-spark")
def test_every_transactional_id_begins_with_the_prefix(pipelines: Pipelines) -> None:
    topic, row = pipelines.topic([]), {"value": [b"1"]}
    for more, prefix in (({}, "oncelog-spark."), ({"transactionalIdPrefix": "mine"}, "mine.")):
        before = pipelines.open_transactions(prefix)
        writer = pipelines.writer(row, topic=topic, **more)
        message = pipelines.task(writer, row)
        assert set(pipelines.open_transactions(prefix)) - set(before) == {message.attempt.transactional_id}
        writer.commit([message])
    with refused("may not be empty and has no dot: 'a.b'"):
        pipelines.writer(row, topic=topic, transactionalIdPrefix="a.b")


@shows(WRITE, "decisionTopic", default="__oncelog_decisions")
def test_where_decisions_live(pipelines: Pipelines) -> None:
    topic, row, own = pipelines.topic([]), {"value": [b"1"]}, pipelines.topic([]) + "-decisions"
    for more, where in (({}, DECISION_TOPIC), ({"decisionTopic": own}, own)):
        for _ in range(2):
            pipelines.write(row, topic=topic, txnAppId=where, txnVersion="1", **more)
        assert policy_of(pipelines, where) == "compact"
    assert pipelines.visible(topic) == [1, 1]
    assert sum(pipelines.sizes(subscribe=own)) > 0, "the decision is there"
    pipelines.admin.create_partitions({own: 11})
    pipelines.forget()
    for application in (own, "another"):
        for _ in range(2):
            pipelines.write(row, topic=topic, txnAppId=application, txnVersion="1", decisionTopic=own)
    assert pipelines.visible(topic) == [1, 1, 1], "what was decided in fewer partitions is found"
    for policy in ("delete", "compact,delete"):
        forgetful = f"{own}-{len(policy)}"
        pipelines.admin.create_topics({forgetful: {"partitions": 1, "configs": {"cleanup.policy": policy}}})
        with refused(f"has cleanup.policy={policy} and would forget decisions"):
            pipelines.writer(row, topic=topic, decisionTopic=forgetful)
    for same in ({"topic": own, "decisionTopic": own}, {"topic": DECISION_TOPIC}):
        with refused("decisions cannot live in the topic that is written"):
            pipelines.writer(row, **same)
    with refused("a row is for .*, where decisions live"):
        pipelines.write(row | {"topic": [own]}, decisionTopic=own)


def policy_of(pipelines: Pipelines, topic: str) -> str | None:
    resource = ConfigResource("topic", topic)
    value: str | None = pipelines.admin.describe_configs([resource], keys=["cleanup.policy"])[resource][
        "cleanup.policy"
    ].value
    return value


@shows(WRITE, "decisionUrl")
def test_decisions_live_in_a_database(pipelines: Pipelines, tmp_path: pathlib.Path) -> None:
    topic, file = pipelines.topic([]), tmp_path / "decisions.db"
    for _ in range(2):
        pipelines.write({"value": [b"1"]}, topic=topic, txnAppId="a", txnVersion="1", decisionUrl=f"sqlite:///{file}")
        pipelines.write_batch(f"query-{topic}", 0, {"value": [b"2"]}, topic=topic, decisionUrl=f"sqlite:///{file}")
        pipelines.forget()
    assert pipelines.visible(topic) == [1, 2]
    with contextlib.closing(sqlite3.connect(file)) as database:
        assert database.execute("SELECT count(*) FROM oncelog_decisions").fetchone() == (2,)


@shows(WRITE, "backend", default="auto")
def test_the_clock_of_an_open_transaction(pipelines: Pipelines) -> None:
    is_apache_kafka, row = pipelines.broker.is_apache_kafka, {"value": [b"1"]}
    for backend in (None, "auto", "prepared", "resumed"):
        topic = pipelines.topic([])
        options = {"backend": backend, "topic": topic, "txnAppId": topic, "txnVersion": "1"}
        if backend == "prepared" and is_apache_kafka:
            with refused("backend=prepared needs transaction.version 3 and .*: use backend=resumed"):
                pipelines.writer(row, **options)
            continue
        writer = pipelines.writer(row, **options)
        message = pipelines.task(writer, row)
        name = message.attempt.transactional_id
        is_prepared = backend != "resumed" and not is_apache_kafka
        assert writer._backend.kind == (PREPARED if is_prepared else RESUMED)
        described = pipelines.admin.describe_transactions([name])[name]
        assert (described.state, described.timeout_ms) == ("Ongoing", NO_TIMEOUT_MS if is_prepared else 900_000)
        assert pipelines.visible(topic) == []
        writer.commit([message])
        assert pipelines.visible(topic) == [1]
    with refused("backend is auto, prepared or resumed, not 'magic'"):
        pipelines.writer(row, topic="t", backend="magic")


@shows(WRITE, "completionMarginMs", default="60000")
def test_no_decision_for_a_transaction_that_times_out_too_soon(
    pipelines: Pipelines, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(pipelines.forget)  # what it took for the broker's largest timeout
    configs = pipelines.admin.describe_broker_configs()
    topic, row = pipelines.topic([]), {"value": [b"1"]}
    for timeout_ms, margin, is_refused in (
        (59_000, {}, True),
        (80_000, {}, False),
        (80_000, {"completionMarginMs": "80000"}, True),
        (59_000, {"completionMarginMs": "5000"}, False),
    ):
        monkeypatch.setattr(
            sync.Admin, "describe_broker_configs", lambda _, ms=timeout_ms: configs | {TIMEOUT_MAX_KEY: str(ms)}
        )
        pipelines.forget()
        writer = pipelines.writer(row, topic=topic, backend="resumed", **margin)
        message = pipelines.task(writer, row)
        with pytest.raises(CommitRefused, match="could time out before") if is_refused else contextlib.nullcontext():
            writer.commit([message])
        if is_refused:
            writer.abort([message])
    assert pipelines.visible(topic) == [1, 1]
    with refused("completionMarginMs has no meaning with backend=prepared"):
        pipelines.writer(row, topic=topic, backend="prepared", completionMarginMs="5000")


@shows(WRITE, "txnAppId, txnVersion")
def test_a_batch_write_is_atomic_and_with_a_version_written_once(pipelines: Pipelines) -> None:
    topic, rows = pipelines.topic([], []), {"value": [b"1", b"2"]}
    version = {"topic": topic, "txnAppId": topic, "txnVersion": "7"}
    for more in ({"topic": topic}, version):
        writer = pipelines.writer(rows, **more)
        messages = [pipelines.task(writer, rows) for _ in range(2)]
        before = len(pipelines.visible(topic))
        writer.commit(list(messages))
        assert len(pipelines.visible(topic)) == before + 4, "all or nothing"
    pipelines.write(rows, **version)
    assert len(pipelines.visible(topic)) == 8
    pipelines.write(rows, topic=topic)
    assert len(pipelines.visible(topic)) == 10
    for name in ("txnAppId", "txnVersion"):
        with refused("txnAppId and txnVersion belong together"):
            pipelines.writer(rows, topic=topic, **{name: "1"})
        with refused(f"'{name}' is for a batch write, and this is a streaming write"):
            pipelines.write_batch("q", 0, rows, topic=topic, **{name: "1"})


@shows(WRITE, "path")
def test_a_log_has_no_path(pipelines: Pipelines) -> None:
    row = {"value": [b"1"]}
    for write in (pipelines.writer, lambda columns, **options: pipelines.write_batch("q", 0, columns, **options)):
        with refused("a log has no path: .* topic to write"):
            write(row, topic="t", path="p")
    both_refuse(pipelines, "a log has no path: use subscribe to read", subscribe="t", path="p")
