"""The reader without a JVM: a topic that is made anew, lost ends, what is added and removed while a stream lives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from oncelog import OffsetAndMetadata, TopicPartition, errors, sync
from oncelog.core.two_phase.sink_names import POSITION_METADATA
from oncelog.errors import ConfigurationError
from oncelog.spark import kept_admins, source
from oncelog.spark.options import source_options
from oncelog.spark.planning import DataLoss
from oncelog.spark.source import BatchReader, RangePartition, StreamReader
from oncelog.spark.stream_offset import topic_id_text
from oncelog.testing import TestBroker

COLUMNS = ["value", "topic", "partition", "offset"]
INITIAL = {"v": 1, "start": "initial"}


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        yield broker


@pytest.fixture(scope="module")
def admin(broker: TestBroker) -> Iterator[sync.Admin]:
    with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        yield admin


@pytest.fixture(scope="module")
def producer(broker: TestBroker) -> Iterator[sync.Producer]:
    with sync.Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=0) as producer:
        yield producer


@pytest.fixture(autouse=True, scope="module")
def _no_connection_is_left(broker: TestBroker) -> Iterator[None]:
    yield
    reader(broker).stop()


def options(broker: TestBroker, *, is_stream: bool = True, **more: str) -> source.SourceOptions:
    given = {"bootstrap.servers": broker.bootstrap_servers, "subscribe": "t", **more}
    if more.keys() & {"assign", "subscribePattern"}:
        del given["subscribe"]
    return source_options(given, is_stream=is_stream)


def reader(broker: TestBroker, **more: str) -> StreamReader:
    start = {} if any("imestamp" in name for name in more) else {"startingOffsets": "earliest"}
    return StreamReader(options(broker, **{**start, **more}), COLUMNS)


def fill(producer: sync.Producer, topic: str, *values: int, partition: int = 0) -> None:
    for value in values:
        producer.send(topic, b"%d" % value, partition=partition)
    producer.flush()


def values_of(stream: StreamReader | BatchReader, parts: list[Any]) -> list[int]:
    return [int(v.as_py()) for part in parts for batch in stream.read(part) for v in batch.column("value")]


class Query:
    """What Spark does with a reader: positions as JSON, one micro-batch after another; `restart` is a new process."""

    def __init__(self, broker: TestBroker, **more: str) -> None:
        self.broker, self.more = broker, more
        self.stands: dict[str, Any] = INITIAL
        self.planned: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self.stream = reader(broker, **more)

    def restart(self, **more: str) -> None:
        self.more |= more
        self.stream = reader(self.broker, **self.more)

    def plan(self) -> tuple[dict[str, Any], dict[str, Any]]:
        end = json.loads(json.dumps(self.stream.latestOffset(self.stands, ReadAllAvailable())))
        return self.stands, end

    def batch(self) -> list[int]:
        start, end = self.plan()
        if start == end:
            return []
        found = values_of(self.stream, self.stream.partitions(start, end))
        self.stands = end
        self.planned.append((start, end))
        return found

    def again(self) -> list[int]:
        """The last batch, as after a crash before Spark noted that it was done."""
        return values_of(self.stream, self.stream.partitions(*self.planned[-1]))


def remake(admin: sync.Admin, topic: str, count: int = 1) -> None:
    admin.delete_topics([topic])
    admin.create_topics({topic: count})


@pytest.mark.parametrize("restarts", [False, True])
def test_a_topic_made_anew_is_told_and_with_fail_on_data_loss_false_read_from_its_start(
    broker: TestBroker, admin: sync.Admin, producer: sync.Producer, restarts: bool
) -> None:
    """As long as the old one: its offsets alone would say that there is nothing new."""
    topic = f"anew-{restarts}"
    admin.create_topics({topic: 1})
    fill(producer, topic, *range(50))
    query = Query(broker, subscribe=topic)
    assert query.batch() == list(range(50))
    remake(admin, topic)
    fill(producer, topic, *range(100, 150))
    if restarts:
        query.restart()
    with pytest.raises(DataLoss, match="deleted and made again"):
        query.batch()
    query.restart(failOnDataLoss="false")
    assert query.batch() == list(range(100, 150))
    assert query.again() == list(range(100, 150))
    assert query.batch() == []
    fill(producer, topic, 7)
    assert query.batch() == [7]


def test_a_checkpoint_without_ids_goes_on_and_has_them_from_then_on(
    broker: TestBroker, admin: sync.Admin, producer: sync.Producer
) -> None:
    admin.create_topics({"old": 1})
    fill(producer, "old", 0, 1)
    query = Query(broker, subscribe="old")
    query.stands = {"v": 1, "t": {"old": {"0": 1}}}
    assert query.batch() == [1]
    assert query.stands["ids"] == {"old": topic_id_text(admin.describe_topics(["old"])["old"].topic_id)}
    query.stands = {"v": 1, "t": {"old": {"0": 2}}}
    assert query.batch() == []
    remake(admin, "old")
    fill(producer, "old", 5, 6, 7)
    with pytest.raises(DataLoss, match="deleted and made again"):  # this very run saw the other one
        query.batch()


def test_a_batch_whose_records_are_gone_when_it_is_planned_again(
    broker: TestBroker, admin: sync.Admin, producer: sync.Producer
) -> None:
    admin.create_topics({"short": 1})
    fill(producer, "short", *range(10))
    query = Query(broker, subscribe="short")
    assert len(query.batch()) == 10
    remake(admin, "short")
    fill(producer, "short", 77)
    query.restart()
    with pytest.raises(DataLoss, match="since this batch was planned"):
        query.again()
    query.restart(failOnDataLoss="false")
    assert query.again() == []
    assert query.batch() == [77]


def test_an_older_checkpoint_that_lies_behind_the_logs_end_does_not_wait_for_ever(
    broker: TestBroker, admin: sync.Admin, producer: sync.Producer
) -> None:
    admin.create_topics({"behind": 1})
    fill(producer, "behind", 1, 2)
    start, end = {"v": 1, "t": {"behind": {"0": 1}}}, {"v": 1, "t": {"behind": {"0": 50}}}
    with pytest.raises(DataLoss, match="planned up to 50, the log ends at 2"):
        reader(broker, subscribe="behind").partitions(start, end)
    lenient = reader(broker, subscribe="behind", failOnDataLoss="false")
    assert values_of(lenient, lenient.partitions(start, end)) == [2]
    gone = {"v": 1, "t": {"nowhere": {"0": 1}}}, {"v": 1, "t": {"nowhere": {"0": 5}}}
    with pytest.raises(DataLoss, match="nowhere-0: this batch was planned up to 5"):
        reader(broker, subscribe="behind").partitions(*gone)


def test_a_topic_that_is_removed_and_added_again_goes_on_where_it_was(
    broker: TestBroker, admin: sync.Admin, producer: sync.Producer
) -> None:
    admin.create_topics({"here": 1, "away": 1})
    fill(producer, "here", 1)
    fill(producer, "away", 10, 11)
    query = Query(broker, subscribe="here,away")
    assert sorted(query.batch()) == [1, 10, 11]
    query.restart(subscribe="here")
    fill(producer, "here", 2)
    fill(producer, "away", 12)
    assert query.batch() == [2]
    query.restart(subscribe="here,away")
    assert query.batch() == [12]


def test_a_batch_of_a_topic_that_was_removed_since_is_the_same_again(
    broker: TestBroker, admin: sync.Admin, producer: sync.Producer
) -> None:
    admin.create_topics({"stays": 1, "goes": 1})
    fill(producer, "stays", 1)
    fill(producer, "goes", 2)
    query = Query(broker, subscribe="stays,goes")
    assert sorted(query.batch()) == [1, 2]
    query.restart(subscribe="stays")
    assert sorted(query.again()) == [1, 2]


def test_added_partitions_are_read_at_the_next_look(
    broker: TestBroker, admin: sync.Admin, producer: sync.Producer
) -> None:
    admin.create_topics({"grows": 1})
    fill(producer, "grows", 1)
    query = Query(broker, subscribe="grows")
    assert query.batch() == [1]
    admin.create_partitions({"grows": 2})
    with sync.Producer(bootstrap_servers=broker.bootstrap_servers) as newer:  # which knows of the partition
        fill(newer, "grows", 2, partition=1)
    assert query.batch() == [2]


@pytest.mark.parametrize("what", ["partition", "topic"])
def test_what_is_deleted_of_an_added_partition_before_its_batch_is_planned_again_is_a_loss(
    broker: TestBroker, admin: sync.Admin, producer: sync.Producer, what: str
) -> None:
    """Nobody remembered where it began: the batch was read again from what was left, in silence."""
    topic = f"adds-{what}"
    admin.create_topics({topic: 1})
    fill(producer, topic, 1)
    query = Query(broker, subscribePattern=f"{topic}.*")
    assert query.batch() == [1]
    if what == "partition":
        added = TopicPartition(topic, 1)
        admin.create_partitions({topic: 2})
    else:
        added = TopicPartition(f"{topic}-more", 0)
        admin.create_topics({added.topic: 1})
    with sync.Producer(bootstrap_servers=broker.bootstrap_servers) as newer:
        fill(newer, added.topic, *range(10), partition=added.partition)
    assert query.batch() == list(range(10))
    assert query.again() == list(range(10))
    admin.delete_records({added: 6})
    query.restart()
    with pytest.raises(DataLoss, match=r"records from 0 are wanted up to 10, the log starts at 6"):
        query.again()
    query.restart(failOnDataLoss="false")
    assert query.again() == [6, 7, 8, 9]
    fill(producer, topic, 2)
    assert query.batch() == [2]
    assert "init" not in query.stands, "it is said once"


@pytest.mark.parametrize("more", [{"subscribe": "none"}, {"assign": '{"none": [0]}'}])
def test_a_topic_that_is_not_there_is_told_at_once(broker: TestBroker, more: dict[str, str]) -> None:
    with pytest.raises(errors.UnknownTopicOrPartition, match="not there: none"):
        reader(broker, **more).latestOffset(INITIAL, ReadAllAvailable())


def test_a_partition_that_is_not_there_is_told_at_once(broker: TestBroker, admin: sync.Admin) -> None:
    admin.create_topics({"narrow": 1})
    with pytest.raises(errors.UnknownTopicOrPartition, match="not there: narrow-3"):
        reader(broker, assign='{"narrow": [0, 3]}').latestOffset(INITIAL, ReadAllAvailable())


def test_offsets_behind_the_end_are_refused_and_cut_where_losses_are_allowed(
    broker: TestBroker, admin: sync.Admin, producer: sync.Producer
) -> None:
    admin.create_topics({"ends": 1})
    fill(producer, "ends", 1, 2)
    beyond = json.dumps({"ends": {"0": 50}})

    def batch(**more: str) -> BatchReader:
        return BatchReader(options(broker, is_stream=False, subscribe="ends", **more), COLUMNS)

    with pytest.raises(ConfigurationError, match=r"endingOffsets names offset 50 of ends-0, whose records end at 2"):
        batch(endingOffsets=beyond).partitions()
    cut = batch(endingOffsets=beyond, failOnDataLoss="false")
    assert values_of(cut, cut.partitions()) == [1, 2]
    with pytest.raises(ConfigurationError, match="startingOffsets names offset 50"):
        batch(startingOffsets=beyond).partitions()
    with pytest.raises(ConfigurationError, match="startingOffsets names offset 50"):
        reader(broker, subscribe="ends", startingOffsets=beyond).latestOffset(INITIAL, ReadAllAvailable())


def test_an_end_that_an_open_transaction_holds_back_is_told_so(broker: TestBroker, admin: sync.Admin) -> None:
    admin.create_topics({"held-end": 1})
    ending = json.dumps({"held-end": {"0": 1}})
    with sync.Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="holder") as holder:
        holder.begin_transaction()
        holder.send("held-end", b"1")
        holder.flush()
        held = BatchReader(options(broker, is_stream=False, subscribe="held-end", endingOffsets=ending), COLUMNS)
        with pytest.raises(ConfigurationError, match=r"up to 0: an open transaction holds .*oncelog why held-end"):
            held.partitions()
        holder.abort_transaction()


def test_records_that_are_deleted_while_a_task_waits_are_a_loss(
    broker: TestBroker, admin: sync.Admin, producer: sync.Producer
) -> None:
    admin.create_topics({"deleted": 1})
    fill(producer, "deleted", *range(10))
    strict, lenient = reader(broker, subscribe="deleted"), reader(broker, subscribe="deleted", failOnDataLoss="false")
    parts = strict.partitions(INITIAL, strict.latestOffset(INITIAL, ReadAllAvailable()))
    admin.delete_records({TopicPartition("deleted", 0): 6})
    with pytest.raises(DataLoss, match="which starts at 6"):
        values_of(strict, parts)
    assert values_of(lenient, parts) == [6, 7, 8, 9]
    remake(admin, "deleted")
    with pytest.raises(DataLoss, match="deleted and made again"):
        values_of(strict, [_as_new_process(part) for part in parts])


def test_a_topic_that_is_made_anew_between_two_tasks_of_a_batch_is_a_loss(
    broker: TestBroker, admin: sync.Admin, producer: sync.Producer
) -> None:
    """A worker looked at the topic's id once, and read the rest of the batch from the other topic."""
    admin.create_topics({"midway": 1})
    fill(producer, "midway", *range(100))
    stream = reader(broker, subscribe="midway", maxRecordsPerPartition="20")
    first, *others = stream.partitions(INITIAL, stream.latestOffset(INITIAL, ReadAllAvailable()))
    assert values_of(stream, [first]) == list(range(20))
    remake(admin, "midway")
    fill(producer, "midway", *range(1000, 1100))
    for part in others:
        with pytest.raises(DataLoss, match="'midway' was deleted and made again"):
            values_of(stream, [part])
    whole = stream.partitions(INITIAL, reader(broker, subscribe="midway").latestOffset(INITIAL, ReadAllAvailable()))
    assert values_of(stream, whole) == list(range(1000, 1100))


