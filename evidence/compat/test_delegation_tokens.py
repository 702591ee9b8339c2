"""Delegation tokens: the same conversations with Apache Kafka, our clients under it by its tokens, its tool under ours."""

from __future__ import annotations

import asyncio
import pathlib
import re
from typing import Any

import pytest

from evidence.compat.apache import ApacheTools, find_launcher
from evidence.compat.recorded import answers_of_apache_kafka, needs_apache_kafka, shown
from evidence.differential.brokers import ApacheKafkaNode
from evidence.world.broker import Client
from evidence.world.ports import free_port
from evidence.world.security import JAAS, USERS, authenticate, handshake, log_in
from oncelog import Admin, Consumer, Producer, errors, sync
from oncelog.client.admin.admin import Acl
from oncelog.core.login.mechanisms import login_of
from oncelog.core.scram import base64_text
from oncelog.testing.broker import TestBroker
from oncelog.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from oncelog.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from oncelog.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from oncelog.wire.messages.renew_delegation_token import RenewDelegationTokenRequest

pytestmark = pytest.mark.compat
WAIT_S = 60  # for a hang
DAY_MS = 86_400_000
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
CONFIG: dict[str, object] = {
    "num.partitions": 1,
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{JAAS};",
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": SCRAM_LOGIN,
    "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": SCRAM_LOGIN,
    "delegation.token.secret.key": "topsecret",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
}
RIGHTS = [
    Acl("topic", "by-", "User:alice", operation, pattern_type="prefixed") for operation in ("read", "write", "create")
] + [
    Acl("transactional-id", "by-", "User:alice", "write", pattern_type="prefixed"),
    Acl("group", "by-", "User:alice", "read", pattern_type="prefixed"),
]


@pytest.fixture(scope="module")
def ours():
    """HOST:PORT of the plain listener, and of the one with SASL."""
    plain, sasl = free_port(), free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{sasl}"
    with TestBroker(CONFIG | {"listeners": listeners}):
        yield f"127.0.0.1:{plain}", f"127.0.0.1:{sasl}"


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """The same of Apache Kafka."""
    port, controller = free_port(), free_port()
    node = ApacheKafkaNode(pathlib.Path(tmp_path_factory.mktemp("tokens")), find_launcher(), {})
    plain = node.address[1]
    addresses = f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{port}"
    config = CONFIG | {
        "listeners": f"{addresses},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": addresses,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
    }
    node._config += [f"{key}={value}" for key, value in config.items()]
    with node:
        yield f"127.0.0.1:{plain}", f"127.0.0.1:{port}"


class Talk:
    """One conversation with one broker: what was said, without what differs each time."""

    def __init__(self, address: str, pause_s: float) -> None:
        self.address, self.pause_s = address, pause_s
        self.said: list[Any] = []
        self.clients: dict[str, Client] = {}

    async def ask(self, user: str, message: Any, version: int) -> Any:
        client = self.clients.get(user)
        if client is None:
            host, _, port = self.address.rpartition(":")
            client = self.clients[user] = await Client.connect_to(host, int(port))
            await log_in(client, user)
        answer = await client.call(message, version)
        await asyncio.sleep(self.pause_s)  # until every part of Apache Kafka has heard of it
        return answer

    async def create(
        self, user: str, version: int = 3, *, owner: str = "", renewers: Any = (), max_ms: int = -1
    ) -> bytes:
        who = [CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in renewers]
        request = CreateDelegationTokenRequest(renewers=who, max_lifetime_ms=max_ms)
        if version >= 3 and owner:
            request.owner_principal_type, request.owner_principal_name = "User", owner
        answer = await self.ask(user, request, version)
        issued = answer.issue_timestamp_ms
        times = [answer.expiry_timestamp_ms - issued, answer.max_timestamp_ms - issued] if issued >= 0 else issued
        requester = answer.token_requester_principal_type, answer.token_requester_principal_name
        owner = f"{answer.principal_type}:{answer.principal_name}"
        sizes = len(answer.token_id), len(answer.hmac)
        self.said.append(("create", user, version, answer.error_code, owner, requester, times, sizes))
        return bytes(answer.hmac)

    async def renew(self, user: str, mac: bytes, period_ms: int, version: int = 2) -> None:
        answer = await self.ask(user, RenewDelegationTokenRequest(hmac=mac, renew_period_ms=period_ms), version)
        expiry = min(answer.expiry_timestamp_ms, 1)
        self.said.append(("renew", user, period_ms, answer.error_code, expiry))

    async def expire(self, user: str, mac: bytes, period_ms: int, version: int = 2) -> None:
        answer = await self.ask(user, ExpireDelegationTokenRequest(hmac=mac, expiry_time_period_ms=period_ms), version)
        expiry = min(answer.expiry_timestamp_ms, 1)
        self.said.append(("expire", user, period_ms, answer.error_code, expiry))

    async def describe(self, user: str, owners: list[str] | None, version: int = 3) -> None:
        named = None
        if owners is not None:
            named = [DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners]
        answer = await self.ask(user, DescribeDelegationTokenRequest(owners=named), version)
        seen = sorted(
            (
                each.principal_name,
                each.token_requester_principal_name,
                sorted(renewer.principal_name for renewer in each.renewers),
                each.max_timestamp - each.issue_timestamp,
                len(each.token_id),
                len(each.hmac),
            )
            for each in answer.tokens
        )
        self.said.append(("describe", user, owners, version, answer.error_code, seen))


