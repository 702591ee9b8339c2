"""Our clients on uvloop, as in most web servers: its transports say nothing of asyncio's classes. Real sockets."""

from __future__ import annotations

import pytest

from oncelog import Admin, Consumer, Producer, TopicPartition
from oncelog.broker.broker import Broker

uvloop = pytest.importorskip("uvloop")

BIG = [bytes([65 + n]) * 700_000 for n in range(6)]  # answers that are received into memory of their own


def test_clients_run_on_uvloop() -> None:
    async def work() -> list[bytes | None]:
        async with Broker() as broker:
            config = {"bootstrap_servers": broker.bootstrap_servers}
            async with Producer(transactional_id="x", max_request_size=800_000, **config) as producer:
                producer.begin_transaction()
                for value in (*BIG, b"last"):
                    await producer.send("t", value, partition=0)
                await producer.commit_transaction()
            async with Admin(**config) as admin:
                assert [each.transactional_id for each in await admin.list_transactions()] == ["x"]
            found: list[bytes | None] = []
            async with Consumer(isolation_level="read_committed", **config) as consumer:
                consumer.assign([TopicPartition("t", 0)])
                consumer.seek(TopicPartition("t", 0), 0)
                while len(found) < 7:
                    found += [record.value for record in await consumer.poll()]
            return found

    assert uvloop.run(work()) == [*BIG, b"last"]
