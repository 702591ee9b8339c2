"""docs/cli.md names every command and every option of its own."""

from __future__ import annotations

import pathlib

import click
import pytest

from oncelog.cli.command import global_options
from oncelog.cli.main import NOT_BUILT_YET, root
from tests.cli.test_every_command import ALL

TEXT = (pathlib.Path(__file__).parents[2] / "docs" / "cli.md").read_text()


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_and_option_is_documented(path: tuple[str, ...]) -> None:
    command: click.Command | None = root
    for name in path:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), name)
    assert command is not None
    assert " ".join(path) in TEXT
    shared = {option.name for option in global_options()}
    for param in command.params:
        if isinstance(param, click.Option) and param.name not in shared:
            longest = max(param.opts, key=len)
            assert longest in TEXT, f"{longest} of {' '.join(path)}"


def test_global_options_and_gaps_are_documented() -> None:
    for option in global_options():
        assert max(option.opts, key=len).removesuffix("s") in TEXT
    for name in NOT_BUILT_YET:
        assert f"oncelog {name}" in TEXT
