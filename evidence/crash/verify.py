"""What must hold after the kills, counted: journals against two independent readers of the log.

Lost: an acknowledged record is not where its acknowledgement said, or a committed one is not visible. Duplicated: a value
stands twice in the log. Aborted visible, torn: as they say. Every value is sent once, so all of this is set arithmetic.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import sqlite3
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer as PeerConsumer
from confluent_kafka import TopicPartition as PeerPartition

from evidence.crash.workers import ATTEMPTS, DECISIONS, GROUP, TOPICS
from oncelog import Admin, Consumer, PreparedTxnState, Producer, TopicPartition
from oncelog.checker.anomalies import check
from oncelog.checker.history import Operation, read_history

View = dict[str, list[tuple[int, int]]]  # key: (offset, value) in the order of offsets
PLACES = [TopicPartition(topic, partition) for topic, count in TOPICS.items() for partition in range(count)]
FINISHED = {"Empty", "CompleteCommit", "CompleteAbort", "Dead"}
SETTLE_S = 60.0  # for a hang


@dataclass
class Verdict:
    """The counts of the summary line, and what was found in words."""

    acknowledged: int = 0
    committed_transactions: int = 0
    aborted_transactions: int = 0
    unknown: int = 0
    lost: int = 0
    duplicated: int = 0
    aborted_visible: int = 0
    torn: int = 0
    open: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not self.problems and not self.lost + self.duplicated + self.aborted_visible + self.torn + self.open

    def add(self, name: str, text: str) -> None:
        """Count a finding under `name`, and remember the first few in words."""
        setattr(self, name, getattr(self, name) + 1)
        if sum(problem.startswith(name) for problem in self.problems) < 5:
            self.problems.append(f"{name}: {text}")


async def read_all(bootstrap: str, isolation_level: str) -> View:
    """Everything up to the end, by oncelog's own consumer."""
    view: View = {str(place): [] for place in PLACES}
    consumer = Consumer(
        bootstrap_servers=bootstrap,
        isolation_level=isolation_level,
        auto_offset_reset="earliest",
        max_poll_records=5000,
    )
    consumer.assign(PLACES)
    async with consumer:
        ends = await consumer.end_offsets(PLACES)
        async with asyncio.timeout(60):
            while any([await consumer.position(place) < ends[place] for place in PLACES]):
                for record in await consumer.poll(timeout_ms=100):
                    view[str(record.topic_partition)].append((record.offset, int(record.value or b"-1")))
    return view


def read_all_by_peer(bootstrap: str) -> View:
    """The same, read_committed, by librdkafka."""
    view: View = {str(place): [] for place in PLACES}
    consumer = PeerConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "crash-verify",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([PeerPartition(place.topic, place.partition, 0) for place in PLACES])
    ended: set[tuple[str, int]] = set()
    silent = 0
    while len(ended) < len(PLACES) and silent < 20:
        message = consumer.poll(1.0)
        if message is None:
            silent += 1
        elif message.error():
            ended.add((message.topic(), message.partition()))
        else:
            view[f"{message.topic()}-{message.partition()}"].append((message.offset(), int(message.value())))
    consumer.close()
    return view


async def settle(bootstrap: str, folder: pathlib.Path, verdict: Verdict) -> None:
    """Only prepared transactions may be left open; then complete those as the database says, and nothing is left."""
    with contextlib.closing(sqlite3.connect(folder / "decisions.sqlite3", isolation_level=None)) as database:
        database.execute(DECISIONS)
        query = "SELECT transactional_id, state, commits FROM decision WHERE is_done = 0"
        decisions = {name: (state, commits) for name, state, commits in database.execute(query)}
        async with Admin(bootstrap_servers=bootstrap) as admin:
            for name, state in (await open_transactions(admin, set(decisions))).items():
                verdict.add("open", f"{name} is {state}")
            for name, (state, commits) in decisions.items():
                async with Producer(
                    bootstrap_servers=bootstrap, transactional_id=name, transaction_two_phase_commit_enable=True
                ) as producer:
                    await producer.complete_transaction(PreparedTxnState(state if commits else ""))
            for name, state in (await open_transactions(admin, set())).items():
                verdict.add("open", f"{name} is {state} after all was completed")
            ends = await admin.list_offsets(dict.fromkeys(PLACES, "latest"))
            stable = await admin.list_offsets(dict.fromkeys(PLACES, "latest"), isolation_level="read_committed")
            for place in PLACES:
                if ends[place].offset != stable[place].offset:
                    verdict.add("open", f"{place}: stable to {stable[place].offset} of {ends[place].offset}")


