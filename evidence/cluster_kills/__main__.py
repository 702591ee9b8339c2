"""`python -m evidence.cluster_kills --kills 20`: what came of it on stdout, exit 1 where anything is wrong."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time

from evidence.cluster_kills.judging import committed
from evidence.cluster_kills.problems import problems
from evidence.cluster_kills.serving import Serving, led_by, probe
from evidence.cluster_kills.work import COMMITTED, GROUP, IN, MEMBERS, OUT, PARTITIONS, WRITERS, Work
from evidence.world.kafka_cluster import KafkaCluster
from evidence.world.oncelog_processes import OncelogProcesses
from oncelog import Admin
from oncelog.errors import KafkaError

BETWEEN_KILLS_S = (5.0, 12.0)
DOWN_S = (0.5, 6.0)
ASK_EVERY_S = 8.0
QUIET_S_MAX = 240.0
PROBLEMS_TOLD_MAX = 20
QUESTIONS = (
    ("transactions", "list"),
    ("topics", "describe", IN, OUT),
    ("groups", "describe", GROUP),
    ("why", GROUP, "--as", "group"),
    ("why", IN),
)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


Cluster = KafkaCluster | OncelogProcesses


async def kill(cluster: Cluster, kills: int, draw: random.Random, serving: Serving) -> None:
    """One broker after the other, never two at once."""
    began = time.monotonic()
    for number in range(1, kills + 1):
        await asyncio.sleep(draw.uniform(*BETWEEN_KILLS_S))
        node = draw.choice(cluster.nodes)
        await asyncio.to_thread(cluster.kill, node)
        serving.down(node)
        await asyncio.sleep(draw.uniform(*DOWN_S))
        await asyncio.to_thread(cluster.start, node)
        serving.up()
        say(f"[{time.monotonic() - began:5.0f} s] kill {number}: broker {node}")


async def ask(bootstrap: str, found: list[str]) -> int:
    """The command line, again and again, until it is cancelled: it answers in JSON, or says in words why not."""
    count, process = 0, None
    try:
        while True:
            for words in QUESTIONS:
                command = [sys.executable, "-m", "oncelog", "-b", bootstrap, "-o", "json", *words]
                pipe = asyncio.subprocess.PIPE
                process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
                out, error = await process.communicate()
                count += 1
                if b"Traceback" in error or process.returncode not in (0, 1):
                    found.append(f"{words}: exit {process.returncode}: {error[-300:]!r}")
                try:
                    json.loads(out or b"null")
                except ValueError:
                    found.append(f"{words}: no JSON: {out[-300:]!r}")
                await asyncio.sleep(ASK_EVERY_S / len(QUESTIONS))
    except asyncio.CancelledError:
        if process is not None and process.returncode is None:
            process.kill()
            await process.communicate()
        return count


async def come_to_rest(admin: Admin, bootstrap: str) -> list[str]:
    """Until no transaction is open and everything is copied; what is left of that after `QUIET_S_MAX`."""
    ends, left = time.monotonic() + QUIET_S_MAX, ["it was never looked at"]
    while left and time.monotonic() < ends:
        await asyncio.sleep(2.0)
        try:
            states = await admin.list_transactions(states=["Ongoing", "PrepareCommit", "PrepareAbort"])
            left = [f"open: {each.transactional_id}" for each in states if each.transactional_id.startswith("writer-")]
            left = left or await asyncio.to_thread(not_copied, bootstrap) or [f"open: {each}" for each in states]
        except KafkaError as error:
            left = [f"{error!r}"]
    return left


def not_copied(bootstrap: str) -> list[str]:
    """Whether records are still to be copied. (Offsets do not tell: markers have some, too.)"""
    counts = [sum(map(len, committed(bootstrap, topic, PARTITIONS))) for topic in (IN, OUT)]
    return [] if counts[0] == counts[1] else [f"{counts[0]} records in {IN}, {counts[1]} in {OUT}"]


async def run(cluster: Cluster, kills: int, seed: int, serving: Serving) -> tuple[Work, list[str], int]:
    work, found = Work(cluster.bootstrap, seed), list[str]()
    async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        factor = cluster.replication_factor
        await admin.create_topics(
            {each: {"partitions": PARTITIONS, "replication_factor": factor} for each in (IN, OUT)}
        )
        copying = [asyncio.create_task(work.copy(member)) for member in range(MEMBERS)]
        writing = [asyncio.create_task(work.write(writer)) for writer in range(WRITERS)]
        asking = asyncio.create_task(ask(cluster.bootstrap, found))
        leads = {} if isinstance(cluster, KafkaCluster) else await led_by(admin, cluster.nodes)
        probing = [
            asyncio.create_task(probe(cluster.bootstrap, node, partition, serving)) for node, partition in leads.items()
        ]
        try:
            await kill(cluster, kills, random.Random(seed + 1), serving)
            work.is_over.set()
            await asyncio.gather(*writing)
            found += await come_to_rest(admin, cluster.bootstrap)
        finally:
            for task in (*copying, *writing, *probing, asking):
                task.cancel()
            *_, questions = await asyncio.gather(*copying, *writing, *probing, asking, return_exceptions=True)
    assert isinstance(questions, int), questions
    return work, found, questions


def main() -> int:
    parser = argparse.ArgumentParser(prog="evidence.cluster_kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--on", choices=("kafka", "oncelog"), default="kafka")
    parser.add_argument("--processes", type=int, default=3, help="of oncelog")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    say(f"cluster-kills: seed {options.seed}")
    began = time.monotonic()
    made: Cluster = KafkaCluster() if options.on == "kafka" else OncelogProcesses(options.processes)
    with made as cluster:
        serving = Serving(cluster.nodes)
        work, found, questions = asyncio.run(run(cluster, options.kills, options.seed, serving))
        written, copied = (committed(cluster.bootstrap, topic, PARTITIONS) for topic in (IN, OUT))
    found += problems(work.ledger, written, copied)
    if options.on == "oncelog":  # whose partitions have one leader for good: nobody else's death may touch it
        found += serving.problems()
        print(f"cluster-kills: {serving}")
    for line in found[:PROBLEMS_TOLD_MAX]:
        print(line)
    outcomes = list(work.ledger.outcomes.values())
    counted = ", ".join(f"{outcomes.count(kind):,} {kind}" for kind in dict.fromkeys(outcomes))
    errors = ", ".join(f"{count} {name}" for name, count in work.ledger.errors.most_common())
    print(
        f"cluster-kills: {cluster.name}, {len(cluster.nodes)} brokers: {options.kills} kills, "
        f"{len(outcomes):,} transactions ({counted}), "
        f"{sum(map(len, written)):,} records read, {sum(map(len, copied)):,} copied, {questions} questions of the command "
        f"line, {len(found)} problems, {time.monotonic() - began:.0f} s; clients made anew after: {errors or 'nothing'}"
    )
    return 1 if found or COMMITTED not in outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
