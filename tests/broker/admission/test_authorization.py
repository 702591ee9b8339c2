"""A broker with Kafka's authorizer: rules made over the wire hold at once, and the broker trusts itself."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest
from evidence.world.broker import (
    Client,
    ConnectionClosed,
    _Protocol,
    broker_and_client,
    fetch_request,
    keys,
    run,
    until,
)

from oncelog.broker.broker import Broker
from oncelog.broker.config.config import ConfigInvalid, config_from
from oncelog.broker.network.peer import client_host_of
from oncelog.broker.requests.audit import FAILURES_MAX
from oncelog.core.access.authorizer import STANDARD_AUTHORIZER
from oncelog.errors import ErrorCode
from oncelog.host.host import real_host
from oncelog.wire.api import ApiKey
from oncelog.wire.frame import decode_response, encode_request
from oncelog.wire.messages.create_acls import AclCreation, CreateAclsRequest
from oncelog.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from oncelog.wire.messages.describe_acls import DescribeAclsRequest
from oncelog.wire.messages.describe_cluster import DescribeClusterRequest
from oncelog.wire.messages.heartbeat import HeartbeatRequest
from oncelog.wire.messages.metadata import MetadataRequest
from oncelog.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

E = ErrorCode
CONFIG = {"authorizer_class_name": STANDARD_AUTHORIZER, "allow_everyone_if_no_acl_found": True}
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
READ, WRITE, DESCRIBE, ALTER, CLUSTER_ACTION = 3, 4, 8, 7, 9
DENY, ALLOW = 2, 3


def rule(kind, name, operation, permission=DENY, who="User:ANONYMOUS", host="*"):
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        principal=who,
        host=host,
        operation=operation,
        permission_type=permission,
    )


async def create(client, *rules):
    reply = await client.call(CreateAclsRequest(creations=list(rules)))
    assert [each.error_code for each in reply.results] == [E.NONE] * len(rules)


def everything(cls):
    more = {"operation": 1, "permission_type": 1, "pattern_type_filter": 1}
    return cls(resource_type_filter=1, resource_name_filter=None, principal_filter=None, host_filter=None, **more)


def test_rules_hold_at_once_and_until_they_are_deleted(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, **CONFIG) as (_, client):
            await client.create("t")
            assert (await client.produce("t", "a")).error_code == E.NONE
            await create(client, rule(TOPIC, "t", WRITE))
            assert (await client.produce("t", "b")).error_code == E.TOPIC_AUTHORIZATION_FAILED
            with pytest.raises(AssertionError, match="TOPIC_AUTHORIZATION_FAILED"):
                await client.read("t")  # a rule is about the topic now, and nobody is allowed to read it
            await create(client, rule(TOPIC, "t", READ, ALLOW))
            assert await client.read("t") == ["a"]
            reply = await client.call(DeleteAclsRequest(filters=[everything(DeleteAclsFilter)]))
            assert len(reply.filter_results[0].matching_acls) == 2
            assert (await client.produce("t", "c")).error_code == E.NONE

    run(work())


def denials(caplog):
    said = [json.loads(record.getMessage()) for record in caplog.records if record.name == "oncelog.audit"]
    return [
        (each["request"], *(tuple(one.values()) for one in each["denied"]))
        for each in said
        if each["event"] == "denied"
    ]


def test_what_was_denied_is_named(tmp_path, caplog):
    """Who investigates needs the right that was missing, not the request alone; a reader is told, too."""
    caplog.set_level(logging.INFO, "oncelog.audit")

    async def work():
        async with broker_and_client(tmp_path, **CONFIG) as (_, client):
            await client.create("t")
            assert (await client.produce("t", "a")).error_code == E.NONE
            await create(client, rule(TOPIC, "t", WRITE), rule(TOPIC, "t", READ), rule(GROUP, "a\nb", READ))
            await client.produce("t", "b")
            for _ in range(12):
                await client.call(fetch_request("t", 0, committed=False), 12)
            await client.call(HeartbeatRequest(group_id="a\nb", generation_id=1, member_id="m"))

    run(work())
    (produce, *fetches, heartbeat) = denials(caplog)
    assert produce == ("PRODUCE", ("WRITE", "TOPIC", "t"))
    assert fetches == [("FETCH", ("READ", "TOPIC", "t"))] * FAILURES_MAX  # of a reader who asks again and again
    assert heartbeat == ("HEARTBEAT", ("READ", "GROUP", "a\nb"))
    assert all("\n" not in record.getMessage() for record in caplog.records if record.name == "oncelog.audit")


def test_rules_survive_a_restart(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, **CONFIG) as (_, client):
            await create(client, rule(TOPIC, "t", WRITE), rule(TOPIC, "u", READ, ALLOW))
        async with broker_and_client(tmp_path, **CONFIG) as (_, client):
            found = (await client.call(everything(DescribeAclsRequest))).resources
            assert [(each.resource_name, len(each.acls)) for each in found] == [("t", 1), ("u", 1)]
        async with broker_and_client(tmp_path) as (_, client):
            assert (await client.call(everything(DescribeAclsRequest))).error_code == E.SECURITY_DISABLED
            reply = await client.call(CreateAclsRequest(creations=[rule(TOPIC, "t", WRITE)]))
            assert reply.results[0].error_code == E.SECURITY_DISABLED

    run(work())


@pytest.mark.parametrize("has_shortcut", [True, False], ids=["plain calls", "over the network"])
def test_the_broker_itself_may_do_what_its_clients_may_not(tmp_path, has_shortcut):
    """Verification and markers go through the broker's own requests, which need CLUSTER_ACTION."""

    async def work():
        host = real_host()
        host.network.has_shortcut = has_shortcut
        async with Broker(str(tmp_path), keys(CONFIG), host) as broker:
            client = await Client.connect(broker)
            await client.create("t")
            await create(client, rule(CLUSTER, "kafka-cluster", CLUSTER_ACTION), rule(CLUSTER, "kafka-cluster", ALTER))
            producer = await client.init("x")
            added = {"producer": producer, "sequence": 0, "transactional_id": "x"}
            assert (await client.produce("t", "a", **added)).error_code == E.NONE
            assert (await client.end("x", producer, commit=True)).error_code == E.NONE
            while not await client.read("t", wait_ms=50):
                pass
            denied = await client.call(CreateAclsRequest(creations=[rule(TOPIC, "t", WRITE)]))
            assert denied.results[0].error_code == E.CLUSTER_AUTHORIZATION_FAILED
            client.close()
        host.syncer.close()

    run(work())


