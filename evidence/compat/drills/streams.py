"""Kafka Streams 4.3 with exactly_once_v2, SIGKILLed three times: every total changes once per record, none is lost or doubled.

With the classic protocol one process runs; with that of streams groups (KIP-1071) two, and one of them is killed each time.
"""

from __future__ import annotations

import pathlib
import random
import shutil
import tempfile
import threading
import time
from collections import Counter
from functools import partial

from evidence.compat.clients.programs import needs, run
from evidence.compat.drills.outcome import Outcome, Scale
from evidence.compat.drills.processes import BUILD, Worker
from evidence.compat.drills.reading import CommittedReader, Row, create_topics, produce, read_all

HERE = pathlib.Path(__file__).parent
PARTITIONS = 4
KILLS = 3
WORDS = [f"word{index}" for index in range(50)]


def prepare() -> list[str]:
    """The command without its arguments. Raises Missing."""
    needs("java", "javac", "mvn")
    directory = BUILD / "streams"
    jars = directory / "jars"
    jars.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "pom.xml", directory)
    if not list(jars.glob("kafka-streams-*.jar")):
        run(["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={jars}"], directory)
    run(["javac", "-cp", f"{jars}/*", "-d", str(directory / "classes"), "WordTotals.java"], HERE)
    options = ["-Xmx384m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    return ["java", *options, "-cp", f"{directory / 'classes'}:{jars}/*", "WordTotals"]


def drill(bootstrap: str, scale: Scale, chance: random.Random) -> Outcome:
    """The classic protocol, one process."""
    return _drill(bootstrap, scale, chance, "classic", 1)


def drill_with_streams_group(bootstrap: str, scale: Scale, chance: random.Random) -> Outcome:
    """`group.protocol=streams`, two processes."""
    return _drill(bootstrap, scale, chance, "streams", 2)


def _drill(bootstrap: str, scale: Scale, chance: random.Random, protocol: str, processes: int) -> Outcome:
    """Records come at a steady pace; a process is killed at three moments between the first and the last result."""
    command = prepare()
    count = scale.pick(short=12_000, full=100_000)
    rows: list[Row] = [
        (index % PARTITIONS, b"%d" % index, b"%s:%d" % (chance.choice(WORDS).encode(), index)) for index in range(count)
    ]
    create_topics(bootstrap, words=PARTITIONS, totals=PARTITIONS)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="oncelog-streams-") as state:
        workers = [
            Worker(
                f"streams-{index}",
                partial(_command, [*command, bootstrap, f"{state}/{index}", str(PARTITIONS), protocol]),
            )
            for index in range(processes)
        ]
        stopped = threading.Event()
        feed = threading.Thread(
            target=produce, args=(bootstrap, "words", rows, scale.pick(short=600, full=1500), stopped), daemon=True
        )
        try:
            with CommittedReader(bootstrap, "totals", PARTITIONS) as reader:
                for each in workers:
                    each.start()
                feed.start()
                for kill in range(1, KILLS + 1):
                    moment = int(count * (kill / (KILLS + 1)) * chance.uniform(0.8, 1.0))
                    if not reader.wait_for(moment, 180):
                        break
                    worker = chance.choice(workers)
                    worker.kill()
                    worker.start()
                reader.wait_for(count, 240)
                feed.join()
                time.sleep(1)
                beside = list(reader.rows)
                words = " / ".join(each.last_words() for each in workers)
        finally:
            stopped.set()
            for each in workers:
                each.stop()
    late = read_all(bootstrap, "totals", PARTITIONS)
    problems = [f"beside: {each}" for each in wrong(rows, beside)] + [f"late: {each}" for each in wrong(rows, late)]
    kills = sum(each.kills for each in workers)
    if kills < KILLS:
        problems.append(f"killed {kills} times only: {words}")
    figures = (
        f"{count:,} records, {len(WORDS)} words, {kills} kills, {len(late):,} changes of totals, "
        f"{time.monotonic() - began:.0f} s"
    )
    return Outcome(figures, problems)


def _command(command: list[str], _life: int) -> list[str]:
    return command


def wrong(rows: list[Row], totals: list[Row]) -> list[str]:
    """What is not as it must be: each word's count goes 1, 2, 3 ... up to its number of records; its last sum is right."""
    counts: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    for _, _, line in rows:
        word, _, number = line.decode().partition(":")
        counts[word] += 1
        sums[word] += int(number)
    seen: dict[str, list[str]] = {}
    for _, word, total in totals:
        seen.setdefault(word.decode(), []).append(total.decode())
    problems = []
    for word, expected in counts.items():
        found = [int(total.partition(":")[0]) for total in seen.get(word, [])]
        if found != list(range(1, expected + 1)):
            problems.append(f"{word}: {len(found)} changes, {len(set(found))} different, {expected} expected")
        elif seen[word][-1] != f"{expected}:{sums[word]}":
            problems.append(f"{word}: ends with {seen[word][-1]}, not {expected}:{sums[word]}")
    return problems
