"""Who did what, in the broker's log: one line for each change, by whom it was asked, and what became of it."""

from __future__ import annotations

import logging

import pytest
from evidence.world.broker import Client, broker_and_client, eventually, run, until

from oncelog import Admin, Producer, TopicPartition
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest

CHANGES = {
    "delete topics 'gone'": "done",
    "add partitions 't' to 2": "done",
    "change settings of topic 't': 'retention.ms' = '5'": "done",
    "delete records 't'-0 before 1": "done",
    "delete groups 'none'": "GROUP_ID_NOT_FOUND",
    "change quotas 'user' 'u' 'producer_byte_rate' 7.0": "done",
    "initialise transactional id 'x\\x1b': producer 0:1, lower epochs are fenced": "done",
    "abort the transaction of 'y', producer 1:0": "done",
}


def test_each_change_says_who_what_and_what_became_of_it(tmp_path, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        async with broker_and_client(tmp_path) as (broker, client):
            for name in ("t", "gone"):
                await client.create(name)
            await client.produce("t", "x")
            servers = str(broker.advertised_address)
            async with Admin(bootstrap_servers=servers, client_id="night\nshift") as admin:
                await admin.delete_topics(["gone"])
                await admin.create_partitions({"t": 2})
                await admin.alter_configs({("topic", "t"): {"retention.ms": "5"}})
                await admin.delete_records({TopicPartition("t", 0): 1})
                with pytest.raises(Exception, match="GROUP_ID_NOT_FOUND"):
                    await admin.delete_groups(["none"])
                await admin.alter_client_quotas({"user": "u"}, {"producer_byte_rate": 7.0})
                await client.init("x\x1b")
                await admin.fence_producers(["x\x1b"])
                await admin.create_topics(["checked"], validate_only=True)
            async with Producer(bootstrap_servers=servers, transactional_id="y", client_id="night\nshift") as producer:
                for end in (producer.abort_transaction, producer.commit_transaction):
                    producer.begin_transaction()
                    await producer.send("t", value=b"v", partition=0)
                    await end()

    with caplog.at_level(logging.INFO, "oncelog.deeds"):
        run(work())
    said = [record.getMessage() for record in caplog.records if record.name == "oncelog.deeds"]
    by = "by client 'night\\nshift' at 127.0.0.1"
    assert said == [f"{what}, {by}: {became}" for what, became in CHANGES.items()]


def test_a_line_has_a_bound(tmp_path, caplog: pytest.LogCaptureFixture) -> None:
    """Refused changes have one, too: who may change nothing could write a hundred megabytes into the log with each."""

    async def work() -> None:
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            servers = str(broker.advertised_address)
            async with Admin(bootstrap_servers=servers, client_id="c" * 9_000) as admin:
                with pytest.raises(Exception, match="INVALID_CONFIG"):
                    await admin.alter_configs({("topic", "t"): {"n" * 9_000: "v" * 9_000}})
                with pytest.raises(Exception, match="GROUP_ID_NOT_FOUND"):
                    await admin.delete_groups([f"{n}" + "g" * 9_000 for n in range(5)])

    with caplog.at_level(logging.INFO, "oncelog.deeds"):
        run(work())
    settings, groups = [record.getMessage() for record in caplog.records if record.name == "oncelog.deeds"]
    assert f"'{'n' * 256}... (9000 characters)' = '{'v' * 256}... (9000 characters)', by client 'ccc" in settings
    assert groups.startswith("delete groups '0ggg")
    assert "g... (45" in groups
    assert max(len(settings), len(groups)) < 3_000


def test_a_transaction_that_timed_out_is_named(
    tmp_path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            producer = await client.init("slow")
            await client.add("slow", producer, "t")
            clock = broker.node.clock
            monkeypatch.setattr(clock, "now_ms", lambda now_ms=clock.now_ms: now_ms() + 61_000)

            async def is_over() -> bool:
                broker.node.transactions.abort_timed_out()
                return "slow" in caplog.text

            await eventually(is_over)

    with caplog.at_level(logging.INFO, "oncelog.transactions"):
        run(work())
    (line,) = [record.getMessage() for record in caplog.records if "slow" in record.getMessage()]
    assert line.startswith("transaction timeouts: the transaction of 'slow', producer 0:")
    assert line.endswith("its timeout is 60000 ms; t-0")


def test_who_ended_a_transaction_is_named_though_its_markers_do_not_arrive(
    tmp_path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its answer comes with the markers. Who had gone by then was named nowhere: "who killed my transaction?" had no answer."""

    async def work() -> None:
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            servers = str(broker.advertised_address)
            producer = Producer(bootstrap_servers=servers, transactional_id="stuck")
            await producer.start()
            producer.begin_transaction()
            await producer.send("t", value=b"v", partition=0)
            await producer.detach_transaction()
            await producer.stop()
            (partition,) = broker.partitions.of_topic("t")
            partition.go_offline("a test's disk")
            gone = await Client.connect(broker)
            gone.send(InitProducerIdRequest(transactional_id="stuck", transaction_timeout_ms=60_000))
            await until(lambda: bool(lines_of(caplog)))
            gone.close()

    with caplog.at_level(logging.INFO, "oncelog.deeds"):
        run(work())
    (said,) = lines_of(caplog)
    assert said.startswith("abort the transaction of 'stuck', producer 0:1, by initialising its id anew, by client ")
    assert said.endswith(" at 127.0.0.1: done")


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "oncelog.deeds"]
