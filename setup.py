"""Builds the hot paths with Cython where a compiler is there; everything else is in pyproject.toml.

The compiled modules are plain Python files with a `.pxd` of C types beside them: without Cython or a compiler the
same files run as they are. One is C, the syncer's threads: without it threads of Python do the same. A failed build
therefore never fails the installation; it says so here, and `oncelog doctor` shows afterwards what is compiled
(`oncelog.hot_paths.compiled()`, `oncelog.host.syncer.is_native()`). ONCELOG_PURE=1 asks for no build.
"""

from __future__ import annotations

import os
import runpy
import sys
from importlib.machinery import EXTENSION_SUFFIXES

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

DIRECTIVES = {
    "language_level": 3,
    "annotation_typing": False,  # annotations are for mypy; the .pxd has the C types
    "boundscheck": False,  # every position is checked by the code itself, which must hold in plain Python as well
    "wraparound": False,
}
HOT_MODULES = runpy.run_path("src/oncelog/hot_paths.py")["HOT_MODULES"]
FAST = [] if sys.platform == "win32" else ["-O3", "-g0"]
BUILT = [*(f"oncelog/{name}" for name in HOT_MODULES), "oncelog/host/native_sync"]


def extensions() -> list[Extension]:
    if os.environ.get("ONCELOG_PURE"):
        return []
    modules = [
        Extension(
            f"oncelog.{name.replace('/', '.')}",
            [f"src/oncelog/{name}.py"],
            depends=[f"src/oncelog/{each}.pxd" for each in HOT_MODULES],
            extra_compile_args=FAST,
        )
        for name in HOT_MODULES
    ]
    try:
        from Cython.Build import cythonize
        from Cython.Compiler.Errors import CompileError
    except ImportError as error:
        stay_plain(error)
        return []
    native = [Extension("oncelog.host.native_sync", ["src/oncelog/host/native_sync.c"], extra_compile_args=FAST)]
    try:
        return cythonize(modules, build_dir="build/cython", quiet=True, compiler_directives=DIRECTIVES) + (
            native if sys.platform == "linux" else []
        )
    except CompileError as error:
        stay_plain(error)
        return []


def stay_plain(reason: Exception) -> None:
    """All hot modules or none, and none of an older build: a mixture would fail or be slow in ways nobody expects."""
    print(f"oncelog: the hot paths stay plain Python: {reason}", file=sys.stderr)
    for name in BUILT:
        for suffix in EXTENSION_SUFFIXES:
            path = os.path.join("src", name + suffix)
            if os.path.exists(path):
                os.remove(path)


class BuildWhereACompilerIs(build_ext):
    """Builds all hot modules, or goes on without."""

    def run(self) -> None:
        try:
            super().run()
        except Exception as error:  # noqa: BLE001 - distutils raises whatever its compilers do
            stay_plain(error)
            for extension in self.extensions:
                path = self.get_ext_fullpath(extension.name)
                if os.path.exists(path):
                    os.remove(path)
            self.extensions = []


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildWhereACompilerIs})