async def conversation(address: str, pause_s: float) -> list[Any]:
    x = Talk(address, pause_s)
    bob, group = ("User", "bob"), ("Group", "g")
    await x.create("alice", max_ms=DAY_MS // 2, version=1)
    mac = await x.create("alice", renewers=[bob])
    await x.create("alice", version=2, max_ms=2**63 - 1)
    await x.create("alice", owner="alice", max_ms=0)
    await x.create("alice", owner="bob")
    await x.create("alice", owner="bob", renewers=[group])
    await x.create("alice", renewers=[bob, group])
    for_bob = await x.create("admin", owner="bob", renewers=[("User", "carl")])
    for user in ("alice", "admin"):
        for owners in (None, [], ["alice"], ["bob"], ["admin"], ["carl"], ["alice", "bob"]):
            await x.describe(user, owners)
    await x.describe("alice", None, version=1)
    for period_ms in (-1, 0, 1_000, 2**63 - 1):
        await x.renew("alice", mac, period_ms)
    await x.renew("alice", for_bob, 1_000)
    await x.renew("admin", for_bob, 1_000)
    await x.renew("alice", b"unknown", 1_000)
    await x.renew("alice", b"", 1_000, version=1)
    await x.expire("admin", mac, -1)
    await x.expire("alice", b"unknown", 0)
    await x.expire("alice", mac, 2**63 - 1)
    await x.expire("alice", mac, 0)
    await x.renew("alice", mac, 1_000)
    await x.renew("admin", mac, 1_000)
    await x.expire("alice", mac, 1_000)
    await x.expire("admin", mac, 1_000)
    await x.expire("admin", mac, -1)
    await x.describe("alice", ["bob"])
    await x.expire("alice", mac, -1, version=1)
    await x.expire("alice", mac, -1)
    await x.describe("alice", None)
    for client in x.clients.values():
        client.close()
    return x.said


def test_a_conversation_goes_as_with_apache_kafka(ours, request):
    def ask(address, pause_s):
        return asyncio.run(asyncio.wait_for(conversation(address, pause_s), WAIT_S))

    kafkas = answers_of_apache_kafka("tokens", lambda: ask(request.getfixturevalue("theirs")[1], 0.4))
    for said, expected in zip(shown(ask(ours[1], 0.02)), kafkas, strict=True):
        assert said == expected


async def logins(address: str, pause_s: float) -> list[Any]:
    """Right and wrong ways to log in by a token, and what who came by one may ask."""
    host, _, port = address.rpartition(":")
    owner = await Client.connect_to(host, int(port))
    await log_in(owner)
    token = await owner.call(CreateDelegationTokenRequest(max_lifetime_ms=60_000), 3)
    await asyncio.sleep(pause_s)  # Apache Kafka's brokers learn of it by then
    password = base64_text(bytes(token.hmac))
    found: list[Any] = []
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        for user, word, is_token in (
            (token.token_id, password, True),
            (token.token_id, "wrong", True),
            (token.token_id, password, False),
            ("alice", password, True),
        ):
            client = await Client.connect_to(host, int(port))
            await handshake(client, mechanism)
            login = login_of(mechanism, user, word, b"n" * 24, is_token=is_token)
            answer = await authenticate(client, login.first())
            if not answer.error_code:
                answer = await authenticate(client, login.next(bytes(answer.auth_bytes)))
            found.append((mechanism, is_token, answer.error_code, 50_000 < answer.session_lifetime_ms <= 60_000))
            if not answer.error_code:
                for message in (
                    CreateDelegationTokenRequest(),
                    RenewDelegationTokenRequest(hmac=bytes(token.hmac)),
                    ExpireDelegationTokenRequest(hmac=bytes(token.hmac)),
                    DescribeDelegationTokenRequest(owners=None),
                ):
                    refused = await client.call(message)
                    found.append((refused.error_code, getattr(refused, "expiry_timestamp_ms", None)))
            client.close()
    # The broker is the others', too.
    await owner.call(ExpireDelegationTokenRequest(hmac=bytes(token.hmac), expiry_time_period_ms=-1), 2)
    owner.close()
    return found


def test_logins_go_as_with_apache_kafka(ours, request):
    def ask(address, pause_s):
        return asyncio.run(asyncio.wait_for(logins(address, pause_s), WAIT_S))

    kafkas = answers_of_apache_kafka("logins by a token", lambda: ask(request.getfixturevalue("theirs")[1], 2))
    assert shown(ask(ours[1], 0)) == kafkas


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("whose", ["ours", pytest.param("theirs", marks=needs_apache_kafka)])
def test_our_clients_by_a_token(request, whose, mechanism):
    """Made by our admin, used by our producer and consumer, under both brokers."""
    plain, sasl = request.getfixturevalue(whose)
    name = f"by-{mechanism.lower()}"
    security = {"bootstrap_servers": sasl, "security_protocol": "SASL_PLAINTEXT"}
    password = {"sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": USERS["alice"]}
    with sync.Admin(bootstrap_servers=plain) as admin:
        admin.create_acls(RIGHTS)

    async def work():
        async with Admin(**security, **password) as admin:
            token = await admin.create_delegation_token(max_lifetime_ms=DAY_MS)
            await asyncio.sleep(2)
            (seen,) = [each for each in await admin.describe_delegation_tokens() if each.token_id == token.token_id]
            assert seen == token
            by_token = {
                "sasl_mechanism": mechanism,
                "sasl_username": token.token_id,
                "sasl_password": token.password,
                "sasl_tokenauth": True,
            }
            async with Producer(**security, **by_token, transactional_id=name) as producer, producer.transaction():
                await producer.send(name, b"by token")
            reading = {"group_id": name, "auto_offset_reset": "earliest", "isolation_level": "read_committed"}
            async with Consumer(name, **security, **by_token, **reading) as consumer:
                while not (records := await consumer.poll(1_000)):
                    pass
                assert [record.value for record in records] == [b"by token"]
            async with Admin(**security, **by_token) as other:
                with pytest.raises(errors.UnsupportedByAuthentication):
                    await other.create_delegation_token()
            assert await admin.renew_delegation_token(token.hmac) == token.max_timestamp_ms
            await admin.expire_delegation_token(token.hmac)
            await asyncio.sleep(1)  # sooner, Apache Kafka's controller still knows it: a renewal brings it back
            with pytest.raises(errors.DelegationTokenNotFound):
                await admin.renew_delegation_token(token.hmac)

    asyncio.run(asyncio.wait_for(work(), WAIT_S))


@needs_apache_kafka
def test_apaches_tool(ours, tmp_path):
    """kafka-delegation-tokens.sh: create, describe, renew, expire; then a topic made by the Java client's token login."""
    plain, sasl = ours
    with sync.Admin(bootstrap_servers=plain) as admin:
        admin.create_acls(RIGHTS)
    properties = tmp_path / "alice.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
        f'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{USERS["alice"]}";\n'
    )
    properties.chmod(0o600)
    tools = ApacheTools(find_launcher(), sasl)
    secured = ("--command-config", properties)
    made = tools(
        "DelegationTokenCommand",
        *secured,
        "--create",
        "--max-life-time-period",
        "-1",
        "--renewer-principal",
        "User:bob",
    )
    (line,) = [each for each in made if "User:alice" in each]
    token_id, mac = line.split()[:2]
    assert re.fullmatch(r"[\w-]{22}", token_id)
    described = tools("DelegationTokenCommand", *secured, "--describe", "--owner-principal", "User:alice")
    assert any(token_id in each and mac in each for each in described)
    renewed = tools("DelegationTokenCommand", *secured, "--renew", "--renew-time-period", "-1", "--hmac", mac)
    assert any("Completed renew operation" in each for each in renewed)
    by_token = tmp_path / "token.properties"
    by_token.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config="
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{token_id}" password="{mac}" tokenauth="true";\n'
    )
    by_token.chmod(0o600)
    tools("TopicCommand", "--command-config", by_token, "--create", "--topic", "by-java")
    expired = tools("DelegationTokenCommand", *secured, "--expire", "--expiry-time-period", "-1", "--hmac", mac)
    assert any("Completed expire operation" in each for each in expired)
    described = tools("DelegationTokenCommand", *secured, "--describe", "--owner-principal", "User:alice")
    assert not any(token_id in each for each in described)
