"""`python -m tools.spark_mistakes_page`: writes docs/spark-mistakes.md from what is told now; a test says when it is old."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Iterable

from evidence.spark_mistakes.catalogue import PURE, READ, STREAM, told
from evidence.spark_mistakes.spark_itself import SPARKS
from evidence.spark_mistakes.with_broker import LIVE, settled, world

from pyspark_oncelog.not_loadable import reason

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "spark-mistakes.md"
INTRO = """\
# Mistakes with the Spark format, and what is told
What is told is one line. Spark puts its own words before it: `[PYTHON_DATA_SOURCE_ERROR] Failed to initialize ...` where a read
or write is planned (an `AnalysisException`), `[STREAM_FAILED] Query [id = ...] terminated with exception: ...` and, behind it,
the query's plan for a stream, `An exception was thrown from the Python worker` for a task. What the user can mend comes without
the frames of Python and Java; an error of oncelog's own keeps them. In a Connect session Spark adds its Java frames all the same,
behind the line.

Names with underscores are options of the clients: `max_request_size` is the option `kafka.max.request.size`.

Written by `tools/spark_mistakes_page.py`, which makes each mistake (`evidence/spark_mistakes/`) and writes down the answer; a
test compares.
"""


def table(rows: Iterable[tuple[str, ...]], *heads: str) -> list[str]:
    """A table of markdown."""
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    return lines + [f"| {' | '.join(each.replace('|', chr(92) + '|') for each in row)} |" for row in rows]


def render() -> str:
    """The page."""
    reads = [(m.what, m.kind, told(m.make)) for m in PURE if m.kind in (READ, STREAM)]
    writes = [(m.what, m.kind, told(m.make)) for m in PURE if m.kind not in (READ, STREAM)]
    with world() as brokers:
        asked = [(what, when, settled(told(functools.partial(make, brokers)), brokers)) for what, when, make in LIVE]
    own = [(what, f"`{text}`", cure) for what, text, cure, _ in SPARKS]
    parts = [
        INTRO,
        "## Options and columns of a read: before anything is read",
        *table(reads, "mistake", "in a", "told"),
    ]
    parts += [
        "",
        "## Options and columns of a write: before anything is written",
        *table(writes, "mistake", "in a", "told"),
    ]
    parts += ["", "## What a broker, a checkpoint or a row shows", *table(asked, "mistake", "told when", "told")]
    old = reason(ImportError(), "4.1.4")
    parts += ["", "## An older PySpark", f"At each use (tried with PySpark 4.1.4): `{old}`."]
    parts += [
        "",
        "## What Spark itself tells",
        "`make spark-mistakes` makes each of them in a session (Spark 4.3).",
        "",
    ]
    return "\n".join([*parts, *table(own, "mistake", "told", "do this"), ""])


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
