"""`python -m tools.tables`: writes the tables of docs/limits.md and docs/metrics.md anew, from the code they describe."""

from __future__ import annotations

import pathlib

from oncelog.broker.metrics import limits, metric_catalog

DOCS = pathlib.Path(__file__).parent.parent / "docs"


def main() -> None:
    for name, table in (("limits", limits.table()), ("metrics", metric_catalog.table())):
        path = DOCS / f"{name}.md"
        lines = path.read_text(encoding="utf-8").splitlines()
        first = next(index for index, line in enumerate(lines) if line.startswith("|"))
        end = next((index for index in range(first, len(lines)) if not lines[index].startswith("|")), len(lines))
        text = "\n".join([*lines[:first], table, *lines[end:]]) + "\n"
        path.write_text(text, encoding="utf-8")
        print(f"{path.name} written")


if __name__ == "__main__":
    main()
