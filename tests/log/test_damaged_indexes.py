"""Indexes that lie, by any damage: a log gives the answers of one without damage, and says so once."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

import pytest
from evidence.world.files import SimFiles
from evidence.world.naive_log import NaiveProducers, data_batch, marker_batch, naive_aborted, only
from evidence.world.partition_log import DATA, DIRECTORY, PARTITION
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.log.checkpoint_files import create_partition_directory
from oncelog.log.config import LogConfig
from oncelog.log.partition_log import PartitionLog
from oncelog.log.recovery import recover
from oncelog.log.time_proof import largest_timestamp_in

LONG = int(os.environ.get("ONCELOG_LONG", "0"))
T_MS = 1_700_000_000_000
ENTRY_SIZE_BYTES = {"index": 8, "timeindex": 12, "txnindex": 34}
RETENTION_MS = 1000


class Written:
    """A log after a clean stop: its files, and the answers that it gives."""

    def __init__(self, seed: int, *, in_order: bool, interval_bytes: int) -> None:
        random = Random(seed)
        self.config = LogConfig(segment_bytes=2500, index_interval_bytes=interval_bytes, retention_ms=RETENTION_MS)
        files, producers = SimFiles(0), NaiveProducers()
        files.make_directory(DATA)
        create_partition_directory(files, DATA, PARTITION, b"T" * 16)
        log = recover(files, DIRECTORY, self.config, producers).log
        timestamp = T_MS
        self.timestamps = set()
        for number in range(60):
            timestamp = timestamp + random.randint(0, 5) if in_order else T_MS + random.randint(0, 400)
            offset, producer_id = log.log_end_offset, random.randint(-1, 2)
            if number % 4 == 3:
                data = marker_batch(offset, max(producer_id, 0), commit=False, timestamp_ms=timestamp)
            else:
                count = random.randint(1, 3)
                data = data_batch(offset, count=count, value_bytes=80, producer_id=producer_id, timestamp_ms=timestamp)
            batch = only(data)
            log.append(
                data,
                base_offset=offset,
                last_offset=batch.last_offset,
                max_timestamp=batch.max_timestamp,
                now_ms=T_MS,
            )
            entry = producers.replay(batch)
            if entry is not None:
                log.add_aborted(entry)
            self.timestamps |= {timestamp - 1, timestamp, timestamp + 2, timestamp + 3}
        self.aborted = log.aborted_checksums()
        log.close()
        self.end_offset = log.log_end_offset
        self.contents = files.snapshot(DATA)
        self.answers = answers(self.opened(self.contents, is_clean=True)[1], self)

    def opened(self, contents: dict[str, bytes], *, is_clean: bool) -> tuple[SimFiles, PartitionLog]:
        files = SimFiles(0)
        files.make_directory(DATA)
        files.make_directory(DIRECTORY)
        for path, content in contents.items():
            file = files.open(path)
            file.write_at(0, content)
            file.sync()
        return files, self.open(files, is_clean=is_clean)

    def open(self, files: SimFiles, *, is_clean: bool) -> PartitionLog:
        return recover(
            files,
            DIRECTORY,
            self.config,
            NaiveProducers(),
            recovery_point=self.end_offset,
            is_clean=is_clean,
            aborted=self.aborted,
        ).log


@cache
def written(seed: int, in_order: bool, interval_bytes: int) -> Written:
    return Written(seed, in_order=in_order, interval_bytes=interval_bytes)


def answers(log: PartitionLog, of: Written, order: Random | None = None) -> dict[str, Any]:
    """Everything that indexes help with."""
    asked = [
        *(("times", timestamp) for timestamp in sorted(of.timestamps)),
        *(("reads", offset) for offset in range(of.end_offset)),
        *(("retention", now_ms) for now_ms in range(T_MS + RETENTION_MS - 1, T_MS + RETENTION_MS + 430, 7)),
        ("latest", 0),
    ]
    if order is not None:
        order.shuffle(asked)
    ask = {
        "times": log.offset_for_timestamp,
        "reads": lambda offset: _read(log, offset),
        "retention": lambda now_ms: _retained(log, now_ms),
        "latest": lambda _: log.offset_of_max_timestamp(),
    }
    found = {(what, which): ask[what](which) for what, which in asked}
    return {f"{what} {which}": found[what, which] for what, which in sorted(found)}


def _read(log: PartitionLog, offset: int) -> Any:
    read = log.read(offset, 600, log.log_end_offset)
    assert read is not None
    told = log.aborted_between(offset, read.upper_bound_offset)
    return read.data, read.base_offset, read.end_offset, naive_aborted(told, offset, read.end_offset)


def _retained(log: PartitionLog, now_ms: int) -> int:
    while True:
        past = log.segments_past_retention(now_ms, log.log_end_offset)
        segment = log.to_prove
        if segment is None:
            return len(past)
        segment.note_proof(
            largest_timestamp_in(segment.opened(), segment.times.unproven_end_position, segment.end_offset - 1)
        )


def damage(contents: dict[str, bytes], random: Random) -> dict[str, bytes]:
    damaged = dict(contents)
    paths = sorted(path for path in contents if path.endswith("index") and contents[path])
    for path in random.sample(paths, random.randint(1, 4)):
        content, kind = bytearray(damaged[path]), path.rpartition(".")[2]
        entry_bytes = ENTRY_SIZE_BYTES[kind]
        entry = random.randrange(max(len(content) // entry_bytes, 1)) * entry_bytes
        match random.choice(
            ["flip", "flips", "whole", "part", "empty", "drop", "zero", "zeros", "swap", "move", "gone"]
        ):
            case "nudge":
                at = entry + random.choice({"index": [3, 7], "timeindex": [7, 11], "txnindex": [17, 25, 33]}[kind])
                content[at] = (content[at] + random.randint(-20, 20)) % 256
            case "flip":
                content[random.randrange(len(content))] ^= 1 << random.randrange(8)
            case "flips":
                for _ in range(5):
                    content[random.randrange(len(content))] ^= 1 << random.randrange(8)
            case "whole":
                del content[entry:]
            case "part":
                del content[random.randrange(len(content)) :]
            case "empty":
                content.clear()
            case "drop":
                del content[entry : entry + entry_bytes]
            case "zero":
                content[entry : entry + entry_bytes] = bytes(entry_bytes)
            case "zeros":
                content[entry:] = bytes(len(content) - entry)
            case "swap":
                content[:] = contents[random.choice([each for each in paths if each.endswith(f".{kind}")])]
            case "move":
                moved = content[entry : entry + entry_bytes]
                del content[entry : entry + entry_bytes]
                content += moved
            case "gone":
                del damaged[path]
                continue
        damaged[path] = bytes(content)
    return damaged


@contextlib.contextmanager
def heard() -> Iterator[list[str]]:
    """What the log says meanwhile."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("oncelog.partitions")
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)


@settings(max_examples=150 + 5000 * LONG, deadline=None)
@given(st.integers(0, 5), st.booleans(), st.sampled_from([0, 300, 1000]), st.booleans(), st.integers(0, 2**32))
def test_every_answer_is_that_of_a_log_without_damage(
    seed: int, in_order: bool, interval_bytes: int, is_clean: bool, drawn: int
) -> None:
    of, random = written(seed, in_order, interval_bytes), Random(drawn)
    files, log = of.opened(damage(of.contents, random), is_clean=is_clean)
    assert answers(log, of, random) == of.answers
    log.close()
    with heard() as lines:
        log = of.open(files, is_clean=True)
        assert answers(log, of) == of.answers
        log.close()
    assert lines == [], "it was put right"


def test_a_log_without_damage_is_believed(caplog: pytest.LogCaptureFixture) -> None:
    for in_order in (False, True):
        for interval_bytes in (0, 300, 1000):
            for is_clean in (False, True):
                of = written(0, in_order, interval_bytes)
                files, log = of.opened(of.contents, is_clean=is_clean)
                assert answers(log, of) == of.answers
                log.close()
                assert {path: files.read_whole(path) for path in of.contents} == of.contents
    assert caplog.text == ""
