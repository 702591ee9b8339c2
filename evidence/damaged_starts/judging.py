"""A start of a damaged directory, judged; then the second one, of the directory as a person would mend it."""

from __future__ import annotations

import asyncio
import logging
import re
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from evidence.damaged_starts.damage import Case, put_back
from evidence.damaged_starts.reference import (
    GROUP,
    OPEN,
    PLAIN,
    RETENTION_MS,
    SETTINGS,
    Expected,
    Written,
    produce_request,
    produced,
)
from evidence.world.broker import Client, fetch_request, visible_records
from oncelog.broker.broker import Broker
from oncelog.broker.config.config import ConfigInvalid
from oncelog.errors import DamagedLog, ErrorCode, StorageError
from oncelog.host.network import NetworkFailed
from oncelog.log.checkpoint_files import LOG_START_OFFSETS
from oncelog.types import TopicPartition
from oncelog.wire.messages.describe_transactions import DescribeTransactionsRequest
from oncelog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from oncelog.wire.messages.metadata import MetadataRequest
from oncelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from oncelog.wire.record_batch import batches

HANG_S = 120
EARLIEST = -2
WHOLE, OFFLINE, REFUSED = "whole", "offline", "refused"
REFUSALS = (ConfigInvalid, NetworkFailed, StorageError, DamagedLog)  # what `oncelog serve` makes one line of
ADVICE = re.compile(
    r"restore|put .*(back|right)|copy|rename|remove|delete|move|chmod|rights|set node\.id|docs/\w+\.md|oncelog \w+"
)
BACK_AGAIN = "deleted records are back, and nothing said so"
MORE_STAMP_MS = 10_000  # of what is written behind a whole start, behind all others


@dataclass
class Seen:
    """What a start gave, and what is wrong about it."""

    outcome: str = WHOLE
    problems: list[str] = field(default_factory=list)
    refusal: str = ""
    warnings: list[str] = field(default_factory=list)

    def told_of(self, names: tuple[str, ...]) -> list[str]:
        """What was said of one of these files, or of the directories that they lie in."""
        said = [self.refusal] if self.refusal else self.warnings
        return [each for each in said if any(_names(each, name) for name in names)]


def _names(text: str, path: str) -> bool:
    directory, _, name = path.rpartition("/")
    return (name in text and (not directory or directory in text)) or (bool(directory) and directory in text)


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@contextmanager
def _listening() -> Iterator[_Lines]:
    lines, loggers = _Lines(), [logging.getLogger(name) for name in ("oncelog", "asyncio")]
    before = [(each.level, each.propagate) for each in loggers]
    for each in loggers:
        each.addHandler(lines)
        each.setLevel(logging.INFO)
        each.propagate = False
    try:
        yield lines
    finally:
        for each, (level, propagate) in zip(loggers, before, strict=True):
            each.removeHandler(lines)
            each.setLevel(level)
            each.propagate = propagate


async def start(data: Path, expected: Expected, *, writes: bool) -> Seen:
    """One start and stop. With `writes` one record more goes into each topic that is whole, and into `expected`."""
    seen = Seen()
    with _listening() as lines:
        try:
            async with asyncio.timeout(HANG_S):
                await _start(data, expected, seen, writes=writes)
        except TimeoutError:
            seen.problems.append(f"no end within {HANG_S} s")
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | asyncio.CancelledError):
                raise
            seen.problems.append("".join(traceback.format_exception(error)[-3:]))
    for record in lines.records:
        if record.levelno >= logging.WARNING:
            seen.warnings.append(record.getMessage())
        if record.exc_info or "Traceback" in record.getMessage():
            seen.problems.append(f"a traceback in the log: {record.getMessage()[:300]}")
    return seen


async def _start(data: Path, expected: Expected, seen: Seen, *, writes: bool) -> None:
    broker = Broker(str(data), SETTINGS)
    try:
        await broker.start()
    except REFUSALS as error:
        seen.outcome, seen.refusal = REFUSED, f"{type(error).__name__}: {error}"
        return
    try:
        client = await Client.connect(broker)
        try:
            await _look(broker, client, expected, seen)
            if writes and seen.outcome == WHOLE and not seen.problems:
                await _write_more(client, expected)
        finally:
            client.close()
    finally:
        try:
            await broker.stop()
        except REFUSALS as error:
            seen.problems.append(f"the stop failed: {error}")


async def _look(broker: Broker, client: Client, expected: Expected, seen: Seen) -> None:
    names = {each.name for each in (await client.call(MetadataRequest(topics=None))).topics}
    for topic, records in expected.records.items():
        if topic not in names:
            seen.problems.append(f"topic {topic} is gone")
            continue
        refused, found = await _read(client, topic)
        if refused:
            seen.outcome = OFFLINE
            wrong = [each for each in found if each not in {(one.offset, one.value) for one in records}]
        else:
            wrong = _differences(topic, records, found, expected.deleted, seen)
            for each in records:
                if (offset := await _list_offset(client, topic, each.timestamp_ms)) != each.offset:
                    seen.problems.append(
                        f"{topic}: timestamp {each.timestamp_ms} is at offset {offset}, not {each.offset}"
                    )
        if wrong:
            seen.problems.append(f"{topic}: not what was written: {wrong}")
    await _look_at_coordinators(client, expected, seen)
    if PLAIN in names and seen.outcome == WHOLE:
        partition = broker.partitions.existing(TopicPartition(PLAIN, 0))
        if partition is None or partition.settings.retention_ms != RETENTION_MS:
            seen.problems.append(f"retention.ms of {PLAIN} is forgotten")
        assert expected.retry is not None
        if (offset := await produced(client, expected.retry)) != expected.retried_offset:
            seen.problems.append(f"a retry was appended at {offset}, and had been at {expected.retried_offset}")


