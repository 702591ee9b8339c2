"""A secured test broker in one call, with our clients, librdkafka, the command line and a dual writer."""

from __future__ import annotations

import json
import sqlite3
import time
from pathlib import Path

import confluent_kafka
import pytest
from tests.cli.world import oncelog

from oncelog import errors, sync
from oncelog.recipes import SqliteDatabase
from oncelog.recipes.sync import DualWriter
from oncelog.testing import TestBroker

WAIT_S = 60
READING: dict[str, str] = {"auto_offset_reset": "earliest", "isolation_level": "read_committed", "group_id": "g"}


@pytest.mark.parametrize(
    ("security", "mechanism"),
    [
        ("SSL", "PLAIN"),
        ("mTLS", "PLAIN"),
        ("SASL_PLAINTEXT", "PLAIN"),
        ("SASL_PLAINTEXT", "SCRAM-SHA-512"),
        ("SASL_SSL", "PLAIN"),
        ("SASL_SSL", "SCRAM-SHA-256"),
        ("SASL_SSL", "OAUTHBEARER"),
    ],
)
def test_one_call_makes_all(security: str, mechanism: str) -> None:
    with TestBroker(security=security, mechanism=mechanism, users={"alice": 'a"b\\c', "bob": "b"}) as broker:
        for user in ("alice", "bob"):
            options = broker.client_options(user)
            with sync.Producer(**options, transactional_id=user) as producer, producer.transaction():
                producer.send("t", user.encode())
        dotted = {key.replace("_", "."): value for key, value in broker.client_options().items()}
        if dotted.pop("sasl.oauth.token.provider", None) is not None:
            dotted["oauth_cb"] = lambda _: (broker.token(), time.time() + 600)
        reading = {"group.id": "g", "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
        consumer = confluent_kafka.Consumer(dotted | reading)
        consumer.subscribe(["t"])
        values, deadline = [], time.monotonic() + WAIT_S
        while len(values) < 2 and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                values.append(message.value())
        consumer.close()
        assert values == [b"alice", b"bob"]


def test_tokens_are_there_with_oauthbearer_only() -> None:
    with pytest.raises(errors.ConfigurationError, match="OAUTHBEARER"):
        TestBroker().token()
    with TestBroker(security="SASL_PLAINTEXT") as broker, pytest.raises(errors.ConfigurationError, match="OAUTHBEARER"):
        broker.token()


def test_who_does_not_show_who_he_is_does_not_come_in() -> None:
    with TestBroker(security="SASL_PLAINTEXT") as broker:
        options = broker.client_options()
        with pytest.raises(errors.AuthenticationFailed):
            sync.Admin(**options | {"sasl_password": "wrong"}).start()
        nobody = {"bootstrap_servers": broker.bootstrap_servers, "default_api_timeout_ms": 500}
        with pytest.raises(errors.RequestTimedOut, match="security_protocol=SASL_"):
            sync.Admin(**nobody).start()


@pytest.mark.parametrize("arguments", [{"security": "TLS"}, {"security": "SSL", "mechanism": "GSSAPI"}])
def test_what_there_is_not(arguments: dict[str, str]) -> None:
    with pytest.raises(errors.ConfigurationError, match="expected one of"):
        TestBroker(**arguments)  # type: ignore[arg-type]


def properties_of(broker: TestBroker, path: Path, user: str) -> Path:
    options = broker.client_options(user)
    path.write_text("".join(f"{key.replace('_', '.')}={value}\n" for key, value in options.items()))
    path.chmod(0o600)
    return path


def test_the_command_line_with_a_file(tmp_path: Path) -> None:
    with TestBroker(security="SASL_SSL") as broker:
        file = properties_of(broker, tmp_path / "client.properties", "alice")
        result = oncelog("--command-config", file, "topics", "create", "orders", "-p", "2")
        assert result.exit_code == 0, result.stderr
        result = oncelog("--command-config", file, "topics", "list", "-o", "json")
        assert [each["topic"] for each in json.loads(result.stdout)] == ["orders"]
        file.write_text(file.read_text().replace("sasl.password=", "sasl.password=not-"))
        result = oncelog("--command-config", file, "topics", "list")
        assert result.exit_code == 1
        assert "invalid credentials" in result.stderr
        assert "not-" not in result.stderr
        assert "Traceback" not in result.stderr


def test_a_dual_writer_over_tls_and_scram(tmp_path: Path) -> None:
    with TestBroker(security="SASL_SSL") as broker:
        file, options = str(tmp_path / "orders.db"), broker.client_options()
        with sqlite3.connect(file) as connection:
            connection.execute("CREATE TABLE orders (what TEXT)")
        connection.close()
        with SqliteDatabase(file) as database:
            database.migrate()
            with DualWriter(database, transactional_id="orders", **options) as writer, writer.transaction() as tx:
                tx.database.execute("INSERT INTO orders VALUES ('apples')")
                tx.send("orders", value=b"apples")
        with sync.Consumer("orders", **options, **READING) as consumer:
            assert [record.value for record in consumer.poll(timeout_ms=60_000)] == [b"apples"]
