"""A broker with listeners that want to know who comes, and a raw client that says so step by step."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import AsyncIterator
from typing import Any

from evidence.world.broker import TIMEOUT_S, Client, keys
from oncelog.broker.broker import Broker
from oncelog.client.admin.admin import Admin
from oncelog.core.login.mechanisms import login_of
from oncelog.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from oncelog.wire.messages.sasl_handshake import SaslHandshakeRequest

USERS = {"admin": "adm-secret", "alice": "wonder-secret"}
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required " + " ".join(
    f'user_{user}="{password}"' for user, password in USERS.items()
)
SECURED: dict[str, object] = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS + ";",
    "connection.failed.authentication.delay.ms": 0,
    "add.partitions.to.txn.retry.backoff.max.ms": 1000 * TIMEOUT_S,
}
SCRAM_USER, SCRAM_PASSWORD = "sam", "scram-secret"


@contextlib.asynccontextmanager
async def secured_broker(directory: Any = None, **config: object) -> AsyncIterator[Broker]:
    """A broker with a plain listener, then one with SASL; `config` in snake case."""
    path = None if directory is None else str(directory)
    async with Broker(path, SECURED | keys(config)) as broker:
        yield broker


def plain_servers(broker: Broker) -> str:
    """Of clients that need not say who they are."""
    return str(broker.addresses[0])


def sasl_servers(broker: Broker) -> str:
    """Of those who must."""
    return str(broker.addresses[1])


async def add_scram_user(broker: Broker, user: str = SCRAM_USER, password: str = SCRAM_PASSWORD) -> None:
    """In both mechanisms."""
    async with Admin(bootstrap_servers=plain_servers(broker)) as admin:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            await admin.alter_user_scram_credential(user, mechanism, password)


async def stranger(broker: Broker) -> Client:
    """A raw connection to the SASL listener."""
    return await Client.connect_to(*broker.addresses[1])


async def handshake(client: Client, mechanism: str = "PLAIN", version: int = 1) -> Any:
    """SaslHandshake's answer."""
    return await client.call(SaslHandshakeRequest(mechanism=mechanism), version)


async def authenticate(client: Client, token: bytes, version: int = 2) -> Any:
    """SaslAuthenticate's answer."""
    return await client.call(SaslAuthenticateRequest(auth_bytes=token), version)


async def log_in(client: Client, user: str = "alice", password: str = "", mechanism: str = "PLAIN") -> Any:
    """The whole conversation: the last answer."""
    assert (await handshake(client, mechanism)).error_code == 0
    login = login_of(mechanism, user, password or USERS.get(user, SCRAM_PASSWORD), b"n" * 24)
    token: bytes | None = login.first()
    answer: Any = None
    while token is not None:
        answer = await authenticate(client, token)
        token = None if answer.error_code else login.next(bytes(answer.auth_bytes))
    return answer


def send_raw_token(client: Client, token: bytes) -> None:
    """As after SaslHandshake v0."""
    client.send_bytes(struct.pack(">i", len(token)) + token)
