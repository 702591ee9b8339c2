"""`oncelog produce`: what becomes of lines, in and outside transactions."""

from __future__ import annotations

import asyncio
import errno
import json
import pathlib
from collections.abc import AsyncIterator
from typing import Any

import click
import pytest

from oncelog.cli.clients import CONNECT_TIMEOUT_MS
from oncelog.cli.commands.produce import (
    Batching,
    NewRecord,
    Place,
    Report,
    _send_all,
    _stored,
    record_from_json,
    stdin_bytes,
)
from oncelog.cli.output import Failed
from oncelog.client.producer.producer import Producer
from oncelog.errors import KafkaStorage, RequestTimedOut
from oncelog.testing import FaultyProxy
from tests.cli.world import Cli


def consumed(cli: Cli, topic: str, *more: object) -> list[dict[str, Any]]:
    found = cli.json("consume", topic, "-e", *more)
    assert isinstance(found, list)
    return found


def test_lines_become_values(cli: Cli) -> None:
    cli.create("produce-lines")
    result = cli("produce", "produce-lines", stdin="one\n\nlast without an end")
    assert (result.stdout, result.stderr) == ("", "3 records sent\n")
    assert [row["value"] for row in consumed(cli, "produce-lines")] == ["one", "", "last without an end"]


def test_keys_headers_and_nulls(cli: Cli) -> None:
    cli.create("produce-keys")
    cli("produce", "produce-keys", "-K", "::", "-Z", "-H", "a=1", "-H", "a=2", stdin="k::v::w\nk::\nplain\n")
    rows = consumed(cli, "produce-keys")
    assert [(row["key"], row["value"]) for row in rows] == [("k", "v::w"), ("k", None), (None, "plain")]
    assert rows[0]["headers"] == [["a", "1"], ["a", "2"]]


def test_files_another_delimiter_and_compression(cli: Cli, tmp_path: pathlib.Path) -> None:
    cli.create("produce-files")
    first, second = tmp_path / "1", tmp_path / "2"
    first.write_bytes(b"a\0b\nc\0")
    second.write_bytes(b"\xff\0")
    cli("produce", "produce-files", first, second, "-D", r"\0", "--compression", "zstd")
    assert [row["value"] for row in consumed(cli, "produce-files")] == ["a", "b\nc", {"base64": "/w=="}]


def test_transactions_of_a_size(cli: Cli) -> None:
    cli.create("produce-transactions")
    command = ["produce", "produce-transactions", "--transactional-id", "produce-t", "--transaction-size", 2]
    report = cli.json(*command, stdin="1\n2\n3\n4\n5\n")
    assert report == {"topic": "produce-transactions", "records": 5, "transactions": 3, "result": "committed"}
    assert [row["value"] for row in consumed(cli, "produce-transactions")] == ["1", "2", "3", "4", "5"]
    assert [row["offset"] for row in consumed(cli, "produce-transactions")] == [0, 1, 3, 4, 6], "markers in between"


def test_aborted_transactions_are_seen_by_nobody_who_reads_committed(cli: Cli) -> None:
    cli.create("produce-aborted")
    result = cli("produce", "produce-aborted", "--transactional-id", "produce-a", "--abort", stdin="1\n2\n")
    assert result.stderr == "2 records aborted in 1 transaction\n"
    assert consumed(cli, "produce-aborted") == []
    assert len(consumed(cli, "produce-aborted", "--isolation", "read_uncommitted")) == 2


def test_a_failure_aborts_the_transaction(cli: Cli) -> None:
    cli.create("produce-failing")
    command = ["produce", "produce-failing", "--json", "--transactional-id", "produce-f"]
    assert (
        "stdin, line 2: no record in JSON: " in cli(*command, stdin='{"value": "good"}\n{"value": \n', status=1).stderr
    )
    assert consumed(cli, "produce-failing") == []
    states = {row["transactional_id"]: row["state"] for row in cli.json("transactions", "list")}
    assert states["produce-f"] == "CompleteAbort"


