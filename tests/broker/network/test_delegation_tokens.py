"""Delegation tokens over real sockets: asked for, used, renewed, ended; who may not, and what an attacker tries."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest
from evidence.world.broker import Client, ConnectionClosed, run, until
from evidence.world.security import (
    SCRAM_PASSWORD,
    SCRAM_USER,
    USERS,
    add_scram_user,
    authenticate,
    handshake,
    log_in,
    plain_servers,
    sasl_servers,
    secured_broker,
    stranger,
)

from oncelog import Admin, Consumer, Producer, errors
from oncelog.broker.startup import sweep_tokens
from oncelog.client.admin.admin import Acl
from oncelog.core.access.authorizer import STANDARD_AUTHORIZER
from oncelog.core.login.mechanisms import login_of
from oncelog.core.scram import base64_text
from oncelog.errors import ErrorCode
from oncelog.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from oncelog.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from oncelog.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from oncelog.wire.messages.metadata import MetadataRequest
from oncelog.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from tests.broker.metrics.limits_world import shows

E = ErrorCode
ON = {"delegation_token_secret_key": "the-cluster's-secret"}
RULES = {"authorizer_class_name": STANDARD_AUTHORIZER, "super_users": "User:admin;User:ANONYMOUS"}
FIVE = (
    CreateDelegationTokenRequest(),
    RenewDelegationTokenRequest(hmac=b"x"),
    ExpireDelegationTokenRequest(hmac=b"x"),
    DescribeDelegationTokenRequest(owners=None),
)


def as_user(broker, user="alice"):
    """Options of a client that has a password."""
    return {
        "bootstrap_servers": sasl_servers(broker),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_username": user,
        "sasl_password": USERS[user],
    }


def as_token(broker, token, mechanism="SCRAM-SHA-256"):
    """Options of a client that has a token."""
    return {
        "bootstrap_servers": sasl_servers(broker),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_username": token.token_id,
        "sasl_password": token.password,
        "sasl_tokenauth": True,
    }


async def come_by(client, token_id, password, mechanism="SCRAM-SHA-256", *, is_token=True):
    """The last answer to a token."""
    assert (await handshake(client, mechanism)).error_code == E.NONE
    login = login_of(mechanism, token_id, password, b"n" * 24, is_token=is_token)
    answer = await authenticate(client, login.first())
    if answer.error_code == E.NONE:
        answer = await authenticate(client, login.next(bytes(answer.auth_bytes)))
    return answer


async def token_of(broker, user="alice", **options):
    async with Admin(**as_user(broker, user)) as admin:
        return await admin.create_delegation_token(**options)


async def is_served(client):
    return (await client.call(MetadataRequest(topics=[]), 12)).cluster_id


async def is_closed(client):
    with pytest.raises(ConnectionClosed):
        await client.frame()
    return True


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_our_clients_work_by_a_token(mechanism, caplog):
    """Transactions written and read as the token's owner, who is what rules and the audit log name."""
    caplog.set_level(logging.INFO, "oncelog.audit")

    async def work():
        async with secured_broker(**ON, **RULES) as broker:
            async with Admin(**as_user(broker, "admin")) as admin:
                rules = [Acl("topic", "t", "User:alice", name) for name in ("read", "write", "create")]
                rules += [Acl("transactional-id", "x", "User:alice", "write"), Acl("group", "g", "User:alice", "read")]
                await admin.create_acls(rules)
            token = await token_of(broker, renewers=["bob"])
            assert (token.owner, token.requester, token.renewers) == ("User:alice", "User:alice", ("User:bob",))
            security = as_token(broker, token, mechanism)
            async with Producer(**security, transactional_id="x") as producer, producer.transaction():
                await producer.send("t", b"by token")
            reading = {"group_id": "g", "auto_offset_reset": "earliest", "isolation_level": "read_committed"}
            async with Consumer("t", **security, **reading) as consumer:
                while not (records := await consumer.poll(1_000)):
                    pass
            assert [record.value for record in records] == [b"by token"]
            with pytest.raises(errors.TopicAuthorization):
                async with Producer(**security) as producer:
                    await producer.send("other", b"x")
            with pytest.raises(errors.AuthenticationFailed):
                await Admin(**security | {"sasl_tokenauth": False}).start()
            assert token.password not in caplog.text
            assert token.password not in repr(token) + repr(broker.config)

    run(work())
    said = [json.loads(record.getMessage()) for record in caplog.records if record.name == "oncelog.audit"]
    by_token = [each for each in said if each["event"] == "login" and "token" in each]
    assert by_token
    assert {each["principal"] for each in by_token} == {"User:alice"}


