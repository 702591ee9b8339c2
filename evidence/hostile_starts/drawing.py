"""What is typed: every command with arguments drawn from its own parameters, and values that break careless tools."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from oncelog.cli.durations import Duration
from oncelog.cli.main import COMMANDS, root

NUMBERS = (
    *(
        "0",
        "1",
        "-1",
        "007",
        "+1",
        "1e3",
        "1.5",
        "nan",
        "inf",
        "-inf",
        "1e309",
        "0x10",
        "1_000",
        "",
        " 1",
        "²",
        "٣",
        "½",
    ),
    *(
        str(2**15),
        str(2**31 - 1),
        str(2**31),
        str(2**63 - 1),
        str(2**63),
        str(2**64),
        str(-(2**63) - 1),
        "9" * 40,
        "9" * 5000,
    ),
)
TEXTS = (
    *(
        "",
        " ",
        "-",
        "--",
        ".",
        "..",
        "/",
        "*",
        "a",
        "t",
        "hostile",
        "a b",
        "a\tb",
        "a\nb",
        "a\rb",
        "\x1b[2J\x1b]0;owned\x07",
    ),
    *(
        "\u202egnp.exe",
        "ü",
        "日本",
        "\U0001f600",
        "e\u0301",
        "\x7f",
        "\x85",
        "\u2028",
        "\udcff\udcfe",
        "\ud800",
        "%s%n",
        "{0}",
    ),
    *(
        "__consumer_offsets",
        "a" * 250,
        "x" * 40_000,
        "a:b",
        "a:0",
        "a:0,1",
        "a:²",
        "a:-1",
        "a:" + "9" * 30,
        "=",
        "=x",
        "x=",
    ),
    *(
        "a=b",
        "retention.ms=1",
        "retention.ms=" + "9" * 40,
        "User:x",
        "User:",
        ":",
        "'; drop table",
        "$(id)",
        "\\",
        "\\x",
        "\\u12",
    ),
    *(
        "(",
        "[a-",
        "(?=a)",
        "(a+)+$",
        "default",
        "null",
        "None",
        "true",
        "@now",
        "@2026-13-45",
        "@9999-12-31",
        "-5",
        "-" + "9" * 30,
    ),
    *(
        "1:2",
        "-1:-1",
        "9999999999999999999999:1",
        "1:" + "9" * 20,
        "::",
        "sqlite:///nowhere/x.db",
        "sqlite://",
        "oracle://x",
    ),
    *("rocksdb:///nowhere", "zookeeper://127.0.0.1:1/", "http://", "postgresql://127.0.0.1:1/x?connect_timeout=1"),
)
DURATIONS = (
    "0",
    "1ms",
    "-1s",
    "9" * 30,
    "9" * 39 + "d",
    "99999999999d",
    "1e9",
    "inf",
    "nan",
    "1h1h",
    "",
    "²s",
    "٣s",
    "0.0001ms",
    "300ms",
)
PROPERTIES = (
    *("request.timeout.ms=" + "9" * 20, "default.api.timeout.ms=0", "client.id=\udcff", "client.id=" + "x" * 40_000),
    *(
        "client.id=",
        "bootstrap.servers=",
        "bootstrap.servers=:",
        "bootstrap.servers=a:99999",
        "bootstrap.servers=[::1",
        "=",
        "x",
    ),
    *(
        "no.such.key=1",
        "linger.ms=-1",
        "batch.size=" + "9" * 30,
        "isolation.level=x",
        "metadata.max.age.ms=nan",
        "client.id=a\nb",
    ),
    *("retry.backoff.ms=1e400", "max.poll.records=0", "enable.idempotence=maybe", "compression.type=\x1b", "acks=²"),
)
BOOTSTRAPS = (
    "",
    ":",
    "a",
    "127.0.0.1",
    "127.0.0.1:0",
    "127.0.0.1:99999",
    "127.0.0.1:²",
    "[::1",
    "[::1]:1",
    "\udcff:1",
    ",",
    "x" * 300 + ":1",
)
STDINS = (
    b"",
    b"\n",
    b"a",
    b"a\nb\n",
    b"\xff\xfe\n",
    b"{}\n",
    b"[]\n",
    b"null\n",
    b'{"value": 1e999}\n',
    b'{"headers": {"a": "b"}}\n',
    b'{"key": {"base64": "?"}}\n',
    b'{"timestamp_ms": 1e300}\n',
    b'{"timestamp_ms": "x"}\n',
    b"[" * 5000 + b"\n",
    b'{"value": "\\ud800"}\n',
    b'{"headers": [["a", "b", "c"]]}\n',
    b'{"headers": [["\\ud800", "b"]]}\n',
    b'{"timestamp_ms": 99999999999999999999}\n',
    b'{"headers": [[1, 2]], "key": 1}\n',
    b"x" * 300_000,
    b"secret\n",
    b"\x00\n",
)
LONG = ("9" * 30, "9" * 39 + "d", "99999999999d", "1e9", "1h1h")
OUTPUTS = ("table", "wide", "json", "jsonl", "tsv", "xml")
ENDLESS = {("serve",), ("console",)}
NEVER = {"watch", "interval_ms", "help"}


@dataclass(frozen=True)
class Start:
    """One start: the command line behind `oncelog`, and what stands on stdin."""

    arguments: tuple[str, ...]
    stdin: bytes

    @property
    def may_take_long(self) -> bool:
        """Whether it was told to try for longer than anybody here waits."""
        return any(word == "--timeout" and after in LONG for word, after in itertools.pairwise(self.arguments))

    @property
    def wants_json(self) -> bool:
        """Whether stdout must be one JSON document."""
        return "json" in self.arguments[-1:]


def all_commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with its path."""
    context = click.Context(root)
    for name in COMMANDS:
        found = root.get_command(context, name)
        if isinstance(found, click.Group):
            yield from (((name, sub), found.commands[sub]) for sub in found.commands)
        elif found is not None:
            yield (name,), found


