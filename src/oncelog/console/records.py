"""The page Records: what lies in a partition, with what a read_committed reader sees of it, markers on request.

One question reads at most `BYTES_MAX` and for `SCAN_MS`: a search is many of them, each with the cursor of the one before, so who
stops asking has cancelled it, and nothing is kept here in between. Values are cut to `SHOWN_BYTES_MAX`, the whole of one
record is asked for by its offset.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from starlette.requests import Request

from oncelog.cli.command import Name, Settings
from oncelog.cli.commands.topics import partition_bounds
from oncelog.cli.dump_log.records import DECODERS, record_row
from oncelog.cli.durations import record_time_from_text
from oncelog.cli.numbers import is_number
from oncelog.client.admin.admin import Admin
from oncelog.client.admin.record_reading import Chunk, read_chunk
from oncelog.console.answers import exact
from oncelog.console.pages import admin_of
from oncelog.console.record_filter import Filter, Mask, filter_of
from oncelog.core.consumer.aborted_filter import AbortedFilter
from oncelog.errors import CorruptBatch, ErrorCode, InvalidArgument, KafkaError, error_for
from oncelog.host.clock import RealClock
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition
from oncelog.wire.record import Record
from oncelog.wire.record_batch import RecordBatch

BYTES_MAX = 32 << 20
CHUNK_BYTES = 2 << 20
SCAN_MS = 700
ROWS_MAX = 200
SHOWN_BYTES_MAX = 2 << 10
WHOLE_BYTES_MAX = 1 << 20
PLAIN, COMMITTED, ABORTED, HELD_BACK, CONTROL = "plain", "committed", "aborted", "held back", "control"
SEEN = (PLAIN, COMMITTED)  # by a read_committed reader


@dataclass(frozen=True, slots=True)
class Asked:
    """`start`: earliest, latest (the last `limit` offsets), an offset, or @TIME; `before`: only below this offset."""

    at: TopicPartition
    start: str
    before: int | None
    limit: int
    shows_hidden: bool
    shows_control: bool
    is_whole: bool


@dataclass
class Found:
    """Rows of one question, and how far it came."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    next_offset: int = 0
    records: int = 0
    size_bytes: int = 0
    damaged: str = ""


def asked_of(query: Mapping[str, str]) -> Asked:
    """From an address's parameters. Raises InvalidArgument."""
    topic, partition = query.get("topic", ""), query.get("partition", "0") or "0"
    before, limit = query.get("before", ""), query.get("limit", "") or "50"
    if not topic or not is_number(partition):
        raise InvalidArgument("say which partition: topic=NAME&partition=NUMBER")
    if not is_number(limit) or not 1 <= int(limit) <= ROWS_MAX or (before and not is_number(before)):
        raise InvalidArgument(f"limit is a number from 1 to {ROWS_MAX}, before an offset")
    flags = (query.get(name) == "1" for name in ("hidden", "control", "whole"))
    start = query.get("from", "") or "latest"
    end = min(int(before), 2**63 - 1) if before else None
    return Asked(TopicPartition(topic, min(int(partition), 2**31 - 1)), start, end, int(limit), *flags)


async def records(request: Request) -> dict[str, Any]:
    """One question: rows, bounds, and where the next one begins (`next_offset`) or ended (`before`)."""
    admin, state = await admin_of(request), request.app.state
    query = request.query_params
    asked, wanted = asked_of(query), filter_of(query, getattr(state, "mask", Mask()))
    if asked.at.partition not in (await admin.describe_topics([asked.at.topic]))[asked.at.topic].partitions:
        text = f"topic {asked.at.topic!r} has no partition {asked.at.partition}"
        raise error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    bounds = (await partition_bounds(admin, [asked.at]))[asked.at]
    end = bounds["high_watermark"] if asked.before is None else min(asked.before, bounds["high_watermark"])
    start = await _start(admin, asked, bounds["log_start"], end)
    found = await scan(admin, asked, wanted, start, end)
    names = await _names(admin, state.watch.names, found.rows)
    for row in found.rows:
        row["transactional_id"] = names.get(row["producer_id"])
        row["producer_id"] = exact(row["producer_id"])
    return {
        "topic": asked.at.topic,
        "partition": asked.at.partition,
        **{key: exact(value) for key, value in bounds.items()},
        "rows": found.rows,
        "start": exact(start),
        "next_offset": exact(found.next_offset),
        "is_end": found.next_offset >= end or bool(found.damaged),
        "records": found.records,
        "bytes": found.size_bytes,
        "damaged": found.damaged or None,
        "is_masked": wanted.mask.is_on,
        "now_ms": RealClock().now_ms(),
        "command": command_parts(state.settings, str(asked.at.topic), asked.at.partition),
    }


def command_parts(settings: Settings, topic: str, partition: int) -> list[str]:
    """What stands before and behind the options of the `oncelog consume` that shows the same."""
    start = settings.repair("consume")
    return [start, settings.repair("consume", Name(f"{topic}:{partition}")).removeprefix(f"{start} ")]


async def _start(admin: Admin, asked: Asked, log_start: int, end: int) -> int:
    text = asked.start
    if text == "earliest":
        return log_start
    if text == "latest":
        return max(log_start, end - asked.limit)
    if is_number(text):
        return min(max(int(text), log_start), max(end, log_start))
    if text.startswith("@"):
        try:
            moment = record_time_from_text(text[1:])
        except (ValueError, OverflowError) as error:
            raise InvalidArgument(f"{text}: {error}") from error
        offset = (await admin.list_offsets({asked.at: moment}))[asked.at].offset
        return offset if offset >= 0 else end
    raise InvalidArgument(f"from={text}: earliest, latest, an offset, or @TIME")


