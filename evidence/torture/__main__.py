"""`python -m evidence.torture [--seeds 100] [--bootstrap HOST:PORT]`: all clients; exit 1 on a finding.

Without --bootstrap: an oncelog broker in this process. Against Apache Kafka: no dual writer, for want of KIP-939.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import time
from collections.abc import Iterator

from evidence.torture.run import Findings, cancelled, cancelled_starts, wrong_arguments, wrong_options
from evidence.torture.subjects import SUBJECTS
from oncelog.testing import TestBroker

ARGUMENTS_PER_CLIENT = 40


@contextlib.contextmanager
def broker(bootstrap: str | None) -> Iterator[str]:
    """The one that was named, or one of this process."""
    if bootstrap is not None:
        yield bootstrap
        return
    with TestBroker() as made:
        yield made.bootstrap_servers


async def torture(bootstrap: str, names: list[str], first: int, seeds: int, seconds: float) -> Findings:
    """Every client with every seed, until the time is over; findings are told as they come."""
    findings, told_count = Findings(), 0
    ends = time.monotonic() + seconds
    for seed in range(first, first + seeds):
        if time.monotonic() > ends:
            break
        for name in names:
            await cancelled(bootstrap, name, seed, findings)
            await cancelled_starts(bootstrap, name, seed, findings)
            await wrong_arguments(bootstrap, name, seed, ARGUMENTS_PER_CLIENT, findings)
        await wrong_options(bootstrap, seed, ARGUMENTS_PER_CLIENT, findings)
        for line in findings.found[told_count:]:
            print(line, flush=True)
        told_count = len(findings.found)
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(prog="evidence.torture", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=600, help="no new seed after this time")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--only", choices=SUBJECTS, action="append")
    parser.add_argument("--bootstrap", help="of a broker that runs")
    options = parser.parse_args()
    names = options.only or [name for name in SUBJECTS if options.bootstrap is None or not name.startswith("dual")]
    with broker(options.bootstrap) as bootstrap:
        findings = asyncio.run(torture(bootstrap, names, options.seed, options.seeds, options.seconds))
    print(
        f"torture: {findings.cancellation_count:,} cancellations, {findings.argument_count:,} wrong arguments, "
        f"{len(findings.found)} findings"
    )
    return 1 if findings.found else 0


if __name__ == "__main__":
    raise SystemExit(main())