def test_who_may_not_ask_at_all():
    """Nobody in particular, and nobody who came by a token: 64 for all four; without a secret key 61."""

    async def codes(client):
        return [(await client.call(each)).error_code for each in FIVE]

    async def work():
        async with secured_broker(**ON) as broker:
            assert await codes(await Client.connect(broker)) == [E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED] * 4
            token = await token_of(broker)
            client = await stranger(broker)
            assert (await come_by(client, token.token_id, token.password)).error_code == E.NONE
            assert await codes(client) == [E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED] * 4
            async with Admin(**as_token(broker, token)) as admin:
                with pytest.raises(errors.UnsupportedByAuthentication):
                    await admin.create_delegation_token()
        async with secured_broker() as broker:
            client = await stranger(broker)
            await log_in(client)
            assert await codes(client) == [E.DELEGATION_TOKEN_AUTH_DISABLED] * 4
            plain = await Client.connect(broker)
            assert await codes(plain) == [E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED] * 4

    run(work())


def test_tokens_for_others_need_a_right(caplog):
    caplog.set_level(logging.INFO, "oncelog.audit")

    async def work():
        async with secured_broker(**ON, **RULES) as broker:
            with pytest.raises(errors.DelegationTokenAuthorization):
                await token_of(broker, owner="bob")
            assert (await token_of(broker, "admin", owner="bob")).owner == "User:bob"
            async with Admin(**as_user(broker, "admin")) as admin:
                await admin.create_acls([Acl("user", "User:bob", "User:alice", "create-tokens")])
            made = await token_of(broker, owner="bob")
            assert (made.owner, made.requester) == ("User:bob", "User:alice")
            client = await stranger(broker)
            await come_by(client, made.token_id, made.password)
            assert broker.server._connections
            (by_token,) = [each for each in broker.server._connections if each.is_by_token]
            assert by_token.principal == "User:bob"
            async with Admin(**as_user(broker)) as admin:
                with pytest.raises(errors.DelegationTokenOwnerMismatch):
                    await admin.renew_delegation_token(made.hmac)
                with pytest.raises(errors.KafkaError, match="INVALID_PRINCIPAL_TYPE"):
                    await admin.create_delegation_token(renewers=["Group:g"])

    run(work())
    said = [json.loads(record.getMessage()) for record in caplog.records if record.name == "oncelog.audit"]
    denied = [each for each in said if each["event"] == "denied"]
    assert [(each["principal"], each["request"]) for each in denied] == [("User:alice", "CREATE_DELEGATION_TOKEN")]


def test_who_sees_whose():
    async def work():
        async with secured_broker(**ON, **RULES) as broker:
            mine = await token_of(broker, "alice")
            theirs = await token_of(broker, "admin")
            async with Admin(**as_user(broker)) as alice, Admin(**as_user(broker, "admin")) as admin:

                async def seen(*owners):
                    return {each.token_id for each in await alice.describe_delegation_tokens(owners or None)}

                assert await seen() == {mine.token_id}
                assert await seen("admin") == set()
                assert {each.token_id for each in await admin.describe_delegation_tokens()} == {
                    mine.token_id,
                    theirs.token_id,
                }
                await admin.create_acls([Acl("delegation-token", theirs.token_id, "User:alice", "describe")])
                assert await seen("admin") == {theirs.token_id}
                other = await admin.create_delegation_token()
                assert await seen("admin") == {theirs.token_id}
                await admin.create_acls([Acl("user", "User:admin", "User:alice", "describe-tokens")])
                assert await seen("admin") == {theirs.token_id, other.token_id}
                described = next(
                    each for each in await alice.describe_delegation_tokens() if each.token_id == mine.token_id
                )
                assert described == mine

    run(work())


