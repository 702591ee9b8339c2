"""Child processes that are killed: their lines, their deaths, their next lives."""

from __future__ import annotations

import os
import pathlib
import subprocess
import threading
from collections.abc import Callable

BUILD = pathlib.Path("build/compat").absolute()


class Worker:
    """A program that is started, killed and started again; `lines` are those of its present life."""

    def __init__(self, name: str, command: Callable[[int], list[str]]) -> None:
        self.name, self._command = name, command
        self.lives = 0
        self.kills = 0
        self.lines: list[str] = []
        self.process: subprocess.Popen[str]

    @property
    def log(self) -> pathlib.Path:
        return BUILD / "drills" / f"{self.name}.log"

    def start(self) -> None:
        """A new life; the command may depend on its number."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        lines: list[str] = []
        self.lines = lines
        with self.log.open("a" if self.lives else "w") as stderr:
            self.process = subprocess.Popen(
                self._command(self.lives), stdout=subprocess.PIPE, stderr=stderr, text=True, env=os.environ
            )
        self.lives += 1
        threading.Thread(target=self._listen, args=(self.process, lines), daemon=True).start()

    @staticmethod
    def _listen(process: subprocess.Popen[str], lines: list[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip())

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL: nothing of it gets to say goodbye."""
        self.process.kill()
        self.process.wait()
        self.kills += 1

    def stop(self) -> None:
        """At the end of a drill, whatever it does."""
        if self.lives and self.is_running:
            self.process.kill()
            self.process.wait()

    def last_words(self) -> str:
        """The end of what it said, for a report of a failure."""
        text = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return " / ".join([*self.lines[-2:], *text[-3:]])