def test_nobody_else_on_the_machine_passes_for_the_broker(tmp_path):
    """Not by the name that its connections go by, nor from the address of one that it had."""

    async def work():
        host = real_host()
        host.network.has_shortcut = False
        async with Broker(str(tmp_path), keys(CONFIG), host) as broker:
            client = await Client.connect(broker)
            await client.create("t")
            await create(client, rule(CLUSTER, "kafka-cluster", CLUSTER_ACTION), rule(CLUSTER, "kafka-cluster", ALTER))
            producer = await client.init("x")
            added = {"producer": producer, "sequence": 0, "transactional_id": "x"}
            assert (await client.produce("t", "a", **added)).error_code == E.NONE
            marker = WritableTxnMarker(
                producer_id=producer[0],
                producer_epoch=producer[1],
                topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
            )
            request = WriteTxnMarkersRequest(markers=[marker])
            own = [each for each in broker.server._connections if each.is_of_broker]
            assert len(own) == 1, "the gate's"
            for client_id in ("oncelog-1-gate", "oncelog-1-markers"):
                client.send_bytes(b"".join(encode_request(ApiKey.WRITE_TXN_MARKERS, 1, 9, client_id, request)))
                _, reply = decode_response(ApiKey.WRITE_TXN_MARKERS, 1, await client.frame())
                code = reply.markers[0].topics[0].partitions[0].error_code
                assert code == E.CLUSTER_AUTHORIZATION_FAILED
            was = broker.gate_peer.own_address
            broker.gate_peer.close()
            await until(lambda: broker.gate_peer.own_address is None)
            assert not broker.server.is_own(was)
            assert not broker.server.is_own(None)
            client.close()
        host.syncer.close()

    run(work())


def test_without_rules_nobody_may_do_anything_unless_the_config_says_so(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, authorizer_class_name=STANDARD_AUTHORIZER) as (broker, client):
            cluster = await client.call(DescribeClusterRequest(include_cluster_authorized_operations=True))
            assert cluster.cluster_authorized_operations == 0
            assert cluster.cluster_id == broker.cluster_id, "everybody may ask which cluster this is"
            assert (await client.call(MetadataRequest(topics=None))).topics == []
            assert (await client.produce("t", "a", version=9)).error_code == E.TOPIC_AUTHORIZATION_FAILED
            assert broker.metrics.count("authorization_failures") == 1

    run(work())


