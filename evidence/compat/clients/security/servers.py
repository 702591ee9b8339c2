"""One `oncelog serve` and one Apache Kafka with every kind of listener, the same users and the same keys."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from evidence.compat.clients.security.ways import (
    MECHANISMS,
    PASSWORDS,
    SESSION_MS,
    USER,
    Secrets,
    Way,
)
from evidence.compat.servers import STOP_S
from evidence.differential.brokers import ApacheKafkaNode
from evidence.world.identity_provider import AUDIENCE, ISSUER, claims, key_set, public, signed
from evidence.world.ports import free_port
from oncelog import sync
from oncelog.client.admin.admin import Acl
from oncelog.host.certificate_authority import Authority

HOUR_MS = 3_600_000
MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
# Of both kinds of SASL listeners there is one whose sessions last an hour, and one whose sessions are short.
LISTENERS = {
    "PLAINTEXT": "PLAINTEXT",
    "SSL": "SSL",
    "MTLS": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "SHORT_PLAINTEXT": "SASL_PLAINTEXT",
    "SHORT_SSL": "SASL_SSL",
}
RIGHTS = [
    Acl(kind, "*", f"User:{USER}", operation)
    for kind, operations in {
        "topic": ("read", "write", "create"),
        "transactional-id": ("write",),
        "group": ("read",),
    }.items()
    for operation in operations
]


class Files:
    """Certificates, keys of tokens, and tokens, in a directory."""

    def __init__(self, directory: pathlib.Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        authority, other = Authority(), Authority()
        self.ca = _written(directory / "ca.pem", authority.pem)
        self.other_ca = _written(directory / "other-ca.pem", other.pem)
        self.broker = authority.sign("broker", ["localhost", "127.0.0.1"]).write(str(directory), "broker")
        alice = authority.sign(USER)
        self.chained = pathlib.Path(alice.write(str(directory), USER))
        self.certificate = _written(directory / "alice.crt", alice.chain)
        self.key = _written(directory / "alice.key", alice.key)
        self.keys = _written(directory / "keys.json", key_set(public("first")).decode())
        end = time.time() + HOUR_MS / 1000
        self.bearer = _written(directory / "token", signed(claims(sub=USER, exp=end)))
        self.wrong_bearer = _written(directory / "wrong-token", signed(claims(sub=USER, exp=end, aud="another")))

    def secrets(self, token_id: str, token_mac: str) -> Secrets:
        names = ("ca", "other_ca", "certificate", "key", "chained", "bearer", "wrong_bearer")
        return Secrets(**{name: getattr(self, name) for name in names}, token_id=token_id, token_mac=token_mac)


def _written(path: pathlib.Path, text: str) -> pathlib.Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


@dataclass(frozen=True)
class Secured:
    """A running server: where its listeners are, by name, and what its users come in with."""

    addresses: dict[str, str]
    secrets: Secrets

    def bootstrap(self, way: Way, *, short: bool = False) -> str:
        """Where this way leads in."""
        if short:
            return self.addresses["SHORT_SSL" if way.protocol == "SASL_SSL" else "SHORT_PLAINTEXT"]
        return self.addresses["MTLS" if way.is_mutual else way.protocol]


def _config(files: Files, ports: dict[str, int], advertised: dict[str, int]) -> dict[str, Any]:
    """Of `server.properties`, the same for both."""
    users = " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
    config: dict[str, Any] = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "advertised.listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in advertised.items()),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in LISTENERS.items()),
        "num.partitions": 1,
        "group.initial.rebalance.delay.ms": 0,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": files.broker,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": files.ca,
        "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
        "listener.name.mtls.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{files.keys}",
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "delegation.token.secret.key": "a secret of the cluster, thirty-two bytes",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
    }
    for name, protocol in LISTENERS.items():
        if not protocol.startswith("SASL"):
            continue
        for mechanism, module in MODULES.items():
            key = f"listener.name.{name.lower()}.{mechanism.lower()}"
            config[f"{key}.sasl.jaas.config"] = f"{module} required{f' {users}' if mechanism == 'PLAIN' else ''};"
            if name.startswith("SHORT"):
                config[f"{key}.connections.max.reauth.ms"] = SESSION_MS
        config[f"listener.name.{name.lower()}.oauthbearer.sasl.server.callback.handler.class"] = VALIDATOR
    return config


def _furnish(addresses: dict[str, str], files: Files) -> Secured:
    """Users of SCRAM, rights, and a delegation token of alice's."""
    with sync.Admin(bootstrap_servers=addresses["PLAINTEXT"]) as admin:
        for user, password in PASSWORDS.items():
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                admin.alter_user_scram_credential(user, mechanism, password)
        admin.create_acls(RIGHTS)
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    who = {"sasl_username": USER, "sasl_password": PASSWORDS[USER]}
    with sync.Admin(bootstrap_servers=addresses["SASL_PLAINTEXT"], **login, **who) as admin:
        token = admin.create_delegation_token()
    return Secured(addresses, files.secrets(token.token_id, token.password))


@contextlib.contextmanager
def secured_oncelog(files: Files, log: pathlib.Path, *, outside: int) -> Iterator[tuple[Secured, int]]:
    """One `oncelog serve`, its words in `log`; `outside` is the port that clients are told of SHORT_PLAINTEXT."""
    ports = {name: free_port() for name in LISTENERS}
    advertised = ports | {"SHORT_PLAINTEXT": outside}
    properties = _written(log.with_suffix(".properties"), _properties(_config(files, ports, advertised)))
    command = [sys.executable, "-m", "oncelog", "serve", "--ephemeral", "--config", str(properties)]
    with log.open("w") as stderr:
        broker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr)
        try:
            assert broker.stdout is not None
            assert broker.stdout.readline().startswith(b"ready"), log.read_text()
            yield _furnish(_addresses(advertised), files), ports["SHORT_PLAINTEXT"]
        finally:
            broker.terminate()
            broker.wait(STOP_S)


@contextlib.contextmanager
def secured_apache_kafka(
    files: Files, directory: pathlib.Path, launcher: str, *, outside: int
) -> Iterator[tuple[Secured, int]]:
    """One Apache Kafka, the same."""
    node = ApacheKafkaNode(directory, launcher, {"unstable.api.versions.enable": "false"})
    ports = {name: free_port() for name in LISTENERS} | {"PLAINTEXT": node.address[1]}
    advertised = ports | {"SHORT_PLAINTEXT": outside}
    controller = free_port()
    config = _config(files, ports, advertised)
    config["listeners"] += f",CONTROLLER://127.0.0.1:{controller}"
    config["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
    config["controller.quorum.voters"] = f"1@127.0.0.1:{controller}"
    node._config += _properties(config).splitlines()
    held = os.environ.get("JAVA_TOOL_OPTIONS")
    os.environ["JAVA_TOOL_OPTIONS"] = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{files.keys}"
    try:
        node.start()
    finally:
        os.environ.pop("JAVA_TOOL_OPTIONS")
        if held is not None:
            os.environ["JAVA_TOOL_OPTIONS"] = held
    try:
        yield _furnish(_addresses(advertised), files), ports["SHORT_PLAINTEXT"]
    finally:
        node.stop()


def _properties(config: dict[str, Any]) -> str:
    return "".join(f"{key}={value}\n" for key, value in config.items())


def _addresses(ports: dict[str, int]) -> dict[str, str]:
    return {name: f"127.0.0.1:{port}" for name, port in ports.items()}
