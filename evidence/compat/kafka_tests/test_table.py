"""The table of Kafka's tests: what counts as worse, what is said of skipped tests, how brokers are asked for."""

from __future__ import annotations

import pathlib
import socket

import pytest

from evidence.compat.kafka_tests import table
from evidence.compat.kafka_tests.clusters import LEFT_OUT, OncelogBrokers, Served, decoded, encoded
from evidence.compat.kafka_tests.runs import Result, read
from evidence.compat.servers import KAFKA, ONCELOG

FOUND = {
    KAFKA: [Result("passed", 1.0, "A.one", ""), Result("failed", 1.0, "A.two", "no"), Result("skipped", 0.0, "A.three", "why")],
    ONCELOG: [Result("failed", 1.0, "A.one", "x"), Result("failed", 1.0, "A.two", "y"), Result("skipped", 0.0, "A.three", "why")],
}  # fmt: skip


def test_worse_is_what_apache_kafka_passes_and_oncelog_fails():
    assert table.worse(FOUND) == ["A.one"]
    assert table.worse({ONCELOG: FOUND[ONCELOG]}) == ["A.one", "A.two"]
    assert table.worse({KAFKA: FOUND[KAFKA]}) == []


def test_what_apache_kafka_passes_and_oncelog_never_reports_is_worse_too():
    assert table.worse({KAFKA: FOUND[KAFKA], ONCELOG: []}) == ["A.one"]


def test_what_is_otherwise_on_purpose_is_not_worse(monkeypatch, capsys):
    monkeypatch.setattr(table, "ON_PURPOSE", {"A.one": "for a reason"})
    assert table.worse(FOUND) == []
    assert table.show(FOUND, 1.0) == []
    assert "failed with oncelog: A.one: on purpose: for a reason\n" in capsys.readouterr().out


def test_summary_counts_what_ran_and_what_did_not():
    assert table.summary(FOUND, 61.4) == (
        "kafka-tests: Apache Kafka 1 of 2 passed, 1 skipped; oncelog 0 of 2 passed, 1 skipped; "
        "1 that only oncelog fails (61 s)"
    )


def test_skipped_tests_stand_with_their_reason_and_with_the_broker_where_it_is_one(capsys):
    found = FOUND | {ONCELOG: [FOUND[ONCELOG][0], Result("skipped", 0.0, "A.two", "why"), FOUND[ONCELOG][2]]}
    assert table.skipped(found) == {"why": ["A.three", "A.two (with oncelog)"]}
    assert table.show(found, 1.0) == ["A.one"]
    printed = capsys.readouterr().out
    assert "skipped, why: A.three, A.two (with oncelog)\n" in printed
    assert "failed with oncelog: A.one: x\n" in printed


def test_read_names_a_test_and_its_invocation():
    lines = (
        "passed\t1500\tkafka.server.SomeTest\ttestIt\ttestIt()\t\n"
        "failed\t20\tkafka.server.SomeTest\ttestIt\ttestIt [2]\tjava.lang.AssertionError: no\n"
        "skipped\t0\tkafka.test.api.OtherTest\ttestIt\ttestIt(String).persister=org.apache.kafka.server.share.persister.X\twhy\n"
        "failed\t5\tkafka.server.SomeTest\t\tSomeTest\tno broker\n"
    )
    assert list(read(lines)) == [
        Result("passed", 1.5, "SomeTest.testIt", ""),
        Result("failed", 0.02, "SomeTest.testIt [2]", "java.lang.AssertionError: no"),
        Result("skipped", 0.0, "OtherTest.testIt X", "why"),
        Result("failed", 0.005, "SomeTest", "no broker"),
    ]


def test_counts_for_the_page():
    assert table.counted({server: {"a-suite": results} for server, results in FOUND.items()}) == {
        "a-suite": {KAFKA: "1 of 2", ONCELOG: "0 of 2", "skipped": 1}
    }


def test_properties_survive_the_line_that_brokers_are_asked_in():
    properties = {"a.key": "b=c", "other.key": ""}
    assert decoded(encoded(properties)) == properties
    assert decoded(".") == {}


class Recorded:
    """Brokers that only note what they were asked."""

    def __init__(self):
        self.asked = []

    def start(self, properties):
        self.asked.append(dict(properties))
        return "ready 127.0.0.1:1 7"

    def stop(self, number):
        self.asked.append(number)


def _ask(port, line):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(line.encode() + b"\n")
        return connection.makefile().readline().strip()


def test_served_brokers_start_and_stop_by_a_line():
    brokers = Recorded()
    with Served(brokers) as served:
        assert _ask(served.port, "start " + encoded({"key": "value"})) == "ready 127.0.0.1:1 7"
        assert _ask(served.port, "stop 7") == "stopped"
    assert brokers.asked == [{"key": "value"}, "7"]


@pytest.mark.parametrize("protocols", ["classic", "classic,consumer"])
def test_a_broker_without_the_new_group_protocols_is_not_to_be_had(protocols, tmp_path: pathlib.Path):
    brokers = OncelogBrokers(tmp_path / "log", frozenset())
    asked = {"group.coordinator.rebalance.protocols": protocols}
    assert brokers.start(asked) == f"skip needs a broker without some of the group protocols ({protocols})"


def test_each_key_that_is_left_out_has_a_reason():
    assert all(LEFT_OUT.values())
