"""Secured listeners under other people's clients, and our clients under a secured Apache Kafka: written and read back."""

from __future__ import annotations

import asyncio
import json
import pathlib
import ssl
import subprocess
import sys
import time
from typing import Any

import confluent_kafka
import pytest

from evidence.compat.apache import ApacheTools, find_launcher
from evidence.compat.recorded import answers_of_apache_kafka, needs_apache_kafka, shown
from evidence.differential.brokers import ApacheKafkaNode
from evidence.world.broker import Client, ConnectionClosed
from evidence.world.ports import free_port
from evidence.world.security import JAAS, SCRAM_PASSWORD, SCRAM_USER, SECURED, USERS
from oncelog import Admin, Consumer, Producer, sync
from oncelog.errors import AuthenticationFailed
from oncelog.host.certificate_authority import Authority
from oncelog.testing.broker import TestBroker
from oncelog.wire.messages.api_versions import ApiVersionsRequest
from oncelog.wire.messages.metadata import MetadataRequest
from oncelog.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from oncelog.wire.messages.sasl_handshake import SaslHandshakeRequest

aiokafka = pytest.importorskip("aiokafka")
kafka = pytest.importorskip("kafka")

pytestmark = pytest.mark.compat
WAIT_S = 60  # for a hang
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SESSION_MS = 2_500
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


def login(mechanism):
    return ("alice", USERS["alice"]) if mechanism == "PLAIN" else (SCRAM_USER, SCRAM_PASSWORD)


@pytest.fixture(scope="module")
def servers():
    """HOST:PORT of the SASL listener of one broker."""
    port, plain = free_port(), free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{port}"
    with TestBroker(SECURED | {"listeners": listeners, "num.partitions": 1, "connections.max.reauth.ms": SESSION_MS}):
        with sync.Admin(bootstrap_servers=f"127.0.0.1:{plain}") as admin:
            for mechanism in MECHANISMS[1:]:
                admin.alter_user_scram_credential(SCRAM_USER, mechanism, SCRAM_PASSWORD)
        yield f"127.0.0.1:{port}"


def of_librdkafka(servers, mechanism, password=None):
    user, right = login(mechanism)
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password or right,
    }


