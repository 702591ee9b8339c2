"""One migration: writers, readers, kills, the switch, and the judgement."""

from __future__ import annotations

import json
import pathlib
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka.admin import AdminClient, NewTopic

from evidence.migration.checking import read, wrong_reading, wrong_records
from evidence.migration.traffic import Reader, Writer

TOPIC = "moved"
GO_S = 600.0
DRAINED_S = 120.0
GAP_S_MAX = 2.0
SLOW_BYTES_PER_S = 10_000_000
STOP, SWITCHED, MOVED = "Stop the writers now", "switched:", "is moved:"


@dataclass
class Size:
    """How much of everything."""

    records: int = 1_000_000
    partitions: int = 12
    writers: int = 8
    groups: int = 5
    kills: int = 10
    pace_per_s: int = 12_000


@dataclass
class Figures:
    """What happened, and what was wrong."""

    records: int = 0
    records_after: int = 0
    kills: int = 0
    gap_s: float = 0.0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    def text(self) -> str:
        """One line."""
        verdict = "; ".join(self.problems[:6]) if self.problems else "exact"
        return (
            f"{self.records:,} records moved and {self.records_after:,} written after, {self.kills} kills, "
            f"{self.gap_s:.2f} s without writes at the switch, {self.seconds:.0f} s: {verdict}"
        )


