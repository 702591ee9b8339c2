"""One admin client for each set of options, a few at most."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncelog.errors import IllegalState
from oncelog.spark import kept_admins
from oncelog.testing import TestBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker() as started:
        yield started


@pytest.fixture(autouse=True)
def none_left() -> Iterator[None]:
    kept_admins.close_admins()
    yield
    kept_admins.close_admins()


def test_the_same_options_get_the_same_client(broker: TestBroker) -> None:
    client = {"bootstrap.servers": broker.bootstrap_servers}
    first = kept_admins.admin_of(client)
    assert kept_admins.admin_of(dict(client)) is first
    assert kept_admins.admin_of(client | {"client.id": "another"}) is not first


def test_the_oldest_goes_and_is_closed(broker: TestBroker) -> None:
    clients = [
        {"bootstrap.servers": broker.bootstrap_servers, "client.id": f"c{i}"}
        for i in range(kept_admins.CLIENTS_MAX + 1)
    ]
    first, *others = [kept_admins.admin_of(client) for client in clients]
    assert len(kept_admins._admins) == kept_admins.CLIENTS_MAX
    with pytest.raises(IllegalState, match="was closed"):
        first.describe_cluster()
    assert kept_admins.admin_of(clients[0]) is not first
    assert others[-1].describe_cluster().nodes
