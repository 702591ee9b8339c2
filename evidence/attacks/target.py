"""The secured brokers under attack: ours in this process, Apache Kafka beside it, both with the same listeners and users."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import ssl
import warnings
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

from evidence.attacks.peer import Peer
from evidence.differential.brokers import ApacheKafkaNode
from evidence.world.identity_provider import AUDIENCE, ISSUER, key_set, public
from evidence.world.ports import free_port
from evidence.world.security import JAAS, SCRAM_PASSWORD, SCRAM_USER, USERS
from oncelog import Admin
from oncelog.broker.broker import Broker
from oncelog.client.admin.admin import Acl
from oncelog.host.certificate_authority import Authority

SECRET_KEY = "the-cluster's-own-secret"
MINE, HIDDEN, NEVER = "mine", "hidden", "never"  # alice's topic, the administrator's, one that there is not
HIDDEN_ID, HIDDEN_GROUP = "hidden-id", "hidden-group"
PROTOCOLS = {
    "SASL": "SASL_PLAINTEXT",
    "SHORT": "SASL_PLAINTEXT",  # sessions of a second
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "SASLTLS": "SASL_SSL",
}
SESSION_MS = 1_000
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearer"


class Files:
    """Keys and certificates of all who take part, made once."""

    def __init__(self, directory: pathlib.Path) -> None:
        authority, other = Authority(), Authority("another one")
        self.authority, self.other = authority, other
        self.directory = directory
        self.ca = self._put("ca.pem", authority.pem)
        self.other_ca = self._put("other-ca.pem", other.pem)
        self.keys = self._put(
            "keys.json", key_set(public("first"), public("second"), public("curve", "ES256")).decode()
        )
        self.broker = authority.sign("broker", ["localhost", "127.0.0.1"]).write(directory, "broker")
        self.alice = authority.sign("alice").write(directory, "alice")

    def _put(self, name: str, text: str) -> str:
        path = self.directory / name
        path.write_text(text)
        path.chmod(0o600)
        return str(path)

    def put(self, name: str, chain: str, key: str) -> str:
        """A key with its certificates."""
        return self._put(f"{name}.pem", key + chain)

    @staticmethod
    def text(path: str) -> str:
        """What stands in one of them."""
        return pathlib.Path(path).read_text("ascii")

    def context(self, certificate: str = "") -> ssl.SSLContext:
        """A client's that believes our authority, and shows a certificate."""
        context = ssl.create_default_context(cafile=self.ca)
        if certificate:
            context.load_cert_chain(certificate)
        return context


@dataclass
class Target:
    """A running broker; `source` is the loopback address of the attack under way, its own each time."""

    addresses: dict[str, tuple[str, int]]
    files: Files
    is_ours: bool
    broker: Broker | None = None
    source: str = "127.0.1.1"
    secrets: set[str] = field(default_factory=set)  # what must never be logged
    _number: int = 0
    _peers: list[Peer] = field(default_factory=list)

    def begin(self) -> None:
        """A new attacker comes."""
        self._number += 1
        self.source = f"127.0.{self._number // 250 + 1}.{self._number % 250 + 1}"

    async def connect(self, listener: str = "SASL", tls: ssl.SSLContext | None = None, source: str = "") -> Peer:
        """Raw, or by TLS."""
        if tls is None and listener in ("TLS", "MUTUAL", "SASLTLS"):
            tls = self.files.context()
        return self._kept(await Peer.connect(self.addresses[listener], source or self.source, tls))

    async def raw(self, listener: str) -> Peer:
        """Without TLS, whatever the listener speaks."""
        return self._kept(await Peer.connect(self.addresses[listener], self.source))

    def _kept(self, peer: Peer) -> Peer:
        self._peers.append(peer)
        return peer

    async def end(self) -> None:
        """The attacker's connections are over, those that it forgot too."""
        for each in self._peers:
            each.close()
        self._peers.clear()
        await asyncio.sleep(0)

    async def come_in(self, user: str = "alice", listener: str = "SASL") -> Peer:
        """A connection of somebody who may."""
        peer = await self.connect(listener)
        answer = await peer.log_in(user, USERS[user])
        assert answer is not None, "closed"
        assert answer.error_code == 0, answer
        return peer


