"""The package: what it needs, and that nothing else needs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("faststream", reason="needs faststream")

ABSENT = "import sys; sys.modules['faststream'] = None\nimport oncelog.faststream"
ANOTHER = "import faststream.__about__ as about; about.__version__ = '0.8.1'\nimport oncelog.faststream"
ALONE = """
import sys
import oncelog
from oncelog import Consumer, Processor, Producer
assert not {"faststream", "oncelog.faststream", "pydantic"} & set(sys.modules)
"""


def last_line(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.stderr.strip().split("\n")[-1]


def test_without_faststream_it_says_how_to_get_it():
    what = "oncelog.faststream: faststream is not installed; get it with: pip install 'oncelog[faststream]'"
    assert last_line(ABSENT) == f"oncelog.errors.MissingLibrary: {what}"


def test_another_minor_version_is_refused_by_name():
    what = "is made for FastStream 0.7, and 0.8.1 is installed: pip install 'oncelog[faststream]'"
    assert last_line(ANOTHER) == f"ImportError: oncelog.faststream {what}"


def test_nothing_else_loads_it():
    assert last_line(ALONE) == ""
