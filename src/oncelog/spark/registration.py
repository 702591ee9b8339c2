"""Make Spark find the format where it does not by itself.

Spark looks once for installed packages that have formats, with the driver's own Python, and in the session that is active in the
calling thread. So it does not find one that came with `--py-files`, and from a new thread it finds none.
"""

from __future__ import annotations

import os
import pathlib
from typing import TYPE_CHECKING, Any

import oncelog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATHS = "PYTHONPATH"


def activate(spark: SparkSession) -> None:
    """Make `spark` the calling thread's session, so that a write from this thread finds the format.

    Needed in each thread of your own before its first `write` or `writeStream`, also in one that foreachBatch starts; without
    it Spark says DATA_SOURCE_NOT_FOUND. Reads find the format anyway, and so does every thread of a Connect session.
    """
    spark.createDataFrame([], "value binary")  # the public call that does it


def register(spark: SparkSession) -> None:
    """Register the format in this session: for an oncelog that is not installed but came with `--py-files` (or `addPyFile`).

    Its dependencies and pyarrow have to be installed wherever Python runs.
    """
    from oncelog.spark.data_source import DefaultSource

    environment: dict[str, Any] = getattr(getattr(spark, "_sc", None), "environment", {})
    before = environment.get(PATHS)
    # The processes of a stream on the driver look into no --py-files: what is registered takes this environment along.
    environment[PATHS] = os.pathsep.join(filter(None, (place(), before)))
    try:
        spark.dataSource.register(DefaultSource)
    finally:
        if before is None:
            del environment[PATHS]
        else:
            environment[PATHS] = before


def place() -> str:
    """The directory or archive that this oncelog is imported from."""
    assert oncelog.__file__ is not None
    return str(pathlib.Path(oncelog.__file__).parent.parent)


__all__ = ["activate", "register"]
