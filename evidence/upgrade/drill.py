"""The upgrade drill: transaction.version goes up and down while old and new clients write to the same topic.

Levels 0, 1, 2, 3, 2 on oncelog; 0, 1, 2, 1, 2 on Apache Kafka, which has no 3. Every client that meets an error says so in
its log: the drill counts them. At level 3 a two-phase producer works too, and a downgrade is refused while one of its
transactions is open; when they are completed it goes through. At the end every record is accounted for (`evidence.crash`).
"""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from evidence.crash.broker_process import BrokerProcess
from evidence.crash.journal import merged
from evidence.crash.log_oracle import examine
from evidence.crash.run import create_topics, say
from evidence.crash.verify import Verdict, verify
from evidence.crash.workers import DECISIONS
from evidence.differential.brokers import ApacheKafkaNode
from oncelog import Admin, PreparedTxnState, Producer
from oncelog.errors import KafkaError

FEATURE = "transaction.version"
KINDS = ("tv2", "tv1", "confluent", "aiokafka", "idempotent", "copy", "reader")
TWO_PHASE = "two_phase"
PREPARED_ID = "upgrade-prepared"
GOING_S = 30.0
STOP_S = 60.0
TOLD = re.compile(r" (?:WARNING|ERROR) (.*)")


class DrillFailed(AssertionError):
    """Something else than the drill went wrong."""


@dataclass
class Drilled:
    """What a drill has to say."""

    levels: list[int] = field(default_factory=list)
    transactions: dict[str, int] = field(default_factory=dict)  # by worker: answered operations
    errors: Counter[str] = field(default_factory=Counter)  # what clients were told, by worker and name
    refused: str = ""  # the words in which the downgrade was refused
    verdict: Verdict = field(default_factory=Verdict)

    @property
    def is_good(self) -> bool:
        return self.verdict.is_good and not self.errors and min(self.transactions.values()) > 0

    def summary(self) -> str:
        found = self.verdict
        told = ", ".join(f"{name} {count}" for name, count in sorted(self.errors.items())) or "none"
        return (
            f"levels {' '.join(map(str, self.levels))}, {found.acknowledged} acknowledged records, {found.lost} lost, "
            f"{found.duplicated} duplicated, {found.aborted_visible} aborted visible, {found.torn} torn, "
            f"{found.open} open, errors of clients: {told}"
        )


