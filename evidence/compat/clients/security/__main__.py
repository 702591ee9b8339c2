"""`python -m evidence.compat.clients.security`: every client by every way, against a secured oncelog and a secured Apache Kafka.

One line at the end, exit status 1 unless all is well; `--save` writes results.json and docs/compatibility.md.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from evidence.compat.clients import page
from evidence.compat.clients.programs import BUILD, PROGRAMS, Missing
from evidence.compat.clients.security.handshakes import Elsewhere, LoginSpy
from evidence.compat.clients.security.programs import COMMANDS
from evidence.compat.clients.security.servers import Files, Secured, secured_apache_kafka, secured_oncelog
from evidence.compat.clients.security.tables import count, worse
from evidence.compat.clients.security.tools import judged, tell
from evidence.compat.clients.security.ways import LOAD, WAYS, WRONG, Way, settings
from evidence.compat.servers import KAFKA, NOT_ALL_RUN, ONCELOG
from evidence.differential.brokers import kafka_launcher
from evidence.world.ports import free_port

PROGRAM_S = 120
BESIDE = 5
DETAIL_LENGTH_MAX = 300
MASKED = (
    (r"(127\.0\.0\.1|localhost)[:/]\d+", "HOST"),
    (r"\('127\.0\.0\.1', \d+, [^)]*\)", "HOST"),
    (r"<-\d+", ""),
    (r"\b[0-9A-F]{16}:", ""),
    (r"\b\d+ms\b", "N ms"),
    (r"\s+", " "),
)
Outcome = dict[str, Any]
# Every wrong secret comes from an address of its own: one that fails more than twenty times a minute is answered seconds later.
_sources = itertools.cycle(range(1, 250))


@contextlib.contextmanager
def serving(server: str, files: Files, launcher: str | None) -> Iterator[tuple[Secured, LoginSpy]]:
    """A secured server, and the spy before its listener SHORT_PLAINTEXT."""
    outside = free_port()
    with contextlib.ExitStack() as stack:
        spy = stack.enter_context(LoginSpy(outside))
        if server == ONCELOG:
            serve = secured_oncelog(files, BUILD / "secured-oncelog.log", outside=outside)
        else:
            assert launcher is not None
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="oncelog-secured-"))
            serve = secured_apache_kafka(files, pathlib.Path(directory), launcher, outside=outside)
        secured, inside = stack.enter_context(serve)
        spy.target = ("127.0.0.1", inside)
        yield secured, spy


def play(command: list[str], given: Outcome, log: pathlib.Path) -> Outcome:
    """One step of one program; what it reported."""
    with log.open("w") as stderr:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True)
        try:
            stdout, _ = process.communicate(json.dumps(given), timeout=PROGRAM_S)
            ended = f"exit status {process.returncode}"
        except subprocess.TimeoutExpired:
            process.kill()
            stdout, _ = process.communicate()
            ended = f"stopped after {PROGRAM_S} s"
    for line in stdout.splitlines():
        if line.startswith("{"):
            outcome: Outcome = json.loads(line)
            outcome["detail"] = _masked(outcome["detail"], given)
            outcome["errors"] = sorted({_masked(error, given) for error in outcome["errors"]})
            return outcome
    return {"result": "failed", "detail": f"not reported ({ended}); see {log}", "committed": 0, "errors": []}


def _masked(text: str, given: Outcome) -> str:
    """Without what differs from run to run."""
    for name in ("name", "user", "ca", "certificate", "bearer_file"):
        if given[name]:
            text = text.replace(given[name], name.upper())
    for pattern, instead in MASKED:
        text = re.sub(pattern, instead, text)
    return text.strip()[:DETAIL_LENGTH_MAX]


def asked(
    name: str, command: list[str], server: str, secured: Secured, ways: list[Way], steps: list[str]
) -> dict[str, dict[str, Outcome]]:
    """All steps by all ways of one client, several at a time."""
    slug = name.replace(" ", "-")

    def one(way: Way, step: str, source: str) -> Outcome:
        own = f"{slug}-{way.name.replace(' ', '-')}-{step}-{os.getpid()}"
        log = BUILD / f"secured-{slug}-{server}-{way.name.replace(' ', '-')}-{step}.log"
        bootstrap = secured.bootstrap(way, short=step == LOAD)
        with contextlib.ExitStack() as stack:
            if step == WRONG:
                host, _, port = bootstrap.rpartition(":")
                spy = stack.enter_context(Elsewhere(free_port(), (host, int(port)), source))
                bootstrap = f"{host}:{spy.port}"
            given = settings(way, step, bootstrap, secured.secrets, own)
            return play(command, given, log) | {"name": own}

    found: dict[str, dict[str, Outcome]] = {}
    with concurrent.futures.ThreadPoolExecutor(BESIDE) as lanes:
        begun = {
            (way.name, step): lanes.submit(one, way, step, f"127.0.{next(_sources)}.1")
            for way in ways
            for step in way.steps
            if step in steps
        }
        try:
            for (way_name, step), future in begun.items():
                found.setdefault(way_name, {})[step] = future.result()
        finally:
            lanes.shutdown(cancel_futures=True)
    return found


def seen(spy: LoginSpy, found: dict[str, dict[str, Outcome]]) -> None:
    """Add to each load over SASL_PLAINTEXT whether the client's sessions began again on the same connection."""
    for outcomes in found.values():
        for outcome in outcomes.values():
            logins = spy.of(outcome.pop("name"))
            if logins:
                outcome |= {"logins": max(logins), "connections": len(logins), "again": max(logins) > 1}


