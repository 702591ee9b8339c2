"""What Spark gives to a task and to foreachBatch, without a JVM."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, StructField, StructType

_task_attempt_ids = itertools.count()


class FakeContext:
    """What a task knows of itself."""

    def __init__(self, **properties: str) -> None:
        self.properties = properties

    def partitionId(self) -> int:
        return 0

    def stageId(self) -> int:
        return 0

    def taskAttemptId(self) -> int:
        return next(_task_attempt_ids)

    def getLocalProperty(self, name: str) -> str | None:
        return self.properties.get(name)


class FakeFrame:
    """A micro-batch of one partition with the column `value`. `spark_query_id` None: a Connect session, which does not tell."""

    def __init__(
        self, *values: bytes, spark_query_id: str | None = "spark-query", spark_run_id: str = "spark-run"
    ) -> None:
        self.values = values
        self.properties = {"sql.streaming.queryId": spark_query_id, "spark.jobGroup.id": spark_run_id}
        self.schema = StructType([StructField("value", BinaryType())])
        self.calls: list[str] = []  # of its writer

    @property
    def sparkSession(self) -> FakeFrame:
        return self

    @property
    def sparkContext(self) -> FakeFrame:
        if self.properties["sql.streaming.queryId"] is None:
            raise AttributeError("sparkContext")
        return self

    def getLocalProperty(self, name: str) -> str | None:
        return self.properties.get(name)

    @property
    def write(self) -> FakeFrame:
        return self

    def format(self, name: str) -> FakeFrame:
        self.calls.append(name)
        return self

    mode = format  # noqa: A003

    def save(self) -> None:
        self.calls.append("save")

    def persist(self) -> None:
        """Nothing is evaluated twice here."""

    unpersist = persist

    def mapInArrow(self, write: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], ddl: str) -> Any:
        assert ddl
        batch = pa.RecordBatch.from_pydict({"value": pa.array(list(self.values), pa.binary())})

        class Mapped:
            def collect(self) -> list[dict[str, Any]]:
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(TaskContext, "get", FakeContext)
                    return [row for found in write(iter([batch])) for row in found.to_pylist()]

        return Mapped()


def in_a_worker(monkeypatch: pytest.MonkeyPatch, name: str = "pyspark.daemon") -> None:
    """As if this were a Python process of Spark's."""
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__spec__=SimpleNamespace(name=name)))
