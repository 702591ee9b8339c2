"""Records `kafka_coordinators/`: the logs of Apache Kafka's own coordinators, and what its tools said of them at that time.

    python -m evidence.compat.make_kafka_coordinators

Needs Java 17 and mvn. Transactions of both protocols: open, prepared (two-phase), committed, aborted, fenced, past their
timeout, empty; positions of groups, also from transactions of every outcome; a classic group and a consumer group with
members, and one of each that all have left. Kafka ends by SIGKILL: what lies on its disk is what its coordinators would load.
"""

from __future__ import annotations

import asyncio
import json
import pathlib
import shutil
import sys
import tempfile
from typing import Any

from evidence.compat.apache import ApacheTools
from evidence.differential.brokers import ApacheKafkaNode, kafka_launcher
from evidence.world.broker import Client
from evidence.world.coordinator_workload import PARTITION_COUNT, TOPIC, Workload

FOLDER = pathlib.Path(__file__).parents[2] / "tests" / "data" / "kafka_coordinators"
KEPT = ("__transaction_state-0", "__consumer_offsets-0", *(f"{TOPIC}-{index}" for index in range(PARTITION_COUNT)))
TRANSACTIONAL_IDS = (
    "aborted 1", "aborted 2", "committed 1", "committed 2", "empty", "expired", "fenced", "offsets aborted 1",
    "offsets aborted 2", "offsets committed 1", "offsets committed 2", "offsets open 1", "offsets open 2", "open 1",
    "open 2", "prepared",
)  # fmt: skip
CONFIG = {
    "transaction.state.log.num.partitions": 1,
    "offsets.topic.num.partitions": 1,
    "group.consumer.session.timeout.ms": 600_000,
    "group.consumer.max.session.timeout.ms": 600_000,
    "group.consumer.assignment.interval.ms": 0,
}


def what_tools_say(tools: ApacheTools) -> dict[str, Any]:
    said: dict[str, Any] = {"transactions": tools("TransactionsCommand", "list")}
    said["each"] = {
        name: tools("TransactionsCommand", "describe", "--transactional-id", name) for name in sorted(TRANSACTIONAL_IDS)
    }
    groups = "consumer.group.ConsumerGroupCommand"
    said["groups"] = tools(groups, "--list", "--state", "--type")
    said["positions"] = tools(groups, "--describe", "--all-groups", "--offsets")
    said["members"] = tools(groups, "--describe", "--all-groups", "--members", "--verbose")
    return said


def main() -> int:
    launcher = kafka_launcher()
    if launcher is None:
        print("Apache Kafka cannot be had here: it needs Java 17 and mvn")
        return 77

    async def work(address: tuple[str, int]) -> str:
        client = await Client.connect_to(*address)
        try:
            return await Workload(client).run()
        finally:
            client.close()

    with tempfile.TemporaryDirectory() as folder:
        node = ApacheKafkaNode(pathlib.Path(folder), launcher, CONFIG)
        node.start()
        try:
            topic_id = asyncio.run(work(node.address))
            said = what_tools_say(ApacheTools(launcher, f"{node.address[0]}:{node.address[1]}"))
        finally:
            node.kill()
        shutil.rmtree(FOLDER, ignore_errors=True)
        logs = {path.parent.name: path for path in pathlib.Path(folder).rglob("*.log") if path.parent.name in KEPT}
        assert logs.keys() == set(KEPT), sorted(logs)
        for name, path in logs.items():
            (FOLDER / name).mkdir(parents=True)
            shutil.copy(path, FOLDER / name / path.name)
    (FOLDER / "said.json").write_text(json.dumps({"topic_id": topic_id, **said}, indent=1) + "\n")
    size = sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file())
    print(f"recorded: {len(logs)} logs, {size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
