"""The run: broker, workers, kills at random moments, then the end of everything and the verification."""

from __future__ import annotations

import asyncio
import pathlib
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from evidence.crash.broker_process import BrokerFailed, BrokerProcess
from evidence.crash.journal import Journal, merged, send_step
from evidence.crash.log_oracle import examine
from evidence.crash.recovery import RECOVERY_LIMIT_S, figures, line, percentile
from evidence.crash.verify import Verdict, verify
from evidence.crash.worker_processes import end_workers, stop_workers, words
from evidence.crash.workers import TOPICS, VALUES_PER_WORKER
from oncelog import Admin

KINDS = ("tv2", "tv1", "confluent", "idempotent", "copy", "two_phase", "reader")
PROBE_WORKER = 50
LOAD_MS_MAX = 1500
WORKER_TIMEOUT_S = 60.0
SLOW_CLIENTS_AWAITED = 0.25  # of the kills
KILLED_WHILE_STARTING = 0.15  # of the kills: recovery itself is interrupted


@dataclass
class Outcome:
    """What a run has to say."""

    kills: int
    verdict: Verdict
    ready_s: list[float] = field(default_factory=list)
    produce_s: list[float] = field(default_factory=list)
    waited_s: list[float] = field(default_factory=list)  # of it, for a processor

    @property
    def recovery_s(self) -> list[float]:
        """Launch to first accepted record, without the wait for a processor that others were using."""
        return [max(all_s - waited_s, 0.0) for all_s, waited_s in zip(self.produce_s, self.waited_s, strict=True)]

    @property
    def is_good(self) -> bool:
        return self.verdict.is_good and percentile(self.recovery_s, 0.99) <= RECOVERY_LIMIT_S

    def summary(self) -> str:
        return line(self._episodes, self.verdict, self.recovery_s)

    @property
    def _episodes(self) -> dict[str, int]:
        return {"kills of the broker": self.kills}

    def figures(self) -> dict[str, Any]:
        """For the report."""
        return figures(self._episodes, self.verdict, self.recovery_s)


class Run:
    """One run in `folder`."""

    def __init__(
        self,
        folder: pathlib.Path,
        kills: int,
        seed: int,
        *,
        module: tuple[str, ...] = ("oncelog",),
        kinds: tuple[str, ...] = KINDS,
        between: Callable[[pathlib.Path], None] | None = None,
        journals: tuple[str, ...] = ("on", "off"),
    ) -> None:
        self.folder, self.kills, self.kinds, self.between = folder, kills, kinds, between
        self.random = random.Random(f"crash {seed}")
        self._journals, self._journal_random = journals, random.Random(f"journals {seed}")
        self.broker = BrokerProcess(folder, module)
        self.probe = Journal(folder / "probe.jsonl", PROBE_WORKER)
        self.probes = PROBE_WORKER * VALUES_PER_WORKER
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.outcome = Outcome(0, Verdict())

    def _launch(self) -> None:
        """Each life of the broker has a journal or none, whatever the one before had."""
        self.broker.config["journal"] = self._journal_random.choice(self._journals)
        self.broker.launch()

    def everything(self) -> Outcome:
        """Raises BrokerFailed when the broker does not come back."""
        try:
            self._launch()
            self.broker.wait_ready()
            asyncio.run(create_topics(self.broker.bootstrap))
            self.start_workers()
            while self.outcome.kills < self.kills - 1:
                if self.random.random() < SLOW_CLIENTS_AWAITED:
                    self.wait_for_everybody()
                self.kill_and_restart(self.random.uniform(0, LOAD_MS_MAX) / 1000)
            time.sleep(self.random.uniform(0, LOAD_MS_MAX) / 1000)
            stop_workers(self.workers, self.folder, WORKER_TIMEOUT_S)
            self.kill_and_restart(0)
            self.probe.close()
            self.outcome.verdict = asyncio.run(verify(self.broker.bootstrap, self.folder, self.history()))
            self.stop_broker()
            return self.outcome
        finally:
            self.end()

    def start_workers(self) -> None:
        for number, kind in enumerate(self.kinds, 1):
            command = [sys.executable, "-m", "evidence.crash.workers", kind, str(number), self.broker.bootstrap]
            with (self.folder / f"{kind}.log").open("ab") as log:
                self.workers[kind] = subprocess.Popen([*command, str(self.folder)], stderr=log, stdout=log)
        deadline = time.monotonic() + WORKER_TIMEOUT_S
        while not all('"ok"' in self.journal_of(kind) for kind in self.kinds):
            if time.monotonic() > deadline or any(each.poll() is not None for each in self.workers.values()):
                raise BrokerFailed(f"a worker does not get going: {words(self.kinds, self.folder)}")
            time.sleep(0.02)

    def journal_of(self, kind: str) -> str:
        path = self.folder / f"{kind}.jsonl"
        return path.read_text() if path.exists() else ""

    def kill_and_restart(self, after_s: float) -> None:
        """One kill under load, sometimes another one while it recovers; then measure how soon it is back."""
        time.sleep(after_s)
        self.broker.kill()
        self.outcome.kills += 1
        if self.between is not None:
            self.between(self.broker.data)
        self._launch()
        while self.outcome.kills < self.kills - 1 and self.random.random() < KILLED_WHILE_STARTING:
            time.sleep(self.random.uniform(0, 0.4))
            self.broker.kill()
            self.outcome.kills += 1
            self._launch()
        ready_s = self.broker.wait_ready()
        self.probes += 1
        key = "crash.probe-0"
        self.probe.write("invoke", [send_step(key, self.probes)])
        produce_s, offset = self.broker.first_produce("crash.probe", self.probes)
        self.probe.write("ok", [send_step(key, self.probes, offset)])
        self.outcome.waited_s.append(self.broker.waited_s())
        self.outcome.ready_s.append(ready_s)
        self.outcome.produce_s.append(produce_s)
        say(f"kill {self.outcome.kills}/{self.kills}: ready {ready_s:.2f} s, first produce {produce_s:.2f} s")

    def wait_for_everybody(self) -> None:
        """librdkafka takes two seconds to find a restarted coordinator: now and then, kill only what it is back at."""
        before = {kind: self.journal_of(kind).count('"ok"') for kind in self.kinds}
        deadline = time.monotonic() + 5.0
        while time.monotonic() < deadline:
            if all(self.journal_of(kind).count('"ok"') > before[kind] + 3 for kind in self.kinds):
                return
            time.sleep(0.1)

    def history(self) -> list[str]:
        return merged([self.folder / f"{kind}.jsonl" for kind in (*self.kinds, "probe")])

    def stop_broker(self) -> None:
        """A clean stop, then the files themselves are looked at."""
        if self.broker.stop() != 0:
            self.outcome.verdict.problems.append(f"the clean stop failed: {self.broker.last_words()}")
        self.outcome.verdict.problems += [f"log: {problem}" for problem in examine(self.broker.data)]

    def end(self) -> None:
        end_workers(self.workers)
        self.probe.close()
        if self.broker.process.poll() is None:
            self.broker.kill()


async def create_topics(bootstrap: str) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topics(TOPICS)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
