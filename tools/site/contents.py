"""Which pages the site has, and its tables of contents, read from docs/index.md; needs no Sphinx."""

from __future__ import annotations

import pathlib
import re

ROOT = pathlib.Path(__file__).parent.parent.parent
INDEX = ROOT / "docs" / "index.md"
PAGES = (
    *(f"{name}.md" for name in ("README", "ARCHITECTURE", "CONTRIBUTING", "SECURITY", "CHANGELOG")),
    *("docs/*.md", "docs/**/*.md", "src/oncelog/log/layout.md"),
)
SECTION = "## All pages"
_CAPTION = re.compile(r"^### (.+)$")
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+\.md)\)")


def pages() -> set[str]:
    """Every page of the site, as a path from the repository's root; the index is the way in and no entry of itself."""
    found = {path for pattern in PAGES for path in ROOT.glob(pattern)}
    return {str(path.relative_to(ROOT)) for path in found} - {"docs/index.md"}


def contents(text: str) -> dict[str, list[tuple[str, str]]]:
    """Caption -> (name, page as a path from docs/) of the section "All pages" of `text`."""
    found: dict[str, list[tuple[str, str]]] = {}
    _, _, section = text.partition(f"\n{SECTION}\n")
    for line in section.splitlines():
        if line.startswith("## "):
            break
        if caption := _CAPTION.match(line):
            entries = found.setdefault(caption[1], [])
        elif found:
            entries += _LINK.findall(line)
    return found


def toctrees() -> str:
    """Sphinx's directives for what docs/index.md lists."""
    blocks = []
    for caption, entries in contents(INDEX.read_text(encoding="utf-8")).items():
        names = "\n".join(f"{name} <{page.removesuffix('.md')}>" for name, page in entries)
        blocks.append(f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{names}\n```\n")
    return "\n" + "".join(blocks)
