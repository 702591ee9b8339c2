"""The logs of Apache Kafka's own coordinators, loaded: every state is the one that Kafka's tools told of them.

Recorded by `evidence/compat/make_kafka_coordinators.py`; what the tools said is in `said.json`.
"""

from __future__ import annotations

import json
import pathlib
import shutil
from typing import Any

import pytest
from evidence.world.broker import Client, broker_and_client, eventually, keys, run
from evidence.world.coordinator_workload import PARTITION_COUNT, TOPIC

from oncelog.broker.broker import Broker
from oncelog.errors import ErrorCode
from oncelog.wire.log_records.cluster_metadata import ProducerIdsRecord, TopicRecord
from oncelog.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from oncelog.wire.messages.describe_groups import DescribeGroupsRequest
from oncelog.wire.messages.describe_transactions import DescribeTransactionsRequest
from oncelog.wire.messages.list_groups import ListGroupsRequest
from oncelog.wire.messages.list_transactions import ListTransactionsRequest
from oncelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

E = ErrorCode
FOLDER = pathlib.Path(__file__).parents[2] / "data" / "kafka_coordinators"
CONFIG: dict[str, object] = {
    "transaction_state_log_num_partitions": 1,
    "offsets_topic_num_partitions": 1,
    "transaction_two_phase_commit_enable": "true",
    "transaction_max_timeout_ms": 2**31 - 1,
    # what was recorded is old by the time it is loaded: nothing may be given up for that
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": 2**31 - 1,
    "group_consumer_session_timeout_ms": 60_000,
}


@pytest.fixture(scope="module")
def said() -> dict[str, Any]:
    return json.loads((FOLDER / "said.json").read_text())


def rows(lines: list[str], separator: str | None = None) -> list[dict[str, str]]:
    """A tool's tables, each row by its column's name."""
    found, columns = [], []
    for line in filter(str.strip, lines):
        parts = [part.strip() for part in line.rstrip("\t").split(separator)] if separator else line.split("  ")
        parts = [part.strip() for part in parts if separator or part.strip()]
        if parts[0] in ("TransactionalId", "CoordinatorId", "GROUP"):
            columns = parts
        else:
            found.append(dict(zip(columns, parts, strict=False)))
    return found


async def loaded(directory: pathlib.Path, said: dict[str, Any]) -> None:
    """Make a directory whose coordinators' logs are Kafka's."""
    topic_id = bytes.fromhex(said["topic_id"])
    async with Broker(str(directory), keys(CONFIG)) as broker:
        for name in ("__transaction_state", "__consumer_offsets"):
            await broker.topics.internal(name)
        async with broker.store.changing():
            topic = TopicRecord(name=TOPIC, topic_id=topic_id, partition_count=PARTITION_COUNT)
            await broker.store.append([topic, ProducerIdsRecord(next_producer_id=1000)])
    for folder in FOLDER.iterdir():
        if folder.is_dir():
            shutil.copytree(folder, directory / folder.name, dirs_exist_ok=True)


def with_kafkas_logs(tmp_path: pathlib.Path, said: dict[str, Any], ask: Any) -> Any:
    """Run `ask(broker, client)` on a broker that has loaded them."""

    async def work() -> Any:
        await loaded(tmp_path, said)
        async with broker_and_client(tmp_path, **CONFIG) as (broker, client):
            return await ask(broker, client)

    return run(work())


def test_every_transaction_is_where_kafka_said_it_was(tmp_path, said):
    async def ask(broker: Broker, client: Client) -> None:
        listed = (await client.call(ListTransactionsRequest(), 1)).transaction_states
        ours = {each.transactional_id: (each.producer_id, each.transaction_state) for each in listed}
        theirs = {
            row["TransactionalId"]: (int(row["ProducerId"]), row["TransactionState"])
            for row in rows(said["transactions"], "\t")
        }
        assert ours == theirs
        assert len(theirs) == 16
        for name, lines in said["each"].items():
            (row,) = rows(lines, "\t")
            described = (
                await client.call(DescribeTransactionsRequest(transactional_ids=[name]), 0)
            ).transaction_states[0]
            partitions = {f"{topic.topic}-{index}" for topic in described.topics for index in topic.partitions}
            found = {
                "ProducerId": described.producer_id,
                "ProducerEpoch": described.producer_epoch,
                "TransactionState": described.transaction_state,
                "TransactionTimeoutMs": described.transaction_timeout_ms,
            }
            assert {key: str(value) for key, value in found.items()} == {key: row[key] for key in found}, name
            start = described.transaction_start_time_ms
            assert str(start if start >= 0 else None) == row["CurrentTransactionStartTimeMs"], name
            assert partitions == set(filter(None, row.get("TopicPartitions", "").split(","))), name

    with_kafkas_logs(tmp_path, said, ask)


