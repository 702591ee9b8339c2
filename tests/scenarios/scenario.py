"""Scenario transcripts: commands, a line `----`, what they answer, an empty line between; comments begin with `#`.

A file's name is its claim. `python -m tests.scenarios.scenario --rewrite [FILE ...]` writes the present answers; read the
diff before you commit it.
"""

from __future__ import annotations

import pathlib
import shlex
import sys
from collections.abc import Callable

HERE = pathlib.Path(__file__).parent
Handle = Callable[[list[str]], str]


def run(text: str, handle: Handle) -> str:
    """The same transcript with every expected answer replaced by the real one."""
    blocks = []
    for block in text.strip("\n").split("\n\n"):
        head = block.partition("\n----")[0].splitlines()
        comments = [line for line in head if line.startswith("#")]
        commands = [line for line in head if line and not line.startswith("#")]
        if commands:
            answer = "\n".join(filter(None, (handle(shlex.split(command)) for command in commands)))
            blocks.append("\n".join([*comments, *commands, "----", answer or "nothing"]))
        else:
            blocks.append("\n".join(comments))
    return "\n\n".join(blocks) + "\n"


def files() -> list[pathlib.Path]:
    """Every transcript, by name."""
    return sorted(HERE.glob("*.txt"))


def main(arguments: list[str]) -> None:
    from tests.scenarios.coordinator_world import CoordinatorWorld

    assert arguments[:1] == ["--rewrite"], __doc__
    for path in [pathlib.Path(name) for name in arguments[1:]] or files():
        before = path.read_text()
        after = run(before, CoordinatorWorld().handle)
        path.write_text(after)
        print("same     " if before == after else "rewritten", path.name)


if __name__ == "__main__":
    main(sys.argv[1:])
