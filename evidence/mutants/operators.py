"""The defects that are drawn: what one small mistake can make of one statement.

Each operator looks at one node of the syntax tree and says what could stand there instead. A mutation replaces exactly
that node's text, so the rest of the file, and its line numbers before the node, stay as they are.

Left out by rule, because no test should notice: docstrings and annotations, `if TYPE_CHECKING`, imports, decorators,
`__all__` and `__slots__`, `__repr__` and `__str__`, what goes to a logger, texts for people (strings with a space,
f-strings, what is inside a `raise`), and assertions, which never decide anything in sound code.
"""

from __future__ import annotations

import ast
import hashlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from evidence.mutants.attributes import Attributes

NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
}
BOUNDARIES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
PAIRS = (("min", "max"), ("any", "all"), ("bisect_left", "bisect_right"))
SWAPPED_CALLS = {one: other for pair in PAIRS for one, other in (pair, pair[::-1])}
EMPTY = (("list[", "[]"), ("dict[", "{}"), ("set[", "set()"), ("frozenset[", "frozenset()"), ("bytes", 'b""'))
LARGE = 1000  # a time or a size: one more or less is nothing
LOGGERS = frozenset({"log", "_log", "logger", "_logger", "logging"})
LOG_METHODS = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})
TEXT_ARGUMENTS = frozenset({"help", "short_help", "epilog", "description", "metavar", "doc", "documentation"})
UNTOUCHED_NAMES = frozenset({"__all__", "__slots__", "__version__"})
UNTOUCHED_FUNCTIONS = frozenset({"__repr__", "__str__"})
Replacement = tuple[str, ast.AST, str]  # the operator, what it replaces, by what


@dataclass(frozen=True, slots=True)
class Mutation:
    """Replace `before`, at these characters of the file, by `after`."""

    file: str
    function: str  # the qualified name of what it stands in, "" at the module's top
    first_line: int
    last_line: int
    line: str  # the statement's first line, without indentation
    operator: str
    before: str
    after: str
    digest: str  # of the function that it is in; of the statement, where it is in none
    start: int = field(compare=False)
    occurrence: int = field(default=0)  # among the same mutations of the same line's text in the same function

    def planted(self, text: str) -> str:
        assert text[self.start : self.start + len(self.before)] == self.before, f"{self.file} is not the file it was"
        return text[: self.start] + self.after + text[self.start + len(self.before) :]

    @property
    def name(self) -> str:
        """What it is, wherever the line stands: the key of results and reasons, without the file."""
        again = f" #{self.occurrence + 1}" if self.occurrence else ""
        return (
            f"{self.function or '-'} | {self.line} | {self.operator}: {flat(self.before)} -> {flat(self.after)}{again}"
        )


def flat(code: str) -> str:
    return " ".join(code.split())


def mutations(file: str, text: str, attributes: Attributes) -> list[Mutation]:
    """All that the operators can do to this file, in the order of its text."""
    tree = ast.parse(text)
    found = _Reader(file, text, attributes)
    found.block(tree.body, "", in_loop=False)
    return found.mutations


