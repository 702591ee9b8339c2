"""A plan that moves a group's positions: where each partition's goes, and which records are read again or never read.

Positions are those of `oncelog groups reset-offsets`, by the same function; what the plan shows is what is stored. Records are
counted where that is little to read, else their number is a bound: markers and aborted records have offsets, too.
"""

from __future__ import annotations

import time
from typing import Any

import click

from oncelog.cli.command import Name, Settings
from oncelog.cli.commands.groups import is_share_group, planned_reset
from oncelog.cli.commands.topics import partition_bounds
from oncelog.cli.durations import record_time_from_text
from oncelog.cli.numbers import is_number
from oncelog.cli.output import counted
from oncelog.cli.transactions.group_scope import listed
from oncelog.client.admin.admin import Admin
from oncelog.client.admin.record_reading import read_chunk
from oncelog.console.planned import Plan, Wanted
from oncelog.core.consumer.aborted_filter import AbortedFilter
from oncelog.errors import CorruptBatch, InvalidArgument, KafkaError
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition
from oncelog.wire.record_batch import RecordBatch

RESET = "reset-offsets"
TARGETS = ("earliest", "latest", "time", "offset")
COLUMNS = ("partition", "now", "then", "what it means")
COUNTED_BYTES_MAX = 8 << 20
COUNTED_S = 0.7
NAMED_MAX = 3


@dataclass
class Budget:
    """What may still be read to count records, for all partitions of a plan together."""

    ends_s: float
    left_bytes: int = COUNTED_BYTES_MAX

    @property
    def is_used_up(self) -> bool:
        """Whether nothing more is read."""
        return self.left_bytes <= 0 or time.monotonic() > self.ends_s


async def look_at_reset(admin: Admin, settings: Settings, wanted: Wanted, ends_s: float) -> Plan:
    """Raises InvalidArgument for what makes no sense, Failed where the group has members."""
    target, value = _target(wanted)
    which = f"{wanted.topic}:{wanted.partition}" if wanted.partition >= 0 else wanted.topic
    topics = (which,) if wanted.topic else ()
    if await is_share_group(admin, wanted.group):
        raise InvalidArgument(
            f"{wanted.group} is a share group: `oncelog groups reset-offsets` moves it, this page moves readers only"
        )
    try:
        planned, after = await planned_reset(admin, wanted.group, topics, target, value)
    except click.UsageError as error:  # the command line's words for a name that is none
        raise InvalidArgument(error.message) from error
    if target == "to_offset":
        _check_range(after, value)
    bounds = await partition_bounds(admin, list(after))
    pending = await admin.list_pending_offset_commits(wanted.group, list(after))
    budget = Budget(time.monotonic() + COUNTED_S)
    rows, seen, moved = [], [], Moved()
    for row in planned:
        at, before = TopicPartition(row["topic"], row["partition"]), row["from"]
        word = await moved.take(admin, at, before, after[at], bounds[at], budget)
        rows.append((at, "none" if before is None else before, after[at], word))
        seen.append((at, before, at in pending))
    lines = [f"move {counted(len(rows), 'position')} of group {wanted.group}: {moved.text}"]
    if pending:
        text = "is pending in an open transaction: if that commits, its position replaces the one that is stored here"
        lines.append(f"the position of {listed(pending)} {text}")
    place = ("--topic", which) if wanted.topic else ()
    way = (f"--to-{wanted.to}",) if value is True else (f"--to-{wanted.to}", value)
    command = settings.repair("groups", RESET, Name(wanted.group), *place, *way)
    kept = {at: (each["log_start"], each["high_watermark"]) for at, each in bounds.items()}
    return Plan(wanted, tuple(seen), wanted.group, tuple(lines), command, ends_s, COLUMNS, tuple(rows), after, kept)


def _target(wanted: Wanted) -> tuple[str, Any]:
    """As `planned_reset` takes it. Raises InvalidArgument."""
    if not wanted.group or wanted.to not in TARGETS:
        raise InvalidArgument(f"say which group, and to where: to {', '.join(TARGETS[:-1])} or {TARGETS[-1]}")
    if wanted.partition >= 0 and not wanted.topic:
        raise InvalidArgument("say of which topic that partition is")
    given = wanted.at.strip()
    if wanted.to == "offset":
        if not is_number(given):
            raise InvalidArgument(f"{given!r} is no offset: write a whole number from 0 on")
        return "to_offset", int(given)
    if wanted.to == "time":
        try:
            record_time_from_text(given)
        except (ValueError, OverflowError) as error:
            raise InvalidArgument(f"{given!r} is no time: write 2026-01-31T12:00 (UTC)") from error
        return "to_time", given
    return f"to_{wanted.to}", True


def _check_range(after: dict[TopicPartition, int], offset: int) -> None:
    """The command line takes the nearest offset there is; who clicks gets told. Raises InvalidArgument."""
    beyond = [(at, nearest) for at, nearest in after.items() if nearest != offset]
    if not beyond:
        return
    told = [f"{at} {'ends' if nearest < offset else 'begins'} at {nearest}" for at, nearest in beyond[:NAMED_MAX]]
    more = [f"{len(beyond) - NAMED_MAX} more"] if len(beyond) > NAMED_MAX else []
    way = "; choose one partition" if len(after) > 1 else ""
    raise InvalidArgument(f"offset {offset} is out of range: {', '.join([*told, *more])}{way}")


@dataclass
class Moved:
    """What becomes of a group's records, over all partitions that were looked at."""

    again: int = 0
    skipped: int = 0
    is_exact: bool = True

    async def take(
        self, admin: Admin, at: TopicPartition, before: int | None, after: int, bounds: dict[str, int], budget: Budget
    ) -> str:
        """Add one partition; what it means there, in words."""
        if before is None:
            return "it begins here"
        if before == after:
            return "stays where it is"
        first = max(min(before, after), bounds["log_start"])
        end = min(max(before, after), bounds["high_watermark"])
        count = await records_between(admin, at, first, end, budget) if end <= bounds["last_stable_offset"] else None
        self.is_exact = self.is_exact and count is not None
        number = max(0, end - first) if count is None else count
        told = ("up to " if count is None else "") + counted(number, "record")
        if after < before:
            self.again += number
            return f"{told} read again"
        self.skipped += number
        return f"{told} never read"

    @property
    def text(self) -> str:
        """All of it in one line."""
        bound = "" if self.is_exact else "up to "
        kinds = ((self.again, "read again"), (self.skipped, "never read"))
        told = [f"{bound}{counted(number, 'record')} {what}" for number, what in kinds if number]
        return ", ".join(told) or "no record is read again, and none is left out"


async def records_between(admin: Admin, at: TopicPartition, first: int, end: int, budget: Budget) -> int | None:
    """How many records a read_committed reader gets there; None where that is too much to read, or cannot be read."""
    count = 0
    while first < end:
        if budget.is_used_up:
            return None
        try:
            chunk = await read_chunk(admin, at, first, bytes_max=budget.left_bytes, read_committed=True)
            aborted = AbortedFilter(chunk.aborted)
            count += sum(_count(batch, first, end) for batch in chunk.batches if aborted.is_visible(batch))
        except (KafkaError, CorruptBatch):  # the plan is right without the number
            return None
        budget.left_bytes -= chunk.size_bytes
        if chunk.damaged or chunk.next_offset <= first:
            return None
        first = chunk.next_offset
    return count


def _count(batch: RecordBatch, first: int, end: int) -> int:
    if first <= batch.base_offset and batch.end_offset <= end:
        whole: int = batch.record_count
        return whole
    return sum(first <= each.offset < end for each in batch.records())
