"""Kafka's own system test: five TransactionalMessageCopier processes, each killed three times; the output is the input."""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections import Counter

from evidence.compat.clients.programs import Missing, kafka_jars, needs
from evidence.compat.drills.outcome import Outcome, Scale
from evidence.compat.drills.processes import Worker
from evidence.compat.drills.reading import CommittedReader, Row, create_topics, produce, read_all
from evidence.differential.brokers import kafka_launcher

COPIERS = 5
KILLS_EACH = 3
OUTPUT_PARTITIONS = COPIERS  # a copy goes to the partition of its original
TRANSACTION_MESSAGES = 100
WAIT_S = 300


def prepare() -> list[str]:
    """The command without its arguments. Raises Missing."""
    needs("java")
    if kafka_launcher() is None:
        raise Missing("Apache Kafka's jars need Java 17 and mvn")
    options = ["-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return ["java", *options, "-cp", f"{kafka_jars()}/*", "org.apache.kafka.tools.TransactionalMessageCopier"]


def drill(bootstrap: str, scale: Scale, chance: random.Random) -> Outcome:
    """Every copier copies one partition, and offsets with it; a third of its transactions are aborted at random."""
    command = prepare()
    count = scale.pick(short=20_000, full=100_000)
    rows: list[Row] = [(index % COPIERS, b"", b"%d" % index) for index in range(count)]
    create_topics(bootstrap, input=COPIERS, output=OUTPUT_PARTITIONS)
    produce(bootstrap, "input", rows)
    began = time.monotonic()
    workers = [Worker(f"copier-{index}", copier(command, bootstrap, index)) for index in range(COPIERS)]
    try:
        with CommittedReader(bootstrap, "output", OUTPUT_PARTITIONS) as reader:
            for worker in workers:
                worker.start()
            problems = kill_and_wait(workers, chance, count // COPIERS // (KILLS_EACH + 2))
            reader.wait_for(count, 30)
            time.sleep(1)
            beside = list(reader.rows)
    finally:
        for worker in workers:
            worker.stop()
    late = read_all(bootstrap, "output", OUTPUT_PARTITIONS)
    problems += [f"beside: {each}" for each in wrong(rows, beside)] + [f"late: {each}" for each in wrong(rows, late)]
    kills = sum(worker.kills for worker in workers)
    return Outcome(f"{count:,} messages, {COPIERS} copiers, {kills} kills, {time.monotonic() - began:.0f} s", problems)


def copier(command: list[str], bootstrap: str, index: int):
    """Its command; the same in each of its lives."""
    options = {
        "broker-list": bootstrap, "input-topic": "input", "input-partition": str(index), "output-topic": "output",
        "consumer-group": f"copier-{index}", "transactional-id": f"copier-{index}", "max-messages": "-1",
        "transaction-size": str(TRANSACTION_MESSAGES), "transaction-timeout": "10000",
    }  # fmt: skip
    arguments = [text for name, value in options.items() for text in (f"--{name}", value)]
    return lambda life: [*command, *arguments, "--enable-random-aborts", "--use-group-metadata"]


def said(worker: Worker) -> tuple[int, int]:
    """How many messages this life has copied, and how many remain (-1: not known yet)."""
    for line in reversed(worker.lines):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            words = json.loads(line)
            return int(words["consumed"]), int(words["remaining"])
    return 0, -1


def kill_and_wait(workers: list[Worker], chance: random.Random, messages_per_life: int) -> list[str]:
    """Kill each copier KILLS_EACH times, somewhere in its work; then wait until all have ended by themselves."""
    moments = {worker.name: chance.randint(1, messages_per_life) for worker in workers}
    deadline = time.monotonic() + WAIT_S
    problems = []
    while any(worker.is_running for worker in workers):
        if time.monotonic() > deadline:
            problems += [f"{each.name} never ended: {each.last_words()}" for each in workers if each.is_running]
            break
        for worker in workers:
            copied, remaining = said(worker)
            if worker.kills < KILLS_EACH and worker.is_running and copied >= moments[worker.name] and remaining > 0:
                worker.kill()
                worker.start()
                moments[worker.name] = chance.randint(1, messages_per_life)
        time.sleep(0.02)
    for worker in workers:
        if not worker.is_running and (worker.process.returncode or said(worker)[1] != 0):
            problems.append(f"{worker.name} ended with {worker.process.returncode}: {worker.last_words()}")
    return problems


def wrong(rows: list[Row], copies: list[Row]) -> list[str]:
    """Values that are missing, or there twice, or from nowhere."""
    found = Counter(value for _, _, value in copies)
    expected = {value for _, _, value in rows}
    problems = []
    if missing := expected - found.keys():
        problems.append(f"{len(missing)} messages lost, such as {min(missing)!r}")
    if doubled := [value for value, times in found.items() if times > 1]:
        problems.append(f"{len(doubled)} messages twice, such as {doubled[0]!r}")
    if strange := found.keys() - expected:
        problems.append(f"{len(strange)} messages from nowhere, such as {min(strange)!r}")
    return problems