def _as_new_process(part: Any) -> RangePartition:
    """A worker that has not read this topic before."""
    source._topic_ids.clear()
    return RangePartition(part.range, part.topic_id)


def test_ranges_that_follow_one_another_are_read_without_a_seek(
    broker: TestBroker, admin: sync.Admin, producer: sync.Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A seek to where it is throws away what is on its way, and waits behind it."""
    sought: list[int] = []
    seek = sync.Consumer.seek

    def noted(consumer: sync.Consumer, where: TopicPartition, place: OffsetAndMetadata) -> None:
        sought.append(place.offset)
        seek(consumer, where, place)

    monkeypatch.setattr(sync.Consumer, "seek", noted)
    admin.create_topics({"follows": 1})
    query = Query(broker, subscribe="follows")
    for i in range(5):
        fill(producer, "follows", i)
        assert query.batch() == [i]
    assert sought == [0]
    assert query.again() == [4]
    assert sought == [0, 4]


def test_between_two_ranges_nothing_is_fetched_and_a_fetch_waits_shortly(
    broker: TestBroker, admin: sync.Admin, producer: sync.Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, Any]] = []
    from_config = sync.Consumer.from_config

    def noted(config: dict[str, Any]) -> sync.Consumer:
        made.append(config)
        return from_config(config)

    monkeypatch.setattr(sync.Consumer, "from_config", noted)
    admin.create_topics({"rests": 1})
    fill(producer, "rests", 1, 2)
    for wait_ms in ({}, {"kafka.fetch.max.wait.ms": "7"}):
        query = Query(broker, subscribe="rests", **{"kafka.client.id": f"rests-{len(made)}", **wait_ms})
        assert query.batch() == [1, 2]
    assert [config["fetch.max.wait.ms"] for config in made] == [20, "7"]
    for consumer in source._consumers.values():
        assert consumer.paused() == consumer.assignment()


def test_a_pattern_finds_topics_that_come_while_the_stream_runs_and_tells_of_those_that_go(
    broker: TestBroker, admin: sync.Admin, producer: sync.Producer
) -> None:
    admin.create_topics({"like-a": 1, "unlike": 1})
    fill(producer, "like-a", 1)
    fill(producer, "unlike", 99)
    query = Query(broker, subscribePattern="like-.*")
    assert query.batch() == [1]
    admin.create_topics({"like-b": 1})
    fill(producer, "like-b", 2, 3)
    assert query.batch() == [2, 3]
    admin.delete_topics(["like-a"])
    with pytest.raises(DataLoss, match="'like-a' was deleted"):
        query.batch()
    query.restart(failOnDataLoss="false")
    fill(producer, "like-b", 4)
    assert query.batch() == [4]
    assert query.stands["t"].keys() == query.stands["ids"].keys() == {"like-b"}


def timed(producer: sync.Producer, topic: str, *times_ms: int, partition: int = 0) -> None:
    for ms in times_ms:
        producer.send(topic, b"%d" % ms, partition=partition, timestamp_ms=ms)
    producer.flush()


def test_a_read_begins_and_ends_by_time(broker: TestBroker, admin: sync.Admin, producer: sync.Producer) -> None:
    admin.create_topics({"timed": 2})
    timed(producer, "timed", 1000, 2000, 3000)
    timed(producer, "timed", 1500, partition=1)

    def batch(**more: str) -> list[int]:
        read = BatchReader(options(broker, is_stream=False, subscribe="timed", **more), COLUMNS)
        return sorted(values_of(read, read.partitions()))

    assert batch(startingTimestamp="1500") == [1500, 2000, 3000]
    assert batch(endingTimestamp="2000") == [1000, 1500]
    each = json.dumps({"timed": {"0": 3000, "1": 0}})
    assert batch(startingOffsetsByTimestamp=each) == [1500, 3000]
    assert batch(endingOffsetsByTimestamp=each) == [1000, 2000]
    with pytest.raises(ConfigurationError, match="timed-1 has no record at or after 2500 ms"):
        batch(startingTimestamp="2500")
    assert batch(startingTimestamp="2500", startingOffsetsByTimestampStrategy="latest") == [3000]
    with pytest.raises(ConfigurationError, match="names other partitions"):
        batch(startingOffsetsByTimestamp='{"timed": {"0": 1}}')
    assert sorted(Query(broker, subscribe="timed", startingTimestamp="1500").batch()) == [1500, 2000, 3000]


def test_a_trigger_waits_for_enough_or_long_enough(
    broker: TestBroker, admin: sync.Admin, producer: sync.Producer
) -> None:
    admin.create_topics({"enough": 1})
    fill(producer, "enough", 1)
    query = Query(broker, subscribe="enough", minOffsetsPerTrigger="3", maxTriggerDelay="10s")
    now_s = [100.0]
    query.stream.now_s = lambda: now_s[0]
    assert query.batch() == [1], "the first of a run waits for nothing"
    fill(producer, "enough", 2, 3)
    assert query.batch() == []
    fill(producer, "enough", 4)
    assert query.batch() == [2, 3, 4]
    fill(producer, "enough", 5)
    now_s[0] += 9
    assert query.batch() == []
    now_s[0] += 2
    assert query.batch() == [5]
    fill(producer, "enough", 6)
    query.stream.prepareForTriggerAvailableNow()
    assert query.batch() == [6]


@pytest.mark.parametrize("more", [{"kafka.group.id": "lagging"}, {"groupIdPrefix": "lag"}])
def test_the_position_is_stored_in_a_group_that_is_named(
    broker: TestBroker, admin: sync.Admin, producer: sync.Producer, more: dict[str, str]
) -> None:
    topic = f"grouped-{len(more)}-{next(iter(more)).lower().replace('.', '-')}"
    admin.create_topics({topic: 1})
    fill(producer, topic, 1, 2)
    query = Query(broker, subscribe=topic, **more)
    query.batch()
    query.stream.commit(query.stands)
    group = query.stream.group_id()
    assert group is not None
    assert group.startswith(next(iter(more.values())))
    assert admin.list_consumer_group_offsets(group)[TopicPartition(topic, 0)].offset == 2
    reader(broker, subscribe=topic).commit(query.stands)  # without a group: nothing to store


def test_the_stored_position_is_no_batch_behind(
    broker: TestBroker, admin: sync.Admin, producer: sync.Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark says that a batch is over when the next one begins: a query that had read everything showed lag for ever."""
    admin.create_topics({"idle": 1})
    fill(producer, "idle", 1, 2)
    query = Query(broker, subscribe="idle", **{"kafka.group.id": "idling"})
    query.batch()
    assert query.batch() == [], "nothing is new, and the batch before is over"
    found = admin.list_consumer_group_offsets("idling")[TopicPartition("idle", 0)]
    assert (found.offset, found.metadata) == (2, POSITION_METADATA)

    def no(*_: object) -> None:
        raise AssertionError("stored once more")

    monkeypatch.setattr(sync.Admin, "alter_consumer_group_offsets", no)
    query.batch()
    query.stream.commit(query.stands)


def test_a_range_that_nothing_comes_of_ends_with_the_reason(
    broker: TestBroker, admin: sync.Admin, producer: sync.Producer
) -> None:
    admin.create_topics({"held": 1})
    fill(producer, "held", 1)
    with sync.Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="held") as holder:
        holder.begin_transaction()
        holder.send("held", b"2", partition=0)
        holder.flush()
        query = Query(broker, subscribe="held", **{"kafkaConsumer.pollTimeoutMs": "50"})
        start, end = {"v": 1, "t": {"held": {"0": 0}}}, {"v": 1, "t": {"held": {"0": 2}}}
        with pytest.raises(errors.RequestTimedOut, match="last stable offset is 1, its end 2"):
            values_of(query.stream, query.stream.partitions(start, end))
        holder.abort_transaction()


