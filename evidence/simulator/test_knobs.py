"""No tuning number is forgotten, each really takes effect when it is drawn, and a run leaves none behind."""

from __future__ import annotations

import ast
import pkgutil
import random
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import oncelog
from evidence.simulator.cluster import broker_config
from evidence.simulator.faults import PROFILES, calm, draw
from evidence.simulator.knobs import BETWEEN, HIGH, KNOBS, LOW, draw_knobs, holders, options_of, turned, value_of
from evidence.simulator.not_knobs import NAMED, reason_for
from evidence.simulator.simulation import run_seed
from oncelog.broker.broker import Broker
from oncelog.client.config import ConsumerConfig, ProducerConfig

SOURCE = Path(oncelog.__file__).parent
PACKAGES = ("broker", "client", "core", "log", "host", "wire", "recipes")
CONSTANTS = [knob for knob in KNOBS.values() if knob.is_constant]


def _files() -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        for path in sorted((SOURCE / package).rglob("*.py")):
            parts = path.relative_to(SOURCE).with_suffix("").parts
            yield ".".join(("oncelog", *parts)).removesuffix(".__init__"), path


FILES = dict(_files())


@cache
def tree_of(module: str) -> ast.Module:
    """Read when a test asks: every process of the suite imports this file, one runs it."""
    return ast.parse(FILES[module].read_text())


def _is_number(value: ast.expr) -> bool:
    if isinstance(value, ast.Constant):
        return isinstance(value.value, (int, float)) and not isinstance(value.value, bool)
    if isinstance(value, ast.UnaryOp):
        return _is_number(value.operand)
    if isinstance(value, ast.BinOp):
        sides = (value.left, value.right)
        return any(map(_is_number, sides)) and all(isinstance(side, ast.Name) or _is_number(side) for side in sides)
    return isinstance(value, ast.Tuple) and bool(value.elts) and all(map(_is_number, value.elts))


def _numbers(tree: ast.Module) -> Iterator[str]:
    """The names of a module's numbers."""
    for statement in tree.body:
        targets: list[ast.expr] = []
        if isinstance(statement, ast.Assign) and _is_number(statement.value):
            targets = statement.targets
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None and _is_number(statement.value):
            targets = [statement.target]
        for target in targets:
            for each in target.elts if isinstance(target, ast.Tuple) else (target,):
                assert isinstance(each, ast.Name)
                yield each.id


def test_every_number_of_a_module_is_a_knob_or_has_a_reason() -> None:
    present = {(module, name) for module in FILES for name in _numbers(tree_of(module))}
    assert len(present) > 300
    neither = [f"{m}.{n}" for m, n in sorted(present) if f"{m}.{n}" not in KNOBS and reason_for(m, n) is None]
    assert not neither, f"put each into knobs.py, or with a reason into not_knobs.py: {neither}"
    names = {f"{module}.{name}" for module, name in present}
    assert {knob.name for knob in CONSTANTS} <= names, "a knob is gone, or has moved"
    assert set(NAMED) <= names, "a number is gone, or has moved"
    assert not set(NAMED) & set(KNOBS)


def test_a_new_number_would_be_noticed() -> None:
    tree = ast.parse("LANES = 64\nPAUSE_S: float = 0.5\nSMALL, LARGE = 1, 1 << 20\nSIZE = 4 * LANES\nNAME = 'x'")
    assert list(_numbers(tree)) == ["LANES", "PAUSE_S", "SMALL", "LARGE", "SIZE"]
    assert reason_for("oncelog.broker.broker", "LANES") is None


