"""`python -m evidence.compat.clients`: every client's program against one `oncelog serve`, and against Apache Kafka 4.3.

What Apache Kafka fails too is a fault of the program (or the client). One line at the end, exit status 1 unless all is well;
`--save` writes evidence/compat/clients/results.json and docs/compatibility.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from evidence.compat.clients import page
from evidence.compat.clients.checks import CHECKS
from evidence.compat.clients.programs import BUILD, PROGRAMS, Missing, Program
from evidence.compat.clients.spy import Spy
from evidence.compat.servers import KAFKA, NOT_ALL_RUN, ONCELOG, apache_kafka, oncelog
from evidence.differential.brokers import kafka_launcher
from evidence.world.ports import free_port

PROGRAM_S = 900


@contextlib.contextmanager
def oncelog_spied() -> Iterator[tuple[str, Spy]]:
    """One `oncelog serve` behind a spy: where clients connect, and the spy."""
    outside = free_port()
    with (
        oncelog(BUILD / "oncelog.log", advertised_port=outside) as inside,
        Spy(outside, ("127.0.0.1", inside)) as spy,
    ):
        yield f"127.0.0.1:{outside}", spy


@contextlib.contextmanager
def apache_kafka_spied(launcher: str) -> Iterator[tuple[str, Spy]]:
    """One Apache Kafka behind a spy, which it needs to reach itself, too."""
    outside = free_port()
    with Spy(outside) as spy, apache_kafka(launcher, advertised_port=outside) as inside:
        spy.target = ("127.0.0.1", inside)
        yield f"127.0.0.1:{outside}", spy


def play(name: str, program: Program, server: str, bootstrap: str, checks: list[str]) -> dict[str, dict[str, Any]]:
    """Run one client's program; what it reported of each check."""
    slug = name.replace(" ", "-")
    log = BUILD / f"{slug}-{server}.log"
    command = [*program.command, bootstrap, f"{slug}-{os.getpid()}", *checks]
    reported = {}
    with log.open("w") as stderr:
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, text=True, timeout=PROGRAM_S)
            stdout, ended = done.stdout, f"exit status {done.returncode}"
        except subprocess.TimeoutExpired as late:
            stdout, ended = (late.stdout or b"").decode(), f"stopped after {PROGRAM_S} s"
    for line in stdout.splitlines():
        if line.startswith('{"check":'):
            outcome = json.loads(line)
            reported[outcome.pop("check")] = outcome
    for check in checks:
        silent = {"result": "failed", "detail": f"not reported ({ended}); see {log}", "seconds": 0}
        outcome = reported.setdefault(check, silent)
        if outcome["result"] == "failed":
            print(f"  {name} with {server}: {check} FAILED: {outcome['detail']}", file=sys.stderr, flush=True)
    return {check: reported[check] for check in checks}


def main() -> int:
    parser = argparse.ArgumentParser(prog="evidence.compat.clients", description=__doc__)
    parser.add_argument("--only", default="", help="clients, separated by commas")
    parser.add_argument("--check", default="", help="checks, separated by commas")
    parser.add_argument("--against", choices=("both", ONCELOG, KAFKA), default="both")
    parser.add_argument("--save", action="store_true", help="write the page and the result file it is made from")
    options = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    checks = [check for check in CHECKS if not options.check or check in options.check.split(",")]
    results: dict[str, Any] = {"clients": {}}
    programs: dict[str, Program] = {}
    for name, prepare in PROGRAMS.items():
        if options.only and name not in options.only.split(","):
            continue
        try:
            programs[name] = prepare()
            results["clients"][name] = {"version": programs[name].version}
        except Missing as missing:
            print(f"  {name}: NOT RUN: {missing}", file=sys.stderr, flush=True)
            results["clients"][name] = {"missing": str(missing)}
    launcher = kafka_launcher() if options.against != ONCELOG else None
    servers = {ONCELOG: oncelog_spied} if options.against != KAFKA else {}
    if launcher is not None:
        servers[KAFKA] = lambda: apache_kafka_spied(launcher)
    elif options.against != ONCELOG:
        print("  Apache Kafka: NOT RUN: needs Java 17 and mvn", file=sys.stderr)
    for server, serve in servers.items():
        with serve() as (bootstrap, spy):
            for name, program in programs.items():
                spy.seen = set()
                outcomes = play(name, program, server, bootstrap, checks)
                results["clients"][name] |= {server: outcomes, f"requests-{server}": sorted(map(list, spy.seen))}
                print(f"  {name} {program.version} with {server}: {page.count(outcomes)}", file=sys.stderr, flush=True)
        if options.save:
            page.save("clients", results["clients"])
    (BUILD / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    failed = sum(page.count_failed(client) for client in results["clients"].values())
    left_out = sum("missing" in client for client in results["clients"].values())
    passed = sum(
        outcome["result"] == "passed"
        for client in results["clients"].values()
        for outcome in client.get(ONCELOG, {}).values()
    )
    print(
        f"clients: {len(programs)} clients, {passed} checks passed with oncelog, {failed} failed, "
        f"{left_out} clients not run, {'with' if launcher else 'WITHOUT'} Apache Kafka beside"
    )
    return 1 if failed else NOT_ALL_RUN if left_out or (launcher is None and options.against != ONCELOG) else 0


if __name__ == "__main__":
    sys.exit(main())