async def open_transactions(admin: Admin, expected: set[str]) -> dict[str, str]:
    """Those that are not `expected` and do not end by themselves."""
    deadline = asyncio.get_running_loop().time() + SETTLE_S
    while True:
        listed = {each.transactional_id: each.state for each in await admin.list_transactions()}
        found = {
            name: state
            for name, state in listed.items()
            if state not in FINISHED and not (name in expected and state == "Ongoing")
        }
        if not found or asyncio.get_running_loop().time() > deadline:
            return found
        await asyncio.sleep(0.05)


def judge(operations: list[Operation], raw: View, committed: View, verdict: Verdict) -> None:
    """Compare what was told with what is there."""
    at = {key: dict(records) for key, records in raw.items()}
    visible = {(key, value) for key, records in committed.items() for _, value in records}
    for key, records in raw.items():
        for value, count in Counter(value for _, value in records).items():
            if count > 1:
                verdict.add("duplicated", f"{key}: value {value} stands {count} times")
    for operation in operations:
        sends = operation.sends
        seen = [(send.key, send.value) in visible for send in sends]
        for send in sends:
            if send.offset is not None and at[send.key].get(send.offset) != send.value:
                verdict.add("lost", f"{send.key}@{send.offset}: value {send.value} was acknowledged there")
            verdict.acknowledged += send.offset is not None
        _judge_outcome(operation, seen, verdict)


def _judge_outcome(operation: Operation, seen: list[bool], verdict: Verdict) -> None:
    sends = operation.sends
    if not sends:
        return
    if operation.type == "ok":
        verdict.committed_transactions += 1
        for send, is_seen in zip(sends, seen, strict=True):
            if not is_seen:
                verdict.add("lost", f"{send.key}: value {send.value} was committed and is not visible")
    elif operation.type == "fail":
        verdict.aborted_transactions += 1
        for send, is_seen in zip(sends, seen, strict=True):
            if is_seen:
                verdict.add("aborted_visible", f"{send.key}: value {send.value} was aborted")
    else:
        verdict.unknown += 1
        if any(seen) and not all(seen):
            verdict.add("torn", f"operation {operation.index}: {sum(seen)} of {len(seen)} records are visible")


def judge_copy(committed: View, positions: dict[TopicPartition, Any], verdict: Verdict) -> None:
    """Every record below the committed position was copied exactly once, and none above it."""
    for partition in range(TOPICS["crash.in"]):
        place = TopicPartition("crash.in", partition)
        position = positions[place].offset if place in positions else 0
        wanted = Counter(value for offset, value in committed[str(place)] if offset < position)
        copied = Counter(value // ATTEMPTS for _, value in committed[f"crash.out-{partition}"])
        for _ in (wanted - copied).elements():
            verdict.add("lost", f"{place}: a consumed record was not copied")
        for _ in (copied - wanted).elements():
            verdict.add("duplicated", f"crash.out-{partition}: a record was copied twice, or its position is gone")


async def verify(bootstrap: str, folder: pathlib.Path, lines: list[str]) -> Verdict:
    """All of it; `lines` is the merged history. The history with the final reads is left in history.jsonl."""
    verdict = Verdict()
    await settle(bootstrap, folder, verdict)
    raw = await read_all(bootstrap, "read_uncommitted")
    committed = await read_all(bootstrap, "read_committed")
    if committed != read_all_by_peer(bootstrap):
        verdict.problems.append("librdkafka reads something else, read_committed, than oncelog's consumer")
    async with Admin(bootstrap_servers=bootstrap) as admin:
        positions = await admin.list_consumer_group_offsets(GROUP)
    judge(read_history(lines), raw, committed, verdict)
    judge_copy(committed, positions, verdict)
    lines = [*lines, final_read(committed, len(lines))]
    (folder / "history.jsonl").write_text("\n".join(lines) + "\n", encoding="ascii")
    for anomaly in check(read_history(lines)).anomalies:
        if anomaly.fails:
            verdict.problems.append(f"history: {anomaly.name}: {anomaly.text}")
    return verdict


def final_read(committed: View, index: int) -> str:
    """The last read as an event of the history, so that the checker sees what nobody else read in time."""
    event = {"index": index, "type": "ok", "process": 99999, "time": 2**62, "f": "txn", "value": [["poll", committed]]}
    return json.dumps(event)
