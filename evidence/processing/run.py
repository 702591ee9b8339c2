"""One round: members work on what a feeder writes, and are killed, paused and sent away; then all is judged."""

from __future__ import annotations

import asyncio
import json
import pathlib
import random
import signal
import sys
import threading
import time
from dataclasses import dataclass, field

from confluent_kafka import Consumer as ForeignConsumer
from confluent_kafka import TopicPartition as ForeignPartition

from evidence.compat.drills.processes import Worker
from evidence.compat.drills.reading import CommittedReader, create_topics, produce, read_all
from evidence.processing.judge import Letter, partition_of, wrong_letters, wrong_outputs
from evidence.processing.member import ENDED_BY_A_FENCE
from evidence.processing.rule import is_poison, key_of, outputs_of
from oncelog import Admin, TopicPartition

MEMBERS = 5  # one of each kind
PARTITIONS = 8
PACE_PER_S = 400
RECORDS_MAX = 2_000_000
PATIENCE_S = 60.0
PAUSES_S = (0.5, 3.0, 6.0)  # nobody notices; the session is over; the transaction timeout too
SETTLED_S = 30.0


class Member(Worker):
    """A process that runs `evidence.processing.member`."""

    def __init__(self, folder: pathlib.Path, bootstrap: str, name: str, index: int, protocol: str) -> None:
        command = [sys.executable, "-m", "evidence.processing.member", bootstrap, name, str(index), protocol]
        super().__init__(f"{name}-{index}", lambda life: command)
        self._folder = folder

    @property
    def log(self) -> pathlib.Path:
        """Its standard error."""
        return self._folder / f"{self.name}.log"

    def reports(self) -> list[dict[str, object]]:
        """What it said in its present life."""
        return [json.loads(line) for line in tuple(self.lines) if line.startswith("{")]

    def has_committed(self) -> bool:
        """In its present life."""
        return any(report.get("committed_transaction_count") for report in self.reports()[-1:])

    def transactional_id(self) -> str:
        """Of its present life."""
        return str(self.reports()[-1]["transactional_id"])

    def signal(self, number: signal.Signals) -> None:
        """To its present life."""
        self.process.send_signal(number)


@dataclass
class Figures:
    """What happened in a round, and what was wrong."""

    protocol: str
    records: int = 0
    outputs: int = 0
    dead_letters: int = 0
    kills: int = 0
    kills_inside: int = 0  # that left a transaction open
    pauses: int = 0
    farewells: int = 0
    fenced: int = 0
    rebalances: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    def text(self) -> str:
        """One line."""
        verdict = "; ".join(self.problems[:5]) if self.problems else "exact"
        return (
            f"{self.protocol}: {self.records:,} records, {self.outputs:,} outputs, {self.dead_letters} dead letters, "
            f"{self.kills} kills ({self.kills_inside} in an open transaction), {self.pauses} pauses, "
            f"{self.farewells} farewells, {self.rebalances} rebalances, {self.fenced} fenced lives, "
            f"{self.seconds:.0f} s: {verdict}"
        )


