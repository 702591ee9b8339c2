"""The page's files: what is others' is what it says, nothing comes from elsewhere, colours are the picture's, sizes."""

from __future__ import annotations

import gzip
import hashlib
import json
import pathlib
import re

import oncelog.console
from oncelog.core.lanes.palette import DARK, LIGHT

STATIC = pathlib.Path(oncelog.console.__file__).parent / "static"
OWN_JAVASCRIPT_BYTES_MAX = 150_000
WHEEL_GROWTH_BYTES_MAX = 120_000


def test_vendored_files_are_what_their_manifest_says() -> None:
    rows = json.loads((STATIC / "vendor" / "manifest.json").read_text())
    assert {row["file"] for row in rows} == {path.name for path in (STATIC / "vendor").glob("*.mjs")}
    for row in rows:
        data = (STATIC / "vendor" / row["file"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == row["sha256"], row["file"]
        assert (row["sha256"] == row["source_sha256"]) is (row["change"] is None)
        assert row["version"]
        assert row["licence"] in ("MIT", "Apache-2.0")
        assert (STATIC / "vendor" / row["licence_file"]).exists()


def test_nothing_is_loaded_from_elsewhere_and_nothing_becomes_html() -> None:
    for path in [*STATIC.glob("*.js"), *STATIC.glob("*.html"), *STATIC.glob("*.css")]:
        text = path.read_text()
        assert not re.search(r"https?://", text), path.name
        for banned in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "dangerouslySetInnerHTML",
            "document.write",
            "eval(",
        ):
            assert banned not in text, (path.name, banned)
    assert not re.search(r"\son\w+=|style=|<script>", (STATIC / "index.html").read_text())


def test_the_page_has_the_colours_of_the_picture() -> None:
    light, dark = re.findall(r":root \{([^}]*--paper[^}]*)\}", (STATIC / "console.css").read_text())
    for text, palette in ((light, LIGHT), (dark, DARK)):
        assert dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", text)) == dict(palette)


def test_sizes() -> None:
    own = sum(path.stat().st_size for path in STATIC.glob("*.js"))
    files = [path for path in STATIC.parent.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    packed = sum(len(gzip.compress(path.read_bytes())) for path in files)
    assert own <= OWN_JAVASCRIPT_BYTES_MAX
    assert packed <= WHEEL_GROWTH_BYTES_MAX
