"""`python -m evidence.compat.kafka_tests [--only share|streams] [--against kafka|oncelog|both]`: Apache Kafka's own tests.

Each test is asked of a fresh broker. A line for each, then what was skipped and why; exit 1 where oncelog fails what Apache Kafka
passes, 77 where Java, Maven or a jar is missing.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time

from evidence.compat.clients import page
from evidence.compat.clients.programs import Missing
from evidence.compat.kafka_tests import table
from evidence.compat.kafka_tests.clusters import ApacheBrokers, Brokers, OncelogBrokers, Served
from evidence.compat.kafka_tests.runs import SUITES, KafkasTests, Result, read
from evidence.compat.servers import KAFKA, NOT_ALL_RUN, ONCELOG
from oncelog.broker.config.config import rules

ABOUTS = ("share", "streams")


def _brokers(tests: KafkasTests, against: str) -> contextlib.AbstractContextManager[Brokers]:
    log = tests.log(f"brokers-{against}")
    log.unlink(missing_ok=True)
    if against == KAFKA:
        return ApacheBrokers(tests.apache_command(), log)
    return OncelogBrokers(log, frozenset(rules()))


def main() -> int:
    parser = argparse.ArgumentParser(prog="evidence.compat.kafka_tests", description=__doc__)
    parser.add_argument("--only", choices=(*ABOUTS, *SUITES), help="one kind of group, or one suite")
    parser.add_argument("--against", choices=(KAFKA, ONCELOG, "both"), default="both")
    parser.add_argument("--method", action="append", default=[], help="only tests of this name")
    parser.add_argument(
        "--last", action="store_true", help="run nothing: the table of what the last runs left in build/"
    )
    parser.add_argument("--save", action="store_true", help="write the figures to docs/compatibility.md")
    options = parser.parse_args()
    names = [name for name, suite in SUITES.items() if options.only in (None, name, suite.about)]
    servers = (KAFKA, ONCELOG) if options.against == "both" else (options.against,)
    began = time.monotonic()
    try:
        tests = KafkasTests()
        found = {
            server: _last(tests, names, server) if options.last else _run(tests, names, server, tuple(options.method))
            for server in servers
        }
    except Missing as error:
        print(f"kafka-tests: not run: {error}")
        return NOT_ALL_RUN
    worse = table.show(
        {server: [each for results in suites.values() for each in results] for server, suites in found.items()},
        time.monotonic() - began,
    )
    if options.save:
        page.save("kafka_tests", table.counted(found))
    return 1 if worse else 0


def _last(tests: KafkasTests, names: list[str], server: str) -> dict[str, list[Result]]:
    found = {}
    for name in names:
        path = tests.results(name, server)
        if not path.exists():
            raise Missing(f"{name} was not run on {server} here: leave --last out")
        found[name] = list(read(path.read_text()))
    return found


def _run(tests: KafkasTests, names: list[str], server: str, methods: tuple[str, ...]) -> dict[str, list[Result]]:
    with _brokers(tests, server) as brokers, Served(brokers) as served:
        return {name: list(tests.run(name, served.port, server, methods)) for name in names}


if __name__ == "__main__":
    sys.exit(main())
