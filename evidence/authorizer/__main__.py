"""`make authorizer DECISIONS=200000`: our authorizer's decisions beside those of Apache Kafka's StandardAuthorizer itself.

Worlds of rules are drawn from seeds; each is put to both. Prints what differs with the rules that it takes, and one summary line.
Exit status 0: nothing differs; 1: something does; 77: Java or Apache Kafka's jars are missing.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import subprocess
import sys
from typing import Self

from evidence.authorizer.worlds import World, drawn
from evidence.compat.clients.programs import Missing, kafka_jars, needs, run
from evidence.compat.servers import NOT_ALL_RUN
from evidence.differential.brokers import kafka_launcher

HERE = pathlib.Path(__file__).parent
RECORD = HERE / "recorded.txt"
CLASSES = pathlib.Path("build/authorizer-java").absolute()
QUESTIONS = 500  # about each world
RECORDED_WORLDS, RECORDED_QUESTIONS = 60, 60
DIFFERENCES_MAX = 5


class Apache:
    """Its authorizer in a process, for as long as the `with` block."""

    def __enter__(self) -> Self:
        needs("java", "javac")
        if kafka_launcher() is None:
            raise Missing("Apache Kafka's jars need Java 17 and mvn")
        CLASSES.mkdir(parents=True, exist_ok=True)
        path = f"{kafka_jars()}/*"
        run(["javac", "-cp", path, "-d", str(CLASSES), "Decisions.java"], HERE)
        command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", f"{CLASSES}:{path}", "Decisions"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def answers(self, world: World) -> str:
        """What it decides, as 0 and 1."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n".join(world.lines()) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline().strip()
        if len(line) != len(world.questions):
            raise RuntimeError(f"Apache Kafka's authorizer answered {line!r}")
        return line


def smallest(apache: Apache, world: World) -> World:
    """Fewer rules and one question, about which both still differ."""
    ours, theirs = world.answers_without_stars(), apache.answers(world)
    asked = next(question for question, a, b in zip(world.questions, ours, theirs, strict=True) if a != b)
    world = dataclasses.replace(world, questions=(asked,))
    for rule in world.rules:
        fewer = dataclasses.replace(world, rules=tuple(each for each in world.rules if each is not rule))
        if fewer.answers_without_stars() != apache.answers(fewer):
            world = fewer
    return world


def compare(apache: Apache, decision_count: int, first: int) -> int:
    """How many decisions differ."""
    asked = allowed = starred = differing = shown = 0
    world_count = -(-decision_count // QUESTIONS)
    for seed in range(first, first + world_count):
        world = drawn(seed, QUESTIONS)
        ours, theirs = world.answers_without_stars(), apache.answers(world)
        asked += len(ours)
        starred += sum(a != b for a, b in zip(ours, world.answers(), strict=True))
        allowed += theirs.count("1")
        if ours != theirs:
            differing += sum(a != b for a, b in zip(ours, theirs, strict=True))
            if shown < DIFFERENCES_MAX:
                shown += 1
                small = smallest(apache, world)
                print(f"seed {seed}: Apache Kafka says {apache.answers(small)}:", *small.lines(), sep="\n  ")
    print(
        f"authorizer: {asked:,} decisions about {world_count:,} worlds, {allowed:,} allowed, {differing:,} differ"
        f" ({starred:,} more as docs/differences-from-kafka.md says: names that begin with a star)"
    )
    return differing


def record(apache: Apache) -> None:
    """Write what `make test` compares with."""
    worlds = [(seed, drawn(seed, RECORDED_QUESTIONS)) for seed in range(RECORDED_WORLDS)]
    RECORD.write_text("".join(f"{seed} {apache.answers(world)}\n" for seed, world in worlds))
    print(f"authorizer: {RECORD.name} written")


def main() -> int:
    parser = argparse.ArgumentParser(description="Our decisions beside those of Apache Kafka's StandardAuthorizer.")
    parser.add_argument("--decisions", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1, help="the first world's")
    parser.add_argument("--record", action="store_true", help="write recorded.txt anew instead")
    arguments = parser.parse_args()
    try:
        with Apache() as apache:
            if arguments.record:
                record(apache)
                return 0
            return 1 if compare(apache, arguments.decisions, arguments.seed) else 0
    except Missing as missing:
        print(f"authorizer: not run: {missing}", file=sys.stderr)
        return NOT_ALL_RUN


if __name__ == "__main__":
    sys.exit(main())
