"""A small world for `core/two_phase/dual_write.py`: a row, a topic with producer epochs, instances, and everything going wrong.

Commits and ends can be lost before or after they take effect, or take effect late, when their sender has long given up or
is dead. Instances run beside one another, are killed at any effect, and interrupted before or behind it. At the end a last
one recovers, and rows and records must be the same; nobody was fenced but by another instance.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

from oncelog.core.two_phase import dual_write as core
from oncelog.core.two_phase.dual_write import DualWrite, Outcome, Phase, StoredState
from oncelog.types import PreparedTxnState

STEPS = 60


class Refused(Exception):
    """An effect failed: `retriable`, `definite` as the machine takes them."""

    def __init__(self, *, retriable: bool = False, definite: bool = False) -> None:
        self.retriable, self.definite = retriable, definite


class World:
    """The database and the topic. Epochs stand for producer id and epoch together."""

    def __init__(self, rng: random.Random) -> None:
        self.random = rng
        self.fails = 0.15
        self.version, self.state = 0, PreparedTxnState()
        self.raised_by: Instance | None = None  # whose version that is
        self.rows: list[int] = []
        self.late_commits: list[tuple[StoredState, int]] = []
        self.acting, self.epochs = 0, 0
        self.ended_by: int | None = None  # whose end was the last: its retry is recognised
        self.ongoing: tuple[PreparedTxnState, int] | None = None
        self.whole: set[PreparedTxnState] = set()  # what all records of have arrived
        self.records: list[int] = []
        self.late_ends: list[tuple[int, bool]] = []
        self.transactions = self.writes = 0

    def chance(self) -> bool:
        return self.random.random() < self.fails

    def interrupts(self) -> bool:
        return self.random.random() < self.fails / 5

    # the database

    def commit(self, stored: StoredState, write: int) -> None:
        if stored.instance_version != self.version:
            raise Refused(definite=True)
        self.state = stored.prepared_state
        self.rows.append(write)

    def land_late_commits(self) -> None:
        """What is in flight takes effect, or is gone."""
        late, self.late_commits = self.late_commits, []
        for stored, write in late:
            if stored.instance_version == self.version and self.random.random() < 0.5:
                self.commit(stored, write)

    # the topic

    def new_epoch(self) -> int:
        self.epochs += 1
        self.acting = self.epochs
        return self.acting

    def end(self, producer: int, commit: bool) -> int:
        """EndTxn of KIP-890: fenced unless it is the acting producer's, or the retry of the last one's."""
        if producer == self.ended_by and self.ongoing is None:
            return self.acting
        if producer != self.acting:
            raise Refused
        if self.ongoing is not None and commit:
            self.records.append(self.ongoing[1] if self.ongoing[0] in self.whole else -self.ongoing[1])
        self.ongoing = None
        self.ended_by = producer
        return self.new_epoch()

    def land_late_ends(self) -> None:
        late, self.late_ends = self.late_ends, []
        for producer, commit in late:
            with contextlib.suppress(Refused):
                self.end(producer, commit)


class Instance:
    """A process with a machine; `claims` is what it told its caller of each write."""

    def __init__(self, world: World, make: type[DualWrite]) -> None:
        self.world, self.machine = world, make()
        self.producer: int | None = None
        self.prepared = PreparedTxnState()
        self.write = 0
        self.claims: dict[int, Outcome | None] = {}
        self.fenced_itself = False

    def live(self) -> Iterator[None]:
        """Recover, write, recover ...; each effect is one step."""
        machine = self.machine
        while machine.phase is not Phase.FENCED:
            if machine.phase is not Phase.READY:
                machine.recover()
                yield from self.carry_out()
                self.note()
                continue
            self.world.writes += 1
            self.write = self.world.writes
            machine.begin()
            yield from self.carry_out()
            if machine.phase is Phase.WRITING:
                yield from self.end_block()
            self.note()

    def end_block(self) -> Iterator[None]:
        how = self.world.random.random()
        if how < 0.15:
            self.machine.abandon()
            yield from self.carry_out()
            return
        if how < 0.3:  # the application's `prepare`
            self.machine.prepare()
            yield from self.carry_out()
        if self.machine.is_open:
            self.machine.commit()
            yield from self.carry_out()

    def note(self) -> None:
        if self.write:
            self.claims[self.write] = self.machine.outcome

    def carry_out(self) -> Iterator[None]:
        was_fenced = self.machine.phase is Phase.FENCED
        while (effect := self.machine.next_effect()) is not None:
            yield
            if self.world.interrupts():
                self.machine.interrupted()
                return
            try:
                result = self.perform(effect)
            except Refused as refused:
                self.machine.failed(is_retriable=refused.retriable, is_definite=refused.definite)
            else:
                if self.world.interrupts():
                    self.machine.interrupted()
                    return
                self.machine.succeeded(result)
            if self.machine.phase is Phase.FENCED and not was_fenced:
                was_fenced, self.fenced_itself = True, self.world.raised_by is self

    def perform(self, effect: core.Effect) -> object:
        world = self.world
        match effect:
            case core.AnnounceState():
                return self.announce()
            case core.PrepareTopic(announced=announced):
                if announced is None:
                    announced = self.announce()
                elif world.chance():
                    return None
                if self.producer != world.acting or world.chance():
                    raise Refused
                world.ongoing = (announced, self.write)
                world.whole.add(announced)
                return announced
            case core.StoreState(stored=stored):
                self.stored = stored
                if world.chance():
                    raise Refused
                return stored.instance_version == world.version
            case core.CommitDatabase():
                return self.commit()
            case core.TakeOver(expected_version=expected):
                world.land_late_commits()
                if expected is not None and expected != world.version:
                    return None
                if world.chance():
                    raise Refused
                world.version += 1
                world.raised_by = self
                if world.chance():
                    raise Refused
                return world.version
            case core.KeepTopic():
                self.producer = None
                producer = world.new_epoch()
                world.ended_by = None  # KIP-360: a newer instance's init leaves nothing for the old one to resume
                if world.chance():
                    raise Refused(retriable=True)
                self.producer = producer
                self.prepared = world.ongoing[0] if world.ongoing else PreparedTxnState()
                return self.prepared
            case core.ReadState():
                if world.chance():
                    raise Refused
                return StoredState(world.version, world.state)
            case core.CompleteTopic(prepared_state=state):
                return self.end(commit=state == self.prepared) if self.prepared else None
            case core.AbortTopic():
                return self.end(commit=False)
            case core.BeginDatabase() if world.chance():
                raise Refused
        return None

    def announce(self) -> PreparedTxnState:
        """Some of its records may arrive before the others."""
        world = self.world
        world.transactions += 1
        self.prepared = PreparedTxnState.of(1, world.transactions)
        if self.producer == world.acting and world.random.random() < 0.5:
            world.ongoing = (self.prepared, self.write)
        return self.prepared

    def commit(self) -> None:
        world = self.world
        how = world.random.random() / world.fails if world.fails else 9
        if how < 1:  # the answer is lost
            world.commit(self.stored, self.write)
            raise Refused
        if how < 2:  # the request is lost
            raise Refused
        if how < 3:  # the request takes its time
            world.late_commits.append((self.stored, self.write))
            raise Refused
        world.commit(self.stored, self.write)

    def end(self, *, commit: bool) -> None:
        world = self.world
        if self.producer is None:
            raise Refused
        if world.chance():
            raise Refused(retriable=True)
        if world.chance():
            world.late_ends.append((self.producer, commit))
            raise Refused(retriable=True)
        producer = world.end(self.producer, commit)
        if world.chance():
            raise Refused(retriable=True)
        self.producer = producer
        self.prepared = PreparedTxnState()


def run(seed: int, make: type[DualWrite] = DualWrite) -> list[str]:
    """One seed; what must not be."""
    rng = random.Random(seed)
    world = World(rng)
    instances: list[Instance] = []
    alive: list[Iterator[None]] = []

    def spawn() -> None:
        instances.append(Instance(world, make))
        alive.append(instances[-1].live())

    spawn()
    for _ in range(STEPS):
        what = rng.random()
        if what < 0.05 and len(alive) < 3:
            spawn()
        elif what < 0.1 and alive:
            del alive[rng.randrange(len(alive))]
        elif what < 0.13:
            world.land_late_commits()
        elif what < 0.16:
            world.land_late_ends()
        elif not alive:
            spawn()
        else:
            lucky = rng.choice(alive)
            if next(lucky, alive) is alive:
                alive.remove(lucky)
    world.fails = 0.0
    last = Instance(world, make)
    last.machine.recover()
    for _ in last.carry_out():
        pass
    world.land_late_commits()
    world.land_late_ends()
    return list(problems(world, [*instances, last]))


def problems(world: World, instances: list[Instance]) -> Iterator[str]:
    if world.ongoing is not None:
        yield f"transaction {world.ongoing} is still open"
    if world.rows != world.records:
        yield f"rows {world.rows}, records {world.records}"
    for instance in instances:
        if instance.fenced_itself:
            yield "an instance was fenced, and nobody else had taken over"
        for write, outcome in instance.claims.items():
            if outcome is Outcome.COMMITTED and write not in world.rows:
                yield f"write {write} was called committed"
            if outcome is Outcome.ROLLED_BACK and write in world.rows:
                yield f"write {write} was called rolled back"
