"""`oncelog produce`: lines of stdin or files as records, outside or inside transactions."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import field
from typing import IO, Any, NamedTuple

import click

from oncelog.cli.byte_chunks import byte_chunks
from oncelog.cli.clients import open_admin, open_producer
from oncelog.cli.command import Name, Settings, command
from oncelog.cli.durations import duration_text
from oncelog.cli.numbers import INT64_MAX, WholeNumberRange
from oncelog.cli.output import Failed, columns, counted
from oncelog.cli.record_format import unescaped
from oncelog.cli.transactions.visibility import wait_until_visible
from oncelog.cli.unreadable import name_offline
from oncelog.client.delivery import Delivery
from oncelog.client.producer.producer import Producer
from oncelog.errors import OncelogError, RequestTimedOut
from oncelog.host.tasks import Tasks
from oncelog.lazy_dataclass import dataclass

UNFINISHED_MAX = 5000
RECORD_BYTES_MAX = 1 << 26  # no broker takes it: what follows is not looked for any more
WAITS_LONG_SECONDS = 1.0


class NewRecord(NamedTuple):
    """A record to send."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


@dataclass
class Report:
    """What was sent."""

    topic: str
    record_count: int = 0
    transaction_count: int = 0  # that have ended
    ended_record_count: int = 0  # in them
    result: str = "sent"
    unfinished: list[Delivery] = field(default_factory=list)
    unknown: str = ""  # what became of a transaction, where nobody said it


@dataclass(frozen=True)
class Batching:
    """How records are grouped: `size` per transaction (None: all in one); `aborts`: every transaction is aborted."""

    is_transactional: bool
    size: int | None
    aborts: bool


@command(name="produce")
@click.argument("topic")
@click.argument("files", nargs=-1, type=click.File("rb"))
@click.option("-K", "--key-separator", metavar="TEXT", help="What stands between key and value on a line.")
@click.option("-D", "--delimiter", default="\n", metavar="TEXT", help="What ends a record [default: a line break].")
@click.option("-Z", "--empty-is-null", is_flag=True, help="An empty key or value is null (a value: a tombstone).")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header of every record.")
@click.option("-p", "--partition", type=WholeNumberRange(0), help="To this partition [default: by key].")
@click.option("--json", "is_json", is_flag=True, help="Lines are JSON objects, as `consume -o jsonl` writes them.")
@click.option("--compression", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]), default="none")
@click.option("--transactional-id", metavar="ID", help="Send in transactions.")
@click.option("--transaction-size", type=WholeNumberRange(1), help="Records per transaction [default: all in one].")
@click.option("--abort", "aborts", is_flag=True, help="Abort every transaction instead of committing it.")
@click.pass_obj
async def produce(settings: Settings, /, topic: str, files: tuple[IO[bytes], ...], **given: Any) -> None:
    """Send each line of stdin, or of FILES, as a record.

    With --transactional-id in transactions: what fails or is interrupted leaves nothing of its transaction behind.
    """
    transactional_id = given["transactional_id"]
    if transactional_id is None and (given["transaction_size"] or given["aborts"]):
        raise click.UsageError("--transaction-size and --abort need --transactional-id")
    read, delimiter = _reader(given), _separator("-D", given["delimiter"])
    more: dict[str, Any] = {"compression_type": given["compression"]}
    if transactional_id is not None:
        more["transactional_id"] = transactional_id
    batching = Batching(transactional_id is not None, given["transaction_size"], given["aborts"])
    report = Report(topic, result="aborted" if batching.aborts else "committed" if transactional_id else "sent")
    sources = files or (stdin_bytes(),)
    async with open_producer(settings, **more) as producer:
        lines = _lines(sources, delimiter)
        tasks = Tasks()
        tasks.start(_say_why_it_waits(settings, report), name="oncelog-waiting")
        try:
            await _send_all(producer, (read(line) async for line in lines), batching, report)
        except asyncio.CancelledError:
            if report.transaction_count:  # whoever runs it again must know
                settings.out.note(f"interrupted; before that {_ended(report)}")
            raise
        finally:
            if report.unknown:
                describe = settings.repair("transactions", "describe", Name(transactional_id))
                settings.out.note(f"{report.unknown}: `{describe}` tells")
            await tasks.close()
    if report.transaction_count:
        async with open_admin(settings) as admin:
            await wait_until_visible(admin, transactional_id)
    row = {"topic": topic, "records": report.record_count, "transactions": report.transaction_count}
    row["result"] = report.result
    if settings.out.is_machine:
        settings.out.item(columns(*row), row)
    else:
        settings.out.note(_ended(report) if transactional_id else f"{counted(report.record_count, 'record')} sent")


