"""`make release`: everything up to the upload, into dist/. `make release REHEARSE=1`: the same into build/rehearsal.

Refused are a tree with changes, a version that CHANGELOG.md has no section for, and a tag of that version elsewhere.
Then: sdist, pure wheel, a platform wheel for each CPython of this machine; each looked into and tried in an empty virtual
environment; a CycloneDX bill of materials; SHA256SUMS; the tag. A rehearsal says what would be refused, goes on, and
does not tag. Exit status 1: something was refused or failed, and nothing of it is left in dist/.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import pathlib
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator

from tools import distribution, smoke
from tools.distribution import ROOT, BuildFailed, run
from tools.sbom import bill_of_materials


def refusals(version: str, changelog: str, changes: str, tags: str, tags_here: str) -> Iterator[str]:
    """Why this tree cannot be released.

    `changes` is what `git status --porcelain` says, `tags` all of the repository's, `tags_here` those of this commit.
    """
    if changes.strip():
        yield f"the tree has changes ({changes.split(chr(10))[0].strip()}, ...): commit them"
    section = re.search(
        rf"^## \[?{re.escape(version)}\]?(?: [^\n]*)?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL
    )
    if section is None:
        yield f"CHANGELOG.md has no section `## {version} - YYYY-MM-DD`: make it of what is under Unreleased"
    elif not section.group(1).strip():
        yield f"CHANGELOG.md says nothing under {version}"
    tag = f"v{version}"
    if tag in tags.split() and tag not in tags_here.split():
        yield f"{tag} is tagged at another commit: raise __version__ in src/oncelog/version.py"


def asked() -> list[str]:
    """What `refusals` says of this tree."""
    return list(
        refusals(
            distribution.version(),
            (ROOT / "CHANGELOG.md").read_text(),
            run("git", "status", "--porcelain", cwd=ROOT),
            run("git", "tag", "--list", cwd=ROOT),
            run("git", "tag", "--points-at", "HEAD", cwd=ROOT),
        )
    )


def build(folder: pathlib.Path) -> list[pathlib.Path]:
    """The sdist, the pure wheel, then a platform wheel for each CPython. Raises BuildFailed, also for a fault in one."""
    sdist = distribution.build_sdist(folder)
    made = [sdist, distribution.build_wheel(sdist, folder, pure=True)]
    for name, python in smoke.pythons().items():
        made.append(smoke.build_for(sdist, folder, python))
        print(f"release: built {made[-1].name} with CPython {name}", flush=True)
    faults = [*distribution.sdist_faults(sdist)]
    faults += [fault for wheel in made[1:] for fault in distribution.wheel_faults(wheel)]
    if faults:
        raise BuildFailed("; ".join(faults))
    return made


def write_bill(folder: pathlib.Path, made: list[pathlib.Path], at_s: int) -> pathlib.Path:
    """The bill of materials beside the artifacts, of an environment with the pure wheel. Raises BuildFailed, SmokeFailed."""
    with tempfile.TemporaryDirectory() as parent:
        python = smoke.try_wheel(made[1], pathlib.Path(sys.executable), pathlib.Path(parent) / "environment")
        site_packages = next((python.parent.parent / "lib").glob("python*/site-packages"))
        path = folder / f"oncelog-{distribution.version()}.cdx.json"
        path.write_text(bill_of_materials(site_packages, made, at_s))
    return path


def sums(files: list[pathlib.Path]) -> str:
    """The lines of SHA256SUMS, as `sha256sum --check` reads them."""
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(files))


def release(folder: pathlib.Path) -> bool:
    """Builds, tries and describes; whether all went well. Raises BuildFailed, SmokeFailed."""
    at_s = int(run("git", "log", "-1", "--format=%ct", cwd=ROOT))
    os.environ["SOURCE_DATE_EPOCH"] = str(at_s)  # files in archives bear the commit's time, not this minute's
    made = build(folder)
    there = smoke.pythons()
    tries = [(wheel, name) for wheel in made[1:] for name in [smoke.python_of(wheel) or ""]]
    tries = [(wheel, each) for wheel, name in tries for each in ([name] if name else smoke.PYTHONS)]
    good = [smoke.said(wheel, name, there.get(name)) for wheel, name in tries]
    if not all(good):
        return False
    bill = write_bill(folder, made, at_s)
    (folder / "SHA256SUMS").write_text(sums([*made, bill]))
    return True


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.release")
    parser.add_argument(
        "--rehearse", action="store_true", help="whatever would be refused, without a tag, into build/rehearsal"
    )
    rehearse = parser.parse_args().rehearse
    folder = ROOT / ("build/rehearsal" if rehearse else "dist")
    refused = asked()
    for reason in refused:
        print(f"release: {'would be refused' if rehearse else 'refused'}: {reason}", file=sys.stderr)
    if refused and not rehearse:
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        good = release(folder)
        tag = f"v{distribution.version()}"
        if good and not rehearse and tag not in run("git", "tag", "--list", cwd=ROOT).split():
            run("git", "tag", "--annotate", tag, "--message", f"oncelog {distribution.version()}", cwd=ROOT)
    except (BuildFailed, smoke.SmokeFailed) as error:
        print(f"release: {error}", file=sys.stderr)
        good = False
    if not good:
        shutil.rmtree(folder)
        print("release: failed", file=sys.stderr)
        return 1
    for path in sorted(folder.iterdir()):
        print(f"{path.stat().st_size:>9} {path.name}")
    end = "a rehearsal, not tagged" if rehearse else f"tagged {tag}, not uploaded"
    print(f"release: {folder.relative_to(ROOT)} is complete; {end}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
