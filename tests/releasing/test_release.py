"""What a release refuses, and what it says of its files."""

from __future__ import annotations

import hashlib
import pathlib
import sys

import pytest
from tools import distribution, release
from tools.distribution import BuildFailed, run
from tools.release import refusals, sums

CHANGELOG = "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-12-01\n- New.\n\n## 0.1.0\n\n## 0.0.9\n- Old.\n"


def test_a_clean_tree_with_a_section_is_released() -> None:
    assert list(refusals("0.2.0", CHANGELOG, "", "v0.0.9\n", "")) == []
    assert list(refusals("0.0.9", CHANGELOG, "", "v0.0.9\n", "v0.0.9\n")) == []


@pytest.mark.parametrize(
    ("version", "changes", "tags", "told"),
    [
        ("0.2.0", " M README.md\n", "", "the tree has changes (M README.md"),
        ("0.3.0", "", "", "no section `## 0.3.0"),
        ("0.1.0", "", "", "nothing under 0.1.0"),
        ("0.0.9", "", "v0.0.9", "tagged at another commit"),
    ],
)
def test_what_is_refused_is_named(version: str, changes: str, tags: str, told: str) -> None:
    (reason,) = refusals(version, CHANGELOG, changes, tags, "")
    assert told in reason


def test_sums_are_as_sha256sum_reads_them(tmp_path: pathlib.Path) -> None:
    files = [tmp_path / "b.whl", tmp_path / "a.tar.gz"]
    for path in files:
        path.write_bytes(path.name.encode())
    assert sums(files).splitlines() == [
        f"{hashlib.sha256(name.encode()).hexdigest()}  {name}" for name in ("a.tar.gz", "b.whl")
    ]


@pytest.fixture
def tree(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A committed repository of its own, with a section for 0.2.0 in its changelog."""
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    (tmp_path / ".gitignore").write_text("dist/\nbuild/\n")
    author = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    for words in (("init", "-q"), ("add", "."), (*author, "commit", "-q", "-m", "first")):
        run("git", *words, cwd=tmp_path)
    for key, value in (("NAME", "a"), ("EMAIL", "a@localhost")):
        monkeypatch.setenv(f"GIT_COMMITTER_{key}", value)
    monkeypatch.setattr(release, "ROOT", tmp_path)
    monkeypatch.setattr(distribution, "version", lambda: "0.2.0")
    return tmp_path


def build_one(folder: pathlib.Path) -> bool:
    (folder / "oncelog-0.2.0.tar.gz").write_bytes(b"an sdist")
    return True


def released(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["release", *words])
    return release.main()


def test_what_was_built_is_tagged(tree: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "release", build_one)
    assert released(monkeypatch) == 0
    assert [path.name for path in (tree / "dist").iterdir()] == ["oncelog-0.2.0.tar.gz"]
    assert run("git", "tag", "--points-at", "HEAD", cwd=tree) == "v0.2.0\n"
    assert released(monkeypatch) == 0, "again at the same commit"


def test_a_changed_tree_builds_and_tags_nothing(tree: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "release", build_one)
    (tree / "new.txt").write_text("x")
    assert released(monkeypatch) == 1
    assert not (tree / "dist").exists()
    assert released(monkeypatch, "--rehearse") == 0
    assert (tree / "build/rehearsal/oncelog-0.2.0.tar.gz").exists()
    assert run("git", "tag", "--list", cwd=tree) == ""


def test_what_failed_leaves_nothing(tree: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(folder: pathlib.Path) -> bool:
        build_one(folder)
        raise BuildFailed("no compiler")

    monkeypatch.setattr(release, "release", fail)
    assert released(monkeypatch) == 1
    assert not (tree / "dist").exists()
    assert run("git", "tag", "--list", cwd=tree) == ""
