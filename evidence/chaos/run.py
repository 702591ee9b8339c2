"""One run: a broker behind a proxy on a small disk, the crash test's workers, and a nemesis that does one thing at a time.

Afterwards everything heals, the workers finish, the broker is killed once more, and journals, log and history are judged as
after `make crash`.
"""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from evidence.chaos.proxy import Proxy
from evidence.chaos.stepped_broker import step_to
from evidence.crash.broker_process import BrokerFailed, BrokerProcess
from evidence.crash.journal import Journal, merged, send_step
from evidence.crash.log_oracle import examine
from evidence.crash.recovery import RECOVERY_LIMIT_S, figures, line, percentile
from evidence.crash.run import PROBE_WORKER, create_topics, say
from evidence.crash.verify import Verdict, verify
from evidence.crash.worker_processes import end_workers, stop_workers, words
from evidence.crash.workers import LIVES, VALUES_PER_WORKER

KINDS = ("tv2", "tv1", "confluent", "idempotent", "copy", "two_phase", "reader")
DISK_BYTES = 512 * 1024 * 1024
WORKER_TIMEOUT_S = 90.0
CALM_S = (0.1, 0.8)
SECOND_MS, MINUTE_MS, HOUR_MS = 1000, 60_000, 3_600_000
CLOCK_STEPS_MS = (2 * SECOND_MS, 30 * SECOND_MS, 2 * MINUTE_MS, 20 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS)
ANY_TIMESTAMP = str(2**63 - 1)


@dataclass(frozen=True)
class Plan:
    """How many of each."""

    cuts: int = 50
    full_disks: int = 20
    broker_kills: int = 40
    client_kills: int = 100
    pauses: int = 20
    clock_steps: int = 30

    def episodes(self, chance: random.Random) -> list[str]:
        found = (
            ["cut"] * self.cuts
            + ["full_disk"] * self.full_disks
            + ["broker_kill"] * self.broker_kills
            + ["client_kill"] * self.client_kills
            + ["pause"] * self.pauses
            + ["clock_step"] * self.clock_steps
        )
        chance.shuffle(found)
        return found


@dataclass
class Outcome:
    """What a run has to say."""

    done: Counter[str] = field(default_factory=Counter)
    verdict: Verdict = field(default_factory=Verdict)
    recovery_s: list[float] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return self.verdict.is_good and percentile(self.recovery_s, 0.99) <= RECOVERY_LIMIT_S

    @property
    def episodes(self) -> dict[str, int]:
        """How often each thing was done, in words."""
        return {
            "kills of the broker": self.done["broker_kill"],
            "kills of clients": self.done["client_kill"],
            "network cuts": self.done["cut"],
            "full disks": self.done["full_disk"],
            "pauses": self.done["pause"],
            "clock steps": self.done["clock_step"],
        }

    def summary(self) -> str:
        return line(self.episodes, self.verdict, self.recovery_s)

    def figures(self) -> dict[str, Any]:
        """For the report."""
        return figures(self.episodes, self.verdict, self.recovery_s)


