"""Lets Spark find the format `oncelog` by its name: it imports packages called `pyspark_*` for their DefaultSource."""

from oncelog.spark.data_source import DefaultSource

__all__ = ["DefaultSource"]
