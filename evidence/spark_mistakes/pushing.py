"""Why filters are not pushed down: a format in Python that takes one gives wrong rows, in Spark 4.3.

Spark keeps what it planned with the pushed filters for every later use of the same frame or view, whatever that one asks
for. `make spark-mistakes` looks whether it is still so: the day it is not, filters can be taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

SETTING = "spark.sql.python.filterPushdown.enabled"
PARTITIONS = range(4)


class FourRows(DataSource):
    """One row in each of four partitions, which say their number."""

    @classmethod
    def name(cls) -> str:
        return "four_rows"

    def schema(self) -> str:
        return "part int"

    def reader(self, schema: StructType) -> Reader:
        return Reader()


class Reader(DataSourceReader):
    """Takes `part = n`, and reads that partition alone."""

    def __init__(self) -> None:
        self.only: int | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for each in filters:
            if isinstance(each, EqualTo):
                self.only = each.value
            else:
                yield each

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(n) for n in PARTITIONS if self.only in (None, n)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield (partition.value,)


def counts(spark: SparkSession) -> tuple[int, int, int]:
    """Rows of a frame: with a filter that is taken, of the whole frame afterwards (4 were right), and of a new one."""
    spark.dataSource.register(FourRows)
    before = spark.conf.get(SETTING)
    spark.conf.set(SETTING, "true")
    try:
        frame = spark.read.format("four_rows").load()
        return frame.where("part = 1").count(), frame.count(), spark.read.format("four_rows").load().count()
    finally:
        spark.conf.set(SETTING, str(before))
