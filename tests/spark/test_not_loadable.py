"""Where the format cannot be loaded, it says why; Spark would only say DATA_SOURCE_NOT_FOUND."""

from __future__ import annotations

import pytest

from oncelog.errors import ConfigurationError
from pyspark_oncelog.not_loadable import reason, source_that_tells


@pytest.mark.parametrize("version", ["4.0.1", "4.1.0", "3.5.3"])
def test_an_older_pyspark_is_named(version: str) -> None:
    told = reason(ModuleNotFoundError("No module named 'pyspark.sql.streaming.datasource'"), version)
    assert told == f"format oncelog needs PySpark 4.2 or later, and this is {version}: pip install 'pyspark>=4.2'"


def test_a_package_that_is_missing_is_named() -> None:
    assert "No module named 'pyarrow'" in reason(ModuleNotFoundError("No module named 'pyarrow'"), "4.3.0")


def test_each_use_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    found = source_that_tells(ImportError("no such thing"))
    assert found.name() == "oncelog"
    for method in ("schema", "reader", "streamReader", "writer", "streamWriter"):
        with pytest.raises(ConfigurationError, match="no such thing"):
            getattr(found({}), method)()
