"""Listeners that want to know who comes, over real sockets: what is served before, what ends a connection, sessions."""

from __future__ import annotations

import asyncio
import json
import logging
import struct
from random import Random

import pytest
from evidence.world.broker import Client, ConnectionClosed, run, until
from evidence.world.message_values import message_of
from evidence.world.security import (
    SCRAM_PASSWORD,
    SCRAM_USER,
    add_scram_user,
    authenticate,
    handshake,
    log_in,
    plain_servers,
    sasl_servers,
    secured_broker,
    send_raw_token,
    stranger,
)

from oncelog import Admin, Consumer, Producer
from oncelog.broker.handlers import MODULES
from oncelog.broker.network import secured_connection
from oncelog.core.login.mechanisms import login_of
from oncelog.errors import ErrorCode
from oncelog.wire.api import APIS, ApiKey
from oncelog.wire.frame import encode_request
from oncelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from oncelog.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from oncelog.wire.messages.describe_cluster import DescribeClusterRequest
from oncelog.wire.messages.find_coordinator import FindCoordinatorRequest
from oncelog.wire.messages.metadata import MetadataRequest
from oncelog.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from oncelog.wire.messages.sasl_handshake import SaslHandshakeRequest
from oncelog.wire.schema import decode_message
from tests.broker.metrics.limits_world import shows

E = ErrorCode
ALICE = b"\0alice\0wonder-secret"


async def is_closed(client):
    with pytest.raises(ConnectionClosed):
        await client.frame()
    return True


async def is_served(client):
    return (await client.call(MetadataRequest(topics=[]), 12)).cluster_id


def test_each_mechanism_logs_in_and_is_served():
    async def work():
        async with secured_broker() as broker:
            await add_scram_user(broker)
            for mechanism, user in (("PLAIN", "alice"), ("SCRAM-SHA-256", SCRAM_USER), ("SCRAM-SHA-512", SCRAM_USER)):
                client = await stranger(broker)
                assert (await client.call(ApiVersionsRequest(), 0)).error_code == E.NONE
                answer = await log_in(client, user, mechanism=mechanism)
                assert (answer.error_code, answer.error_message, answer.session_lifetime_ms) == (0, "", 0)
                assert await is_served(client)
                assert (await client.call(ApiVersionsRequest(), 0)).error_code == E.NONE
                client.close()
            assert broker.metrics.count("authentications") == 3

    run(work())


def test_before_authentication_nothing_else_is_served():
    """Every API's request, first, after ApiVersions, and where a token is due: the connection ends without an answer."""

    async def work():
        async with secured_broker(oncelog_max_unauthenticated_connections_per_ip=1000) as broker:
            for key in MODULES:
                if key in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
                    continue
                version = APIS[key].max_stable_version
                for state in range(3):
                    client = await stranger(broker)
                    if state == 1:
                        await client.call(ApiVersionsRequest(), 0)
                    if state == 2:
                        await handshake(client)
                    client.send(message_of(APIS[key].request, version, Random(1)), version)
                    assert await is_closed(client), (key, state)
            assert broker.metrics.count("authentications") == 0
            assert not broker.metadata.topics

    run(work())


