"""`python -m evidence.reconcile --seeds 3`: healthy directories of both brokers, and faults planted into copies of them.

One line on stdout; exit 1 where a fault was not found with its witness, or something healthy was called faulty.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import shutil
import sys
from collections import Counter

from evidence.differential.brokers import kafka_launcher
from evidence.reconcile.directories import STORIES, make
from evidence.reconcile.judging import is_found, plant_and_judge
from evidence.reconcile.planting import FAULTS
from oncelog.cli.commands.reconcile import reconciled

FOLDER = pathlib.Path("build/reconcile")


def main() -> int:
    parser = argparse.ArgumentParser(prog="evidence.reconcile", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1, help="how often each fault is planted into each directory")
    parser.add_argument("--seed", type=int, default=1, help="of what is written")
    parser.add_argument("--only", default="", help="only stories with this in their name")
    parser.add_argument("--json", type=pathlib.Path, help="write a summary here")
    options = parser.parse_args()
    shutil.rmtree(FOLDER, ignore_errors=True)
    launcher = kafka_launcher()
    alarms: list[str] = []
    missed: list[str] = []
    planted: Counter[str] = Counter()
    stories = [each for each in STORIES if options.only in each.name and (launcher or not each.is_kafka)]
    for story in stories:
        folder = FOLDER.absolute() / re.sub(r"\W+", "-", story.name)

        def look(data: pathlib.Path, name: str = story.name) -> None:
            report = reconciled([str(data)])
            alarms.extend(f"{name}: {each.kind} {each.topic}-{each.partition}: {each.text}" for each in report.faults)
            _say(f"{name}: {report.batch_count} batches, {len(report.faults)} faults")

        make(story, folder, options.seed, launcher, look)
        data = folder / "node" / "data" if story.is_kafka else folder / "data"
        if story.cleans or story.is_running:
            continue  # what is removed there is not known to be missing; and a broker that ran was killed since
        for plant in FAULTS:
            for number in range(options.seeds):
                found = plant_and_judge(
                    data, folder / "copy", plant, f"{options.seed} {story.name} {plant.__name__} {number}"
                )
                if found is None:
                    break
                planted[found[0].kind] += 1
                if not is_found(*found):
                    kept = FOLDER.absolute() / f"missed-{len(missed)}"
                    (folder / "copy").rename(kept)
                    missed.append(
                        f"{story.name}: {plant.__name__} {number}: {found[0]}; found: {found[1]}; kept in {kept.name}"
                    )
    for line in (*alarms, *missed):
        _say(line)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(planted.items()))
    left_out = "" if launcher else "; Apache Kafka is not here: its directories are left out"
    total = planted.total()
    print(
        f"reconcile: {len(stories)} healthy directories, {len(alarms)} false alarms; {total} planted faults ({kinds}), "
        f"{total - len(missed)} found with their witness{left_out}"
    )
    if options.json:
        summary = {"directories": len(stories), "false_alarms": len(alarms), "planted": planted, "missed": missed}
        options.json.write_text(json.dumps(summary))
    return 1 if alarms or missed else 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
