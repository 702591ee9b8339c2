"""Writes src/oncelog/recipes/sync.py, the blocking dual writer, from dual_writer.py, the one for asyncio.

`python tools/sync_recipes.py`; with `--check` it writes nothing and fails while the file is old (`make lint`, a test).
What differs in more than words is written by hand in `async_runtime.py` and `sync_runtime.py`, call for call the same.
"""

from __future__ import annotations

import difflib
import io
import pathlib
import re
import subprocess
import sys
import tokenize

RECIPES = pathlib.Path(__file__).parent.parent / "src" / "oncelog" / "recipes"
SOURCE, TARGET = RECIPES / "dual_writer.py", RECIPES / "sync.py"
HEADER = "# Generated from dual_writer.py by tools/sync_recipes.py. Change that file, then run `python tools/sync_recipes.py`.\n"

# Whole lines; None: it has no counterpart.
LINES: dict[str, str | None] = {
    '"""Rows in a database and records in topics, together or not at all (KIP-939), for asyncio.': (
        '"""Rows in a database and records in topics, together or not at all (KIP-939), without async.'
    ),
    "`tools/sync_recipes.py` writes `recipes/sync.py`, the same without async, from this file: run it after each change.": (
        "A writer may be used from several threads: one transaction at a time, the others wait."
    ),
    "from oncelog.client.producer.producer import Headers, Producer": (
        "from oncelog.client.producer.producer import Headers"
    ),
    "from oncelog.client.delivery import Delivery": "from oncelog.sync import Producer, SentRecord",
    "from oncelog.host.host import Host": None,
    "        host: the doors to the outside (tests).": None,
    "        host: Host | None = None,": None,
    "        self._runtime = AsyncRuntime(host)": "        self._runtime = SyncRuntime()",
}
# Then words, in this order.
WORDS = {
    "async def": "def",
    "async with": "with",
    "await ": "",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "asynccontextmanager": "contextmanager",
    "AsyncIterator": "Iterator",
    "AsyncDatabase": "Database",
    "AsyncDatabaseTransaction": "DatabaseTransaction",
    "AsyncRuntime": "SyncRuntime",
    "async_runtime": "sync_runtime",
    "Delivery": "SentRecord",
    "As `Producer": "As `sync.Producer",
    "other tasks": "other threads",
}


class Untranslatable(Exception):
    """The source and the tables do not fit."""


def render(source: str) -> str:
    """The blocking module. Raises Untranslatable where an entry of the tables fits nothing, or async words are left."""
    text = _with_words(_with_lines(source))
    left = {token.string for token in tokenize.generate_tokens(io.StringIO(text).readline)}
    asynchronous = sorted(left & {"async", "await", "asyncio"})
    if asynchronous:
        raise Untranslatable(f"left in the blocking module: {', '.join(asynchronous)}")
    return _formatted(HEADER + text)


def _with_lines(source: str) -> str:
    lines = source.splitlines()
    missing = [line for line in LINES if line not in lines]
    if missing:
        raise Untranslatable(f"LINES names what {SOURCE.name} does not have: {missing}")
    translated = [LINES.get(line, line) for line in lines]
    return "".join(f"{line}\n" for line in translated if line is not None)


def _with_words(text: str) -> str:
    for old, new in WORDS.items():
        text, count = re.subn(rf"(?<!\w){re.escape(old)}" + (r"(?!\w)" if old[-1].isalnum() else ""), new, text)
        if not count:
            raise Untranslatable(f"WORDS names what {SOURCE.name} does not have: {old!r}")
    return text


def _formatted(text: str) -> str:
    """Imports sorted, lines joined that became short."""
    for command in (["check", "--select", "I", "--fix-only"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename", str(TARGET), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True, cwd=RECIPES).stdout
    return text


def main(arguments: list[str]) -> int:
    """The exit status."""
    wanted, found = render(SOURCE.read_text(encoding="utf-8")), TARGET.read_text(encoding="utf-8")
    if "--check" not in arguments:
        TARGET.write_text(wanted, encoding="utf-8")
        return 0
    if wanted == found:
        return 0
    print("".join(difflib.unified_diff(found.splitlines(True), wanted.splitlines(True), "sync.py", "as generated")))
    print("src/oncelog/recipes/sync.py is not what dual_writer.py gives: python tools/sync_recipes.py")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
