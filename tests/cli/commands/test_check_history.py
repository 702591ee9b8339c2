"""`oncelog check-history`: exit statuses and what is printed."""

from __future__ import annotations

import json
import pathlib

from tests.cli.world import oncelog


def line(index: int, kind: str, process: int, value: object) -> str:
    return json.dumps({"index": index, "type": kind, "process": process, "time": index, "f": "txn", "value": value})


GOOD = [
    line(0, "invoke", 0, [["send", "t-0", [None, 1]]]),
    line(1, "ok", 0, [["send", "t-0", [0, 1]]]),
    line(2, "invoke", 1, [["poll", {}]]),
    line(3, "ok", 1, [["poll", {"t-0": [[0, 1]]}]]),
]
ABORTED_READ = [GOOD[0], line(1, "fail", 0, [["send", "t-0", [0, 1]]]), *GOOD[2:]]


def file_of(tmp_path: pathlib.Path, lines: list[str]) -> pathlib.Path:
    file = tmp_path / "history.jsonl"
    file.write_text("\n".join(lines))
    return file


def test_a_valid_history(tmp_path: pathlib.Path) -> None:
    result = oncelog("check-history", file_of(tmp_path, GOOD))
    assert (result.exit_code, result.stdout) == (0, "")
    assert "valid" in result.stderr


def test_one_line_per_class_with_a_witness(tmp_path: pathlib.Path) -> None:
    result = oncelog("check-history", file_of(tmp_path, ABORTED_READ), "--no-header")
    assert result.exit_code == 1
    assert result.stdout.startswith("G1a ")
    assert "aborted operation" in result.stdout


def test_json_for_machines_and_stdin() -> None:
    result = oncelog("check-history", "-", "-o", "json", stdin="\n".join(ABORTED_READ))
    document = json.loads(result.stdout)
    assert result.exit_code == 1
    assert document["valid"] is False
    assert document["operations"] == 2
    assert [(one["name"], one["count"]) for one in document["anomalies"]] == [("G1a", 1)]
    assert document["anomalies"][0]["witness"]["key"] == "t-0"


def test_what_cannot_be_read_is_status_2(tmp_path: pathlib.Path) -> None:
    result = oncelog("check-history", file_of(tmp_path, ["{", *GOOD]), "-o", "json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: ")
    assert "line 1" in result.stderr
    assert oncelog("check-history", "no/such/file").exit_code == 2
