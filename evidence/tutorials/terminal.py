"""A reader's terminal: one bash for a whole page, in a directory of its own, with `oncelog` and `python` on the PATH."""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from evidence.tutorials.page import Step, matches

COMMAND_TIMEOUT_S = 1200.0
BACKGROUND_TIMEOUT_S = 120.0
PORTS = range(
    20_000, 30_000
)  # below what the system gives to those who connect: nobody takes it while the broker is down
BROKER_SHOWN, KAFKA_SHOWN = "9092", "9192"
PORTS_SHOWN = (BROKER_SHOWN, "7077", "7078")  # of the broker, of Spark's master, of a Spark driver
JOB_WORDS = re.compile(r"(bash|environment): line \d+: +\d+ (Killed|Terminated)")
LOOP = """while IFS= read -r -d '' -u "$COMMANDS" command; do eval "$command"; echo "$?" >&"$STATUSES"; done"""


def quiet_port() -> int:
    """A port that nobody listens on."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port


class Terminal:
    """Takes commands and gives what they printed; what runs in the background prints into the same screen."""

    def __init__(self, directory: pathlib.Path, texts: dict[str, str], path: Sequence[pathlib.Path]) -> None:
        self.directory, self._texts = directory, texts
        self._screen = directory.parent / f"{directory.name}.screen"
        commands, self._to_commands = os.pipe()
        self._from_statuses, statuses = os.pipe()
        programs = ":".join(map(str, (*path, pathlib.Path(sys.executable).parent)))
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("ONCELOG", "PYTEST", "COV"))},
            "PATH": f"{programs}:{os.environ['PATH']}",
            "COMMANDS": str(commands),
            "STATUSES": str(statuses),
        }
        with self._screen.open("wb") as screen:
            self._bash = subprocess.Popen(
                ["bash", "--norc", "--noprofile", "-c", LOOP],
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=screen,
                stderr=subprocess.STDOUT,
                env=environment,
                pass_fds=(commands, statuses),
                start_new_session=True,
            )
        os.close(commands)
        os.close(statuses)
        self._seen = self._new_size = 0

    def close(self) -> None:
        """End everything that was started here."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.wait()
        os.close(self._to_commands)
        os.close(self._from_statuses)

    def do(self, step: Step, settle_s: float = 0.0) -> tuple[list[str], list[str]]:
        """Carry out a step: what the page shows, what was printed.

        What a command prints from the background is waited for until it is as shown, or with `settle_s` for so long.
        """
        if step.name:
            (self.directory / step.name).write_text(self._here(step.text))
            return [], []
        os.write(self._to_commands, self._here(step.command).encode() + b"\0")
        ready, _, _ = select.select([self._from_statuses], [], [], COMMAND_TIMEOUT_S)
        assert ready, f"no end of: {step.command}\n" + "\n".join(self._printed())
        os.read(self._from_statuses, 64)
        shown = [self._here(line) for line in step.output]
        if step.command.rstrip().endswith("&"):
            time.sleep(settle_s)
            ends = time.monotonic() + (0 if settle_s else BACKGROUND_TIMEOUT_S)
            while not matches(shown, self._printed()) and time.monotonic() < ends:
                time.sleep(0.05)
        printed = self._printed()
        self._seen += self._new_size
        return shown, printed

    def _here(self, text: str) -> str:
        for shown, real in self._texts.items():
            text = text.replace(shown, real)
        return text

    def _printed(self) -> list[str]:
        """What is new on the screen, without bash's words about jobs that were killed."""
        new = self._screen.read_bytes()[self._seen :]
        self._new_size = len(new)
        return [line for line in new.decode("utf-8", "replace").splitlines() if not JOB_WORDS.match(line)]


@contextlib.contextmanager
def terminal(
    directory: pathlib.Path, texts: dict[str, str] | None = None, path: Sequence[pathlib.Path] = ()
) -> Iterator[Terminal]:
    """A terminal in `directory`, closed at the end. `texts`: what a text on the page is here; `path`: more programs."""
    directory.mkdir(exist_ok=True)
    opened = Terminal(directory, texts or {}, path)
    try:
        yield opened
    finally:
        opened.close()


def follow(page: list[Step], opened: Terminal) -> None:
    """Do what the page says, and see what it shows."""
    for step in page:
        shown, printed = opened.do(step)
        if not matches(shown, printed):
            place = f"line {step.line_number}: $ {step.command}"
            raise AssertionError("\n".join([place, "the page shows:", *shown, "printed was:", *printed]))
