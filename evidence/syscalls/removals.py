"""`python -m evidence.syscalls.removals`: each sync, rename and sync of names taken out, or done in another order, one by one.

The places are found in the source: statements that call one, marks of what is to be synced, lists that are handed to a
sync. Each is changed in a copy, and the steps and the life run on it: one of them must fail. One line for each, then one
for all. `equivalent.toml` names those that change nothing, each with its reason; they are not tried.
"""

from __future__ import annotations

import argparse
import ast
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

ROOT = pathlib.Path(__file__).parents[2]
ROOMS = ("host", "log", "broker")
# What makes something durable, gives or takes a name, or says that something is to be made durable.
EFFECTS = {
    "fsync", "fdatasync", "sync", "sync_all", "sync_now", "sync_directory", "_sync", "_sync_names", "_sync_together",
    "_sync_opened", "rename", "replace", "replace_whole", "announce", "finish", "note_failed_sync", "expect_failed_sync",
    "expect_failed_syncs", "note_expected", "forget_failed_sync",
    "rewrite_after_failed_sync", "write_clean_shutdown", "_mark_unsynced", "names_changed", "make_durable_directory",
    "_store_recovery_points", "write_aside", "write_now", "_write_checkpoint", "_write_leader_epochs", "_write_snapshot",
    "checkpoint_aside", "checkpoint", "_with_windows", "keep_tail", "_write_anew", "adopt_recovered",
    "remove_journal", "_make_durable", "commit", "pin", "end",
}  # fmt: skip
NOT_MEANT = re.compile(
    r"decimal|text\.replace|name\.replace|dataclasses|str\.replace|\.finish\(\)$(?<!swap\.finish\(\))|dump_log|time\.replace"
)
FLAGS = {"_names_are_unsynced", "names_are_unsynced", "_leader_epochs_changed", "_active_is_unsynced", "unsynced"}
FLAGS |= {"_has_new_names", "references"}
SYNCABLES = {"DirectoryNames", "UnsyncedFile", "_new_names", "_created", "files_to_sync"}
SYNCABLES |= {"newest_batch_files", "pin", "names", "map"}
# (what lies in broker/ and has no part in the order of the disk)
LEFT_OUT = ("broker/handlers", "broker/config", "broker/metrics", "broker/partitions/measured_syncer.py")
SECONDS_MAX = 240
# What is no statement of its own: file, name, what stands there, and instead.
BY_HAND = (
    ("broker/partitions/journal_flusher.py", "self._commit()", "committed = await self._commit()", "committed = []"),
    ("host/native_sync.c", "fdatasync", "while (fdatasync(item->descriptor) < 0)", "while (0)"),
)
EQUIVALENT = pathlib.Path(__file__).with_name("equivalent.toml")
NOTES = {"_mark_unsynced", "names_changed"}  # they matter to a later sync only: not to what stands beside them


