"""Directories that callers name, checked at the door: behind an empty one everything would lie in the root of the file system."""

from __future__ import annotations

import os
from typing import TypeAlias

from oncelog.errors import invalid_argument

AnyPath: TypeAlias = str | os.PathLike[str]


def directory(name: str, value: object) -> str:
    """A directory's path as text, of text or of a path object. Raises InvalidArgument, which names the argument."""
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str):
        what = "os.fsdecode(path) makes text of it" if isinstance(path, bytes) else ""
        raise invalid_argument(name, value, "a directory's path (text or os.PathLike)", what)
    if not path.strip():
        raise invalid_argument(name, value, "a directory's path", "it names none; '.' is the working directory")
    try:
        is_possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        is_possible = False
    if not is_possible:
        raise invalid_argument(name, value, "a path that a file system can have")
    return path
