"""Lets Spark find the format `oncelog` by its name: it imports packages called `pyspark_*` for their DefaultSource.

Spark passes over a package that cannot be imported, and says DATA_SOURCE_NOT_FOUND: where that would happen (an older PySpark, a
package that is missing) the format is there, and says what is wrong when it is used.
"""

from __future__ import annotations

from typing import Any

try:
    from oncelog.spark.data_source import DefaultSource
except ImportError as _error:
    from pyspark_oncelog.not_loadable import source_that_tells

    DefaultSource: Any = source_that_tells(_error)  # type: ignore[no-redef]

__all__ = ["DefaultSource"]
