"""Runs the main job: starts everything, kills on the way, waits for the end, verifies, reports."""

from __future__ import annotations

import contextlib
import json
import pathlib
import random
import shutil
import sqlite3
import sys
import time
from dataclasses import field

from oncelog import TopicPartition, sync
from oncelog.demo.flights import FLIGHT_COUNT, read_flights
from oncelog.demo.processes import BrokerProcess, Child, ChildFailed, Event, now_ms
from oncelog.demo.report import write_report
from oncelog.demo.verify import Verdict, verify
from oncelog.demo.watch import Watch
from oncelog.lazy_dataclass import dataclass

DRIVER_KILLS_AT = (0.18, 0.55)  # shares of the flights counted in the database
BROKER_KILL_AT = 0.36
RESTARTS_MAX = 12
TOPICS = ("flights", "flights.enriched")


@dataclass
class Demo:
    """One run in one folder."""

    folder: pathlib.Path
    row_count: int
    broker: BrokerProcess = field(init=False)
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder = self.folder.absolute()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.broker = BrokerProcess(self.folder)
        self.started_ms = now_ms()
        self.children: list[Child] = []

    def say(self, text: str) -> None:
        print(f"[{(now_ms() - self.started_ms) / 1000:6.1f} s] {text}", flush=True)

    def note(self, **event: object) -> None:
        self.events.append({"time_ms": now_ms(), **event})

    def hear(self, event: Event) -> None:
        self.events.append(event)

    # -- the course of the run

    def run(self) -> int:
        """The whole job; the exit status."""
        self.broker.start()
        self.note(event="broker started", ready_ms=self.broker.ready_ms)
        self.say(
            f"broker ready at {self.broker.bootstrap} in {self.broker.ready_ms / 1000:.2f} s (fsync on, two-phase commit on)"
        )
        self.create_topics()
        watch = Watch(self.broker.bootstrap, [TopicPartition(t, p) for t in TOPICS for p in range(4)])
        watch.start()
        try:
            self.work()
            watch.stop()
            self.say("verifying: log, database and source data ...")
            verdict = verify(self.broker.bootstrap, self.folder / "demo.sqlite3", read_flights(self.row_count))
        finally:
            for child in self.children:
                child.kill()
            self.broker.stop()
        return self.tell(verdict, watch)

    def create_topics(self) -> None:
        with sync.Admin(bootstrap_servers=self.broker.bootstrap) as admin:
            admin.create_topics({topic: {"partitions": 4} for topic in TOPICS})

    def work(self) -> None:
        loader, job = self.start_loader(first=True), self.start_job()
        kills = [(share, "driver") for share in DRIVER_KILLS_AT] + [(BROKER_KILL_AT, "broker")]
        kills.sort()
        restarts, told = 0, -1
        while True:
            time.sleep(0.1)
            loader = self.mind_loader(loader)
            done = self.counted() / self.row_count
            if int(done * 10) > told:
                told = int(done * 10)
                self.say(f"{done:4.0%} of the flights are enriched and counted")
            if kills and done >= kills[0][0]:
                what = kills.pop(0)[1]
                time.sleep(random.uniform(0, 0.8))  # anywhere in a micro-batch
                job = self.kill_driver(job) if what == "driver" else self.kill_broker(job)
            elif job.exit_status() is not None:
                if job.exit_status() == 0:
                    break
                restarts += 1
                if restarts > RESTARTS_MAX:
                    raise ChildFailed(f"the job failed {restarts} times; its log ends with\n{job.last_words()}")
                self.note(event="job failed", status=job.exit_status())
                self.say("the Spark job ended with an error (a broker that is away does that); starting it again")
                job = self.start_job()
        if kills:
            raise ChildFailed(f"the job ended before these kills: {kills}")

    def start_loader(self, *, first: bool) -> Child:
        transaction_rows = max(200, min(2500, self.row_count // 16))
        transactions = self.row_count / transaction_rows
        options = ["--transaction-rows", str(transaction_rows), "--pause-ms", str(int(35_000 / transactions))]
        if first:
            options += ["--die-at", str(int(transactions * 0.3))]
        return self.start("loader", "oncelog.demo.loader", ["--rows", str(self.row_count), *options])

    def start_job(self) -> Child:
        records = max(1000, self.row_count // 14)
        return self.start(
            "job", "oncelog.demo.job", ["--folder", str(self.folder), "--records-per-batch", str(records)]
        )

    def start(self, name: str, module: str, arguments: list[str]) -> Child:
        child = Child(name, module, ["--bootstrap-server", self.broker.bootstrap, *arguments], self.folder, self.hear)
        self.children.append(child)
        return child

    def mind_loader(self, loader: Child) -> Child:
        status = loader.exit_status()
        if status is None or (self.folder / "loader.done").exists():
            return loader
        if status == 0:
            (self.folder / "loader.done").touch()
            self.say("the loader is done")
            return loader
        if status != -9:
            raise ChildFailed(f"the loader failed; its log ends with\n{loader.last_words()}")
        self.note(event="kill", what="loader")
        self.say("the loader was SIGKILLed in mid-transaction; its successor resumes")
        return self.start_loader(first=False)

    def kill_driver(self, job: Child) -> Child:
        job.kill()
        self.note(event="kill", what="driver")
        self.say("SIGKILL: the Spark driver, its JVM and its workers; starting it again")
        return self.start_job()

    def kill_broker(self, job: Child) -> Child:
        self.broker.kill()
        self.note(event="kill", what="broker")
        self.broker.start()
        self.note(event="broker started", ready_ms=self.broker.ready_ms)
        self.say(f"SIGKILL: the broker; it is back after {self.broker.ready_ms / 1000:.2f} s")
        return job

    def counted(self) -> int:
        """How many flights the database has counted by now; another process writes it, so it may be locked or missing."""
        path = self.folder / "demo.sqlite3"
        if not path.exists():
            return 0
        with (
            contextlib.suppress(sqlite3.Error),
            contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection,
        ):
            return int(connection.execute("SELECT coalesce(sum(flights), 0) FROM delay_totals").fetchone()[0])
        return 0

    # -- the result

    def tell(self, verdict: Verdict, watch: Watch) -> int:
        seconds = (now_ms() - self.started_ms) / 1000
        kills = [event["what"] for event in self.events if event.get("event") == "kill"]
        result = {
            "verdict": "exact" if verdict.is_exact else "NOT EXACT",
            "input_records": self.row_count,
            "output_records": verdict.output_records,
            "duplicates": verdict.duplicates,
            "losses": verdict.losses,
            "raw_input_records": verdict.raw_input_records,
            "raw_output_records": verdict.raw_output_records,
            "driver_kills": kills.count("driver"),
            "broker_kills": kills.count("broker"),
            "loader_kills": kills.count("loader"),
            "seconds": round(seconds, 1),
            "checks": [{"name": c.name, "expected": c.expected, "found": c.found} for c in verdict.checks],
        }
        (self.folder / "result.json").write_text(json.dumps(result, indent=1) + "\n")
        top = write_report(self.folder, result, self.events, watch.samples, self.started_ms)
        width = max(len(check.name) for check in verdict.checks)
        print(f"\n{'':{width}}  {'expected':>10}  {'found':>10}")
        for check in verdict.checks:
            print(
                f"{check.name:{width}}  {check.expected:>10,}  {check.found:>10,}  {'ok' if check.holds else 'WRONG'}"
            )
        print(f"\n{'airline':28} {'flights':>9} {'delayed':>9} {'mean delay':>11}")
        for row in top[:5]:
            print(f"{row.airline:28} {row.flights:>9,} {row.delayed_share:>9.0%} {row.mean_delay:>9.1f} m")
        print(
            f"\nverdict: {result['verdict']}  ({self.row_count:,} flights, {kills.count('driver')} driver kills, "
            f"{kills.count('broker')} broker kill, {kills.count('loader')} loader kill, "
            f"{verdict.raw_output_records - verdict.output_records:,} aborted output records in the log, {seconds:.0f} s)"
        )
        print(f"report: {_short(self.folder / 'report.html')}")
        return 0 if verdict.is_exact else 1


def _short(path: pathlib.Path) -> str:
    with contextlib.suppress(ValueError):
        return str(path.relative_to(pathlib.Path.cwd()))
    return str(path)


def main(folder: pathlib.Path, row_count: int | None) -> int:
    """The demo's command. Errors of children are told in one place, with the end of their log."""
    demo = Demo(folder, row_count or FLIGHT_COUNT)
    try:
        return demo.run()
    except ChildFailed as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted; children stopped", file=sys.stderr)
        return 130
