"""`python -m evidence.torture [--seeds 100] [--bootstrap HOST:PORT]`: all clients; exit 1 on a finding.

Without --bootstrap: an oncelog broker in this process. Against Apache Kafka: no two-phase commit, for want of KIP-939.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import time
from collections.abc import Iterator

from evidence.torture.ends import cancelled_ends
from evidence.torture.run import (
    Findings,
    cancelled,
    cancelled_process,
    cancelled_starts,
    wrong_arguments,
    wrong_options,
)
from evidence.torture.subjects import NEED_TWO_PHASE_COMMIT, SUBJECTS
from oncelog.testing import TestBroker

ARGUMENTS_PER_CLIENT = 40
STRIKES_PER_CLIENT = 60


@contextlib.contextmanager
def broker(bootstrap: str | None) -> Iterator[str]:
    """The one that was named, or one of this process."""
    if bootstrap is not None:
        yield bootstrap
        return
    with TestBroker() as made:
        yield made.bootstrap_servers


async def torture(
    bootstrap: str, names: list[str], first: int, seeds: int, seconds: float, *, only: bool = False
) -> Findings:
    """Every client's start and stop, then every client with every seed until the time is over; findings are told soon."""
    findings, told_count = Findings(), 0
    for name in names:
        await cancelled_ends(bootstrap, name, findings)
    ends = time.monotonic() + seconds
    for seed in range(first, first + seeds):
        if time.monotonic() > ends:
            break
        for name in names:
            await cancelled(bootstrap, name, seed, findings, STRIKES_PER_CLIENT)
            await cancelled_starts(bootstrap, name, seed, findings)
            await wrong_arguments(bootstrap, name, seed, ARGUMENTS_PER_CLIENT, findings)
        await wrong_options(bootstrap, seed, ARGUMENTS_PER_CLIENT, findings)
        if not only:
            await cancelled_process(bootstrap, seed, findings)
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
    names = options.only or [
        name for name in SUBJECTS if options.bootstrap is None or name not in NEED_TWO_PHASE_COMMIT
    ]
    with broker(options.bootstrap) as bootstrap:
        findings = asyncio.run(
            torture(bootstrap, names, options.seed, options.seeds, options.seconds, only=bool(options.only))
        )
    print(
        f"torture: {findings.cancellation_count:,} cancellations, {findings.argument_count:,} wrong arguments, "
        f"{len(findings.found)} findings"
    )
    return 1 if findings.found else 0


if __name__ == "__main__":
    raise SystemExit(main())
