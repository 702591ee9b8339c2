"""`oncelog.lazy_dataclass`: whatever one can do with a class of the standard library's decorator gives the same with ours."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pathlib
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import InitVar, field
from functools import partial
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog import lazy_dataclass

OPTIONS = ("init", "repr", "eq", "frozen", "slots", "kw_only")
DEFAULTS = (dataclasses.MISSING, 0, "text", None, ("a", 1))
VALUES = st.one_of(st.integers(), st.text(max_size=3), st.none(), st.just([1]))


@st.composite
def _shapes(draw: st.DrawFn) -> tuple[dict[str, bool], dict[str, Any], dict[str, Any], bool]:
    """Options, fields by name, methods of the class's own, and whether a field is inherited."""
    options = draw(st.fixed_dictionaries({}, optional={name: st.booleans() for name in OPTIONS}))
    fields: dict[str, Any] = {}
    for name in "abcd"[: draw(st.integers(0, 4))]:
        arguments = draw(
            st.fixed_dictionaries({}, optional={n: st.booleans() for n in ("init", "repr", "compare", "kw_only")})
        )
        default = draw(st.sampled_from((*DEFAULTS, list)))
        if default is list:
            arguments["default_factory"] = list
        elif default is not dataclasses.MISSING:
            arguments["default"] = default
        fields[name] = arguments
    methods = {"__repr__": lambda self: "own", "__eq__": lambda self, other: True, "__hash__": lambda self: 7}
    own: dict[str, Any] = {name: method for name, method in methods.items() if draw(st.integers(0, 4)) == 0}
    if draw(st.integers(0, 9)) == 0:
        own["__init__"] = lambda self, *args, **kwargs: order.append("own")
    if draw(st.booleans()):
        own["__post_init__"] = lambda self: order.append(type(self).__name__)
    return options, fields, own, draw(st.booleans())


order: list[str] = []


def _outcome(what: Callable[[], Any]) -> tuple[str, Any]:
    """What came back, or what was raised, in words that two classes of one name share."""
    try:
        return "gave", what()
    except (TypeError, ValueError, AttributeError) as error:
        return type(error).__name__, str(error)


def _class(decorate: Any, shape: tuple[dict[str, bool], dict[str, Any], dict[str, Any], bool]) -> Any:
    options, fields, own, inherits = shape
    base: type = object
    if inherits:
        base = decorate(frozen=options.get("frozen", False))(
            type("Base", (), {"__annotations__": {"z": "int"}, "z": 5, "__doc__": ""})
        )
    body = {
        "__annotations__": dict.fromkeys(fields, "Any") | {"shared": "ClassVar[int]"},
        "shared": 3,
        "__module__": __name__,
    }
    body |= {name: field(**arguments) for name, arguments in fields.items()} | own | {"__doc__": "A class."}
    return decorate(**options)(type("Drawn", (base,), body))


@settings(max_examples=300, deadline=None)
@given(_shapes(), st.lists(VALUES, max_size=5), st.dictionaries(st.sampled_from("abcdz"), VALUES), st.data())
def test_whatever_is_asked_of_a_class_gives_the_same(
    shape: Any, args: list[Any], kwargs: dict[str, Any], data: st.DataObject
) -> None:
    usual = _outcome(lambda: _class(dataclasses.dataclass, shape))
    ours = _outcome(lambda: _class(lazy_dataclass.dataclass, shape))
    if usual[0] != "gave":  # a field without a default behind one with: nobody can make an object of ours either
        assert usual == (ours if ours[0] != "gave" else _outcome(ours[1])) or "__init__" in shape[2]
        return
    assert ours[0] == "gave"
    changed = data.draw(st.lists(st.sampled_from("abcdz"), max_size=3, unique=True))
    questions: dict[str, Callable[[Any], Any]] = {
        "signature": lambda cls: str(inspect.signature(cls)),
        "repr": lambda cls: repr(cls(*args, **kwargs)),
        "equal": lambda cls: (cls(*args, **kwargs) == cls(*args, **kwargs), cls(*args, **kwargs) == 3),
        "hash": lambda cls: hash(cls(*args, **kwargs)) if cls.__hash__ is not object.__hash__ else "by identity",
        "assign": lambda cls: setattr(cls(*args, **kwargs), "a", 1),
        "delete": lambda cls: delattr(cls(*args, **kwargs), "a"),
        "replace": lambda cls: (
            repr(dataclasses.replace(cls(*args, **kwargs), a=1)) if cls.__repr__ is not object.__repr__ else 0
        ),
        "our_replace": lambda cls: (
            repr(
                (lazy_dataclass.replace if cls is ours[1] else dataclasses.replace)(
                    cls(*args, **kwargs), **dict.fromkeys(changed, 7)
                )
            )
            if cls.__repr__ is not object.__repr__
            else 0
        ),
        "as_dict": lambda cls: dataclasses.asdict(cls(*args, **kwargs)),
        "copy": lambda cls: dataclasses.astuple(copy.deepcopy(cls(*args, **kwargs))),
        "match": lambda cls: cls.__match_args__,
        "names": lambda cls: [each.name for each in dataclasses.fields(cls)],
        "slots": lambda cls: cls.__dict__.get("__slots__"),
    }
    for name, ask in data.draw(st.permutations(sorted(questions.items()))):
        order.clear()
        expected = _outcome(partial(ask, usual[1]))
        ran = list(order)
        order.clear()
        got = _outcome(partial(ask, ours[1]))
        if " at 0x" in str(expected) or "super(type, obj)" in str(expected):
            continue  # an object's own repr tells its address; 3.11 stumbles where what is assigned to is no field
        assert (name, got, order) == (name, expected, ran)


