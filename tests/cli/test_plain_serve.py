"""`oncelog serve` is read by click or, where it is plainly typed, without: both give the same, and the process ends the same."""

from __future__ import annotations

import os
import pathlib
import random
import subprocess
import sys
from typing import Any

import click
import pytest

from oncelog.cli import plain_serve
from oncelog.cli.commands import serve_command
from oncelog.cli.main import root
from oncelog.cli.plain_serve import plain_options

WORDS = [
    "--data-dir", "--listen", "--config", "-c", "--insecure", "--ephemeral", "--log-level", "--processes", "--help", "--no-such",
    "--", "-cx=1", "--data-dir=d", "--listen=h:1", "dir", "h:0", "x=1", "info", "debug", "INFO", "2", "", "-", "é", "\udcff",
    "a\nb",
]  # fmt: skip
DEFAULTS: dict[str, Any] = {
    "data_dir": None, "listen": (), "config_file": None, "config": (), "insecure": False, "ephemeral": False, "log_level": "info",
    "processes": None,
}  # fmt: skip


def read_by_click(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any] | None:
    """What `serve_main` would be given; None: a usage error, or help."""
    given: list[dict[str, Any]] = []

    def serve(**options: Any) -> int:
        given.append(options)
        return 0

    monkeypatch.setattr(serve_command, "load_and_serve", serve)
    try:
        root.main(args=arguments, prog_name="oncelog", standalone_mode=False)
    except click.ClickException:
        return None
    return given[0] if given else None


def test_what_is_read_plainly_is_what_click_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONCELOG_INSECURE", raising=False)
    drawn, plain = random.Random("serve"), 0
    for _ in range(3000):
        arguments = ["serve"]
        for _ in range(drawn.randrange(5)):
            word = drawn.choice(WORDS[:7] if drawn.random() < 0.7 else WORDS)
            arguments.append(word)
            if word.startswith("-") and word not in plain_serve.FLAGS and drawn.random() < 0.9:
                arguments.append("info" if word == "--log-level" else drawn.choice(WORDS[13:]))
        options = plain_options(arguments, {})
        if options is not None:
            plain += 1
            assert DEFAULTS | options == read_by_click(arguments, monkeypatch), arguments
    assert plain > 300


def test_every_option_that_is_there_is_known_to_click() -> None:
    names = {name: option.name for option in serve_command.serve.params for name in option.opts}
    known = plain_serve.ONE | plain_serve.MANY | plain_serve.FLAGS
    assert known.items() <= names.items()


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["serve"], {"ONCELOG_INSECURE": "1"}),
        (["serve"], {"_ONCELOG_COMPLETE": "bash_source"}),
        (["serve", "--help"], {}),
        (["serve", "--processes", "2"], {}),
        (["-o", "json", "serve"], {}),
        (["topics", "list"], {}),
        ([], {}),
    ],
)
def test_the_rest_is_clicks(arguments: list[str], environment: dict[str, str]) -> None:
    assert plain_options(arguments, environment) is None


def test_a_plain_one_loads_no_click_and_says_what_is_wrong(tmp_path: pathlib.Path) -> None:
    code = (
        "import atexit, sys; atexit.register(lambda: print(sorted({'click', 'oncelog.cli.main'} & sys.modules.keys())))\n"
        "from oncelog.cli.entry_points import oncelog; oncelog()"
    )
    environment = {key: value for key, value in os.environ.items() if key not in plain_serve.NOT_PLAIN}
    command = [sys.executable, "-c", code, "serve", "--data-dir", str(tmp_path / "d"), "-c", "no-value"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert (done.returncode, done.stdout) == (2, "[]\n")
    assert done.stderr == "oncelog serve: -c 'no-value': expected KEY=VALUE\n"


def test_nobody_reads_that_it_is_ready() -> None:
    """The pipe is closed: status 1 and one line, no traceback."""
    reading, writing = os.pipe()
    os.close(reading)
    environment = {key: value for key, value in os.environ.items() if key not in plain_serve.NOT_PLAIN}
    command = [sys.executable, "-m", "oncelog", "serve", "--ephemeral", "--listen", "127.0.0.1:0"]
    try:
        done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, env=environment, timeout=60)
    finally:
        os.close(writing)
    assert done.returncode == 1
    assert done.stderr == "oncelog serve: stopped, since nobody can be told that it is ready: Broken pipe\n"
