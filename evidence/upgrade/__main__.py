"""`python -m evidence.upgrade --seconds 5 [--kafka]`: the upgrade drill; one line on stdout, exit 1 unless all is well."""

from __future__ import annotations

import argparse
import pathlib
import shutil
import sys

from evidence.crash.run import say
from evidence.differential.brokers import kafka_launcher
from evidence.upgrade.drill import PREPARED_ID, drill_apache_kafka, drill_oncelog

FOLDER = pathlib.Path("build/upgrade")


def main() -> int:
    parser = argparse.ArgumentParser(prog="evidence.upgrade", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="at each level")
    parser.add_argument("--kafka", action="store_true", help="with Apache Kafka instead, as far as it goes")
    options = parser.parse_args()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    folder = FOLDER.absolute()
    if options.kafka:
        launcher = kafka_launcher()
        if launcher is None:
            print("upgrade drill: skipped, Apache Kafka needs Java 17 and mvn")
            return 77
        drilled = drill_apache_kafka(folder, options.seconds, launcher)
    else:
        drilled = drill_oncelog(folder, options.seconds)
        if PREPARED_ID not in drilled.refused:
            drilled.verdict.problems.append(f"the refusal does not name {PREPARED_ID}: {drilled.refused!r}")
    for problem in drilled.verdict.problems[:40]:
        say(problem)
    say(", ".join(f"{kind} {count}" for kind, count in sorted(drilled.transactions.items())))
    print(f"upgrade drill: {drilled.summary()}{'' if drilled.is_good else ' FAILED'}")
    return 0 if drilled.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
