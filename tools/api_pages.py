"""`python -m tools.api_pages`: writes docs/api/*.md, a page of the API reference for each public module, from its public names.

Sphinx fills the pages with signatures and docstrings (`make docs`); in a repository browser they list the names.
"""

from __future__ import annotations

import importlib
import inspect
import pathlib

FOLDER = pathlib.Path(__file__).parent.parent / "docs" / "api"
INTROS = {
    "oncelog": "The clients and the broker, for asyncio. Options of the clients: [client options](../client-options.md).",
    "oncelog.sync": "The same clients without asyncio: for scripts, notebooks, threads and Spark workers.",
    "oncelog.testing": "A broker and faults for tests: [testing](../testing.md).",
    "oncelog.recipes": "Rows and records together or not at all: [dual writes](../dual-writes.md).",
    "oncelog.schema": "Values with a registered schema: [schemas](../schemas.md).",
    "oncelog.opentelemetry": "Spans of what the clients do: [tracing](../tracing.md).",
    "oncelog.faststream": "A broker for FastStream: [FastStream](../faststream.md).",
    "oncelog.spark": "Functions beside the Spark format `oncelog`: [Spark](../spark.md).",
    "oncelog.errors": "The exception classes. Cause and cure of each: [errors](../errors.md).",
}
# Modules, and an annotation, which have, or need, no entry of their own.
_MODULES = {"oncelog": {"errors", "sync"}, "oncelog.recipes": {"sync"}, "oncelog.faststream": {"OncelogMessage"}}


def names(module: str) -> list[str]:
    """The public names of a module that get an entry."""
    if module == "oncelog.errors":
        found = vars(importlib.import_module(module))
        return [name for name, each in found.items() if isinstance(each, type) and issubclass(each, Exception)]
    public: list[str] = importlib.import_module(module).__all__
    return sorted(set(public) - _MODULES.get(module, set()))


def render(module: str) -> str:
    """The page of one module."""
    parts = [f"# `{module}`", INTROS[module]]
    for name in names(module):
        value = getattr(importlib.import_module(module), name)
        is_error = inspect.isclass(value) and issubclass(value, Exception)
        kind = "autoexception" if is_error else "autoclass" if inspect.isclass(value) else "autofunction"
        parts += ["", f"## `{name}`", "```{eval-rst}", f".. {kind}:: {module}.{name}"]
        parts += [*(["   :show-inheritance:"] if is_error else []), "```"]
    return "\n".join(parts) + "\n"


def page(module: str) -> pathlib.Path:
    """Where it is written."""
    return FOLDER / f"{module.replace('.', '-')}.md"


def main() -> None:
    """Write them all."""
    FOLDER.mkdir(exist_ok=True)
    for module in INTROS:
        page(module).write_text(render(module), encoding="utf-8")
        print(f"{page(module).name} written")


if __name__ == "__main__":
    main()
