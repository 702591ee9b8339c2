"""Has every conversation with Apache Kafka again and compares, or writes down what it says: `--write`.

`--differences` asks oncelog instead and writes down where it answers otherwise; the page of differences must then say why.
"""

from __future__ import annotations

import argparse
import difflib
import pathlib
import sys
import tempfile

from tests.differential.brokers import ApacheKafkaNode, OncelogNode, kafka_launcher
from tests.differential.scenario import all_scenarios, as_file, sections, transcript, warm_up

RECORDED = pathlib.Path(__file__).parent / "apache_kafka_4_3.txt"
DIFFERENCES = pathlib.Path(__file__).parent / "differences.txt"
OURS = "Where oncelog answers otherwise: - Apache Kafka's line, + oncelog's. docs/differences-from-kafka.md says why."
TITLE = "What Apache Kafka 4.3.0 answered: one section per conversation, one line per request. Written by record.py."


def recorded() -> dict[str, list[str]]:
    """The facts, by name of the conversation."""
    return sections(RECORDED.read_text())


def difference(before: list[str], after: list[str]) -> list[str]:
    """The lines that are only in one of them, with - and +."""
    lines = list(difflib.unified_diff(before, after, lineterm="", n=0))[2:]
    return [line for line in lines if not line.startswith("@@")]


def ask_apache_kafka(launcher: str) -> dict[str, list[str]]:
    """All conversations, anew."""
    with (
        tempfile.TemporaryDirectory(prefix="oncelog-differential-") as directory,
        ApacheKafkaNode(pathlib.Path(directory), launcher) as node,
    ):
        warm_up(node)
        return {name: transcript(node, name) for name in sorted(all_scenarios())}


def ask_oncelog() -> dict[str, list[str]]:
    """The lines that differ from the recorded ones, of each conversation that has any."""
    before = recorded()
    with (
        tempfile.TemporaryDirectory(prefix="oncelog-differential-") as directory,
        OncelogNode(pathlib.Path(directory), transaction_two_phase_commit_enable=True) as node,
    ):
        warm_up(node)
        compared = {name: difference(before[name], transcript(node, name)) for name in sorted(before)}
    return {name: lines for name, lines in compared.items() if lines}


def main() -> int:
    """Exit 1 when a conversation went otherwise than recorded, 77 without Java."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential.record", description=__doc__)
    parser.add_argument("--write", action="store_true", help="replace the recorded file")
    parser.add_argument("--differences", action="store_true", help="write differences.txt, from oncelog")
    arguments = parser.parse_args()
    if arguments.differences:
        differing = ask_oncelog()
        DIFFERENCES.write_text(as_file(OURS, differing))
        print(f"differential: {len(differing)} conversations differ from Apache Kafka's")
        return 0
    launcher = kafka_launcher()
    if launcher is None:
        print("differential: skipped, Apache Kafka needs Java 17 and mvn")
        return 77
    found = ask_apache_kafka(launcher)
    before = recorded()
    changed = {name: lines for name in found if (lines := difference(before.get(name, []), found[name]))}
    for name, lines in changed.items():
        print("\n".join([f"## {name}", *lines]))
    if arguments.write:
        RECORDED.write_text(as_file(TITLE, found))
    print(f"differential: {len(found)} conversations with Apache Kafka, {len(changed)} otherwise than recorded")
    return 1 if changed and not arguments.write else 0


if __name__ == "__main__":
    sys.exit(main())
