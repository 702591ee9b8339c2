"""A broker that a test kills, pauses and restarts, and whose time it moves."""

from __future__ import annotations

import pathlib
import signal
import threading
from collections.abc import Callable

import pytest

from oncelog import errors, sync
from oncelog.testing import (
    TestBroker,
    assert_committed_once,
    assert_no_open_transactions,
    broker_process,
    committed_records,
    open_transactions,
)

MINUTE_MS, DAY_MS = 60_000, 86_400_000


def until(what: Callable[[], object]) -> None:
    """Until it is true: what became due is worked on in the broker's own time."""
    turn = threading.Event()
    for _ in range(2000):
        if what():
            return
        turn.wait(0.01)
    raise AssertionError("not within twenty seconds")


def test_a_killed_broker_comes_back_with_what_it_acknowledged():
    with TestBroker(process=True) as broker:
        address = broker.bootstrap_servers
        with sync.Producer(bootstrap_servers=address, transactional_id="x") as producer:
            with producer.transaction():
                producer.send("t", b"1", key=b"a")
            producer.begin_transaction()
            producer.send("t", b"2", key=b"b").result()
            broker.kill()
            assert not broker.is_running
            with pytest.raises(errors.IllegalState, match="does not run"):
                broker.kill()
            broker.restart()
            assert broker.bootstrap_servers == address
            producer.commit_transaction()  # it connects again, and the broker remembers
            assert_committed_once(broker, "t", ["a", "b"], only=True)
            producer.begin_transaction()
            producer.send("t", b"3").result()
            broker.advance(10 * MINUTE_MS)
            until(lambda: not open_transactions(broker))
            with pytest.raises(errors.KafkaError):
                producer.commit_transaction()


def test_a_paused_broker_answers_nobody_until_it_is_resumed():
    with TestBroker(process=True) as broker, sync.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("t", b"before").result()
        broker.pause()
        assert not broker.is_running
        sent = producer.send("t", b"meanwhile")
        with pytest.raises(TimeoutError):
            sent.result(timeout_ms=100)
        broker.resume()
        assert sent.result(timeout_ms=20_000).offset == 1
        broker.pause()  # and left so
    assert not broker.is_running


def test_a_process_that_does_not_end_is_killed(monkeypatch):
    monkeypatch.setattr(broker_process, "STOP_TIMEOUT_S", 0.5)
    with TestBroker(process=True) as broker:
        process = broker._process._process
        process.send_signal(signal.SIGSTOP)  # and nobody knows of it: it will not be resumed before
    assert process.poll() == -signal.SIGKILL


def test_a_process_that_cannot_start_says_why(capfd):
    with (
        pytest.raises(RuntimeError, match=r"did not start: ConfigInvalid.*lets everybody in"),
        TestBroker({"listeners": "PLAINTEXT://0.0.0.0:0"}, process=True),
    ):
        pass
    assert "Warning" not in capfd.readouterr().err


def test_a_thread_is_not_killed():
    with TestBroker() as broker:
        for call in (broker.kill, broker.pause, broker.resume):
            with pytest.raises(errors.IllegalState, match="process=True"):
                call()
    with pytest.raises(errors.IllegalState, match="does not run"):
        broker.advance(1)
    with pytest.raises(errors.IllegalState, match="was not started"):
        TestBroker().restart()
    with pytest.raises(errors.InvalidArgument, match="security"):
        TestBroker(process=True, security="SASL_PLAINTEXT")


def test_a_restart_keeps_address_data_and_time():
    with TestBroker() as broker:
        address = broker.bootstrap_servers
        with sync.Producer(bootstrap_servers=address) as producer:
            producer.send("t", b"1", key=b"a").result()
            broker.advance(DAY_MS)
            broker.restart()
            assert broker.bootstrap_servers == address
            producer.send("t", b"2", key=b"b").result(timeout_ms=20_000)
        assert_committed_once(broker, "t", ["a", "b"])
        with pytest.raises(errors.InvalidArgument, match="duration_ms"):
            broker.advance(-1)
        with sync.Producer(bootstrap_servers=address, transactional_id="late") as producer:
            producer.begin_transaction()
            producer.send("t", b"3").result()
            started_ms = open_transactions(broker)[0].start_ms
            assert started_ms - committed_records_timestamp(broker) > DAY_MS / 2
            producer.abort_transaction()


