"""Clients of commands: a broker that answers no more holds up a command no longer than it was told to wait."""

from __future__ import annotations

import asyncio
import json
import logging
import pathlib
import socket

import pytest

from oncelog.cli import clients
from oncelog.cli.clients import open_consumer
from oncelog.cli.command import Settings
from oncelog.client.admin.admin import Admin
from oncelog.client.cluster.each_leader import Unreadable
from oncelog.client.consumer.consumer import Consumer
from oncelog.errors import RequestTimedOut
from oncelog.testing import TestBroker
from oncelog.types import TopicPartition
from tests.cli.world import Cli, cli_as, oncelog


@pytest.mark.parametrize(("timeout", "goodbye_ms"), [("2s", 1000), ("30s", 5000)])
def test_a_consumer_that_leaves_waits_for_a_part_of_the_timeout(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, timeout: str, goodbye_ms: int
) -> None:
    """It waited for request.timeout.ms, 30 s, whatever --timeout said."""
    waited, stop = [], Consumer.stop

    async def noted(self: Consumer, timeout_ms: int | None = None) -> None:
        waited.append(timeout_ms)
        await stop(self, timeout_ms)

    monkeypatch.setattr(Consumer, "stop", noted)
    topic = f"goodbye-{goodbye_ms}"
    cli.create(topic)
    cli("produce", topic, stdin="x\n")
    assert cli("consume", topic, "--group", topic, "-e", "--timeout", timeout).stdout == "x\n"
    assert waited == [goodbye_ms]


def test_when_no_leader_answers_nothing_else_is_asked(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each further question would take the whole timeout again."""

    async def unanswered(
        _: Admin, partitions: dict[TopicPartition, object], *, unreadable: Unreadable
    ) -> dict[object, object]:
        unreadable.update({where: RequestTimedOut("list offsets: not done") for where in partitions})
        monkeypatch.setattr(Admin, "describe_topics", None)  # not to be called any more
        return {}

    monkeypatch.setattr(Admin, "list_offsets", unanswered)
    cli.create("unanswered")
    result = cli("consume", "unanswered", "-e", "-o", "json", status=1)
    assert result.stderr.startswith("error: REQUEST_TIMED_OUT: list offsets: not done")


@pytest.mark.parametrize("timeout", ["2s", "5m"])
def test_one_line_says_that_nobody_listens_and_why(monkeypatch: pytest.MonkeyPatch, timeout: str) -> None:
    """With the default timeout the reason stood in a line of its own, and machines were not told it.

    With a short one, whether the client's time ended first or the command's decided what the error was called.
    """
    monkeypatch.setattr(clients, "CONNECT_TIMEOUT_MS", 2_000)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{nobody.getsockname()[1]}"
        result = oncelog("-b", where, "topics", "list", "--timeout", timeout, "-o", "json")
    (line,) = result.stderr.splitlines()
    said = json.loads(result.stdout)
    assert (result.exit_code, said["error"]) == (1, "REQUEST_TIMED_OUT")
    for text in (line, said["message"]):
        assert f"cannot connect to {where}" in text


@pytest.mark.parametrize("words", [("topics", "list"), ("consume", "t", "-e"), ("produce", "t")])
def test_a_login_that_is_refused_later_than_a_command_waits_is_named(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """It said `no answer from`, as of a broker that is not there."""
    monkeypatch.setattr(clients, "CONNECT_TIMEOUT_MS", 500)
    config = {"connection.failed.authentication.delay.ms": "3600000", "oncelog.authentication.timeout.ms": "86400000"}
    with TestBroker(config, security="SASL_PLAINTEXT", mechanism="PLAIN", users={"bob": "b"}) as broker:
        bob = cli_as(broker, "bob", tmp_path)
        settings = tmp_path / "bob.properties"
        settings.write_text(settings.read_text().replace('password="b"', 'password="wrong"'))
        told = bob(*words, stdin="x\n", status=1).stderr
    assert "connect to the cluster: not done within 500 ms; last error: " in told
    assert "has not answered the login; a failed one is answered late" in told
    assert "no answer from" not in told


def test_what_else_a_client_says_while_it_starts_is_said(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    start = Admin.start

    async def warned(self: Admin) -> None:
        logging.getLogger("oncelog.client").warning("a token ends soon")
        await start(self)

    monkeypatch.setattr(Admin, "start", warned)
    assert cli("topics", "list").stderr.splitlines()[0] == "a token ends soon"


def test_an_empty_address_is_no_other_broker() -> None:
    """`-b "$BROKER"` with a variable that is not set went to the one on this machine."""
    for more in ((), ("-o", "json")):
        result = oncelog("-b", "", "topics", "delete", "x", "-y", *more)
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
        assert "bootstrap_servers='': expected HOST:PORT" in result.stderr


@pytest.mark.parametrize("option", ["--timeout", "--interval"])
def test_no_time_at_all_is_refused_by_the_options_name(option: str) -> None:
    result = oncelog("topics", "list", option, "0s")
    assert result.exit_code == 2
    assert f"Invalid value for '{option}': must be more than 0" in result.stderr


@pytest.mark.parametrize("propagates", [True, False])
def test_two_that_connect_at_a_time_leave_the_log_as_it_was(propagates: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second to come was the last to go: what a client said after that was heard by nobody."""
    logger = logging.getLogger("oncelog.client")
    monkeypatch.setattr(logger, "propagate", propagates)
    first, second = clients._kept(), clients._kept()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert logger.propagate is False
    second.__exit__(None, None, None)
    assert logger.propagate is propagates


def test_who_reads_makes_no_topic(cli: Cli) -> None:
    """Not even while the topic is deleted that it reads."""

    async def may_create(**properties: str) -> bool:
        settings = Settings(bootstrap_servers=cli.bootstrap_servers, properties=properties)
        async with open_consumer(settings, "clients-nosuch", group_id="clients-reader") as consumer:
            return consumer._config.allow_auto_create_topics

    assert not asyncio.run(may_create())
    assert asyncio.run(may_create(**{"allow.auto.create.topics": "true"})), "who wants it says so"