class _Reader:
    def __init__(self, file: str, text: str, attributes: Attributes) -> None:
        self.file, self.text, self.attributes = file, text, attributes
        self.lines = text.splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))
        self.mutations: list[Mutation] = []
        self.seen: dict[tuple[str, ...], int] = {}
        self.classes: list[str] = []
        self.functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = []

    # -- statements

    def block(self, body: list[ast.stmt], function: str, in_loop: bool) -> None:
        for statement, following in itertools.zip_longest(body, body[1:]):
            if _is_untouched(statement):
                continue
            if following is not None and not self._in_init() and _may_swap(statement, following):
                self._swap(statement, following, function)
            self._statement(statement, function, in_loop)

    def _statement(self, node: ast.stmt, function: str, in_loop: bool) -> None:
        if isinstance(node, ast.ClassDef):
            self._class(node, function)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._function(node, function)
        else:
            if not (self._in_init() and isinstance(node, ast.Assign)):
                self._note(node, of_statement(node, in_loop, self._return_annotation()), function)
            for expression in _expressions(node):
                self._note(node, self._of_expression(expression), function)
            for part in ("body", "orelse", "finalbody"):
                is_loop = isinstance(node, ast.For | ast.AsyncFor | ast.While) and part == "body"
                self.block(getattr(node, part, []), function, in_loop or is_loop)
            for handler in getattr(node, "handlers", []):
                self.block(handler.body, function, in_loop)
            for case in getattr(node, "cases", []):
                self.block(case.body, function, in_loop)

    def _in_init(self) -> bool:
        """There, an attribute that is not set fails at once, and the order of settings is seldom one."""
        return bool(self.functions) and self.functions[-1].name == "__init__"

    def _class(self, node: ast.ClassDef, function: str) -> None:
        name = f"{function}.{node.name}" if function else node.name
        for keyword in node.keywords:
            self._note(node, self._of_expression(keyword.value), name)
        self.classes.append(node.name)
        functions, self.functions = self.functions, []
        self.block(node.body, name, in_loop=False)
        self.functions = functions
        self.classes.pop()

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, function: str) -> None:
        if node.name in UNTOUCHED_FUNCTIONS or any(_name_of(each) == "overload" for each in node.decorator_list):
            return
        name = f"{function}.{node.name}" if function else node.name
        for default in (*node.args.defaults, *(each for each in node.args.kw_defaults if each is not None)):
            self._note(node, self._of_expression(default), name)
        self.functions.append(node)
        self.block(node.body, name, in_loop=False)
        self.functions.pop()

    def _return_annotation(self) -> str:
        returns = self.functions[-1].returns if self.functions else None
        return "" if returns is None else ast.unparse(returns)

    # -- expressions

    def _of_expression(self, expression: ast.expr) -> Iterator[Replacement]:
        if isinstance(expression, ast.JoinedStr):
            return
        for operator in OPERATORS:
            yield from operator(expression)
        if isinstance(expression, ast.Attribute) and isinstance(expression.ctx, ast.Load):
            yield from self._wrong_attribute(expression)
        for child in _children(expression):
            yield from self._of_expression(child)

    def _wrong_attribute(self, node: ast.Attribute) -> Iterator[Replacement]:
        owner = self._class_of(node.value)
        for other in self.attributes.of_the_same_type(owner, node.attr) if owner else ():
            yield "wrong attribute", node, f"{ast.unparse(node.value)}.{other}"

    def _class_of(self, node: ast.expr) -> str:
        """The class of `self`, or of an argument whose annotation names one."""
        if not isinstance(node, ast.Name) or not self.functions:
            return ""
        if node.id == "self" and self.classes:
            return self.classes[-1]
        arguments = self.functions[-1].args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if argument.arg == node.id and argument.annotation is not None:
                return ast.unparse(argument.annotation).removesuffix(" | None").rpartition(".")[2]
        return ""

    # -- their text

    def _note(self, statement: ast.stmt, replacements: Iterator[Replacement], function: str) -> None:
        for operator, node, after in replacements:
            start, end = self._place(node)
            if flat(self.text[start:end]) != after:
                self._add(operator, statement, function, start, end, after)

    def _add(self, operator: str, statement: ast.stmt, function: str, start: int, end: int, after: str) -> None:
        line = self.lines[statement.lineno - 1].strip()
        before = self.text[start:end]
        same = (function, line, operator, flat(before), flat(after))
        self.seen[same] = occurrence = self.seen.get(same, -1) + 1
        last = _header_end(statement)
        begin, finish = self._place(self.functions[-1] if self.functions else statement)
        digest = hashlib.sha256(self.text[begin:finish].encode()).hexdigest()[:16]
        self.mutations.append(
            Mutation(
                self.file, function, statement.lineno, last, line, operator, before, after, digest, start, occurrence
            )
        )

    def _swap(self, first: ast.stmt, second: ast.stmt, function: str) -> None:
        (start, middle), (begin, end) = self._place(first), self._place(second)
        after = self.text[begin:end] + self.text[middle:begin] + self.text[start:middle]
        self._add("swapped order", first, function, start, end, after)

    def _place(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.expr | ast.stmt)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._character(node.lineno, node.col_offset), self._character(node.end_lineno, node.end_col_offset)

    def _character(self, line: int, byte: int) -> int:
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:byte].decode())