def test_what_kafka_answers_out_of_turn():
    async def work():
        async with secured_broker() as broker:
            client = await stranger(broker)
            frame = b"".join(encode_request(ApiKey.API_VERSIONS, 3, 77, "c", ApiVersionsRequest()))
            client.send_bytes(frame[:6] + struct.pack(">h", 99) + frame[8:])
            assert decode_message(ApiVersionsResponse, 0, (await client.frame())[4:]).error_code == 35
            answer = await client.call(ApiVersionsRequest(client_software_name="a b"), 3)
            assert answer.error_code == E.INVALID_REQUEST
            assert (await client.call(ApiVersionsRequest(), 0)).error_code == E.NONE
            client.send(ApiVersionsRequest(), 0)
            assert await is_closed(client), "a second one"
            for name in ("", "plain", "GSSAPI"):
                client = await stranger(broker)
                answer = await handshake(client, name)
                assert answer.error_code == E.UNSUPPORTED_SASL_MECHANISM
                assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
                assert await is_closed(client)
            client = await stranger(broker)
            await handshake(client)
            answer = await handshake(client)
            assert (answer.error_code, answer.mechanisms) == (E.ILLEGAL_SASL_STATE, [])
            assert await is_closed(client)
            client = await stranger(broker)
            client.send(SaslAuthenticateRequest(auth_bytes=ALICE), 2)
            assert await is_closed(client), "before the handshake"
            client = await Client.connect(broker)
            assert (await handshake(client)).error_code == E.ILLEGAL_SASL_STATE
            assert (await authenticate(client, ALICE)).error_code == E.ILLEGAL_SASL_STATE
            assert await is_served(client), "of a plain listener"

    run(work())


def test_a_wrong_password_is_told_after_the_delay_and_what_stands_behind_is_never_served():
    async def work():
        async with secured_broker(connection_failed_authentication_delay_ms=150) as broker:
            client = await stranger(broker)
            begun_s = asyncio.get_running_loop().time()
            client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            client.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0no"), 1)
            client.send(MetadataRequest(topics=[]), 12)
            assert (await client.receive())[1].error_code == 0
            _, answer = await client.receive()
            assert (answer.error_code, answer.auth_bytes) == (E.SASL_AUTHENTICATION_FAILED, b"")
            assert asyncio.get_running_loop().time() - begun_s >= 0.15
            assert await is_closed(client)
            assert broker.metrics.count("authentications_failed") == 1

    run(work())


def test_the_end_comes_behind_a_refusal_not_together_with_it(monkeypatch):
    """kafka-python throws away what it reads together with the end, and would only know that it was disconnected."""
    monkeypatch.setattr(secured_connection, "LINGER_S", 3_600.0)

    async def work():
        async with secured_broker() as broker:
            client = await stranger(broker)
            answer = await log_in(client, password="no")
            assert answer.error_code == E.SASL_AUTHENTICATION_FAILED
            client.send(MetadataRequest(topics=[]), 12)
            with pytest.raises(TimeoutError):  # neither an answer nor the end
                await asyncio.wait_for(client.frame(), 0.05)
            client.close()
            await until(lambda: not broker.server.strangers._of_host)

    run(work())


def test_everything_in_one_segment():
    async def work():
        async with secured_broker() as broker:
            client = await stranger(broker)
            client.send(ApiVersionsRequest(), 0)
            client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            client.send(SaslAuthenticateRequest(auth_bytes=ALICE), 2)
            client.send(MetadataRequest(topics=[]), 12)
            answers = [(await client.receive())[1] for _ in range(4)]
            assert [answers[at].error_code for at in range(3)] == [0, 0, 0]
            assert answers[3].cluster_id == broker.cluster_id

    run(work())


def test_tokens_without_requests_after_handshake_v0():
    async def work():
        async with secured_broker() as broker:
            await add_scram_user(broker)
            reader, writer = await asyncio.open_connection(*broker.addresses[1])
            writer.writelines(encode_request(ApiKey.SASL_HANDSHAKE, 0, 1, "c", SaslHandshakeRequest(mechanism="PLAIN")))
            writer.write(struct.pack(">i", len(ALICE)) + ALICE)
            writer.writelines(encode_request(ApiKey.METADATA, 12, 2, "c", MetadataRequest(topics=[])))
            await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            assert await reader.readexactly(4) == bytes(4), "the empty answer"
            assert (await reader.readexactly(8))[4:] == struct.pack(">i", 2)
            writer.close()
            client = await stranger(broker)
            await handshake(client, "SCRAM-SHA-256", 0)
            login = login_of("SCRAM-SHA-256", SCRAM_USER, SCRAM_PASSWORD, b"n" * 24)
            send_raw_token(client, login.first())
            send_raw_token(client, login.next(bytes(await client.frame())))
            assert login.next(bytes(await client.frame())) is None
            assert await is_served(client)
            client = await stranger(broker)
            await handshake(client, "PLAIN", 0)
            send_raw_token(client, b"\0alice\0no")
            assert await is_closed(client)

    run(work())


