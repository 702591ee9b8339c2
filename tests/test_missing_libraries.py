"""Without an extra's packages, whatever needs one of them names the extra."""

from __future__ import annotations

import subprocess
import sys

import pytest

from oncelog import errors

HIDE = """
import asyncio, sys
for name in {hidden!r}: sys.modules[name] = None
import oncelog
try:
    {statement}
except ImportError as error:
    print(type(error).__name__, error)
"""
POLL = "asyncio.run(oncelog.Consumer('t', bootstrap_servers='127.0.0.1:1').poll_arrow())"
SEND = "from oncelog.client.producer.arrow_sending import checked_batch; checked_batch(5)"  # the first of `send_arrow`
LANES = "from oncelog.core.lanes.lanes import Lanes; Lanes.to_arrow(None)"


@pytest.mark.parametrize(
    ("hidden", "statement", "what", "extra"),
    [
        ("httpx", "import oncelog.schema", "oncelog.schema: httpx", "schema"),
        ("fastavro", "from oncelog.schema import AvroCodec; AvroCodec()", "AvroCodec: fastavro", "schema"),
        ("jsonschema", "from oncelog.schema import JsonCodec; JsonCodec()", "JsonCodec: jsonschema", "schema"),
        ("opentelemetry", "import oncelog.opentelemetry", "oncelog.opentelemetry: opentelemetry", "opentelemetry"),
        ("faststream", "import oncelog.faststream", "oncelog.faststream: faststream", "faststream"),
        ("pyarrow", POLL, "poll_arrow: pyarrow", "arrow"),
        ("pyarrow", SEND, "send_arrow: pyarrow", "arrow"),
        ("pyarrow", LANES, "to_arrow: pyarrow", "arrow"),
        ("pyarrow", "from oncelog.spark import segments", "oncelog.spark.segments: pyarrow", "spark"),
        ("numpy", "from oncelog.spark import segments", "oncelog.spark.segments: numpy", "spark"),
        ("pyspark", "from oncelog.spark import DefaultSource", "oncelog.spark.DefaultSource: pyspark", "spark"),
        ("pyspark", "from oncelog.spark import ProgressListener", "oncelog.spark.ProgressListener: pyspark", "spark"),
        ("pyarrow", "from oncelog.spark import dual_write", "oncelog.spark.dual_write: pyarrow", "spark"),
        ("sqlalchemy", "from oncelog.spark import dual_write", "oncelog.spark.dual_write: sqlalchemy", "sql"),
    ],
)
def test_the_extra_is_named(hidden: str, statement: str, what: str, extra: str) -> None:
    code = HIDE.format(hidden=[hidden], statement=statement)
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == f"MissingLibrary {what} is not installed; get it with: pip install 'oncelog[{extra}]'\n"


def test_a_module_of_nobodys_extra_is_told_as_it_is() -> None:
    error = ModuleNotFoundError("No module named 'other'", name="other")
    assert errors.missing("x", error, httpx="schema") is error
    assert errors.missing("x", ImportError("no name"), httpx="schema").args == ("no name",)


def test_it_is_an_error_of_ours_and_of_pythons() -> None:
    found = errors.missing("x", ModuleNotFoundError("", name="kazoo.client"), kazoo="zookeeper")
    assert isinstance(found, errors.OncelogError)
    assert isinstance(found, ImportError)
    assert found.name == "kazoo.client"
    errors.need("x", "asyncio", "none")
