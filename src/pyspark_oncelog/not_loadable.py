"""The format where it cannot be loaded: it is found, and every use of it says why it cannot be used."""

from __future__ import annotations

import os
from typing import Any, NoReturn

import pyspark
from pyspark.sql.datasource import DataSource

from oncelog.errors import ConfigurationError

VERSION_MIN = (4, 2)


def reason(error: ImportError, version: str) -> str:
    """What is wrong, and the way out."""
    if tuple(int(part) for part in version.split(".")[:2]) < VERSION_MIN:
        return f"format oncelog needs PySpark 4.2 or later, and this is {version}: pip install 'pyspark>=4.2'"
    return f"format oncelog cannot be loaded: {error}; pip install 'oncelog[spark]' in the Python of driver and workers"


def source_that_tells(error: ImportError) -> type[DataSource]:
    """A format of the same name, of which each method raises ConfigurationError."""
    text = reason(error, pyspark.__version__)

    def tell(*_: Any, **__: Any) -> NoReturn:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"  # of this process of Spark's, which ends with the error
        raise ConfigurationError(text)

    methods = dict.fromkeys(("schema", "reader", "streamReader", "writer", "streamWriter"), tell)
    return type("DefaultSource", (DataSource,), {"name": classmethod(lambda _: "oncelog"), **methods})
