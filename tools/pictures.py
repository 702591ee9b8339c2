"""`python -m tools.pictures`: draws docs/concepts.md's pictures as SVG, for light and dark pages; a test keeps them."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

FOLDER = pathlib.Path(__file__).parent.parent / "docs" / "images"
WIDTH = 680
STEP = 40
STYLE = """\
<style>
.paper { fill: #ffffff; stroke: #d0d4da; } text { font: 14px system-ui, sans-serif; fill: #1f2328; }
.head { font-weight: 600; } .cell { font-size: 13px; } .small { font-size: 12px; fill: #57606a; }
.line { stroke: #57606a; fill: none; }
.life { stroke: #c4cad1; stroke-dasharray: 3 4; } .box { fill: #f0f2f5; stroke: #aab1ba; } .tip { fill: #57606a; }
.key { fill: #dcefe0; stroke: #2f855a; } .bad { fill: #fde2e1; stroke: #c0392b; } .mark { stroke: #c0392b; stroke-width: 2; }
.a { fill: #d9e8fb; stroke: #3b6fb5; } .b { fill: #fdecc8; stroke: #b7791f; } .plain { fill: #f0f2f5; stroke: #aab1ba; }
@media (prefers-color-scheme: dark) {
.paper { fill: #1b1f24; stroke: #3a4048; } text { fill: #e6e9ed; } .small { fill: #a9b2bc; } .line { stroke: #a9b2bc; }
.tip { fill: #a9b2bc; } .life { stroke: #4a515a; } .box, .plain { fill: #2a3038; stroke: #626b76; }
.key { fill: #1e4630; stroke: #58b37e; } .bad { fill: #55211e; stroke: #e07a70; } .mark { stroke: #e07a70; }
.a { fill: #1d3a60; stroke: #6f9fdd; } .b { fill: #54400f; stroke: #d6a23c; } }
</style>
<defs><marker id="tip" markerWidth="9" markerHeight="9" refX="8" refY="4.5" orient="auto">
<path class="tip" d="M0,0 L9,4.5 L0,9 z"/></marker></defs>
"""


class Step(NamedTuple):
    """An arrow from one lane to another; or, where both are the same, a box on that lane."""

    source: int
    target: int
    text: str
    kind: str = "box"  # of a box: box, key (what decides), bad


def _svg(title: str, height: int, parts: Iterable[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">\n'
    paper = f'<rect class="paper" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>\n'
    return f"{head}<title>{escape(title)}</title>\n{STYLE}{paper}" + "\n".join(parts) + "\n</svg>\n"


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "middle") -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'


def _box(x: float, y: float, width: float, text: str, kind: str) -> str:
    rect = f'<rect class="{kind}" x="{x - width / 2:g}" y="{y - 14:g}" width="{width:g}" height="28" rx="5"/>'
    return rect + _text(x, y + 5, text)


def sequence(title: str, lanes: Sequence[str], steps: Sequence[Step]) -> str:
    """Who sends what to whom, from the top to the bottom."""
    height = 70 + STEP * len(steps)
    at = [WIDTH * (index + 0.5) / len(lanes) for index in range(len(lanes))]
    return _svg(title, height, _sequence(lanes, steps, at, height))


def _sequence(lanes: Sequence[str], steps: Sequence[Step], at: list[float], height: int) -> Iterator[str]:
    for x, lane in zip(at, lanes, strict=True):
        yield f'<line class="life" x1="{x:g}" y1="40" x2="{x:g}" y2="{height - 14}"/>' + _text(x, 28, lane, "head")
    for index, step in enumerate(steps):
        y = 66 + STEP * index
        if step.source == step.target:
            width = 8.2 * len(step.text) + 20
            x = min(max(at[step.source], width / 2 + 8), WIDTH - width / 2 - 8)
            yield _box(x, y, width, step.text, step.kind)
            continue
        start, end = at[step.source], at[step.target]
        yield f'<line class="line" x1="{start:g}" y1="{y + 6}" x2="{end:g}" y2="{y + 6}" marker-end="url(#tip)"/>'
        yield _text((start + end) / 2, y - 2, step.text)


def log(title: str, rows: Sequence[tuple[str, Sequence[tuple[str, str]], int, str]]) -> str:
    """A partition's records, one row for each moment: (what it is, (text, kind) of each record, last stable offset, below)."""
    return _svg(title, 20 + 118 * len(rows), _log(rows))


def _log(rows: Sequence[tuple[str, Sequence[tuple[str, str]], int, str]]) -> Iterator[str]:
    left, size = 20, 80
    for index, (name, records, stable, below) in enumerate(rows):
        y = 34 + 118 * index
        yield _text(left, y, name, "head", "start")
        for offset, (text, kind) in enumerate(records):
            x = left + size * offset
            yield f'<rect class="{kind}" x="{x}" y="{y + 26}" width="{size - 4}" height="34" rx="4"/>'
            yield _text(x + size / 2 - 2, y + 48, text, "cell") + _text(x + size / 2 - 2, y + 20, str(offset), "small")
        x = left + size * stable - 2
        yield f'<line class="mark" x1="{x}" y1="{y + 8}" x2="{x}" y2="{y + 76}"/>'
        anchor = "end" if stable > 4 else "start"
        yield _text(x + (-6 if stable > 4 else 6), y + 78, f"last stable offset {stable}: {below}", "", anchor)


OPEN = [("A", "a"), ("B", "b"), ("plain", "plain"), ("A", "a"), ("COMMIT A", "a"), ("plain", "plain"), ("B", "b")]
PICTURES = {
    "transaction.svg": sequence(
        "A transaction from its first record to its marker",
        ("producer", "partition", "coordinator", "reader"),
        (
            Step(0, 1, "1 records"),
            Step(1, 2, "2 add partition"),
            Step(2, 2, "Ongoing"),
            Step(1, 1, "stored, hidden"),
            Step(0, 2, "3 EndTxn: commit"),
            Step(2, 2, "PrepareCommit: decided", "key"),
            Step(2, 0, "committed"),
            Step(2, 1, "4 marker"),
            Step(1, 1, "COMMIT", "key"),
            Step(1, 3, "5 all records of the transaction"),
            Step(2, 2, "CompleteCommit"),
        ),
    ),
    "last-stable-offset.svg": log(
        "The last stable offset stops before the first open transaction",
        (
            ("B is open: A is committed, and its second record waits", OPEN, 1, "readers stop here"),
            ("B is committed: everything can be read", [*OPEN, ("COMMIT B", "b")], 8, "nothing is open"),
        ),
    ),
    "fencing.svg": sequence(
        "A newer instance fences the older one",
        ("old instance", "partition", "coordinator", "new instance"),
        (
            Step(0, 2, "InitProducerId 'pay'"),
            Step(2, 0, "epoch 5"),
            Step(0, 1, "records, epoch 5"),
            Step(0, 0, "hangs", "bad"),
            Step(3, 2, "InitProducerId 'pay'"),
            Step(2, 2, "higher epoch: decided", "key"),
            Step(2, 1, "ABORT marker"),
            Step(2, 3, "higher epoch"),
            Step(0, 0, "wakes up"),
            Step(0, 1, "records, epoch 5"),
            Step(1, 1, "refused: fenced", "bad"),
        ),
    ),
    "two-phase-commit.svg": sequence(
        "Two-phase commit: the database's commit decides for the topic",
        ("application", "database", "topic"),
        (
            Step(0, 2, "1 records, then prepare"),
            Step(2, 2, "waits, without a timeout"),
            Step(0, 1, "2 rows and prepared state"),
            Step(0, 1, "3 COMMIT"),
            Step(1, 1, "decided", "key"),
            Step(0, 2, "4 complete: commit"),
            Step(2, 2, "visible", "key"),
        ),
    ),
    "spark-batch.svg": sequence(
        "A batch of the Spark sink: tasks leave their transactions open, and one decision names those that count",
        ("driver", "task", "topic", "decisions"),
        (
            Step(0, 1, "starts tasks"),
            Step(1, 2, "1 records, flushed"),
            Step(2, 2, "open, hidden"),
            Step(1, 0, "2 my transaction"),
            Step(0, 3, "3 batch 7: these transactions"),
            Step(3, 3, "the first one stands", "key"),
            Step(0, 2, "4 commit each, abort all others"),
            Step(2, 2, "visible, once", "key"),
            Step(0, 3, "5 batch 7 is done"),
        ),
    ),
}


def main() -> None:
    """Write them all."""
    for name, picture in PICTURES.items():
        (FOLDER / name).write_text(picture, encoding="utf-8")
        print(f"{name} written")


if __name__ == "__main__":
    main()
