"""A secured test broker in one call, with our clients, librdkafka, the command line and a dual writer."""

from __future__ import annotations

import json
import sqlite3
import time
from pathlib import Path
from typing import Any

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


@pytest.mark.parametrize(
    "arguments",
    [{"security": "TLS"}, {"security": "SSL", "mechanism": "GSSAPI"}, {"security": "SSL", "mechanism": ["PLAIN"]}],
)
def test_what_there_is_not(arguments: dict[str, str]) -> None:
    with pytest.raises(errors.ConfigurationError, match="expected one of"):
        TestBroker(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("users", "match"),
    [
        ({"a": None}, "the password of 'a' .* must be text"),
        ({"a": ""}, "the password of 'a' .* must be text, not empty"),
        ({"a": b"x"}, "it is a bytes"),
        ({"a": "s3cret\0"}, "without NUL"),
        (["a"], "users must be a mapping of names to passwords, not a list"),
        ("a", "not a str"),
        ({}, "name one at least"),
        ({"": "x"}, "the name '' .* must be text, not empty"),
        ({1: "x"}, "the name 1 .* must be text"),
        ({"a\0b": "x"}, "without control characters"),
        ({"a\nb": "x"}, "without control characters"),
        ({"\ud800": "x"}, "must be text"),
    ],
)
@pytest.mark.parametrize("security", ["SSL", "mTLS", "SASL_PLAINTEXT"])
def test_wrong_users_are_told_in_one_line(security: str, users: Any, match: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=match) as told:
        TestBroker(security=security, users=users)
    assert "\n" not in str(told.value)
    assert "s3cret" not in str(told.value)


@pytest.mark.parametrize("name", ["a b", 'a"b', "a=b", "a;b"])
def test_names_that_no_jaas_line_can_have(name: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=r"mechanism=PLAIN.*SCRAM-SHA-256"):
        TestBroker(security="SASL_PLAINTEXT", mechanism="PLAIN", users={name: "x"})


@pytest.mark.parametrize("name", ["a,b", "a=b", "a+b", " a", "#a", "a" * 65])
def test_names_that_no_certificate_can_have(name: str) -> None:
    with pytest.raises(errors.InvalidArgument, match="with mTLS the name"):
        TestBroker(security="mTLS", users={name: "x"})


ODD = ["a/b", "../../a", "a b", "ä", "x" * 64]


def principal_of(options: dict[str, Any]) -> str:
    """As the broker sees it: a token's owner is who asks for one."""
    with sync.Admin(**options) as admin:
        return str(admin.create_delegation_token().owner)


@pytest.mark.parametrize(("security", "mechanism"), [("mTLS", "PLAIN"), ("SASL_PLAINTEXT", "SCRAM-SHA-256")])
def test_odd_names_come_in_as_they_are(security: str, mechanism: str) -> None:
    config = {"delegation.token.secret.key": "0123456789abcdef0123456789abcdef"}
    with TestBroker(config, security=security, mechanism=mechanism, users=dict.fromkeys(ODD, "x")) as broker:
        for name in ODD:
            assert principal_of(broker.client_options(name)) == f"User:{name}"


@pytest.mark.parametrize(
    ("security", "mechanism"), [("mTLS", "PLAIN"), ("SASL_SSL", "PLAIN"), ("SASL_SSL", "OAUTHBEARER")]
)
def test_a_user_that_there_is_not(security: str, mechanism: str) -> None:
    nobodies: list[Any] = ["nobody", "", "a/b", "a\0b", 7]
    with TestBroker(security=security, mechanism=mechanism, users={"alice": "a", "bob": "b"}) as broker:
        for name in nobodies:
            with pytest.raises(errors.InvalidArgument, match=r"user: there is no .*; there are alice, bob"):
                broker.client_options(name)
            if mechanism == "OAUTHBEARER":
                with pytest.raises(errors.InvalidArgument, match="there are alice, bob"):
                    broker.token(name)


def test_users_without_security_log_in_nowhere() -> None:
    with pytest.raises(errors.InvalidArgument, match="nobody logs in without security"):
        TestBroker(users={"alice": "a"})
    with pytest.raises(errors.InvalidArgument, match="mechanism='PLAIN': nobody logs in without security"):
        TestBroker(mechanism="PLAIN")
    with pytest.raises(errors.InvalidArgument, match="nobody logs in without security"):
        TestBroker().client_options("alice")


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
