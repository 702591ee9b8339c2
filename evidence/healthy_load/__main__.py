"""`python -m evidence.healthy_load --seconds 3600`: one line on stdout, exit 1 where `oncelog why` found anything."""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import json
import random
import sys
import time
from dataclasses import dataclass, field

from bench.servers import Server, apache_kafka, oncelog

from evidence.healthy_load.load import Load
from oncelog import Admin
from oncelog.cli.command import Settings
from oncelog.cli.why.looking import Looking
from oncelog.cli.why.why import OLDER_THAN_MS, look, rows_of

WARM_UP_S = 15.0
ALARMS_TOLD_MAX = 20


@dataclass
class Outcome:
    """What was asked, and each answer that was not *nothing holds it back*."""

    asked: collections.Counter[str] = field(default_factory=collections.Counter)
    alarms: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


async def ask(server: Server, name: str, kind: str | None) -> list[str]:
    """The causes that `oncelog why NAME` finds now, and what it could not read."""
    settings = Settings(bootstrap_servers=server.bootstrap)
    async with Admin(bootstrap_servers=server.bootstrap) as admin:
        looking = Looking(admin, await admin.list_topics(include_internal=True))
        facts, found, _ = await look(settings, looking, name, kind, OLDER_THAN_MS)
    unread = [f"{each.what} could not be read: {each.error}: {each.why}" for each in facts.not_read]
    return [json.dumps(row, default=str) for row in rows_of(settings, facts, found)] + unread


async def watched(server: Server, seconds: float, seed: int, pause_s: float) -> Outcome:
    """Load, and questions beside it."""
    load, draw, outcome = Load(server.bootstrap, seed), random.Random(seed + 1), Outcome()
    await load.prepare()
    running = asyncio.create_task(load.run())
    ends = time.monotonic() + seconds
    try:
        await asyncio.wait({running}, timeout=min(WARM_UP_S, seconds / 3))
        while time.monotonic() < ends and not running.done():
            name = draw.choice(load.names)
            kind = draw.choice(("group", "transaction")) if name == "transformer" else None
            for alarm in await ask(server, name, kind):
                outcome.alarms.append(f"{time.strftime('%H:%M:%S')} {kind or ''} {name}: {alarm}")
                print(outcome.alarms[-1], file=sys.stderr, flush=True)
            outcome.asked[name] += 1
            await asyncio.wait({running}, timeout=pause_s)
        if running.done():
            running.result()
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
    outcome.counts = load.counts
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(prog="evidence.healthy_load", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--pause", type=float, default=2.0, help="seconds between two questions")
    parser.add_argument("--against", choices=("oncelog", "kafka"), default="oncelog")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    print(f"healthy-load: seed {options.seed}", file=sys.stderr, flush=True)
    with (apache_kafka if options.against == "kafka" else oncelog)() as server:
        outcome = asyncio.run(watched(server, options.seconds, options.seed, options.pause))
    for alarm in outcome.alarms[:ALARMS_TOLD_MAX]:
        print(alarm)
    done = ", ".join(f"{count:,} {what}" for what, count in outcome.counts.items())
    asked = sum(outcome.asked.values())
    print(
        f"healthy-load: {server.name}, {options.seconds:g} s ({done}): {asked} questions about {len(outcome.asked)} names, "
        f"{len(outcome.alarms)} false alarms"
    )
    return 1 if outcome.alarms or not asked else 0


if __name__ == "__main__":
    sys.exit(main())
