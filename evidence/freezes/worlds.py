"""The two brokers, each with a partition that nobody serves any more and one with a damaged batch."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bench.servers import ORACLE

from evidence.differential.brokers import ApacheKafkaNode
from evidence.world.kafka_cluster import NODES, KafkaCluster
from oncelog import Admin, Producer, TopicPartition
from oncelog.client.admin.topics import NewTopic
from oncelog.testing import TestBroker

ONCELOG, KAFKA = "oncelog", "Apache Kafka 4.3, three brokers"
LOST, FLIP = "lost", "flip"
STUCK_ID = "stuck-app"
TEXTS = ("a", "b", "c", "d")
DAMAGED_OFFSET = 2
LENGTH = 100
COMMAND_S = 120.0
SESSION_MS = 60_000  # so long is a broker that does not answer taken to be there,
LAG_MS = 2_000  # and so long do the others wait for its copies
GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
CONFIG = {
    "transaction.partition.verification.enable": "false",  # else nobody can leave a hanging transaction behind
    "transaction.two.phase.commit.enable": "true",
    "group.initial.rebalance.delay.ms": "0",
}


@dataclass(frozen=True)
class World:
    """A cluster whose partition `LOST`-0 is gone, with `STUCK_ID` open on it, and whose `flip` is damaged at `DAMAGED_OFFSET`."""

    name: str
    bootstrap: str
    flip: TopicPartition
    paused: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext
    """Who leads `LOST` does not answer meanwhile. Where it is lost from the beginning, this does nothing."""
    lose: Callable[[], object] = lambda: None
    mend: Callable[[], object] | None = None
    """Bring `LOST` back, where that can be done."""
    guarded: Callable[[], contextlib.AbstractContextManager[World]] | None = None
    """Another one, which has access rules. Three brokers of Apache Kafka with an authorizer need somebody whom no rule binds, and
    without logins everybody is the same."""

    def command(
        self, *words: str, status: int | None = 0, ends_s: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        """`oncelog -b ... WORDS`, a process of its own; Ctrl-C after `ends_s`."""
        command = [sys.executable, "-m", "oncelog", "-b", self.bootstrap, *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            out, error = process.communicate(timeout=ends_s or COMMAND_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            out, error = process.communicate(timeout=COMMAND_S)
        if status is not None and process.returncode != status:
            raise AssertionError(f"{shlex.join(words)}: exit {process.returncode}, not {status}\n{out}\n{error}")
        return subprocess.CompletedProcess(command, process.returncode, out, error)

    def json(self, *words: str, status: int | None = 0) -> Any:
        """What it prints with `-o json`."""
        return json.loads(self.command(*words, "-o", "json", status=status).stdout)

    def position(self, group: str, where: TopicPartition, offset: int) -> None:
        """Stored for a group without members."""

        async def store() -> None:
            async with Admin(bootstrap_servers=self.bootstrap) as admin:
                await admin.alter_consumer_group_offsets(group, {where: offset})

        asyncio.run(store())


@contextlib.contextmanager
def oncelog() -> Iterator[World]:
    """One `oncelog serve`: its files are damaged while it is stopped."""
    config = CONFIG | GUARDED
    with tempfile.TemporaryDirectory(prefix="oncelog-freezes-") as directory:
        with TestBroker(config, data_dir=directory, process=True) as broker:
            asyncio.run(_prepare(broker.bootstrap_servers, partitions=1))
        folder = pathlib.Path(directory)
        _flip(folder / f"{FLIP}-0", _of_text)
        _flip(folder / f"{LOST}-0", lambda _: 80)
        for snapshot in (folder / f"{LOST}-0").glob("*.snapshot"):
            snapshot.unlink()  # without it the start reads the log whole, finds the damage, and takes the partition offline
        with TestBroker(config, data_dir=directory, process=True) as broker:
            yield World(ONCELOG, broker.bootstrap_servers, TopicPartition(FLIP, 0))


@contextlib.contextmanager
def kafka() -> Iterator[World]:
    """Three brokers. The one that alone has `LOST` is stopped, later killed; under another a byte of `FLIP` is turned."""
    own = {"unstable.api.versions.enable": "true", "broker.session.timeout.ms": str(SESSION_MS)}
    own |= {"replica.lag.time.max.ms": str(LAG_MS)}
    with KafkaCluster(CONFIG | own) as cluster:
        victim, flip, leader = asyncio.run(_prepare(cluster.bootstrap, partitions=len(NODES)))
        _flip(cluster.data_directory(leader) / str(flip), _of_text)
        yield World(
            KAFKA,
            cluster.bootstrap,
            flip,
            paused=lambda: cluster.paused(victim),
            lose=lambda: cluster.kill(victim),
            mend=lambda: cluster.start(victim),
            guarded=_guarded_kafka,
        )


@contextlib.contextmanager
def _guarded_kafka() -> Iterator[World]:
    """One broker with an authorizer."""
    with (
        tempfile.TemporaryDirectory(prefix="oncelog-freezes-") as directory,
        ApacheKafkaNode(pathlib.Path(directory), str(ORACLE), GUARDED) as node,
    ):
        yield World(KAFKA, "{}:{}".format(*node.address), TopicPartition(FLIP, 0))


async def _prepare(bootstrap: str, partitions: int) -> tuple[int, TopicPartition, int]:
    """`LOST` and `FLIP` without a second copy; on the first `STUCK_ID` is open, whose coordinator is elsewhere if it can be.

    Who leads `LOST`-0; a partition of `FLIP` that another leads, if there is one; who.
    """
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.fence_producers([STUCK_ID])
        coordinator_id = (await admin.describe_transactions([STUCK_ID]))[STUCK_ID].coordinator_id
        nodes = [each.node_id for each in (await admin.describe_cluster()).nodes]
        victim = next((each for each in nodes if each != coordinator_id), coordinator_id)
        await admin.create_topics([NewTopic(LOST, assignments={0: [victim]}), NewTopic(FLIP, partitions, 1)])
        async with Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer:
            for topic, count in ((LOST, 1), (FLIP, partitions)):
                for partition in range(count):
                    for text in TEXTS:  # a batch each
                        await producer.send(topic, (text * LENGTH).encode(), partition=partition)
                        await producer.flush()
        await leave_open(bootstrap, STUCK_ID, LOST)
        leaders = {n: each.leader_id for n, each in (await admin.describe_topics([FLIP]))[FLIP].partitions.items()}
        number, leader = next(((n, each) for n, each in leaders.items() if each != victim), (0, victim))
        return victim, TopicPartition(FLIP, number), leader


async def leave_open(bootstrap: str, transactional_id: str, topic: str, *, two_phase: bool = False) -> None:
    """A record in a transaction that nobody ends."""
    more: dict[str, Any] = (
        {"transaction_two_phase_commit_enable": True, "keep_prepared_txn": False} if two_phase else {}
    )
    producer = Producer(bootstrap_servers=bootstrap, transactional_id=transactional_id, **more)
    await producer.start()
    producer.begin_transaction()
    await producer.send(topic, b"held back", partition=0)
    await (producer.prepare_transaction() if two_phase else producer.detach_transaction())
    await producer.stop()


def _of_text(log: bytes) -> int:
    """In the batch at `DAMAGED_OFFSET`."""
    return log.index(TEXTS[DAMAGED_OFFSET].encode() * LENGTH)


def _flip(directory: pathlib.Path, where: Callable[[bytes], int]) -> None:
    """One bit of a partition's first segment, in place: another file's name would not be the broker's open one."""
    with (directory / f"{0:020}.log").open("r+b") as file:
        at = where(file.read())
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 1]))
