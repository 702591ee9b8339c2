"""kafka-python: transactions of the old protocol, its group consumer, its admin client."""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
import time

import pytest

kafka = pytest.importorskip("kafka")
errors = pytest.importorskip("kafka.errors")

pytestmark = pytest.mark.compat
WAIT_S = 60  # for a hang


class Clients:
    """Makes clients of one broker; all are closed at the end."""

    def __init__(self, stack, bootstrap_servers, name):
        self.stack, self.bootstrap_servers, self.name = stack, bootstrap_servers, name

    def producer(self, transactional_id=None, **config):
        if transactional_id:
            config["transactional_id"] = f"{self.name}-{transactional_id}"
        producer = kafka.KafkaProducer(bootstrap_servers=self.bootstrap_servers, **config)
        self.stack.callback(producer.close, timeout=2)
        if transactional_id:
            producer.init_transactions()
        return producer

    def consumer(self, *topics, isolation_level="read_committed", **config):
        config = {"auto_offset_reset": "earliest", "enable_auto_commit": False} | config
        consumer = kafka.KafkaConsumer(
            *topics, bootstrap_servers=self.bootstrap_servers, isolation_level=isolation_level, **config
        )
        self.stack.callback(consumer.close)
        return consumer

    def read(self, topic, count, isolation_level="read_committed", partitions=1):
        """The values up to the end of every partition; there must come `count` of them."""
        consumer = self.consumer(isolation_level=isolation_level)
        where = [kafka.TopicPartition(topic, index) for index in range(partitions)]
        consumer.assign(where)
        values, deadline = [], time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=200).values():
                values += [record.value.decode() for record in records]
            at_end = all(consumer.position(tp) >= end for tp, end in consumer.end_offsets(where).items())
            if len(values) >= count and at_end:
                break
        return sorted(values) if partitions > 1 else values


@pytest.fixture
def clients(bootstrap_servers, name):
    with contextlib.ExitStack() as stack:
        made = Clients(stack, bootstrap_servers, name)
        made.admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap_servers)
        stack.callback(made.admin.close)
        yield made


def make_topic(clients, partitions=1):
    from kafka.admin import NewTopic

    clients.admin.create_topics([NewTopic(clients.name, partitions, 1)])
    return clients.name


@pytest.mark.parametrize("codec", [None, "gzip", "lz4", "zstd"])
def test_records_come_back_as_they_were_sent(clients, codec):
    topic = make_topic(clients)
    producer = clients.producer(compression_type=codec)
    sent = producer.send(topic, b"v" * 2000, key=b"k", headers=[("h", b"1")], timestamp_ms=1_700_000_000_000)
    assert sent.get(WAIT_S).offset == 0
    consumer = clients.consumer()
    consumer.assign([kafka.TopicPartition(topic, 0)])
    record = next(consumer)
    assert (record.key, record.value, list(record.headers)) == (b"k", b"v" * 2000, [("h", b"1")])
    assert record.timestamp == 1_700_000_000_000


def test_commit_shows_records_and_abort_hides_them(clients):
    topic = make_topic(clients, 2)
    producer = clients.producer("p")
    for index in range(6):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.send(topic, str(index).encode(), partition=partition).get(WAIT_S)
        if index % 3 == 1:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    assert clients.read(topic, 8, partitions=2) == ["0", "0", "2", "2", "3", "3", "5", "5"]
    assert len(clients.read(topic, 12, "read_uncommitted", partitions=2)) == 12


def test_interleaved_aborts_are_told_apart(clients):
    topic = make_topic(clients)
    a, b, plain = clients.producer("a"), clients.producer("b"), clients.producer()
    for index in range(3):
        a.begin_transaction()
        b.begin_transaction()
        for part in "xy":
            for producer, who in ((a, "a"), (b, "b"), (plain, "p")):
                producer.send(topic, f"{who}{index}{part}".encode(), partition=0).get(WAIT_S)
        (a.commit_transaction if index % 2 else a.abort_transaction)()
        (b.abort_transaction if index % 2 else b.commit_transaction)()
    expected = [f"{who}{i}{part}" for i in range(3) for part in "xy" for who in ("ap" if i % 2 else "bp")]
    assert clients.read(topic, 12) == expected


def test_a_newer_instance_fences_the_older(clients):
    topic = make_topic(clients)
    older = clients.producer("p")
    older.begin_transaction()
    older.send(topic, b"older", partition=0).get(WAIT_S)
    newer = clients.producer("p")
    with pytest.raises(errors.KafkaError):
        older.commit_transaction()
    newer.begin_transaction()
    newer.send(topic, b"newer", partition=0).get(WAIT_S)
    newer.commit_transaction()
    assert clients.read(topic, 1) == ["newer"]


def test_offsets_move_with_the_transaction(clients):
    topic = make_topic(clients, 2)
    producer = clients.producer("p")
    where, group = kafka.TopicPartition(topic, 0), f"{clients.name}-g"
    reader = clients.consumer(group_id=group)
    reader.assign([where])
    for offset, commits in ((5, False), (7, True), (9, False)):
        producer.begin_transaction()
        producer.send(topic, str(offset).encode(), partition=1).get(WAIT_S)
        producer.send_offsets_to_transaction({where: kafka.OffsetAndMetadata(offset, "", -1)}, group)
        (producer.commit_transaction if commits else producer.abort_transaction)()
    deadline = time.monotonic() + WAIT_S
    while reader.committed(where) != 7 and time.monotonic() < deadline:
        pass
    assert reader.committed(where) == 7
    assert clients.read(topic, 1, partitions=2) == ["7"]


def test_two_members_share_a_topic(clients):
    topic = make_topic(clients, 2)
    producer = clients.producer()
    for index in range(20):
        producer.send(topic, str(index).encode(), partition=index % 2)
    producer.flush(WAIT_S)
    members = [clients.consumer(topic, group_id=f"{clients.name}-g", heartbeat_interval_ms=300) for _ in range(2)]
    done = threading.Event()

    # As its users do, a thread each, and polls longer than a heartbeat: it drops a join that the end of a poll overtakes.
    # With one thread and 50 ms each round was overtaken by the other member's next heartbeat: 102 generations in 40 s.
    def poll_on(member):
        while not done.is_set():
            member.poll(timeout_ms=2_000, max_records=1)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        polling = [pool.submit(poll_on, each) for each in members]
        deadline = time.monotonic() + WAIT_S
        while {len(each.assignment()) for each in members} != {1} and time.monotonic() < deadline:
            assert not concurrent.futures.wait(polling, timeout=0.05).done
        done.set()
    assert [each.exception() for each in polling] == [None, None]
    assert [len(each.assignment()) for each in members] == [1, 1]
    assert members[0].assignment() != members[1].assignment()
