"""Which attributes of a class have the same type, so that one can be taken for the other by mistake."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping


class Attributes:
    """Annotated fields of every class in the package, by the class's name; names that two classes have are left out."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.classes: dict[str, Mapping[str, str]] = {}
        twice = set()
        for text in texts:
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ClassDef):
                    if node.name in self.classes:
                        twice.add(node.name)
                    self.classes[node.name] = _annotated(node)
        for name in twice:
            del self.classes[name]

    def of_the_same_type(self, class_name: str, attribute: str) -> tuple[str, ...]:
        found = self.classes.get(class_name, {})
        if attribute not in found:
            return ()
        return tuple(name for name, kind in found.items() if name != attribute and kind == found[attribute])


def _annotated(node: ast.ClassDef) -> dict[str, str]:
    """Fields of the class's body, and `self.x: T = ...` or `self.x = argument` of its `__init__`."""
    found: dict[str, str] = {}
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            found[statement.target.id] = ast.unparse(statement.annotation)
        elif isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            found.update(_of_init(statement))
    return found


def _of_init(function: ast.FunctionDef) -> dict[str, str]:
    arguments = {
        each.arg: ast.unparse(each.annotation)
        for each in (*function.args.args, *function.args.kwonlyargs)
        if each.annotation is not None
    }
    found: dict[str, str] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
            found[node.target.attr] = ast.unparse(node.annotation)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id in arguments:
            for target in node.targets:
                if isinstance(target, ast.Attribute):
                    found[target.attr] = arguments[node.value.id]
    return found
