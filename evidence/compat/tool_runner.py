"""Many of Apache Kafka's command-line tools in one JVM: `ToolRunner.java` runs their main methods one after the other."""

from __future__ import annotations

import base64
import pathlib
import subprocess
from typing import NamedTuple, Self

from evidence.compat.apache import NOISE

SOURCE = pathlib.Path(__file__).parent / "apache_kafka" / "ToolRunner.java"


class Ran(NamedTuple):
    """What a tool said."""

    status: int
    lines: list[str]
    errors: list[str]


class ToolRunner:
    """One JVM for as long as the `with` block."""

    def __init__(self, launcher: str, *options: str) -> None:
        """`options` are the JVM's."""
        self._launcher, self._options = launcher, options

    def __enter__(self) -> Self:
        command = [self._launcher, "tool", "-Xmx384m", *self._options, str(SOURCE)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def __call__(self, main_class: str, *arguments: object, text: str = "") -> Ran:
        """Run a tool with its arguments; `text` is what it reads."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        parts = [main_class, *map(str, arguments), text]
        self._process.stdin.write(" ".join(map(_encoded, parts)) + "\n")
        self._process.stdin.flush()
        status, out, err = self._process.stdout.readline().split(" ")
        return Ran(int(status), _lines(out), _lines(err))


def _encoded(part: str) -> str:
    return "." + base64.b64encode(part.encode()).decode()


def _lines(part: str) -> list[str]:
    text = base64.b64decode(part.strip().removeprefix(".")).decode("utf-8", "replace")
    return [line for line in text.splitlines() if line.strip() and not any(noise in line for noise in NOISE)]
