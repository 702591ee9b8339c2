"""A Spark driver in a process group of its own: Python, its JVM, and the processes of formats, killed apart or at once."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import time

ROOT = pathlib.Path(__file__).parent.parent.parent
WHAT = ("driver", "jvm", "tree")


class DriverProcess:
    """One life of a job; its output is appended to `log`."""

    def __init__(self, command: list[str], log: pathlib.Path, **more: str) -> None:
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), **more},
            )

    def kill(self, what: str) -> None:
        """SIGKILL for one of WHAT first, and for all that is left a moment later."""
        if what == "jvm":
            found = subprocess.run(
                ["pgrep", "-g", str(self.process.pid), "java"], capture_output=True, text=True
            ).stdout.split()
            for process_id in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(process_id), signal.SIGKILL)
        elif what == "driver":
            self.process.kill()
        time.sleep(0.2 if what == "tree" else 1.0)  # what is left acts on its own for a moment
        self.end()

    def end(self) -> None:
        """SIGKILL for all of it."""
        self.signal(signal.SIGKILL)
        self.process.wait()

    def signal(self, number: int) -> None:
        """To all of it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    @property
    def is_running(self) -> bool:
        """Whether the job goes on."""
        return self.process.poll() is None

    @property
    def came_through(self) -> bool:
        """Whether it ended by itself, with everything done."""
        return self.process.poll() == 0
