"""Dual writes with a real ZooKeeper: a multi with the state's znode, conditional on its version."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from evidence.world import zookeeper_server
from evidence.world.topics import values_of
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from oncelog.errors import InstanceFenced, KafkaError
from oncelog.recipes import NotCommitted, StoredState, ZooKeeperDatabase, open_database
from oncelog.recipes.sync import DualWriter
from oncelog.recipes.zookeeper import path_of
from oncelog.types import PreparedTxnState

pytestmark = pytest.mark.compat


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    reason = zookeeper_server.why_not()
    if reason is not None:
        pytest.skip(reason)
    with zookeeper_server.running(tmp_path_factory.mktemp("zookeeper")) as where:
        yield where


@pytest.fixture
def client(address: str) -> Iterator[KazooClient]:
    made = KazooClient(address)
    made.start(timeout=120)
    yield made
    made.stop()
    made.close()


def put(writer, name: str, value: int) -> None:
    with writer.transaction() as tx:
        tx.database.create(f"/written-{name}/{value}", b"")
        tx.send(name, b"%d" % value, partition=0)


def rows(client: KazooClient, name: str) -> list[int]:
    return sorted(int(child) for child in client.get_children(f"/written-{name}"))


def test_znodes_and_records_are_written_together(client: KazooClient, broker: str, name: str) -> None:
    client.ensure_path(f"/written-{name}")
    database = ZooKeeperDatabase(client)
    database.migrate()
    with DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer:
        put(writer, name, 0)
        with pytest.raises(ZeroDivisionError), writer.transaction() as tx:
            tx.database.create(f"/written-{name}/1", b"")
            tx.send(name, b"1", partition=0)
            raise ZeroDivisionError
        with pytest.raises(NotCommitted):
            put(writer, name, 0)  # the znode is there: the multi is refused as a whole
        put(writer, name, 2)
        writer.complete()
        assert values_of(broker, name) == rows(client, name) == [0, 2]
        assert database.read_all()[name] == database.read(name)


def test_what_an_older_instance_has_in_flight_fails(client: KazooClient, broker: str, name: str) -> None:
    client.ensure_path(f"/written-{name}")
    database = ZooKeeperDatabase(client)
    database.migrate()
    first = DualWriter(database, transactional_id=name, bootstrap_servers=broker)
    first.start()
    opened = database.begin()
    opened.handle.create(f"/written-{name}/9", b"")
    assert opened.store(name, StoredState(1, PreparedTxnState("1:1")))
    with DualWriter(database, transactional_id=name, bootstrap_servers=broker) as second:
        with pytest.raises(NotCommitted):
            opened.commit()
        put(second, name, 1)
        with pytest.raises(KafkaError):
            put(first, name, 2)
        with pytest.raises(InstanceFenced):
            put(first, name, 2)
    first.stop()
    assert values_of(broker, name) == rows(client, name) == [1]


@pytest.mark.parametrize("loses", ["request", "answer"])
def test_a_lost_commit_is_found_out(client: KazooClient, broker: str, name: str, loses: str) -> None:
    """The session's connection breaks around the multi."""
    client.ensure_path(f"/written-{name}")

    class Shaky(ZooKeeperDatabase):
        loses = ""

        def begin(self):
            opened = super().begin()
            commit, self_loses = opened.commit, self.loses
            self.loses = ""

            def lose() -> None:
                if self_loses == "answer":
                    commit()
                raise KazooException("connection loss")

            if self_loses:
                opened.commit = lose  # type: ignore[method-assign]
            return opened

    database = Shaky(client)
    database.migrate()
    with DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer:
        database.loses = loses
        with pytest.raises(KazooException) if loses == "request" else contextlib.nullcontext():
            put(writer, name, 0)
        put(writer, name, 1)
        writer.complete()
        assert values_of(broker, name) == rows(client, name) == ([1] if loses == "request" else [0, 1])


def test_versions_are_raised_from_several_sides(client: KazooClient, address: str, name: str) -> None:
    odd = f"a/b.{name} ü"
    with open_database(f"zookeeper://{address}") as database:
        database.migrate()
        assert database.take_over(odd, 5) is None
        assert database.take_over(odd, None) == 1
        assert ZooKeeperDatabase(client).take_over(odd, None) == 2
        assert database.take_over(odd, 1) is None
        assert database.take_over(odd, 2) == 3
        assert database.read_all()[odd] == StoredState(3, PreparedTxnState())
        assert database.read("nobody") is None
    assert "/" not in path_of(odd).removeprefix("/kafka_transaction_state/")
