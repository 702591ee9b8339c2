"""The house rules, checked: who may import whom, what reaches the outside, names, sizes (ARCHITECTURE.md: why)."""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Iterator

import conftest
import pytest

ROOT = pathlib.Path(__file__).parent.parent
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "oncelog"

BASE = {"errors", "lazy_dataclass", "types"}
APPLICATIONS = {"client", "core", "wire", "host", "sync", *BASE}
MAY_IMPORT = {
    "error_codes": set(),
    "error_guide": set(),
    "errors": {"error_codes"},
    "lazy_dataclass": set(),
    "types": {"errors", "lazy_dataclass"},
    "hot_paths": set(),
    "version": set(),
    "wire": BASE,
    "log": {"wire", *BASE},
    "core": {"wire", *BASE},
    "host": {"log", *BASE},
    "segments": {"log", "core", "wire", *BASE},
    "broker": {"host", "log", "core", "wire", *BASE},
    "client": {"host", "core", "wire", "version", *BASE},
    "sync": {"client", "host", "core", *BASE},
    "schema": {"client", "host", *BASE},
    "opentelemetry": {"client", "version", *BASE},
    "faststream": {"client", "core", "host", *BASE},
    "recipes": APPLICATIONS,
    "spark": {"recipes", "segments", *APPLICATIONS},
    "cli": {"recipes", "segments", "spark", "checker", "hot_paths", *APPLICATIONS},
    "console": {"cli", "recipes", *APPLICATIONS},  # the words and rows of the commands that show the same
    "demo": {"spark", *APPLICATIONS},
    "checker": {"wire", *BASE},
    "testing": {"broker", "checker", *APPLICATIONS},
}
# One door each: `serve`, `recover DIRECTORY` and `secure` start a broker, `dump-log` reads files, `doctor` looks at the machine.
ALLOWED_BESIDE = {
    "cli/commands/serve.py": {"broker", "log"},
    "cli/dump_log/completeness.py": {"log"},
    "cli/dump_log/dump_log.py": {"log"},
    "cli/commands/console.py": {"console"},
    "cli/commands/recover_directory.py": {"broker"},
    "cli/secure/credentials.py": {"broker"},
    "cli/exposure/examination.py": {"broker"},
    "cli/dump_log/files.py": {"log"},
    "cli/dump_log/journal.py": {"log"},
    "cli/commands/doctor.py": {"log"},
    "host/files.py": {"log"},
}
# Inside the three big rooms: what each may import of its neighbours, beside its room's root and the layers below.
ROOMS = {
    "core": set(),  # its root: decision, name_pattern, offset_reset, placement
    "core/leader": set(),
    "core/transactions": set(),
    "core/metadata": set(),
    "core/client_metrics": {"core/metadata"},
    "core/access": {"core/metadata"},
    "core/groups": {"core/groups/classic", "core/groups/consumer", "core/groups/share", "core/groups/streams"},
    "core/groups/classic": {"core/groups"},
    "core/groups/consumer": {"core/groups", "core/groups/classic", "core/metadata"},
    "core/groups/share": {"core/groups", "core/groups/classic", "core/groups/consumer"},
    "core/groups/streams": {"core/groups", "core/groups/classic", "core/groups/consumer"},
    "core/share": set(),
    "core/processes": {"core/access"},
    "core/sharing": set(),
    "core/producer": set(),
    "core/consumer": set(),
    "core/two_phase": set(),
    "core/processing": set(),
    "core/telemetry": set(),
    "core/sasl": set(),
    "core/login": set(),
    "core/diagnosis": set(),
    "core/reconciliation": {"core/migration", "core/two_phase"},
    "core/lanes": {"core/diagnosis"},
    "core/migration": set(),
    "broker/config": {"core/access", "core/metadata", "core/sasl"},
    "broker/metrics": {"broker/config", "core/client_metrics"},
    "broker/requests": set(),
    "broker/partitions": {"broker/config", "broker/metrics", "core/leader", "core/metadata"},
    "broker/metadata": {"broker/config", "broker/metrics", "broker/partitions", "core/leader", "core/metadata"},
    "broker/network": {"broker/config", "broker/metrics", "broker/requests"}
    | {"core/access", "core/metadata", "core/sasl"},
    "broker/admission": {"broker/config", "broker/metrics", "broker/requests", "core/access", "core/metadata"},
    "broker/coordinators": {
        "broker/admission",
        "broker/config",
        "broker/metadata",
        "broker/metrics",
        "broker/network",
        "broker/partitions",
        "broker/requests",
        "core/groups",
        "core/leader",
        "core/metadata",
        "core/transactions",
    },
    "broker/share": {
        "broker/config",
        "broker/coordinators",
        "broker/metadata",
        "broker/partitions",
        "core/leader",
        "core/metadata",
        "core/share",
    },
    "broker/handlers": {"broker", "broker/config", "broker/coordinators", "broker/partitions", "broker/requests"}
    | {
        "core/groups",
        "core/groups/classic",
        "core/groups/consumer",
        "core/groups/share",
        "core/groups/streams",
        "core/leader",
        "core/metadata",
    }
    | {"broker/share", "core/share"}
    | {"core/client_metrics", "core/transactions"},
    "client": {"client/consumer", "core/consumer", "core/login", "core/producer"},
    "client/cluster": {"client", "core/login", "core/telemetry"},
    "client/producer": {"client", "client/cluster", "core/producer"},
    "client/consumer": {"client", "client/cluster", "core/consumer"},
    "client/admin": {"client", "client/cluster", "core/diagnosis", "core/lanes"},
    "client/sharing": {"client", "client/cluster", "client/consumer", "core/sharing"},
    "client/processing": {"client", "client/consumer", "client/producer", "core/processing"},
}
ROOMS["broker"] = {room for room in ROOMS if room.startswith("broker/")} | {
    "core/access",
    "core/processes",
    "core/leader",
    "core/metadata",
}
# The wall: a client and a broker speak as peers, and neither knows the other's machines.
CLIENTS_OWN = {"core/sharing", "core/login", "core/producer", "core/consumer", "core/two_phase", "core/processing"} | {
    "core/telemetry",
    "core/diagnosis",
    "core/lanes",
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
    "segments": OUTSIDE,
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


def import_statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Wherever they stand: in functions, branches and handlers, too. Expressions, most of a tree, hold none."""
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        for node in getattr(tree, block, ()):
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield node
            else:
                yield from import_statements(node)


def imported_names(tree: ast.AST) -> Iterator[str]:
    for node in import_statements(tree):
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


def room_of(path: pathlib.Path) -> str:
    """The room of a file in a big room, with its sub-room; handlers are one room. "" outside the three big rooms."""
    parts = path.relative_to(PACKAGE).parts[:-1]
    if not parts or parts[0] not in ("core", "broker", "client"):
        return ""
    return "/".join(parts[:2] if parts[:2] == ("broker", "handlers") else parts)


def module_files(name: str, names: tuple[str, ...]) -> Iterator[pathlib.Path]:
    """The files that `from name import names` reads: sub-modules where the names are such, else the module itself."""
    base = SOURCE / name.replace(".", "/")
    found = [path for each in names if (path := base / f"{each}.py").exists()]
    yield from found
    if len(found) < len(names):
        yield base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


def imported_files(tree: ast.AST) -> Iterator[pathlib.Path]:
    """Every file of the package that a file imports, for type checking or late imports included."""
    for node in import_statements(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "oncelog":
            yield from module_files(node.module or "", tuple(alias.name for alias in node.names))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "oncelog":
                    yield from module_files(alias.name, ())


def broken_room_rules(path: pathlib.Path, tree: ast.AST) -> Iterator[str]:
    room = room_of(path)
    where = path.relative_to(SOURCE)
    if not room:
        return
    if room not in ROOMS:
        yield f"{where}: {room}/ is no room that ROOMS knows"
        return
    for file in imported_files(tree):
        other = room_of(file) if file.is_relative_to(PACKAGE) else ""
        if other in ("", "core", room) or other in ROOMS[room]:
            continue
        yield f"{where}: {room}/ may not import {other}/"
    is_client = room.startswith("client")
    for file in imported_files(tree):
        other = room_of(file) if file.is_relative_to(PACKAGE) else ""
        if other.startswith("core/") and room.split("/")[0] != "core" and (other in CLIENTS_OWN) != is_client:
            yield f"{where}: the wall: {room}/ may not import {other}/"


def circles(graph: dict[pathlib.Path, set[pathlib.Path]]) -> list[list[str]]:
    """The strongly connected parts of more than one file (Tarjan)."""
    order: dict[pathlib.Path, int] = {}
    low: dict[pathlib.Path, int] = {}
    stack: list[pathlib.Path] = []
    found: list[list[str]] = []

    def visit(at: pathlib.Path) -> None:
        order[at] = low[at] = len(order)
        stack.append(at)
        for to in graph[at]:
            if to not in order:
                visit(to)
                low[at] = min(low[at], low[to])
            elif to in stack:
                low[at] = min(low[at], order[to])
        if low[at] == order[at]:
            part = stack[stack.index(at) :]
            del stack[stack.index(at) :]
            if len(part) > 1:
                found.append(sorted(each.relative_to(SOURCE).as_posix() for each in part))

    for each in graph:
        if each not in order:
            visit(each)
    return found


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


def test_rooms_import_only_what_their_row_allows(trees: dict[pathlib.Path, ast.AST]) -> None:
    broken = [b for path, tree in trees.items() if path.is_relative_to(PACKAGE) for b in broken_room_rules(path, tree)]
    assert broken == []


def test_every_row_of_the_rooms_is_needed(trees: dict[pathlib.Path, ast.AST]) -> None:
    """A right that nobody uses is a door left open."""
    used: dict[str, set[str]] = {room: set() for room in ROOMS}
    for path, tree in trees.items():
        if path.is_relative_to(PACKAGE) and (room := room_of(path)):
            used[room] |= {room_of(file) for file in imported_files(tree) if file.is_relative_to(PACKAGE)}
    assert {room: sorted(may - used[room]) for room, may in ROOMS.items() if may - used[room]} == {}


def test_no_import_circles(trees: dict[pathlib.Path, ast.AST]) -> None:
    """Imports for type checking and late ones count: what a file knows of is what it knows of."""
    files = {path for path in trees if path.is_relative_to(PACKAGE)}
    graph = {path: {file for file in imported_files(trees[path]) if file in files and file != path} for path in files}
    assert circles(graph) == []


def test_circles_are_found() -> None:
    a, b, c, d = (SOURCE / f"{name}.py" for name in "abcd")
    assert circles({a: {b}, b: {c}, c: {a}, d: {a}}) == [["a.py", "b.py", "c.py"]]
    assert circles({a: {b}, b: {c}, c: set(), d: {a}}) == []


def test_no_banned_calls_names_or_long_functions(trees: dict[pathlib.Path, ast.AST]) -> None:
    broken = [b for path, tree in trees.items() for b in broken_code_rules(path, tree)]
    assert broken == []


def test_evidence_imports_no_tests_and_tests_only_the_world() -> None:
    """What searches for mistakes stands beside the tests; both use evidence/world/."""
    root = SOURCE.parent
    wrong = [
        f"{path.relative_to(root)}: {name}"
        for folder in ("evidence", "tests")
        for path in sorted((root / folder).rglob("*.py"))
        for name in imported_names(ast.parse(path.read_text()))
        if (name.split(".")[0] == "tests" if folder == "evidence" else name.split(".")[0] == "evidence")
        and not (folder == "tests" and name.split(".")[:2] == ["evidence", "world"])
    ]
    assert wrong == []


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
        ("core/leader/example.py", "from oncelog.core.groups.config import GroupConfig", "core/leader/ may not import"),
        ("broker/network/example.py", "from oncelog.broker.handlers import answer", "may not import broker/handlers"),
        ("broker/network/example.py", "from oncelog.core.producer.batch import ProducerBatch", "the wall"),
        ("client/admin/example.py", "from oncelog.core.metadata import acl", "the wall"),
        ("core/new/example.py", "x = 1", "no room that ROOMS knows"),
    ],
)
def test_the_rules_can_fail(file: str, source: str, says: str) -> None:
    """Each rule meets a file that breaks it: a check that cannot fail is none."""
    path, tree = PACKAGE / file, ast.parse(source)
    broken = [*broken_import_rules(path, tree), *broken_room_rules(path, tree), *broken_code_rules(path, tree)]
    assert any(says in line for line in broken), broken


def test_the_files_that_the_suites_order_names_exist_and_stand_once():
    named = [*conftest.LONG, *conftest.LONGEST]
    assert sorted(set(named)) == sorted(named)
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_no_test_changes_the_time_of_the_whole_process() -> None:
    """Brokers of other tests run in threads beside it: an event loop that asked a patched `time.monotonic` ended."""
    patched = re.compile(r"setattr\((?:\w+\.)*time, \"(?:monotonic|time|time_ns|monotonic_ns)\"")
    folders = (ROOT / "tests", ROOT / "evidence")
    found = [str(path) for folder in folders for path in folder.rglob("*.py") if patched.search(path.read_text())]
    example = 'time, "monotonic", lambda: 0)'
    assert patched.search(f"setattr(module.{example}")
    assert found == []