@shows("sasl.server.max.receive.size")
def test_frames_before_authentication_are_small():
    async def work():
        async with secured_broker(sasl_server_max_receive_size=1000) as broker:
            client = await stranger(broker)
            client.send_bytes(struct.pack(">i", 1001))
            assert await is_closed(client)
            assert broker.metrics.limit_hits("sasl.server.max.receive.size") == 1
            client = await stranger(broker)
            await log_in(client)
            await client.create("t")
            assert (await client.produce("t", "x" * 100_000)).error_code == 0

    run(work())


@shows("oncelog.authentication.timeout.ms")
def test_who_does_not_authenticate_in_time_is_closed_whatever_it_sends():
    async def work():
        async with secured_broker(oncelog_authentication_timeout_ms=1500) as broker:
            silent, slow, done = await stranger(broker), await stranger(broker), await stranger(broker)
            await log_in(done)
            await handshake(slow)
            frame = b"".join(encode_request(ApiKey.SASL_AUTHENTICATE, 2, 1, "c", SaslAuthenticateRequest()))
            slow.send_bytes(frame[:-1])
            assert await is_closed(silent)
            assert await is_closed(slow)
            assert await is_served(done)
            assert broker.metrics.limit_hits("oncelog.authentication.timeout.ms") == 2

    run(work())


@shows("oncelog.max.unauthenticated.connections", "oncelog.max.unauthenticated.connections.per.ip")
def test_strangers_make_room_for_strangers():
    async def work():
        config = {"oncelog_max_unauthenticated_connections_per_ip": 3}
        async with secured_broker(**config) as broker:
            known = await stranger(broker)
            await log_in(known)
            clients = [await stranger(broker) for _ in range(4)]
            assert await is_closed(clients[0])
            assert (await handshake(clients[3])).error_code == 0
            assert await is_served(known)
            assert broker.metrics.limit_hits("oncelog.max.unauthenticated.connections.per.ip") == 1
            for client in clients:
                client.close()
            await until(lambda: not broker.server.strangers._held_bytes)
            assert not broker.server.strangers._of_host
        async with secured_broker(oncelog_max_unauthenticated_connections=2) as broker:
            clients = [await stranger(broker) for _ in range(3)]
            assert await is_closed(clients[0])
            assert broker.metrics.limit_hits("oncelog.max.unauthenticated.connections") == 1

    run(work())


@shows("oncelog.max.unauthenticated.bytes")
def test_what_strangers_send_is_bounded_in_all():
    async def work():
        async with secured_broker(oncelog_max_unauthenticated_bytes=10_000) as broker:
            clients = [await stranger(broker) for _ in range(3)]
            for client in clients:
                client.send_bytes(struct.pack(">i", 5_000) + bytes(4_000))
                await asyncio.sleep(0)
            await until(lambda: broker.metrics.limit_hits("oncelog.max.unauthenticated.bytes") == 1)
            assert len(broker.server.strangers._held_bytes) == 2
            for client in clients:
                client.close()
            await until(lambda: not broker.server.strangers._held_bytes)
            assert broker.server.strangers._total_bytes == 0

    run(work())


