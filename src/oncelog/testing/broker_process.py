"""A test's broker in a process of its own, which can be killed and stopped as no thread can.

The process (`main`) reads what to serve as one line of JSON, says `ready HOST:PORT` or `failed REASON`, and
then does what it is told, a line each: `advance MILLISECONDS` is answered with `moved`. At the end of its input (its parent is
gone, too) it stops in order.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

from oncelog.errors import OncelogError
from oncelog.host.host import real_host
from oncelog.testing.moved_time import MovedTime

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
ANSWER_TIMEOUT_S = 30.0


class BrokerProcess:
    """The process, seen from its parent."""

    def __init__(self, data_dir: str, config: Mapping[str, Any], listen: str, ahead_ms: int) -> None:
        self._what = {"data_dir": data_dir, "config": dict(config), "listen": listen, "ahead_ms": ahead_ms}
        self._is_paused = False

    def start(self) -> str:
        """Its address. Raises RuntimeError with what kept it from starting, TimeoutError."""
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "from oncelog.testing.broker_process import main; main()",
            ],  # `-m` warns: its package has it
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C in a terminal is the test's, which stops it
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="oncelog-broker-process", daemon=True)
        self._reader.start()
        try:
            word, _, rest = self._ask(json.dumps(self._what), START_TIMEOUT_S).partition(" ")
            if word != "ready":
                raise RuntimeError(f"the broker's process did not start: {rest or 'it ended; see its messages above'}")
        except BaseException:
            self.kill()
            raise
        return rest

    def advance(self, duration_ms: int) -> None:
        """Move its time."""
        if self._ask(f"advance {duration_ms}", ANSWER_TIMEOUT_S) != "moved":
            raise RuntimeError(f"the broker's process ended with status {self._process.wait()}")

    def kill(self) -> None:
        """SIGKILL: nothing of it runs any more; what it wrote stays in its files."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """SIGSTOP: connections stay open, and nobody answers."""
        self._process.send_signal(signal.SIGSTOP)
        self._is_paused = True

    def resume(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)
        self._is_paused = False

    def stop(self) -> None:
        """An orderly stop; killed where that takes too long."""
        if self._is_paused:
            self.resume()
        self._end(None)

    @property
    def is_running(self) -> bool:
        """Whether it is there and not paused."""
        return self._process.poll() is None and not self._is_paused

    def _end(self, how: signal.Signals | None) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if how is not None:
            self._process.send_signal(how)
        self._process.stdin.close()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._process.stdout.close()

    def _ask(self, line: str, timeout_s: float) -> str:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
            return self._lines.get(timeout=timeout_s)
        except BrokenPipeError:
            return ""
        except queue.Empty:
            raise TimeoutError(f"the broker's process said nothing for {timeout_s:g} s") from None

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put("")  # who waits is told that it ended


async def _serve(what: Mapping[str, Any], moved: MovedTime) -> None:
    from oncelog.broker.broker import Broker

    loop, lines = asyncio.get_running_loop(), asyncio.Queue[str]()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, "")

    host = dataclasses.replace(real_host(), clock=moved)
    try:
        async with Broker(what["data_dir"], what["config"], host, what["listen"]) as broker:
            _say(f"ready {broker.bootstrap_servers}")
            threading.Thread(target=read, name="oncelog-commands", daemon=True).start()
            while line := await lines.get():
                moved.ahead_ms += int(line.removeprefix("advance "))
                loop.call_later(0, _say, "moved")
    finally:
        host.syncer.close()


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """The process."""
    from oncelog.broker.config.config import ConfigInvalid
    from oncelog.host.network import NetworkFailed

    what = json.loads(sys.stdin.readline() or "null")
    if what is None:
        return
    moved = MovedTime(what["ahead_ms"])
    try:
        with asyncio.Runner(loop_factory=moved.new_loop) as runner:
            runner.run(_serve(what, moved))
    except (OncelogError, ConfigInvalid, NetworkFailed, OSError) as error:
        _say(f"failed {type(error).__name__}: {error}".replace("\n", " "))
        sys.exit(1)
