"""What a release refuses, and what it says of its files."""

from __future__ import annotations

import hashlib
import pathlib

import pytest
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