def test_a_failure_outside_of_transactions_says_what_is_stored_and_where_to_go_on(
    cli: Cli, tmp_path: pathlib.Path
) -> None:
    """It said how many records were not delivered, of how many nobody knew."""
    cli("topics", "create", "produce-part", "-c", "max.message.bytes=1000")
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("a\nb\n")
    second.write_text("c\n" + "x" * 5000 + "\n")
    note, error = cli("produce", "produce-part", first, second, status=1).stderr.splitlines()
    assert note == f"stored: 3 of 4 records; the first that is not, or not for certain: {second}, line 2"
    assert error.startswith("error: MESSAGE_TOO_LARGE: ")
    assert [row["value"] for row in consumed(cli, "produce-part")] == ["a", "b", "c"]


def test_what_came_behind_the_first_that_failed_is_told_too() -> None:
    def delivery(error: Exception | None) -> asyncio.Future[None]:
        made: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        made.set_result(None) if error is None else made.set_exception(error)
        return made

    async def told(record_count: int, *errors: Exception | None) -> str:
        place = Place(begins=[(0, "one"), (5, "two")])
        report = Report("t", place=place, record_count=record_count, unfinished=[delivery(each) for each in errors])  # type: ignore[misc]
        return await _stored(report)

    full = KafkaStorage("no room")
    behind = "stored: 7 of 10 records; the first that is not, or not for certain: one, line 5; 3 behind it are"
    assert asyncio.run(told(10, None, full, None, None, full, full, None)) == behind
    assert asyncio.run(told(6)) == "stored: 6 records; the next is two, line 2"


def test_what_consume_writes_can_be_produced_again(cli: Cli) -> None:
    cli.create("produce-from")
    cli.create("produce-to")
    cli("produce", "produce-from", "-K", "=", "-H", "h=x", stdin=b"a=1\nb=\xff\xfe\n")
    lines = cli("consume", "produce-from", "-e", "-o", "jsonl").stdout
    cli("produce", "produce-to", "--json", stdin=lines)
    kept = ("key", "value", "headers", "timestamp_ms")
    before, after = consumed(cli, "produce-from"), consumed(cli, "produce-to")
    assert [[row[key] for key in kept] for row in after] == [[row[key] for key in kept] for row in before]


def test_records_in_json() -> None:
    line = json.dumps({"key": None, "value": {"base64": "/w=="}, "headers": [["h", None]], "timestamp_ms": -1}).encode()
    assert record_from_json(line) == NewRecord(b"\xff", None, (("h", None),), timestamp_ms=-1)
    assert record_from_json(b'{"value": 5}').value == b"5"
    for broken in (
        b"[]",
        b"nonsense",
        b'{"value": {"text": 1}}',
        b'{"value": {"base64": "!"}}',
        b'{"headers": [1]}',
        b"[" * 100_000,
    ):
        with pytest.raises(Failed, match="no record"):
            record_from_json(broken)
    with pytest.raises(Failed, match=r"an object with topic, .* is expected"):
        record_from_json(b"[1]")
    with pytest.raises(Failed, match=r"'Value' is none of topic, partition, .*headers"):
        record_from_json(b'{"Value": "it was a record without key and value"}')


@pytest.mark.parametrize("more", [("--abort",), ("--transaction-size", 3), ("-H", "nonsense")], ids=str)
def test_wrong_usage(cli: Cli, more: tuple[object, ...]) -> None:
    cli("produce", "produce-wrong", *more, stdin="x\n", status=2)


def test_a_coordinator_that_takes_its_time_is_waited_for(cli: Cli) -> None:
    """Not "no broker answers": that is said of one that cannot be reached within five seconds."""
    cli.create("produce-late")
    with FaultyProxy(cli.bootstrap_servers) as proxy:
        proxy.delay("InitProducerId", seconds=CONNECT_TIMEOUT_MS / 1000 + 0.5)
        arguments = ("produce", "produce-late", "--transactional-id", "produce-late", "--timeout", "5m")
        assert "1 record committed in 1 transaction" in Cli(proxy.bootstrap_servers)(*arguments, stdin="x\n").stderr


def test_separators_are_utf8_and_may_be_escaped(cli: Cli) -> None:
    """`§` was sent as two other characters, and `-K '\\t'` looked for a backslash: records were wrong without a word."""
    cli.create("produce-separators")
    cli("produce", "produce-separators", "-D", "§", "-K", "\\t", stdin="k\tü§l\tw".encode())
    found = cli.json("consume", "produce-separators", "-e")
    assert [(row["key"], row["value"]) for row in found] == [("k", "ü"), ("l", "w")]
    cli("produce", "produce-separators", "-D", "", stdin="x", status=2)


