"""The one place that prints. stdout holds data only; progress, hints and errors go to stderr.

Formats: `table` and `wide` for people (plain text unless stdout is a terminal), `json` (one document), `jsonl` (one
object per line), `tsv` (headers without spaces, `-` for nothing). Rows are dicts: their keys are JSON's names.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TextIO, TypeAlias

import click

from oncelog.cli.durations import duration_text, moment_text
from oncelog.cli.standard_streams import stream_of
from oncelog.errors import KafkaError, OncelogError, code_name
from oncelog.lazy_dataclass import dataclass

FORMATS = ("table", "wide", "json", "jsonl", "tsv")
EXIT_OK, EXIT_FAILURE, EXIT_USAGE, EXIT_FOUND = 0, 1, 2, 3

# JSON escapes what is below a space; what steers a terminal above it, and half a surrogate pair, it leaves as it is.
_NO_TEXT = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_NO_PYTHON = (dict, list, tuple, bool, type(None))  # what `str` would write as Python's source code
REPAIR = "REPAIR"
Row: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """One column of a table: `key` in the row, `header` (from the key where empty), shown only when wide if `wide`."""

    key: str
    header: str = ""
    show: Callable[[Any], str] = str
    wide: bool = False

    @property
    def title(self) -> str:
        """The header as printed: upper case, hyphens, no spaces."""
        return self.header or self.key.upper().replace("_", "-")


def columns(*names: str, wide: Sequence[str] = ()) -> list[Column]:
    """Columns for row keys: `..._time_ms` and `timestamp` are moments, other `..._ms` durations."""
    return [_column(name, False) for name in names] + [_column(name, True) for name in wide]


def _column(name: str, wide: bool) -> Column:
    if name.endswith(("_time_ms", "timestamp_ms")):
        return Column(name, name.removesuffix("_ms").upper().replace("_", "-"), moment_text, wide)
    if name.endswith("_ms"):
        return Column(name, name.removesuffix("_ms").upper().replace("_", "-"), duration_text, wide)
    return Column(name, wide=wide)


def cell(column: Column, row: Row) -> str:
    """A cell's text: `-` for nothing; line breaks and control characters are shown, never sent to the terminal."""
    value = row.get(column.key)
    if value is None or value == "" or value == []:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        value = json_text(value)
    elif isinstance(value, list | tuple):
        value = ",".join(json_text(each) if type(each) in _NO_PYTHON else str(each) for each in value)
    return printable(column.show(value))


def printable(text: str) -> str:
    """Text whose control characters are written as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person is there. None: it was closed before we began (`<&-`)."""
    return stream is not None and stream.isatty()


def printable_lines(text: str) -> str:
    """Text of several lines whose other control characters are written as escapes."""
    return "\n".join(printable(line) for line in text.split("\n"))


