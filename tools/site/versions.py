"""`make site SITE=DIR`: the site of this version into DIR/VERSION, beside those of other versions that are there already.

DIR/versions.json names them, the newest first; a page offers them from there (static/versions.js). DIR/index.html leads to the
newest release, or where there is none to the newest of all. A version's pages are replaced whole: made elsewhere, then renamed.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import shutil
import sys

from packaging.version import InvalidVersion, Version

INDEX = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>oncelog</title>
<meta http-equiv="refresh" content="0; url={0}/docs/index.html">
<p><a href="{0}/docs/index.html">The documentation of oncelog {0}</a></p>
</html>
"""


def versions(site: pathlib.Path) -> list[str]:
    """Which versions' pages are in `site`, the newest first."""
    found = []
    for path in site.iterdir():
        try:
            version = Version(path.name)
        except InvalidVersion:
            continue
        if (path / "docs" / "index.html").is_file():
            found.append((version, path.name))
    return [name for _, name in sorted(found, reverse=True)]


def newest(names: list[str]) -> str:
    """Where somebody begins who names no version."""
    return next((name for name in names if not Version(name).is_prerelease), names[0])


def publish(pages: pathlib.Path, site: pathlib.Path, version: str) -> list[str]:
    """Put `pages` there as `version`; which versions there are then. Raises OSError; InvalidVersion where it is none."""
    Version(version)
    site.mkdir(parents=True, exist_ok=True)
    coming, there, leaving = site / f".{version}.new", site / version, site / f".{version}.old"
    for left in (coming, leaving):
        shutil.rmtree(left, ignore_errors=True)
    shutil.copytree(pages, coming)
    if there.exists():
        there.rename(leaving)
    coming.rename(there)
    shutil.rmtree(leaving, ignore_errors=True)
    names = versions(site)
    (site / "versions.json").write_text(json.dumps(names) + "\n")
    (site / "index.html").write_text(INDEX.format(newest(names)))
    return names


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.site.versions", description=__doc__)
    parser.add_argument("pages", type=pathlib.Path, help="what `make docs` built")
    parser.add_argument("site", type=pathlib.Path)
    parser.add_argument("version")
    asked = parser.parse_args()
    if not (asked.pages / "docs" / "index.html").is_file():
        parser.error(f"{asked.pages} has no pages: make docs")
    names = publish(asked.pages, asked.site, asked.version)
    print(f"site: {asked.site}/index.html, versions {', '.join(names)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
