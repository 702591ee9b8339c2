"""A directory that is there whole or not at all."""

from __future__ import annotations

import fcntl
import stat
from pathlib import Path

import pytest

from oncelog.cli.output import Failed
from oncelog.cli.secure.new_directory import new_directory


def made(target: Path, text: str = "whole") -> None:
    with new_directory(target) as path:
        (path / "file").write_text(text)


def test_it_is_there_when_the_body_ends(tmp_path: Path) -> None:
    with new_directory(tmp_path / "home") as path:
        assert not (tmp_path / "home").exists()
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        (path / "deep").mkdir()
        (path / "deep" / "file").write_text("x")
    assert (tmp_path / "home" / "deep" / "file").read_text() == "x"
    assert [each.name for each in tmp_path.iterdir()] == ["home"]
    assert [each.name for each in (tmp_path / "home").iterdir()] == ["deep"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_nothing_is_there_when_it_does_not(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), new_directory(tmp_path / "home") as path:
        (path / "file").write_text("half")
        raise error
    assert list(tmp_path.iterdir()) == []


def test_an_empty_directory_is_taken_and_a_full_one_is_not(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    made(tmp_path / "empty")
    with pytest.raises(Failed, match="cannot be made"):
        made(tmp_path / "empty", "other")
    assert (tmp_path / "empty" / "file").read_text() == "whole"
    assert [each.name for each in tmp_path.iterdir()] == ["empty"]


def test_what_a_killed_process_left_goes(tmp_path: Path) -> None:
    left = tmp_path / ".home.new"
    left.mkdir()
    (left / "half").write_text("half")
    made(tmp_path / "home")
    assert [each.name for each in (tmp_path / "home").iterdir()] == ["file"]
    assert not left.exists()


def test_two_do_not_meet(tmp_path: Path) -> None:
    left = tmp_path / ".home.new"
    left.mkdir()
    with (left / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Failed, match="another process makes"):
            made(tmp_path / "home")
    assert left.exists(), "the other's directory stays"


def test_a_parent_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="there is no directory") as caught:
        made(tmp_path / "no" / "home")
    assert caught.value.hint == f"mkdir -p {tmp_path / 'no'}"


def test_where_nothing_can_be_made() -> None:
    with pytest.raises(Failed, match="/proc/home cannot be made: No such file or directory"):
        made(Path("/proc/home"))
