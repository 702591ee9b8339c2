"""Java's clients push their metrics to oncelog, and /metrics shows them; both brokers say the same of who may push when.

Our clients beside Apache Kafka without a receiver push nothing. `kafka-client-metrics` makes the subscription.
ONCELOG_KAFKA_BOOTSTRAP names a running Apache Kafka (`make conformance`).
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import urllib.request

import pytest

from evidence.compat.apache import ApacheTools, find_launcher
from evidence.compat.telemetry_conversation import talk
from evidence.world.broker import Client, broker_and_client, run
from evidence.world.ports import free_port
from oncelog import errors, sync
from oncelog.testing.broker import TestBroker

pytestmark = [pytest.mark.compat, pytest.mark.slow]
HERE = pathlib.Path(__file__).parent
JARS = pathlib.Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "oracle-apache-kafka" / "4.3.0"
RECORDS = 300
PUSHED = re.compile(r'oncelog_client_(?:counter_total|gauge)\{metric="([^"]+)",client_id="([^"]+)",.*\} (\S+)')


def shown(port):
    """By client id and name, what is shown at /metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        return {(found[2], found[1]): float(found[3]) for found in PUSHED.finditer(page.read().decode())}


def test_javas_clients_push_and_the_broker_shows_it():
    port = free_port()
    with TestBroker({"metrics.listen": f"127.0.0.1:{port}"}) as broker:
        tools = ApacheTools(find_launcher(), broker.bootstrap_servers)
        subscription = ("--name", "java", "--metrics", "*", "--interval", 1000)
        tools("ClientMetricsCommand", "--alter", *subscription, "--match", "client_software_name=apache-kafka-java")
        described = "\n".join(tools("ClientMetricsCommand", "--describe", "--name", "java"))
        assert "interval.ms=1000" in described
        assert tools("ClientMetricsCommand", "--list") == ["java"]
        tools("TopicCommand", "--create", "--topic", "t", "--partitions", 1, "--replication-factor", 1)
        load = (
            "--topic",
            "t",
            "--num-records",
            RECORDS,
            "--record-size",
            10,
            "--throughput",
            RECORDS / 3,
        )  # for three intervals
        tools("ProducerPerformance", *load, "--command-property", "client.id=jp")
        some = ("--topic", "t", "--from-beginning", "--max-messages", RECORDS, "--timeout-ms", 60_000)
        read = tools("consumer.ConsoleConsumer", *some, "--command-property", "client.id=jc")
        assert len(read) == RECORDS
        found = shown(port)
        assert 0 < found["jp", "org.apache.kafka.producer.record.send.total"] <= RECORDS
        assert found["jp", "org.apache.kafka.producer.connection.creation.total"] >= 1
        assert found["jc", "org.apache.kafka.consumer.fetch.manager.records.consumed.total"] == RECORDS
        with sync.Producer(bootstrap_servers=broker.bootstrap_servers, client_id="ours") as producer:
            producer.send_and_wait("t", b"x")
            assert producer.client_instance_id()
        assert not [name for name in shown(port) if name[0] == "ours"], "the subscription is about Java's clients"


@pytest.mark.skipif(not os.environ.get("ONCELOG_KAFKA_BOOTSTRAP"), reason="`make conformance` starts Apache Kafka")
def test_apache_kafka_without_a_receiver_is_asked_nothing(name):
    with sync.Producer(bootstrap_servers=os.environ["ONCELOG_KAFKA_BOOTSTRAP"]) as producer:
        assert producer.send_and_wait(name, b"x").offset == 0
        with pytest.raises(errors.UnsupportedVersion, match="takes no metrics of clients"):
            producer.client_instance_id(timeout_ms=10_000)


async def said_by_oncelog(directory):
    async with broker_and_client(directory, telemetry_max_bytes=300) as (_, client):
        return await talk(client)


async def said_by(port):
    client = await Client.connect_to("127.0.0.1", port)
    try:
        return await talk(client)
    finally:
        client.close()


def receiver(directory):
    """A jar with the plugin without which Apache Kafka offers no telemetry; as an agent it is on the class path."""
    source, jars = HERE / "apache_kafka" / "TelemetryReceiver.java", str(JARS / "*")
    subprocess.run(["javac", "-nowarn", "-cp", jars, "-d", directory, source], check=True, capture_output=True)
    (directory / "manifest").write_text("Premain-Class: TelemetryReceiver\n")
    made = ["jar", "cfm", "receiver.jar", "manifest", "TelemetryReceiver.class"]
    subprocess.run(made, check=True, cwd=directory, capture_output=True)
    return directory / "receiver.jar"


def test_who_may_ask_and_push_when_is_as_in_apache_kafka_with_a_receiver(tmp_path):
    """All that is said of a client's metrics, but for the deltas that Apache Kafka asks for."""
    launcher, port, node = find_launcher(), free_port(), str(tmp_path / "node")
    (tmp_path / "plugin").mkdir()
    heap = f"-Xmx512m -Xms256m -javaagent:{receiver(tmp_path / 'plugin')}"
    config = ("metric.reporters=TelemetryReceiver", "telemetry.max.bytes=300")
    started = [launcher, "start", node, str(port), *config]
    subprocess.run(started, check=True, capture_output=True, env={**os.environ, "KAFKA_HEAP": heap}, timeout=180)
    try:
        theirs = run(said_by(port))
    finally:
        subprocess.run([launcher, "stop", node], check=True, capture_output=True, timeout=60)
    ours = run(said_by_oncelog(tmp_path / "ours"))
    assert len(ours) > 40
    assert ours == theirs
