"""`make spark-cluster-kills`: two stateful queries on a standalone cluster of two workers, with drawn kills of everything.

Executors, workers, the driver and the broker are SIGKILLed in turns of drawn order, speculation is on. With --varied a
stream-stream join runs in the place of windows, the state is in RocksDB, checkpoints lie behind another file system, tasks fail,
executors come, go and are excluded, and half-way the job is upgraded. Afterwards a client that
is not ours (librdkafka) and PostgreSQL's own driver count: each event once in the topic, each closed window once in topic and
table, with the very count and sum. Exit status 1 otherwise, also where fewer kills were made than asked for.
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
from dataclasses import dataclass, field

import psycopg
from confluent_kafka import Producer

from evidence.compat.drills.reading import read_all
from evidence.spark_cluster import daemons
from evidence.spark_cluster.events import KEYS, PARTITIONS, Event, answers, difference, events, windows
from evidence.spark_cluster.settings import plain, varied
from evidence.spark_kills.driver_process import ROOT, WHAT, DriverProcess
from evidence.world import postgresql
from oncelog import TopicPartition, errors, sync
from oncelog.spark.java import prepare_java
from oncelog.testing import TestBroker

HOSTS = ("127.0.0.2", "127.0.0.3")  # Spark speculates only on another host; both are this machine
KINDS = ("executor", "worker", "driver", "broker")
STUCK_S = 600.0
DRIVER_FAILURES_MAX = 30
LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = info
logger.executors.name = org.apache.spark.scheduler.cluster.StandaloneSchedulerBackend
logger.executors.level = info
logger.excluded.name = org.apache.spark.scheduler.HealthTracker
logger.excluded.level = info
"""
SPECULATED, EXCLUDED = "as speculatable because", "Excluding executor"


@dataclass
class World:
    """What is killed, and where it all lies."""

    folder: pathlib.Path
    home: pathlib.Path
    master_address: str
    workers: list[daemons.Daemon]
    broker: TestBroker
    database: postgresql.PostgreSql
    records_per_batch: int
    is_varied: bool = False
    driver: DriverProcess = field(init=False)
    driver_ends: int = 0
    release: int = 1

    @property
    def checkpoint(self) -> str:
        """Where the queries keep theirs; varied: behind another of Hadoop's file systems."""
        return "viewfs:///kept/checkpoint" if self.is_varied else str(self.folder / "checkpoint")

    @property
    def outputs(self) -> tuple[str, str]:
        """The topics that the queries write."""
        return "distinct", "joined" if self.is_varied else "windows"

    def start_driver(self) -> None:
        """A new life of the job."""
        settings = varied(self.folder) if self.is_varied else plain(self.folder)
        command = [str(self.home / "bin" / "spark-submit"), "--master", self.master_address]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        command += [
            *(
                str(ROOT / "evidence/spark_cluster/stateful_job.py"),
                "--bootstrap-server",
                self.broker.bootstrap_servers,
            ),
            *("--checkpoint", self.checkpoint, "--database-url", self.database.url),
            *("--records-per-batch", str(self.records_per_batch), "--release", str(self.release)),
            *(["--joins", "--fail-tasks"] if self.is_varied else []),
        ]
        python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        more = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(self.home), **python}
        self.driver = DriverProcess(command, self.folder / "driver.log", **more)

    def kill(self, what: str, chance: random.Random) -> bool:
        """Kill it, and start again what does not come back by itself; False where there was nothing to kill."""
        if what == "executor":
            executors = executors_of([worker.process_id for worker in self.workers])
            if not executors:
                return False
            os.kill(chance.choice(executors), signal.SIGKILL)
        elif what == "worker":
            worker = chance.choice(self.workers)
            worker.kill()
            time.sleep(chance.uniform(0, 2))
            worker.start()
        elif what == "broker":
            self.broker.kill()
            time.sleep(chance.uniform(0, 3))
            self.broker.restart()
        else:
            self.driver.kill(chance.choice(WHAT))
            self.start_driver()
        return True

    def progress(self) -> int:
        """Offsets that readers of both topics may see; -1 while the broker does not answer."""
        with (
            contextlib.suppress(errors.KafkaError),
            sync.Consumer(
                bootstrap_servers=self.broker.bootstrap_servers, isolation_level="read_committed"
            ) as consumer,
        ):
            where = [TopicPartition(topic, p) for topic in self.outputs for p in range(PARTITIONS)]
            return sum(consumer.end_offsets(where).values())
        return -1

    def revive_driver(self) -> None:
        """Start a driver that gave up again: a broker or cluster that was away too long ends a query."""
        if self.driver.is_running or self.driver.came_through:
            return
        self.driver_ends += 1
        if self.driver_ends > DRIVER_FAILURES_MAX:
            raise SystemExit(f"spark-cluster-kills: the job does not come through: {self.driver_log()[-3000:]}")
        self.driver.end()
        self.start_driver()

    def until_progress(self) -> None:
        """A kill is only worth something once the job writes again."""
        before, ends = self.progress(), time.monotonic() + STUCK_S
        while not self.driver.came_through and self.progress() <= before:
            if time.monotonic() > ends:
                raise SystemExit(f"spark-cluster-kills: no progress for {STUCK_S:g} s: {self.driver_log()[-3000:]}")
            self.revive_driver()
            time.sleep(0.5)

    def driver_log(self) -> str:
        """Of all its lives."""
        return (self.folder / "driver.log").read_text(errors="replace")


