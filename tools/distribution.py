"""Builds the sdist and the wheels, and says what is wrong with one.

    python -m tools.distribution FOLDER [--pure]

Built is what git knows, from a copy: neither files that lie around nor an older build get in, and the tree stays as it
is. Wheels are built from the sdist, with the setuptools and Cython of this environment (requirements/dev.txt), never
with downloaded ones. What a wheel must hold and must not is in `wheel_faults`.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import runpy
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping

ROOT = pathlib.Path(__file__).parent.parent
PURE = {"ONCELOG_PURE": "1"}
SDIST_BYTES_MAX = 4_700_000  # 4,424,267 with tests and evidence; a forgotten capture of a log would be noticed
PURE_WHEEL_BYTES_MAX = 2_000_000  # sources have 1,935,619; what does not belong in would be noticed
PLATFORM_WHEEL_BYTES_MAX = 3 << 20
LEFT_OUT = {
    ".git",
    ".venv",
    "build",
    "dist",
    "__pycache__",
    ".hypothesis",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
}
IN_EACH_WHEEL = (
    *("oncelog/py.typed", "oncelog/log/layout.md", "oncelog/version.py", "pyspark_oncelog/__init__.py"),
    *("oncelog/console/static/index.html", "oncelog/console/static/lanes.js"),
    *("oncelog/console/static/vendor/preact.mjs", "oncelog/console/static/vendor/LICENSE-preact"),
)
IN_EACH_SDIST = (
    *("ARCHITECTURE.md", "CHANGELOG.md", "LICENSE", "Makefile", "MANIFEST.in", "README.md", "conftest.py"),
    *("pyproject.toml", "setup.py", "src/oncelog/host/native_sync.c", "src/oncelog/wire/record_codec.pxd"),
    *("docs/cli.md", "docs/images/report.png", "examples/embedded_broker.py", "tests/test_architecture.py"),
    *("evidence/world/broker.py", "requirements/dev.txt", "tools/distribution.py"),
)


class BuildFailed(RuntimeError):
    """A build command failed; the text has its last lines."""


def version() -> str:
    """The version, as src/oncelog/version.py of this tree has it."""
    found: str = runpy.run_path(str(ROOT / "src/oncelog/version.py"))["__version__"]
    return found


def compiled_modules() -> list[str]:
    """The module files, without their endings, that a platform wheel holds as compiled code."""
    hot: tuple[str, ...] = runpy.run_path(str(ROOT / "src/oncelog/hot_paths.py"))["HOT_MODULES"]
    native = ["oncelog/host/native_sync"] if sys.platform == "linux" else []
    return [*(f"oncelog/{name}" for name in hot), *native]


def run(*command: str | pathlib.Path, cwd: pathlib.Path, environment: Mapping[str, str] | None = None) -> str:
    """The command's output. Raises BuildFailed with its last lines when it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise BuildFailed(f"{' '.join(str(part) for part in command[:8])}: {done.stdout[-3000:]}")
    return done.stdout


def source_files() -> list[pathlib.Path]:
    """What git knows or would add; of an unpacked sdist, everything. Relative to the root."""
    if (ROOT / ".git").exists():
        listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).split("\0")
        return [pathlib.Path(name) for name in listed if name and (ROOT / name).is_file()]
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in LEFT_OUT and not name.endswith(".egg-info")]
        found += [(pathlib.Path(folder) / name).relative_to(ROOT) for name in names if not name.endswith(".so")]
    return found


def build_sdist(folder: pathlib.Path) -> pathlib.Path:
    """Builds the sdist of this tree into `folder`. Raises BuildFailed."""
    with tempfile.TemporaryDirectory() as parent:
        copy = pathlib.Path(parent) / "oncelog"
        for name in source_files():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
        hook = "import sys, setuptools.build_meta as backend; backend.build_sdist(sys.argv[1])"
        run(sys.executable, "-c", hook, folder.resolve(), cwd=copy)
    return folder / f"oncelog-{version()}.tar.gz"


def build_wheel(
    sdist: pathlib.Path, folder: pathlib.Path, *, pure: bool, python: str | pathlib.Path = sys.executable
) -> pathlib.Path:
    """Builds a wheel from the sdist, pure or for `python`, whose environment has setuptools and Cython. Raises BuildFailed."""
    before = set(folder.glob("*.whl"))
    pip = [python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--no-cache-dir"]
    with tempfile.TemporaryDirectory() as elsewhere:
        environment = PURE if pure else {"ONCELOG_PURE": ""}
        run(*pip, "-w", folder.resolve(), sdist.resolve(), cwd=pathlib.Path(elsewhere), environment=environment)
    made = set(folder.glob("*.whl")) - before
    if len(made) != 1:
        raise BuildFailed(f"one new wheel was expected in {folder}, there are {len(made)}")
    return made.pop()


def sdist_faults(sdist: pathlib.Path) -> Iterator[str]:
    """What is missing in it, what does not belong there; nothing for a good one."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    yield from (f"{sdist.name} has no {name}" for name in IN_EACH_SDIST if name not in names)
    yield from (
        f"{sdist.name} has {name}"
        for name in sorted(names)
        if name.endswith((".so", ".pyc", ".whl")) or name.split("/")[0] in LEFT_OUT
    )
    if sdist.stat().st_size > SDIST_BYTES_MAX:
        yield f"{sdist.name} has {sdist.stat().st_size} bytes, more than {SDIST_BYTES_MAX}"


def wheel_faults(wheel: pathlib.Path) -> Iterator[str]:
    """What is missing in it, what does not belong there; nothing for a good one."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    pure = wheel.name.endswith("-py3-none-any.whl")
    tops = {"oncelog", "pyspark_oncelog", f"oncelog-{version()}.dist-info"}
    yield from (f"{wheel.name} has no {name}" for name in IN_EACH_WHEEL if name not in names)
    for name in names:
        if name.split("/")[0] not in tops:
            yield f"{wheel.name} has {name}, outside the package"
        if name.endswith((".c", ".pxd", ".pyc", ".h")):
            yield f"{wheel.name} has {name}: sources of compiled modules belong into the sdist"
        if pure and name.endswith((".so", ".pyd")):
            yield f"{wheel.name} has {name}, and is called pure"
    for module in [] if pure else compiled_modules():
        if not any(name.startswith(f"{module}.") and name.endswith((".so", ".pyd")) for name in names):
            yield f"{wheel.name} has no compiled {module}: was there a compiler?"
    limit_bytes = PURE_WHEEL_BYTES_MAX if pure else PLATFORM_WHEEL_BYTES_MAX
    if wheel.stat().st_size > limit_bytes:
        yield f"{wheel.name} has {wheel.stat().st_size} bytes, more than {limit_bytes}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.distribution")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--pure", action="store_true", help="only the pure wheel")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    try:
        sdist = build_sdist(options.folder)
        wheels = [
            build_wheel(sdist, options.folder, pure=pure) for pure in ((True,) if options.pure else (True, False))
        ]
    except BuildFailed as error:
        print(f"distribution: {error}", file=sys.stderr)
        return 1
    faults = [*sdist_faults(sdist), *(fault for wheel in wheels for fault in wheel_faults(wheel))]
    for file in (sdist, *wheels):
        print(f"{file.stat().st_size:>9} {file.name}")
    for fault in faults:
        print(f"distribution: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
