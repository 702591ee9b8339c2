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
from oncelog.client.admin.session import look_for_a
from oncelog.client.delivery import Delivery
from oncelog.client.producer.producer import Producer
from oncelog.errors import OncelogError, RecordTooLarge, RequestTimedOut, UnknownTopicOrPartition
from oncelog.host.tasks import Tasks
from oncelog.lazy_dataclass import dataclass

UNFINISHED_MAX = 5000
RECORD_BYTES_MAX = 1 << 26  # no broker takes it: what follows is not looked for any more
WAITS_LONG_SECONDS = 1.0
NO_TIMESTAMP_MS = -1
SHOWN_BYTES = 80  # of a line that is refused


class NewRecord(NamedTuple):
    """A record to send."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


@dataclass
class Place:
    """Where the record stands that was read last."""

    file: str = "stdin"
    what: str = "line"
    number: int = 0
    begins: list[tuple[int, str]] = field(default_factory=list)  # how many were read before each file

    def of(self, index: int) -> str:
        """Where the record stands before which so many were read."""
        before, file = next(((b, name) for b, name in reversed(self.begins) if b <= index), (0, self.file))
        return f"{file}, {self.what} {index - before + 1}"

    def __str__(self) -> str:
        return f"{self.file}, {self.what} {self.number}"


@dataclass
class Report:
    """What was sent."""

    topic: str
    place: Place = field(default_factory=Place)
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


@command(name="produce", shows=False)
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
        tasks = Tasks()
        tasks.start(_say_why_it_waits(settings, report), name="oncelog-waiting")
        try:
            await _send_all(producer, _records(sources, delimiter, read, report.place), batching, report)
        except Failed as error:  # of what was read
            raise Failed(f"{error}; {_before(batching, report)}", error.hint) from error
        except OncelogError:
            settings.out.note(_before(batching, report) if batching.is_transactional else await _stored(report))
            raise
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
    if not report.record_count:  # no record has asked for the topic
        async with open_admin(settings) as admin:
            look_for_a(admin, "producer")
            try:
                await admin.describe_topics([topic])
            except UnknownTopicOrPartition:  # no failure: a broker may make topics when they are first written to
                settings.out.note(f"there is no topic {topic}")
    row = {"topic": topic, "records": report.record_count, "transactions": report.transaction_count}
    row["result"] = report.result
    if settings.out.is_machine:
        settings.out.item(columns(*row), row)
    else:
        settings.out.note(_ended(report) if transactional_id else f"{counted(report.record_count, 'record')} sent")


def _ended(report: Report) -> str:
    count = counted(report.ended_record_count, "record")
    return f"{count} {report.result} in {counted(report.transaction_count, 'transaction')}"


def _before(batching: Batching, report: Report) -> str:
    """What was written before what failed, a line or a transaction: whoever runs it again must know."""
    if not batching.is_transactional:
        count = report.record_count
        return (
            f"{counted(count, 'record')} before it {'was' if count == 1 else 'were'} sent"
            if count
            else "nothing was sent"
        )
    if report.transaction_count:
        ended = f"before it {_ended(report)}"
    else:
        ended = "nothing was committed before it" if report.unknown else "nothing was committed"
    return ended if report.unknown else f"its transaction is aborted, {ended}"


async def _stored(report: Report) -> str:
    """What became of the records outside of transactions, where some failed: whoever goes on must know from where."""
    before = report.record_count - len(report.unfinished)
    lost = [index for index, each in enumerate(report.unfinished) if not await _is_stored(each)]
    if not lost:
        return f"stored: {counted(report.record_count, 'record')}; the next is {report.place.of(report.record_count)}"
    behind = len(report.unfinished) - lost[0] - len(lost)
    stored = f"stored: {report.record_count - len(lost)} of {counted(report.record_count, 'record')}"
    first = f"{stored}; the first that is not, or not for certain: "
    return first + report.place.of(before + lost[0]) + (f"; {behind} behind it are" if behind else "")


async def _is_stored(delivery: Delivery) -> bool:
    try:
        await delivery
    except OncelogError:
        return False
    return True


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
                unfinished.append(await _sent(producer, record, report))
                report.record_count += 1
                if len(unfinished) >= UNFINISHED_MAX:
                    await _finish(unfinished)
                if batching.size is not None and number % batching.size == 0 and begun_count:
                    await _end(producer, unfinished, batching, report)
            if begun_count > report.transaction_count:
                await _end(producer, unfinished, batching, report)
            await _finish(unfinished)
        except BaseException as error:
            if begun_count > report.transaction_count and not report.unknown:
                await _abort(producer, report)
            elif isinstance(error, Failed):  # of what was read: what is said to be sent is stored
                await _finish(unfinished)
            raise


async def _sent(producer: Producer, record: NewRecord, report: Report) -> Delivery:
    try:
        return await producer.send(
            report.topic, record.value, record.key, record.headers, record.partition, record.timestamp_ms
        )
    except RecordTooLarge as error:  # among a million lines: which
        raise Failed(f"{report.place}: {error}") from error


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


async def _records(
    files: tuple[IO[bytes], ...], delimiter: bytes, read: Callable[[bytes], NewRecord], place: Place
) -> AsyncIterator[NewRecord]:
    """All records of all files; `place` is that of the last one. Raises Failed with the place of what is none."""
    place.what = "line" if delimiter == b"\n" else "record"
    read_count = 0
    for file in files:
        place.file, place.number = _name(file), 1  # of what is read now
        place.begins.append((read_count, place.file))
        try:
            async for line in _lines(file, delimiter):
                yield read(line)
                place.number += 1
                read_count += 1
        except Failed as error:
            raise Failed(f"{place}: {error}", error.hint) from error
        except OSError as error:
            raise Failed(f"{place}: cannot be read: {error.strerror or error}") from error


def _name(file: IO[bytes]) -> str:
    name = getattr(file, "name", None)
    return name if isinstance(name, str) and name != "<stdin>" else "stdin"


async def _lines(file: IO[bytes], delimiter: bytes) -> AsyncIterator[bytes]:
    """Lines without their ends."""
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
    where it was, and are left out. Raises Failed with what is expected."""
    try:
        row = _object(line)
        kind = row.pop("kind", "record")
        if kind != "record":
            raise _Unexpected(f"of dump-log's lines only records can be sent, and this is of kind {_shortened(kind)}")
        row.pop("file", None)
        if unknown := [key for key in row if key not in RECORD_KEYS]:
            raise _Unexpected(f"{unknown[0]!r} is none of {', '.join(RECORD_KEYS)}")
        return NewRecord(
            _bytes("value", row.get("value")),
            _bytes("key", row.get("key")),
            _headers_from_json(row.get("headers")),
            timestamp_ms=_timestamp_from_json(row.get("timestamp_ms")),
        )
    except _Unexpected as error:
        text = line[:SHOWN_BYTES].decode(errors="backslashreplace") + "..." * (len(line) > SHOWN_BYTES)
        raise Failed(f"no record in JSON: {error}: {text}".removesuffix(": ")) from error


