"""Healthy directories of both brokers, each with another life."""

from __future__ import annotations

import os
import pathlib
import time
from collections.abc import Callable

from evidence.crash.broker_process import BrokerProcess
from evidence.differential.brokers import ApacheKafkaNode
from evidence.reconcile.writing import Story, write_in_a_process

COMPACTED = (
    ("cleanup.policy", "compact"),
    ("segment.ms", "100"),
    ("min.cleanable.dirty.ratio", "0.01"),
    ("delete.retention.ms", "300"),
)
CLEANER = (("log.cleaner.backoff.ms", "50"), ("log.retention.check.interval.ms", "300"))
RETENTION = (("retention.ms", "1500"), ("segment.ms", "200"))
STORIES = [
    Story("clean"),
    Story("killed", stops=False),
    Story("killed without a journal", stops=False, broker_config=(("journal", "off"),)),
    Story("killed three times", kills=3, stops=False),
    Story("killed and stopped", kills=2),
    Story("aborted", abort_share=0.9),
    Story("open", leaves_open=6),
    Story("two-phase", two_phase=True, kills=1),
    Story("compacted", topic_configs=COMPACTED, broker_config=CLEANER, cleans=True, kills=1),
    Story("trimmed", trims=True, kills=1),
    Story("retention", topic_configs=RETENTION, broker_config=CLEANER, cleans=True, leaves_open=0),
    Story("many epochs", transactions=120, instances=30),
    Story("older protocol", level=1),
    Story("running", is_running=True),
    Story("Kafka: clean", is_kafka=True),
    Story("Kafka: killed", is_kafka=True, stops=False),
    Story("Kafka: killed and stopped", is_kafka=True, kills=2),
    Story("Kafka: aborted, open", is_kafka=True, abort_share=0.8, leaves_open=5),
    Story("Kafka: compacted", is_kafka=True, topic_configs=COMPACTED, broker_config=CLEANER, cleans=True, kills=1),
    Story(
        "Kafka: retention, trimmed",
        is_kafka=True,
        topic_configs=RETENTION,
        broker_config=CLEANER,
        cleans=True,
        trims=True,
        leaves_open=0,
    ),
    Story("Kafka: many epochs", is_kafka=True, transactions=90, instances=30),
    Story("Kafka: older protocol", is_kafka=True, level=1),
    Story("Kafka: running", is_kafka=True, is_running=True),
]


def make(
    story: Story, folder: pathlib.Path, seed: int, launcher: str | None, look: Callable[[pathlib.Path], None]
) -> None:
    """Live the story in `folder`; `look` is given the data directory, while the broker runs where the story says so."""
    folder.mkdir(parents=True)
    if story.is_kafka:
        assert launcher is not None
        _kafka(story, folder, seed, launcher, look)
    else:
        _oncelog(story, folder, seed, look)


def _oncelog(story: Story, folder: pathlib.Path, seed: int, look: Callable[[pathlib.Path], None]) -> None:
    config = (
        "transaction.state.log.num.partitions=3",
        "offsets.topic.num.partitions=3",
        "group.initial.rebalance.delay.ms=0",
    )
    broker = BrokerProcess(folder, config=(*config, *(f"{key}={value}" for key, value in story.broker_config)))
    turns = max(story.kills, 1)
    broker.launch()
    try:
        broker.wait_ready()
        for turn in range(turns):
            if turn:
                broker.launch()
                broker.wait_ready()
            write_in_a_process(broker.bootstrap, story, seed, turn)
            if story.cleans:
                _wait_for_cleaning(broker.data)
            if story.is_running:
                look(broker.data)
            is_last = turn == turns - 1
            if is_last and story.stops:
                assert broker.stop() == 0, broker.last_words()
            else:
                broker.kill()
    finally:
        broker.kill()
    if not story.is_running:
        look(broker.data)


def _kafka(story: Story, folder: pathlib.Path, seed: int, launcher: str, look: Callable[[pathlib.Path], None]) -> None:
    os.environ["KAFKA_FORMAT"] = f"--feature transaction.version={story.level}"
    config: dict[str, object] = {"offsets.topic.num.partitions": 3, "transaction.state.log.num.partitions": 3}
    config["transaction.abort.timed.out.transaction.cleanup.interval.ms"] = 10_000
    node = ApacheKafkaNode(folder / "node", launcher, {**config, **dict(story.broker_config)})
    servers = "{}:{}".format(*node.address)
    turns = max(story.kills, 1)
    data = folder / "node" / "data"
    node.start()
    is_up = True
    try:
        for turn in range(turns):
            if turn:
                node.start()
                is_up = True
            write_in_a_process(servers, story, seed, turn)
            if story.cleans:
                _wait_for_cleaning(data)
            if story.is_running:
                look(data)
            if turn == turns - 1 and story.stops:
                node.stop()
            else:
                node.kill()
            is_up = False
    finally:
        del os.environ["KAFKA_FORMAT"]
        if is_up:
            node.kill()
    if not story.is_running:
        look(data)


def _wait_for_cleaning(data: pathlib.Path) -> None:
    """Until the first segment of a partition is gone, or smaller than it was."""
    firsts = list(data.glob("orders-*/00000000000000000000.log"))
    sizes = {path: path.stat().st_size for path in firsts}
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if any(not path.exists() or path.stat().st_size < size for path, size in sizes.items()):
            time.sleep(0.3)  # and what follows from it
            return
        time.sleep(0.05)