def test_a_range_that_waits_for_a_quota_says_so(broker: TestBroker, admin: sync.Admin, producer: sync.Producer) -> None:
    """It told of offsets only, which looked as if records were lost."""
    admin.create_topics({"slow": 1})
    admin.alter_client_quotas({"client-id": "slow"}, {"consumer_byte_rate": 1000.0})
    for _ in range(2):
        producer.send_and_wait("slow", bytes(9000), partition=0)
    more = {"subscribe": "slow", "kafka.client.id": "slow", "kafkaConsumer.pollTimeoutMs": "1000"}
    stream = reader(broker, **more)
    parts = stream.partitions({"v": 1, "t": {"slow": {"0": 0}}}, {"v": 1, "t": {"slow": {"0": 2}}})
    why = r"nothing came of slow-0 at offset 1 .*told a throttle of \d+ ms, so a quota holds it up"
    with pytest.raises(errors.RequestTimedOut, match=why):
        list(stream.read(parts[0]))


def test_partitions_are_cut_to_records_and_count(
    broker: TestBroker, admin: sync.Admin, producer: sync.Producer
) -> None:
    admin.create_topics({"cut": 1})
    fill(producer, "cut", *range(10))

    def sizes(**more: str) -> list[int]:
        read = BatchReader(options(broker, is_stream=False, subscribe="cut", **more), COLUMNS)
        return [part.range.size for part in read.partitions() if isinstance(part, RangePartition)]

    assert sizes() == [10]
    assert sizes(maxRecordsPerPartition="4") == [3, 3, 4]
    assert sizes(minPartitions="2") == [5, 5]
    assert sizes(maxRecordsPerPartition="4", minPartitions="5") == [1, 2, 1, 2, 2, 2]


