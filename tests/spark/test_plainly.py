"""What is told loses its traceback where Spark would print it, and nowhere else."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from oncelog.errors import ConfigurationError
from oncelog.spark import plainly
from tests.spark.fakes import in_a_worker


@pytest.fixture(autouse=True)
def hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was, afterwards."""
    monkeypatch.setenv(plainly.HIDE, "")


@plainly.plainly
def fails(error: Exception) -> None:
    raise error


@plainly.plainly
def gives(error: Exception) -> Iterator[int]:
    yield 1
    raise error


def test_a_mistake_is_told_without_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    in_a_worker(monkeypatch)
    with pytest.raises(ConfigurationError, match="wrong"):
        fails(ConfigurationError("wrong"))
    assert os.environ[plainly.HIDE] == "1"


def test_so_is_one_in_the_middle_of_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    in_a_worker(monkeypatch, "pyspark.sql.worker.write_into_data_source")
    rows = gives(ConfigurationError("wrong"))
    assert next(rows) == 1
    assert not os.environ[plainly.HIDE]
    with pytest.raises(ConfigurationError):
        next(rows)
    assert os.environ[plainly.HIDE] == "1"


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    in_a_worker(monkeypatch)
    with pytest.raises(ZeroDivisionError):
        fails(ZeroDivisionError())
    assert not os.environ[plainly.HIDE]


@pytest.mark.parametrize("name", [None, "job", "pysparkling"])
def test_a_process_of_the_users_is_left_alone(monkeypatch: pytest.MonkeyPatch, name: str | None) -> None:
    spec = None if name is None else SimpleNamespace(name=name)
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__spec__=spec))
    with pytest.raises(ConfigurationError):
        fails(ConfigurationError("wrong"))
    assert not os.environ[plainly.HIDE]