class Output:
    """Prints in one format."""

    def __init__(self, output_format: str = "table", *, header: bool = True) -> None:
        assert output_format in FORMATS
        self.format = output_format
        self.header = header
        self._has_printed_error = False

    @property
    def is_machine(self) -> bool:
        """JSON of either kind: everything on stdout is JSON, errors too."""
        return self.format in ("json", "jsonl")

    def rows(self, columns: Sequence[Column], rows: Iterable[Row], *, empty: str = "") -> None:
        """A table of rows; `empty` is said on stderr where there is none and a person reads."""
        wanted = list(rows)
        if self.format == "json":
            self._write(json_text(wanted, indent=2))
        elif self.format == "jsonl":
            for row in wanted:
                self._write(json_text(row))
        else:
            shown = [column for column in columns if self.format != "table" or not column.wide]
            cells = [[cell(column, row) for column in shown] for row in wanted]
            titles = [column.title for column in shown]
            if self.format == "tsv":
                self._lines(([titles] if self.header else []) + cells, "\t")
            elif wanted:
                self._table(titles, cells)
            if not wanted and empty and self.format != "tsv":
                self.note(empty)

    def item(self, columns: Sequence[Column], row: Row) -> None:
        """One thing: names and values below one another for a person, one object or line for a machine."""
        if self.is_machine:
            self._write(json_text(row, indent=2 if self.format == "json" else None))
        elif self.format == "tsv":
            self.rows(columns, [row])
        else:
            shown = [column for column in columns if self.format != "table" or not column.wide]
            width = max(len(column.title) for column in shown)
            for column in shown:
                self._write(f"{column.title:<{width}}  {cell(column, row)}")

    @contextmanager
    def stream(self) -> Iterator[Callable[[Row, str], None]]:
        """For things that come one by one: call it with a row for machines and a line for people."""
        count = 0

        def emit(row: Row, line: str) -> None:
            nonlocal count
            if self.format == "json":
                self._write(("[\n" if count == 0 else ",\n") + json_text(row), end="")
            elif self.format == "jsonl":
                self._write(json_text(row))
            elif self.format == "tsv":
                shown = columns(*row)
                head = "\t".join(column.title for column in shown) + "\n" if self.header and count == 0 else ""
                self._write(head + "\t".join(cell(column, row) for column in shown))
            else:
                self._write(printable_lines(line))
            count += 1

        try:
            yield emit
        except (OncelogError, OSError, click.UsageError) as error:
            # One document whatever happens: the error is its last element, or all of it.
            if self.format == "json" and count:
                self._write(",\n" + json_text(error_row(error)) + "\n]")
                self._has_printed_error = True
            raise
        except BaseException:
            if self.format == "json":
                self._write("\n]" if count else "[]")
            raise
        if self.format == "json":
            self._write("\n]" if count else "[]")

    def data(self, text: str) -> None:
        """Data in a form of its own (a completion script, records by a format string)."""
        self._write(text, end="")

    def data_bytes(self, data: bytes) -> None:
        """Bytes as they are; call `flush` from time to time."""
        if sys.stdout is not None:
            sys.stdout.buffer.write(data)

    def flush(self) -> None:
        """What was printed so far becomes visible."""
        if sys.stdout is not None:
            sys.stdout.flush()

    def note(self, text: str, *more: str) -> None:
        """A hint or progress, on stderr, with more lines below it; a line break in a name begins no line."""
        with suppress(OSError, ValueError):  # closed, full: what is said beside the data is no reason to end
            click.echo("\n  ".join(map(printable, (text, *more))), err=True)

    def error(self, error: BaseException, *, hint: str = "") -> None:
        """One line on stderr, and for machines an object on stdout."""
        self.note(f"error: {_in_one_line(error)}" + (f" ({hint})" if hint else ""))
        if self.is_machine and not self._has_printed_error:
            with suppress(OSError, ValueError):  # it may be the very file that could not be written
                self._write(json_text(error_row(error, hint)))

    def wrong_usage(self, error: BaseException, *, hint: str = "") -> None:
        """One line on stderr, as click says it; stdout has nothing of it in any format."""
        self.note(f"Error: {_in_one_line(error)}" + (f" ({hint})" if hint else ""))

    def _table(self, titles: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
        is_copied = REPAIR in titles  # a command that is folded into a column cannot be copied
        if is_terminal(sys.stdout) and "NO_COLOR" not in os.environ and not is_copied:
            self._rich_table(titles, cells)
            return
        self._lines([titles, *cells] if self.header else cells, "  ")

    def _lines(self, lines: Sequence[Sequence[str]], separator: str) -> None:
        if separator == "\t" or not lines:
            for line in lines:
                self._write(separator.join(line))
            return
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        for line in lines:
            padded = separator.join(text.ljust(width) for text, width in zip(line, widths, strict=True))
            self._write(padded.rstrip())

    def _rich_table(self, titles: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
        from rich.console import Console
        from rich.table import Table

        table = Table(box=None, show_header=self.header, header_style="bold", pad_edge=False)
        for title in titles:
            table.add_column(title, overflow="fold")
        for line in cells:
            table.add_row(*line)
        Console(highlight=False, markup=False).print(table)

    def _write(self, text: str, end: str = "\n") -> None:
        click.echo(text + end, nl=False)


def _in_one_line(error: BaseException) -> str:
    told = str(error) or type(error).__name__
    if isinstance(error, OSError) and (stream := stream_of(error)):
        told = f"cannot write to {stream}: {error.strerror}"
    return " ".join(told.split())


def counted(count: int, noun: str) -> str:
    """`1 record`, `2 records`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def error_name(error: BaseException) -> str:
    """The name a machine matches on: Kafka's for protocol errors, the class's otherwise."""
    return code_name(error.code) if isinstance(error, KafkaError) else type(error).__name__


def error_row(error: BaseException, hint: str = "") -> dict[str, Any]:
    """An error as an object."""
    row: dict[str, Any] = {"error": error_name(error), "code": None, "message": str(error), "retriable": False}
    if isinstance(error, KafkaError):
        row |= {"code": int(error.code), "message": error.message or "", "retriable": error.retriable}
    if hint:
        row["hint"] = hint
    return row


def json_text(value: Any, indent: int | None = None) -> str:
    """JSON with bytes as text where they are UTF-8, else as base64 in an object."""
    text = json.dumps(value, indent=indent, default=_json_value, ensure_ascii=False)
    if text.isprintable() or _NO_TEXT.search(text) is None:
        return text
    return _NO_TEXT.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _json_value(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes_value(bytes(value))
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)


def bytes_value(data: bytes | None) -> Any:
    """Bytes for JSON: text where they are UTF-8, else `{"base64": ...}`."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        import base64

        return {"base64": base64.b64encode(data).decode("ascii")}


class Failed(OncelogError):
    """A command did not do what was asked; the message says why and the hint how to go on."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
