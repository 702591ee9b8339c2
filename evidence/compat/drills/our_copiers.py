"""Kafka's system test with our clients: four copiers in one group, one SIGKILLed every few seconds; all is there once."""

from __future__ import annotations

import json
import random
import sys
import time

from evidence.compat.drills.copiers import wrong
from evidence.compat.drills.outcome import Outcome, Scale
from evidence.compat.drills.processes import Worker
from evidence.compat.drills.reading import CommittedReader, Row, create_topics, produce, read_all

COPIERS = 4
PARTITIONS = 8
WAIT_S = 600


def drill(bootstrap: str, scale: Scale, chance: random.Random) -> Outcome:
    """Records come for as long as the kills go on, so that every life has work."""
    count = scale.pick(short=20_000, full=100_000)
    rows: list[Row] = [(index % PARTITIONS, b"", b"%d" % index) for index in range(count)]
    create_topics(bootstrap, input=PARTITIONS, output=PARTITIONS)
    began = time.monotonic()
    produce(bootstrap, "input", rows)
    command = [sys.executable, "-m", "evidence.compat.drills.our_copier", bootstrap]
    workers = [Worker(f"our-copier-{index}", lambda life, i=index: [*command, str(i)]) for index in range(COPIERS)]
    problems: list[str] = []
    try:
        with CommittedReader(bootstrap, "output", PARTITIONS) as reader:
            for worker in workers:
                worker.start()
            kill_until(lambda: len(reader.rows) >= count * 19 // 20, workers, chance)
            if not reader.wait_for(count, WAIT_S):
                problems += [f"{worker.name}: {worker.last_words()}" for worker in workers]
            time.sleep(1)
            beside = list(reader.rows)
    finally:
        for worker in workers:
            worker.stop()
    late = read_all(bootstrap, "output", PARTITIONS)
    problems += [f"beside: {each}" for each in wrong(rows, beside)] + [f"late: {each}" for each in wrong(rows, late)]
    kills = sum(worker.kills for worker in workers)
    if kills < scale.pick(short=5, full=12):
        problems.append(f"only {kills} kills")
    deaths = sum(worker.lives - worker.kills - 1 for worker in workers)
    figures = f"{count:,} messages, {COPIERS} copiers, {kills} kills, {deaths} ended by an error and began again"
    return Outcome(f"{figures}, {time.monotonic() - began:.0f} s", problems)


def kill_until(is_over, workers: list[Worker], chance: random.Random) -> None:
    """One of them every few seconds, once it has copied something in its present life; an ended one begins again."""
    deadline = time.monotonic() + WAIT_S
    while not is_over() and time.monotonic() < deadline:
        victim = chance.choice(workers)
        moment = time.monotonic() + chance.uniform(1.0, 3.0)
        while time.monotonic() < moment or not has_copied(victim):
            if is_over() or time.monotonic() > deadline:
                return
            for worker in workers:
                if not worker.is_running:
                    worker.start()
            time.sleep(0.05)
        victim.kill()
        victim.start()


def has_copied(worker: Worker) -> bool:
    """In its present life."""
    return any(json.loads(line).get("outcome") == "committed" for line in worker.lines if line.startswith("{"))