def test_a_session_ends_and_begins_again_on_the_same_connection():
    async def work():
        async with secured_broker(connections_max_reauth_ms=1_200) as broker:
            loop = asyncio.get_running_loop()
            client = await stranger(broker)
            assert (await log_in(client)).session_lifetime_ms == 1_200
            assert await is_served(client)
            begun_s = loop.time()
            await asyncio.sleep(1.05)
            assert (await log_in(client)).session_lifetime_ms == 1_200
            assert (await handshake(client)).error_code == E.ILLEGAL_SASL_STATE, "once more at once"
            await asyncio.sleep(0.5)
            assert await is_served(client), "longer than the first session"
            assert loop.time() - begun_s > 1.2
            assert broker.metrics.count("reauthentications") == 1
            await asyncio.sleep(0.8)
            client.send(MetadataRequest(topics=[]), 12)
            assert await is_closed(client)
            silent = await stranger(broker)
            await log_in(silent)
            assert await is_closed(silent), "a timer ends who says nothing"
            assert broker.metrics.count("sessions_expired") == 2

    run(work())


def test_a_session_does_not_go_on_as_somebody_else():
    async def work():
        async with secured_broker(connections_max_reauth_ms=60_000) as broker:
            client = await stranger(broker)
            await log_in(client)
            await asyncio.sleep(1.05)
            assert (await log_in(client, "admin")).error_code == E.SASL_AUTHENTICATION_FAILED
            assert await is_closed(client)
            assert broker.metrics.count("reauthentications_failed") == 1

    run(work())


def test_a_user_whose_credentials_are_deleted_is_put_out():
    async def work():
        async with secured_broker(connections_max_idle_ms=200) as broker:
            await add_scram_user(broker)
            client = await stranger(broker)
            await log_in(client, SCRAM_USER, mechanism="SCRAM-SHA-256")
            async with Admin(bootstrap_servers=plain_servers(broker)) as admin:
                await admin.alter_user_scram_credential(SCRAM_USER, "SCRAM-SHA-256", None)
            while broker.server._connections:
                try:
                    await is_served(client)
                except ConnectionClosed:
                    break
                await asyncio.sleep(0.02)
            again = await stranger(broker)
            assert (await log_in(again, SCRAM_USER, mechanism="SCRAM-SHA-256")).error_code == 58

    run(work())


def test_a_new_password_ends_the_sessions_of_the_old_one(caplog):
    """A password is changed because others may know it. Another user's, or another kind's, ends nothing."""
    caplog.set_level(logging.INFO, "oncelog.audit")

    async def work():
        async with secured_broker(oncelog_request_receive_timeout_ms=200) as broker:
            await add_scram_user(broker)
            await add_scram_user(broker, "other")
            old, other_kind = await stranger(broker), await stranger(broker)
            await log_in(old, SCRAM_USER, mechanism="SCRAM-SHA-256")
            await log_in(other_kind, SCRAM_USER, mechanism="SCRAM-SHA-512")
            async with Admin(bootstrap_servers=plain_servers(broker)) as admin:
                await admin.alter_user_scram_credential(SCRAM_USER, "SCRAM-SHA-256", "another-secret")
                await admin.alter_user_scram_credential("other", "SCRAM-SHA-512", "another-secret")
            for _ in range(100):
                try:
                    await is_served(old)
                except ConnectionClosed:
                    break
                assert await is_served(other_kind)
                await asyncio.sleep(0.02)
            else:
                pytest.fail("the session of the old password goes on")
            new = await stranger(broker)
            answer = await log_in(new, SCRAM_USER, "another-secret", mechanism="SCRAM-SHA-256")
            assert answer.error_code == E.NONE
            assert await is_served(new)
            assert await is_served(other_kind)

    run(work())
    said = [json.loads(line.message) for line in caplog.records if line.name == "oncelog.audit"]
    ended = [(line["reason"], line["mechanism"]) for line in said if line["event"] == "session ended"]
    assert ended == [("the password was changed", "SCRAM-SHA-256")]


