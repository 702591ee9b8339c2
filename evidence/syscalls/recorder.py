"""The real system calls of a real process: `recorder.c` is compiled here and preloaded; its trace becomes `Call`s.

Why not strace: it needs the right to trace, costs a process switch for each call, and machines that run tests often lack it.
A compiler is needed for the native syncer anyway, whose calls from its own threads are seen like Python's.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

SOURCE = pathlib.Path(__file__).with_name("recorder.c")
BEGIN, END = 1, 2
_HEADER = struct.Struct("=IIII16sqqqqIIII")


@dataclass(frozen=True, slots=True)
class Call:
    """A system call at its beginning or its end. `result` is minus errno where it failed."""

    number: int  # its place in the trace
    process: int
    thread: int
    phase: int
    name: str
    descriptor: int
    descriptor2: int
    offset: int  # also: flags, a size
    result: int
    path: str
    path2: str
    data: bytes

    def __str__(self) -> str:
        where = " -> ".join(filter(None, (self.path, self.path2))) or f"descriptor {self.descriptor}"
        return f"call {self.number}, {self.name} {where}{'' if self.phase == END else ' (begins)'}"


def compiler() -> str | None:
    """The C compiler, where there is one."""
    return shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")


@cache
def build(folder: pathlib.Path) -> pathlib.Path:
    """The library to preload. Raises CalledProcessError: a recorder that does not compile is no reason to skip."""
    library = folder / "recorder.so"
    found = compiler()
    assert found is not None
    # (fortified headers would make inline functions of those that are defined here)
    flags = ("-shared", "-fPIC", "-O1", "-U_FORTIFY_SOURCE", "-Wall", "-Werror")
    subprocess.run([found, *flags, "-o", str(library), str(SOURCE)], check=True)
    return library


def environment(library: pathlib.Path, trace: pathlib.Path, root: pathlib.Path) -> dict[str, str]:
    """What a process needs so that it is recorded."""
    return {
        "LD_PRELOAD": str(library),
        "ONCELOG_SYSCALLS_TRACE": str(trace),
        "ONCELOG_SYSCALLS_ROOT": str(root),
    }


def fail_next_sync(trace: pathlib.Path, part_of_path: str) -> pathlib.Path:
    """The next sync of such a file fails; the file that is returned is gone then."""
    trigger = pathlib.Path(f"{trace}.fail")
    aside = pathlib.Path(f"{trace}.fail.aside")
    aside.write_text(part_of_path)
    aside.rename(trigger)
    return trigger


@contextmanager
def slow_syncs(trace: pathlib.Path, part_of_path: str) -> Iterator[None]:
    """While this lasts syncs of such files take long."""
    asked, aside = pathlib.Path(f"{trace}.slow"), pathlib.Path(f"{trace}.slow.aside")
    aside.write_text(part_of_path)
    aside.rename(asked)
    try:
        yield
    finally:
        asked.unlink()


def calls(trace: pathlib.Path) -> Iterator[Call]:
    """What was recorded."""
    data = trace.read_bytes()
    pos = number = 0
    while pos < len(data):
        size, process, thread, phase, name, descriptor, descriptor2, offset, result, path, path2, content, _ = (
            _HEADER.unpack_from(data, pos)
        )
        at = pos + _HEADER.size
        first, second = data[at : at + path], data[at + path : at + path + path2]
        at += path + path2
        yield Call(
            number, process, thread, phase, name.rstrip(b"\0").decode(), descriptor, descriptor2, offset, result,
            first.decode(), second.decode(), data[at : at + content],
        )  # fmt: skip
        pos += size
        number += 1