@pytest.mark.parametrize(
    "mechanism", [MECHANISMS[0], *(pytest.param(each, marks=needs_apache_kafka) for each in MECHANISMS[1:])]
)
def test_confluent_kafka(servers, mechanism, name):
    security = of_librdkafka(servers, mechanism)
    producer = confluent_kafka.Producer(security | {"transactional.id": name, "linger.ms": 0})
    producer.init_transactions(WAIT_S)
    until = time.monotonic() + 2 * SESSION_MS / 1000
    count = 0
    while time.monotonic() < until:  # through two sessions
        producer.begin_transaction()
        producer.produce(name, b"%d" % count)
        producer.commit_transaction(WAIT_S)
        count += 1
        time.sleep(0.1)
    reading = {"group.id": name, "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    consumer = confluent_kafka.Consumer(security | reading)
    consumer.subscribe([name])
    values: list[bytes] = []
    deadline = time.monotonic() + WAIT_S
    while len(values) < count and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            values.append(message.value())
    consumer.close()
    assert values == [b"%d" % number for number in range(count)]


def test_confluent_kafka_with_a_wrong_password(servers):
    errors: list[confluent_kafka.KafkaError] = []
    producer = confluent_kafka.Producer(of_librdkafka(servers, "PLAIN", "wrong") | {"error_cb": errors.append})
    deadline = time.monotonic() + WAIT_S
    while not errors and time.monotonic() < deadline:
        producer.poll(0.1)
    assert errors[0].code() == confluent_kafka.KafkaError._AUTHENTICATION
    assert "invalid user name or password" in errors[0].str()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka(servers, mechanism, name):
    user, password = login(mechanism)
    security = {
        "bootstrap_servers": servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }

    async def work():
        async with aiokafka.AIOKafkaProducer(**security, transactional_id=name) as producer, producer.transaction():
            await producer.send_and_wait(name, b"written")
        consumer = aiokafka.AIOKafkaConsumer(
            name, **security, auto_offset_reset="earliest", isolation_level="read_committed"
        )
        async with consumer:
            assert (await asyncio.wait_for(consumer.getone(), WAIT_S)).value == b"written"

    asyncio.run(work())


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(servers, mechanism, name):
    user, password = login(mechanism)
    security = {
        "bootstrap_servers": servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }
    producer = kafka.KafkaProducer(**security)
    producer.send(name, b"written").get(WAIT_S)
    producer.close()
    consumer = kafka.KafkaConsumer(
        name, **security, auto_offset_reset="earliest", consumer_timeout_ms=WAIT_S * 1000, group_id=name
    )
    assert next(iter(consumer)).value == b"written"
    consumer.close()


@pytest.fixture(scope="module")
def apache_kafka(tmp_path_factory):
    """Apache Kafka with the same users and the same short sessions: HOST:PORT of its SASL listener."""
    directory = pathlib.Path(tmp_path_factory.mktemp("secured"))
    port, controller = free_port(), free_port()
    node = ApacheKafkaNode(directory, find_launcher(), {})
    plain = node.address[1]
    addresses = f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{port}"
    config = {
        "listeners": f"{addresses},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": addresses,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "connections.max.reauth.ms": SESSION_MS,
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{JAAS};",
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": SCRAM_LOGIN,
        "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": SCRAM_LOGIN,
    }
    node._config += [f"{key}={value}" for key, value in config.items()]
    with node:
        with sync.Admin(bootstrap_servers=f"127.0.0.1:{plain}") as admin:
            for mechanism in MECHANISMS[1:]:
                admin.alter_user_scram_credential(SCRAM_USER, mechanism, SCRAM_PASSWORD)
        yield f"127.0.0.1:{port}"


@needs_apache_kafka
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_clients_under_a_secured_apache_kafka(apache_kafka, mechanism, name):
    """Through several sessions: transactions written, read by a group, a wrong password refused at once."""
    user, password = login(mechanism)
    security = {
        "bootstrap_servers": apache_kafka,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_username": user,
        "sasl_password": password,
    }
    reading = {"group_id": name, "auto_offset_reset": "earliest", "isolation_level": "read_committed"}

    async def work():
        values = []
        async with Producer(**security, transactional_id=name) as producer, Consumer(name, **security, **reading) as c:
            for number in range(12):
                async with producer.transaction():
                    await producer.send(name, b"%d" % number)
                await asyncio.sleep(SESSION_MS / 5_000)
            while len(values) < 12:
                values += [record.value for record in await c.poll(1_000)]
        assert values == [b"%d" % number for number in range(12)]
        with pytest.raises(AuthenticationFailed, match=mechanism):
            async with Admin(**security | {"sasl_password": "wrong"}):
                pass

    async def bounded():
        await asyncio.wait_for(work(), WAIT_S)

    asyncio.run(bounded())


class Files:
    """What both sides of TLS need, as files."""

    def __init__(self, directory: pathlib.Path) -> None:
        authority = Authority()
        self.ca = str(directory / "ca.pem")
        pathlib.Path(self.ca).write_text(authority.pem)
        self.broker = authority.sign("broker", ["localhost", "127.0.0.1"]).write(directory, "broker")
        alice = authority.sign("alice")
        self.alice = alice.write(directory, "alice")
        self.certificate, self.key = str(directory / "alice.crt"), str(directory / "alice.key")
        pathlib.Path(self.certificate).write_text(alice.chain)
        pathlib.Path(self.key).write_text(alice.key)
        pathlib.Path(self.key).chmod(0o600)

    def listener_keys(self) -> dict[str, object]:
        """Of `server.properties`, the same for both brokers."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.broker,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.ca,
            "listener.name.ssl.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{JAAS};",
        }


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(pathlib.Path(tmp_path_factory.mktemp("tls")))


@pytest.fixture(scope="module")
def tls_servers(files):
    """HOST:PORT of a listener with mutual TLS, and of one with SASL over TLS."""
    mutual, sasl = free_port(), free_port()
    listeners = {"listeners": f"SSL://127.0.0.1:{mutual},SASL_SSL://127.0.0.1:{sasl}", "num.partitions": 1}
    with TestBroker(files.listener_keys() | listeners):
        yield {"SSL": f"127.0.0.1:{mutual}", "SASL_SSL": f"127.0.0.1:{sasl}"}


@pytest.fixture(scope="module")
def apache_kafka_with_tls(tmp_path_factory, files):
    """The same listeners of Apache Kafka."""
    mutual, sasl, controller = free_port(), free_port(), free_port()
    node = ApacheKafkaNode(pathlib.Path(tmp_path_factory.mktemp("kafka-tls")), find_launcher(), {})
    addresses = f"PLAINTEXT://127.0.0.1:{node.address[1]},SSL://127.0.0.1:{mutual},SASL_SSL://127.0.0.1:{sasl}"
    config = files.listener_keys() | {
        "listeners": f"{addresses},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": addresses,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL",
    }
    node._config += [f"{key}={value}" for key, value in config.items()]
    with node:
        yield {"SSL": f"127.0.0.1:{mutual}", "SASL_SSL": f"127.0.0.1:{sasl}"}


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_confluent_kafka_over_tls(tls_servers, files, protocol, name):
    security = {"bootstrap.servers": tls_servers[protocol], "security.protocol": protocol, "ssl.ca.location": files.ca}
    if protocol == "SSL":
        security |= {"ssl.certificate.location": files.certificate, "ssl.key.location": files.key}
    else:
        security |= {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": USERS["alice"]}
    producer = confluent_kafka.Producer(security | {"transactional.id": name})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(name, b"w" * 200_000)
    producer.commit_transaction(WAIT_S)
    reading = {"group.id": name, "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    consumer = confluent_kafka.Consumer(security | reading)
    consumer.subscribe([name])
    message = None
    deadline = time.monotonic() + WAIT_S
    while (message is None or message.error() is not None) and time.monotonic() < deadline:
        message = consumer.poll(1)
    consumer.close()
    assert message is not None
    assert message.value() == b"w" * 200_000


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_aiokafka_over_tls(tls_servers, files, protocol, name):
    context = ssl.create_default_context(cafile=files.ca)
    security = {"bootstrap_servers": tls_servers[protocol], "security_protocol": protocol, "ssl_context": context}
    if protocol == "SSL":
        context.load_cert_chain(files.alice)
    else:
        security |= {"sasl_mechanism": "PLAIN", "sasl_plain_username": "alice", "sasl_plain_password": USERS["alice"]}

    async def work():
        async with aiokafka.AIOKafkaProducer(**security, max_request_size=1_000_000) as producer:
            await producer.send_and_wait(name, b"w" * 200_000)
        async with aiokafka.AIOKafkaConsumer(name, **security, auto_offset_reset="earliest") as consumer:
            assert (await asyncio.wait_for(consumer.getone(), WAIT_S)).value == b"w" * 200_000

    asyncio.run(work())


@needs_apache_kafka
@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_our_clients_under_apache_kafka_over_tls(apache_kafka_with_tls, files, protocol, name):
    """Both names of each option; a broker and a client that are not believed are told apart from a lost connection."""
    security = {"bootstrap_servers": apache_kafka_with_tls[protocol], "security_protocol": protocol}
    believed = {"ssl_ca_location": files.ca} if protocol == "SSL" else {"ssl_truststore_location": files.ca}
    if protocol == "SSL":
        security |= {"ssl_certificate_location": files.certificate, "ssl_key_location": files.key}
    else:
        security |= {"sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": USERS["alice"]}

    async def work():
        async with Producer(**security, **believed, transactional_id=name) as producer, producer.transaction():
            await producer.send(name, b"w" * 200_000)
        reading = {"group_id": name, "auto_offset_reset": "earliest", "isolation_level": "read_committed"}
        async with Consumer(name, **security, **believed, **reading) as consumer:
            while not (records := await consumer.poll(1_000)):
                pass
            assert [record.value for record in records] == [b"w" * 200_000]
        with pytest.raises(AuthenticationFailed, match="not believed"):
            await Admin(**security).start()
        if protocol == "SSL":
            nobody = {"bootstrap_servers": security["bootstrap_servers"], "security_protocol": "SSL"}
            with pytest.raises(AuthenticationFailed, match="it wants a certificate of ours"):
                await Admin(**nobody, **believed).start()

    async def bounded():
        await asyncio.wait_for(work(), WAIT_S)

    asyncio.run(bounded())


@needs_apache_kafka
def test_apaches_tools_with_a_command_config(tls_servers, files, tmp_path, name):
    """The very file that they have for a secured Apache Kafka; ours takes it, too."""
    user = f'username="alice" password="{USERS["alice"]}"'
    properties = tmp_path / "client.properties"
    properties.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={files.ca}\n"
        f"sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required {user};\n"
    )
    properties.chmod(0o600)
    tools = ApacheTools(find_launcher(), tls_servers["SASL_SSL"])
    secured = ("--command-config", properties)
    tools("TopicCommand", *secured, "--create", "--topic", name)
    assert name in tools("TopicCommand", *secured, "--list")
    entity = ("--entity-type", "users", "--entity-name", name)
    tools("kafka.admin.ConfigCommand", *secured, "--alter", "--add-config", "SCRAM-SHA-512=[password=word]", *entity)
    described = tools("kafka.admin.ConfigCommand", *secured, "--describe", *entity)
    assert any("SCRAM-SHA-512=iterations=4096" in line for line in described)
    command = [sys.executable, "-m", "oncelog", "-b", tls_servers["SASL_SSL"], "--command-config", properties]
    shown = subprocess.run([*command, "credentials", "list", name, "-o", "json"], capture_output=True, check=True)
    assert json.loads(shown.stdout) == [{"user": name, "mechanism": "SCRAM-SHA-512", "iterations": 4096}]


ALICE = f"\0alice\0{USERS['alice']}".encode()
HANDSHAKE, AUTHENTICATE, METADATA = SaslHandshakeRequest, SaslAuthenticateRequest, MetadataRequest
CONVERSATIONS: dict[str, list[tuple[Any, int]]] = {
    "the usual way": [
        (ApiVersionsRequest(), 0),
        (HANDSHAKE(mechanism="PLAIN"), 1),
        (AUTHENTICATE(auth_bytes=ALICE), 2),
        (METADATA(topics=[]), 12),
    ],
    "without asking for versions": [(HANDSHAKE(mechanism="PLAIN"), 1), (AUTHENTICATE(auth_bytes=ALICE), 0)],
    "versions twice": [(ApiVersionsRequest(), 0), (ApiVersionsRequest(), 0)],
    "metadata first": [(METADATA(topics=[]), 12)],
    "metadata after versions": [(ApiVersionsRequest(), 0), (METADATA(topics=[]), 12)],
    "authenticate first": [(AUTHENTICATE(auth_bytes=ALICE), 2)],
    "an unknown mechanism": [(HANDSHAKE(mechanism="NONE"), 1)],
    "a mechanism in lower case": [(HANDSHAKE(mechanism="plain"), 1)],
    "no mechanism": [(HANDSHAKE(mechanism=""), 0)],
    "two handshakes": [(HANDSHAKE(mechanism="PLAIN"), 1), (HANDSHAKE(mechanism="PLAIN"), 1)],
    "a handshake between SCRAM messages": [
        (HANDSHAKE(mechanism="SCRAM-SHA-256"), 1),
        (AUTHENTICATE(auth_bytes=b"n,,n=sam,r=abc"), 2),
        (HANDSHAKE(mechanism="SCRAM-SHA-256"), 1),
    ],
    "a session begun again": [
        (HANDSHAKE(mechanism="PLAIN"), 1),
        (AUTHENTICATE(auth_bytes=ALICE), 2),
        (HANDSHAKE(mechanism="PLAIN"), 1),
        (AUTHENTICATE(auth_bytes=ALICE), 2),
        (HANDSHAKE(mechanism="PLAIN"), 1),
        (METADATA(topics=[]), 12),
    ],
    "a session begun again as somebody else": [
        (HANDSHAKE(mechanism="PLAIN"), 1),
        (AUTHENTICATE(auth_bytes=ALICE), 2),
        (HANDSHAKE(mechanism="PLAIN"), 1),
        (AUTHENTICATE(auth_bytes=f"\0admin\0{USERS['admin']}".encode()), 2),
    ],
    "a session begun again by another mechanism": [
        (HANDSHAKE(mechanism="PLAIN"), 1),
        (AUTHENTICATE(auth_bytes=ALICE), 2),
        (HANDSHAKE(mechanism="SCRAM-SHA-256"), 1),
    ],
    "authenticate after the authentication": [
        (HANDSHAKE(mechanism="PLAIN"), 1),
        (AUTHENTICATE(auth_bytes=ALICE), 2),
        (AUTHENTICATE(auth_bytes=ALICE), 2),
        (METADATA(topics=[]), 12),
    ],
} | {
    f"PLAIN with {what}": [(HANDSHAKE(mechanism="PLAIN"), 1), (AUTHENTICATE(auth_bytes=token), 2)]
    for what, token in {
        "a wrong password": b"\0alice\0no",
        "an unknown user": b"\0nobody\0no",
        "no user": b"\0\0no",
        "no password": b"\0alice\0",
        "another authorization id": b"bob\0alice\0" + USERS["alice"].encode(),
        "its own authorization id": b"alice" + ALICE,
        "too many parts": ALICE + b"\0",
        "too few parts": b"alice",
        "nothing": b"",
    }.items()
}


async def said(address: str, conversation: list[tuple[Any, int]]) -> list[Any]:
    """Error codes, mechanisms and lifetimes of the answers, then whether the connection was closed."""
    host, _, port = address.rpartition(":")
    client = await Client.connect_to(host, int(port))
    found: list[Any] = []
    for message, version in conversation:
        client.send(message, version)
        try:
            async with asyncio.timeout(WAIT_S):
                _, answer = await client.receive()
        except ConnectionClosed:
            return [*found, "closed"]
        code = getattr(answer, "error_code", 0)
        mechanisms = sorted(getattr(answer, "mechanisms", ()))
        found.append((code, mechanisms, getattr(answer, "session_lifetime_ms", None)))
    client.send(METADATA(topics=[]), 12)
    try:
        async with asyncio.timeout(WAIT_S):
            await client.frame()
        found.append("served")
    except ConnectionClosed:
        found.append("closed")
    client.close()
    return found


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation_goes_as_with_apache_kafka(servers, request, name):
    def ask(address):
        return asyncio.run(said(address, CONVERSATIONS[name]))

    theirs = answers_of_apache_kafka(f"logins: {name}", lambda: ask(request.getfixturevalue("apache_kafka")))
    assert shown(ask(servers)) == theirs
