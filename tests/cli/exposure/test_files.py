"""Files that others can read, or write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.cli.exposure import files
from oncelog.cli.exposure.files import (
    examine_directory,
    examine_secret_file,
    examine_trusted_file,
    others_can_reach,
    secret_files_beside,
)
from oncelog.cli.finding import FAILURE, OK, WARNING, Finding


def statuses(found: Iterator[Finding]) -> list[str]:
    return [each.status for each in found]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("x")
    return path


@pytest.mark.parametrize(
    ("mode", "word"), [(0o600, ""), (0o640, ""), (0o604, "read"), (0o602, "write"), (0o666, "write")]
)
def test_a_secret_file(file: Path, mode: int, word: str) -> None:
    file.chmod(mode)
    found = list(examine_secret_file(file))
    assert [(each.status, each.advice) for each in found] == ([(FAILURE, f"chmod 600 {file}")] if word else [])
    assert all(word in each.found for each in found)
    file.unlink()
    assert statuses(examine_secret_file(file)) == [FAILURE]


@pytest.mark.parametrize(("mode", "expected"), [(0o644, []), (0o646, [FAILURE])])
def test_a_file_that_is_believed(file: Path, mode: int, expected: list[str]) -> None:
    file.chmod(mode)
    assert statuses(examine_trusted_file(file)) == expected
    file.unlink()
    assert statuses(examine_trusted_file(file)) == [FAILURE]


def test_a_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert statuses(examine_directory(tmp_path)) == []
    (tmp_path / "meta.properties").write_text("")
    tmp_path.chmod(0o700)
    assert statuses(examine_directory(tmp_path)) == [OK]
    tmp_path.chmod(0o755)
    monkeypatch.setattr(files, "others_can_reach", lambda _: False)
    assert statuses(examine_directory(tmp_path)) == [OK]
    monkeypatch.setattr(files, "others_can_reach", lambda _: True)
    assert statuses(examine_directory(tmp_path)) == [WARNING]


def test_a_directory_above_keeps_others_out(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "a").chmod(0o700)
    assert not others_can_reach(inner)
    assert others_can_reach(Path("/etc/passwd"))


def test_what_secure_puts_beside_a_configuration(tmp_path: Path) -> None:
    assert secret_files_beside(tmp_path / "server.properties") == []
    (tmp_path / "clients" / "alice").mkdir(parents=True)
    for name in ("ca.pem", "ca-key.pem", "clients/alice/ca.pem", "clients/alice/password"):
        (tmp_path / name).write_text("x")
    found = secret_files_beside(tmp_path / "server.properties")
    assert [str(each.relative_to(tmp_path)) for each in found] == ["ca-key.pem", "clients/alice/password"]
