"""`oncelog transactions lanes`: a row for each span, a picture for a report."""

from __future__ import annotations

import pathlib
import xml.etree.ElementTree as ET

from tests.cli.world import Cli


def test_rows_and_a_picture(cli: Cli, tmp_path: pathlib.Path) -> None:
    topic = cli.create("lanes-drawn")
    cli.leave_open(topic, "lanes-open")
    path = tmp_path / "lanes.svg"
    (row,) = cli.json("transactions", "lanes", topic, "--svg", path)
    assert (row["transactional_id"], row["outcome"], row["verdict"], row["record_count"]) == (
        *("lanes-open", "open", "in progress"),
        3,
    )
    assert "lanes-open" in " ".join(each.text or "" for each in ET.parse(path).getroot().iter())
    only = cli("transactions", "lanes", topic, "--svg", "-").stdout
    assert ET.fromstring(only).tag == "{http://www.w3.org/2000/svg}svg"


def test_a_picture_is_written_whole_or_not_at_all(cli: Cli, tmp_path: pathlib.Path) -> None:
    topic = cli.create("lanes-unwritten")
    nowhere = tmp_path / "no" / "such.svg"
    told = cli("transactions", "lanes", topic, "--svg", nowhere, status=1).stderr
    assert f"the picture cannot be written to {nowhere}: No such file or directory" in told
    told = cli("transactions", "lanes", topic, "--svg", "/dev/full", status=1).stderr
    assert "the picture cannot be written to /dev/full: No space left on device" in told
    assert list(tmp_path.iterdir()) == []


def test_a_hanging_one_is_called_so(cli: Cli) -> None:
    topic = cli.create("lanes-hanging")
    cli.leave_hanging(topic, "lanes-ghost")
    (row,) = cli.json("transactions", "lanes", topic, "--window", "1h")
    assert (row["outcome"], row["verdict"]) == ("open", "hanging")


def test_a_window_out_of_bounds_is_refused(cli: Cli) -> None:
    cli("transactions", "lanes", "any", "--window", "1ms", status=2)
