"""What `register` gives Spark; on a cluster: `make spark-cluster`."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

import oncelog
from oncelog.spark import DefaultSource, activate, register


class Session:
    """What is asked of a session; with `environment` it is a classic one."""

    def __init__(self, environment: dict[str, str] | None) -> None:
        self.dataSource = self
        self.registered: list[tuple[type, dict[str, str] | None]] = []
        self.made: list[str] = []
        if environment is not None:
            self._sc = self
            self.environment = environment

    def register(self, source: type) -> None:
        self.registered.append((source, dict(self.environment) if hasattr(self, "_sc") else None))

    def createDataFrame(self, _: list[Any], schema: str) -> None:
        self.made.append(schema)


@pytest.mark.parametrize("before", [{}, {"PYTHONPATH": "/there", "X": "1"}])
def test_what_is_registered_takes_the_place_of_oncelog_along_and_nothing_else_does(before: dict[str, str]) -> None:
    session: Any = Session(dict(before))
    register(session)
    place = str(pathlib.Path(str(oncelog.__file__)).parent.parent)
    paths = f"{place}:/there" if before else place
    assert session.registered == [(DefaultSource, before | {"PYTHONPATH": paths})]
    assert session.environment == before


def test_a_connect_session_is_only_told() -> None:
    session: Any = Session(None)
    register(session)
    activate(session)
    assert session.registered == [(DefaultSource, None)]
    assert session.made == ["value binary"]
