"""The global options: on both sides of a command's name, from a file, from the environment; asking before a change."""

from __future__ import annotations

import pathlib
import signal
from typing import Any

import click
import pytest
from click.testing import CliRunner

from oncelog.cli.command import Command, Group, Name, Settings, hint_for
from oncelog.cli.main import root
from oncelog.cli.signals import Signalled
from oncelog.errors import ConfigurationError, Network, ProducerFenced
from tests.cli.world import Cli


@click.group(cls=Group)
def group() -> None:
    """A group."""


@group.command("show", changes=True, watchable=True)
@click.pass_obj
async def show(settings: Settings) -> None:
    """Print what was given."""
    given = settings.client_config()
    click.echo(f"{given['bootstrap.servers']} {settings.output} {settings.timeout_ms} {given.get('acks')}")


@group.command("fail")
@click.argument("how")
async def fail(how: str) -> None:
    """Fail in a way of its own."""
    errors: dict[str, BaseException] = {
        "kafka": ProducerFenced("somebody newer"),
        "config": ConfigurationError("no such key"),
        "group": ExceptionGroup("several", [ProducerFenced("somebody newer")]),
        "interrupt": KeyboardInterrupt(),
        "terminate": Signalled(signal.SIGTERM),
        "os": FileNotFoundError(2, "No such file or directory", "x"),
        "bug": ZeroDivisionError("ours"),
    }
    raise errors[how]


def run(*arguments: str, **more: Any) -> Any:
    return CliRunner().invoke(group, arguments, **more)


def test_options_after_the_name_win_over_those_before() -> None:
    assert run("show").stdout == "127.0.0.1:9092 table 30000 None\n"
    assert run("-b", "a:1", "-o", "tsv", "show").stdout == "a:1 tsv 30000 None\n"
    assert run("-b", "a:1", "-o", "tsv", "show", "-b", "b:2", "--timeout", "1m").stdout == "b:2 tsv 60000 None\n"


def test_the_environment_is_the_last_to_be_asked() -> None:
    environment = {"ONCELOG_BOOTSTRAP_SERVERS": "env:1"}
    assert run("show", env=environment).stdout.startswith("env:1 ")
    assert run("-b", "a:1", "show", env=environment).stdout.startswith("a:1 ")
    assert run("show", "-b", "a:1", env=environment).stdout.startswith("a:1 ")


