"""`make spark-kills`: the sink under SIGKILL, on oncelog (*prepared*), on Apache Kafka or on three brokers of it (*resumed*).

Kills hit the Python driver, the JVM, or the whole process tree, at random moments; with --zombie a stopped driver is woken
beside its successor; on the cluster a broker, a driver, or both at once. Afterwards every record must be in `out` exactly once,
in order per key, as a client finds it that is not ours (librdkafka). Exit status 1 otherwise.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from bench.servers import apache_kafka, has_apache_kafka, oncelog

from evidence.compat.drills.reading import read_all
from evidence.spark_cluster.daemons import home_without_zip
from evidence.spark_kills.driver_process import ROOT, WHAT, DriverProcess
from evidence.world.kafka_cluster import NODES, KafkaCluster
from oncelog import TopicPartition, sync

PARTITIONS = 4
FAILURES_MAX = 30
AWAY_S = 8.0  # a broker at most: longer than a leader's move, shorter than any client's patience
SETTLED_S = 60.0
LOOK_EVERY_S = 0.5
BROKER, BOTH = "broker", "broker and driver"


@dataclass
class World:
    """Who serves, and the job; `cluster` where brokers are killed, too."""

    name: str
    bootstrap: str
    options: argparse.Namespace
    folder: pathlib.Path
    home: pathlib.Path
    cluster: KafkaCluster | None = None
    kinds: tuple[str, ...] = WHAT
    job: DriverProcess = field(init=False)
    failures: int = 0
    stopped: list[DriverProcess] = field(default_factory=list)
    woken: list[DriverProcess] = field(default_factory=list)

    def start_job(self) -> None:
        """A new life of the job."""
        command = [
            *(sys.executable, "-m", "evidence.spark_kills.copy_job", "--bootstrap-server", self.bootstrap),
            *("--checkpoint", str(self.folder / "checkpoint")),
            *("--records-per-batch", str(self.options.records_per_batch)),
            *(["--fail-tasks"] if self.options.fail_tasks else []),
        ]
        self.job = DriverProcess(command, self.folder / "job.log", SPARK_HOME=str(self.home))

    def revive_job(self) -> None:
        """Start a job that gave up again. Raises SystemExit where that happens too often."""
        if self.job.is_running or self.job.came_through:
            return
        self.failures += 1
        if self.failures > FAILURES_MAX:
            raise SystemExit("spark-kills: the job does not come through; see its log")
        self.start_job()

    def until_progress(self) -> None:
        """A kill is only worth something once the job writes again."""
        before = self.output_end()
        while not self.job.came_through and self.output_end() <= before:
            self.revive_job()
            time.sleep(LOOK_EVERY_S)

    def stop_job(self) -> None:
        """SIGSTOP, and a successor beside it."""
        self.job.signal(signal.SIGSTOP)
        self.stopped.append(self.job)
        self.start_job()

    def wake(self) -> None:
        """The stopped driver goes on beside its successor, which is at work."""
        if self.stopped:
            self.until_progress()
            self.stopped[-1].signal(signal.SIGCONT)
            self.woken.append(self.stopped.pop())

    def end(self) -> None:
        """All of its jobs."""
        for job in [*self.stopped, *self.woken, *([self.job] if hasattr(self, "job") else [])]:
            job.end()

    def output_end(self) -> int:
        """How many offsets readers of `out` may see; 0 while nobody answers."""
        with (
            contextlib.suppress(Exception),
            sync.Consumer(bootstrap_servers=self.bootstrap, isolation_level="read_committed") as consumer,
        ):
            return sum(consumer.end_offsets([TopicPartition("out", p) for p in range(PARTITIONS)]).values())
        return 0

    def kill(self, what: str, chance: random.Random) -> None:
        """One of `kinds`; what was killed is started again."""
        with self._without_a_broker(chance) if what in (BROKER, BOTH) else contextlib.nullcontext():
            if what != BROKER:
                self.job.kill(chance.choice(WHAT) if what == BOTH else what)
                self.start_job()

    @contextlib.contextmanager
    def _without_a_broker(self, chance: random.Random) -> Iterator[None]:
        assert self.cluster is not None
        node = chance.choice(NODES)
        self.cluster.kill(node)
        yield
        time.sleep(chance.uniform(0, AWAY_S))
        self.cluster.start(node)


def fill(bootstrap: str, count: int) -> None:
    """`count` records with 97 keys; a value is "key:number", numbers grow per key."""
    with sync.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics({"in": PARTITIONS, "out": PARTITIONS})
    with sync.Producer(bootstrap_servers=bootstrap, transactional_id="fill") as producer:
        for begin in range(0, count, 20_000):
            part = range(begin, min(begin + 20_000, count))
            keys = [b"%d" % (i % 97) for i in part]
            values = [b"%d:%d" % (i % 97, i) for i in part]
            with producer.transaction():
                producer.send_arrow("in", pa.RecordBatch.from_pydict({"key": keys, "value": values}))


def copied(bootstrap: str) -> tuple[collections.Counter[bytes], int]:
    """How often each value is visible in `out`, and how many records stand out of their key's order."""
    seen: collections.Counter[bytes] = collections.Counter()
    last: dict[bytes, int] = {}
    disorder = 0
    for _, _, value in read_all(bootstrap, "out", PARTITIONS):
        key, _, number = value.partition(b":")
        disorder += int(number) < last.get(key, -1)
        last[key] = int(number)
        seen[value] += 1
    return seen, disorder