class Command:
    """`oncelog migrate` as a process; `on_line` hears what it says."""

    def __init__(self, folder: pathlib.Path, source: str, destination: str, *words: str) -> None:
        line = [
            sys.executable,
            "-m",
            "oncelog",
            "-b",
            source,
            "migrate",
            "--to",
            destination,
            TOPIC,
            "-y",
            "-o",
            "json",
        ]
        self.process = subprocess.Popen([*line, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.said: list[str] = []
        self._log = folder / "migrate.log"

    def hear(self, on_line: Callable[[str], None] = lambda _: None) -> str:
        """Until it ends; its document."""
        assert self.process.stderr is not None
        assert self.process.stdout is not None
        with self.process, self._log.open("a") as log:
            for line in self.process.stderr:
                log.write(f"{time.monotonic():.3f} {line}")
                self.said.append(line)
                on_line(line)
            return self.process.stdout.read()


class Migration:
    """From one broker to the other."""

    def __init__(self, folder: pathlib.Path, source: str, destination: str, size: Size, seed: int) -> None:
        self._folder, self._source, self._destination, self._size = folder, source, destination, size
        self._chance = random.Random(seed)
        self.figures = Figures()
        pace = size.pace_per_s / size.writers
        self._before = [Writer(source, TOPIC, f"w{i}", size.partitions, pace) for i in range(size.writers)]
        self._after: list[Writer] = []
        self._readers: list[Reader] = []

    def everything(self) -> Figures:
        """Write, read, move, kill, judge."""
        began_s, size = time.monotonic(), self._size
        admin = AdminClient({"bootstrap.servers": self._source})
        forever = {"retention.ms": "-1"}  # the records bear the time of years ago
        admin.create_topics([NewTopic(TOPIC, size.partitions, 1, config=forever)])[TOPIC].result()
        self._readers = [Reader(self._source, TOPIC, f"g{i}") for i in range(size.groups)]
        pace = size.pace_per_s / size.writers
        self._after = [
            Writer(self._destination, TOPIC, f"w{i}", size.partitions, pace, 10**9) for i in range(size.writers)
        ]
        try:
            for each in [*self._before, *self._readers]:
                each.start()
            self._written(size.records * 0.4)
            for _ in range(3 * size.kills):
                if self.figures.kills < size.kills - 2:
                    self._killed_copy()
            self._written(size.records)
            document = self._switched()
            self._judge(document)
        finally:
            for each in [*self._before, *self._after, *self._readers]:
                each.stop()
        self.figures.seconds = time.monotonic() - began_s
        return self.figures

    def _written(self, count: float) -> None:
        until_s = time.monotonic() + GO_S
        while sum(each.committed for each in self._before) < count and time.monotonic() < until_s:
            time.sleep(0.1)
            if any(each.problem for each in self._before):
                return

    def _killed_copy(self) -> None:
        """Slowly, so that the kill meets it while it copies."""
        command = Command(
            self._folder, self._source, self._destination, "--max-bytes-per-second", str(SLOW_BYTES_PER_S)
        )
        timer = threading.Timer(self._chance.uniform(1.0, 6.0), command.process.kill)
        timer.start()
        command.hear()
        timer.cancel()
        self.figures.kills += command.process.returncode == -9

    def _on_line(self, line: str) -> None:
        if STOP in line:
            for writer in self._before:
                writer.stop()
        elif SWITCHED in line:
            for writer in self._after:
                if not writer.is_alive() and not writer.first_s:
                    writer.start()
            for reader in self._readers:
                reader.stop()

    def _switched(self) -> dict[str, object]:
        for line_of_kill in [SWITCHED, MOVED][: self._size.kills]:
            command = Command(self._folder, self._source, self._destination, "--switch", "--group-timeout", "60s")

            def on_line(
                line: str, wanted: str = line_of_kill, process: subprocess.Popen[str] = command.process
            ) -> None:
                if wanted in line:
                    process.kill()
                self._on_line(line)

            command.hear(on_line)
            self.figures.kills += command.process.returncode == -9
        command = Command(self._folder, self._source, self._destination, "--switch", "--group-timeout", "60s")
        text = command.hear(self._on_line)
        if command.process.returncode or not text:
            self.figures.problems.append(
                f"migrate ended with {command.process.returncode}: {''.join(command.said[-5:])}"
            )
        return dict(json.loads(text)) if text else {}

    def _judge(self, document: dict[str, object]) -> None:
        figures, size = self.figures, self._size
        for each in [*self._before, *self._readers]:
            each.join(60)
        followers = [Reader(self._destination, TOPIC, reader.name) for reader in self._readers]
        for each in followers:
            each.start()
        time.sleep(2)
        for each in self._after:
            each.stop()
        for each in self._after:
            each.join(60)
        source = read(self._source, TOPIC, size.partitions)
        destination = read(self._destination, TOPIC, size.partitions)
        total = sum(map(len, destination.values()))
        wanted = [total - sum(map(len, reader.offsets.values())) for reader in self._readers]
        until_s = time.monotonic() + DRAINED_S
        while time.monotonic() < until_s and any(
            sum(map(len, each.offsets.values())) < count for each, count in zip(followers, wanted, strict=True)
        ):
            time.sleep(0.2)
        for each in followers:
            each.stop()
        for each in followers:
            each.join(60)
        rows = document.get("partitions")
        copied = {row["partition"]: row["destination_records"] for row in rows} if isinstance(rows, list) else {}
        figures.records, figures.records_after = sum(map(len, source.values())), total - sum(map(len, source.values()))
        figures.problems += wrong_records(source, destination, copied)
        for before, after in zip(self._readers, followers, strict=True):
            figures.problems += wrong_reading(before.name, before, after, source, destination)
        figures.problems += [
            each.problem for each in [*self._before, *self._after, *self._readers, *followers] if each.problem
        ]
        if document.get("verdict") != "exact":
            figures.problems.append(f"the verdict is {document.get('verdict')}")
        if figures.kills < size.kills:
            figures.problems.append(f"{figures.kills} of {size.kills} kills came in time")
        if any(not each.first_s for each in self._after):
            figures.problems.append("a writer wrote nothing after the switch")
            return
        figures.gap_s = min(each.first_s for each in self._after) - max(each.last_s for each in self._before)
        if figures.gap_s > GAP_S_MAX:
            figures.problems.append(f"{figures.gap_s:.2f} s without writes, {GAP_S_MAX} are allowed")