def test_each_listener_tells_its_own_address():
    async def work():
        async with secured_broker() as broker:
            client = await stranger(broker)
            await log_in(client)
            for each, address in ((client, broker.addresses[1]), (await Client.connect(broker), broker.addresses[0])):
                told = (await each.call(MetadataRequest(topics=[]), 12)).brokers[0]
                assert (told.host, told.port) == address
                told = (await each.call(DescribeClusterRequest())).brokers[0]
                assert (told.host, told.port) == address
                told = (await each.call(FindCoordinatorRequest(coordinator_keys=["g"]))).coordinators[0]
                assert (told.host, told.port) == address

    run(work())


def test_the_principal_is_what_rules_and_quotas_are_about(caplog):
    caplog.set_level(logging.INFO, "oncelog.audit")

    async def work():
        config = {
            "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super_users": "User:admin;User:ANONYMOUS",
        }
        async with secured_broker(**config) as broker:
            admin, alice = await stranger(broker), await stranger(broker)
            await log_in(admin, "admin")
            await log_in(alice)
            await admin.create("t")
            assert (await admin.produce("t", "a")).error_code == 0
            assert (await alice.produce("t", "a")).error_code == E.TOPIC_AUTHORIZATION_FAILED
            async with Admin(bootstrap_servers=plain_servers(broker)) as rules:
                await rules.alter_client_quotas({"user": "admin"}, {"producer_byte_rate": 1.0})
            assert (await admin.call(admin.produce_request("t", "x" * 10_000), 12)).throttle_time_ms > 0

    run(work())
    said = [json.loads(record.getMessage()) for record in caplog.records if record.name == "oncelog.audit"]
    assert [(each["event"], each["principal"]) for each in said] == [
        ("login", "User:admin"),
        ("login", "User:alice"),
        ("denied", "User:alice"),
    ]
    assert said[2]["request"] == "PRODUCE"


def test_no_name_forges_a_line_and_no_secret_is_logged(caplog):
    caplog.set_level(logging.DEBUG, "oncelog")

    async def work():
        async with secured_broker() as broker:
            for user in ("evil\nlogin ok", "\u202egnp.exe", "x" * 5000):
                client = await stranger(broker)
                await handshake(client)
                await authenticate(client, f"\0{user}\0top-secret-word".encode())
            client = await stranger(broker)
            await log_in(client)
            raise_repr = repr(vars(broker.server)) + repr(broker.config) + repr(vars(client))
            assert "wonder-secret" not in raise_repr

    run(work())
    text = "\n".join(record.getMessage() for record in caplog.records)
    assert "top-secret-word" not in text
    assert "wonder-secret" not in text
    audit = [record.getMessage() for record in caplog.records if record.name == "oncelog.audit"]
    assert all(line.isascii() and "\n" not in line and len(line) < 1000 for line in audit)
    assert json.loads(audit[0])["principal"] == "User:evil\nlogin ok"


def test_guessers_wait_longer_and_longer_and_the_log_counts_them(caplog):
    caplog.set_level(logging.INFO, "oncelog.audit")

    async def work():
        async with secured_broker(connection_failed_authentication_delay_ms=1) as broker:
            loop = asyncio.get_running_loop()
            took_s = []
            for _ in range(28):
                client = await stranger(broker)
                begun_s = loop.time()
                assert (await log_in(client, password="no")).error_code == E.SASL_AUTHENTICATION_FAILED
                took_s.append(loop.time() - begun_s)
            assert took_s[-1] > 0.2

    run(work())
    assert len([record for record in caplog.records if "login failed" in record.getMessage()]) == 10


