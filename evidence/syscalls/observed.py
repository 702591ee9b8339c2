"""A real broker on a real disk, its system calls judged: `Observed` starts it, ends it, and keeps the world in step."""

from __future__ import annotations

import asyncio
import os
import pathlib
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager

from evidence.syscalls.journal_rules import JournalRules
from evidence.syscalls.logs import Logs
from evidence.syscalls.recorder import END, build, calls, environment, fail_next_sync, slow_syncs
from evidence.syscalls.replies import Replies
from evidence.syscalls.rules import Rules
from evidence.syscalls.world import World
from evidence.world.broker import Client
from evidence.world.ports import free_port

HANG_S = 120  # for a hang
REPOSITORY = pathlib.Path(__file__).parents[2]


class NotSo(Exception):
    """A rule was broken, and that is all that is wanted."""


class Observed:
    """One data directory `folder`/root/below/data and the brokers that run on it, one after the other.

    `source`: where `oncelog` is imported from, "" for this one. With `stops_early` the first problem ends it (NotSo).
    """

    def __init__(self, folder: pathlib.Path, source: str = "", *, stops_early: bool = False) -> None:
        self._folder, self._source, self._stops_early = folder, source, stops_early
        self.root = folder / "root"
        self.root.mkdir()
        self.data = self.root / "below" / "data"
        self._library = build(folder)
        self.world = World(self.root)
        logs = Logs(self.world, "below/data")
        self.rules, self._replies = Rules(self.world, logs), Replies(logs)
        self._journal_rules = JournalRules(self.world, logs)
        self._process_count = 0
        self._process: subprocess.Popen[bytes]
        self._is_clean = True
        self._has_journal = False

    @property
    def problems(self) -> list[str]:
        """What was not as promised."""
        return self.rules.problems + self._journal_rules.problems + self._replies.problems

    @property
    def judged(self) -> Counter[str]:
        """How often each rule was asked."""
        return self.rules.judged + self._journal_rules.judged + self._replies.judged

    @property
    def _trace(self) -> pathlib.Path:
        return self._folder / f"trace{self._process_count}"

    async def start(self, config: Mapping[str, object], *, has_small_journal: bool = False) -> Client:
        """Start a broker; a connection to it once it is ready. Raises AssertionError where it does not come."""
        self._process_count += 1
        self._has_journal = config.get("journal", "on") == "on"
        port = free_port()
        program = "evidence.syscalls.broker_with_small_journal" if has_small_journal else "oncelog"
        command = [
            *(sys.executable, "-m", program, "serve", "--data-dir", str(self.data), "--listen", f"127.0.0.1:{port}"),
            *(part for key, value in config.items() for part in ("-c", f"{key}={value}")),
        ]
        variables = {**os.environ, **environment(self._library, self._trace, self.root)}
        if self._source:
            variables["PYTHONPATH"] = self._source
        with (self._folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs meanwhile
                command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, env=variables, cwd=REPOSITORY
            )
        assert self._process.stdout is not None
        line = await asyncio.to_thread(self._process.stdout.readline)
        assert line.startswith(b"ready "), f"the broker did not start:\n{self.last_words()}"
        return await Client.connect_to("127.0.0.1", port)

    def last_words(self) -> str:
        """The end of the brokers' log."""
        return "\n".join((self._folder / "broker.log").read_text(errors="replace").splitlines()[-15:])

    def fail_next_sync(self, part_of_path: str) -> pathlib.Path:
        """See `recorder.fail_next_sync`."""
        return fail_next_sync(self._trace, part_of_path)

    def slow_syncs(self, part_of_path: str) -> AbstractContextManager[None]:
        """See `recorder.slow_syncs`."""
        return slow_syncs(self._trace, part_of_path)

    def kill(self) -> None:
        """SIGKILL; then its calls are judged."""
        self._end(signal.SIGKILL)
        self._judge(signal.SIGKILL, ends_clean=False)

    def stop(self, *, ends_clean: bool = True) -> None:
        """SIGTERM; then its calls are judged."""
        self._end(signal.SIGTERM)
        assert self._process.returncode == 0, self.last_words()
        self._judge(signal.SIGTERM, ends_clean=ends_clean)

    def end(self) -> None:
        """Whatever still runs."""
        if self._process_count and self._process.returncode is None:
            self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        self._process.send_signal(number)
        try:
            self._process.wait(HANG_S)
        finally:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()

    def _judge(self, number: signal.Signals, *, ends_clean: bool) -> None:
        world, rules, journal_rules, replies = self.world, self.rules, self._journal_rules, self._replies
        rules.process_begins(is_clean=self._is_clean, has_journal=self._has_journal)
        journal_rules.process_begins(has_journal=self._has_journal)
        replies.process_begins(has_journal=self._has_journal)
        failed: list[str] = []
        for call in calls(self._trace):
            rules.before(call)
            journal_rules.before(call)
            if replies.take(call):
                rules.answers(call)
                journal_rules.answers(call)
                for path in failed:
                    rules.answers_after_failure(call, path)
                    journal_rules.answers_after_failure(call, path)
                failed.clear()
            if call.name == "sync" and call.phase == END and call.result < 0:
                failed.append(world.paths(call)[0])
            world.apply(call)
        rules.ended(is_clean=ends_clean)
        self._is_clean = ends_clean
        if number is signal.SIGKILL:
            world.adopt()  # a call may have had its effect and not been written down any more
        different = world.differences()
        assert not different, f"calls were not seen: {different}"
        world.ended()
        if self._stops_early and self.problems:
            raise NotSo

    # between two brokers

    def place(self, path: pathlib.Path, data: bytes, *, is_durable: bool = False) -> None:
        """Make a file, or give it other content."""
        path.write_bytes(data)
        self.world.adopt()
        if is_durable:
            self.world.make_durable(str(path.relative_to(self.root)))

    def make_directory(self, path: pathlib.Path) -> None:
        """One that is not synced."""
        path.mkdir()
        self.world.adopt()

    def rename(self, path: pathlib.Path, new_name: str) -> None:
        """Give a file another name, which is not synced."""
        self.world.rename(str(path.relative_to(self.root)), str(path.with_name(new_name).relative_to(self.root)))
        path.rename(path.with_name(new_name))

    def sync_names(self, path: pathlib.Path) -> None:
        """The names in a directory are durable."""
        self.world.make_names_durable(str(path.relative_to(self.root)))
