"""What is written into a directory before anything is planted: transactions of every kind, by seed."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import random
import subprocess
import sys
from dataclasses import dataclass

from oncelog import Admin, OffsetAndMetadata, Producer, TopicPartition

TOPICS = {"orders": 3, "pays": 2}
PARTITIONS = [TopicPartition(topic, number) for topic, count in TOPICS.items() for number in range(count)]
GROUP = "copiers"


@dataclass(frozen=True)
class Story:
    """What a directory's life was."""

    name: str
    is_kafka: bool = False
    transactions: int = 40
    abort_share: float = 0.3
    topic_configs: tuple[tuple[str, str], ...] = (("segment.ms", "400"),)
    broker_config: tuple[tuple[str, str], ...] = ()
    level: int = 2  # transaction.version
    leaves_open: int = 1
    two_phase: bool = False
    instances: int = 1  # how often each producer begins anew: each raises the epoch
    trims: bool = False
    kills: int = 0  # SIGKILLs with a start behind each but the last
    cleans: bool = False  # waits for a cleaning
    is_running: bool = False  # reconciled while its broker runs
    stops: bool = True  # cleanly in the end


async def write(servers: str, story: Story, seed: int, turn: int = 0) -> list[Producer]:
    """Write; gives the producers whose transactions are open: stopping one would abort its own."""
    drawn = random.Random(f"{seed} {story.name} {turn}")
    async with Admin(bootstrap_servers=servers) as admin:
        if turn == 0:
            await _prepare(admin, story)
        await _plain(servers, drawn)
        for name in ("a", "b", "c"):
            for instance in range(story.instances):
                await _transactions(servers, story, drawn, name, instance)
        opened = []
        for number in range(story.leaves_open):
            producer = Producer(bootstrap_servers=servers, transactional_id=f"open-{turn}-{number}", linger_ms=0)
            await producer.start()
            producer.begin_transaction()
            for where in drawn.sample(PARTITIONS, 2):
                await producer.send_and_wait(where.topic, b"open", key=b"open", partition=where.partition)
            opened.append(producer)
        if story.two_phase:
            await _two_phase(servers, turn)
        if story.trims:
            await admin.delete_records({TopicPartition("orders", 0): 20, TopicPartition("pays", 1): 15})
    return opened


async def _prepare(admin: Admin, story: Story) -> None:
    if story.level != 2 and not story.is_kafka:  # Apache Kafka's directory was formatted so
        await admin.update_features({"transaction.version": story.level}, upgrade_type="safe_downgrade")
    configs = dict(story.topic_configs)
    await admin.create_topics({topic: {"partitions": count, "configs": configs} for topic, count in TOPICS.items()})


async def _plain(servers: str, drawn: random.Random) -> None:
    codec = drawn.choice(["none", "gzip", "lz4", "zstd", "snappy"])
    async with Producer(bootstrap_servers=servers, compression_type=codec) as producer:
        for index in range(60):
            where = drawn.choice(PARTITIONS)
            await producer.send(
                where.topic, drawn.randbytes(drawn.randrange(200)), key=b"%d" % (index % 7), partition=where.partition
            )
        await producer.flush()


async def _transactions(servers: str, story: Story, drawn: random.Random, name: str, instance: int) -> None:
    async with Producer(bootstrap_servers=servers, transactional_id=name, linger_ms=0) as producer:
        for index in range(story.transactions // story.instances):
            producer.begin_transaction()
            for where in drawn.sample(PARTITIONS, drawn.randint(1, 3)):
                for _ in range(drawn.randint(1, 3)):
                    key = b"%d" % drawn.randrange(7)
                    await producer.send(
                        where.topic, b"%s %d" % (name.encode(), index), key=key, partition=where.partition
                    )
            if drawn.random() < 0.4:
                offsets = {TopicPartition("orders", 0): OffsetAndMetadata(drawn.randrange(10), name)}
                await producer.send_offsets_to_transaction(offsets, GROUP)
            await (
                producer.abort_transaction() if drawn.random() < story.abort_share else producer.commit_transaction()
            )
            if drawn.random() < 0.1:
                await asyncio.sleep(0.03)  # segments roll by time


async def _two_phase(servers: str, turn: int) -> None:
    name = f"prepared-{turn}"
    options = {"transaction_two_phase_commit_enable": True, "keep_prepared_txn": False}
    async with Producer(bootstrap_servers=servers, transactional_id=f"decided-{turn}", **options) as producer:
        producer.begin_transaction()
        await producer.send("orders", b"decided", key=b"d", partition=0)
        await producer.complete_transaction(await producer.prepare_transaction())
    async with Producer(bootstrap_servers=servers, transactional_id=name, **options) as producer:
        producer.begin_transaction()
        await producer.send("orders", b"prepared", key=b"p", partition=1)
        await producer.prepare_transaction()


def write_in_a_process(servers: str, story: Story, seed: int, turn: int = 0) -> None:
    """Write in a process that then is gone: what it left open stays open. Raises CalledProcessError."""
    arguments = [servers, json.dumps(dataclasses.asdict(story)), str(seed), str(turn)]
    subprocess.run([sys.executable, "-m", "evidence.reconcile.writing", *arguments], check=True, timeout=300)


def main() -> None:
    servers, story, seed, turn = sys.argv[1:]
    asyncio.run(_write_and_vanish(servers, Story(**json.loads(story)), int(seed), int(turn)))


async def _write_and_vanish(servers: str, story: Story, seed: int, turn: int) -> None:
    await write(servers, story, seed, turn)
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