@dataclass(frozen=True)
class Removal:
    """The change of one place."""

    file: str
    line: int
    kind: str  # removed, swapped
    what: str
    text: str  # the whole file with it
    function: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What it is called in `equivalent.toml`: no line number, which would move."""
        return self.file, self.function, self.kind, self.what

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.kind}: {self.what}"


def called(node: ast.AST) -> str:
    """The last name of what a statement calls, "" where it is no call."""
    if isinstance(node, ast.Expr):
        node = node.value
    if isinstance(node, ast.Await):
        node = node.value
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def is_effect(node: ast.stmt) -> bool:
    """A statement that does nothing but call one."""
    return isinstance(node, ast.Expr) and called(node) in EFFECTS and not NOT_MEANT.search(ast.unparse(node))


def is_flag(node: ast.stmt) -> bool:
    """A statement that only notes that a sync is wanted."""
    if isinstance(node, ast.Assign):
        value = node.value
        is_true = isinstance(value, ast.Constant) and value.value is True
        return is_true and any(isinstance(each, ast.Attribute) and each.attr in FLAGS for each in node.targets)
    if isinstance(node, ast.AugAssign):
        return isinstance(node.target, ast.Attribute) and node.target.attr in FLAGS
    return isinstance(node, ast.Expr) and bool(
        re.match(r"(self\.unsynced|syncables|files|taken\.files)\.append\(", ast.unparse(node))
    )


class _Source:
    def __init__(self, path: pathlib.Path) -> None:
        self.file = str(path.relative_to(ROOT / "src" / "oncelog"))
        self.lines = path.read_text().splitlines(keepends=True)
        self.tree = ast.parse("".join(self.lines))

    def removals(self) -> Iterator[Removal]:
        """Every place of this file."""
        for node in ast.walk(self.tree):
            for field in ("body", "orelse", "finalbody"):
                block = getattr(node, field, None)
                if isinstance(block, list):
                    yield from self._of_block(block)
            if isinstance(node, ast.List):
                yield from self._of_list(node)

    def _of_block(self, block: list[ast.stmt]) -> Iterator[Removal]:
        for index, node in enumerate(block):
            if is_effect(node) or is_flag(node):
                yield self._changed(node, node, "removed", [self._indent(node) + "pass\n"])
            before = block[index - 1]
            is_call = index > 0 and isinstance(before, ast.Expr) and called(before) != ""
            is_note = called(node) in NOTES and not is_effect(before)
            if is_call and is_effect(node) and not is_note:
                yield self._changed(before, node, "swapped", [*self._text(node), *self._text(before)])

    def _of_list(self, node: ast.List) -> Iterator[Removal]:
        for element in node.elts:
            inner = element.value if isinstance(element, ast.Starred) else element
            inner = inner.orelse if isinstance(inner, ast.IfExp) else inner
            name = called(inner) or getattr(inner, "attr", getattr(inner, "id", ""))
            if name in SYNCABLES and len(node.elts) > 1:
                line = self.lines[element.lineno - 1]
                if element.lineno == element.end_lineno:
                    start, end = element.col_offset, element.end_col_offset
                    new = line[:start] + "*()" + line[end:]
                    yield self._removal(element, "removed", [*self.lines[: element.lineno - 1], new], element.lineno)

    def _indent(self, node: ast.stmt) -> str:
        return " " * node.col_offset

    def _text(self, node: ast.stmt) -> list[str]:
        assert node.end_lineno is not None
        return self.lines[node.lineno - 1 : node.end_lineno]

    def _changed(self, first: ast.stmt, last: ast.stmt, kind: str, new: list[str]) -> Removal:
        assert last.end_lineno is not None
        return self._removal(last, kind, [*self.lines[: first.lineno - 1], *new], last.end_lineno)

    def _removal(self, node: ast.AST, kind: str, head: list[str], resumes: int) -> Removal:
        text = "".join([*head, *self.lines[resumes:]])
        ast.parse(text)
        line, what = node.lineno, " ".join(ast.unparse(node).split())[:90]  # type: ignore[attr-defined]
        return Removal(self.file, line, kind, what, text, self._function_of(line))

    def _function_of(self, line: int) -> str:
        around = [
            each
            for each in ast.walk(self.tree)
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
            and each.lineno <= line <= (each.end_lineno or 0)
        ]
        return max(around, key=lambda each: each.lineno).name if around else ""


def found() -> list[Removal]:
    """All of them, by file and line; those of `BY_HAND` last."""
    removals: list[Removal] = []
    for room in ROOMS:
        for path in sorted((ROOT / "src" / "oncelog" / room).rglob("*.py")):
            if not str(path.relative_to(ROOT / "src" / "oncelog")).startswith(LEFT_OUT):
                removals += sorted(_Source(path).removals(), key=lambda each: each.line)
    for file, what, right, wrong in BY_HAND:
        text = (ROOT / "src" / "oncelog" / file).read_text()
        assert text.count(right) == 1, f"{file} has another form: mend this"
        line = text[: text.index(right)].count("\n") + 1
        removals.append(Removal(file, line, "removed", what, text.replace(right, wrong)))
    return list(numbered(removals))


def numbered(removals: list[Removal]) -> Iterator[Removal]:
    """The same change of a function's second place is another one."""
    counts: Counter[tuple[str, str, str, str]] = Counter()
    for each in removals:
        counts[each.key] += 1
        count = counts[each.key]
        yield each if count == 1 else replace(each, what=f"{each.what} #{count}")


