"""`oncelog completion`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.world import oncelog


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell(shell: str) -> None:
    result = oncelog("completion", shell)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "_ONCELOG_COMPLETE" in result.stdout


def test_another_form_is_refused() -> None:
    """It was the script all the same, with exit status 0."""
    result = oncelog("completion", "bash", "-o", "json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "-o has no meaning here" in result.stderr


def test_completion_offers_subcommands() -> None:
    environment = {"_ONCELOG_COMPLETE": "bash_complete", "COMP_WORDS": "oncelog transactions f", "COMP_CWORD": "2"}
    code = "from oncelog.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["plain,find-hanging", "plain,force-terminate"]
