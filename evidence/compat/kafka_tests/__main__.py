"""`python -m evidence.compat.kafka_tests [--only share|streams] [--against kafka|oncelog|both]`: Apache Kafka's own tests.

Each test is asked of a fresh broker. A line for each, then what was skipped and why; exit 1 where oncelog fails what Apache Kafka
passes, 77 where Java, Maven or a jar is missing.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time

from evidence.compat.clients.programs import Missing
from evidence.compat.kafka_tests import table
from evidence.compat.kafka_tests.clusters import ApacheBrokers, Brokers, OncelogBrokers, Served
from evidence.compat.kafka_tests.runs import SUITES, Result, Tests
from evidence.compat.kafka_tests.smoke import smoke
from evidence.compat.servers import KAFKA, NOT_ALL_RUN, ONCELOG
from oncelog.broker.config.config import rules

ABOUTS = ("share", "streams")
SMOKE = "streams-smoke"


def _brokers(tests: Tests, against: str) -> contextlib.AbstractContextManager[Brokers]:
    log = tests.log(f"brokers-{against}")
    log.unlink(missing_ok=True)
    if against == KAFKA:
        return ApacheBrokers(tests.apache_command(), log)
    return OncelogBrokers(log, frozenset(rules()))


def main() -> int:
    parser = argparse.ArgumentParser(prog="evidence.compat.kafka_tests", description=__doc__)
    parser.add_argument("--only", choices=(*ABOUTS, *SUITES, SMOKE), help="one kind of group, or one suite")
    parser.add_argument("--against", choices=(KAFKA, ONCELOG, "both"), default="both")
    parser.add_argument("--method", action="append", default=[], help="only tests of this name")
    options = parser.parse_args()
    names = [name for name, suite in SUITES.items() if options.only in (None, name, suite.about)]
    servers = (KAFKA, ONCELOG) if options.against == "both" else (options.against,)
    began = time.monotonic()
    try:
        tests = Tests()
        found: dict[str, list[Result]] = {}
        for against in servers:
            with _brokers(tests, against) as brokers, Served(brokers) as served:
                found[against] = [
                    each for name in names for each in tests.run(name, served.port, against, tuple(options.method))
                ]
                if options.only in (None, "streams", SMOKE) and not options.method:
                    log = tests.log(f"{SMOKE}-{against}")
                    found[against].append(smoke(tests.streams_command(), brokers, log))
    except Missing as error:
        print(f"kafka-tests: not run: {error}")
        return NOT_ALL_RUN
    worse = table.show(found, time.monotonic() - began)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