def equivalent() -> dict[tuple[str, str, str, str], str]:
    """Why a change changes nothing, by its key."""
    found = tomllib.loads(EQUIVALENT.read_text())["place"]
    return {(each["file"], each["function"], each["kind"], each["what"]): each["why"] for each in found}


def try_one(removal: Removal, *arguments: str) -> str:
    """What notices it: "" for nothing."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "src"
        shutil.copytree(ROOT / "src" / "oncelog", source / "oncelog", ignore=shutil.ignore_patterns("__pycache__"))
        (source / "oncelog" / removal.file).write_text(removal.text)
        if removal.file.endswith(".c"):
            _compile(source / "oncelog" / "host")
        return _noticed(["-m", "evidence.syscalls", "--quiet", "--source", str(source), *arguments], folder)


def as_it_is(*arguments: str) -> str:
    """What is not so though nothing is removed: "" as it should be."""
    with tempfile.TemporaryDirectory() as folder:
        return _noticed(["-m", "evidence.syscalls", "--quiet", *arguments], folder)


def _noticed(command: list[str], folder: str) -> str:
    variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": folder}
    try:
        done = subprocess.run(
            [sys.executable, *command],
            cwd=ROOT,
            env=variables,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "hangs"
    if done.returncode == 0:
        return ""
    rule = re.search(r"NOT SO: [^\n]*?(?:\(begins\)|descriptor \d+|/\S*): ([^:\n]+)", done.stdout)
    return rule[1] if rule else (done.stderr.strip() or done.stdout.strip() or "?").splitlines()[-1][:200]


def _compile(folder: pathlib.Path) -> None:
    library = next(folder.glob("native_sync*.so"))
    include = sysconfig.get_paths()["include"]
    command = [
        "cc",
        "-shared",
        "-fPIC",
        "-O1",
        f"-I{include}",
        "-o",
        str(library),
        str(folder / "native_sync.c"),
        "-lpthread",
    ]
    subprocess.run(command, check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Take out each sync and rename, and see whether it is noticed.")
    parser.add_argument("--only", default="", help="places whose line contains one of these, separated by commas")
    parser.add_argument("--list", action="store_true", help="only say which there are")
    parser.add_argument("--steps", action="store_true", help="the steps of the log alone, without a broker's life")
    parser.add_argument("--jobs", type=int, default=1, help="side by side")
    options = parser.parse_args()
    chosen = [each for each in found() if any(part in str(each) for part in options.only.split(","))]
    if options.list:
        print("\n".join(map(str, chosen)))
        return 0
    reasons = equivalent()
    tried = [each for each in chosen if each.key not in reasons]
    for each in chosen:
        if each.key in reasons:
            print(f"changes nothing  {each}  [{reasons[each.key]}]")
    left = []
    arguments = ["--steps"] if options.steps else []
    if tried and (noticed := as_it_is(*arguments)):
        print(f"removals: the life fails without any removal, so it proves nothing: {noticed}")
        return 2
    with ThreadPoolExecutor(options.jobs) as pool:
        for removal, noticed in zip(tried, pool.map(lambda each: try_one(each, *arguments), tried), strict=True):
            said = f"caught  {removal}  [{noticed}]" if noticed else f"NOT caught  {removal}"
            print(said, flush=True)
            if not noticed:
                left.append(removal)
    same = len(chosen) - len(tried)
    print(f"removals: {len(tried) - len(left)} of {len(tried)} caught, {same} change nothing")
    return int(bool(left))


if __name__ == "__main__":
    sys.exit(main())
