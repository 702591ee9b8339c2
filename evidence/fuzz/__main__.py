"""`python -m evidence.fuzz --seconds 600`: every target in turn until the time is over, in two processes; exit 1 on a finding.

The seed of each life is printed with its finding; `--seed` runs that one alone. The last line has the figures.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import pathlib
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.sharedctypes import SynchronizedString
from typing import Any

from evidence.fuzz import broker_target, client_target, disk_target, login_target, parser_target, socket_target
from evidence.fuzz.findings import Findings, resident_bytes, watch_no_more

FOLDER = pathlib.Path("build/fuzz")
GROWTH_BYTES_MAX = 64 * 1024 * 1024
WARM_UP_LIVES = 12  # codecs are compiled, handlers imported, caches filled
PROGRESS_S = 10.0
LIFE_BYTES_MAX = 40

Target = Callable[[str, Findings], None]
TARGETS: dict[str, Target] = {
    "broker": broker_target.one_life,
    "sockets": socket_target.one_life,
    "logins": login_target.one_life,
    "client": client_target.one_life,
    "disk": disk_target.one_life,
    "parsers": parser_target.one_life,
}
# Lives of each target in one round: most of the time belongs to the broker's frames.
ROUND = ("broker",) * 12 + ("parsers", "client", "logins", "broker", "disk", "broker", "sockets")


def main() -> int:
    parser = argparse.ArgumentParser(prog="evidence.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument(
        "--seed", default="", help="TARGET:NUMBER of one life, as a finding says; or a number to begin with"
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", choices=TARGETS, help="one target")
    parser.add_argument("--json", type=pathlib.Path, help="write a summary here")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    if ":" in options.seed:
        findings = Findings()
        TARGETS[options.seed.partition(":")[0]](options.seed, findings)
        return told(findings, 0, 1)
    first = int(options.seed) if options.seed else random.randrange(10**9)
    say(f"{options.seconds:g} s, seeds from {first}, {options.processes} processes")
    queue: multiprocessing.SimpleQueue[tuple[Findings, int]] = multiprocessing.SimpleQueue()
    lives = [multiprocessing.Array("c", LIFE_BYTES_MAX) for _ in range(options.processes)]
    workers = [
        multiprocessing.Process(
            target=work, args=(queue, index, options.processes, first, options.seconds, options.only, life)
        )
        for index, life in enumerate(lives)
    ]
    begun = time.monotonic()
    for worker in workers:
        worker.start()
    results = []
    while len(results) < len(workers):
        if queue.empty():
            ended = [life for worker, life in zip(workers, lives, strict=True) if worker.exitcode not in (None, 0)]
            if ended:
                # It hung, or the interpreter broke; the others have nothing more to add.
                for worker in workers:
                    worker.kill()
                repeats = ", ".join(f"make fuzz SEED={life.value.decode()}" for life in ended)
                print(f"fuzz: FAILED: a process ended by itself: see its stack above; repeat: {repeats}")
                return 1
            time.sleep(0.1)
            continue
        results.append(queue.get())
    for worker in workers:
        worker.join()
    all_findings = Findings()
    for findings, _ in results:
        all_findings.merge(findings)
    growth, seconds = max(growth for _, growth in results), time.monotonic() - begun
    if options.json:
        options.json.write_text(json.dumps(summary(all_findings, growth, seconds, first), indent=1) + "\n")
    return told(all_findings, growth, seconds)


def summary(findings: Findings, growth: int, seconds: float, first: int) -> dict[str, Any]:
    """For the report."""
    return {
        "inputs": findings.inputs.total(),
        "by target": dict(findings.inputs.most_common()),
        "first seed": first,
        "findings": findings.count,
        "finding texts": list(findings.texts.values()),
        "slowest step ms": round(findings.slowest_s * 1000),
        "memory growth bytes": growth,
        "seconds": round(seconds),
    }


def work(
    queue: multiprocessing.SimpleQueue,
    index: int,
    step: int,
    first: int,
    seconds: float,
    only: str | None,
    life: SynchronizedString,
) -> None:
    """One process: life after life; `life` always names the one under way."""
    findings, number, base = Findings(), first + index, 0
    targets = (only,) if only else ROUND
    begun = told_at = time.monotonic()
    lives = 0
    peak = 0
    while time.monotonic() - begun < seconds:
        target = targets[lives % len(targets)]
        life.value = f"{target}:{number}".encode()
        TARGETS[target](f"{target}:{number}", findings)
        number += step
        lives += 1
        if lives == max(WARM_UP_LIVES, len(targets)):
            base = peak = resident_bytes()
        elif base and not lives % 5:
            peak = max(peak, resident_bytes())
        if index == 0 and time.monotonic() - told_at > PROGRESS_S:
            told_at = time.monotonic()
            rate = findings.inputs.total() / (told_at - begun)
            say(
                f"{told_at - begun:4.0f} s: {findings.inputs.total():,} inputs, {rate:,.0f}/s, {findings.count} findings"
            )
    watch_no_more()
    queue.put((findings, peak - base))


def told(findings: Findings, growth: int, seconds: float) -> int:
    """Say what was found; the exit status."""
    for text in findings.texts.values():
        say(f"\n{text}")
    if findings.texts:
        (FOLDER / "findings.txt").write_text("\n\n".join(findings.texts.values()))
    total, by_target = findings.inputs.total(), Counter(findings.inputs)
    is_good = not findings and growth <= GROWTH_BYTES_MAX
    print(
        f"fuzz: {total:,} inputs ({', '.join(f'{count:,} {name}' for name, count in by_target.most_common())}) "
        f"in {seconds:.0f} s, {total / max(seconds, 0.001):,.0f}/s, {findings.count} findings, slowest step "
        f"{findings.slowest_s * 1000:.0f} ms, memory growth {growth / 2**20:.1f} MiB{'' if is_good else ' FAILED'}"
    )
    return 0 if is_good else 1


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
