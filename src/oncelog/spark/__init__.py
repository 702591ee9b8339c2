"""Spark on a transactional log: format `oncelog` (source, exactly-once sink), dual writes, segments as tables."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from oncelog.errors import missing

if TYPE_CHECKING:
    from oncelog.spark.data_source import DefaultSource as DefaultSource
    from oncelog.spark.database_sink import dual_write as dual_write
    from oncelog.spark.progress import ProgressListener as ProgressListener
    from oncelog.spark.recovery import recover as recover
    from oncelog.spark.registration import activate as activate
    from oncelog.spark.registration import register as register
    from oncelog.spark.segment_tables import segments as segments

__all__ = ["DefaultSource", "ProgressListener", "activate", "dual_write", "recover", "register", "segments"]


_HOME = {
    "DefaultSource": "data_source",
    "ProgressListener": "progress",
    "activate": "registration",
    "dual_write": "database_sink",
    "recover": "recovery",
    "register": "registration",
    "segments": "segment_tables",
}
_EXTRAS = {"numpy": "spark", "py4j": "spark", "pyarrow": "spark", "pyspark": "spark", "sqlalchemy": "sql"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'oncelog.spark' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"oncelog.spark.{_HOME[name]}"), name)
    except ImportError as error:
        raise missing(f"oncelog.spark.{name}", error, **_EXTRAS) from error


def __dir__() -> list[str]:
    """For who completes names: those that load on first use, too."""
    return sorted({*globals(), *__all__})