def test_tokens_off_for_those_who_may_have_them():
    async def work():
        async with secured_broker() as broker:
            client = await stranger(broker)
            await log_in(client)
            answer = await client.call(CreateDelegationTokenRequest())
            assert answer.error_code == E.DELEGATION_TOKEN_AUTH_DISABLED
            plain = await Client.connect(broker)
            answer = await plain.call(CreateDelegationTokenRequest())
            assert answer.error_code == E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED

    run(work())


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_our_clients_through_several_sessions(mechanism):
    """Transactions written and read while sessions end: nobody notices, not even where a busy machine makes a client late for
    its next login and its connection ends (`sessions_expired`)."""

    async def work():
        async with secured_broker(connections_max_reauth_ms=1_500, num_partitions=1) as broker:
            await add_scram_user(broker)
            user = "alice" if mechanism == "PLAIN" else SCRAM_USER
            security = {
                "bootstrap_servers": sasl_servers(broker),
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": mechanism,
                "sasl_username": user,
                "sasl_password": "wonder-secret" if mechanism == "PLAIN" else SCRAM_PASSWORD,
            }
            read = []
            async with (
                Producer(**security, transactional_id="t") as producer,
                Consumer(
                    "t", **security, group_id="g", auto_offset_reset="earliest", isolation_level="read_committed"
                ) as consumer,
            ):
                for number in range(20):
                    async with producer.transaction():
                        await producer.send("t", b"%d" % number)
                    while len(read) <= number:
                        read += [record.value for record in await consumer.poll(1_000)]
                    await asyncio.sleep(0.15)
            assert read == [b"%d" % number for number in range(20)]
            assert broker.metrics.count("reauthentications") >= 2
            assert broker.metrics.count("authentications_failed") == 0

    run(work())


def test_whatever_strangers_send_nobody_comes_in_and_nothing_breaks():
    """Changed frames of a login that would fail, cut anywhere, hundreds of times: an honest client is served all along."""
    random = Random(8)
    frames = [
        encode_request(ApiKey.API_VERSIONS, 3, 1, "c", ApiVersionsRequest()),
        encode_request(ApiKey.SASL_HANDSHAKE, 1, 2, "c", SaslHandshakeRequest(mechanism="PLAIN")),
        encode_request(ApiKey.SASL_HANDSHAKE, 0, 2, "c", SaslHandshakeRequest(mechanism="SCRAM-SHA-256")),
        encode_request(ApiKey.SASL_AUTHENTICATE, 2, 3, "c", SaslAuthenticateRequest(auth_bytes=b"\0alice\0guess")),
        encode_request(ApiKey.SASL_AUTHENTICATE, 1, 3, "c", SaslAuthenticateRequest(auth_bytes=b"n,,n=sam,r=abc")),
        encode_request(ApiKey.SASL_AUTHENTICATE, 1, 4, "c", SaslAuthenticateRequest(auth_bytes=b"c=biws,r=abc,p=YQ==")),
        encode_request(ApiKey.METADATA, 12, 5, "c", MetadataRequest(topics=None)),
        [struct.pack(">i", 14) + b"n,,n=sam,r=abc"],
    ]
    whole = [b"".join(bytes(part) for part in parts) for parts in frames]

    def changed():
        data = bytearray(b"".join(random.choice(whole) for _ in range(random.randrange(1, 7))))
        for _ in range(random.choice((0, 0, 1, 3))):
            data[random.randrange(len(data))] = random.randrange(256)
        return bytes(data[: random.choice((len(data), random.randrange(len(data)) + 1))])

    async def work():
        config = {"oncelog_log_max_lines_per_minute": 5, "oncelog_max_unauthenticated_connections_per_ip": 20}
        async with secured_broker(**config) as broker:
            await add_scram_user(broker)
            honest = await stranger(broker)
            await log_in(honest)
            for number in range(600):
                client = await stranger(broker)
                client.send_bytes(changed())
                if random.random() < 0.5:
                    await asyncio.sleep(0.001)
                    client.close()
                if number % 50 == 0:
                    assert await is_served(honest)
            again = await stranger(broker)
            assert (await log_in(again, SCRAM_USER, mechanism="SCRAM-SHA-512")).error_code == 0
            assert broker.metrics.count("authentications") == 2
            assert broker.metrics.count("handler_failures") == 0
            assert len(broker.server.strangers._held_bytes) <= 21

    run(work())
