"""One broker for all tests of the command line; each test uses topics, groups and ids of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncelog.testing import TestBroker
from tests.cli.world import Cli


@pytest.fixture(scope="session")
def cli() -> Iterator[Cli]:
    # Without verification a hanging transaction can be made, as brokers before KIP-890 made them by accident.
    with TestBroker({"transaction.partition.verification.enable": "false"}) as broker:
        yield Cli(broker.bootstrap_servers)


@pytest.fixture(autouse=True)
def no_broker_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONCELOG_BOOTSTRAP_SERVERS", raising=False)