def run(world: World) -> int:
    """The kills, the end of the job, the verdict."""
    options, chance = world.options, random.Random(world.options.seed)
    fill(world.bootstrap, options.records)
    started, deck = time.monotonic(), list[str]()
    made: collections.Counter[str] = collections.Counter()
    world.start_job()
    while made.total() < options.kills:
        world.until_progress()
        time.sleep(chance.uniform(0, 1.2))
        if world.job.came_through:
            break
        if options.zombie and made.total() % 5 == 4:
            what = "stop"
            world.stop_job()
        else:
            deck = deck or chance.sample(world.kinds, len(world.kinds))
            what = deck.pop()
            world.kill(what, chance)
        made[what] += 1
        took_s = time.monotonic() - started
        told = f"[{took_s:5.0f} s] kill {made.total()}: {what}; {world.output_end():,} offsets in out"
        print(told, file=sys.stderr, flush=True)
        world.wake()
    while not world.job.came_through:
        world.revive_job()
        time.sleep(LOOK_EVERY_S)
    return verdict(world, made, time.monotonic() - started)


def verdict(world: World, made: collections.Counter[str], seconds: float) -> int:
    """One line; 0 where nothing is twice, missing, out of order or, without zombies, left open."""
    options = world.options
    seen, disorder = copied(world.bootstrap)
    duplicates = sum(n - 1 for n in seen.values())
    losses = options.records - len(seen)
    left = open_at_the_end(world.bootstrap)
    kinds = ", ".join(f"{count} {what}" for what, count in sorted(made.items()))
    print(
        f"{world.name}: {made.total()} kills ({kinds}; {len(world.woken)} woken zombies), {world.failures} jobs gave up, "
        f"{options.records:,} records, {duplicates} duplicates, {losses} losses, {disorder} out of order, "
        f"{left} open transactions, {seconds:.0f} s"
    )
    if made.total() < options.kills:
        print(f"spark-kills: only {made.total()} of {options.kills} kills fitted: more --records, or fewer --kills")
    is_exact = (duplicates, losses, disorder) == (0, 0, 0) and (not left or options.zombie)
    return 0 if is_exact and made.total() >= options.kills else 1


def open_at_the_end(bootstrap: str) -> int:
    """Transactions that are open still when brokers that came back have settled."""
    deadline = time.monotonic() + SETTLED_S
    with sync.Admin(bootstrap_servers=bootstrap) as admin:
        while left := len(admin.list_transactions(states=["Ongoing", "PrepareCommit", "PrepareAbort"])):
            if time.monotonic() > deadline:
                break
            time.sleep(0.5)
    return left


@contextlib.contextmanager
def world_of(options: argparse.Namespace, folder: pathlib.Path) -> Iterator[World]:
    """Who is asked for, running; its job is ended, too."""
    home = home_without_zip(folder)
    with contextlib.ExitStack() as stack:
        if options.against == "cluster":
            cluster = stack.enter_context(KafkaCluster())
            kinds = (BROKER, BOTH, *WHAT)
            world = World("Apache Kafka 4.3, three brokers", cluster.bootstrap, options, folder, home, cluster, kinds)
        else:
            prepared = oncelog(transaction_two_phase_commit_enable="true")
            server = stack.enter_context(prepared if options.against == "oncelog" else apache_kafka())
            world = World(server.name, server.bootstrap, options, folder, home)
        try:
            yield world
        finally:
            world.end()


def main() -> int:
    parser = argparse.ArgumentParser(prog="make spark-kills")
    parser.add_argument("--against", choices=["oncelog", "kafka", "cluster"], default="oncelog")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--records-per-batch", type=int, default=2000)
    parser.add_argument("--fail-tasks", action="store_true")
    parser.add_argument("--zombie", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.against != "oncelog" and (why := has_apache_kafka()):
        print(f"spark-kills: skipped: {why}")
        return 0
    folder = pathlib.Path(tempfile.mkdtemp(prefix="spark-kills-"))
    try:
        with world_of(options, folder) as world:
            return run(world)
    finally:
        if (folder / "job.log").exists():
            shutil.copy(folder / "job.log", ROOT / "build" / "spark-kills-job.log")
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main())