def test_a_setting_wins_over_the_file_and_an_option_over_both(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:1\nacks=all\n")
    arguments = ["--command-config", str(file)]
    assert run("show", *arguments).stdout == "file:1 table 30000 all\n"
    assert run("show", *arguments, "-X", "acks=1", "-X", "bootstrap.servers=x:1").stdout == "x:1 table 30000 1\n"
    assert run("show", *arguments, "-b", "b:1").stdout.startswith("b:1 ")


@pytest.mark.parametrize(
    ("how", "status", "text"),
    [
        ("kafka", 1, "error: PRODUCER_FENCED: somebody newer"),
        ("group", 1, "error: PRODUCER_FENCED: somebody newer"),
        ("config", 2, "Error: no such key"),
        ("interrupt", 130, "interrupted"),
        ("terminate", 143, "terminated"),
        ("os", 1, "error: [Errno 2] No such file or directory: 'x'"),
    ],
)
def test_errors_become_a_line_and_a_status(how: str, status: int, text: str) -> None:
    result = run("fail", how)
    assert (result.exit_code, result.stdout) == (status, "")
    assert result.stderr.strip() == text


def test_our_own_bugs_stay_tracebacks() -> None:
    assert isinstance(run("fail", "bug").exception, ZeroDivisionError)


def test_a_change_needs_yes_without_a_terminal() -> None:
    with pytest.raises(click.UsageError, match="--yes"):
        Settings().confirm("delete it", "it")
    assert Settings(yes=True).confirm("delete it", "it")
    assert not Settings(dry_run=True, yes=True).confirm("delete it", "it")


def test_on_a_terminal_the_name_is_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("oncelog.cli.command.asked", lambda _: "it")
    assert Settings().confirm("delete it", "it")
    monkeypatch.setattr("oncelog.cli.command.asked", lambda _: "something else")
    with pytest.raises(Exception, match="not confirmed"):
        Settings().confirm("delete it", "it")


def test_watching_goes_on_until_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def waited(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) >= 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("oncelog.cli.command.pause", waited)  # asyncio.sleep itself belongs to every thread's loop
    result = run("show", "--watch", "--interval", "7s")
    assert result.exit_code == 130
    assert result.stdout == "127.0.0.1:9092 table 30000 None\n" * 3
    assert waits == [7.0] * 3


def test_watching_survives_a_broker_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def waited(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) >= 2:
            raise KeyboardInterrupt

    @click.command("away", cls=Command, watchable=True)
    async def away() -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr("oncelog.cli.command.pause", waited)
    result = CliRunner().invoke(away, ["--watch"])
    assert (result.exit_code, len(waits)) == (130, 2)
    assert result.stderr.count("no broker listens at") == 2


def test_a_name_that_cannot_be_typed_is_typed_as_it_was_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """No terminal gives a newline inside of a line: the question shows it as an escape, and takes the escape."""
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("oncelog.cli.command.asked", lambda _: r"new\nline")
    assert Settings().confirm("end it", "new\nline")


def test_a_repair_command_goes_to_the_same_brokers() -> None:
    assert Settings().repair("transactions", "abort", "--topic", "a b") == "oncelog transactions abort --topic 'a b'"
    assert Settings(bootstrap_servers="h:1").repair("x") == "oncelog -b h:1 x"


def test_own_options_come_before_the_global_ones() -> None:
    assert isinstance(show, Command)
    text = run("show", "--help").stdout
    assert text.index("Options:") < text.index("Global options:")


def test_one_file_may_serve_all_kinds_of_clients(cli: Cli, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("acks=all\nauto.offset.reset=earliest\nlinger.ms=1\nisolation.level=read_committed\n")
    assert isinstance(cli.json("topics", "list", "--command-config", file), list)


def test_a_command_to_copy_names_what_it_is_about() -> None:
    command = Settings().repair("transactions", "force-terminate", "--transactional-id", "new\nline")
    assert command == "oncelog transactions force-terminate --transactional-id $'new\\x0aline'"


def test_a_name_that_looks_like_an_option_is_none() -> None:
    assert Settings().repair("groups", "describe", Name("g"), "--members") == "oncelog groups describe g --members"
    assert Settings(bootstrap_servers="h:1").repair("why", Name("--yes")) == "oncelog -b h:1 why -- --yes"
    assert Settings().repair("groups", "describe", Name("-g"), "--members") == "oncelog groups describe --members -- -g"


def test_half_a_surrogate_pair_is_no_files_name() -> None:
    result = CliRunner().invoke(root, ["reconcile", "\ud800"], prog_name="oncelog")
    assert (result.exit_code, type(result.exception)) == (2, SystemExit)
    assert "can be no file's name" in result.stderr


def test_a_hint_names_the_brokers_that_were_asked(tmp_path: pathlib.Path) -> None:
    """It named the default where a file had said which."""
    (tmp_path / "client.properties").write_text("bootstrap.servers=localhost:29880\n")
    settings = Settings(command_config=str(tmp_path / "client.properties"))
    assert (
        hint_for(Network("away"), settings)
        == "is a broker listening at localhost:29880? give another with -b HOST:PORT"
    )
    settings.properties["bootstrap.servers"] = "there:1"
    assert "at there:1?" in hint_for(Network("away"), settings)
    settings.bootstrap_servers = "here:1"
    assert "at here:1?" in hint_for(Network("away"), settings)
    assert "at here:1?" in hint_for(Network("away"), Settings(command_config="/nowhere", bootstrap_servers="here:1"))
