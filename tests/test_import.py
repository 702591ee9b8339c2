"""`import oncelog` is cheap: it loads two files and no dependency; clients load no part of the command line."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

DEPENDENCIES = {"click", "cramjam", "google_crc32c", "lz4", "rich", "zstandard"}
LOADED = "import json, sys; before = set(sys.modules); {}; print(json.dumps(sorted(set(sys.modules) - before)))"


def loaded(statement: str) -> set[str]:
    """The modules that a fresh interpreter, without what a site adds, loads for a statement."""
    path = f"import sys; sys.path = {sys.path!r}; "
    command = [sys.executable, "-S", "-c", path + LOADED.format(statement)]
    found: list[str] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return set(found)


def test_the_package_alone_loads_two_files() -> None:
    modules = loaded("import oncelog; oncelog.__version__")
    assert {name for name in modules if name.startswith("oncelog")} == {"oncelog", "oncelog.version"}
    assert not modules & (DEPENDENCIES | {"asyncio", "ssl", "inspect", "dataclasses"})


@pytest.mark.parametrize("statement", ["from oncelog import Admin, Consumer, Producer", "from oncelog import sync"])
def test_clients_load_nothing_of_the_command_line(statement: str) -> None:
    modules = loaded(statement)
    assert "oncelog.client.producer.producer" in modules or "oncelog.sync" in modules
    assert not modules & {"click", "rich", "pygments", "cryptography", "pyarrow", "oncelog.cli"}


def test_a_broker_loads_what_many_never_use_when_somebody_needs_it() -> None:
    """Codecs, groups, share groups, logins, what clients push, other processes, most messages: half a start's imports."""
    modules = loaded("import oncelog.cli.commands.serve")
    assert "oncelog.core.transactions.coordinator" in modules
    assert not modules & {"cramjam", "lz4", "zstandard", "cryptography", "rich", "pyarrow", "oncelog.client"}
    assert not modules & {"tempfile", "argparse", "oncelog.wire.metadata_link", "oncelog.wire.metrics_data"}
    assert not modules & {"click", "json", "random", "secrets", "shutil"}
    unused = ("oncelog.core.groups", "oncelog.core.share", "oncelog.core.sasl", "oncelog.core.client_metrics")
    assert not {name for name in modules if name.startswith(unused)}
    messages = {name for name in modules if name.startswith("oncelog.wire.messages.")}
    assert not messages & {
        f"oncelog.wire.messages.{name}" for name in ("join_group", "share_acknowledge", "describe_acls")
    }


@pytest.mark.parametrize("module", ["oncelog", "oncelog.recipes", "oncelog.spark"])
def test_names_that_load_on_first_use_are_there_for_who_completes_them(module: str) -> None:
    names = subprocess.run(
        [sys.executable, "-c", f"import {module} as m; print(set(m.__all__) - set(dir(m)))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert names.stdout == "set()\n"
