"""`python -m evidence.migration`: oncelog to Apache Kafka, and back; one line for each, exit 1 unless all is exact."""

from __future__ import annotations

import argparse
import pathlib
import random
import shutil
import sys

from evidence.compat.servers import NOT_ALL_RUN
from evidence.differential.brokers import kafka_launcher
from evidence.migration.run import Migration, Size
from evidence.processing.__main__ import kafka_serving, oncelog_serving

FOLDER = pathlib.Path("build/migration")
TO_KAFKA, TO_ONCELOG, BETWEEN = "oncelog to Apache Kafka", "Apache Kafka to oncelog", "oncelog to oncelog"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="evidence.migration", description=__doc__)
    parser.add_argument("--records", type=int, default=Size.records)
    parser.add_argument("--kills", type=int, default=Size.kills)
    parser.add_argument("--pace", type=int, default=Size.pace_per_s, help="records a second, of all writers")
    parser.add_argument("--only", choices=(TO_KAFKA, TO_ONCELOG, BETWEEN))
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of the moments of the kills")
    parser.add_argument("--folder", type=pathlib.Path, default=FOLDER)
    options = parser.parse_args(arguments)
    size = Size(records=options.records, kills=options.kills, pace_per_s=options.pace)
    launcher, is_good, is_left_out = kafka_launcher(), True, False
    for way in [options.only] if options.only else [TO_KAFKA, TO_ONCELOG]:
        folder = options.folder.absolute() / way.replace(" ", "-")
        shutil.rmtree(folder, ignore_errors=True)
        for side in ("source", "destination"):
            (folder / side).mkdir(parents=True)
        if way != BETWEEN and launcher is None:
            print(f"{way}: NOT RUN, it needs Java 17 and mvn")
            is_left_out = True
            continue
        servings = []
        for side, is_kafka in (("source", way == TO_ONCELOG), ("destination", way == TO_KAFKA)):
            where = folder / side
            servings.append(kafka_serving(where, launcher or "") if is_kafka else oncelog_serving(where))
        with servings[0] as source, servings[1] as destination:
            print(f"{way}, seed {options.seed}:", file=sys.stderr, flush=True)
            figures = Migration(folder, source, destination, size, options.seed).everything()
        print(f"{way}: {figures.text()}", flush=True)
        is_good = is_good and not figures.problems
    return 1 if not is_good else NOT_ALL_RUN if is_left_out else 0


if __name__ == "__main__":
    sys.exit(main())
