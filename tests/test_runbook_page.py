"""docs/runbook.md has every alert of the rules and every kind of `oncelog why`, and names commands and options that exist."""

from __future__ import annotations

import pathlib
import re
import shlex

import click
import pytest

from oncelog.cli.main import root
from oncelog.core.diagnosis.causes import KINDS

ROOT = pathlib.Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "runbook.md").read_text()
ALERTS = re.findall(r"^ *- alert: (\w+)$", (ROOT / "examples/prometheus/oncelog.rules.yml").read_text(), re.MULTILINE)
COMMANDS = sorted(set(re.findall(r"`oncelog ([^`]+)`", TEXT)))


def test_every_alert_and_kind_has_a_row() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|", TEXT, re.MULTILINE)
    assert rows == [*ALERTS, *KINDS], "in their order"


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_can_be_typed(line: str) -> None:
    words, command = shlex.split(line), root
    found: click.Command = command
    while isinstance(found, click.Group) and words:
        name = words.pop(0)
        context = click.Context(found)
        below = found.get_command(context, name)
        assert below is not None, name
        found = below
    known = {option for param in found.params for option in (*param.opts, *param.secondary_opts)}
    assert {word for word in words if word.startswith("-")} <= known


def test_there_are_commands() -> None:
    assert len(COMMANDS) > 10
    assert len(ALERTS) > 5
