"""`python -m evidence.tutorials PAGE.md`: do what a page says and put what was printed into it, to be read before it is kept.

What is not there (Apache Kafka, PostgreSQL, Polars) is left as it is.
"""

from __future__ import annotations

import pathlib
import sys
import tempfile
import time

from evidence.tutorials.page import matches, steps
from evidence.tutorials.surroundings import surroundings
from evidence.tutorials.terminal import terminal

SETTLE_S = 6.0  # then what runs in the background has said what it says


def main(name: str) -> None:
    path = pathlib.Path(name)
    page, lines = steps(path), path.read_text().splitlines()
    changes: list[tuple[int, int, list[str]]] = []
    with (
        tempfile.TemporaryDirectory(prefix="oncelog-tutorial-") as directory,
        surroundings({step.needs for step in page if step.needs}, has_time=True) as around,
        terminal(pathlib.Path(directory) / "here", around.texts, around.path) as opened,
    ):
        shown_as = {real: shown for shown, real in around.texts.items()}
        for step in page:
            if step.needs is not None and step.needs not in around.found:
                continue
            began = time.monotonic()
            shown, printed = opened.do(step, SETTLE_S)
            print(f"{time.monotonic() - began:6.1f}s {step.line_number:4} {step.name or step.command}", flush=True)
            if not step.name and not matches(shown, printed):
                print(*[f"        {line}" for line in printed], sep="\n", flush=True)
                begin = step.line_number + step.command.count("\n")
                for real, text in shown_as.items():
                    printed = [line.replace(real, text).rstrip() for line in printed]
                changes.append((begin, begin + len(step.output), printed))
    for begin, end, printed in reversed(changes):
        lines[begin:end] = printed
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
