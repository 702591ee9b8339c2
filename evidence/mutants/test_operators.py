"""Each operator on a small piece of code, and what is left alone."""

from __future__ import annotations

import ast

import pytest

from evidence.mutants.attributes import Attributes
from evidence.mutants.operators import Mutation, mutations


def mistakes(text: str) -> set[str]:
    return {each.name.rpartition(" | ")[2] for each in of(text)}


def of(text: str) -> list[Mutation]:
    found = mutations("src/oncelog/core/a.py", text, Attributes([text]))
    for each in found:
        wrong = each.planted(text)
        assert ast.dump(ast.parse(wrong)) != ast.dump(ast.parse(text)), each.name
    return found


def in_function(body: str, head: str = "def f(a, b, xs):") -> set[str]:
    return mistakes(head + "\n" + "".join(f"    {line}\n" for line in body.splitlines()))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return a < b", {"comparison: a < b -> a >= b", "boundary: a < b -> a <= b"}),
        ("return a is None", {"comparison: a is None -> a is not None"}),
        ("return a in b", {"comparison: a in b -> a not in b"}),
        (
            "return a and b",
            {"boolean: a and b -> (a or b)", "dropped operand: a and b -> (b)", "dropped operand: a and b -> (a)"},
        ),
        ("return not a", {"boolean: not a -> bool(a)"}),
        (
            "return a + 1",
            {"constant: 1 -> 2", "constant: 1 -> 0", "arithmetic: a + 1 -> (a - 1)", "boundary: a + 1 -> (a)"},
        ),
        ("b = True", {"constant: True -> False"}),
        ("b = 30_000", {"constant: 30_000 -> 60000", "constant: 30_000 -> 15000"}),
        ("b = 'acks'", {"constant: 'acks' -> 'acks_other'"}),
        ("a.close()", {"dropped call: a.close() -> pass"}),
        ("a.x = b", {"dropped statement: a.x = b -> pass"}),
        ("a += b", {"dropped statement: a += b -> pass"}),
        ("raise KeyError(a)", {"dropped raise: raise KeyError(a) -> pass"}),
        (
            "if a:\n    return b",
            {"condition forced: a -> True", "condition forced: a -> False"},
        ),
        ("while a:\n    break", {"condition forced: a -> False", "continue and break: break -> continue"}),
        ("for x in xs:\n    continue", {"continue and break: continue -> break"}),
        ("return [x for x in xs if x]", {"condition forced: x -> True"}),
        ("return min(a, b)", {"other function: min -> max"}),
        (
            "a.write(b)\na.sync()",
            {
                "swapped order: a.write(b) a.sync() -> a.sync() a.write(b)",
                "dropped call: a.write(b) -> pass",
                "dropped call: a.sync() -> pass",
            },
        ),
    ],
)
def test_an_operator(body: str, expected: set[str]) -> None:
    assert in_function(body) == expected


def test_an_await_is_dropped_with_its_call_or_alone() -> None:
    assert in_function("await a.sync()", "async def f(a):") == {
        "dropped call: await a.sync() -> pass",
        "dropped await: await a.sync() -> __import__('asyncio').ensure_future(a.sync())",
    }


@pytest.mark.parametrize(
    ("returns", "expected"),
    [
        ("bool", "other result: a -> (not (a))"),
        ("int", "other result: a -> (a) + 1"),
        ("str", 'other result: a -> ""'),
        ("Batch | None", "other result: a -> None"),
        ("list[int]", "other result: a -> []"),
    ],
)
def test_another_result_of_the_annotated_type(returns: str, expected: str) -> None:
    assert mistakes(f"def f(a) -> {returns}:\n    return a\n") == {expected}


def test_another_attribute_of_the_same_type() -> None:
    text = (
        "class Log:\n    start: int\n    end: int\n    name: str\n\n"
        "    def size(self):\n        return self.end\n\n"
        "def f(log: Log):\n    return log.start\n"
    )
    assert mistakes(text) == {"wrong attribute: self.end -> self.start", "wrong attribute: log.start -> log.end"}


def test_a_class_of_which_there_are_two_is_not_guessed() -> None:
    one, other = "class A:\n    x: int\n    y: int\n", "class A:\n    z: int\n"
    assert not Attributes([one, other]).of_the_same_type("A", "x")


@pytest.mark.parametrize(
    "text",
    [
        '"""A docstring."""\n',
        "import os\n",
        "__all__ = ['a']\n",
        "if TYPE_CHECKING:\n    x = 1\n",
        "def f(a: Literal['x'] = None) -> Annotated[int, 3]:\n    pass\n",
        "@dataclass(frozen=True)\nclass A:\n    pass\n",
        "class A:\n    def __repr__(self):\n        return 'A'[1]\n",
        "def f():\n    _log.warning('stopped', 3)\n",
        "def f():\n    assert f < 3\n",
        "def f():\n    x = f'{1}'\n",
        "def f():\n    x = 'a text for people'\n",
    ],
)
def test_what_cannot_matter_is_left_alone(text: str) -> None:
    assert mistakes(text) == set()


def test_the_help_of_an_option_is_left_alone() -> None:
    assert in_function("b = option(help='text')") == set()


def test_what_a_raise_says_is_left_alone() -> None:
    assert in_function("raise KeyError('name', 3)") == {"dropped raise: raise KeyError('name', 3) -> pass"}


def test_the_same_mistake_twice_in_a_line_has_two_names() -> None:
    names = [each.name for each in of("def f(a):\n    return g(a == 0, a == 0)\n") if each.operator == "comparison"]
    assert names == [
        "f | return g(a == 0, a == 0) | comparison: a == 0 -> a != 0",
        "f | return g(a == 0, a == 0) | comparison: a == 0 -> a != 0 #2",
    ]


def test_characters_of_several_bytes_shift_nothing() -> None:
    text = "def f(a):\n    return g('ä€ö', a < 1)\n"
    boundary = next(each for each in of(text) if each.operator == "boundary")
    assert boundary.planted(text) == "def f(a):\n    return g('ä€ö', a <= 1)\n"


def test_a_compound_statement_is_covered_by_its_head() -> None:
    text = "def f(a):\n    if (\n        a\n    ):\n        g()\n"
    forced = next(each for each in of(text) if each.operator == "condition forced")
    assert (forced.first_line, forced.last_line) == (2, 4)
