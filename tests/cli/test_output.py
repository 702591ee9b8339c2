"""The printer: tables, items and streams in each format, safe for terminals and for machines."""

from __future__ import annotations

import json
import sys
from typing import Any

import click
import pytest

from oncelog.cli.command import Settings
from oncelog.cli.output import Column, Output, bytes_value, cell, columns, is_terminal, printable
from oncelog.errors import NotCoordinator

ROWS: list[dict[str, Any]] = [
    {"topic": "a", "blocked": 3, "duration_ms": 61_000},
    {"topic": "long name", "blocked": None, "duration_ms": -1},
]
COLUMNS = columns("topic", "blocked", wide=["duration_ms"])
Captured = pytest.CaptureFixture[str]


def test_a_table_is_aligned_and_has_no_trailing_blanks(capsys: Captured) -> None:
    Output("table").rows(COLUMNS, ROWS)
    assert capsys.readouterr().out == "TOPIC      BLOCKED\na          3\nlong name  -\n"


def test_wide_shows_more(capsys: Captured) -> None:
    Output("wide", header=False).rows(COLUMNS, ROWS)
    assert capsys.readouterr().out == "a          3  1m01s\nlong name  -  -\n"


def test_tsv_has_every_column(capsys: Captured) -> None:
    Output("tsv").rows(COLUMNS, ROWS)
    assert capsys.readouterr().out == "TOPIC\tBLOCKED\tDURATION\na\t3\t1m01s\nlong name\t-\t-\n"


def test_json_keeps_numbers_and_names(capsys: Captured) -> None:
    Output("json").rows(COLUMNS, ROWS)
    assert json.loads(capsys.readouterr().out) == ROWS
    Output("jsonl").rows(COLUMNS, ROWS)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == ROWS


def test_nothing_is_said_on_stderr_only_to_people(capsys: Captured) -> None:
    Output("table").rows(COLUMNS, [], empty="there is nothing")
    assert capsys.readouterr() == ("", "there is nothing\n")
    Output("json").rows(COLUMNS, [], empty="there is nothing")
    assert capsys.readouterr() == ("[]\n", "")


def test_an_item_in_each_format(capsys: Captured) -> None:
    Output("table").item(COLUMNS, ROWS[0])
    assert capsys.readouterr().out == "TOPIC    a\nBLOCKED  3\n"
    Output("json").item(COLUMNS, ROWS[0])
    assert json.loads(capsys.readouterr().out) == ROWS[0]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_stream_is_one_document(capsys: Captured, count: int) -> None:
    with Output("json").stream() as emit:
        for number in range(count):
            emit({"n": number}, "")
    assert json.loads(capsys.readouterr().out) == [{"n": number} for number in range(count)]


@pytest.mark.parametrize("count", [0, 2])
def test_a_stream_that_fails_is_still_one_document(capsys: Captured, count: int) -> None:
    out = Output("json")
    with pytest.raises(NotCoordinator) as raised, out.stream() as emit:
        for number in range(count):
            emit({"n": number}, "")
        raise NotCoordinator("moved")
    out.error(raised.value)
    document = json.loads(capsys.readouterr().out)
    last = document[-1] if count else document
    assert (last["error"], last["code"], last["retriable"]) == ("NOT_COORDINATOR", 16, True)


def test_an_interrupted_stream_is_closed(capsys: Captured) -> None:
    with pytest.raises(KeyboardInterrupt), Output("json").stream() as emit:
        emit({"n": 1}, "")
        raise KeyboardInterrupt
    assert json.loads(capsys.readouterr().out) == [{"n": 1}]


def test_control_characters_never_reach_a_table() -> None:
    assert cell(Column("key"), {"key": "a\x1b[31m\tb\nc"}) == "a\\x1b[31m\\tb\\nc"
    assert printable("grün ✓") == "grün ✓"


def test_what_has_parts_is_json_in_a_cell_too() -> None:
    """Records read as tsv had Python's own notation."""
    headers = [["h", "v"], ["n", None]]
    assert cell(Column("headers"), {"headers": headers}) == '["h", "v"],["n", null]'
    assert cell(Column("value"), {"value": {"base64": "/w=="}}) == '{"base64": "/w=="}'
    assert cell(Column("partitions"), {"partitions": [0, 1]}) == "0,1"
    assert cell(Column("x"), {"x": [None, True, ("a", 1)]}) == 'null,true,["a", 1]', "as JSON, and not as Python"


def test_moments_of_a_tsv_stream_are_written_as_in_tables(capsys: Captured) -> None:
    with Output("tsv").stream() as emit:
        emit({"offset": 1, "timestamp_ms": 0}, "")
    assert capsys.readouterr().out == "OFFSET\tTIMESTAMP\n1\t1970-01-01T00:00:00.000Z\n"


def test_bytes_in_json() -> None:
    assert bytes_value(b"text") == "text"
    assert bytes_value(b"\xff\x00") == {"base64": "/wA="}
    assert bytes_value(None) is None


def test_a_terminal_gets_rich_tables(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    Output("table").rows(COLUMNS, ROWS)
    shown = capsys.readouterr().out
    assert "long name" in shown
    assert "TOPIC" in shown


def test_a_line_break_in_a_name_begins_no_line(capsys: Captured) -> None:
    Output().note("remove the credential of a\nerror: all is lost\x1b[2J", "and a second\nline")
    assert capsys.readouterr().err == "remove the credential of a\\nerror: all is lost\\x1b[2J\n  and a second\\nline\n"


@pytest.mark.parametrize("closed", ["stdin", "stdout"])
def test_a_standard_file_that_was_closed_before_we_began_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    """`<&-` and `>&-`: Python has None there."""
    monkeypatch.setattr(sys, closed, None)
    out = Output()
    assert not is_terminal(getattr(sys, closed))
    out.rows(columns("key"), [{"key": "x"}])
    out.data_bytes(b"x")
    out.flush()
    if closed == "stdin":
        with pytest.raises(click.UsageError, match="add --yes"):
            Settings().confirm("delete it", "it")