def _frozen_uses(tree: ast.AST, names: set[str]) -> Iterator[int]:
    """Lines where one of the names is read when the module is imported: what is drawn later would not reach them."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
            yield node.lineno
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            waiting += [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]
        elif isinstance(node, ast.Lambda):
            waiting += [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        else:
            waiting += ast.iter_child_nodes(node)


def _imported_as_is(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                if f"{node.module}.{alias.name}" in KNOBS:
                    assert alias.asname is None, f"{node.module}.{alias.name} is imported under another name"
                    yield node.module, alias.name


@cache
def imported() -> dict[str, frozenset[tuple[str, str]]]:
    return {module: frozenset(_imported_as_is(tree_of(module))) for module in FILES}


@pytest.mark.parametrize("module", FILES)
def test_no_knob_is_read_once_and_for_all(module: str) -> None:
    tree = tree_of(module)
    names = {knob.place[1] for knob in CONSTANTS if knob.place[0] == module}
    names |= {name for _, name in imported()[module]}
    assert not list(_frozen_uses(tree, names)), f"{module} reads a knob when it is imported: read it where it is used"


def test_a_frozen_use_would_be_noticed() -> None:
    tree = ast.parse(
        "def f(n=LANES):\n    return LANES\nclass C:\n    n = LANES\ng = lambda n=LANES: LANES\nTWICE = 2 * LANES"
    )
    assert sorted(_frozen_uses(tree, {"LANES"})) == [1, 4, 5, 6]


def _import_all() -> None:
    for package in PACKAGES:
        root = import_module(f"oncelog.{package}")
        for each in pkgutil.walk_packages(root.__path__, f"oncelog.{package}."):
            try:
                import_module(each.name)
            except ImportError:
                continue  # it needs what is not installed


@pytest.mark.parametrize("knob", CONSTANTS, ids=lambda knob: knob.name)
def test_a_drawn_constant_is_everywhere_and_then_nowhere(knob) -> None:  # type: ignore[no-untyped-def]
    _import_all()
    module, name = knob.place
    before = getattr(sys.modules[module], name)
    value = knob.low if before != knob.low else knob.high
    importers = [each for each, names in imported().items() if (module, name) in names]
    with turned((f"{knob.name}:{value!r}",)):
        assert {each.__name__ for each in holders(module, name)} == {module, *importers}
        assert all(getattr(sys.modules[each], name) == value for each in (module, *importers))
    assert all(getattr(sys.modules[each], name) == before for each in (module, *importers))


def test_drawn_keys_and_options_exist_and_are_taken() -> None:
    drawn = tuple(f"{knob.name}:{knob.low!r}" for knob in KNOBS.values() if not knob.is_constant)
    config = Broker("data", broker_config(calm())).config
    keys = options_of(drawn, "broker")
    assert len(keys) > 20
    assert all(hasattr(config, name) for name in keys)
    settings = {"request_timeout_ms": 3000, "bootstrap_servers": "broker:9092"}
    ProducerConfig.of({**settings, **options_of(drawn, "client", "producer")})
    ConsumerConfig.of({**settings, **options_of(drawn, "client", "consumer")})


@pytest.mark.parametrize("profile", PROFILES)
def test_a_seed_draws_the_same_knobs_each_time_and_extremes_often(profile: str) -> None:
    assert draw(3, profile).knobs == draw(3, profile).knobs
    levels = {LOW: set[str](), HIGH: set[str](), BETWEEN: set[str]()}
    counts = []
    for seed in range(300):
        drawn = draw_knobs(random.Random(f"knobs {profile} {seed}"))
        counts.append(len(drawn))
        for knob, value in map(value_of, drawn):
            assert knob.low <= value <= knob.high
            levels[knob.level(value)].add(knob.name)
    assert len(levels[LOW]) == len(KNOBS)
    assert len(levels[HIGH]) > 0.9 * len(KNOBS)
    assert sorted(counts)[150] < len(KNOBS) / 10, "most runs are near the defaults"


def test_what_is_no_knob_is_refused() -> None:
    with pytest.raises(ValueError, match="is no knob"):
        value_of("oncelog.core.transactions.transaction.LAST_PRODUCER_EPOCH:7")


def test_a_run_with_every_knob_at_its_lowest_loses_nothing() -> None:
    for level in (LOW, HIGH):
        options = calm()
        options.has_cleaner = options.has_compacted_topic = True
        options.knobs = tuple(f"{knob.name}:{knob.low if level == LOW else knob.high!r}" for knob in KNOBS.values())
        verdict = run_seed(1, options=options)
        assert not verdict.findings, "\n".join([level, *verdict.trace, *map(str, verdict.findings)])
