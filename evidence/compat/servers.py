"""Servers for programs outside this process: one `oncelog serve`, or one Apache Kafka, with the same settings."""

from __future__ import annotations

import contextlib
import pathlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from evidence.differential.brokers import ApacheKafkaNode
from evidence.world.ports import free_port

ONCELOG, KAFKA = "oncelog", "kafka"
CONFIG = {
    "num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    # a member of a streams group that was killed is missed soon
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "500",
}
STOP_S = 60
NOT_ALL_RUN = 77  # exit status: what could be run passed


@contextlib.contextmanager
def oncelog(log: pathlib.Path, *, advertised_port: int | None = None) -> Iterator[int]:
    """One `oncelog serve`, its words in `log`: the port it listens on."""
    port = free_port()
    config = CONFIG | {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{advertised_port or port}"}
    settings = [text for key, value in config.items() for text in ("-c", f"{key}={value}")]
    command = [sys.executable, "-m", "oncelog", "serve", "--ephemeral", "--listen", f"127.0.0.1:{port}", *settings]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as stderr:
        broker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr)
        try:
            assert broker.stdout is not None
            assert broker.stdout.readline().startswith(b"ready"), log.read_text()
            yield port
        finally:
            broker.send_signal(signal.SIGTERM)
            broker.wait(STOP_S)


@contextlib.contextmanager
def apache_kafka(launcher: str, *, advertised_port: int | None = None) -> Iterator[int]:
    """One Apache Kafka with what its release has, nothing unstable: the port it listens on."""
    with tempfile.TemporaryDirectory(prefix="oncelog-compat-") as directory:
        config = CONFIG | {"unstable.api.versions.enable": "false"}
        if advertised_port is not None:
            config["advertised.listeners"] = f"PLAINTEXT://127.0.0.1:{advertised_port}"
        with ApacheKafkaNode(pathlib.Path(directory), launcher, config) as node:
            yield node.address[1]