def test_a_session_is_no_longer_than_its_token_and_ends_with_it():
    """Kafka lets those who came by a token go on when it is expired; here they are put out within seconds."""

    async def work():
        config = {"connections_max_idle_ms": 200, "connections_max_reauth_ms": 50_000}
        async with secured_broker(**ON, **config) as broker, Admin(**as_user(broker)) as admin:
            token = await admin.create_delegation_token(max_lifetime_ms=20_000)
            client = await stranger(broker)
            answer = await come_by(client, token.token_id, token.password)
            assert 15_000 < answer.session_lifetime_ms <= 20_000
            await admin.expire_delegation_token(token.hmac)
            while broker.server._connections:
                try:
                    await is_served(client)
                except ConnectionClosed:
                    break
                await asyncio.sleep(0.02)
            again = await stranger(broker)
            answer = await come_by(again, token.token_id, token.password)
            assert answer.error_code == E.SASL_AUTHENTICATION_FAILED
            soon = await admin.create_delegation_token(max_lifetime_ms=100)
            await asyncio.sleep(0.15)
            late = await stranger(broker)
            answer = await come_by(late, soon.token_id, soon.password)
            assert answer.error_code == E.SASL_AUTHENTICATION_FAILED, "not swept yet, and expired"

    run(work())


def test_a_session_may_go_on_by_a_token_and_loses_the_right_to_tokens():
    async def work():
        config = {"connections_max_reauth_ms": 60_000}
        async with secured_broker(**ON, **config) as broker:
            await add_scram_user(broker)
            sam = {"sasl_mechanism": "SCRAM-SHA-256", "sasl_username": SCRAM_USER, "sasl_password": SCRAM_PASSWORD}
            async with Admin(**as_user(broker) | sam) as admin:
                token = await admin.create_delegation_token()
            client = await stranger(broker)
            await log_in(client, SCRAM_USER, mechanism="SCRAM-SHA-256")
            assert (await client.call(CreateDelegationTokenRequest())).error_code == E.NONE
            await asyncio.sleep(1.05)
            assert (await come_by(client, token.token_id, token.password)).error_code == E.NONE
            code = (await client.call(CreateDelegationTokenRequest())).error_code
            assert code == E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            other = await stranger(broker)
            await log_in(other, SCRAM_USER, mechanism="SCRAM-SHA-256")
            alices = await token_of(broker)
            await asyncio.sleep(1.05)
            assert (await come_by(other, alices.token_id, alices.password)).error_code == E.SASL_AUTHENTICATION_FAILED
            assert await is_closed(other), "another user's"

    run(work())


def test_attacks():
    async def work():
        async with secured_broker(**ON) as broker:
            await add_scram_user(broker)
            token = await token_of(broker)
            mac = token.hmac
            guesses = [
                ("its id as password", token.token_id, token.token_id),
                ("no password", token.token_id, ""),
                ("the MAC in hex", token.token_id, mac.hex()),
                ("the MAC with a bit turned", token.token_id, base64_text(bytes([mac[0] ^ 1]) + mac[1:])),
                ("the MAC cut", token.token_id, base64_text(mac[:32])),
                ("another id with this MAC", token.token_id[::-1], token.password),
                ("the owner's name with this MAC", "alice", token.password),
                ("a user's name and password", SCRAM_USER, SCRAM_PASSWORD),
                ("the secret key itself", token.token_id, ON["delegation_token_secret_key"]),
                ("a name of 1,000 letters", "x" * 1_000, token.password),
            ]
            for what, user, password in guesses:
                for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                    client = await stranger(broker)
                    answer = await come_by(client, user, password, mechanism)
                    assert answer.error_code == E.SASL_AUTHENTICATION_FAILED, what
                    assert "invalid credentials" in answer.error_message, what
                    assert await is_closed(client), what
                    broker.server.failures._counts.clear()
            client = await stranger(broker)
            answer = await come_by(client, token.token_id, token.password, is_token=False)
            assert answer.error_code == E.SASL_AUTHENTICATION_FAILED, "without tokenauth"
            client = await stranger(broker)
            answer = await log_in(client, token.token_id, token.password)
            assert answer.error_code == E.SASL_AUTHENTICATION_FAILED, "by PLAIN"
            async with Admin(**as_user(broker, "admin")) as admin:
                for wrong in (b"\0" * 64, mac[:-1], mac + b"x", base64_text(mac).encode(), token.token_id.encode()):
                    with pytest.raises(errors.DelegationTokenNotFound):
                        await admin.expire_delegation_token(wrong)
                with pytest.raises(errors.DelegationTokenOwnerMismatch):
                    await admin.expire_delegation_token(mac)
            broker.server.failures._counts.clear()
            client = await stranger(broker)
            assert (await come_by(client, token.token_id, token.password)).error_code == E.NONE, "it still holds"

    run(work())


