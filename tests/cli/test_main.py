"""The root command: help, lazy loading, names, versions, what is not built."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

import oncelog as package
from oncelog.cli.main import COMMANDS, NOT_BUILT_YET, main
from oncelog.cli.signals import WORDS
from tests.cli.world import oncelog


def test_help_names_every_command_and_no_stub() -> None:
    result = oncelog("--help")
    assert result.exit_code == 0
    for name in COMMANDS:
        assert f"\n  {name} " in result.stdout
    for name in NOT_BUILT_YET:
        assert f"\n  {name} " not in result.stdout


@pytest.mark.parametrize("name", NOT_BUILT_YET)
def test_what_is_not_built_says_so_in_one_line(name: str) -> None:
    result = oncelog(name, "list", "--anything")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"error: `oncelog {name}` is not built yet\n"


def test_help_imports_no_command_and_no_client() -> None:
    code = (
        "import sys\nfrom oncelog.cli.main import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "loaded = [m for m in sys.modules if m.startswith(('oncelog.client', 'oncelog.broker', 'rich', 'pyarrow'))]\n"
        "print(loaded, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_a_mistyped_command_is_answered_with_the_nearest_one() -> None:
    result = oncelog("transaction", "list")
    assert result.exit_code == 2
    assert "Did you mean 'transactions'?" in result.stderr


def test_version() -> None:
    assert oncelog("--version").stdout == f"oncelog {package.__version__}\n"


def test_python_without_assertions_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-O", "-c", "from oncelog.cli.main import main; main(['topics', 'list'])"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "does not run under python -O" in done.stderr


@pytest.mark.parametrize("arguments", [["--version"], ["topics", "lsit"], ["topics", "list", "--dry-run"]])
def test_called_as_a_function_it_leaves_the_signals_of_its_process_as_they_were(arguments: list[str]) -> None:
    before = [signal.getsignal(number) for number in WORDS]
    with pytest.raises(SystemExit):
        main(arguments)
    after = [signal.getsignal(number) for number in WORDS]
    assert after == before, "the next test that gets a signal would end the whole run"