def test_headers_of_json_may_be_an_object_and_are_never_guessed(cli: Cli) -> None:
    cli.create("produce-headers")
    cli("produce", "produce-headers", "--json", stdin='{"value": "v", "headers": {"ab": "1"}}\n')
    assert cli.json("consume", "produce-headers", "-e")[0]["headers"] == [["ab", "1"]]
    for wrong in (
        '{"headers": ["ab"]}',
        '{"headers": [["a", "b", "c"]]}',
        '{"headers": [[1, "b"]]}',
        '{"timestamp_ms": 1.5}',
    ):
        cli("produce", "produce-headers", "--json", stdin=wrong, status=1)


class HeldProducer:
    """Of a broker that takes its time to end a transaction: `ends` lets it."""

    def __init__(self) -> None:
        self.ends = asyncio.Event()
        self.ending = asyncio.Event()
        self.calls: list[str] = []

    def begin_transaction(self) -> None:
        self.calls.append("begin")

    async def send(self, *_: object) -> asyncio.Future[None]:
        sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        sent.set_result(None)
        return sent

    async def commit_transaction(self) -> None:
        self.ending.set()
        await self.ends.wait()
        self.calls.append("committed")

    async def abort_transaction(self) -> None:
        self.calls.append("aborted")


def test_a_commit_without_an_answer_is_called_unknown_and_not_aborted() -> None:
    """Aborting was refused, and that was said instead: whoever read it could not know that the records may be there."""

    class Unanswered(HeldProducer):
        async def commit_transaction(self) -> None:
            raise RequestTimedOut("commit_transaction not done")

    async def records() -> AsyncIterator[NewRecord]:
        for value in (b"a", b"b", b"c"):
            yield NewRecord(value, None, (), None)

    async def work() -> None:
        producer, report = Unanswered(), Report("t", result="committed")
        with pytest.raises(RequestTimedOut, match="commit_transaction not done"):
            await _send_all(producer, records(), Batching(True, 2, False), report)  # type: ignore[arg-type]
        assert producer.calls == ["begin"]
        assert report.unknown == "it is not known whether the transaction of 2 records was committed"

    asyncio.run(work())


def test_what_failed_is_told_also_where_nothing_can_be_aborted() -> None:
    class Unanswered(HeldProducer):
        async def abort_transaction(self) -> None:
            raise RequestTimedOut("no answer")

    async def records() -> AsyncIterator[NewRecord]:
        yield NewRecord(b"a", None, (), None)
        raise Failed("a line is no record")

    async def work() -> None:
        report = Report("t", result="committed")
        with pytest.raises(Failed, match="a line is no record"):
            await _send_all(Unanswered(), records(), Batching(True, None, False), report)  # type: ignore[arg-type]
        assert report.unknown == (
            "the transaction could not be aborted (REQUEST_TIMED_OUT: no answer); its timeout aborts it"
        )

    asyncio.run(work())