def committed_records_timestamp(broker: TestBroker) -> int:
    """Of a record that a client timed, whose clock was not moved. (Read uncommitted would do as well.)"""
    with sync.Consumer("t", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        return next(consumer).timestamp_ms


def test_a_transaction_times_out_without_waiting():
    with (
        TestBroker() as broker,
        sync.Producer(
            bootstrap_servers=broker.bootstrap_servers, transactional_id="slow", transaction_timeout_ms=15 * MINUTE_MS
        ) as producer,
    ):
        producer.begin_transaction()
        producer.send("t", b"1").result()
        broker.advance(10 * MINUTE_MS)
        assert [each.state for each in open_transactions(broker)] == ["Ongoing"]
        broker.advance(6 * MINUTE_MS)
        until(lambda: not open_transactions(broker))
        with pytest.raises(errors.KafkaError):
            producer.commit_transaction()
        assert committed_records(broker, "t") == []


def test_a_member_that_is_silent_is_put_out():
    with (
        TestBroker() as broker,
        sync.Consumer(
            "t", group_id="g", bootstrap_servers=broker.bootstrap_servers, session_timeout_ms=45_000
        ) as consumer,
        sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        admin.create_topics(["t"])
        until(lambda: consumer.poll(timeout_ms=50) or consumer.assignment())
        broker.advance(46_000)
        until(lambda: not admin.describe_groups(["g"])["g"].members)


def test_retention_removes_what_is_old():
    config = {"log.retention.ms": str(DAY_MS), "log.retention.check.interval.ms": "1000"}
    with TestBroker(config) as broker, sync.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("t", b"1").result()
        assert len(committed_records(broker, "t")) == 1
        broker.advance(2 * DAY_MS)
        until(lambda: not committed_records(broker, "t"))


def test_nothing_is_open_where_all_was_decided():
    with TestBroker() as broker:
        with sync.Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="x") as producer:
            for _ in range(3):
                with producer.transaction():
                    producer.send("t", b"1")
            assert_no_open_transactions(broker)
            producer.begin_transaction()
            producer.send("t", b"2").result()
            with pytest.raises(AssertionError, match=r"1 open: 'x' Ongoing for .* t-0"):
                assert_no_open_transactions(broker.bootstrap_servers)
            producer.abort_transaction()
        assert_no_open_transactions(broker)


def test_data_is_kept_where_log_dirs_says(tmp_path):
    directory = tmp_path / "data"
    for count in (1, 2):
        with TestBroker({"log.dirs": str(directory)}) as broker:
            with sync.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
                producer.send("kept", b"x", key=str(count).encode()).result()
            assert len(committed_records(broker, "kept")) == count
    assert (directory / "kept-0").is_dir()


def test_a_path_object_is_taken(tmp_path):
    with TestBroker(data_dir=tmp_path / "data"):
        pass
    assert (tmp_path / "data" / "meta.properties").exists()


@pytest.mark.parametrize("data_dir", ["", " ", {}, 5, b"data"])
def test_what_names_no_directory_is_refused(data_dir):
    """An empty one was a temporary directory, removed at the end."""
    with pytest.raises(errors.InvalidArgument, match="data_dir must be "):
        TestBroker(data_dir=data_dir)


@pytest.mark.parametrize("process", [False, True])
@pytest.mark.parametrize(
    ("config", "says"),
    [
        (5, "config must be a mapping of Kafka's keys to values, not of type int"),
        ("", "its directory is the second argument: TestBroker"),
        ("x", "its directory is the second argument: TestBroker"),
        (pathlib.Path("x"), "its directory is the second argument: TestBroker"),
        ({5: 5}, "a key of config must be text"),
        ({"log.dirs": None}, "leave the key out for its default"),
        ({"nope": "1"}, "unknown config key 'nope'"),
        ({"num.partitions": "many"}, "num.partitions='many': expected a whole number"),
    ],
)
def test_a_wrong_config_is_told_where_it_is_given(config, says, process):
    with pytest.raises((errors.InvalidArgument, errors.ConfigurationError), match=says):
        TestBroker(config, process=process)


def test_a_broker_says_what_it_cannot_do():
    with pytest.raises(errors.InvalidArgument, match="its config is the first argument: TestBroker"):
        TestBroker(data_dir={"num.partitions": "3"})
    with pytest.raises(errors.InvalidArgument, match="process must be True or False"):
        TestBroker(process="yes")
    broker = TestBroker()
    with pytest.raises(errors.IllegalState, match="use `with`"):
        _ = broker.bootstrap_servers
    with broker:
        pass
    with pytest.raises(errors.IllegalState, match="make a new one"):
        broker.restart()
