"""The dual-write examples run, survive a death at the worst moment, and refuse what they should."""

from __future__ import annotations

import asyncio
import importlib.util
import pathlib
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import httpx
import pytest
from evidence.world.pausing_database import PausingDatabase

from oncelog import TopicPartition, sync
from oncelog.recipes import DualWriter
from oncelog.testing import TestBroker

ROOT = pathlib.Path(__file__).parent.parent


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def broker() -> Any:
    with TestBroker() as running:
        yield running.bootstrap_servers


class Died(BaseException): ...


def die(*_: object) -> None:
    raise Died


def events(broker: str, topic: str) -> list[bytes | None]:
    """The keys of what a read_committed reader sees, once every decided transaction has its markers."""
    with sync.Admin(bootstrap_servers=broker) as admin:
        while any(each.state.startswith("Prepare") for each in admin.list_transactions()):
            pass
    found: list[bytes | None] = []
    with sync.Consumer(
        bootstrap_servers=broker, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(where) < ends[where] for where in partitions):
            found += [record.key for record in consumer.poll(timeout_ms=1000)]
    return sorted(found, key=str)


# the order service


@asynccontextmanager
async def service(module: ModuleType, file: str, broker: str) -> AsyncIterator[httpx.AsyncClient]:
    app = module.create_app(file, broker)
    transport = httpx.ASGITransport(app, raise_app_exceptions=True)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://orders") as http,
    ):
        yield http


def test_an_order_is_placed_once_with_its_event(tmp_path: pathlib.Path, broker: str) -> None:
    module, file = example("order_service"), str(tmp_path / "orders.db")

    async def main() -> None:
        async with service(module, file, broker) as http:
            order = {"item": "pear", "pieces": 3}
            for _ in range(2):  # the answer was lost: the client sends it again
                done = await http.put("/orders/1", json=order)
                assert (done.status_code, done.json()) == (201, order)
            assert (await http.get("/orders/1")).json() == order
            assert (await http.get("/orders/2")).status_code == 404
            for wrong, status in (
                ({"item": "pear", "pieces": 3}, 409),
                ({"item": "plum", "pieces": 1}, 409),
                ({"item": "pear", "pieces": 0}, 422),
            ):
                assert (await http.put("/orders/2", json=wrong)).status_code == status
            answers = await asyncio.gather(
                *(http.put(f"/orders/a{i}", json={"item": "apple", "pieces": 1}) for i in range(8))
            )
            assert {answer.status_code for answer in answers} == {201}

    asyncio.run(main())
    assert events(broker, "orders") == [b"1", *(b"a%d" % i for i in range(8))]
    with sqlite3.connect(file) as database:
        assert dict(database.execute("SELECT item, pieces FROM stock")) == {"apple": 92, "pear": 2}