def test_what_is_not_known_is_said_with_the_way_to_know_it(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unanswered(_: Producer) -> None:
        raise RequestTimedOut("commit_transaction not done")

    monkeypatch.setattr(Producer, "commit_transaction", unanswered)
    cli.create("produce-unknown")
    result = cli("produce", "produce-unknown", "--transactional-id", "produce-u", "-o", "json", stdin="x\n", status=1)
    before, note, error = result.stderr.splitlines()
    assert before == "nothing was committed before it"
    repair = f"oncelog -b {cli.bootstrap_servers} transactions describe produce-u"
    assert note == f"it is not known whether the transaction of 1 record was committed: `{repair}` tells"
    assert error.startswith("error: REQUEST_TIMED_OUT: commit_transaction not done")
    assert json.loads(result.stdout)["error"] == "REQUEST_TIMED_OUT"


def test_an_interrupt_waits_for_a_commit_that_was_begun_and_says_what_was_committed() -> None:
    """It cannot be taken back: to say that nothing is left of it would make whoever runs it again write twice."""

    async def records() -> AsyncIterator[NewRecord]:
        for value in (b"a", b"b", b"c"):
            yield NewRecord(value, None, (), None)

    async def work() -> None:
        producer, report = HeldProducer(), Report("t", result="committed")
        sending = asyncio.ensure_future(
            _send_all(producer, records(), Batching(True, 2, False), report)  # type: ignore[arg-type]
        )
        await producer.ending.wait()
        sending.cancel()
        await asyncio.sleep(0)
        assert not sending.done()
        producer.ends.set()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert producer.calls == ["begin", "committed"]
        assert (report.transaction_count, report.ended_record_count) == (1, 2)

    asyncio.run(work())


def test_a_closed_stdin_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """`<&-` leaves no stdin at all: it was a traceback."""
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(click.UsageError, match="stdin is closed"):
        stdin_bytes()


EXPECTED = "an object with topic, .* is expected"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"", f"the line is empty; {EXPECTED}$"),
        (b" \r", f"the line is empty; {EXPECTED}"),
        (b"\xff\xfe{}", rf"it is not UTF-8 \(byte 1\); {EXPECTED}"),
        (b'{"value":', rf"it is not JSON \(Expecting value, at character 10\); {EXPECTED}"),
        (b'{"value": {"x": "y"}}', r'value: text, null or \{"base64": "..."\} is expected'),
        (b'{"value": {"base64": "AA==", "x": 1}}', r'value: text, null or \{"base64": "..."\} is expected'),
        (b'{"key": {"base64": 5}}', r'key: text, null or \{"base64": "..."\} is expected'),
        (b'{"value": {"base64": "!!"}}', "value: what stands in base64 is not base64"),
        (b'{"value": "\\ud800"}', "value: half a surrogate pair is not text"),
        (b'{"headers": 5}', r"headers: \[\[name, value\], ...\] or an object is expected"),
        (b'{"headers": "ab"}', r"headers: \[\[name, value\], ...\] or an object is expected"),
        (b'{"headers": [["h", {"x": 1}]]}', "header 'h': text, null or"),
        (b'{"headers": [["\\ud800", "v"]]}', "a header's name: half a surrogate pair"),
        (b'{"timestamp_ms": -5}', "timestamp_ms is -5; milliseconds since 1970 are expected"),
        (b'{"timestamp_ms": true}', "timestamp_ms is true; milliseconds since 1970 are expected"),
        (b'{"timestamp_ms": 1e400}', "timestamp_ms is Infinity; milliseconds since 1970 are expected"),
    ],
    ids=repr,
)
def test_what_is_no_record_is_told_with_what_is_expected(line: bytes, says: str) -> None:
    """`'base64'`, `'int' object is not iterable`, `'utf-16-le' codec can't decode`: and -5 was stored as now."""
    with pytest.raises(Failed, match=f"^no record in JSON: {says}"):
        record_from_json(line)


def test_a_wrong_line_is_named_with_what_was_sent_before_it(cli: Cli, tmp_path: pathlib.Path) -> None:
    cli.create("produce-places")
    first, second = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    first.write_text('{"value": "a"}\n')
    second.write_text('{"value": "b"}\n\n{"value": "c"}\n')
    told = cli("produce", "produce-places", "--json", first, second, status=1).stderr
    assert told.startswith(f"error: {second}, line 2: no record in JSON: the line is empty; ")
    assert told.endswith("; 2 records before it were sent\n")
    assert [row["value"] for row in consumed(cli, "produce-places")] == ["a", "b"]
    told = cli("produce", "produce-places", "--json", stdin="5\n", status=1).stderr
    assert told.startswith("error: stdin, line 1: no record in JSON: an object with ")
    assert told.endswith(" is expected: 5; nothing was sent\n")
    told = cli("produce", "produce-places", "--json", stdin=b'{"kind": null, "\x1b\xff": 1}\n', status=1).stderr
    assert told.endswith(r' is expected: {"kind": null, "\x1b\xff": 1}; nothing was sent' + "\n")
    told = cli("produce", "produce-places", "--json", stdin='{"kind": null}\n', status=1).stderr
    assert told.endswith(' and this is of kind null: {"kind": null}; nothing was sent\n')
    told = cli("produce", "produce-places", "--json", "-D", ";", stdin='{"value": "d"};[]', status=1).stderr
    assert told.startswith("error: stdin, record 2: ")
    assert told.endswith("; 1 record before it was sent\n")


