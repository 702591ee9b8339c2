"""Spark looks for formats written in Python in the session that is active in the calling thread, and a new thread has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def activate(spark: SparkSession) -> None:
    """Make `spark` the calling thread's session, so that a write from this thread finds the format.

    Needed in each thread of your own before its first `write` or `writeStream`, also in one that foreachBatch starts; without
    it Spark says DATA_SOURCE_NOT_FOUND. Reads find the format anyway, and so does every thread of a Connect session.
    """
    spark.createDataFrame([], "value binary")  # the public call that does it


__all__ = ["activate"]
