"""`oncelog.audit.topic`: who did what, as records that outlive the log's lines; no request waits for them."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from evidence.world.broker import Client, broker_and_client, eventually, fetch_request, run, visible

from oncelog import Admin, Producer
from oncelog.broker.coordinators import audit_topic as module
from oncelog.broker.network.peer import PeerLost
from oncelog.core.metadata.topic_configs import AUDIT_TOPIC
from oncelog.errors import ErrorCode

KEYS = {
    *("time_ms", "event", "transactional_id", "producer_id", "producer_epoch", "what", "outcome"),
    *("principal", "client_id", "address"),
}


async def entries(client: Client, count: int) -> list[dict[str, Any]]:
    """The topic's records, once so many are there."""
    found: list[dict[str, Any]] = []

    async def are_there() -> bool:
        data = (await client.call(fetch_request(AUDIT_TOPIC, 0, False), 12)).responses
        if data and not data[0].partitions[0].error_code:
            found[:] = [json.loads(text) for text in visible(data[0].partitions[0])]
        return len(found) >= count

    await eventually(are_there)
    assert all(set(each) == KEYS for each in found)
    return found


def test_who_did_what_is_kept_in_order(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with broker_and_client(tmp_path, oncelog_audit_topic=True) as (broker, client):
            servers = str(broker.advertised_address)
            for name in ("t", "gone"):
                await client.create(name)
            async with Producer(bootstrap_servers=servers, transactional_id="y", client_id="night\nshift") as producer:
                for end in (producer.abort_transaction, producer.commit_transaction):
                    producer.begin_transaction()
                    await producer.send("t", value=b"v", partition=0)
                    await end()
            async with Admin(bootstrap_servers=servers, client_id="oncelog-cli") as admin:
                await admin.force_terminate_transaction("y")
                await admin.delete_topics(["gone"])
                await admin.alter_configs({("topic", "t"): {"retention.ms": "5"}})
            slow = await client.init("slow")
            await client.add("slow", slow, "t")
            clock = broker.node.clock
            monkeypatch.setattr(clock, "now_ms", lambda now_ms=clock.now_ms: now_ms() + 61_000)
            broker.node.transactions.abort_timed_out()
            found = await entries(client, 5)
            assert [(each["event"], each["transactional_id"], each["client_id"]) for each in found] == [
                ("abort", "y", "night\nshift"),
                ("fence", "y", "oncelog-cli"),
                ("delete-topics", None, "oncelog-cli"),
                ("incremental-alter-configs", None, "oncelog-cli"),
                ("timeout", "slow", None),
            ]
            assert {each["principal"] for each in found} == {"User:ANONYMOUS", None}
            assert {each["outcome"] for each in found} == {"done"}
            assert found[4]["what"].endswith("its timeout is 60000 ms")
            assert broker.metadata.topics[AUDIT_TOPIC].configs["retention.bytes"] == "268435456"

    run(work())


def test_nobody_else_writes_there_and_off_is_off(tmp_path: Any) -> None:
    async def work() -> None:
        async with broker_and_client(tmp_path) as (broker, client):
            await client.init("x")
            await client.init("x")
            await broker._parts.audit_topic.settle()
            assert AUDIT_TOPIC not in broker.metadata.topics
            await client.create(AUDIT_TOPIC)
            refused = await client.produce(AUDIT_TOPIC, "forged")
            assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
            producer = await client.init("x")
            assert await client.add("x", producer, AUDIT_TOPIC) == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    run(work())


def test_what_is_too_much_or_cannot_be_written_is_dropped_and_counted(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "WAITING_MAX", 3)
    monkeypatch.setattr(module, "AT_ONCE_MAX", 2)

    def counted(broker: Any) -> tuple[int, int]:
        return broker.metrics.count("audit_records"), broker.metrics.count("audit_dropped")

    async def work() -> None:
        async with broker_and_client(tmp_path, oncelog_audit_topic=True) as (broker, client):
            topic = broker._parts.audit_topic
            for number in range(5):
                topic.add("test", "x" * 5_000 + str(number))
            await topic.settle()
            assert counted(broker) == (3, 2)
            assert {len(each["what"]) for each in await entries(client, 3)} == {module.TEXT_LENGTH_MAX}

            async def lost(*_: object) -> None:
                raise PeerLost("gone")

            with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "oncelog.audit_topic"):
                patch.setattr(topic._peer, "call", lost)
                for _ in range(2):
                    topic.add("test", "lost")
                    await topic.settle()
            assert counted(broker) == (3, 4)
            assert len(caplog.records) == 1, "said once"
            topic.add("test", "again")
            await topic.settle()
            assert counted(broker) == (4, 4)

    run(work())
