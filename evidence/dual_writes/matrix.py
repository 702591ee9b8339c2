"""The crash matrix: one cell per database and point; after recovery its rows and its records must be the same.

A cell's first instance writes 1, then 2 with the point armed, then 3 if it lives; a second one recovers and writes 4.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evidence.dual_writes import proxy
from evidence.dual_writes.instance import RECOVERY_STEPS, STEPS, TOPIC, Life
from evidence.dual_writes.world import World, records_of

END_TXN, PRODUCE, INIT_PRODUCER_ID = 26, 0, 22
STRIKES_US = (0, 50, 150, 400, 1000)


@dataclass(frozen=True)
class Cell:
    """`point` as the knife takes it; `request` what the proxy waits for (an API key, or "COMMIT"), and `action` what it does."""

    kind: str
    point: str = ""
    delay_us: int = 0
    loses: str = ""
    action: str = ""
    request: int | str = ""
    recovery: str = ""  # the point at which the second instance is killed, too
    prepares_first: bool = False  # the application calls `prepare`, before its rows

    @property
    def name(self) -> str:
        parts = [self.point, f"+{self.delay_us}us" if self.delay_us else "", f"lost {self.loses}" if self.loses else ""]
        parts += [f"{self.action} at {self.request}" if self.action else "", self.recovery and f"then {self.recovery}"]
        parts.append("prepared first" if self.prepares_first else "")
        return " ".join(part for part in parts if part)


@dataclass
class Result:
    """What came of a cell; `problem` is empty where both sides agree."""

    cell: Cell
    name: str
    claim: str | None
    rows: list[int]
    problem: str = ""


def cells(kind: str, *, servers: bool, completes_behind: bool = True) -> list[Cell]:
    """All cells of one database; `servers`: those that kill broker or database, too (seconds each).

    `completes_behind` is false where a planted mistake leaves nothing to complete behind the block.
    """
    found = [Cell(kind, f"{when} {step}") for step in STEPS for when in ("before", "after")]
    found += [Cell(kind, f"{when} {step}", prepares_first=True) for step in STEPS for when in ("before", "after")]
    decisions = ["after commit", "after store", "after prepare"]
    if completes_behind:
        found.append(Cell(kind, "after begin_completing"))
        found += [Cell(kind, "while completing", delay_us=delay_us) for delay_us in STRIKES_US]
        decisions.append("after begin_completing")
    for decided in decisions:
        for step in RECOVERY_STEPS:
            found += [Cell(kind, decided, recovery=f"{when} {step}") for when in ("before", "after")]
    actions = (proxy.KILL_BEFORE, proxy.KILL_INSIDE, proxy.KILL_AFTER, proxy.CUT_BEFORE, proxy.CUT_AFTER)
    for request in (END_TXN, PRODUCE):
        found += [Cell(kind, action=action, request=request) for action in actions]
    if kind == "postgresql":
        found += [Cell(kind, action=action, request="COMMIT") for action in actions]
    else:
        found += [Cell(kind, "inside commit", delay_us=delay_us) for delay_us in STRIKES_US]
        found += [Cell(kind, loses=what) for what in ("request", "answer")]
    if servers:
        found += [Cell(kind, action=proxy.KILL_SERVER, request=request) for request in (END_TXN, PRODUCE)]
        if kind == "postgresql":
            found.append(Cell(kind, action=proxy.KILL_SERVER, request="COMMIT"))
    return found


def first_life(cell: Cell) -> Callable[[Life], None]:
    """Writes 1, 2 under the knife, 3."""

    def body(life: Life) -> None:
        with life.writer() as (writer, _):
            writer.start()
            assert life.put(writer, 1) == "committed"
            writer.complete()  # what is armed now is met by the second
            life.tell(armed=os.getpid())
            life.hear()
            life.knife.point, life.knife.delay_us, life.knife.loses = cell.point, cell.delay_us, cell.loses
            life.tell(claim=life.put(writer, 2, prepares_first=cell.prepares_first))
            if cell.point == "while completing":
                time.sleep(60)  # it strikes, if later than the block's end
            life.tell(third=life.put(writer, 3))

    return body


def last_life(life: Life) -> None:
    """Recovers, writes 4, tells the rows."""
    with life.writer() as (writer, database):
        writer.start()
        assert life.put(writer, 4) == "committed"
        life.tell(rows=life.store.rows(database, life.name))


def killed_recovery(point: str) -> Callable[[Life], None]:
    """Recovers with the knife armed."""

    def body(life: Life) -> None:
        with life.writer() as (writer, _):
            life.knife.point = point
            writer.start()

    return body


def run_cell(world: World, cell: Cell) -> Result:
    """One cell; whether the sides agree is judged later, with one look at the topic."""
    name = world.new_name(f"{cell.kind} {cell.name}")
    child = world.child(cell.kind, name, first_life(cell))
    armed = child.hear()
    assert armed, f"{name}: the first instance did not get to its first write"
    guard = world.sql if cell.request == "COMMIT" else world.kafka
    if cell.action:
        assert guard is not None
        guard.arm(cell.action, None if cell.request == "COMMIT" else int(cell.request), _victim(world, cell, armed))
    child.go()
    if cell.action == proxy.KILL_SERVER:
        _restart(world, cell)
    told: dict[str, Any] = {}
    for line in child.rest():
        told |= line
    status = child.wait()
    problem = ""
    if cell.action and guard is not None and not guard.disarm():
        problem = "the proxy saw no such request"
    must_die = (cell.action.startswith("kill") and cell.action != proxy.KILL_SERVER) or cell.point
    if must_die and not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL):
        problem = f"it was not killed: {told}"
    goes_on = told.get("third") == "committed" or cell.action == proxy.KILL_SERVER
    if not must_die and (not goes_on or status != 0):
        problem = f"it did not go on: {told}"
    if cell.recovery:
        child = world.child(cell.kind, name, killed_recovery(cell.recovery))
        child.rest()
        if not os.WIFSIGNALED(child.wait()):
            problem = "the recovery was not killed"
    rows = world.ask(cell.kind, name, last_life)[-1]["rows"]
    return Result(cell, name, told.get("claim"), rows, problem)


def _victim(world: World, cell: Cell, armed: dict[str, Any]) -> int:
    if cell.action != proxy.KILL_SERVER:
        return int(armed["armed"])
    if cell.request == "COMMIT":
        assert world.postgres is not None
        return world.postgres.process.pid
    return world.server.pid


def _restart(world: World, cell: Cell) -> None:
    if cell.request == "COMMIT":
        assert world.postgres is not None
        world.postgres.process.wait(30)
        world.postgres.start()
    else:
        world.server.wait(30)
        world.restart_broker()


def judge(world: World, results: list[Result]) -> None:
    """Compare every cell with the topic; sets `problem`."""

    def body(life: Life) -> None:
        life.tell(records=records_of(life.broker, TOPIC))

    records = world.ask("sqlite", "judge", body)[-1]["records"]
    for result in results:
        if not result.problem:
            result.problem = problem_of(result, records.get(result.name, []))


def problem_of(result: Result, records: list[int]) -> str:
    """What is wrong with a cell; empty where nothing is."""
    if sorted(records) != result.rows:
        return f"rows {result.rows}, records {records}"
    if not {1, 4} <= set(records) or len(set(records)) != len(records):
        return f"1 and 4 are there once each, not {records}"
    if result.claim is not None and (result.claim == "committed") != (2 in records):
        return f"it was told {result.claim}: {records}"
    return ""