async def scan(admin: Admin, asked: Asked, wanted: Filter, start: int, end: int) -> Found:
    """Read on from `start` until there are enough rows, all is read, or the budget is used up."""
    found, until = Found(next_offset=start), time.monotonic() + SCAN_MS / 1000
    is_stable = True  # below the last stable offset, as far as is known
    while found.next_offset < end and len(found.rows) < asked.limit:
        budget = min(CHUNK_BYTES, BYTES_MAX - found.size_bytes)
        if budget <= 0 or (found.records and time.monotonic() > until):
            break
        chunk = await read_chunk(admin, asked.at, found.next_offset, bytes_max=budget, read_committed=is_stable)
        if is_stable and not chunk.batches and not chunk.damaged and found.next_offset >= chunk.last_stable_offset:
            is_stable = False
            continue
        before = found.next_offset
        take(chunk, asked, wanted, found, end)
        if found.damaged or found.next_offset == before:
            break
    return found


def take(chunk: Chunk, asked: Asked, wanted: Filter, found: Found, end: int) -> None:
    """The rows of one Fetch, in log order, up to the limit."""
    aborted = AbortedFilter(chunk.aborted)
    found.size_bytes += chunk.size_bytes
    for batch in chunk.batches:
        is_visible = aborted.is_visible(batch)  # for each batch once, also for those that are passed over
        word = word_of(batch, chunk.last_stable_offset, is_visible=is_visible)
        for row in _rows(batch, word, asked, wanted, found, end):
            if len(found.rows) == asked.limit:
                found.next_offset = row["at"]
                return
            row["offset"] = exact(row.pop("at"))
            found.rows.append(row)
        found.next_offset = min(batch.end_offset, end)
        if found.next_offset >= end:
            return
    found.damaged = chunk.damaged


def word_of(batch: RecordBatch, last_stable_offset: int, *, is_visible: bool) -> str:
    """What a read_committed reader sees of a batch. Above the last stable offset that is nothing yet, decided or not."""
    if batch.is_control:
        return CONTROL
    if batch.base_offset >= last_stable_offset:
        return HELD_BACK
    return (COMMITTED if is_visible else ABORTED) if batch.is_transactional else PLAIN


def _rows(batch: RecordBatch, word: str, asked: Asked, wanted: Filter, found: Found, end: int) -> list[dict[str, Any]]:
    if word == CONTROL:
        found.records += batch.record_count
        is_wanted = asked.shows_control and not (wanted.contains or wanted.key or wanted.where)
    else:
        is_wanted = word in SEEN or asked.shows_hidden
        found.records += batch.record_count
    if not is_wanted or batch.end_offset <= found.next_offset:
        return []
    try:
        if not wanted.may_be_in(batch.section()):
            return []
        each = [one for one in batch.records() if found.next_offset <= one.offset < end]
    except CorruptBatch as error:
        return [{**_head(batch, batch.base_offset, batch.base_timestamp, word), "not_decoded": str(error)}]
    if word != CONTROL:
        each = [one for one in map(wanted.mask.of, each) if wanted.matches(one)]
    return [_row(batch, one, word, asked) for one in each]


def _head(batch: RecordBatch, offset: int, timestamp_ms: int, word: str) -> dict[str, Any]:
    row: dict[str, Any] = {"at": offset, "timestamp_ms": timestamp_ms, "seen": word}
    row |= {"timestamp_type": "LogAppendTime" if batch.timestamp_type else "CreateTime"}
    return row | {"producer_id": batch.producer_id, "producer_epoch": batch.producer_epoch}


def _row(batch: RecordBatch, record: Record, word: str, asked: Asked) -> dict[str, Any]:
    row = _head(batch, record.offset, record.timestamp, word)
    bytes_max = WHOLE_BYTES_MAX if asked.is_whole else SHOWN_BYTES_MAX
    sizes = {"key_bytes": _size(record.key), "value_bytes": _size(record.value)}
    if batch.is_control or asked.at.topic in DECODERS:
        told = record_row(batch, record, asked.at.topic)
        return row | sizes | {key: each for key, each in told.items() if key not in ("offset", "timestamp_ms", "kind")}
    # Cut before it is written as text, and at no place that makes the text look binary.
    short = Record(
        record.offset,
        record.timestamp,
        _cut(record.key, bytes_max),
        _cut(record.value, bytes_max),
        tuple((name, _cut(value, bytes_max)) for name, value in record.headers[:100]),
    )
    told = record_row(batch, short, asked.at.topic)
    is_cut = any((len(each or b"") > bytes_max) for each in (record.key, record.value)) or len(record.headers) > 100
    return row | sizes | {key: told[key] for key in ("key", "value", "headers")} | {"is_cut": is_cut}


def _size(data: bytes | None) -> int | None:
    return None if data is None else len(data)


def _cut(data: bytes | None, bytes_max: int) -> bytes | None:
    if data is None or len(data) <= bytes_max:
        return data
    end = bytes_max
    while end > bytes_max - 4 and data[end] & 0xC0 == 0x80:  # in the middle of a character
        end -= 1
    return data[:end]


async def _names(admin: Admin, known: Mapping[int, str], rows: list[dict[str, Any]]) -> dict[int, str]:
    wanted = {row["producer_id"] for row in rows if row["producer_id"] >= 0}
    names = {each: known[each] for each in wanted if each in known}
    if wanted - names.keys():
        try:
            listed = await admin.list_transactions(producer_ids=sorted(wanted - names.keys()))
        except KafkaError:
            return names  # without the right to see them they stay numbers
        names |= {each.producer_id: each.transactional_id for each in listed}
    return names
