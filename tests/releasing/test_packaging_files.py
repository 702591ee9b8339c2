"""The unit and the container file: what can be seen of them without systemd running and without an image.

Their commands run in test_distribution.py, in an empty environment.
"""

from __future__ import annotations

import configparser
import json
import pathlib
import re
import shutil
import subprocess
import tomllib

import click
import pytest
from tools.distribution import ROOT
from tools.smoke import PYTHONS

from oncelog.cli.main import root
from tests.releasing.packaging_files import containerfile, instructions

UNIT = ROOT / "packaging/oncelog.service"


def unit() -> configparser.ConfigParser:
    parsed = configparser.ConfigParser(interpolation=None, strict=False)
    parsed.optionxform = str  # type: ignore[assignment, method-assign]
    parsed.read_string(UNIT.read_text())
    return parsed


def test_the_unit_runs_as_its_own_user_with_files_enough_and_a_clean_stop() -> None:
    service = unit()["Service"]
    assert (service["User"], service["StateDirectory"], service["KillSignal"]) == ("oncelog", "oncelog", "SIGTERM")
    assert int(service["LimitNOFILE"]) >= 65536
    assert service["NoNewPrivileges"] == "yes"
    assert service["CapabilityBoundingSet"] == ""


@pytest.mark.parametrize(
    "line",
    [unit()["Service"]["ExecStart"], unit()["Service"]["ExecStartPost"], " ".join(json.loads(containerfile()["CMD"]))],
)
def test_commands_and_options_exist(line: str) -> None:
    """The command line takes them apart as it would, and runs nothing."""
    words = line.removeprefix("/opt/oncelog/bin/oncelog ").split()
    context: click.Context = root.make_context("oncelog", words)
    command: click.Command = root
    while isinstance(command, click.Group):
        name, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        context, command = found.make_context(name, rest, parent=context), found
    assert context.args == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
def test_systemd_takes_the_unit(tmp_path: pathlib.Path) -> None:
    """Its program is put where this machine has one; a word that systemd does not know is a line on stderr."""
    program = tmp_path / "oncelog"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    text = UNIT.read_text().replace("/opt/oncelog/bin/oncelog", str(program))
    copy = tmp_path / "oncelog.service"
    for unknown, told in (("", ""), ("LimitNoFiles=5\n", "LimitNoFiles")):
        copy.write_text(text.replace("[Install]", f"{unknown}[Install]"))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True)
        lines = [line for line in done.stderr.splitlines() if str(copy) in line or copy.name in line]
        assert [told in line for line in lines] == ([True] if told else []), done.stderr


def test_the_container_is_not_root_and_keeps_its_data_in_a_volume() -> None:
    file = containerfile()
    user, _, group = file["USER"].partition(":")
    assert int(user) > 0
    assert user == group
    assert json.loads(file["VOLUME"]) == [file["WORKDIR"]] == ["/var/lib/oncelog"]
    assert file["STOPSIGNAL"] == "SIGTERM"


def test_what_the_container_copies_is_there_and_commands_name_their_words() -> None:
    for name, words in instructions():
        if name == "COPY" and not words.startswith("--from"):
            assert [each for each in words.split()[:-1] if not (ROOT / each).exists()] == []
        if name in ("RUN", "CMD", "ENTRYPOINT"):
            assert all(isinstance(word, str) for word in json.loads(words)), "no shell takes them apart"


def test_wheels_are_built_for_the_pythons_that_a_release_tries() -> None:
    """Classifiers name those of them on which the installed wheel was seen to work."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert settings["tool"]["cibuildwheel"]["build"] == [f"cp{name.replace('.', '')}-*" for name in PYTHONS]
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(settings["project"]["classifiers"]))
    assert set(versions) <= set(PYTHONS)
    assert settings["project"]["requires-python"] == f">={PYTHONS[0]}" == f">={versions[0]}"


def test_both_begin_with_the_same_data_directory() -> None:
    properties = (ROOT / "packaging/server.properties").read_text()
    assert re.findall(r"^log\.dirs=(.*)$", properties, re.MULTILINE) == [containerfile()["WORKDIR"]]
    assert f"/var/lib/{unit()['Service']['StateDirectory']}" == containerfile()["WORKDIR"]