def _ended(report: Report) -> str:
    count = counted(report.ended_record_count, "record")
    return f"{count} {report.result} in {counted(report.transaction_count, 'transaction')}"


async def _say_why_it_waits(settings: Settings, report: Report) -> None:
    """A partition that takes nothing is named while its records are still tried, not only when their time is over."""
    stuck: Delivery | None = None
    while True:
        await asyncio.sleep(WAITS_LONG_SECONDS)
        oldest = next((each for each in report.unfinished if not each.done()), None)
        if oldest is not None and oldest is stuck:
            break
        stuck = oldest
    with contextlib.suppress(OncelogError):  # whoever sends will say it
        async with open_admin(settings) as admin:
            name_offline(settings, (await admin.describe_topics([report.topic])).values())
    settings.out.note(f"waiting for {report.topic}, for at most {duration_text(settings.timeout_ms)} (--timeout)")


async def _send_all(producer: Producer, records: AsyncIterator[NewRecord], batching: Batching, report: Report) -> None:
    begun_count = 0
    unfinished = report.unfinished
    async with contextlib.aclosing(_numbered(records)) as numbered:
        try:
            async for number, record in numbered:
                if batching.is_transactional and begun_count == report.transaction_count:
                    producer.begin_transaction()
                    begun_count += 1
                unfinished.append(
                    await producer.send(
                        report.topic, record.value, record.key, record.headers, record.partition, record.timestamp_ms
                    )
                )
                report.record_count += 1
                if len(unfinished) >= UNFINISHED_MAX:
                    await _finish(unfinished)
                if batching.size is not None and number % batching.size == 0 and begun_count:
                    await _end(producer, unfinished, batching, report)
            if begun_count > report.transaction_count:
                await _end(producer, unfinished, batching, report)
            await _finish(unfinished)
        except BaseException:
            if begun_count > report.transaction_count and not report.unknown:
                await _abort(producer, report)
            raise


async def _abort(producer: Producer, report: Report) -> None:
    """Leave nothing behind. What failed before is what is to be told, not that this fails as well."""
    try:
        await asyncio.shield(producer.abort_transaction())
    except OncelogError as error:
        report.unknown = f"the transaction could not be aborted ({error}); its timeout aborts it"


async def _numbered(records: AsyncIterator[NewRecord]) -> AsyncGenerator[tuple[int, NewRecord]]:
    number = 0
    async for record in records:
        number += 1
        yield number, record


async def _finish(unfinished: list[Delivery]) -> None:
    for delivery in unfinished:
        await delivery
    unfinished.clear()


async def _end(producer: Producer, unfinished: list[Delivery], batching: Batching, report: Report) -> None:
    """End the transaction. An interrupt waits for an end that was begun: it cannot be taken back, so it is told."""
    await _finish(unfinished)
    ending = Tasks().start(producer.abort_transaction() if batching.aborts else producer.commit_transaction())
    try:
        await asyncio.shield(ending)
    finally:
        try:
            await ending
        except RequestTimedOut:
            count = counted(report.record_count - report.ended_record_count, "record")
            report.unknown = f"it is not known whether the transaction of {count} was {report.result}"
            raise
        report.transaction_count += 1
        report.ended_record_count = report.record_count


