"""The house rules, checked: who may import whom, what reaches the outside, names, sizes (ARCHITECTURE.md: why)."""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterator

import pytest

SOURCE = pathlib.Path(__file__).parent.parent / "src"
PACKAGE = SOURCE / "oncelog"

BASE = {"errors", "types"}
APPLICATIONS = {"client", "core", "wire", "host", "sync", *BASE}
MAY_IMPORT = {
    "errors": set(),
    "types": {"errors"},
    "wire": BASE,
    "log": {"wire", *BASE},
    "core": {"wire", *BASE},
    "host": {"log", *BASE},
    "broker": {"host", "log", "core", "wire", *BASE},
    "client": {"host", "core", "wire", *BASE},
    "sync": {"client", "host", "core", *BASE},
    "recipes": APPLICATIONS,
    "spark": {"recipes", *APPLICATIONS},
    "cli": {"recipes", "spark", "checker", *APPLICATIONS},
    "console": APPLICATIONS,
    "demo": {"spark", *APPLICATIONS},
    "checker": {"wire", *BASE},
    "testing": {"broker", *APPLICATIONS},
}
# One door each: `oncelog serve` starts a broker, `oncelog dump-log` reads files, `oncelog doctor` looks at the machine.
ALLOWED_BESIDE = {
    "cli/commands/serve.py": {"broker", "log"},
    "cli/dump_log/dump_log.py": {"log"},
    "cli/dump_log/files.py": {"log"},
    "cli/commands/doctor.py": {"log"},
    "host/files.py": {"log"},
}
OUTSIDE = {
    "asyncio",
    "datetime",
    "os",
    "pathlib",
    "random",
    "secrets",
    "select",
    "signal",
    "socket",
    "ssl",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "uuid",
}
BANNED_IMPORTS = {
    "wire": OUTSIDE,
    "log": OUTSIDE,
    "core": OUTSIDE,
    "broker": OUTSIDE - {"asyncio"},
    "client": OUTSIDE - {"asyncio"},
}
BANNED_CALLS = {
    "time.time": "take now_ms as an argument, or host's Clock",
    "time.sleep": "wait on an event or a loop timer",
    "asyncio.create_task": "use asyncio.TaskGroup or host.tasks.Tasks",
    "asyncio.ensure_future": "use asyncio.TaskGroup or host.tasks.Tasks",
    "loop.create_task": "use asyncio.TaskGroup or host.tasks.Tasks",
    "datetime.now": "take now_ms as an argument",
}
CALL_EXCEPTIONS = {"host", "demo"}  # the doors themselves; a program that starts and kills processes
FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70


def layer_of(path: pathlib.Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def modules() -> list[pathlib.Path]:
    return sorted(PACKAGE.rglob("*.py")) + sorted((SOURCE / "pyspark_oncelog").rglob("*.py"))


def imported_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "absolute imports only"
            module = node.module or ""
            yield module
            if module == "oncelog":
                yield from (f"oncelog.{alias.name}" for alias in node.names)


def broken_import_rules(path: pathlib.Path, tree: ast.AST) -> Iterator[str]:
    layer = layer_of(path)
    if layer in ("__init__", "__main__"):
        return
    beside = ALLOWED_BESIDE.get(path.relative_to(PACKAGE).as_posix(), set())
    for name in imported_names(tree):
        top, _, rest = name.partition(".")
        target = rest.split(".")[0]
        if top in BANNED_IMPORTS.get(layer, ()):
            yield f"{path.relative_to(SOURCE)}: {layer}/ reaches the outside only through host/, not {top}"
        if (
            top == "oncelog"
            and target
            and target not in (layer, "__version__")
            and target not in MAY_IMPORT.get(layer, set()) | beside
        ):
            if layer in ("recipes", "spark", "cli", "console", "demo", "testing") and target[0].isupper():
                continue  # a public name of the package
            yield f"{path.relative_to(SOURCE)}: {layer}/ may not import {target}/"


def broken_code_rules(path: pathlib.Path, tree: ast.AST) -> Iterator[str]:
    where = path.relative_to(SOURCE)
    layer = layer_of(path) if path.is_relative_to(PACKAGE) else "spark"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            count = (node.end_lineno or node.lineno) - node.lineno + 1
            if count > FUNCTION_LINES_MAX:
                yield f"{where}:{node.lineno}: {node.name} has {count} lines"
        elif isinstance(node, ast.ExceptHandler):
            if node.type is None or ast.unparse(node.type) == "Exception":
                yield f"{where}:{node.lineno}: catches everything; name what you expect"
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            for banned, instead in BANNED_CALLS.items():
                if (called == banned or called.endswith("." + banned)) and layer not in CALL_EXCEPTIONS:
                    yield f"{where}:{node.lineno}: {called}: {instead}"
        elif isinstance(node, ast.arg | ast.Name):
            name = node.arg if isinstance(node, ast.arg) else node.id
            if name == "epoch":
                yield f"{where}:{node.lineno}: a bare `epoch`: say which of the five"


@pytest.fixture(scope="module")
def trees() -> dict[pathlib.Path, ast.AST]:
    return {path: ast.parse(path.read_text()) for path in modules()}


def test_layers_import_only_what_lies_below_them(trees: dict[pathlib.Path, ast.AST]) -> None:
    broken = [
        b for path, tree in trees.items() if path.is_relative_to(PACKAGE) for b in broken_import_rules(path, tree)
    ]
    assert broken == []


def test_no_banned_calls_names_or_long_functions(trees: dict[pathlib.Path, ast.AST]) -> None:
    broken = [b for path, tree in trees.items() for b in broken_code_rules(path, tree)]
    assert broken == []


def test_files_stay_small() -> None:
    long = {
        p.relative_to(SOURCE).as_posix(): n
        for p in modules()
        if (n := len(p.read_text().splitlines())) > FILE_LINES_MAX
    }
    assert long == {}


def test_every_module_says_what_it_decides(trees: dict[pathlib.Path, ast.AST]) -> None:
    silent = [
        p.relative_to(SOURCE).as_posix()
        for p, tree in trees.items()
        if isinstance(tree, ast.Module) and p.read_text().strip() and not ast.get_docstring(tree)
    ]
    assert silent == []


@pytest.mark.parametrize(
    ("file", "source", "says"),
    [
        ("core/example.py", "import time", "reaches the outside"),
        ("broker/example.py", "from oncelog.client import producer", "may not import client"),
        ("wire/example.py", "from oncelog.core.leader.partition import Partition", "may not import core"),
        ("core/example.py", "def f(epoch): ...", "bare `epoch`"),
        ("client/example.py", "import asyncio\nasyncio.create_task(x)", "TaskGroup"),
        ("client/example.py", "try: ...\nexcept Exception: ...", "catches everything"),
        ("log/example.py", "def f():\n" + "    x = 1\n" * 71, "has 72 lines"),
    ],
)
def test_the_rules_can_fail(file: str, source: str, says: str) -> None:
    """Each rule meets a file that breaks it: a check that cannot fail is none."""
    path, tree = PACKAGE / file, ast.parse(source)
    broken = [*broken_import_rules(path, tree), *broken_code_rules(path, tree)]
    assert any(says in line for line in broken), broken