def starts(seed: int, count: int, servers: str, directory: Path) -> Iterator[Start]:
    """`count` starts, every command in turn. `directory` has files that are named as arguments."""
    draw = random.Random(seed)
    commands = [(path, command) for path, command in all_commands() if path not in ENDLESS]
    files = _files(directory)
    for number in range(count):
        path, command = commands[number % len(commands)]
        yield _start(draw, path, command, servers, files)


def _files(directory: Path) -> list[str]:
    contents = {
        "empty": b"",
        "binary": bytes(range(256)) * 8,
        "text.properties": b"a=b\nbootstrap.servers=\xff\n",
        "escaped.properties": b"client.id=\\u12\n",
        "history.jsonl": b'{"index": -1}\nnull\n',
        "00000000000000000000.log": b"\xff" * 99,
        "00000000000000000000.index": b"x",
        "0.snapshot": bytes(7),
        "odd \x1b[31m name": b"x\n",
    }
    for name, data in contents.items():
        (directory / name).write_bytes(data)
    return [
        *(str(directory / name) for name in contents),
        str(directory),
        "/dev/null",
        "/no/such/file",
        "",
        "-",
        "\udcff",
    ]


def _start(draw: random.Random, path: tuple[str, ...], command: click.Command, servers: str, files: list[str]) -> Start:
    words: list[str] = list(path)
    for param in command.params:
        if param.name in NEVER or param.name in ("bootstrap_servers", "output", "timeout_ms", "properties", "yes"):
            continue
        wanted = 1 if param.required else draw.choice((0, 0, 0, 1))
        if isinstance(param, click.Argument) and param.nargs == -1:
            wanted = draw.choice((1, 1, 2, 3) if param.required else (0, 1))
        for _ in range(wanted):
            words += _given(draw, param, files)
    if path == ("watch",):
        words.append("--once")
    if path == ("consume",):
        words.append("-e")
    if draw.random() < 0.3:
        words += ["-X", draw.choice(PROPERTIES)]
    words += ["-b", draw.choice(BOOTSTRAPS) if draw.random() < 0.1 else servers]
    words += ["--timeout", draw.choice(DURATIONS) if draw.random() < 0.1 else "400ms"]
    if draw.random() < 0.5:
        words.append("-y")
    return Start((*words, "-o", draw.choice(OUTPUTS)), draw.choice(STDINS))


def _given(draw: random.Random, param: click.Parameter, files: list[str]) -> list[str]:
    if isinstance(param, click.Option):
        name = draw.choice(param.opts)
        if param.is_flag:
            return [draw.choice([*param.opts, *param.secondary_opts])]
        return [name, _value(draw, param, files)]
    return [_value(draw, param, files)]


def _value(draw: random.Random, param: click.Parameter, files: list[str]) -> str:
    kind = param.type
    name = (param.name or "").lower()
    if draw.random() < 0.15:
        return draw.choice((*TEXTS, *NUMBERS))
    if isinstance(kind, Duration):
        return draw.choice(DURATIONS)
    if isinstance(kind, click.types.IntParamType | click.types.FloatParamType):
        return draw.choice(NUMBERS)
    if isinstance(kind, click.Choice):
        return str(draw.choice([*kind.choices, "", "\udcff"]))
    if isinstance(kind, click.File | click.Path) or name in ("files", "path", "paths", "command_config"):
        return draw.choice(files)
    return draw.choice(TEXTS)
