"""Who did what, in the broker's log: one line for each change, by whom it was asked, and what became of it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging

import pytest
from evidence.world.broker import Client, broker_and_client, eventually, fetch_request, keys, run, until, visible

from oncelog import Admin, Producer, TopicPartition
from oncelog.broker.broker import Broker
from oncelog.core.access.authorizer import STANDARD_AUTHORIZER
from oncelog.core.metadata.topic_configs import AUDIT_TOPIC
from oncelog.host.host import real_host
from oncelog.wire.messages.create_acls import AclCreation, CreateAclsRequest
from oncelog.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from oncelog.wire.messages.delete_groups import DeleteGroupsRequest
from oncelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog.wire.messages.end_txn import EndTxnRequest
from oncelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from oncelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

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


class HeldSyncer:
    """Syncs wait while `opened` is not set; `held` says that one does."""

    def __init__(self, inner):
        self.inner, self.held, self.opened = inner, asyncio.Event(), asyncio.Event()
        self.opened.set()

    async def sync(self, files):
        if not self.opened.is_set():
            self.held.set()
            await self.opened.wait()
        await self.inner.sync(files)

    def close(self):
        self.inner.close()


def rule(**fields):
    return AclCreation(
        resource_type=2, resource_name="t", principal="User:al", host="*", operation=3, permission_type=3, **fields
    )


def rules_like():
    return DeleteAclsFilter(
        resource_type_filter=2,
        resource_name_filter="t",
        pattern_type_filter=3,
        principal_filter="User:b",
        host_filter=None,
        operation=1,
        permission_type=1,
    )


def configs(name):
    change = AlterableConfig(name="retention.ms", config_operation=0, value="5")
    return [AlterConfigsResource(resource_type=2, resource_name=name, configs=[change])]


def test_topics_that_are_deleted_by_their_ids_are_named(tmp_path, caplog: pytest.LogCaptureFixture) -> None:
    """An id tells nobody what is gone, and nothing has its name any more."""

    async def work() -> None:
        settings = {"authorizer_class_name": STANDARD_AUTHORIZER, "allow_everyone_if_no_acl_found": "true"}
        async with broker_and_client(tmp_path, **settings) as (broker, client):
            for name in ("gone", "late", "kept"):
                await client.create(name)
            denied = rule().replace(
                principal="User:ANONYMOUS",
                resource_name="kept",
                resource_pattern_type=3,
                operation=2,
                permission_type=2,
            )
            elsewhere = rule(resource_pattern_type=3).replace(resource_type=4, resource_name="kafka-cluster")
            reply = await client.call(CreateAclsRequest(creations=[denied, elsewhere]))
            assert [each.error_code for each in reply.results] == [0, 0]
            asked = [
                DeleteTopicState(topic_id=broker.metadata.topics[name].topic_id) for name in ("gone", "late", "kept")
            ]
            unknown = DeleteTopicState(topic_id=bytes(15) + b"\x01")
            await client.call(DeleteTopicsRequest(topics=[asked[1]], timeout_ms=0))
            reply = await client.call(DeleteTopicsRequest(topics=[asked[0], unknown, asked[2]], timeout_ms=5_000))
            assert [each.name for each in reply.responses] == ["gone", None, None], "the client is not told more"
            gone = await Client.connect(broker)
            async with broker.store.changing():
                gone.send(DeleteTopicsRequest(topics=[asked[1]], timeout_ms=5_000))
                await until(lambda: len(broker.server.tasks) == 1)
                gone.close()
                await until(lambda: len(broker.server._connections) == 1)
            await until(lambda: len(lines_of(caplog)) == 4)
            assert "late" not in broker.metadata.topics

    with caplog.at_level(logging.INFO, "oncelog.deeds"):
        run(work())
    assert [line.partition(", by client")[0] for line in lines_of(caplog)[1:]] == [
        "delete topics 'late'",
        "delete topics 'gone', id 00000000000000000000000000000001, 'kept'",
        "delete topics 'late'",
    ]


UNANSWERED = {
    "delete-topics": (
        lambda _: DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5_000),
        "delete topics 't'",
    ),
    "delete-topics by name": (
        lambda _: DeleteTopicsRequest(topic_names=["t", "u"], timeout_ms=5_000),
        "delete topics 't', 'u'",
    ),
    "delete-groups": (lambda _: DeleteGroupsRequest(groups_names=["g"]), "delete groups 'g'"),
    "incremental-alter-configs": (
        lambda _: IncrementalAlterConfigsRequest(resources=configs("t")),
        "change settings of topic 't': 'retention.ms' = '5'",
    ),
    "create-acls": (
        lambda _: CreateAclsRequest(creations=[rule()]),
        "add access rules for 'User:al' on 't'",
    ),
    "delete-acls": (
        lambda _: DeleteAclsRequest(filters=[rules_like()]),
        ("remove access rules for 'User:b' on 't'", "remove all access rules like 'User:b' on 't'"),
    ),
    "abort": (
        lambda producer: EndTxnRequest(
            transactional_id="x", producer_id=producer[0], producer_epoch=producer[1], committed=False
        ),
        "abort the transaction of 'x', producer 0:0",
    ),
    "fence": (
        lambda _: InitProducerIdRequest(transactional_id="y", transaction_timeout_ms=60_000),
        "initialise transactional id 'y'",
    ),
}


async def prepared(client):
    """A topic, a rule (which has a line), a group with a position, and an open transaction of what is returned."""
    for name in ("t", "u"):
        await client.create(name)
    await client.call(CreateAclsRequest(creations=[rule().replace(principal="User:b")]))
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topics = [OffsetCommitRequestTopic(name="t", partitions=[partition])]
    commit = OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=topics, retention_time_ms=-1
    )
    assert (await client.call(commit, 8)).topics[0].partitions[0].error_code == 0
    producer = await client.init("x")
    await client.init("y")
    await client.produce("u", "v", producer=producer, sequence=0, transactional_id="x")
    return producer


@pytest.mark.parametrize(("journal", "unheard_max"), [("on", 20), ("off", 20), ("on", 0)])
@pytest.mark.parametrize("case", UNANSWERED)
def test_who_does_not_wait_for_the_answer_is_named_too(
    tmp_path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    case: str,
    journal: str,
    unheard_max: int,
) -> None:
    """The deed is done, and no line said whose it was, nor that it was done."""
    monkeypatch.setattr("oncelog.broker.admission.deeds.UNHEARD_MAX", unheard_max)
    request, asked = UNANSWERED[case]
    is_heard = case != "fence" and (unheard_max > 0 or case == "abort")  # an abort ends nothing but with its commit
    what = asked[not is_heard] if isinstance(asked, tuple) else asked
    settings = {
        "journal": journal,
        "authorizer_class_name": STANDARD_AUTHORIZER,
        "allow_everyone_if_no_acl_found": "true",
        "super_users": "User:ANONYMOUS",
        "oncelog_audit_topic": True,
    }

    async def work() -> None:
        host = real_host()
        syncer = HeldSyncer(host.syncer)
        async with Broker(str(tmp_path), keys(settings), dataclasses.replace(host, syncer=syncer)) as broker:
            client = await Client.connect(broker)
            producer = await prepared(client)
            gone = await Client.connect(broker)
            syncer.opened.clear()
            gone.send(request(producer), 5 if case.endswith("by name") else None)
            await syncer.held.wait()
            gone.close()
            await until(lambda: len(broker.server._connections) == 1)
            syncer.opened.set()

            async def is_kept() -> bool:
                data = (await client.call(fetch_request(AUDIT_TOPIC, 0, False), 12)).responses
                kept[:] = [] if not data or data[0].partitions[0].error_code else visible(data[0].partitions[0])
                return len(kept) == 2

            await eventually(is_kept)
            client.close()
        syncer.close()

    kept: list[str] = []
    with caplog.at_level(logging.INFO, "oncelog.deeds"):
        run(work())
    # What waits for others' markers, as an InitProducerId may, is given up with its client.
    became = "done" if is_heard else "its client had gone before it was answered"
    _, line = lines_of(caplog)
    assert line == f"{what}, by client 'test' at 127.0.0.1: {became}"
    _, entry = map(json.loads, kept)
    assert (entry["event"], entry["what"], entry["outcome"]) == (case.partition(" ")[0], what, became)
    assert (entry["principal"], entry["client_id"], entry["address"]) == ("User:ANONYMOUS", "test", "127.0.0.1")
    assert entry["transactional_id"] == {"abort": "x", "fence": "y"}.get(case)


def test_what_was_refused_is_said_so_though_its_client_has_gone(tmp_path, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        async with broker_and_client(tmp_path) as (broker, _):
            gone = await Client.connect(broker)
            async with broker.store.changing():
                gone.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="never")], timeout_ms=5_000))
                await until(lambda: len(broker.server.tasks) == 1)
                gone.close()
                await until(lambda: len(broker.server._connections) == 1)
            await until(lambda: bool(lines_of(caplog)))

    with caplog.at_level(logging.INFO, "oncelog.deeds"):
        run(work())
    assert lines_of(caplog) == [
        "delete topics 'never', by client 'test' at 127.0.0.1: UNKNOWN_TOPIC_OR_PARTITION",
    ]


def test_so_many_go_on_whose_clients_have_gone(
    tmp_path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each keeps its request in memory, and no limit of connections counts it: what is beyond ends with its client."""
    monkeypatch.setattr("oncelog.broker.admission.deeds.UNHEARD_MAX", 1)

    async def leave(broker: Broker, name: str) -> None:
        gone, running = await Client.connect(broker), len(broker.server.tasks)
        gone.send(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=5_000))
        await until(lambda: len(broker.server.tasks) > running)
        gone.close()
        await until(lambda: len(broker.server._connections) == 1)

    async def work() -> None:
        async with broker_and_client(tmp_path) as (broker, client):
            for name in ("first", "second", "third"):
                await client.create(name)
            async with broker.store.changing():
                await leave(broker, "first")
                await leave(broker, "second")
                await until(lambda: len(lines_of(caplog)) == 1)
            await until(lambda: len(lines_of(caplog)) == 2)
            async with broker.store.changing():
                await leave(broker, "third")
            await until(lambda: len(lines_of(caplog)) == 3)
            assert list(broker.metadata.topics) == ["second"]

    with caplog.at_level(logging.INFO, "oncelog.deeds"):
        run(work())
    assert [line.rpartition(": ")[::2] for line in lines_of(caplog)] == [
        ("delete topics 'second', by client 'test' at 127.0.0.1", "its client had gone before it was answered"),
        ("delete topics 'first', by client 'test' at 127.0.0.1", "done"),
        ("delete topics 'third', by client 'test' at 127.0.0.1", "done"),
    ]


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "oncelog.deeds"]