def test_questions_of_offsets_are_asked_again(
    broker: TestBroker, admin: sync.Admin, producer: sync.Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.create_topics({"again": 1})
    fill(producer, "again", 1)
    fails = [3]
    describe = sync.Admin.describe_topics

    def failing(client: sync.Admin, names: list[str]) -> Any:
        if fails[0]:
            fails[0] -= 1
            raise errors.RequestTimedOut("planned")
        return describe(client, names)

    monkeypatch.setattr(sync.Admin, "describe_topics", failing)
    patient = {"fetchOffset.numRetries": "2", "fetchOffset.retryIntervalMs": "1"}
    with pytest.raises(errors.RequestTimedOut, match="planned"):
        Query(broker, subscribe="again", **patient).batch()
    fails[0] = 2
    assert Query(broker, subscribe="again", **patient).batch() == [1]


def test_a_checkpoint_of_sparks_own_kafka_source_is_gone_on_with(
    broker: TestBroker, admin: sync.Admin, producer: sync.Producer
) -> None:
    admin.create_topics({"taken-over": 2})
    fill(producer, "taken-over", 0, 1, 2)
    fill(producer, "taken-over", 10, partition=1)
    query = Query(broker, subscribe="taken-over", startingOffsets="latest")
    first, second = {"taken-over": {"0": 1, "1": 0}}, {"taken-over": {"0": 2, "1": 1}}
    assert sorted(values_of(query.stream, query.stream.partitions(first, second))) == [1, 10], "planned by theirs"
    query.stands = second
    assert query.batch() == [2]
    assert query.stands["v"] == 1
    with pytest.raises(ConfigurationError, match="sources/0/0 as startingOffsets"):
        query.stream.partitions(INITIAL, first)
    given = reader(broker, subscribe="taken-over", startingOffsets='{"taken-over": {"0": 0, "1": 0}}')
    assert values_of(given, given.partitions(INITIAL, first)) == [0]


@pytest.mark.parametrize(("ids", "expected"), [(True, [7]), (False, [1, 2, 7])])
def test_a_stream_that_stands_behind_the_logs_end_is_told(
    broker: TestBroker, admin: sync.Admin, producer: sync.Producer, ids: bool, expected: list[int]
) -> None:
    """With the topic's id it is the same log, shortened; without it may be another one, of which nothing was read."""
    topic = f"shortened-{ids}"
    admin.create_topics({topic: 1})
    fill(producer, topic, 1, 2)
    query = Query(broker, subscribe=topic)
    stands: dict[str, Any] = {"v": 1, "t": {topic: {"0": 50}}}
    if ids:
        stands["ids"] = {topic: topic_id_text(admin.describe_topics([topic])[topic].topic_id)}
    query.stands = stands
    with pytest.raises(DataLoss, match="the stream stands at 50, the log ends at 2"):
        query.batch()
    query.restart(failOnDataLoss="false")
    found = query.batch()
    fill(producer, topic, 7)
    assert found + query.batch() == expected


def test_a_process_keeps_a_few_clients(broker: TestBroker, admin: sync.Admin, producer: sync.Producer) -> None:
    admin.create_topics({"many": 1})
    fill(producer, "many", 1)
    for i in range(kept_admins.CLIENTS_MAX + 2):
        assert Query(broker, subscribe="many", **{"kafka.client.id": f"many-{i}"}).batch() == [1]
    assert len(kept_admins._admins) == len(source._consumers) == kept_admins.CLIENTS_MAX
    assert source._topic_ids.keys() == source._consumers.keys()