# -- what is left alone


def _is_untouched(node: ast.stmt) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Assert | ast.Pass | ast.Global | ast.Nonlocal):
        return True
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test) or "__name__" in ast.unparse(node.test)
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) or is_log_call(node.value)
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Name) and target.id in UNTOUCHED_NAMES for target in node.targets)
    return False


def is_log_call(node: ast.expr) -> bool:
    call = node.func if isinstance(node, ast.Call) else None
    return isinstance(call, ast.Attribute) and call.attr in LOG_METHODS and _name_of(call.value) in LOGGERS


def _name_of(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _expressions(node: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement's own lines, not of the statements inside it; nothing of a `raise`."""
    if isinstance(node, ast.Raise):
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "targets", "target", "type_comment"):
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.expr):
                yield each
            elif isinstance(each, ast.withitem):
                yield each.context_expr
            elif isinstance(each, ast.match_case) and each.guard is not None:
                yield each.guard


def _children(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.JoinedStr):
        return
    if isinstance(node, ast.Call) and _name_of(node.func) in ("cast", "TypeVar", "NewType", "namedtuple"):
        yield from node.args[1:]
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.keyword):
            if child.arg not in TEXT_ARGUMENTS:
                yield child.value
        elif isinstance(child, ast.comprehension):
            yield from (child.iter, *child.ifs)
        elif isinstance(child, ast.expr):
            yield child


def _header_end(node: ast.stmt) -> int:
    """The last line of a compound statement's head; that of any other statement is its own."""
    body: list[ast.stmt] = getattr(node, "body", [])
    if body:
        return max(node.lineno, body[0].lineno - 1)
    return node.end_lineno or node.lineno


# -- statements


def of_statement(node: ast.stmt, in_loop: bool, returns: str) -> Iterator[Replacement]:
    """The operators that replace a whole statement."""
    if isinstance(node, ast.Expr):
        yield from _dropped_call(node)
    elif isinstance(node, ast.Return) and node.value is not None:
        yield from _other_return(node.value, returns)
    elif isinstance(node, ast.Raise):
        yield "dropped raise", node, "pass"
    elif isinstance(node, ast.Delete | ast.AugAssign) or _sets_a_part(node):
        yield "dropped statement", node, "pass"
    elif isinstance(node, ast.Continue | ast.Break) and in_loop:
        yield "continue and break", node, "break" if isinstance(node, ast.Continue) else "continue"
    elif isinstance(node, ast.If | ast.While):
        yield "condition forced", node.test, "False"
        if isinstance(node, ast.If):
            yield "condition forced", node.test, "True"


def _sets_a_part(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(each, ast.Attribute | ast.Subscript) for each in node.targets
    )


def _dropped_call(node: ast.Expr) -> Iterator[Replacement]:
    if isinstance(node.value, ast.Await):
        yield "dropped call", node, "pass"
        awaited = ast.unparse(node.value.value)
        yield "dropped await", node, f"__import__('asyncio').ensure_future({awaited})"
    elif isinstance(node.value, ast.Call):
        yield "dropped call", node, "pass"


def _other_return(value: ast.expr, returns: str) -> Iterator[Replacement]:
    code = ast.unparse(value)
    if returns == "bool":
        yield "other result", value, f"(not ({code}))"
    elif returns == "int":
        yield "other result", value, f"({code}) + 1"
    elif returns == "str" and not isinstance(value, ast.JoinedStr):
        yield "other result", value, '""'
    elif returns.endswith("| None"):
        yield "other result", value, "None"
    else:
        for prefix, empty in EMPTY:
            if returns.startswith(prefix) and returns[-1:] in ("]", "s"):
                yield "other result", value, empty


def _has_effect(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call | ast.Await) and not is_log_call(node.value)
    return _sets_a_part(node) or isinstance(node, ast.AugAssign | ast.Delete)