@pytest.mark.parametrize("may_act", [True, False])
def test_who_says_that_it_is_a_replica_needs_the_right_of_one(tmp_path, may_act):
    """CLUSTER_ACTION, beside the right to read."""

    async def work():
        async with broker_and_client(tmp_path, **CONFIG) as (_, client):
            await client.create("t")
            await client.produce("t", "a")
            allow = ALLOW if may_act else DENY
            await create(client, rule(CLUSTER, "kafka-cluster", CLUSTER_ACTION, allow))
            wanted = fetch_request("t", 0, committed=False)
            for replica_id, code in ((1, E.NONE if may_act else E.TOPIC_AUTHORIZATION_FAILED), (-1, E.NONE)):
                reply = await client.call(wanted.replace(replica_id=replica_id), 12)
                assert reply.responses[0].partitions[0].error_code == code

    run(work())


def test_super_users_may_do_everything(tmp_path):
    async def work():
        config = {"authorizer_class_name": STANDARD_AUTHORIZER, "super_users": "User:ANONYMOUS;User:root"}
        async with broker_and_client(tmp_path, **config) as (_, client):
            await client.create("t")
            await create(client, rule(TOPIC, "t", WRITE))
            assert (await client.produce("t", "a")).error_code == E.NONE

    run(work())


def test_a_producer_without_acks_learns_by_losing_its_connection(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, **CONFIG) as (_, client):
            await client.create("t")
            await create(client, rule(TOPIC, "t", WRITE))
            client.send(client.produce_request("t", "a", acks=0), 9)
            await client.frame()

    with pytest.raises(ConnectionClosed):
        run(work())


@pytest.mark.parametrize(
    "config", [{"authorizer.class.name": "com.example.Mine"}, {"super.users": "root"}], ids=["class", "super users"]
)
def test_an_authorizer_that_cannot_be_is_refused(config):
    with pytest.raises(ConfigInvalid):
        config_from(config)


async def connect_from(broker, host):
    """A client whose connection comes from this address of the machine's own."""
    to_host, port = broker.addresses[0]
    loop = asyncio.get_running_loop()
    _, protocol = await loop.create_connection(_Protocol, to_host, port, local_addr=(host, 0))
    return Client(protocol)


HERE, THERE = "127.0.0.1", "127.0.0.2"


@pytest.mark.parametrize("is_reversed", [False, True], ids=["as written", "reversed"])
@pytest.mark.parametrize(
    ("rules", "may"),
    [
        ([(ALLOW, HERE)], {HERE}),
        ([(ALLOW, "*")], {HERE, THERE}),
        ([(ALLOW, "*"), (DENY, HERE)], {THERE}),
        ([(ALLOW, HERE), (DENY, "*")], set()),
        ([(ALLOW, HERE), (DENY, HERE)], set()),
        ([(ALLOW, HERE), (DENY, THERE)], {HERE}),
        ([(DENY, THERE)], set()),
        ([(ALLOW, "127.0.0.*")], set()),  # no pattern: an address or all
        ([(ALLOW, "127.0.0."), (ALLOW, "127.0.0.10")], set()),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else None,
)
def test_rules_are_about_the_host_that_a_client_comes_from(tmp_path, rules, may, is_reversed):
    async def work():
        config = CONFIG | {"allow_everyone_if_no_acl_found": True}
        async with broker_and_client(tmp_path, **config) as (broker, client):
            await client.create("t")
            order = reversed(rules) if is_reversed else rules
            await create(client, *(rule(TOPIC, "t", WRITE, permission, host=host) for permission, host in order))
            found = set()
            for host in (HERE, THERE, HERE):  # what was decided for one holds for no other
                other = await connect_from(broker, host)
                code = (await other.produce("t", host)).error_code
                assert code in (E.NONE, E.TOPIC_AUTHORIZATION_FAILED)
                found |= {host} if code == E.NONE else set()
                other.close()
            assert found == may

    run(work())


def test_an_ipv4_address_is_the_same_on_a_listener_of_both_families():
    """A socket of both families calls it ::ffff:10.0.0.1; a rule, quota or limit for 10.0.0.1 is about it too."""
    assert client_host_of(("::ffff:10.0.0.1", 5, 0, 0)) == "10.0.0.1"
    assert client_host_of(("::FFFF:10.0.0.1", 5, 0, 0)) == "10.0.0.1"
    assert client_host_of(("10.0.0.1", 5)) == "10.0.0.1"
    assert client_host_of(("::1", 5, 0, 0)) == "::1"
    assert client_host_of(("::ffff:0:1", 5, 0, 0)) == "::ffff:0:1"
    assert client_host_of("/a/socket") == ""
