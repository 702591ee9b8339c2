"""Has every conversation with Apache Kafka again and compares, or writes down what it says: `--write`.

`--differences` asks oncelog instead and writes down where it answers otherwise; the page of differences must then say why.
`--random N` has N conversations of seeds that were never recorded, with both brokers, and compares.
`--only PATTERN` takes the conversations whose name matches (as a shell would), and leaves the others as they are written.
"""

from __future__ import annotations

import argparse
import difflib
import fnmatch
import pathlib
import random
import sys
import tempfile
from collections.abc import Callable, Iterable

from evidence.differential.brokers import ApacheKafkaNode, Node, OncelogNode, kafka_launcher
from evidence.differential.connection import ConnectionClosed, NoReply
from evidence.differential.conversations_random import random_scenarios
from evidence.differential.scenario import KINDS, Kind, all_scenarios, as_file, kind_of, prepare, sections, transcript

RECORDED = pathlib.Path(__file__).parent / "apache_kafka_4_3.txt"
DIFFERENCES = pathlib.Path(__file__).parent / "differences.txt"
OURS = "Where oncelog answers otherwise: - Apache Kafka's line, + oncelog's. docs/differences-from-kafka.md says why."
TITLE = "What Apache Kafka 4.3.0 answered: one section per conversation, one line per request. Written by record.py."
MakeNode = Callable[[pathlib.Path, Kind], ApacheKafkaNode | OncelogNode]


def recorded() -> dict[str, list[str]]:
    """The facts, by name of the conversation."""
    return sections(RECORDED.read_text())


def difference(before: list[str], after: list[str]) -> list[str]:
    """The lines that are only in one of them, with - and +."""
    lines = list(difflib.unified_diff(before, after, lineterm="", n=0))[2:]
    return [line for line in lines if not line.startswith("@@")]


def chosen(patterns: Iterable[str]) -> list[str]:
    """The names that match one of them; all without any."""
    wanted = tuple(patterns) or ("*",)
    return sorted(name for name in all_scenarios() if any(fnmatch.fnmatch(name, each) for each in wanted))


def ask(make: MakeNode, names: Iterable[str]) -> dict[str, list[str]]:
    """These conversations, each with a broker of the kind it needs."""
    names = list(names)
    found: dict[str, list[str]] = {}
    for kind in KINDS:
        here = [name for name in names if kind_of(name) == kind]
        if not here:
            continue
        with tempfile.TemporaryDirectory(prefix="oncelog-differential-") as directory:
            node = make(pathlib.Path(directory), KINDS[kind])
            with node:
                prepare(node, kind, here)
                found |= {name: attempt(node, name) for name in here}
    return found


def attempt(node: Node, name: str) -> list[str]:
    """A transcript; one that broke off says so in its last line."""
    try:
        return transcript(node, name)
    except (AssertionError, ConnectionClosed, NoReply, OSError, LookupError, ValueError) as error:
        return [f"# broke off: {type(error).__name__}: {error}".replace("\n", " | ")]


def apache_kafka(launcher: str) -> MakeNode:
    """How to make an Apache Kafka of a kind."""
    return lambda directory, kind: ApacheKafkaNode(directory, launcher, kind.config)


def oncelog(directory: pathlib.Path, kind: Kind) -> OncelogNode:
    """How to make an oncelog of a kind."""
    return OncelogNode(directory, kind.config)


def write_differences(names: list[str]) -> None:
    """Ask oncelog these, and keep what is known of the others."""
    before = recorded()
    known = sections(DIFFERENCES.read_text())
    found = ask(oncelog, [name for name in names if name in before])
    differing = {name: lines for name, lines in known.items() if name in before and name not in found}
    differing |= {name: lines for name, said in found.items() if (lines := difference(before[name], said))}
    DIFFERENCES.write_text(as_file(OURS, differing))
    print(f"differential: {len(differing)} conversations differ from Apache Kafka's")


def compare_at_random(launcher: str, count: int) -> int:
    """Exit status 1 when one of `count` conversations that begin now goes otherwise with oncelog."""
    first = random.randrange(10**9)
    names = random_scenarios([f"at{first + index}" for index in range(count)])
    print(f"differential: {count} conversations at random, seeds {names[0]} and on")
    theirs, ours = ask(apache_kafka(launcher), names), ask(oncelog, names)
    differing = {name: lines for name in names if (lines := difference(theirs[name], ours[name]))}
    for name, lines in differing.items():
        print("\n".join([f"## {name}", *lines]))
    print(f"differential: {len(names)} conversations at random, {len(differing)} differ")
    return 1 if differing else 0


def main() -> int:
    """Exit 1 when a conversation went otherwise than recorded, 77 without Java."""
    parser = argparse.ArgumentParser(prog="python -m evidence.differential.record", description=__doc__)
    parser.add_argument("--write", action="store_true", help="replace the recorded file")
    parser.add_argument("--differences", action="store_true", help="write differences.txt, from oncelog")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="new ones, with both brokers")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="these conversations only")
    arguments = parser.parse_args()
    names = chosen(arguments.only)
    if arguments.differences:
        write_differences(names)
        return 0
    launcher = kafka_launcher()
    if launcher is None:
        print("differential: skipped, Apache Kafka needs Java 17 and mvn")
        return 77
    if arguments.random:
        return compare_at_random(launcher, arguments.random)
    found = ask(apache_kafka(launcher), names)
    before = recorded()
    changed = {name: lines for name in found if (lines := difference(before.get(name, []), found[name]))}
    for name, lines in changed.items():
        print("\n".join([f"## {name}", *lines]))
    if arguments.write:
        kept = {name: lines for name, lines in before.items() if name in all_scenarios()}
        RECORDED.write_text(as_file(TITLE, kept | found))
    print(f"differential: {len(found)} conversations with Apache Kafka, {len(changed)} otherwise than recorded")
    return 1 if changed and not arguments.write else 0


if __name__ == "__main__":
    sys.exit(main())
