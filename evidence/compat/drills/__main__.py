"""`python -m evidence.compat.drills [--only NAME] [--full] [--save]`: exactly-once under SIGKILL, judged by readers of all kinds.

One line at the end, exit status 1 unless everything is exact. A drill whose tools are missing says so and counts as not run.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from evidence.compat import servers
from evidence.compat.clients import page
from evidence.compat.clients.programs import Missing
from evidence.compat.drills import copiers, our_copiers, rebalance_storm, streams
from evidence.compat.drills.outcome import Outcome, Scale
from evidence.compat.drills.processes import BUILD
from evidence.compat.servers import KAFKA, NOT_ALL_RUN, ONCELOG
from evidence.differential.brokers import kafka_launcher

SERVER_NAMES = {ONCELOG: "oncelog", KAFKA: "Apache Kafka 4.3"}


@dataclass(frozen=True)
class Drill:
    """`usual`: where it is run when nothing is said."""

    what: str
    usual: str
    run: Callable[[str, Scale, random.Random], Outcome]


DRILLS = {
    "streams": Drill("Kafka Streams 4.3, exactly_once_v2, SIGKILLed three times", ONCELOG, streams.drill),
    "streams-group": Drill(
        "two processes of Kafka Streams 4.3 with `group.protocol=streams`, exactly_once_v2, one SIGKILLed three times",
        ONCELOG,
        streams.drill_with_streams_group,
    ),
    "copiers": Drill("five TransactionalMessageCopiers of Apache Kafka, each SIGKILLed", ONCELOG, copiers.drill),
    "our-copiers": Drill("four processes of our Producer and Consumer copying, SIGKILLed", KAFKA, our_copiers.drill),
    "rebalance-storm": Drill(
        "ten of our Consumers (cooperative-sticky) that come and go", KAFKA, rebalance_storm.drill
    ),
}


@contextlib.contextmanager
def serving(server: str) -> Iterator[str]:
    """A fresh server: where it listens. Raises Missing."""
    log = BUILD / "drills" / "oncelog.log"
    shutil.rmtree(log.parent, ignore_errors=True)
    if server == ONCELOG:
        with servers.oncelog(log) as port:
            yield f"127.0.0.1:{port}"
        return
    launcher = kafka_launcher()
    if launcher is None:
        raise Missing("Apache Kafka needs Java 17 and mvn")
    with servers.apache_kafka(launcher) as port:
        yield f"127.0.0.1:{port}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="evidence.compat.drills", description=__doc__)
    parser.add_argument("--only", choices=DRILLS, action="append")
    parser.add_argument("--against", choices=(ONCELOG, KAFKA), help="instead of where it is usually run")
    parser.add_argument("--full", action="store_true", help="100,000 messages, as in Kafka's own system tests")
    parser.add_argument("--save", action="store_true", help="write the figures to docs/compatibility.md")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6, help="of the moments of the kills")
    options = parser.parse_args()
    exact, failed, left_out = 0, 0, 0
    for name in options.only or DRILLS:
        drill = DRILLS[name]
        server = options.against or drill.usual
        try:
            with serving(server) as bootstrap:
                outcome = drill.run(bootstrap, Scale(options.full), random.Random(options.seed))
        except Missing as missing:
            print(f"  {name}: NOT RUN: {missing}", file=sys.stderr, flush=True)
            left_out += 1
            continue
        for problem in outcome.problems[:20]:
            print(f"  {name}: {problem}", file=sys.stderr, flush=True)
        verdict = "FAILED" if outcome.problems else "exact"
        print(f"  {name} with {SERVER_NAMES[server]}: {outcome.figures}: {verdict}", file=sys.stderr, flush=True)
        exact, failed = exact + (not outcome.problems), failed + bool(outcome.problems)
        if options.save:
            saved = {"what": drill.what, "with": SERVER_NAMES[server], "figures": outcome.figures}
            page.save("drills", {f"{name} {server}": saved | {"passed": not outcome.problems}})
    print(f"drills: {exact} exact, {failed} failed, {left_out} not run; seed {options.seed}")
    return 1 if failed else NOT_ALL_RUN if left_out else 0


if __name__ == "__main__":
    sys.exit(main())
