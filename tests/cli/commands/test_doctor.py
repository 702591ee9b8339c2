"""`oncelog doctor`: every check has an outcome, and what is bad says what to do."""

from __future__ import annotations

import json
import pathlib
import sys

import pytest

from oncelog.cli.commands import doctor
from tests.cli.world import oncelog


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """A JVM takes half a second to say its version."""
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr(doctor, "_bundled_java", lambda: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)


def finding(findings: list[doctor.Finding], check: str) -> doctor.Finding:
    return next(one for one in findings if one.check == check)


def test_every_check_says_something(tmp_path: pathlib.Path) -> None:
    findings = doctor.examine(str(tmp_path / "not" / "there" / "yet"))
    assert {one.check for one in findings} >= {
        "python",
        "assertions",
        "hot paths",
        "crc-32c",
        "codecs",
        "uvloop",
        "pyarrow",
        "pyspark",
        "java",
        "data directory",
        "disk sync",
        "disk space",
        "open files",
        "clock",
    }
    assert all(one.found for one in findings)
    assert all(one.advice for one in findings if one.status != doctor.OK)
    assert "Java 17" in finding(findings, "java").advice


def test_rows_for_machines(tmp_path: pathlib.Path) -> None:
    found = json.loads(oncelog("doctor", "--data-dir", tmp_path, "-o", "json").stdout)
    assert {"check", "status", "found", "advice"} == set(found[0])
    assert {row["status"] for row in found} <= {doctor.OK, doctor.WARNING, doctor.FAILURE}


def test_nothing_is_left_in_the_directory(tmp_path: pathlib.Path) -> None:
    doctor.examine(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_work_is_a_failure(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "decompress", lambda *_: b"something else")
    findings = doctor.examine(str(tmp_path))
    assert finding(findings, "codecs").status == doctor.FAILURE
    result = oncelog("doctor", "--data-dir", tmp_path)
    assert result.exit_code == 1


def test_slow_parts_are_named(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "compiled", lambda: {"varint": True, "record_codec": False})
    found = finding(doctor.examine(str(tmp_path)), "hot paths")
    assert (found.status, found.found) == (doctor.WARNING, "not compiled: record_codec")


def test_a_configuration_is_looked_at_and_its_data_directory(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"log.dirs={tmp_path / 'data'}\nlisteners=PLAINTEXT://127.0.0.1:9092\n")
    result = oncelog("doctor", "--config", file, "-o", "json")
    found = json.loads(result.stdout)
    assert result.exit_code == 0
    assert [row["check"] for row in found][-2:] == ["config", "listener PLAINTEXT"]
    assert str(tmp_path) in next(row["found"] for row in found if row["check"] == "disk sync")
    file.write_text("listeners=PLAINTEXT://0.0.0.0:9092\n")
    assert oncelog("doctor", "--config", file).exit_code == 1


def test_a_data_directory_that_others_can_look_into(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncelog.cli.exposure.files.others_can_reach", lambda _: True)
    (tmp_path / "meta.properties").write_text("")
    tmp_path.chmod(0o755)
    found = json.loads(oncelog("doctor", "--data-dir", tmp_path, "-o", "json").stdout)
    assert (found[-1]["check"], found[-1]["status"]) == ("data directory", doctor.WARNING)
    assert found[-1]["advice"] == f"chmod 700 {tmp_path}"


def test_a_codec_whose_library_is_not_there_is_named(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    found = finding(doctor.examine(str(tmp_path)), "codecs")
    assert (found.status, found.found) == (doctor.FAILURE, "do not work: zstd")


def test_a_data_directory_that_is_not_there_is_named(tmp_path: pathlib.Path) -> None:
    """`disk sync ok` was of the directory above it, and nothing said so."""
    missing = tmp_path / "not" / "there"
    found = finding(doctor.examine(str(missing)), "data directory")
    assert (found.status, found.found) == ("warning", f"{missing} is not there")
    assert f"space are those of {tmp_path}" in found.advice
    result = oncelog("doctor", "--data-dir", missing, "-o", "json")
    assert (result.exit_code, "is not there" in result.stdout) == (0, True)
    assert finding(doctor.examine(str(tmp_path)), "data directory").status == "ok"
    (tmp_path / "file").touch()
    assert finding(doctor.examine(str(tmp_path / "file")), "data directory").status == "failure"


@pytest.mark.parametrize("option", ["--data-dir", "--config"])
@pytest.mark.parametrize("path", ["", " "])
def test_an_empty_path_is_not_the_working_directory(option: str, path: str) -> None:
    result = oncelog("doctor", option, path)
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, f"Error: {option} names nothing")


def test_a_data_directory_that_may_not_be_looked_at_is_not_called_absent(tmp_path: pathlib.Path) -> None:
    """A link in a circle stands for one in a directory without the right to enter it, which root has."""
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    found = finding(doctor.examine(str(tmp_path / "circle")), "data directory")
    assert (found.status, found.advice) == ("failure", "run as who runs the broker")