class _Unexpected(ValueError):
    """What is wrong with a line, and what is expected."""


def _object(line: bytes) -> dict[str, Any]:
    expected = f"an object with {', '.join(RECORD_KEYS)} is expected"
    if not line.strip():
        raise _Unexpected(f"the line is empty; {expected}")
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise _Unexpected(f"it is not UTF-8 (byte {error.start + 1}); {expected}") from error
    except json.JSONDecodeError as error:
        raise _Unexpected(f"it is not JSON ({error.msg}, at character {error.pos + 1}); {expected}") from error
    except RecursionError as error:
        raise _Unexpected(f"it is nested too deeply; {expected}") from error
    except ValueError as error:  # a number of more than 4300 digits
        raise _Unexpected(f"it has a number that is too long; {expected}") from error
    if not isinstance(row, dict):
        raise _Unexpected(expected)
    return row


def _headers_from_json(given: Any) -> tuple[tuple[str, bytes | None], ...]:
    pairs = list(given.items()) if isinstance(given, dict) else [] if given is None else given
    if not isinstance(pairs, list) or not all(
        isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs
    ):
        raise _Unexpected("headers: [[name, value], ...] or an object is expected")
    for name, _ in pairs:
        _utf8("a header's name", name)
    return tuple((name, _bytes(f"header {name!r}", value)) for name, value in pairs)


def _timestamp_from_json(given: Any) -> int | None:
    """-1 is what `consume` writes of a record that has none, and is sent as that."""
    if given is not None and (type(given) is not int or not NO_TIMESTAMP_MS <= given <= INT64_MAX):
        expected = "milliseconds since 1970 are expected (null or nothing: now; -1: the record has none)"
        raise _Unexpected(f"timestamp_ms is {_shortened(given)}; {expected}")
    return given


def _shortened(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= SHOWN_BYTES else f"{text[:SHOWN_BYTES]}..."


def _bytes(what: str, value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, dict):
        encoded = value.get("base64")
        if len(value) != 1 or not isinstance(encoded, str):
            raise _Unexpected(f'{what}: text, null or {{"base64": "..."}} is expected (an object as text, in quotes)')
        try:
            return base64.b64decode(encoded, validate=True)
        except ValueError as error:
            raise _Unexpected(f"{what}: what stands in base64 is not base64") from error
    return _utf8(what, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _utf8(what: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise _Unexpected(f"{what}: half a surrogate pair is not text; other bytes are written in base64") from error
