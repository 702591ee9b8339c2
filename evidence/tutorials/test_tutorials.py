"""Each tutorial is followed to the letter: its files saved, its commands run, what they print compared with the page.

Spark's, and the parts with Apache Kafka, take minutes: `make tutorials` (ONCELOG_TUTORIALS=all) has them too.
"""

from __future__ import annotations

import os
import pathlib

import pytest

from evidence.tutorials.page import Step, comparable, matches, steps
from evidence.tutorials.surroundings import surroundings
from evidence.tutorials.terminal import follow, terminal

PAGES = pathlib.Path(__file__).parents[2] / "docs" / "tutorials"
HAS_TIME = bool(os.environ.get("ONCELOG_TUTORIALS"))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", sorted(page.stem for page in PAGES.glob("*.md") if page.stem != "README"))
def test_the_tutorial_does_what_it_says(name: str, tmp_path: pathlib.Path) -> None:
    if name in ("spark-pipeline", "spark-cluster") and not HAS_TIME:
        pytest.skip("it starts Spark: make tutorials")
    page = steps(PAGES / f"{name}.md")
    assert page
    wanted = {step.needs for step in page if step.needs}
    with (
        surroundings(wanted, has_time=HAS_TIME) as around,
        terminal(tmp_path / "here", around.texts, around.path) as opened,
    ):
        follow([step for step in page if step.needs is None or step.needs in around.found], opened)


def test_every_tutorial_is_in_the_list() -> None:
    listed = (PAGES / "README.md").read_text()
    for page in PAGES.glob("*.md"):
        assert page.name == "README.md" or f"]({page.name})" in listed


def test_a_page_is_read_as_a_reader_reads_it(tmp_path: pathlib.Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "Save as `a.py`:\n```python\nprint(1)\n```\nThen:\n```console\n$ cat <<X\n> y\n> X\ny\n```\n"
        "<!-- needs kafka -->\n```console\n$ true\n```\n<!-- end -->\n```console\n$ false\n```\n"
    )
    assert steps(page) == [
        Step(2, name="a.py", text="print(1)\n"),
        Step(7, command="cat <<X\ny\nX", output=["y"]),
        Step(14, needs="kafka", command="true"),
        Step(18, command="false"),
    ]


@pytest.mark.parametrize(
    ("shown", "printed", "expected"),
    [
        (["a  b"], ["a b"], True),
        (["a"], ["a", "b"], False),
        (["a", "..."], ["a", "b", "c"], True),
        (["a ... c"], ["a b c"], True),
        (["open for 21m04s"], ["open for 3ms"], True),
        (["open for 2 offsets"], ["open for 3 offsets"], False),
        ([], ["a"], False),
        (["a"], [], False),
    ],
)
def test_what_may_differ(shown: list[str], printed: list[str], expected: bool) -> None:
    assert matches(shown, printed) is expected


def test_times_and_states_differ_from_run_to_run() -> None:
    assert comparable('at 2026-11-21T08:00:00.1Z {"quiet_ms": 12}') == comparable(
        'at 2027-01-01T00:00:00Z {"quiet_ms": 7}'
    )


def test_a_wrong_page_is_found(tmp_path: pathlib.Path) -> None:
    with terminal(tmp_path / "here") as opened:
        follow([Step(1, command="x=1"), Step(2, command="echo $x", output=["1"])], opened)
        with pytest.raises(AssertionError, match="line 3"):
            follow([Step(3, command="echo $x", output=["2"])], opened)
