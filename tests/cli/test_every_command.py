"""Rules that hold for every command: help, global options on both sides, pure stdout, JSON of every success and failure."""

from __future__ import annotations

import json
import pathlib
import random
from collections.abc import Iterator

import click
import pytest

from oncelog.cli.command import global_options
from oncelog.cli.durations import DURATION
from oncelog.cli.main import COMMANDS, root
from oncelog.cli.numbers import WholeNumber, WholeNumberRange
from oncelog.testing import TestBroker
from tests.cli.world import Cli, oncelog


def commands() -> Iterator[tuple[str, ...]]:
    for name in COMMANDS:
        context = click.Context(root)
        command = root.get_command(context, name)
        if isinstance(command, click.Group):
            yield from ((name, sub) for sub in command.commands)
        else:
            yield (name,)


ALL = list(commands())


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help_explains(path: tuple[str, ...]) -> None:
    result = oncelog(*path, "--help")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(f"Usage: oncelog {' '.join(path)} ")
    assert len(result.stdout.split("\n\n")[1].strip()) > 10, "a sentence on what it does"
    if path != ("serve",):
        assert "Global options:" in result.stdout
        assert "--command-config" in result.stdout


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_an_unknown_option_is_wrong_usage(path: tuple[str, ...]) -> None:
    result = oncelog(*path, "--no-such-option")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no-such-option" in result.stderr


def command_at(path: tuple[str, ...]) -> click.Command:
    command: click.Command = root
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    return command


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_numbers_are_digits(path: tuple[str, ...]) -> None:
    command = command_at(path)
    taken = [(each.name, type(each.type)) for each in command.params if isinstance(each.type, click.types.IntParamType)]
    assert [(name, kind) for name, kind in taken if kind not in (WholeNumber, WholeNumberRange)] == []


READING = [
    ("topics", "list"),
    ("topics", "describe", "every"),
    ("groups", "list"),
    ("configs", "describe", "--topic", "every"),
    ("features", "describe"),
    ("quotas", "list"),
    ("credentials", "list"),
    ("transactions", "list"),
    ("transactions", "describe-producers", "--topic", "every"),
    ("transactions", "find-hanging", "--topic", "every"),
    ("transactions", "explain", "--topic", "every"),
    ("consume", "every", "-e"),
    ("recover", "--prefix", "nobody", "--dry-run"),
]


@pytest.fixture(scope="module")
def topic(cli: Cli) -> str:
    cli.create("every")
    cli("produce", "every", stdin="one\ntwo\n")
    return "every"


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_every_format_of_every_reading_command(cli: Cli, topic: str, command: tuple[str, ...]) -> None:
    before = cli.json(*command)
    assert isinstance(before, list | dict)
    after = cli("-o", "jsonl", *command).stdout.splitlines()
    assert len([json.loads(line) for line in after]) == (len(before) if isinstance(before, list) else 1)
    tsv = cli(*command, "-o", "tsv").stdout.splitlines()
    without = cli(*command, "-o", "tsv", "--no-header").stdout.splitlines()
    assert len(tsv[1:]) == len(without) == len(before)
    if tsv:
        assert all(title == title.upper() and " " not in title for title in tsv[0].split("\t"))
    cli(*command, "-o", "wide")


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("topics", "describe", "nope"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (("configs", "describe", "--topic", "nope"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (("transactions", "describe", "nope"), "TRANSACTIONAL_ID_NOT_FOUND"),
        (("transactions", "describe-producers", "--topic", "every", "--partition", "7"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (("transactions", "force-terminate", "--transactional-id", "nope", "-y"), "TRANSACTIONAL_ID_NOT_FOUND"),
        (("transactions", "explain", "--topic", "nope"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (("groups", "describe", "nope"), "GROUP_ID_NOT_FOUND"),
        (("consume", "nope", "-e"), "UNKNOWN_TOPIC_OR_PARTITION"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_a_failure_is_one_line_and_an_object(cli: Cli, topic: str, command: tuple[str, ...], name: str) -> None:
    found = cli(*command, "-o", "json", status=1)
    error = json.loads(found.stdout)
    assert error["error"] == name
    assert error["message"]
    assert len([line for line in found.stderr.splitlines() if line.startswith("error: ")]) == 1
    assert cli(*command, status=1).stdout == ""


def test_no_broker_is_said_with_the_way_out() -> None:
    result = oncelog("topics", "list", "-b", "127.0.0.1:1", "--timeout", "300ms", "-o", "json")
    assert result.exit_code == 1
    assert "-b HOST:PORT" in result.stderr
    assert json.loads(result.stdout)["hint"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("topics", "list", "-X", "nonsense"),
        ("topics", "list", "-X", "request.timeout.msx=1"),
        ("topics", "list", "-b", "nonsense"),
        ("topics", "list", "--dry-run"),
        ("consume", "every", "--watch"),
        ("topics", "list", "--timeout", "soon"),
        ("topics", "list", "--command-config", "no/such/file"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_status_2(arguments: tuple[str, ...]) -> None:
    result = oncelog(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "rror: " in result.stderr


MISTAKES = (
    "a-file",
    "fly",
    "nan",
    "1e400",
    "foo://x",
    "no/such/dir",
    "-1",
    "",
    "producer_byte_rate=nan",
    "x=1",
    "2:y",
    "\u00e9",
    "User:x",
)
NEVER_END = {("serve",): "its lines begin with `oncelog serve:`", ("console",): "it serves until it is told to end"}
TO_END = {("consume",): ["-e"], ("watch",): ["--once"]}


def drawn_words(draw: random.Random, command: click.Command) -> list[str]:
    """Arguments and some of the options, most of them well-formed and some a mistake."""

    def value(kind: click.ParamType) -> str:
        if isinstance(kind, click.Choice):
            return draw.choice([*kind.choices, *kind.choices, "fly"])
        if isinstance(kind, click.types.IntParamType):
            return draw.choice(["1", "0", "1", "nan"])
        if kind is DURATION:
            return draw.choice(["1s", "1s", "fly"])
        return draw.choice(MISTAKES)

    shared = {each.name for each in global_options()}
    words: list[str] = []
    for each in command.params:
        if each.name in shared or not (isinstance(each, click.Argument) or each.required or draw.random() < 0.4):
            continue
        if isinstance(each, click.Option):
            words.append(each.opts[-1])
            if each.is_flag:
                continue
        words += [value(each.type) for _ in range(max(each.nargs, 1))]
    return words


@pytest.fixture(scope="module")
def broker_to_spoil() -> Iterator[str]:
    with TestBroker() as broker:
        yield broker.bootstrap_servers


@pytest.mark.parametrize("path", [path for path in ALL if path not in NEVER_END], ids=" ".join)
def test_wrong_usage_is_on_stderr_only_and_a_failure_is_json(
    broker_to_spoil: str, path: tuple[str, ...], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is typed: `acls add --operation fly` and its like had an object on stdout, and exit status 2."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a-file").write_bytes(b"{")
    command, draw = command_at(path), random.Random(" ".join(path))
    at = ("-b", broker_to_spoil, "--timeout", "300ms", "-o", "json", "-y")
    for _ in range(30):
        words = [*at, *path, *TO_END.get(path, ()), *drawn_words(draw, command)]
        result = oncelog(*words, stdin="")
        if result.exit_code == 2:
            assert result.stdout == "", words
            assert any(line.startswith("Error: ") for line in result.stderr.splitlines()), (words, result.stderr)
        elif result.exit_code == 1:
            assert json.loads(result.stdout), words