@lazy_dataclass.dataclass(frozen=True, slots=True)
class _Kept:
    first: int
    second: list[int] = field(default_factory=list)


@lazy_dataclass.dataclass
class _Counted:
    made: ClassVar[int] = 0
    start: InitVar[int]
    value: int = 0

    def __post_init__(self, start: int) -> None:
        self.value += start


def test_a_frozen_object_with_slots_can_be_pickled_and_copied() -> None:
    kept = _Kept(1, [2])
    assert pickle.loads(pickle.dumps(kept)) == kept == copy.copy(kept)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'first'"):
        kept.first = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'first'"):
        del kept.first  # type: ignore[misc]


def test_a_value_for_the_start_only_goes_to_post_init() -> None:
    assert _Counted(3, 4).value == 7
    assert [each.name for each in dataclasses.fields(_Counted)] == ["value"]


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="order"):
        lazy_dataclass.dataclass(order=True)(type("Ordered", (), {}))


def test_a_method_is_compiled_by_its_first_call_and_stays() -> None:
    @lazy_dataclass.dataclass(frozen=True)
    class Once:
        value: int

    before = Once.__init__
    assert Once(1) == Once(1)
    compiled = Once.__init__
    assert compiled is not before
    assert before(object.__new__(Once), 2) is None  # whoever kept what stood there: it still makes one
    assert Once(3).value == 3
    with pytest.raises(TypeError, match=r"Once\.__init__\(\) missing 1 required positional argument: 'value'"):
        Once()  # type: ignore[call-arg]


def test_the_standard_librarys_decorator_is_nowhere_in_the_package() -> None:
    package = pathlib.Path(lazy_dataclass.__file__).parent
    found = [
        str(path) for path in package.rglob("*.py") if path.name != "lazy_dataclass.py" and _decorates(path.read_text())
    ]
    assert found == []


def _decorates(source: str) -> bool:
    lines = source.splitlines()
    return any(line.startswith("@dataclasses.dataclass") for line in lines) or any(
        line.strip().startswith("from dataclasses import")
        and "dataclass" in line.split("import", 1)[1].replace(",", " ").split()
        for line in lines
    )


def test_few_methods_are_compiled_before_a_broker_is_there() -> None:
    program = (
        "import dataclasses, oncelog.lazy_dataclass as ours; made = []; compiled = []; real = dataclasses._process_class\n"
        "def count(cls, *args, **kwargs): made.append(any(args[:3])); return real(cls, *args, **kwargs)\n"
        "def count_ours(cls, name, _=ours._compiled, **kw): compiled.append(cls); return _(cls, name, **kw)\n"
        "dataclasses._process_class = count; ours._compiled = count_ours\n"
        "import oncelog.cli.commands.serve, oncelog.broker\n"
        "print(len(made), sum(made), len(compiled))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    classes, by_the_standard_library, by_ours = map(int, done.stdout.split())
    assert classes > 60
    assert by_the_standard_library < 5, "what is compared or printed while modules load"
    assert 0 < by_ours < 25, "classes whose objects the modules themselves make: wire types, defaults"
