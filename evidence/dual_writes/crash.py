"""`python -m evidence.dual_writes.crash`: dual writes whose processes are killed; ends with a summary, exit 1 unless all agree.

The matrix kills at every step; --kills N kills N times at random for each database; --minutes M lets two instances fight over
one transactional id; one that stopped just before its commit is woken when the next has recovered.
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import random
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from evidence.dual_writes.instance import STEPS, Child, Life
from evidence.dual_writes.matrix import Cell, Result, cells, first_life, judge, last_life, run_cell
from evidence.dual_writes.world import World, records_of, running
from evidence.world import postgresql
from oncelog.errors import InstanceFenced, OncelogError

FOLDER = "build/dual-writes"
KINDS = ("postgresql", "sqlite", "rocksdb")
VALUES_PER_LIFE = 100_000


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def matrix(
    world: World, kinds: list[str], *, servers: bool, completes_behind: bool = True, only_every: int = 1
) -> list[Result]:
    """All cells (or every n-th)."""
    results: list[Result] = []
    for first, kind in enumerate(kinds):
        chosen = cells(kind, servers=servers, completes_behind=completes_behind)[first % only_every :: only_every]
        started = time.monotonic()
        results += [run_cell(world, cell) for cell in chosen]
        say(f"{kind}: {len(chosen)} cells in {time.monotonic() - started:.0f} s")
    judge(world, results)
    for result in results:
        if result.problem:
            say(f"DISAGREES: {result.name}: {result.problem}")
    return results


# an instance that is stopped, and woken when the next has recovered


def stopped_and_woken(world: World, kind: str, point: str) -> str:
    """What is wrong; empty where nothing is."""
    name = world.new_name(f"{kind} stopped {point}")

    def stops(life: Life) -> None:
        life.knife.how = signal.SIGSTOP
        first_life(Cell(kind, point))(life)

    def recovers(life: Life) -> None:
        try:
            with life.writer() as (writer, _):
                writer.start()
                life.tell(second=life.put(writer, 5))
        except Exception as error:  # noqa: BLE001  (SQLite's lock, RocksDB's lock file: both are the old instance's)
            life.tell(refused=str(error))

    child = world.child(kind, name, stops)
    child.hear()
    child.go()
    if not child.wait_until_stopped():
        return "it did not stop"
    second = world.ask(kind, name, recovers, busy_timeout_ms=300)[-1]
    child_id = child.process_id
    signal_child(child_id, signal.SIGCONT)
    told: dict[str, Any] = {}
    for line in child.rest():
        told |= line
    child.wait()
    rows = world.ask(kind, name, last_life)[-1]["rows"]
    result = Result(Cell(kind, point), name, told.get("claim"), rows)
    judge(world, [result])
    has_recovered = second.get("second") == "committed"
    if not result.problem and has_recovered and told.get("third") == "committed":
        return "the woken instance went on writing beside the newer one"
    if not result.problem and has_recovered != (5 in rows):
        return f"the second instance said {second}: {rows}"
    if kind == "postgresql" and not has_recovered:
        return f"the second instance could not recover: {second}"
    return result.problem


def signal_child(process_id: int, which: signal.Signals) -> None:
    import os

    os.kill(process_id, which)


# random kills


def writes_until_killed(number: int) -> Callable[[Life], None]:
    def body(life: Life) -> None:
        with life.writer() as (writer, _):
            writer.start()
            life.tell(started=True)
            for value in itertools.count(number * VALUES_PER_LIFE):
                claim = life.put(writer, value)
                if claim == "committed":
                    life.tell(committed=value)

    return body


def recovers_and_tells(life: Life) -> None:
    with life.writer() as (writer, database):
        writer.start()
        rows = life.store.rows(database, life.name)
    life.tell(rows=rows, records=records_of(life.broker, life.topic).get(life.name, []))


def random_kills(world: World, kind: str, kills: int, rng: random.Random) -> tuple[int, int]:
    """How many of the kills left both sides the same, and how many writes there were."""
    name = topic = world.new_name(f"{kind} kills")
    agreed, committed = 0, set[int]()
    rows: list[int] = []
    for number in range(1, kills + 1):
        child = world.child(kind, name, writes_until_killed(number), topic=topic)
        if rng.random() < 0.75:
            child.hear()
            time.sleep(rng.uniform(0, 0.08))
        else:
            time.sleep(rng.uniform(0, 0.15))  # while it recovers
        if rng.random() < 0.05:
            world.restart_broker()
        elif kind == "postgresql" and rng.random() < 0.03:
            world.restart_postgres()
        child.kill()
        committed.update(line["committed"] for line in child.rest() if "committed" in line)
        child.wait()
        found = world.ask(kind, name, recovers_and_tells, topic=topic)[-1]
        rows, records = found["rows"], found["records"]
        if rows == sorted(records) and len(set(rows)) == len(rows) and committed <= set(rows):
            agreed += 1
        else:
            lost, extra = sorted(set(rows) - set(records)), sorted(set(records) - set(rows))
            say(f"DISAGREES: {name} kill {number}: only rows {lost}, only records {extra}, {committed - set(rows)}")
        if number % 50 == 0:
            say(f"{kind}: {number}/{kills} kills, {agreed} agree, {len(rows)} writes")
    return agreed, len(rows)


# two instances and one id


def fights(process: int, seconds: float) -> Callable[[Life], None]:
    """Start, write until a newer instance is there, start again. RocksDB belongs to one process: there two threads fight."""

    def body(life: Life) -> None:
        ends = time.monotonic() + seconds
        if life.store.name == "rocksdb":
            with life.store.open() as database:
                both = [threading.Thread(target=rounds, args=(life, database, n, ends)) for n in (process, process + 1)]
                for thread in both:
                    thread.start()
                for thread in both:
                    thread.join()
        else:
            with life.store.open() as database:
                rounds(life, database, process, ends)

    return body


def rounds(life: Life, database: Any, number: int, ends: float) -> None:
    values = itertools.count(number * 10_000_000)
    fenced = 0
    while time.monotonic() < ends:
        writer = life.writer_of(database)
        try:
            writer.start()
            while time.monotonic() < ends:
                value = next(values)
                claim = life.put(writer, value)
                life.tell(value=value, claim=claim)
                if claim == "InstanceFenced":
                    fenced += 1
                    break
        except (OncelogError, ConnectionError, *database.errors) as error:
            fenced += isinstance(error, InstanceFenced)
            life.tell(met=repr(error))
        finally:
            writer.stop()
    life.tell(fenced=fenced)


def fight(world: World, kind: str, seconds: float) -> tuple[str, str]:
    """What is wrong, and what happened."""
    name = topic = world.new_name(f"{kind} fight")
    children: list[Child] = [
        world.child(kind, name, fights(p, seconds), topic=topic) for p in ((1,) if kind == "rocksdb" else (1, 3))
    ]
    told = [line for child in children for line in child.rest()]
    for child in children:
        child.wait()
    found = world.ask(kind, name, recovers_and_tells, topic=topic)[-1]
    rows, records = found["rows"], found["records"]
    claims = {line["value"]: line["claim"] for line in told if "value" in line}
    fenced = sum(line.get("fenced", 0) for line in told)
    happened = f"{len(rows)} writes, {fenced} times fenced"
    if rows != sorted(records) or len(set(rows)) != len(rows):
        return f"only rows {set(rows) - set(records)}, only records {set(records) - set(rows)}", happened
    for value, claim in claims.items():
        if claim != "OutcomeUnknown" and (claim == "committed") != (value in set(rows)):
            return f"{value} was called {claim}", happened
    return "", happened


def main() -> int:
    chosen = _arguments()
    folder = pathlib.Path(chosen.folder).absolute()
    shutil.rmtree(folder, ignore_errors=True)
    kinds = list(chosen.only or KINDS)
    reason = postgresql.why_not()
    if reason is not None and "postgresql" in kinds:
        say(f"without PostgreSQL: {reason}")
        kinds.remove("postgresql")
    if chosen.plant:
        from evidence.world.wrong_dual_writes import CompletesFirst
        from oncelog.recipes import sync

        sync.DualWrite = CompletesFirst  # type: ignore[misc]
    rng = random.Random(f"dual writes {chosen.seed}")
    say(f"{', '.join(kinds)}; seed {chosen.seed}; everything under {folder}")
    parts: list[str] = []
    is_good = True
    with running(folder, kinds) as world:
        results = matrix(
            world, kinds, servers=not chosen.short, completes_behind=not chosen.plant, only_every=chosen.every
        )
        agree = sum(not result.problem for result in results)
        is_good &= agree == len(results)
        parts.append(f"{agree}/{len(results)} cells agree")
        points = [f"before {step}" for step in STEPS[4:]] if not chosen.short else ["before commit"]
        woken = {(kind, point): stopped_and_woken(world, kind, point) for kind in kinds for point in points}
        for where, problem in woken.items():
            if problem:
                say(f"DISAGREES: woken {where}: {problem}")
        parts.append(f"{sum(not p for p in woken.values())}/{len(woken)} woken agree")
        is_good &= not any(woken.values())
        for kind in kinds if chosen.kills else ():
            agreed, writes = random_kills(world, kind, chosen.kills, rng)
            parts.append(f"{kind} {agreed}/{chosen.kills} kills agree ({writes} writes)")
            is_good &= agreed == chosen.kills
        for kind in kinds if chosen.minutes else ():
            problem, happened = fight(world, kind, 60 * chosen.minutes)
            parts.append(f"{kind} fight {'DISAGREES: ' + problem[:300] if problem else 'agrees'} ({happened})")
            is_good &= not problem
    print(f"dual writes: {'; '.join(parts)}{'' if is_good else ' FAILED'}")
    return 0 if is_good else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m evidence.dual_writes.crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=0, help="random kills of each database")
    parser.add_argument("--minutes", type=float, default=0, help="how long two instances fight, for each database")
    parser.add_argument("--only", action="append", choices=KINDS, help="only this database")
    parser.add_argument("--short", action="store_true", help="no killed servers, one stopped instance")
    parser.add_argument("--folder", default=FOLDER, help="where everything is")
    parser.add_argument("--every", type=int, default=1, help="only every n-th cell")
    parser.add_argument(
        "--plant", action="store_true", help="complete the topic before the database commits: must be seen"
    )
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of the moments of random kills")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
