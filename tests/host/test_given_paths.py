"""Directories that callers name."""

from __future__ import annotations

import pathlib
import re

import pytest

from oncelog.errors import InvalidArgument
from oncelog.host.given_paths import directory


@pytest.mark.parametrize(
    ("given", "path"),
    [("data", "data"), (pathlib.Path("a") / "b", "a/b"), (".", "."), ("/", "/"), ("b\udcff", "b\udcff")],
)
def test_a_path_is_taken_as_text(given: object, path: str) -> None:
    assert directory("data_dir", given) == path


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("", "data_dir must be a directory's path, not '' (str): it names none; '.' is the working directory"),
        (" ", "it names none"),
        (None, "data_dir must be a directory's path (text or os.PathLike), not None"),
        ({}, "not {} (dict)"),
        (5, "not 5 (int)"),
        (b"data", "not b'data' (bytes): os.fsdecode(path) makes text of it"),
        ("a\0b", "a path that a file system can have"),
        ("a\ud800", "a path that a file system can have"),
    ],
)
def test_what_names_no_directory_is_refused(given: object, says: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(says)):
        directory("data_dir", given)