def executors_of(worker_process_ids: list[int]) -> list[int]:
    """The JVMs that these workers started."""
    parents = ",".join(str(each) for each in worker_process_ids)
    found = subprocess.run(["pgrep", "-P", parents, "java"], capture_output=True, text=True).stdout
    return [int(each) for each in found.split()]


def fill(bootstrap_servers: str, topic: str, wanted: list[Event]) -> None:
    """By the foreign client, in the order of `wanted` per partition."""
    kept = {"partitions": PARTITIONS, "configs": {"retention.ms": -1}}  # the events are of 2023
    with sync.Admin(bootstrap_servers=bootstrap_servers) as admin:
        admin.create_topics({topic: kept})
    producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 20})
    failures: list[object] = []
    for event in wanted:
        while True:
            try:
                producer.produce(
                    topic,
                    b"%d" % event.number,
                    b"%d" % (event.number % KEYS),
                    event.partition,
                    timestamp=event.timestamp_ms,
                    on_delivery=lambda error, _: failures.append(error) if error else None,
                )
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(60) or failures:
        raise SystemExit(f"spark-cluster-kills: the {topic} could not be written: {failures[:1]}")


def run(world: World, options: argparse.Namespace) -> int:
    """The kills, then the end of the job, then the verdict."""
    chance, started, made = random.Random(options.seed), time.monotonic(), collections.Counter[str]()
    fill(world.broker.bootstrap_servers, "events", events(options.rows, options.seed))
    if world.is_varied:
        fill(world.broker.bootstrap_servers, "answers", answers(options.rows, options.seed))
    with sync.Admin(bootstrap_servers=world.broker.bootstrap_servers) as admin:
        admin.create_topics(dict.fromkeys(world.outputs, PARTITIONS))
    world.start_driver()
    deck: list[str] = []
    while made.total() < options.kills and not world.driver.came_through:
        world.release = 2 if world.is_varied and 2 * made.total() >= options.kills else 1
        world.until_progress()
        time.sleep(chance.uniform(0, 3))
        deck = deck or chance.sample(KINDS, len(KINDS))
        what = deck.pop()
        if world.driver.came_through or not world.kill(what, chance):
            continue
        made[what] += 1
        took_s = time.monotonic() - started
        print(
            f"[{took_s:5.0f} s] kill {made.total()}: {what}; {world.progress():,} offsets", file=sys.stderr, flush=True
        )
    ends = time.monotonic() + STUCK_S + options.rows / 50
    while not world.driver.came_through:
        if time.monotonic() > ends:
            raise SystemExit(f"spark-cluster-kills: the job does not end: {world.driver_log()[-3000:]}")
        world.revive_driver()
        time.sleep(0.5)
    return verdict(world, options, made, time.monotonic() - started)