def stdin_bytes() -> IO[bytes]:
    """Raises click.UsageError where there is none: `<&-`."""
    if sys.stdin is None:
        raise click.UsageError("stdin is closed: name files, or give it something to read")
    return sys.stdin.buffer


async def _lines(files: tuple[IO[bytes], ...], delimiter: bytes) -> AsyncIterator[bytes]:
    """Lines without their ends."""
    for file in files:
        rest = b""
        async for chunk in byte_chunks(file):
            *whole, rest = (rest + chunk).split(delimiter)
            for line in whole:
                yield line
            if len(rest) > RECORD_BYTES_MAX:
                raise Failed(f"a record of more than {RECORD_BYTES_MAX} bytes", "-D says what ends a record")
        if rest:
            yield rest


def _reader(given: dict[str, Any]) -> Callable[[bytes], NewRecord]:
    headers = tuple((name, value.encode()) for name, value in (_header(text) for text in given["headers"]))
    separator = _separator("-K", given["key_separator"]) if given["key_separator"] is not None else None
    partition, null_where_empty = given["partition"], given["empty_is_null"]

    def plain(line: bytes) -> NewRecord:
        key: bytes | None = None
        value: bytes | None = line
        if separator is not None:
            head, found, tail = line.partition(separator)
            if found:
                key, value = head, tail
        if null_where_empty:
            key, value = key or None, value or None
        return NewRecord(value, key, headers, partition)

    def as_json(line: bytes) -> NewRecord:
        record = record_from_json(line)
        return record._replace(
            headers=record.headers + headers, partition=record.partition if partition is None else partition
        )

    return as_json if given["is_json"] else plain


def _separator(option: str, text: str) -> bytes:
    try:
        found = unescaped(text)
    except UnicodeEncodeError:
        found = b""
    if not found:
        raise click.UsageError(f"{option} {text!r}: expected one character or more")
    return found


def _header(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"-H {text!r}: a header is written as NAME=VALUE")
    return name, value


RECORD_KEYS = ("topic", "partition", "offset", "timestamp_ms", "timestamp_type", "key", "value", "headers")


def record_from_json(line: bytes) -> NewRecord:
    """A record of `consume -o jsonl` or `dump-log --records -o jsonl`; its topic, partition and offset, or its file, are those of
    where it was, and are left out."""
    try:
        row = json.loads(line)
        if not isinstance(row, dict):
            raise ValueError(f"an object with {', '.join(RECORD_KEYS)} is expected")
        kind = row.pop("kind", "record")
        if kind != "record":
            raise ValueError(f"of dump-log's lines only records can be sent, and this is of kind {kind}")
        row.pop("file", None)
        if unknown := [key for key in row if key not in RECORD_KEYS]:
            raise ValueError(f"{unknown[0]!r} is none of {', '.join(RECORD_KEYS)}")
        pairs = row.get("headers") or ()
        pairs = list(pairs.items()) if isinstance(pairs, dict) else pairs
        if not all(isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
            raise ValueError("headers are [[name, value], ...] or an object")
        headers = tuple((name, _bytes(value)) for name, value in pairs)
        timestamp_ms = row.get("timestamp_ms")
        if timestamp_ms is not None and (type(timestamp_ms) is not int or abs(timestamp_ms) > INT64_MAX):
            raise ValueError(f"timestamp_ms is {timestamp_ms}")
        return NewRecord(
            _bytes(row.get("value")),
            _bytes(row.get("key")),
            headers,
            timestamp_ms=None if timestamp_ms is None or timestamp_ms < 0 else int(timestamp_ms),
        )
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise Failed(f"a line is no record in JSON: {error}: {line[:80]!r}") from error


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, dict):
        return base64.b64decode(value["base64"], validate=True)
    return value.encode() if isinstance(value, str) else json.dumps(value, ensure_ascii=False).encode()
