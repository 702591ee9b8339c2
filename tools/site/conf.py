"""Sphinx's configuration of `make docs`: the pages are plain Markdown, as a repository browser shows them.

The source folder is the repository, so that links between docs/, README.md and ARCHITECTURE.md lead where they lead in a browser.
The tables of contents are the lists under "All pages" in docs/index.md (`contents.py`, held complete by tests/test_site.py).
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent))

from docutils import nodes  # noqa: E402
from sphinx.addnodes import pending_xref  # noqa: E402
from tools.site.contents import PAGES, toctrees  # noqa: E402

import oncelog  # noqa: E402

project = "oncelog"
release = version = oncelog.__version__
copyright = "the authors of oncelog, Apache-2.0"  # noqa: A001
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = list(PAGES)
exclude_patterns = ["build", ".venv", ".git", "tests", "evidence", "bench", "tools"]  # not even looked through
myst_heading_anchors = 6
nitpicky = False  # types in signatures are not links to other projects' inventories

autodoc_member_order = "bysource"
autodoc_default_options = {
    "members": True,
    "inherited-members": "object, Generic, Protocol, Exception, BaseException, tuple, dict, ValueError, TypeError",  # not these
}
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
default_role = "code"  # docstrings are written with single backticks
add_module_names = False
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 100

html_theme = "furo"
html_title = f"oncelog {version}"
html_extra_path = ["redirect"]
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["versions.js"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}


def _with_contents(_app: Any, docname: str, source: list[str]) -> None:
    if docname == root_doc:
        source[0] += toctrees()


def _folders_as_text(app: Any, doctree: nodes.document) -> None:
    """A link to a folder of the repository has no page here: its text stays."""
    for link in list(doctree.findall(pending_xref)):
        page = pathlib.Path(app.srcdir) / app.env.docname
        if link.get("reftype") == "myst" and (page.parent / link["reftarget"]).is_dir():
            link.replace_self(link.children)


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this."""
    app.connect("source-read", _with_contents)
    app.connect("doctree-read", _folders_as_text)
    return {"parallel_read_safe": True}