def prepared(only: str) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """The commands of the clients that can be had here, and the start of everybody's results."""
    commands: dict[str, list[str]] = {}
    results: dict[str, Any] = {}
    for name, prepare in PROGRAMS.items():
        if only and name not in only.split(","):
            continue
        try:
            program = prepare()
            commands[name] = COMMANDS[name](program)
            results[name] = {"version": program.version}
        except Missing as missing:
            print(f"  {name}: NOT RUN: {missing}", file=sys.stderr, flush=True)
            results[name] = {"missing": str(missing)}
    return commands, results


def main() -> int:
    parser = argparse.ArgumentParser(prog="evidence.compat.clients.security", description=__doc__)
    parser.add_argument("--only", default="", help="clients, separated by commas; `tools`: Apache Kafka's tools")
    parser.add_argument("--way", default="", help="ways, separated by commas")
    parser.add_argument("--step", default="transaction,wrong,load", help="steps, separated by commas")
    parser.add_argument("--story", default="", help="of the tools, those with this in their name")
    parser.add_argument("--against", choices=("both", ONCELOG, KAFKA), default="both")
    parser.add_argument("--save", action="store_true", help="write the page and the result file it is made from")
    options = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    ways = [way for name, way in WAYS.items() if not options.way or name in options.way.split(",")]
    commands, results = prepared(options.only)
    launcher = kafka_launcher()
    if launcher is None:
        print("  Apache Kafka and its tools: NOT RUN: need Java 17 and mvn", file=sys.stderr)
    servers = [each for each in (ONCELOG, KAFKA) if options.against in ("both", each) and (each == ONCELOG or launcher)]
    told: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="oncelog-secrets-") as directory:
        files = Files(pathlib.Path(directory))
        for server in servers:
            with serving(server, files, launcher) as (secured, spy):
                for name, command in commands.items():
                    found = asked(name, command, server, secured, ways, options.step.split(","))
                    seen(spy, found)
                    results[name][server] = found
                    _tell(name, server, found)
                    if options.save:  # each by itself: a run that is ended keeps what it found
                        page.save("security", {name: {"version": results[name]["version"], server: found}})
                if launcher is not None and (not options.only or "tools" in options.only.split(",")):
                    told[server] = tell(secured, launcher, pathlib.Path(directory), options.story)
    tools = judged(told)
    (BUILD / "security.json").write_text(
        json.dumps({"clients": results, "tools": tools, "told": told}, indent=1) + "\n"
    )
    if options.save:
        page.save("security", results)
        page.save("tools", tools)
    return _summed_up(results, tools, servers, len(commands), has_kafka=launcher is not None)


def _summed_up(
    results: dict[str, Any], tools: dict[str, dict[str, str]], servers: list[str], asked_count: int, *, has_kafka: bool
) -> int:
    failed = sum(count(client.get(server, {}))["failed"] for client in results.values() for server in servers)
    passed = sum(count(client.get(ONCELOG, {}))["passed"] for client in results.values())
    unlike = [
        name
        for name, result in tools.items()
        if any(
            value != wanted for value, wanted in zip(result.values(), ("passed", "passed", "the same"), strict=False)
        )
    ]
    for name in unlike:
        print(f"  tools: {name} FAILED: {tools[name]}", file=sys.stderr)
    poorer = worse(results)
    for line in poorer:
        print(f"  WORSE THAN WITH APACHE KAFKA: {line}", file=sys.stderr)
    left_out = len(results) - asked_count
    print(
        f"security: {asked_count} clients, {passed} cells passed with oncelog, {failed} failed, "
        f"{len(poorer)} worse than with Apache Kafka, {left_out} clients not run; "
        f"{len(tools) - len(unlike)} of {len(tools)} stories of Apache Kafka's tools; "
        f"{'with' if KAFKA in servers else 'WITHOUT'} Apache Kafka beside"
    )
    return 1 if failed or unlike or poorer else NOT_ALL_RUN if left_out or not has_kafka else 0


def _tell(name: str, server: str, found: dict[str, dict[str, Outcome]]) -> None:
    counts = count(found)
    told = ", ".join(f"{number} {result}" for result, number in sorted(counts.items()))
    print(f"  {name} with {server}: {told}", file=sys.stderr, flush=True)
    for way, outcomes in found.items():
        for step, outcome in outcomes.items():
            if outcome["result"] == "failed":
                print(f"  {name} with {server}: {way} {step} FAILED: {outcome['detail']}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
