"""Tries an installed wheel as somebody without compiler and source would: in an empty virtual environment.

    python -m tools.smoke WHEEL...

Installed is with the versions and hashes of requirements/dev.txt, for each CPython of `PYTHONS` that this machine has and
the wheel is for. Then, from an empty folder, with nothing on the PATH but the environment: where the package lies and
what of it is compiled, `oncelog --version`, README's twenty lines, `oncelog serve` from its first line to SIGTERM.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile

from tools.distribution import ROOT, BuildFailed, build_wheel, run, version

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
READY_TIMEOUT_S = 60
STOP_TIMEOUT_S = 60
BLOCK = re.compile(r"^([A-Za-z0-9._-]+)==\S+.*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
WHERE = """
import importlib, json, os
import oncelog
from oncelog import hot_paths
names = {name: importlib.import_module("oncelog." + name.replace("/", ".")).__file__ for name in hot_paths.HOT_MODULES}
print(json.dumps({"package": os.path.dirname(oncelog.__file__), "modules": names}))
"""


class SmokeFailed(RuntimeError):
    """The installed wheel did not do what it must; the text says what."""


def normal(name: str) -> str:
    """A distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(names: set[str], requirements: str) -> str:
    """The lines of a locked requirements file for these names. Raises KeyError for one that is not in it."""
    blocks = {normal(block.group(1)): block.group(0) for block in BLOCK.finditer(requirements)}
    return "".join(blocks[name] for name in sorted(names))


def dependencies(of: str) -> set[str]:
    """The distributions that one needs at run time, and those that these need, as installed in this environment."""
    found: set[str] = set()
    open_names = [of]
    while open_names:
        for line in importlib.metadata.requires(open_names.pop()) or ():
            requirement, _, condition = line.partition(";")
            name = normal(re.split(r"[\s\[<>=!~(]", requirement.strip())[0])
            if name not in found and not condition:
                found.add(name)
                open_names.append(name)
    return found


def pythons() -> dict[str, pathlib.Path]:
    """The CPythons of `PYTHONS` on this machine: this one, those of the PATH, of pyenv and of uv. Each was started."""
    found = {}
    homes = [pathlib.Path(os.environ.get("PYENV_ROOT", "~/.pyenv")), pathlib.Path("~/.local/share/uv/python")]
    for name in PYTHONS:
        places = [pathlib.Path(sys.executable)]
        for pattern in (f"versions/{name}.*/bin/python", f"cpython-{name}.*/bin/python"):
            places += [path for home in homes for path in sorted(home.expanduser().glob(pattern))]
        places += [pathlib.Path(path) for path in [shutil.which(f"python{name}")] if path]
        python = next((path for path in places if is_python(path, name)), None)
        if python is not None:
            found[name] = python
    return found


def is_python(path: pathlib.Path, name: str) -> bool:
    """Whether it is a CPython of that version that can make environments."""
    asked = "import sys, ensurepip; print(sys.implementation.name, '%d.%d' % sys.version_info[:2])"
    done = subprocess.run([path, "-c", asked], capture_output=True, text=True)
    return done.stdout.strip() == f"cpython {name}"


def make_environment(python: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """An empty virtual environment, without pip; its interpreter."""
    run(python, "-m", "venv", "--without-pip", folder, cwd=ROOT)
    return folder / "bin" / "python"


def install(python: pathlib.Path, wheel: pathlib.Path | None, names: set[str]) -> None:
    """Installs locked wheels from the registry, and this one. Raises BuildFailed, also where only sources are to be had."""
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-input", "--no-deps"]
    with tempfile.TemporaryDirectory() as elsewhere:
        lines = pathlib.Path(elsewhere) / "requirements.txt"
        lines.write_text(locked(names, (ROOT / "requirements/dev.txt").read_text()))
        run(*pip, "--require-hashes", "--only-binary", ":all:", "-r", lines, cwd=lines.parent)
        if wheel is not None:
            run(*pip, "--no-index", wheel.resolve(), cwd=lines.parent)


def install_copies(python: pathlib.Path, wheel: pathlib.Path, names: set[str]) -> None:
    """As `install`, without a registry: the same Python's distributions are copied out of this environment."""
    site_packages = next((python.parent.parent / "lib").glob("python*/site-packages"))
    for name in names:
        for file in importlib.metadata.files(name) or ():
            target = site_packages / file
            if target.resolve().is_relative_to(site_packages.resolve()) and file.locate().exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file.locate(), target)
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index"]
    run(*pip, "--no-compile", wheel.resolve(), cwd=site_packages)