def test_a_service_that_died_before_the_topic_heard_is_completed_by_its_successor(
    tmp_path: pathlib.Path, broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, file = example("order_service"), str(tmp_path / "orders.db")

    def end_without_a_word(producer: sync.Producer, *_: object) -> None:
        producer._call(producer._client._close)
        raise Died

    async def dies() -> None:
        async with service(module, file, broker) as http:
            monkeypatch.setattr(sync.Producer, "begin_completing", end_without_a_word)
            await http.put("/orders/1", json={"item": "pear", "pieces": 1})

    async def lives() -> None:
        async with service(module, file, broker) as http:
            assert (await http.get("/orders/1")).status_code == 200
            assert (await http.put("/orders/2", json={"item": "pear", "pieces": 1})).status_code == 201

    with pytest.raises(BaseException) as died:
        asyncio.run(dies())
    assert "Died" in repr(died.value)
    monkeypatch.undo()
    assert events(broker, "orders") == []
    asyncio.run(lives())
    assert events(broker, "orders") == [b"1", b"2"]


def test_a_service_that_was_replaced_says_so(tmp_path: pathlib.Path, broker: str) -> None:
    module, file = example("order_service"), str(tmp_path / "orders.db")
    order = {"item": "apple", "pieces": 1}

    async def main() -> None:
        async with service(module, file, broker) as old, service(module, file, broker) as new:
            assert (await new.put("/orders/1", json=order)).status_code == 201
            for _ in range(2):
                answer = await old.put("/orders/2", json=order)
                assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
            assert "newer instance" in answer.json()["detail"]
            assert (await new.put("/orders/2", json=order)).status_code == 201

    asyncio.run(main())
    assert events(broker, "orders") == [b"1", b"2"]


# consume to database


def test_each_record_is_counted_once_whenever_the_consumer_dies(
    tmp_path: pathlib.Path, broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, file = example("consume_to_database"), str(tmp_path / "words.db")
    words = ["a", "b", "a", "c"] * 50
    with sync.Producer(bootstrap_servers=broker) as producer:
        producer.send_many("words", [(None, word.encode()) for word in words], partition=0)
        producer.flush()
    with monkeypatch.context() as patch:
        real, calls = sync.Consumer.position, iter(range(100))
        patch.setattr(sync.Consumer, "position", lambda self, where: die() if next(calls) == 1 else real(self, where))
        with pytest.raises(Died):
            module.consume(broker, "words", file)
    for _ in range(2):
        assert module.consume(broker, "words", file) == {"a": 100, "b": 50, "c": 50}


def test_two_consumers_do_not_count_twice(tmp_path: pathlib.Path, broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, file = example("consume_to_database"), str(tmp_path / "words.db")
    with sync.Producer(bootstrap_servers=broker) as producer:
        producer.send_many("words", [(None, b"a")] * 10, partition=0)
        producer.flush()
    real = sync.Consumer.poll

    def overtaken(self: sync.Consumer, *arguments: Any, **more: Any) -> Any:
        records = real(self, *arguments, **more)
        if records:
            monkeypatch.undo()
            module.consume(broker, "words", file)  # another process was quicker
        return records

    monkeypatch.setattr(sync.Consumer, "poll", overtaken)
    with pytest.raises(module.SomebodyElseConsumes):
        module.consume(broker, "words", file)
    assert module.consume(broker, "words", file) == {"a": 10}


# event sourcing


def test_the_table_and_the_topic_tell_the_same(
    tmp_path: pathlib.Path, broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, file = example("event_sourcing"), str(tmp_path / "accounts.db")
    with module.accounts(broker, file) as commands:
        commands.deposit("ann", 100)
        commands.move("ann", "bob", 30)
        with pytest.raises(module.NotEnough):
            commands.move("bob", "ann", 31)
        with monkeypatch.context() as patch:
            patch.setattr(sync.Producer, "begin_completing", die)
            with pytest.raises(Died):
                commands.move("ann", "bob", 20)
    assert module.balances(file) == {"ann": 50, "bob": 50}
    with module.accounts(broker, file) as commands:
        commands.move("bob", "ann", 1)
    events(broker, module.TOPIC)  # its markers are there
    assert module.replay(broker) == module.balances(file) == {"ann": 51, "bob": 49}


# docs/dual-writes.md


async def placed(names: dict[str, Any], broker: str) -> tuple[bool, bool]:
    """With a database that answers, and with one that does not."""
    database, names["limit_s"] = PausingDatabase(), [60.0]
    async with DualWriter(database, transactional_id="place", bootstrap_servers=broker) as writer:
        answered = await names["place"](writer, b"1")
        database.begin = asyncio.Event().wait  # type: ignore[assignment]
        names["limit_s"] = [0.01]
        found = answered, await names["place"](writer, b"2")
    await database.close()
    return found


def test_the_tutorials_code_runs(tmp_path: pathlib.Path, broker: str) -> None:
    first, interrupted, second = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "dual-writes.md").read_text(), re.DOTALL
    )
    file = tmp_path / "orders.sqlite3"
    names: dict[str, Any] = {}
    exec(first, names)
    names["run"](broker, str(file))
    assert events(broker, "orders") == [b"4711"]
    assert "asyncio.timeout(2)" in interrupted
    exec(interrupted.replace("asyncio.timeout(2)", "asyncio.timeout(limit_s[0])"), names)
    assert asyncio.run(placed(names, broker)) == (True, False)
    exec(second.replace("sqlite:///orders.sqlite3", f"sqlite:///{file}").replace("127.0.0.1:9092", broker), names)
    assert names["found"] == []