def test_every_group_is_where_kafka_said_it_was(tmp_path, said):
    async def ask(broker: Broker, client: Client) -> None:
        listed = (await client.call(ListGroupsRequest(), 5)).groups
        ours = {each.group_id: (each.group_type.lower(), each.group_state) for each in listed}
        theirs = {row["GROUP"]: (row["TYPE"].lower(), row["STATE"]) for row in rows(said["groups"])}
        assert ours == theirs
        for group_id in theirs:
            wanted = {
                (row["TOPIC"], int(row["PARTITION"])): int(row["CURRENT-OFFSET"])
                for row in _by_words(said["positions"], 5)
                if row["GROUP"] == group_id and row["CURRENT-OFFSET"] != "-"
            }
            assert await positions(client, group_id) == wanted, group_id

    with_kafkas_logs(tmp_path, said, ask)


def _by_words(lines: list[str], count: int) -> list[dict[str, str]]:
    """As `rows`, where a group's name may have one space: counted from its known names."""
    found, columns = [], []
    for line in filter(str.strip, lines):
        words = line.replace("classic left", "classic_left").replace("modern left", "modern_left").split()
        if words[0] == "GROUP":
            columns = words
        else:
            row = dict(zip(columns[:count], words[:count], strict=False))
            found.append({**row, "GROUP": row["GROUP"].replace("_", " ")})
    return found


async def positions(client: Client, group_id: str) -> dict[tuple[str, int], int]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])
    group = (await client.call(request, 9)).groups[0]
    assert group.error_code == E.NONE
    return {
        (topic.name, part.partition_index): part.committed_offset for topic in group.topics for part in topic.partitions
    }


def test_members_have_what_kafka_said_they_had(tmp_path, said):
    async def ask(broker: Broker, client: Client) -> None:
        members = [row for row in _by_words(said["members"], 7) if "CONSUMER-ID" in row]
        classic = (await client.call(DescribeGroupsRequest(groups=["classic"]), 5)).groups[0]
        assert [(each.member_id, each.client_host) for each in classic.members] == [
            (row["CONSUMER-ID"], row["HOST"]) for row in members if row["GROUP"] == "classic"
        ]
        modern = (await client.call(ConsumerGroupDescribeRequest(group_ids=["modern"]), 1)).groups[0]
        ours = {
            each.member_id: (each.member_epoch, [p for t in each.assignment.topic_partitions for p in t.partitions])
            for each in modern.members
        }
        theirs = {
            row["CONSUMER-ID"]: (
                int(row["CURRENT-EPOCH"]),
                [int(each) for each in row["CURRENT-ASSIGNMENT"].removeprefix(f"{TOPIC}:").split(",")],
            )
            for row in members
            if row["GROUP"] == "modern"
        }
        assert ours == theirs
        assert len(theirs) == 2

    with_kafkas_logs(tmp_path, said, ask)


@pytest.mark.parametrize(
    ("name", "protocol"), [("open 1", 1), ("open 2", 2), ("offsets open 1", 1), ("offsets open 2", 2)]
)
def test_an_open_transaction_of_kafkas_ends_here(tmp_path, said, name, protocol):
    """Its data, or its position, appears with the commit."""
    (row,) = rows(said["each"][name], "\t")
    producer = int(row["ProducerId"]), int(row["ProducerEpoch"])

    async def ask(broker: Broker, client: Client) -> None:
        before = await positions(client, "positions")
        reply = await client.end(name, producer, commit=True, version=3 + protocol if protocol == 1 else 5)
        assert reply.error_code == E.NONE, E(reply.error_code)

        async def is_complete() -> bool:
            return await client.state(name) == "CompleteCommit"

        await eventually(is_complete)
        after = await positions(client, "positions")
        if name.startswith("offsets"):
            assert after == {**before, (TOPIC, 2): 100 * protocol + 2}
        else:
            assert after == before

    with_kafkas_logs(tmp_path, said, ask)


def test_a_decided_transaction_of_kafkas_gets_its_markers_here(tmp_path, said):
    """Kafka's log is cut behind the decision: what it had promised, this broker completes."""
    from oncelog.wire.log_records.transaction_state import TransactionRecord, TransactionState, record_from_key_value
    from oncelog.wire.record_batch import batches

    data = (FOLDER / "__transaction_state-0" / f"{0:020d}.log").read_bytes()
    size_bytes, name = 0, ""
    for batch in batches(data):
        size_bytes += batch.size_bytes
        for record in batch.records():
            found = record_from_key_value(record.key, record.value)
            if isinstance(found, TransactionRecord) and found.state is TransactionState.PREPARE_COMMIT:
                name = found.transactional_id
        if name == "committed 2":
            break
    assert name == "committed 2"

    async def work() -> None:
        await loaded(tmp_path, said)
        path = tmp_path / "__transaction_state-0" / f"{0:020d}.log"
        path.write_bytes(data[:size_bytes])
        for index in (tmp_path / "__transaction_state-0").glob("*.*index"):
            index.unlink()
        async with broker_and_client(tmp_path, **CONFIG) as (_, client):

            async def is_complete() -> bool:
                return await client.state(name) == "CompleteCommit"

            await eventually(is_complete)

    run(work())