def _differences(
    topic: str, records: list[Written], found: list[tuple[int, str]], deleted: list[Written], seen: Seen
) -> list[tuple[int, str]]:
    """What of a whole partition's records should not be there, or is missing."""
    wanted = [(each.offset, each.value) for each in records]
    if topic == PLAIN and found == [*((each.offset, each.value) for each in deleted), *wanted]:
        # Documented: without its checkpoint nobody knows where a log begins. But it has to be said.
        seen.problems.append(BACK_AGAIN)
        return []
    return [each for each in (*wanted, *found) if (each in wanted) != (each in found)] or (
        [] if found == wanted else found
    )


async def _read(client: Client, topic: str) -> tuple[bool, list[tuple[int, str]]]:
    """Whether the partition refused, and what it gave before: from its start, by committed reads."""
    offset = await _list_offset(client, topic, EARLIEST)
    found: list[tuple[int, str]] = []
    while offset is not None:
        answer = (await client.call(fetch_request(topic, offset, committed=True), 12)).responses[0].partitions[0]
        if answer.error_code:
            return True, found
        some = list(batches(answer.records or b""))
        if not some:
            return False, found
        found += visible_records(answer)
        offset = some[-1].end_offset
    return True, found


async def _list_offset(client: Client, topic: str, timestamp_ms: int) -> int | None:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp_ms)
    reply = await client.call(ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[wanted])]))
    answer = reply.topics[0].partitions[0]
    return None if answer.error_code else int(answer.offset)


async def _look_at_coordinators(client: Client, expected: Expected, seen: Seen) -> None:
    wanted = OffsetFetchRequestTopic(name=PLAIN, partition_indexes=[0])
    reply = await client.call(OffsetFetchRequest(group_id=GROUP, topics=[wanted]), 5)
    answer = reply.topics[0].partitions[0] if reply.topics else None
    if reply.error_code or (answer is not None and answer.error_code):
        seen.outcome = OFFLINE
    elif answer is None or answer.committed_offset != expected.group_offset:
        seen.problems.append(
            f"the group's position is {answer and answer.committed_offset}, not {expected.group_offset}"
        )
    described = await client.call(DescribeTransactionsRequest(transactional_ids=sorted(expected.states)))
    for each in described.transaction_states:
        if each.error_code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            seen.outcome = OFFLINE
        elif each.error_code or each.transaction_state != expected.states[each.transactional_id]:
            state = ErrorCode(each.error_code).name if each.error_code else each.transaction_state
            seen.problems.append(
                f"transaction {each.transactional_id} is {state}, not {expected.states[each.transactional_id]}"
            )


async def _write_more(client: Client, expected: Expected) -> None:
    for topic, records in expected.records.items():
        if topic != OPEN:  # its readers wait for the open transaction
            stamp = records[-1].timestamp_ms + MORE_STAMP_MS
            offset = await produced(client, produce_request(topic, "more", stamp))
            expected.with_more(topic, Written(offset, "more", stamp))
    # Appended by another producer, it is still the last batch of the idempotent one that is retried.


async def judge(case: Case, folder: Path, expected: Expected, data: Path) -> Seen:
    """The case's start, and the second one."""
    damage = case.damage(folder, data)
    after = expected.copy()
    seen = await start(data, after, writes=True)
    told = seen.told_of(damage.paths)
    if BACK_AGAIN in seen.problems and LOG_START_OFFSETS in damage.paths and told:
        seen.problems.remove(BACK_AGAIN)
        after.records[PLAIN] = [*after.deleted, *after.records[PLAIN]]
    if seen.outcome != WHOLE:
        if not told:
            seen.problems.append(f"nothing names the file: {seen.refusal or seen.warnings}")
        elif not any(ADVICE.search(each) for each in told):
            seen.problems.append(f"nothing says what can be done: {told}")
        put_back(damage, folder / case.state, data)
    if seen.problems:
        return seen
    again = await start(data, after, writes=False)
    if again.outcome != WHOLE:
        again.problems.append(f"{again.outcome}: {again.refusal or again.warnings}")
    seen.problems += [f"the second start: {each}" for each in again.problems]
    return seen


def as_a_process(case: Case, folder: Path, data: Path) -> list[str]:
    """What is wrong about a refusal by `oncelog serve`."""
    damage = case.damage(folder, data)
    settings = [word for key, value in SETTINGS.items() for word in ("-c", f"{key}={value}")]
    words = ["serve", "--data-dir", str(data), "--listen", "127.0.0.1:0", *settings]
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "oncelog", *words], capture_output=True, timeout=HANG_S, check=False, text=True
        )
    except subprocess.TimeoutExpired:
        return [f"as a process it had no end within {HANG_S} s"]
    problems = [] if ended.returncode in (1, 2) else [f"as a process it ended with {ended.returncode}"]
    if "Traceback" in ended.stderr:
        problems.append(f"as a process: {ended.stderr[-800:]}")
    if not any(_names(ended.stderr, path) for path in damage.paths):
        problems.append(f"as a process it names no file: {ended.stderr[-300:]}")
    return problems