class Chaos:
    """One run in `folder`."""

    def __init__(
        self,
        folder: pathlib.Path,
        plan: Plan,
        seed: int,
        kinds: tuple[str, ...] = KINDS,
        java: Sequence[str] = (),
    ) -> None:
        """`java` is the command of the Java worker; without it there is none."""
        self.folder, self.plan, self.java = folder, plan, java
        self.kinds = (*kinds, "java") if java else kinds
        self.random = random.Random(f"chaos {seed}")
        self.disk = folder / "disk"
        self.clock = folder / "clock"
        step_to(self.clock, 0)
        self.broker = BrokerProcess(folder, ("evidence.chaos.stepped_broker", str(self.clock)))
        # A broker whose clock was set back would refuse the records of clients whose clocks are right.
        self.broker.config["log.message.timestamp.after.max.ms"] = ANY_TIMESTAMP
        self.broker.data = self.disk / "data"
        self.proxy = Proxy(self.broker.port, seed)
        self.probe = Journal(folder / "probe.jsonl", PROBE_WORKER)
        self.probes = PROBE_WORKER * VALUES_PER_WORKER
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.lives: Counter[str] = Counter()
        self.outcome = Outcome()
        self.has_small_disk = False
        self.keeps_data = False  # what is on the small disk goes with it

    @property
    def bootstrap(self) -> str:
        """Where clients go: the proxy."""
        return f"127.0.0.1:{self.proxy.port}"

    def everything(self) -> Outcome:
        """Raises BrokerFailed when the broker or a worker does not come back."""
        self.mount()
        try:
            self.proxy.start()
            self.broker.config["advertised.listeners"] = f"PLAINTEXT://{self.bootstrap}"
            self.broker.launch()
            self.broker.wait_ready()
            asyncio.run(create_topics(self.bootstrap))
            for kind in self.kinds:
                self.start_worker(kind)
            self.wait_for_progress(self.kinds)
            episodes = [each for each in self.plan.episodes(self.random) if each != "full_disk" or self.has_small_disk]
            for number, episode in enumerate(episodes, 1):
                time.sleep(self.random.uniform(*CALM_S))
                what = getattr(self, episode)()
                self.outcome.done[episode] += 1
                say(f"{number}/{len(episodes)} {episode}: {what}")
                if not number % 10:
                    self.wait_for_progress(self.kinds)
            self.wait_for_progress(self.kinds)
            step_to(self.clock, 0)
            stop_workers(self.workers, self.folder, WORKER_TIMEOUT_S)
            self.broker.kill()
            self.restart()
            self.probe.close()
            self.outcome.verdict = asyncio.run(verify(self.bootstrap, self.folder, self.history()))
            if self.broker.stop() != 0:
                self.outcome.verdict.problems.append(f"the clean stop failed: {self.broker.last_words()}")
            self.outcome.verdict.problems += [f"log: {problem}" for problem in examine(self.broker.data)]
            self.keeps_data = not self.outcome.is_good
            return self.outcome
        except Exception:
            self.keeps_data = True
            raise
        finally:
            self.end()

    # surroundings

    def mount(self) -> None:
        """A disk that can be filled: a small tmpfs. Without root there is none, and no full disk."""
        self.disk.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "chaos", str(self.disk)],
            capture_output=True,
            check=False,
        )
        self.has_small_disk = mounted.returncode == 0
        if not self.has_small_disk:
            say(f"no full disks: {mounted.stderr.decode().strip()}")

    def start_worker(self, kind: str) -> None:
        number = self.kinds.index(kind) + 1
        life = self.lives[kind]
        command = [sys.executable, "-m", "evidence.crash.workers", kind, str(number), self.bootstrap]
        command += [str(self.folder), str(life)]
        if kind == "java":
            command = [*self.java, self.bootstrap, str(self.journal(kind)), str(number + life * LIVES)]
        with (self.folder / f"{kind}.log").open("ab") as log:
            self.workers[kind] = subprocess.Popen(command, stderr=log, stdout=log)

    def journal(self, kind: str) -> pathlib.Path:
        life = self.lives[kind]
        return self.folder / f"{kind}{f'-{life}' if life else ''}.jsonl"

    def ok_count(self, kind: str) -> int:
        path = self.journal(kind)
        return path.read_text().count('"ok"') if path.exists() else 0

    def wait_for_progress(self, kinds: tuple[str, ...]) -> None:
        """Once it is calm, everybody gets on: nothing hangs, nothing waits for ever. Raises BrokerFailed."""
        before = {kind: self.ok_count(kind) for kind in kinds}
        deadline = time.monotonic() + WORKER_TIMEOUT_S
        while not all(self.ok_count(kind) > before[kind] for kind in kinds):
            dead = [kind for kind, each in self.workers.items() if each.poll() is not None]
            if self.broker.process.poll() is not None:
                raise BrokerFailed(
                    f"the broker ended with {self.broker.process.returncode}: {self.broker.last_words()}"
                )
            if dead or time.monotonic() > deadline:
                stuck = [kind for kind in kinds if self.ok_count(kind) <= before[kind]]
                raise BrokerFailed(f"dead: {dead}, without progress: {stuck}: {words(kinds, self.folder)}")
            time.sleep(0.05)

    def restart(self) -> float:
        """Start the broker and measure how soon it takes a record."""
        self.broker.launch()
        self.broker.wait_ready()
        self.probes += 1
        self.probe.write("invoke", [send_step("crash.probe-0", self.probes)])
        produce_s, offset = self.broker.first_produce("crash.probe", self.probes)
        self.probe.write("ok", [send_step("crash.probe-0", self.probes, offset)])
        taken_s = max(produce_s - self.broker.waited_s(), 0.0)  # without the wait for a processor that others used
        self.outcome.recovery_s.append(taken_s)
        return taken_s

    # episodes

    def cut(self) -> str:
        """The network: connections reset, held back on one way or both, slow, or refused."""
        kind = self.random.choice((self._reset, self._hold, self._hold_one_way, self._slow, self._refuse))
        return kind()

    def _reset(self) -> str:
        times = self.random.choice((1, 1, 3))
        counts = []
        for _ in range(times):
            counts.append(self.proxy.cut_all())
            time.sleep(self.random.uniform(0, 0.3))
        return f"reset {counts} connections"

    def _hold(self) -> str:
        return self._weather(self.random.choice((0.3, 1.0, 3.0)), is_blocked_up=True, is_blocked_down=True)

    def _hold_one_way(self) -> str:
        if self.random.random() < 0.5:
            return self._weather(self.random.choice((0.3, 1.0, 3.0)), is_blocked_up=True)
        return self._weather(self.random.choice((0.3, 1.0, 3.0)), is_blocked_down=True)

    def _slow(self) -> str:
        return self._weather(1.5, cuts=self.random.random() < 0.5, delay_s=self.random.choice((0.02, 0.1, 0.3)))

    def _refuse(self) -> str:
        self.proxy.cut_all()
        return self._weather(self.random.choice((0.2, 1.0)), cuts=False, is_refusing=True)

    def _weather(self, duration_s: float, *, cuts: bool = True, **weather: object) -> str:
        self.proxy.set(**weather)
        time.sleep(duration_s)
        # What was held back is lost with its connection, or arrives late: both happen.
        count = self.proxy.cut_all() if cuts and self.random.random() < 0.6 else 0
        self.proxy.set()
        return f"{duration_s} s of {weather}, then {count} connections cut"

    def broker_kill(self) -> str:
        self.broker.kill()
        return f"back after {self.restart():.2f} s"

    def client_kill(self) -> str:
        """SIGKILL one client; its next life has the same transactional id."""
        # A reader's next life reads all from the start, which the checker then has to look at: seldom.
        is_reader = self.random.random() < 0.05
        kind = self.random.choice([kind for kind in self.kinds if (kind == "reader") == is_reader] or self.kinds)
        self.workers[kind].kill()
        self.workers[kind].wait()
        self.lives[kind] += 1
        self.start_worker(kind)
        return f"{kind}, life {self.lives[kind]}"

    def pause(self) -> str:
        """SIGSTOP, of the broker or a client."""
        name = self.random.choice(("broker", "broker", *self.kinds))
        process = self.broker.process if name == "broker" else self.workers[name]
        duration_s = self.random.choice((0.2, 1.0, 3.0))
        process.send_signal(signal.SIGSTOP)
        time.sleep(duration_s)
        process.send_signal(signal.SIGCONT)
        return f"{name} for {duration_s} s"

    def clock_step(self) -> str:
        """The broker's wall clock, to another time than the machine's, or back to it; sometimes over a restart."""
        offset_ms = self.random.choice((0, *CLOCK_STEPS_MS, *(-step_ms for step_ms in CLOCK_STEPS_MS)))
        is_over_restart = self.random.random() < 0.3
        if is_over_restart:
            self.broker.kill()
        step_to(self.clock, offset_ms)
        back = f", back after {self.restart():.2f} s" if is_over_restart else ""
        return f"{offset_ms / 1000:+.0f} s from the machine's{back}"

    def full_disk(self) -> str:
        """Not a byte left under load; then room again, and a restart (partitions that met it stay offline until then)."""
        ballast = self.disk / "ballast"
        with ballast.open("wb", buffering=0) as file:
            for size_bytes in (1 << 20, 4096, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(size_bytes))
        duration_s = self.random.choice((0.1, 0.5, 1.5))
        time.sleep(duration_s)
        starts_full = self.random.random() < 0.3
        if starts_full:  # a start that finds no room may fail, but it may not harm
            self.broker.kill()
            self.broker.launch()
            time.sleep(1.0)
            self.broker.kill()
            ballast.unlink()
        else:
            ballast.unlink()
            if self.random.random() < 0.5:
                self.broker.kill()
            else:
                self.broker.process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.broker.process.wait(20)
                self.broker.kill()
        return f"for {duration_s} s{', a start on it' if starts_full else ''}, back after {self.restart():.2f} s"

    # the end

    def history(self) -> list[str]:
        return merged(sorted(self.folder.glob("*.jsonl")))

    def end(self) -> None:
        end_workers(self.workers)
        if hasattr(self.broker, "process") and self.broker.process.poll() is None:
            self.broker.kill()
        self.proxy.close()
        self.probe.close()
        if self.has_small_disk:
            if self.keeps_data:
                subprocess.run(["cp", "-a", str(self.broker.data), str(self.folder / "data-left")], check=False)
            subprocess.run(["umount", "-l", str(self.disk)], check=False)
