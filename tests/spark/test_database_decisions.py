"""The decision store in a database: addresses that lead to none."""

from __future__ import annotations

import pathlib

import pytest

from oncelog.core.two_phase.decision_homes import DATABASE
from oncelog.errors import ConfigurationError
from oncelog.spark.database_decisions import DatabaseDecisionStore
from oncelog.spark.database_sink import dual_write


@pytest.mark.parametrize("url", ["no address", "postgresql+nosuch://h/d", "nosuch://h/d"])
def test_a_wrong_address_is_a_wrong_configuration(url: str) -> None:
    with pytest.raises(ConfigurationError, match="decisionUrl"):
        DatabaseDecisionStore(url)


IN_MEMORY = [
    "sqlite://",
    "sqlite:///",
    "sqlite+pysqlite:///:memory:",
    "sqlite:///file::memory:?cache=shared&uri=true",
    "sqlite:///file:d?mode=memory&cache=shared&uri=true",
    "sqlite:///file:/d?vfs=memdb&uri=true",
    "sqlite:///file:?uri=true",
]


@pytest.mark.parametrize("url", IN_MEMORY)
def test_a_database_in_memory_is_refused(url: str) -> None:
    """After a restart nothing was decided: what had been written was written again."""
    with pytest.raises(ConfigurationError, match=r"decisionUrl 'sqlite.*in memory forgets the decisions.*name a file"):
        DatabaseDecisionStore(url)
    with pytest.raises(ConfigurationError, match=r"database_url 'sqlite.*in memory"):
        dual_write(query_id="q", database_url=url, to_records=list, to_database=print, options={"topic": "x"})


@pytest.mark.parametrize("name", ["file::memory:", "file:d.db?uri=true"])
def test_a_file_is_taken_whatever_its_name(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Without `uri=true` SQLAlchemy hands a name on that begins with `file:`, and SQLite makes that file."""
    monkeypatch.chdir(tmp_path)
    DatabaseDecisionStore(f"sqlite:///{name}").close()
    assert len(list(tmp_path.iterdir())) == 1


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
