"""The decision store in a database: addresses that lead to none."""

from __future__ import annotations

import pytest

from oncelog.errors import ConfigurationError
from oncelog.spark.database_decisions import DatabaseDecisionStore


@pytest.mark.parametrize("url", ["no address", "postgresql+nosuch://h/d", "nosuch://h/d"])
def test_a_wrong_address_is_a_wrong_configuration(url: str) -> None:
    with pytest.raises(ConfigurationError, match="decisionUrl"):
        DatabaseDecisionStore(url)
