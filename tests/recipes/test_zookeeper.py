"""Dual writes with ZooKeeper: a multi with the state's znode, conditional on its version; on a real server where there is one."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from evidence.world import zookeeper_server
from evidence.world.topics import values_of
from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError, RolledBackError

from oncelog.errors import ConfigurationError, InstanceFenced, KafkaError
from oncelog.recipes import NotCommitted, StoredState, ZooKeeperDatabase, find_in_doubt, open_database
from oncelog.recipes.sync import DualWriter
from oncelog.recipes.zookeeper import path_of
from oncelog.types import PreparedTxnState

on_a_server = pytest.mark.compat


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


@on_a_server
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


@on_a_server
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
        with pytest.raises((InstanceFenced, KafkaError)):  # the row, or the topic where that is quicker
            put(first, name, 2)
        with pytest.raises(InstanceFenced):
            put(first, name, 2)
    first.stop()
    assert values_of(broker, name) == rows(client, name) == [1]


@on_a_server
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


def raise_versions(database: ZooKeeperDatabase, other: ZooKeeperDatabase, name: str) -> None:
    odd = f"a/b.{name} ü"
    database.migrate()
    assert database.take_over(odd, 5) is None
    assert database.take_over(odd, None) == 1
    assert other.take_over(odd, None) == 2
    assert database.take_over(odd, 1) is None
    assert database.take_over(odd, 2) == 3
    assert database.read_all()[odd] == StoredState(3, PreparedTxnState())
    assert database.read("nobody") is None
    assert "/" not in path_of(odd).removeprefix("/kafka_transaction_state/")


@on_a_server
def test_versions_are_raised_from_several_sides(client: KazooClient, address: str, name: str) -> None:
    with open_database(f"zookeeper://{address}") as database:
        assert isinstance(database, ZooKeeperDatabase)
        raise_versions(database, ZooKeeperDatabase(client), name)


# -- without a server


class Znodes:
    """What the adapter asks of a client, with ZooKeeper's rules; kazoo's own TransactionRequest commits to it."""

    chroot, default_acl = "", None

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[bytes, int]] = {}
        self.before_a_write = lambda: None
        self.handler = SimpleNamespace(async_result=Answer)
        self.logger = logging.getLogger("kazoo")

    def ensure_path(self, path: str) -> None:
        self.nodes.setdefault(path, (b"", 0))

    def sync(self, path: str) -> None:
        """ZooKeeper does not ask whether there is one."""

    def get(self, path: str) -> tuple[bytes, Any]:
        if path not in self.nodes:
            raise NoNodeError
        content, version = self.nodes[path]
        return content, SimpleNamespace(version=version)

    def get_children(self, path: str) -> list[str]:
        if path not in self.nodes:
            raise NoNodeError
        return [each.removeprefix(f"{path}/") for each in self.nodes if each.startswith(f"{path}/")]

    def create(self, path: str, value: bytes) -> None:
        self._interrupted()
        if path in self.nodes:
            raise NodeExistsError
        parent = path.rpartition("/")[0]
        if parent and parent not in self.nodes:
            raise NoNodeError
        self.nodes[path] = (value, 0)

    def set(self, path: str, value: bytes, version: int) -> None:
        self._interrupted()
        if self.nodes[path][1] != version:
            raise BadVersionError
        self.nodes[path] = (value, version + 1)

    def _interrupted(self) -> None:
        work, self.before_a_write = self.before_a_write, lambda: None
        work()

    def transaction(self) -> TransactionRequest:
        return TransactionRequest(self)

    def _call(self, multi: Any, answer: Answer) -> None:
        """All of it or nothing."""
        before, answer.found = dict(self.nodes), []
        for each in multi.operations:
            try:
                if type(each).__name__ == "Create":
                    answer.found.append(self.create(each.path, each.data))
                else:
                    answer.found.append(self.set(each.path, each.data, each.version))
            except KazooException as error:
                self.nodes, answer.found = before, [error, *(RolledBackError() for _ in multi.operations[1:])]
                return


class Answer:
    """Of a multi: a result for each operation."""

    found: list[Any]

    def get(self) -> list[Any]:
        return self.found


@pytest.fixture
def znodes() -> tuple[Znodes, ZooKeeperDatabase]:
    made = Znodes()
    database = ZooKeeperDatabase(made)
    database.migrate()
    return made, database


def test_versions_are_raised_one_by_one(znodes: tuple[Znodes, ZooKeeperDatabase], name: str) -> None:
    client, database = znodes
    raise_versions(database, ZooKeeperDatabase(client), name)


def test_a_missing_root_names_what_makes_it(broker: str) -> None:
    database = ZooKeeperDatabase(Znodes())
    assert database.read("x") is None
    with pytest.raises(ConfigurationError, match=r"call migrate\(\)"):
        database.take_over("x", None)
    with pytest.raises(ConfigurationError, match=r"call migrate\(\)"):
        find_in_doubt(database, bootstrap_servers=broker)


def test_who_raises_a_version_beside_another_looks_again(znodes: tuple[Znodes, ZooKeeperDatabase]) -> None:
    """Creating the znode, or writing it: whoever comes second gets a version of its own."""
    client, database = znodes
    for expected in (2, 4):
        client.before_a_write = lambda: database.take_over("x", None)
        assert database.take_over("x", None) == expected
    client.before_a_write = lambda: database.take_over("x", None)
    assert database.take_over("x", 4) is None, "the version that was expected is gone"


def test_a_multi_is_written_whole_and_only_at_its_version(znodes: tuple[Znodes, ZooKeeperDatabase]) -> None:
    client, database = znodes
    state = StoredState(1, PreparedTxnState("7:1"))
    assert not database.begin().store("x", state), "nobody took over"
    database.take_over("x", None)
    older = database.begin()
    older.handle.create("/row", b"older")
    assert older.store("x", state)
    database.take_over("x", None)
    with pytest.raises(NotCommitted, match="Create, SetData"):
        older.commit()
    assert not database.begin().store("x", state)
    assert "/row" not in client.nodes
    newer = database.begin()
    newer.handle.create("/row", b"newer")
    assert newer.store("x", StoredState(2, PreparedTxnState("7:2")))
    newer.commit()
    assert client.nodes["/row"][0] == b"newer"
    assert database.read_all() == {"x": StoredState(2, PreparedTxnState("7:2"))}


def test_what_was_rolled_back_is_not_written_by_who_still_has_its_handle(
    znodes: tuple[Znodes, ZooKeeperDatabase],
) -> None:
    client, database = znodes
    database.take_over("x", None)
    opened = database.begin()
    opened.handle.create("/row", b"")
    assert opened.store("x", StoredState(1, PreparedTxnState("7:1")))
    opened.rollback()
    opened.handle.commit()
    assert "/row" not in client.nodes
    assert database.read("x") == StoredState(1, PreparedTxnState())


def test_a_url_names_every_server_and_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Any] = []

    class Client(Znodes):
        def __init__(self, hosts: str) -> None:
            super().__init__()
            heard.append(hosts)

        def start(self, timeout: float) -> None:
            heard.append("start")

        def stop(self) -> None:
            heard.append("stop")

        def close(self) -> None:
            heard.append("close")

    monkeypatch.setattr("kazoo.client.KazooClient", Client)
    for url in ("zookeeper://a:1,b:2/some/root/", "zookeeper://a:1"):
        with open_database(url) as database:
            database.migrate()
            assert database.take_over("x", None) == 1
    assert heard == ["a:1,b:2/some/root", "start", "stop", "close", "a:1", "start", "stop", "close"]