def test_tokens_outlive_the_broker_and_die_with_the_secret_key(tmp_path):
    async def work():
        async with secured_broker(tmp_path, **ON) as broker:
            token = await token_of(broker, renewers=["admin"])
            gone = await token_of(broker)
            async with Admin(**as_user(broker)) as admin:
                await admin.expire_delegation_token(gone.hmac)
                renewed_ms = await admin.renew_delegation_token(token.hmac, period_ms=60_000)
        async with secured_broker(tmp_path, **ON) as broker:
            client = await stranger(broker)
            assert (await come_by(client, token.token_id, token.password)).session_lifetime_ms <= 60_000
            async with Admin(**as_user(broker)) as admin:
                (kept,) = await admin.describe_delegation_tokens()
                assert (kept.token_id, kept.hmac, kept.expiry_timestamp_ms) == (token.token_id, token.hmac, renewed_ms)
        async with secured_broker(tmp_path, delegation_token_secret_key="another") as broker:
            client = await stranger(broker)
            answer = await come_by(client, token.token_id, token.password)
            assert answer.error_code == E.SASL_AUTHENTICATION_FAILED
            async with Admin(**as_user(broker)) as admin:
                with pytest.raises(errors.DelegationTokenNotFound):
                    await admin.renew_delegation_token(token.hmac)
        async with secured_broker(tmp_path) as broker:
            client = await stranger(broker)
            answer = await come_by(client, token.token_id, token.password)
            assert answer.error_code == E.SASL_AUTHENTICATION_FAILED, "tokens are off"

    run(work())


def test_expired_tokens_are_swept():
    async def work():
        config = {"delegation_token_expiry_check_interval_ms": 30}
        async with secured_broker(**ON, **config) as broker:
            async with Admin(**as_user(broker)) as admin:
                await admin.create_delegation_token(max_lifetime_ms=50)
                await admin.create_delegation_token()
                await until(lambda: broker.metrics.count("delegation_tokens_expired") == 1)
                assert len(await admin.describe_delegation_tokens()) == 1
            await sweep_tokens(broker._parts)
            assert len(broker.metadata.delegation_tokens) == 1

    run(work())


@shows("oncelog.max.delegation.tokens")
def test_tokens_are_bounded(caplog):
    caplog.set_level(logging.INFO, "oncelog.deeds")

    async def work():
        async with secured_broker(**ON, oncelog_max_delegation_tokens=1) as broker:
            client = await stranger(broker)
            await log_in(client)
            made = await client.call(CreateDelegationTokenRequest())
            assert made.error_code == E.NONE
            assert (await client.call(CreateDelegationTokenRequest())).error_code == E.POLICY_VIOLATION
            many = [CreatableRenewers(principal_type="User", principal_name=f"r{at}") for at in range(101)]
            answer = await client.call(CreateDelegationTokenRequest(renewers=many))
            assert answer.error_code == E.INVALID_REQUEST
            assert broker.metrics.limit_hits("oncelog.max.delegation.tokens") == 1
            await client.call(ExpireDelegationTokenRequest(hmac=bytes(made.hmac), expiry_time_period_ms=-1))
            assert (await client.call(CreateDelegationTokenRequest())).error_code == E.NONE
            assert f"create delegation token '{made.token_id}' of 'alice', by 'User:alice'" in caplog.text
            assert base64_text(bytes(made.hmac)) not in caplog.text
            assert plain_servers(broker)

    run(work())