def _may_swap(first: ast.stmt, second: ast.stmt) -> bool:
    """Both do something, and at least one of them a call: two plain assignments in another order are the same."""
    if not (_has_effect(first) and _has_effect(second)):
        return False
    return any(isinstance(each, ast.Call) for node in (first, second) for each in ast.walk(node))


# -- expressions


def _comparison(node: ast.expr) -> Iterator[Replacement]:
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            yield "comparison", node, _compared(node, place, NEGATED[type(operator)]())
            if type(operator) in BOUNDARIES:
                yield "boundary", node, _compared(node, place, BOUNDARIES[type(operator)]())


def _compared(node: ast.Compare, place: int, operator: ast.cmpop) -> str:
    operators = [*node.ops[:place], operator, *node.ops[place + 1 :]]
    return ast.unparse(ast.Compare(node.left, operators, node.comparators))


def _boolean(node: ast.expr) -> Iterator[Replacement]:
    if isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "boolean", node, f"({ast.unparse(ast.BoolOp(other, node.values))})"
        for left_out in range(len(node.values)):
            rest = [value for place, value in enumerate(node.values) if place != left_out]
            code = ast.unparse(rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest))
            yield "dropped operand", node, f"({code})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "boolean", node, f"bool({ast.unparse(node.operand)})"


def _constant(node: ast.expr) -> Iterator[Replacement]:
    if not isinstance(node, ast.Constant):
        return
    value = node.value
    if isinstance(value, bool):
        yield "constant", node, str(not value)
    elif isinstance(value, int):
        yield "constant", node, str(value + 1 if value < LARGE else value * 2)
        if value > 0:
            yield "constant", node, str(value - 1 if value < LARGE else value // 2)
    elif isinstance(value, float):
        yield "constant", node, str(value * 2 + 1)
    elif isinstance(value, str) and value and not any(each.isspace() for each in value):
        yield "constant", node, repr(value + "_other")


def _arithmetic(node: ast.expr) -> Iterator[Replacement]:
    if not isinstance(node, ast.BinOp):
        return
    texts = (ast.JoinedStr, ast.List, ast.Tuple, ast.Dict)
    if any(isinstance(side, texts) or _is_text(side) for side in (node.left, node.right)):
        return
    if type(node.op) in ARITHMETIC and not _is_type(node):
        other = ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
        yield "arithmetic", node, f"({ast.unparse(other)})"
    if isinstance(node.op, ast.Add | ast.Sub) and isinstance(node.right, ast.Constant) and node.right.value == 1:
        yield "boundary", node, f"({ast.unparse(node.left)})"


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _is_type(node: ast.BinOp) -> bool:
    """`A | B` and `A | None` in isinstance and in aliases."""
    return isinstance(node.op, ast.BitOr) and any(
        (isinstance(side, ast.Constant) and side.value is None)
        or (isinstance(side, ast.Name) and (side.id[:1].isupper() and not side.id.isupper()))
        or isinstance(side, ast.Subscript)
        or (
            isinstance(side, ast.Name)
            and side.id in ("int", "str", "bytes", "float", "bool", "memoryview", "list", "dict")
        )
        for side in (node.left, node.right)
    )


def _swapped_call(node: ast.expr) -> Iterator[Replacement]:
    if isinstance(node, ast.Call) and _name_of(node.func) in SWAPPED_CALLS:
        name = _name_of(node.func)
        function = ast.unparse(node.func)
        if isinstance(node.func, ast.Name) and not name.startswith("bisect"):  # the other may not be imported
            yield "other function", node.func, SWAPPED_CALLS[name]
        elif isinstance(node.func, ast.Attribute):
            yield "other function", node.func, function.removesuffix(name) + SWAPPED_CALLS[name]


def _condition(node: ast.expr) -> Iterator[Replacement]:
    if isinstance(node, ast.IfExp):
        yield "condition forced", node.test, "True"
        yield "condition forced", node.test, "False"
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        for generator in node.generators:
            for test in generator.ifs:
                yield "condition forced", test, "True"


OPERATORS: tuple[Callable[[ast.expr], Iterator[Replacement]], ...] = (
    _comparison,
    _boolean,
    _constant,
    _arithmetic,
    _swapped_call,
    _condition,
)
