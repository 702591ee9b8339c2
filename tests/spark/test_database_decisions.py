"""The decision store in a database: addresses that lead to none."""

from __future__ import annotations

import pathlib

import pytest

from oncelog.core.two_phase.decision_homes import DATABASE
from oncelog.errors import ConfigurationError
from oncelog.spark.database_decisions import DatabaseDecisionStore


@pytest.mark.parametrize("url", ["no address", "postgresql+nosuch://h/d", "nosuch://h/d"])
def test_a_wrong_address_is_a_wrong_configuration(url: str) -> None:
    with pytest.raises(ConfigurationError, match="decisionUrl"):
        DatabaseDecisionStore(url)


def test_a_database_keeps_its_identity(tmp_path: pathlib.Path) -> None:
    """By which transactional ids say where their query decides: a URL has many spellings, and a password."""
    homes = []
    for name in ("a.db", "./a.db", "b.db"):
        store = DatabaseDecisionStore(f"sqlite:///{tmp_path}/{name}")
        homes.append(store.home)
        store.close()
    assert homes[0] == homes[1]
    assert homes[0] != homes[2]
    assert all(home[0] == DATABASE for home in homes)


def test_the_identity_of_a_database_is_no_query(tmp_path: pathlib.Path) -> None:
    store = DatabaseDecisionStore(f"sqlite:///{tmp_path}/a.db")
    home = store.home
    assert store.claim("orders", "spark-query", "0") is None
    assert store.decided() == []
    store.close()
    again = DatabaseDecisionStore(f"sqlite:///{tmp_path}/a.db")
    assert again.home == home
    again.close()
