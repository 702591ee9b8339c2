"""A database server of a test: a directory that is removed at the end, its log, a process that says when it is ready."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator


class DatabaseServer:
    """One server on `folder`. No thread: whoever starts it may fork."""

    timeout_s: float  # for a start or an end that hangs
    ready: bytes  # what its log says when it takes connections

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes]

    def launch(self, command: list[str]) -> None:
        """Start the process, and wait until it takes connections."""
        log = self.folder / "server.log"
        with log.open("ab") as output:
            begins = log.stat().st_size
            self.process = subprocess.Popen(command, stderr=output, stdout=output)
        deadline = time.monotonic() + self.timeout_s
        while self.ready not in log.read_bytes()[begins:]:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{type(self).__name__} did not start: {log.read_text()[-800:]}")
            time.sleep(0.02)

    def end(self, how: signal.Signals) -> None:
        """Send the signal, and wait for the process."""
        self.process.send_signal(how)
        self.process.wait(self.timeout_s)


@contextlib.contextmanager
def fresh_folder(prefix: str, user: str) -> Iterator[pathlib.Path]:
    """In /tmp, where a socket's path is short enough; of this user where the tests run as root."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))
    try:
        if os.getuid() == 0:
            shutil.chown(folder, user, user)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