class Drill:
    """One drill in `folder`, with the broker at `bootstrap`, `seconds` at each level."""

    def __init__(
        self, folder: pathlib.Path, bootstrap: str, levels: Sequence[int], seconds: float, kinds: Sequence[str] = KINDS
    ) -> None:
        self.folder, self.bootstrap, self.levels, self.seconds = folder, bootstrap, levels, seconds
        self.kinds = list(kinds)
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.drilled = Drilled()

    def run(self) -> Drilled:
        """Raises DrillFailed where a client does not get going or does not end."""
        try:
            asyncio.run(self._set(self.levels[0]))
            asyncio.run(create_topics(self.bootstrap))
            for number, kind in enumerate(self.kinds, 1):
                self._start(kind, number)
            self._wait_until_all_go_on()
            time.sleep(self.seconds)
            for level in self.levels[1:]:
                if max(self.drilled.levels[-1], level) > 2 >= level:
                    asyncio.run(self._down_from_two_phase(level))
                else:
                    asyncio.run(self._set(level))
                if level > 2:
                    self._start(TWO_PHASE, len(self.kinds) + 1)
                self._wait_until_all_go_on()
                time.sleep(self.seconds)
            self._stop(*self.kinds)
        finally:
            self._end()
        paths = {kind: self.folder / f"{kind}.jsonl" for kind in [*self.kinds, TWO_PHASE]}
        there = [path for path in paths.values() if path.exists()]
        self.drilled.transactions = {path.stem: path.read_text().count('"ok"') for path in there}
        self.drilled.verdict = asyncio.run(verify(self.bootstrap, self.folder, merged(there)))
        self._count_errors()
        return self.drilled

    async def _set(self, level: int) -> None:
        async with Admin(bootstrap_servers=self.bootstrap) as admin:
            features = (await admin.describe_features()).finalized
            present = features.get(FEATURE, 0)
            if present != level:
                kind = "upgrade" if level > present else "safe_downgrade"
                await admin.update_features({FEATURE: level}, upgrade_type=kind)
        self.drilled.levels.append(level)
        say(f"{FEATURE} {level}")

    async def _down_from_two_phase(self, level: int) -> None:
        """A prepared transaction is in the way; when it, and the worker's, are completed, nothing is."""
        options = {"transactional_id": PREPARED_ID, "transaction_two_phase_commit_enable": True}
        async with Producer(bootstrap_servers=self.bootstrap, **options) as producer:
            producer.begin_transaction()
            await producer.send("crash.probe", b"1000000001", partition=0)
            await producer.prepare_transaction()
        try:
            await self._set(level)
        except KafkaError as error:
            self.drilled.refused = str(error)
        else:
            self.drilled.verdict.problems.append(f"went down to {level} over a prepared transaction")
        self._stop(TWO_PHASE)
        await self._complete(PREPARED_ID, "")
        with contextlib.closing(sqlite3.connect(self.folder / "decisions.sqlite3", isolation_level=None)) as database:
            database.execute(DECISIONS)
            query = "SELECT rowid, transactional_id, state, commits FROM decision WHERE is_done = 0"
            for row, name, state, commits in database.execute(query).fetchall():
                await self._complete(name, state if commits else "")
                database.execute("UPDATE decision SET is_done = 1 WHERE rowid = ?", (row,))
        await self._set(level)

    async def _complete(self, name: str, state: str) -> None:
        options = {"transactional_id": name, "transaction_two_phase_commit_enable": True}
        async with Producer(bootstrap_servers=self.bootstrap, **options) as producer:
            await producer.complete_transaction(PreparedTxnState(state))

    # -- workers

    def _start(self, kind: str, number: int) -> None:
        module = ["evidence.upgrade.aiokafka_worker"] if kind == "aiokafka" else ["evidence.crash.workers", kind]
        command = [sys.executable, "-m", *module, str(number), self.bootstrap, str(self.folder)]
        with (self.folder / f"{kind}.log").open("ab") as log:
            self.workers[kind] = subprocess.Popen(command, stderr=log, stdout=log)

    def _done(self, kind: str) -> int:
        path = self.folder / f"{kind}.jsonl"
        return path.read_text().count('"ok"') if path.exists() else 0

    def _wait_until_all_go_on(self) -> None:
        """Everybody has done something since."""
        before = {kind: self._done(kind) for kind in self.workers}
        deadline = time.monotonic() + GOING_S
        while not all(self._done(kind) > before[kind] for kind in self.workers):
            still = [kind for kind in self.workers if self._done(kind) <= before[kind]]
            if time.monotonic() > deadline or any(each.poll() is not None for each in self.workers.values()):
                raise DrillFailed(f"{still} do not go on: {self._words(still)}")
            time.sleep(0.05)

    def _stop(self, *kinds: str) -> None:
        for kind in kinds:
            self.workers[kind].send_signal(signal.SIGTERM)
        for kind in kinds:
            try:
                status = self.workers.pop(kind).wait(STOP_S)
            except subprocess.TimeoutExpired:
                status = -1
            if status:
                raise DrillFailed(f"worker {kind} ended with {status}: {self._words([kind])}")

    def _end(self) -> None:
        for process in self.workers.values():
            process.kill()
            process.wait()

    def _words(self, kinds: Sequence[str]) -> str:
        return "\n".join((self.folder / f"{kind}.log").read_text(errors="replace")[-1500:] for kind in kinds)

    def _count_errors(self) -> None:
        for path in self.folder.glob("*.log"):
            if path.stem == "broker":
                continue
            for line in path.read_text(errors="replace").splitlines():
                told = TOLD.search(line)
                if told is not None:
                    self.drilled.errors[f"{path.stem}: {re.sub('[0-9]+', 'N', told[1])[:80]}"] += 1


def drill_oncelog(folder: pathlib.Path, seconds: float, kinds: Sequence[str] = KINDS) -> Drilled:
    """Up to two-phase commit and back."""
    broker = BrokerProcess(folder)
    broker.launch()
    try:
        broker.wait_ready()
        drilled = Drill(folder, broker.bootstrap, (0, 1, 2, 3, 2), seconds, kinds).run()
        if broker.stop() != 0:
            drilled.verdict.problems.append(f"the clean stop failed: {broker.last_words()}")
        drilled.verdict.problems += [f"log: {problem}" for problem in examine(broker.data)]
        return drilled
    finally:
        if broker.process.poll() is None:
            broker.kill()


def drill_apache_kafka(folder: pathlib.Path, seconds: float, launcher: str) -> Drilled:
    """The same clients, as far as Apache Kafka goes: what they are told there is what they may be told here."""
    with ApacheKafkaNode(folder / "kafka", launcher) as node:
        kinds = [kind for kind in KINDS if kind != "copy"]
        return Drill(folder, "{}:{}".format(*node.address), (0, 1, 2, 1, 2), seconds, kinds).run()
