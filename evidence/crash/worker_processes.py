"""The worker processes of a run: let them finish what they are at, or end them, and hear what they said."""

from __future__ import annotations

import pathlib
import signal
import subprocess
from collections.abc import Iterable, Mapping

from evidence.crash.broker_process import BrokerFailed

LAST_WORDS = 1500
Workers = Mapping[str, subprocess.Popen[bytes]]


def stop_workers(workers: Workers, folder: pathlib.Path, timeout_s: float) -> None:
    """SIGTERM to all, then wait up to `timeout_s` for each in turn. Raises BrokerFailed."""
    for process in workers.values():
        process.send_signal(signal.SIGTERM)
    for kind, process in workers.items():
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise BrokerFailed(f"worker {kind} does not end in {timeout_s:.0f} s: {words(workers, folder)}") from None
        if status != 0:
            raise BrokerFailed(f"worker {kind} ended with {status}: {words(workers, folder)}")


def end_workers(workers: Workers) -> None:
    """SIGKILL for those that still run."""
    for process in workers.values():
        if process.poll() is None:
            process.kill()
            process.wait()


def words(kinds: Iterable[str], folder: pathlib.Path) -> str:
    """The end of each one's log."""
    logs = {kind: folder / f"{kind}.log" for kind in kinds}
    texts = {kind: log.read_text(errors="replace")[-LAST_WORDS:] for kind, log in logs.items() if log.exists()}
    return "\n".join(f"[{kind}] {text}" for kind, text in texts.items() if text)