def verdict(world: World, options: argparse.Namespace, made: collections.Counter[str], seconds: float) -> int:
    """Told in one line for each output; 0 where all is exact."""
    at = world.broker.bootstrap_servers
    numbers = collections.Counter(str(n) for n in range(options.rows + PARTITIONS))
    found = {"topic distinct": (values(at, "distinct"), numbers)}
    if world.is_varied:
        joined = collections.Counter(f"{n}:{n}" for n in range(options.rows))
        found["topic joined"] = values(at, "joined"), joined
    else:
        expected = windows(options.rows)
        found["topic windows"] = values(at, "windows"), expected
        found["table windows"] = table(world.database), expected
    compared = {name: (len(wanted), difference(have, wanted)) for name, (have, wanted) in found.items()}
    with sync.Admin(bootstrap_servers=at) as admin:
        left = admin.list_transactions(states=["Ongoing"])
    for name, (count, differing) in compared.items():
        print(f"spark-cluster-kills: {name}: {count:,} expected, {differing}")
    kinds = ", ".join(f"{made[kind]} {kind}" for kind in KINDS)
    print(
        f"spark-cluster-kills: {options.rows:,} records, {made.total()} kills ({kinds}), {world.driver_ends} drivers gave up, "
        f"{world.driver_log().count(SPECULATED)} tasks speculated{variety(world)}, {len(left)} open transactions, {seconds:.0f} s"
    )
    if made.total() < options.kills:
        print(f"spark-cluster-kills: only {made.total()} of {options.kills} kills fitted: more ROWS, or fewer KILLS")
    is_exact = all(differing.is_exact for _, differing in compared.values())
    return 0 if is_exact and not left and made.total() >= options.kills else 1


def variety(world: World) -> str:
    """What the variation brought about, as far as it is seen in the driver's log."""
    if not world.is_varied:
        return ""
    log = world.driver_log()
    failed, excluded = log.count("drawn: this attempt fails"), log.count(EXCLUDED)
    return f", {failed} lines of failed tasks, {excluded} executors excluded, release {world.release} at the end"


def table(database: postgresql.PostgreSql) -> collections.Counter[str]:
    """What stands in the database, as the topic says it, and how often."""
    with psycopg.connect(database.conninfo) as connection:
        rows = connection.execute("SELECT window_ms, bucket, events, total FROM windows").fetchall()
    return collections.Counter(":".join(str(each) for each in row) for row in rows)


def values(bootstrap_servers: str, topic: str) -> collections.Counter[str]:
    """What a foreign read_committed reader finds, and how often."""
    return collections.Counter(value.decode() for _, _, value in read_all(bootstrap_servers, topic, PARTITIONS))


@contextlib.contextmanager
def world_of(options: argparse.Namespace, folder: pathlib.Path) -> Iterator[World]:
    """All processes but the driver; the driver is ended, too."""
    (folder / "log4j2.properties").write_text(LOG4J)
    (folder / "work").mkdir()
    per_batch = max(options.rows // (2 * max(options.kills, 1)), PARTITIONS * 10)
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(postgresql.running())
        broker = stack.enter_context(TestBroker(process=True, data_dir=str(folder / "broker")))
        master = daemons.master(folder)
        stack.callback(master.stop)
        address = daemons.address_in(master.start())
        home = daemons.home_without_zip(folder)
        work = folder / "work"
        workers = [stack.enter_context(daemons.worker(folder, work, address, host, home)) for host in HOSTS]
        world = World(folder, home, address, workers, broker, database, per_batch, options.varied)
        try:
            yield world
        finally:
            if hasattr(world, "driver"):
                world.driver.end()


def main() -> int:
    parser = argparse.ArgumentParser(prog="make spark-cluster-kills")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--varied", action="store_true", help="RocksDB, another file system, failing tasks, a join, an upgrade"
    )
    options = parser.parse_args()
    if why := postgresql.why_not():
        print(f"spark-cluster-kills: skipped: {why}")
        return 0
    prepare_java()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="spark-cluster-kills-"))
    try:
        with world_of(options, folder) as world:
            return run(world, options)
    finally:
        (ROOT / "build").mkdir(exist_ok=True)
        for log in folder.glob("*.log"):
            shutil.copy(log, ROOT / "build" / f"spark-cluster-kills-{log.name}")
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main())
