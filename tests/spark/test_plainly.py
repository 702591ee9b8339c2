"""What is told loses its traceback where Spark would print it, and nowhere else."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from pyspark.errors import PySparkException

from oncelog.errors import ConfigurationError
from oncelog.spark import plainly
from oncelog.spark.committer import CommitRefused
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


@pytest.mark.parametrize("error", [ConfigurationError("wrong"), CommitRefused("wrong"), PySparkException("wrong")])
def test_py4j_hands_over_a_text_that_begins_with_the_error(error: Exception) -> None:
    """The message stood behind all frames, where Spark cuts the text off."""
    with pytest.raises(type(error)) as told, plainly.told_first():
        raise error
    text = "".join(traceback.format_exception(told.value))
    assert re.match(r"[\w.]+: wrong\n", text)


def test_an_error_of_the_users_own_is_handed_over_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError) as told, plainly.told_first():
        raise ZeroDivisionError
    assert told.value.__cause__ is None
    in_a_worker(monkeypatch, "pyspark.sql.connect.streaming.worker.foreach_batch_worker")
    with pytest.raises(ConfigurationError) as told_there, plainly.told_first():
        raise ConfigurationError("wrong")
    assert told_there.value.__cause__ is None, "there is none of py4j's texts"


@pytest.mark.parametrize("name", [None, "job", "pysparkling"])
def test_a_process_of_the_users_is_left_alone(monkeypatch: pytest.MonkeyPatch, name: str | None) -> None:
    spec = None if name is None else SimpleNamespace(name=name)
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__spec__=spec))
    with pytest.raises(ConfigurationError):
        fails(ConfigurationError("wrong"))
    assert not os.environ[plainly.HIDE]