class Round:
    """With one group protocol, against one broker."""

    def __init__(
        self,
        folder: pathlib.Path,
        bootstrap: str,
        protocol: str,
        kills: int,
        chance: random.Random,
        longest_pause_s: float,
    ) -> None:
        self._bootstrap, self._kills, self._chance = bootstrap, kills, chance
        self._pauses_s = [each for each in PAUSES_S if each <= longest_pause_s]
        self._name = f"{protocol}-{kills}"
        self._members = [Member(folder, bootstrap, self._name, index, protocol) for index in range(MEMBERS)]
        self._over = threading.Event()
        self._generation = 0
        self.figures = Figures(protocol)

    def everything(self) -> Figures:
        """Work, trouble, judgement."""
        began, name = time.monotonic(), self._name
        create_topics(self._bootstrap, **{f"{name}-in": PARTITIONS, f"{name}-out": PARTITIONS, f"{name}-dead": 1})
        feeder = threading.Thread(target=self._feed, name="feeder")
        try:
            with CommittedReader(self._bootstrap, f"{name}-out", PARTITIONS) as reader:
                for member in self._members:
                    member.start()
                feeder.start()
                self._trouble()
                self._over.set()
                feeder.join()
                expected = sum(len(outputs_of(number)) for number in range(self.figures.records))
                self._wait_for(lambda: len(reader.rows) >= expected and self._dead_letters_are_there())
                time.sleep(0.5)
                self._say_goodbye()
                beside = list(reader.rows)
        finally:
            self._over.set()
            for member in self._members:
                member.stop()
        self._judge(beside)
        self.figures.seconds = time.monotonic() - began
        return self.figures

    def _feed(self) -> None:
        rows = [
            (partition_of(number, PARTITIONS), key_of(number), b"%d" % number)
            for number in range(min(RECORDS_MAX, 2000 + self._kills * PACE_PER_S * 20))
        ]
        self.figures.records = produce(self._bootstrap, f"{self._name}-in", rows, PACE_PER_S, self._over)

    # -- trouble

    def _trouble(self) -> None:
        """Kills, and between them pauses longer than a session, and members that are told to end."""
        for index in range(self._kills):
            self._kill()
            if index % 3 == 1:
                self._pause()
            if index % 3 == 2:
                self._send_away()
        self._kept_alive(1.0)

    def _victim(self) -> Member:
        """One that has written something in its present life, after a while."""
        moment = time.monotonic() + self._chance.uniform(0.1, 1.0)
        victim = self._chance.choice(self._members)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < moment or not victim.has_committed():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{victim.name} writes nothing: {victim.last_words()}")
            self._kept_alive(0.02)
        return victim

    def _kill(self) -> None:
        victim = self._victim()
        self._note(victim)
        victim.kill()
        self.figures.kills += 1
        self.figures.kills_inside += asyncio.run(is_open(self._bootstrap, victim.transactional_id()))
        victim.start()

    def _pause(self) -> None:
        """Now and then as long as the group and the coordinator forget it; it wakes up with all in its hands."""
        victim = self._victim()
        victim.signal(signal.SIGSTOP)
        self._kept_alive(self._chance.choice(self._pauses_s), beside=victim)
        victim.signal(signal.SIGCONT)
        self.figures.pauses += 1

    def _send_away(self) -> None:
        victim = self._victim()
        self._note(victim)
        self._end(victim)
        self.figures.farewells += 1
        victim.start()

    def _end(self, member: Member) -> None:
        member.signal(signal.SIGTERM)
        if member.process.wait(PATIENCE_S) not in (0, ENDED_BY_A_FENCE):
            self.figures.problems.append(f"{member.name} ended with {member.process.returncode}: {member.last_words()}")

    def _kept_alive(self, seconds: float, beside: Member | None = None) -> None:
        """Let time pass; a member that a fence ended begins again, one that ended otherwise is a finding."""
        until = time.monotonic() + seconds
        while True:
            for member in self._members:
                if member is not beside and not member.is_running:
                    self._note(member)
                    if member.process.returncode == ENDED_BY_A_FENCE:
                        self.figures.fenced += 1
                    else:
                        self.figures.problems.append(f"{member.name} ended by itself: {member.last_words()}")
                    member.start()
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, 0.02))

    def _note(self, member: Member) -> None:
        for report in member.reports():
            self._generation = max(self._generation, int(str(report.get("generation", 0))))

    # -- the end

    def _wait_for(self, is_there) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_there():
            if time.monotonic() > deadline:
                self.figures.problems += [f"not all came: {each.name}: {each.last_words()}" for each in self._members]
                return
            self._kept_alive(0.1)

    def _dead_letters_are_there(self) -> bool:
        expected = sum(is_poison(number) for number in range(self.figures.records))
        return len(read_letters(self._bootstrap, f"{self._name}-dead")) >= expected

    def _say_goodbye(self) -> None:
        for member in self._members:
            self._note(member)
            self._end(member)
            self._note(member)

    def _judge(self, beside: list[tuple[int, bytes, bytes]]) -> None:
        figures, name = self.figures, self._name
        late, letters = (
            read_all(self._bootstrap, f"{name}-out", PARTITIONS),
            read_letters(self._bootstrap, f"{name}-dead"),
        )
        figures.outputs, figures.dead_letters, figures.rebalances = len(late), len(letters), self._generation
        figures.problems += [f"beside: {each}" for each in wrong_outputs(figures.records, beside)]
        figures.problems += [f"late: {each}" for each in wrong_outputs(figures.records, late)]
        figures.problems += wrong_letters(figures.records, PARTITIONS, letters)
        figures.problems += asyncio.run(left_over(self._bootstrap, name))


def read_letters(bootstrap: str, topic: str) -> list[Letter]:
    """The committed dead letters, by a client that is not ours."""
    consumer = ForeignConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([ForeignPartition(topic, 0, 0)])
    letters: list[Letter] = []
    try:
        while True:
            message = consumer.poll(10)
            assert message is not None, "the dead letters cannot be read"
            if message.error() is not None:
                return letters
            headers = {key: bytes(value or b"") for key, value in message.headers() or []}
            letters.append((message.value() or b"", headers))
    finally:
        consumer.close()


async def is_open(bootstrap: str, transactional_id: str) -> bool:
    """Whether it has a transaction open now."""
    async with Admin(bootstrap_servers=bootstrap) as admin:
        listed = await admin.list_transactions()
    return any(each.transactional_id == transactional_id and each.state == "Ongoing" for each in listed)


async def left_over(bootstrap: str, name: str) -> list[str]:
    """Transactions that stay open, and records that nobody's position has passed."""
    async with Admin(bootstrap_servers=bootstrap) as admin:
        async with asyncio.timeout(SETTLED_S):
            while True:
                listed = await admin.list_transactions()
                waiting = [each for each in listed if each.state in ("Ongoing", "PrepareCommit", "PrepareAbort")]
                if not waiting:
                    break
                await asyncio.sleep(0.2)
        partitions = [TopicPartition(f"{name}-in", index) for index in range(PARTITIONS)]
        committed = await admin.list_consumer_group_offsets(f"{name}-group", partitions)
        ends = await admin.list_offsets(dict.fromkeys(partitions, "latest"))
        behind = {
            str(each): (committed.get(each), ends[each].offset)
            for each in partitions
            if each not in committed or committed[each].offset < ends[each].offset
        }
    return [f"positions behind the end: {behind}"] if behind else []