def test_a_wrong_line_in_a_transaction_is_named_with_what_was_committed_before(cli: Cli) -> None:
    cli.create("produce-places-t")
    command = ["produce", "produce-places-t", "--json", "--transactional-id", "produce-p", "--transaction-size", 2]
    lines = '{"value": "a"}\n{"value": "b"}\n{"value": "c"}\nx\n'
    told = cli(*command, stdin=lines, status=1).stderr
    assert told.startswith("error: stdin, line 4: no record in JSON: it is not JSON ")
    assert told.endswith("; its transaction is aborted, before it 2 records committed in 1 transaction\n")
    assert cli(*command, stdin="x\n", status=1).stderr.endswith("; its transaction is aborted, nothing was committed\n")
    assert [row["value"] for row in consumed(cli, "produce-places-t")] == ["a", "b"]


def test_a_line_that_is_too_large_is_named_with_what_was_sent_before_it(cli: Cli, tmp_path: pathlib.Path) -> None:
    cli.create("produce-large")
    first, second = tmp_path / "1", tmp_path / "2"
    first.write_bytes(b"a\n")
    second.write_bytes(b"b\n" + b"x" * 2_000_000 + b"\nc\n")
    failed = cli("produce", "produce-large", first, second, status=1)
    said = "MESSAGE_TOO_LARGE: a record of about 2000021 bytes is larger than max_request_size=1048576"
    assert failed.stderr == f"error: {second}, line 2: {said}; 2 records before it were sent\n"
    assert [row["value"] for row in consumed(cli, "produce-large")] == ["a", "b"]
    failed = cli("produce", "produce-large", second, "--transactional-id", "produce-large", status=1)
    assert failed.stderr == f"error: {second}, line 2: {said}; its transaction is aborted, nothing was committed\n"


def test_a_record_without_a_timestamp_stays_without(cli: Cli) -> None:
    """`consume` writes -1 for it; it got the time at which it was produced again."""
    cli.create("produce-timeless")
    cli("produce", "produce-timeless", "--json", stdin='{"value": "v", "timestamp_ms": -1}\n')
    assert [row["timestamp_ms"] for row in consumed(cli, "produce-timeless")] == [-1]


def test_a_topic_is_looked_for_where_nothing_is_to_be_sent(cli: Cli) -> None:
    """It was `0 records sent`, and status 0."""
    assert "INVALID_TOPIC_EXCEPTION" in cli("produce", "bad topic", stdin="", status=1).stderr
    assert cli("produce", "not-there", stdin="").stderr.splitlines() == [
        "there is no topic not-there",
        "0 records sent",
    ]


def test_nothing_to_send_is_no_failure(cli: Cli) -> None:
    cli.create("produce-nothing")
    assert cli("produce", "produce-nothing", stdin="").stderr == "0 records sent\n"


def test_what_fails_in_a_transaction_is_told_with_what_was_committed_before(cli: Cli) -> None:
    """Where the broker refused, or a file could not be read, nothing told whoever runs it again from where."""
    cli("topics", "create", "produce-part-t", "-c", "max.message.bytes=1000")
    command = ["produce", "produce-part-t", "--transactional-id", "produce-q", "--transaction-size", 2]
    large = "x" * 5000
    note, error = cli(*command, stdin=f"a\nb\nc\nd\ne\n{large}\n", status=1).stderr.splitlines()
    assert note == "its transaction is aborted, before it 4 records committed in 2 transactions"
    assert error.startswith("error: MESSAGE_TOO_LARGE: ")
    note, _ = cli(*command, stdin=f"{large}\n", status=1).stderr.splitlines()
    assert note == "its transaction is aborted, nothing was committed"
    assert [row["value"] for row in consumed(cli, "produce-part-t")] == ["a", "b", "c", "d"]


def test_a_file_that_the_disk_cannot_read_is_named_with_what_was_sent(
    monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    async def broken(_: object) -> AsyncIterator[bytes]:
        yield b"a\nb"
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("oncelog.cli.commands.produce.byte_chunks", broken)
    cli.create("produce-eio")
    command = ["produce", "produce-eio", "--transactional-id", "produce-eio", "--transaction-size", 1]
    assert cli(*command, stdin="", status=1).stderr == (
        "error: stdin, line 2: cannot be read: Input/output error; its transaction is aborted, before it 1 record committed in "
        "1 transaction\n"
    )
