"""`make spark-kills`: the sink under SIGKILL, on oncelog (*prepared*) or on Apache Kafka (*resumed*).

Kills hit the Python driver, the JVM, or the whole process tree, at random moments; with --zombie a stopped driver is woken
beside its successor. Afterwards every record must be in `out` exactly once, in order per key. Exit status 1 otherwise.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import pyarrow as pa
from bench.servers import Server, apache_kafka, has_apache_kafka, oncelog

from oncelog import TopicPartition, sync

ROOT = pathlib.Path(__file__).parent.parent.parent


class Job:
    """The Spark job in a process group of its own."""

    def __init__(self, server: Server, folder: pathlib.Path, options: argparse.Namespace) -> None:
        command = [
            *(sys.executable, "-m", "evidence.spark_kills.copy_job", "--bootstrap-server", server.bootstrap),
            *("--checkpoint", str(folder / "checkpoint"), "--records-per-batch", str(options.records_per_batch)),
            *(["--fail-tasks"] if options.fail_tasks else []),
        ]
        self.log = (folder / "job.log").open("ab")
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            command,
            stdout=self.log,
            stderr=self.log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            cwd=ROOT,
            env=environment,
        )

    def kill(self, what: str) -> None:
        if what == "jvm":
            found = subprocess.run(
                ["pgrep", "-g", str(self.process.pid), "java"], capture_output=True, text=True
            ).stdout.split()
            for process_id in found:
                os.kill(int(process_id), signal.SIGKILL)
        elif what == "driver":
            self.process.kill()
        time.sleep(0.2 if what == "tree" else 1.0)  # what is left acts on its own for a moment
        self.signal(signal.SIGKILL)
        self.process.wait()

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None


def fill(server: Server, count: int) -> None:
    """`count` records with 97 keys; a value is "key:number", numbers grow per key."""
    with sync.Admin(bootstrap_servers=server.bootstrap) as admin:
        admin.create_topics({"in": 4, "out": 4})
    with sync.Producer(bootstrap_servers=server.bootstrap, transactional_id="fill") as producer:
        for begin in range(0, count, 20_000):
            part = range(begin, min(begin + 20_000, count))
            keys = [b"%d" % (i % 97) for i in part]
            values = [b"%d:%d" % (i % 97, i) for i in part]
            with producer.transaction():
                producer.send_arrow("in", pa.RecordBatch.from_pydict({"key": keys, "value": values}))


def copied(server: Server) -> tuple[collections.Counter[bytes], int]:
    """How often each value is visible in `out`, and how many records stand out of their key's order."""
    seen: collections.Counter[bytes] = collections.Counter()
    disorder, last = 0, {}
    with sync.Consumer(bootstrap_servers=server.bootstrap, isolation_level="read_committed") as consumer:
        partitions = [TopicPartition("out", p) for p in range(4)]
        ends = consumer.end_offsets(partitions)
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        while any(consumer.position(p) < ends[p] for p in partitions):
            for value in consumer.poll_arrow(timeout_ms=2000).column("value").to_pylist():
                key, _, number = value.partition(b":")
                disorder += int(number) < last.get(key, -1)
                last[key] = int(number)
                seen[value] += 1
    return seen, disorder


def output_end(server: Server) -> int:
    with (
        contextlib.suppress(Exception),
        sync.Consumer(bootstrap_servers=server.bootstrap, isolation_level="read_committed") as consumer,
    ):
        return sum(consumer.end_offsets([TopicPartition("out", p) for p in range(4)]).values())
    return 0


def until_progress(server: Server, job: Job, before: int) -> None:
    """A kill is only worth something once the job writes again."""
    while job.is_running and output_end(server) <= before:
        time.sleep(0.3)


def run(server: Server, options: argparse.Namespace, folder: pathlib.Path) -> int:
    fill(server, options.records)
    chance = random.Random(options.seed)
    started, kills, zombies = time.monotonic(), 0, 0
    stopped: list[Job] = []
    job = Job(server, folder, options)
    failures = 0
    while True:
        if kills < options.kills:
            until_progress(server, job, output_end(server))
            time.sleep(chance.uniform(0, 1.2))
            if not job.is_running and job.process.returncode == 0:
                break
            if options.zombie and kills % 5 == 4:
                job.signal(signal.SIGSTOP)
                stopped.append(job)
                zombies += 1
            else:
                what = chance.choice(["driver", "jvm", "tree"])
                job.kill(what)
            kills += 1
            print(
                f"[{time.monotonic() - started:5.0f} s] kill {kills}, {output_end(server):,} offsets in out",
                file=sys.stderr,
                flush=True,
            )
            job = Job(server, folder, options)
            if stopped:
                until_progress(server, job, output_end(server))
                stopped.pop().signal(signal.SIGCONT)  # the old driver goes on beside its successor
            continue
        if not job.is_running:
            if job.process.returncode == 0:
                break
            failures += 1
            if failures > 30:
                print("spark-kills: the job does not come through; see its log", file=sys.stderr)
                return 1
            job = Job(server, folder, options)
        time.sleep(0.3)
    return verdict(server, options, kills, zombies, time.monotonic() - started)


def verdict(server: Server, options: argparse.Namespace, kills: int, zombies: int, seconds: float) -> int:
    seen, disorder = copied(server)
    duplicates = sum(n - 1 for n in seen.values())
    losses = options.records - len(seen)
    with sync.Admin(bootstrap_servers=server.bootstrap) as admin:
        left = admin.list_transactions(states=["Ongoing"])
    print(
        f"{server.name}: {kills} kills ({zombies} woken zombies), {options.records:,} records, {duplicates} duplicates, "
        f"{losses} losses, {disorder} out of order, {len(left)} open transactions, {seconds:.0f} s"
    )
    return 0 if (duplicates, losses, disorder) == (0, 0, 0) and kills >= options.kills else 1


@contextlib.contextmanager
def server_of(options: argparse.Namespace) -> Iterator[Server]:
    if options.against == "oncelog":
        with oncelog(transaction_two_phase_commit_enable="true") as server:
            yield server
    else:
        with apache_kafka() as server:
            yield server


def main() -> int:
    parser = argparse.ArgumentParser(prog="make spark-kills")
    parser.add_argument("--against", choices=["oncelog", "kafka"], default="oncelog")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--records-per-batch", type=int, default=2000)
    parser.add_argument("--fail-tasks", action="store_true")
    parser.add_argument("--zombie", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.against == "kafka" and (why := has_apache_kafka()):
        print(f"spark-kills: skipped: {why}")
        return 0
    folder = pathlib.Path(tempfile.mkdtemp(prefix="spark-kills-"))
    try:
        with server_of(options) as server:
            return run(server, options, folder)
    finally:
        shutil.copy(folder / "job.log", ROOT / "build" / "spark-kills-job.log")
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main())