def _shared(files: Files) -> dict[str, object]:
    config: dict[str, object] = {
        "num.partitions": 1,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
        "delegation.token.secret.key": SECRET_KEY,
        "connection.failed.authentication.delay.ms": 0,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{files.keys}",
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "listener.name.sasl.oauthbearer.sasl.jaas.config": f"{_BEARER}LoginModule required;",
        "listener.name.sasl.oauthbearer.sasl.server.callback.handler.class": f"{_BEARER}ValidatorCallbackHandler",
        "listener.name.short.connections.max.reauth.ms": SESSION_MS,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": files.broker,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": files.ca,
        "listener.name.mutual.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([a-zA-Z]+)$/$1/,DEFAULT",
    }
    for name in ("sasl", "short", "sasltls"):
        config[f"listener.name.{name}.plain.sasl.jaas.config"] = f"{JAAS};"
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            config[f"listener.name.{name}.{mechanism}.sasl.jaas.config"] = _SCRAM
    for mechanism in ("plain", "scram-sha-256", "scram-sha-512"):
        config[f"listener.name.short.{mechanism}.connections.max.reauth.ms"] = SESSION_MS
    return config


async def _settle(servers: str) -> None:
    """The users, topics and rights that attacks are about."""
    async with Admin(bootstrap_servers=servers) as admin:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            await admin.alter_user_scram_credential(SCRAM_USER, mechanism, SCRAM_PASSWORD)
        await admin.create_topics([MINE, HIDDEN])
        rights = [Acl("topic", MINE, "User:alice", each) for each in ("read", "write")]
        await admin.create_acls([*rights, Acl("group", MINE, "User:alice", "read")])


@contextlib.asynccontextmanager
async def ours(files: Files, **more: object) -> AsyncIterator[Target]:
    """oncelog in this loop."""
    listeners = ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", *PROTOCOLS))
    own = {
        "listeners": listeners,
        "listener.security.protocol.map": ",".join(
            f"{n}:{p}" for n, p in {"PLAINTEXT": "PLAINTEXT", **PROTOCOLS}.items()
        ),
        "oncelog.log.max.lines.per.minute": 100_000,
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    data = files.directory / "data"
    async with Broker(str(data), _shared(files) | own) as broker:
        addresses = {
            name: (a.host, a.port) for name, a in zip(("PLAINTEXT", *PROTOCOLS), broker.addresses, strict=True)
        }
        await _settle("{}:{}".format(*addresses["PLAINTEXT"]))
        yield Target(addresses, files, is_ours=True, broker=broker)


@contextlib.asynccontextmanager
async def apache_kafka(files: Files, launcher: str) -> AsyncIterator[Target]:
    """The real one. It takes about ten seconds to start."""
    node = ApacheKafkaNode(files.directory / "kafka", launcher, {})
    (files.directory / "kafka").mkdir()
    ports = {"PLAINTEXT": node.address[1], **{name: free_port() for name in PROTOCOLS}}
    controller = free_port()
    addresses = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    protocols = {"CONTROLLER": "PLAINTEXT", "PLAINTEXT": "PLAINTEXT", **PROTOCOLS}
    config = _shared(files) | {
        "listeners": f"{addresses},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": addresses,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in protocols.items()),
    }
    node._config += [f"{key}={value}" for key, value in config.items()]
    with (
        _environment("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{files.keys}"),
        node,
    ):
        found = {name: ("127.0.0.1", port) for name, port in ports.items()}
        await _settle("{}:{}".format(*found["PLAINTEXT"]))
        yield Target(found, files, is_ours=False)


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


def quietly_weak(context: ssl.SSLContext, version: ssl.TLSVersion | None = None, ciphers: str = "") -> ssl.SSLContext:
    """A client's context as of long ago, without Python's warnings about it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if version is not None:
            context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
            context.maximum_version = version
        if ciphers:
            context.set_ciphers(f"{ciphers}:@SECLEVEL=0")
    return context