def smoke(python: pathlib.Path, *, pure: bool) -> None:
    """Tries what is installed for this interpreter of an environment. Raises SmokeFailed."""
    binaries = python.parent
    environment = {"PATH": str(binaries), "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
    with tempfile.TemporaryDirectory() as folder:
        try:
            where = json.loads(started(folder, environment, python, "-c", WHERE))
            check_location(where, binaries.parent, pure=pure)
            expect("oncelog --version", started(folder, environment, binaries / "oncelog", "--version"), version())
            program = pathlib.Path(folder) / "twenty_lines.py"
            program.write_text(f"{twenty_lines()}\n\nprint(asyncio.run(main()))\n")
            expect("README's twenty lines", started(folder, environment, python, program), "[b'3 apples']")
            serve(folder, environment, binaries / "oncelog")
        except (subprocess.TimeoutExpired, ValueError) as error:
            raise SmokeFailed(str(error)) from None


def twenty_lines() -> str:
    """The first Python program of README.md."""
    found = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert found is not None
    return found.group(1)


def started(folder: str, environment: dict[str, str], *command: str | pathlib.Path) -> str:
    """What a program prints. Raises SmokeFailed with its last lines when it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=READY_TIMEOUT_S,
    )
    if done.returncode or done.stderr:
        raise SmokeFailed(f"{command[-1]}: exit status {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def expect(what: str, output: str, wanted: str) -> None:
    """Raises SmokeFailed where the output's last word is another."""
    if not output.rstrip().endswith(wanted):
        raise SmokeFailed(f"{what}: {wanted!r} was expected, it printed {output!r}")


def check_location(where: dict[str, object], environment: pathlib.Path, *, pure: bool) -> None:
    """Raises SmokeFailed where another package than the installed one runs, or other code than the wheel promises."""
    if not pathlib.Path(str(where["package"])).resolve().is_relative_to(environment.resolve()):
        raise SmokeFailed(f"the package lies at {where['package']}, outside the environment")
    modules = where["modules"]
    assert isinstance(modules, dict)
    wrong = [name for name, file in modules.items() if file.endswith(".py") != pure]
    if wrong:
        raise SmokeFailed(f"{'compiled' if pure else 'not compiled'}: {', '.join(wrong)}")


def serve(folder: str, environment: dict[str, str], oncelog: pathlib.Path) -> None:
    """Starts a broker, waits for its first line, stops it by SIGTERM. Raises SmokeFailed."""
    command = [oncelog, "serve", "--data-dir", "data", "--listen", "127.0.0.1:0"]
    with (pathlib.Path(folder) / "serve.log").open("w+") as log:
        broker = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=log)
        try:
            assert broker.stdout is not None
            readable = select.select([broker.stdout], [], [], READY_TIMEOUT_S)[0]
            first = broker.stdout.readline() if readable else b""
            broker.send_signal(signal.SIGTERM)
            status = broker.wait(STOP_TIMEOUT_S)
        finally:
            broker.kill()
            broker.communicate()
        if not first.startswith(b"ready 127.0.0.1:") or status:
            log.seek(0)
            raise SmokeFailed(f"oncelog serve: {first!r}, exit status {status}: {log.read()[-2000:]}")


def python_of(wheel: pathlib.Path) -> str | None:
    """`3.12` of a wheel for one CPython, None of a pure one. Raises ValueError for another name."""
    if wheel.name.endswith("-py3-none-any.whl"):
        return None
    found = re.search(r"-cp3(\d+)-cp3\1-", wheel.name)
    if found is None or not zipfile.is_zipfile(wheel):
        raise ValueError(f"{wheel} is no wheel of oncelog for a CPython")
    return f"3.{found.group(1)}"


def try_wheel(wheel: pathlib.Path, python: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Installs it into an empty environment in `folder` and tries it there; the environment's interpreter."""
    inside = make_environment(python, folder)
    install(inside, wheel, dependencies("oncelog"))
    smoke(inside, pure=python_of(wheel) is None)
    return inside


def build_for(sdist: pathlib.Path, folder: pathlib.Path, python: pathlib.Path) -> pathlib.Path:
    """The platform wheel for another CPython, built by it with the locked setuptools and Cython. Raises BuildFailed."""
    with tempfile.TemporaryDirectory() as parent:
        environment = pathlib.Path(parent) / "build"
        run(python, "-m", "venv", environment, cwd=ROOT)
        inside = environment / "bin" / "python"
        install(inside, None, {"setuptools", "cython"})
        return build_wheel(sdist, folder, pure=False, python=inside)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.smoke")
    parser.add_argument("wheels", type=pathlib.Path, nargs="+", metavar="WHEEL")
    there = pythons()
    failed = False
    for wheel in parser.parse_args().wheels:
        for name in [python_of(wheel)] if python_of(wheel) else PYTHONS:
            failed |= not said(wheel, str(name), there.get(str(name)))
    return 1 if failed else 0


def said(wheel: pathlib.Path, name: str, python: pathlib.Path | None) -> bool:
    """Tries a wheel with one CPython, prints a line about it, and says whether nothing went wrong."""
    if python is None:
        print(f"smoke: {wheel.name}: not tried with CPython {name}: this machine has none", flush=True)
        return True
    with tempfile.TemporaryDirectory() as folder:
        try:
            try_wheel(wheel, python, pathlib.Path(folder) / "environment")
        except (BuildFailed, SmokeFailed) as error:
            print(f"smoke: {wheel.name}: CPython {name}: {error}", file=sys.stderr)
            return False
    print(f"smoke: {wheel.name}: works with CPython {name}", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
