"""Files of a configuration that others on this machine can read or write."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from oncelog.cli.finding import FAILURE, OK, WARNING, Finding

CHECK = "files"


def others_can_reach(path: Path) -> bool:
    """Whether every directory above lets others in."""
    return all(each.stat().st_mode & stat.S_IXOTH for each in path.absolute().parents)


def examine_secret_file(path: Path) -> Iterator[Finding]:
    """One that nobody else may read or write."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & stat.S_IRWXO:
            verb = "write" if mode & stat.S_IWOTH else "read"
            reached = "others can" if others_can_reach(path) else "if it is moved others can"
            yield Finding(CHECK, FAILURE, f"{path}: {reached} {verb} it (mode {mode:04o})", f"chmod 600 {path}")
    except OSError as error:
        yield Finding(CHECK, FAILURE, f"{path}: {error.strerror}", "name another, or let this user read it")


def examine_trusted_file(path: Path) -> Iterator[Finding]:
    """One that everybody may read and nobody else may write: whoever writes it decides who is believed."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        yield Finding(CHECK, FAILURE, f"{path}: {error.strerror}", "name another, or let this user read it")
        return
    if mode & stat.S_IWOTH:
        what = f"{path}: others can write it (mode {mode:04o}), and decide who is believed"
        yield Finding(CHECK, FAILURE, what, f"chmod 644 {path}")


def examine_directory(path: Path) -> Iterator[Finding]:
    """A broker's data directory: records, and what SCRAM proves passwords with."""
    try:
        if not (path / "meta.properties").exists():
            return
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & stat.S_IRWXO and others_can_reach(path):
            what = f"{path}: others on this machine can look into it (mode {mode:04o}): records, and users' credentials"
            yield Finding("data directory", WARNING, what, f"chmod 700 {path}")
        else:
            yield Finding("data directory", OK, f"{path}: nobody else on this machine can look into it")
    except OSError as error:
        yield Finding("data directory", WARNING, f"{path}: {error.strerror}", "run as who runs the broker")


def secret_files_beside(config_file: Path) -> list[Path]:
    """What `oncelog secure` put beside a configuration: the authority's key, and what users log in with."""
    home = config_file.parent
    found = [home / "ca-key.pem"]
    for directory in sorted((home / "clients").glob("*")):
        found += [each for each in sorted(directory.iterdir()) if each.name != "ca.pem"] if directory.is_dir() else []
    return [each for each in found if os.path.isfile(each)]
