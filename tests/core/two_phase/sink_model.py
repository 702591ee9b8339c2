"""A model of the sink under random interleavings: tasks, zombies, speculation, drivers that die or sleep, and a broker's
transactions. What is right (every row once) is judged from the log alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from oncelog.core.two_phase.exactly_once_sink import (
    DECISION,
    DONE,
    VETO,
    Attempt,
    BatchDecision,
    Decide,
    DecisionLog,
    Refuse,
    RollForward,
    Veto,
    decision_value,
    leased_orphans,
    may_be_forgotten,
    oldest_kept,
    on_abort,
    on_commit,
    orphans_after_decision,
    orphans_after_veto,
    record_key,
    transactional_id_for,
)
from oncelog.core.two_phase.transactional_ids import TransactionalIds


class Naming(Enum):
    """Where transactional ids come from. The last three are controls: each leaves out one rule, and loses."""

    UNIQUE = "one for each attempt"
    LEASED = "a process's own, again for a later batch of its run"
    AT_ONCE = "a process's own, again at once"
    SHARED = "one pool for all processes, whose ids are free when their batch is done"
    SWEPT_LATE = "as LEASED; a sweep ends what it listed, whatever has come since"


@dataclass
class Worker:
    """A process that does one task at a time."""

    ids: TransactionalIds
    is_busy: bool = False


@dataclass(eq=False)
class Task:
    """What goes on step by step: an attempt in a worker, or a driver that was stopped and woke."""

    steps: Iterator[None]
    worker: Worker | None = None
    pace: float = -1.0  # as a zombie: how likely it goes a step on; some sleep long


@dataclass
class ModelLog:
    """Transactions as the broker keeps them: one identity per id, one outcome per (producer id, epoch)."""

    identity: dict[str, tuple[int, int]] = field(default_factory=dict)
    is_open: dict[str, bool] = field(default_factory=dict)
    records: list[tuple[tuple[int, int], tuple[int, int, int]]] = field(default_factory=list)
    outcome: dict[tuple[int, int], str] = field(default_factory=dict)
    decisions: DecisionLog = field(default_factory=DecisionLog)

    def init(self, transactional_id: str) -> tuple[int, int]:
        if self.is_open.get(transactional_id):
            self.end(transactional_id, self.identity[transactional_id], "abort")
        producer_id, producer_epoch = self.identity.get(transactional_id, (len(self.identity), -1))
        self.identity[transactional_id] = (producer_id, producer_epoch + 1)
        return self.identity[transactional_id]

    def produce(self, transactional_id: str, identity: tuple[int, int], value: tuple[int, int, int]) -> None:
        if self.identity[transactional_id] != identity:
            raise PermissionError("fenced")
        self.is_open[transactional_id] = True
        self.records.append((identity, value))

    def end(self, transactional_id: str, identity: tuple[int, int], outcome: str) -> None:
        if self.identity[transactional_id] == identity and self.is_open.get(transactional_id):
            self.outcome[identity] = outcome
            self.is_open[transactional_id] = False
            self.identity[transactional_id] = (identity[0], identity[1] + 1)

    def open_ids(self) -> list[str]:
        return [i for i, is_open in self.is_open.items() if is_open]

    def open_states(self) -> dict[str, str]:
        return {i: "{}:{}".format(*self.identity[i]) for i in self.open_ids()}


@dataclass
class ModelRun:
    """One seed: batches are run until done, by drivers and tasks that die at random; `eager` is the naive abort."""

    seed: int
    eager: bool = False
    naming: Naming = Naming.UNIQUE
    log: ModelLog = field(default_factory=ModelLog)
    zombies: list[Task] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)
    pool: list[str] = field(default_factory=list)  # free ids, SHARED only
    used: dict[int, list[str]] = field(default_factory=dict)  # batch -> ids, SHARED only
    attempt_count: int = 0
    worker_count: int = 0
    run_count: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def step_zombies(self) -> None:
        for zombie in list(self.zombies):
            if zombie.pace < 0:
                zombie.pace = self.random.choice([0.35, 0.05, 0.01])
            if self.chance(zombie.pace) and not self.step(zombie):
                self.zombies.remove(zombie)

    @staticmethod
    def step(task: Task) -> bool:
        try:
            next(task.steps)
        except (StopIteration, PermissionError):
            if task.worker is not None:
                task.worker.is_busy = False
            return False
        return True

    def free_worker(self) -> Worker:
        free = [worker for worker in self.workers if not worker.is_busy]
        if free and not self.chance(0.1):
            return self.random.choice(free)
        self.worker_count += 1
        self.workers.append(Worker(TransactionalIds(f"{self.worker_count:032x}")))
        return self.workers[-1]

    def name_for(self, worker: Worker, batch: int, partition: int, run: str) -> str:
        self.attempt_count += 1
        if self.naming is Naming.UNIQUE:
            return transactional_id_for("p", "q", str(batch), partition, run, self.attempt_count)
        if self.naming is Naming.SHARED:
            name = self.pool.pop(0) if self.pool else f"p.q.anybody.{0:032x}.{self.attempt_count}"
            self.used.setdefault(batch, []).append(name)
            return name
        at_once = self.naming is Naming.AT_ONCE
        return worker.ids.lease("p", "q", run, self.attempt_count if at_once else batch)

    def task(self, batch: int, partition: int, run: str, done: list[Attempt]) -> Task:
        worker = self.free_worker()
        worker.is_busy = True
        name = self.name_for(worker, batch, partition, run)
        return Task(self.attempt(name, batch, partition, done), worker)

    def attempt(self, name: str, batch: int, partition: int, done: list[Attempt]) -> Iterator[None]:
        if self.log.decisions.known("q", str(batch)).decision is not None:
            done.append(Attempt("", ""))
            return
        yield
        identity = self.log.init(name)
        yield
        for k in range(3):
            self.log.produce(name, identity, (batch, partition, k))
            yield
        done.append(Attempt(name, f"{identity[0]}:{identity[1]}", 3))

    def run_task(self, batch: int, partition: int, run: str) -> Attempt | None:
        for _ in range(3):
            done: list[Attempt] = []
            running = [self.task(batch, partition, run, done) for _ in range(1 + self.chance(0.25))]
            fate = self.random.random()
            while running and not done:
                self.step_zombies()
                chosen = self.random.choice(running)
                if fate < 0.3 and self.chance(0.3):
                    running.remove(chosen)
                    if fate < 0.2:
                        self.zombies.append(chosen)  # its executor was lost, but it lives on
                    elif chosen.worker is not None:
                        self.workers.remove(chosen.worker)
                elif not self.step(chosen):
                    running.remove(chosen)
            self.zombies += running
            if done:
                return done[0]
        return None

    def complete(self, decision: BatchDecision) -> Iterator[None]:
        for winner in decision.winners:
            producer_id, _, producer_epoch = winner.prepared_state.partition(":")
            self.log.end(winner.transactional_id, (int(producer_id), int(producer_epoch)), "commit")
            yield

    def sweep(self, decision: BatchDecision) -> Iterator[None]:
        """In steps, as a driver may sleep between them; the first lists."""
        open_states = self.log.open_states()
        yield
        decided = [each for each, _ in self.log.decisions.decided("q")]
        for orphan in orphans_after_decision("p", decision, open_states, decided):
            self.log.init(orphan)
        leased = leased_orphans("p", "q", open_states, decided)
        yield
        known = self.log.decisions.known("q", decision.batch_id)
        is_over = known.is_done or known.decision is None
        for orphan, state in leased.items():
            if self.naming is Naming.SWEPT_LATE:
                self.log.init(orphan)
            elif not is_over:
                producer_id, _, producer_epoch = state.partition(":")
                yield
                self.log.end(orphan, (int(producer_id), int(producer_epoch)), "abort")

    def finish(self, decision: BatchDecision) -> bool:
        for work in (self.complete, self.sweep):
            if self.chance(0.2):
                asleep = Task(work(decision))  # another driver of this decision, which stops in the middle of this
                self.step(asleep)
                self.zombies.append(asleep)
            for _ in work(decision):
                self.step_zombies()
                if self.chance(0.05):
                    return False
        self.log.decisions.apply(record_key("q", decision.batch_id, DONE, decision.run_id), b"{}")
        self.pool += self.used.pop(int(decision.batch_id), [])
        decided = self.log.decisions.decided("q")
        floor = oldest_kept("q", [each.batch_id for each, _ in decided])
        for older, is_done in decided:
            if may_be_forgotten(older, is_done, floor):
                self.log.decisions.apply(record_key("q", older.batch_id, DECISION, older.run_id), None)
        return True

    def abort(self, batch: int, run: str, attempts: list[Attempt]) -> None:
        if self.eager:
            for attempt in attempts:
                if not attempt.is_empty:
                    self.log.init(attempt.transactional_id)
            return
        what = on_abort(self.log.decisions.known("q", str(batch)), run)
        if isinstance(what, RollForward):
            self.finish(what.decision)
        elif isinstance(what, Veto):
            self.log.decisions.apply(record_key("q", str(batch), VETO, run), b"{}")
            for orphan in orphans_after_veto("p", "q", str(batch), run, self.log.open_ids()):
                self.log.init(orphan)

    def new_run(self) -> str:
        self.run_count += 1
        return f"{self.run_count:08d}"

    def run_batch(self, batch: int, run: str) -> bool:
        attempts: list[Attempt] = []
        for partition in range(3):
            attempt = self.run_task(batch, partition, run)
            if attempt is None or self.chance(0.05):
                return False
            attempts.append(attempt)
        if self.chance(0.15):
            if self.chance(0.5):
                self.abort(batch, run, attempts)
            return False
        what = on_commit(self.log.decisions.known("q", str(batch)), "q", str(batch), run, attempts)
        if isinstance(what, Refuse):
            return False
        if isinstance(what, Decide):
            self.log.decisions.apply(record_key("q", str(batch), DECISION, run), decision_value(what.decision))
        self.step_zombies()
        if self.chance(0.2):
            if self.chance(0.5):
                self.abort(batch, run, attempts)
            return False
        return self.finish(what.decision) and not self.chance(0.15)

    def verdict(self, batch_count: int = 3) -> tuple[int, int]:
        """(duplicates, losses) after all batches ended and every zombie had its say."""
        run = self.new_run()
        for batch in range(batch_count):
            for _ in range(300):
                if self.run_batch(batch, run):
                    break
                run = self.new_run()  # only a run whose batch went well goes on to the next
                if batch and self.chance(0.3):
                    slept = self.random.randrange(batch)
                    self.run_batch(slept, self.new_run())  # a driver that slept through what came since
            else:
                raise AssertionError("the batch never ends")
        for _ in range(200):
            self.step_zombies()
        for left in self.log.open_ids():
            self.log.init(left)
        seen = [value for identity, value in self.log.records if self.log.outcome.get(identity) == "commit"]
        wanted = {(b, p, k) for b in range(batch_count) for p in range(3) for k in range(3)}
        return len(seen) - len(set(seen)), len(wanted - set(seen))
