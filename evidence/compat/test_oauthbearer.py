"""OAUTHBEARER under other people's clients and Apache's tools, and our clients under Apache Kafka: through several tokens."""

from __future__ import annotations

import asyncio
import json
import pathlib
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import confluent_kafka
import pytest

from evidence.compat.apache import ApacheTools, find_launcher
from evidence.compat.recorded import answers_of_apache_kafka, needs_apache_kafka, shown
from evidence.differential.brokers import ApacheKafkaNode
from evidence.world.broker import Client, ConnectionClosed
from evidence.world.identity_provider import (
    AUDIENCE,
    ISSUER,
    claims,
    encoded,
    key_set,
    message,
    provider,
    public,
    signed,
)
from evidence.world.ports import free_port
from evidence.world.security import authenticate, handshake
from oncelog import Admin, Consumer, Producer
from oncelog.core.json_web_token import unsigned_token
from oncelog.errors import AuthenticationFailed
from oncelog.testing.broker import TestBroker
from oncelog.testing.loop_thread import LoopThread

aiokafka = pytest.importorskip("aiokafka")
kafka = pytest.importorskip("kafka")

pytestmark = pytest.mark.compat
WAIT_S = 60  # for a hang
LIFE_S = 4.0  # of a token
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearer%sCallbackHandler"


def token(**changes):
    return signed(claims(exp=time.time() + LIFE_S, **changes))


def listener_keys(path: pathlib.Path) -> dict[str, object]:
    """The same for both brokers."""
    return {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{path}",
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": f"{MODULE} required;",
        "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": HANDLER % "Validator",
    }


@pytest.fixture(scope="module")
def keys_file(tmp_path_factory):
    path = pathlib.Path(tmp_path_factory.mktemp("keys")) / "keys.json"
    path.write_bytes(key_set(public("first"), public("second"), public("curve", "ES256")))
    return path


@pytest.fixture(scope="module")
def servers(keys_file):
    """HOST:PORT of the SASL listener of one broker."""
    port = free_port()
    with TestBroker(
        listener_keys(keys_file) | {"listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}", "num.partitions": 1}
    ):
        yield f"127.0.0.1:{port}"


@contextmanager
def apache(directory, config, properties=""):
    """Apache Kafka with a SASL listener: its HOST:PORT."""
    port, controller = free_port(), free_port()
    node = ApacheKafkaNode(directory, find_launcher(), {})
    addresses = f"PLAINTEXT://127.0.0.1:{node.address[1]},SASL_PLAINTEXT://127.0.0.1:{port}"
    whole = {
        "listeners": f"{addresses},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": addresses,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        **config,
    }
    node._config += [f"{key}={value}" for key, value in whole.items()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", properties)
        with node:
            yield f"127.0.0.1:{port}"


@pytest.fixture(scope="module")
def apache_kafka(tmp_path_factory, keys_file):
    """It validates signed tokens by the same keys."""
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{keys_file}"
    with apache(pathlib.Path(tmp_path_factory.mktemp("bearer")), listener_keys(keys_file), allowed) as found:
        yield found


@contextmanager
def fresh_tokens(producer):
    """librdkafka asks for a token inside `poll` only: one that came late would end within the second in which neither broker
    takes another authentication (KIP-368)."""
    is_over = threading.Event()

    def poll():
        while not is_over.is_set():
            producer.poll(0.1)

    thread = threading.Thread(target=poll, name="tokens")
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def test_confluent_kafka(servers, name):
    told = []

    def ask(config):
        told.append(config)
        return token(), time.time() + LIFE_S, "olga", {"trace": "x"}

    security = {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.config": "who=olga",
        "oauth_cb": ask,
    }
    producer = confluent_kafka.Producer(security | {"transactional.id": name, "linger.ms": 0})
    with fresh_tokens(producer):
        until = time.monotonic() + 2 * LIFE_S
        producer.init_transactions(WAIT_S)
        count = 0
        while time.monotonic() < until:  # through two tokens
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
        found = consumer.poll(1)
        if found is not None and found.error() is None:
            values.append(found.value())
    consumer.close()
    assert values == [b"%d" % number for number in range(count)]
    assert len(told) >= 3
    assert set(told) == {"who=olga"}


def test_confluent_kafka_with_a_token_for_somebody_else(servers):
    errors: list[confluent_kafka.KafkaError] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (token(aud="another"), time.time() + LIFE_S),
            "error_cb": errors.append,
        }
    )
    deadline = time.monotonic() + WAIT_S
    while not errors and time.monotonic() < deadline:
        producer.poll(0.1)
    assert errors[0].code() == confluent_kafka.KafkaError._AUTHENTICATION
    assert "invalid_token" in errors[0].str()


def test_confluent_kafka_with_client_credentials(servers, name):
    """librdkafka's own way to a token endpoint."""

    thread = LoopThread("provider", provider)
    found = thread.start()
    found.answers["/token"] = lambda: json.dumps({"access_token": token(), "expires_in": 4}).encode()
    try:
        security = {
            "bootstrap.servers": servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": found.url("/token"),
            "sasl.oauthbearer.client.id": "batch",
            "sasl.oauthbearer.client.secret": "word",
            "sasl.oauthbearer.scope": "kafka",
        }
        producer = confluent_kafka.Producer(security)
        producer.produce(name, b"written")
        assert producer.flush(WAIT_S) == 0

        async def ours():
            async with Consumer.from_config(security | {"auto.offset.reset": "earliest"}, name) as consumer:
                while not (records := await consumer.poll(1_000)):
                    pass
                assert [record.value for record in records] == [b"written"]

        asyncio.run(asyncio.wait_for(ours(), WAIT_S))
        forms = [(headers["authorization"], form) for _, headers, form in found.asked]
        assert len(forms) >= 2
        assert all(each == forms[0] for each in forms), "ours asks as librdkafka does"
    finally:
        thread.stop()


class AioTokens(aiokafka.abc.AbstractTokenProvider):
    async def token(self):
        return token()


def test_aiokafka(servers, name):
    security = {
        "bootstrap_servers": servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": AioTokens(),
    }

    async def work():
        async with aiokafka.AIOKafkaProducer(**security, transactional_id=name) as producer, producer.transaction():
            await producer.send_and_wait(name, b"written")
        consumer = aiokafka.AIOKafkaConsumer(
            name, **security, auto_offset_reset="earliest", isolation_level="read_committed"
        )
        async with consumer:
            assert (await asyncio.wait_for(consumer.getone(), WAIT_S)).value == b"written"
        async with Admin(**security) as admin:  # ours takes the very same options
            assert name in await admin.list_topics()

    asyncio.run(work())


def test_kafka_python(servers, name):
    class Tokens(kafka.net.sasl.oauth.AbstractTokenProvider):
        def token(self):
            return token()

    security = {
        "bootstrap_servers": servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": Tokens(),
    }
    producer = kafka.KafkaProducer(**security)
    begun = time.monotonic()
    while time.monotonic() - begun < LIFE_S + 1:  # through a token's end
        producer.send(name, b"written").get(WAIT_S)
        time.sleep(0.2)
    producer.close()
    consumer = kafka.KafkaConsumer(
        name, **security, auto_offset_reset="earliest", consumer_timeout_ms=WAIT_S * 1000, group_id=name
    )
    assert next(iter(consumer)).value == b"written"
    consumer.close()


@needs_apache_kafka
def test_our_clients_under_apache_kafka(apache_kafka, name):
    """Signed tokens that it validates: transactions through several of them, a wrong one refused at once."""
    asked = []

    async def ask():
        asked.append(time.monotonic())
        return token()

    security = {
        "bootstrap_servers": apache_kafka,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": ask,
        "sasl_oauthbearer_extensions": "trace=x",
    }
    reading = {"group_id": name, "auto_offset_reset": "earliest", "isolation_level": "read_committed"}

    async def work():
        values = []
        async with Producer(**security, transactional_id=name) as producer, Consumer(name, **security, **reading) as c:
            for number in range(12):
                async with producer.transaction():
                    await producer.send(name, b"%d" % number)
                await asyncio.sleep(LIFE_S / 5)
            while len(values) < 12:
                values += [record.value for record in await c.poll(1_000)]
        assert values == [b"%d" % number for number in range(12)]
        assert len(asked) >= 4
        with pytest.raises(AuthenticationFailed, match=r"OAUTHBEARER at .*invalid_token"):
            async with Admin(**security | {"sasl_oauth_token_provider": lambda: token(iss="another")}):
                pass

    asyncio.run(asyncio.wait_for(work(), WAIT_S))


@needs_apache_kafka
def test_our_clients_under_apache_kafka_with_unsigned_tokens(tmp_path_factory, name):
    """Its handler for development: without a validator it believes whoever says a name."""
    config = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": f"{MODULE} required;",
    }
    with apache(pathlib.Path(tmp_path_factory.mktemp("unsigned")), config) as servers:
        security = {
            "bootstrap_servers": servers,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_jaas_config": f'{MODULE} required unsecuredLoginStringClaim_sub="olga";',
        }

        async def work():
            async with Producer(**security, transactional_id=name) as producer, producer.transaction():
                await producer.send(name, b"written")
            async with Consumer(name, **security, auto_offset_reset="earliest") as consumer:
                while not (records := await consumer.poll(1_000)):
                    pass
                assert [record.value for record in records] == [b"written"]

        asyncio.run(asyncio.wait_for(work(), WAIT_S))


@needs_apache_kafka
def test_apaches_tools_with_a_command_config(servers, tmp_path, name):
    """The very file that they have for Apache Kafka, a token in a file; ours takes it, too."""
    held = tmp_path / "token"
    held.write_text(signed())
    held.chmod(0o600)
    properties = tmp_path / "client.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.login.callback.handler.class={HANDLER % 'Login'}\n"
        f"sasl.oauthbearer.token.endpoint.url=file://{held}\n"
        f"sasl.jaas.config={MODULE} required;\n"
    )
    properties.chmod(0o600)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{held}")
        tools = ApacheTools(find_launcher(), servers)
        tools("TopicCommand", "--command-config", properties, "--create", "--topic", name)
    command = [sys.executable, "-m", "oncelog", "-b", servers, "--command-config", properties]
    shown = subprocess.run([*command, "topics", "list", "-o", "json"], capture_output=True, check=True)
    assert name in shown.stdout.decode()


async def said(address, first, second=None):
    """Whether each message was taken, challenged or refused with which words, and the end."""
    host, _, port = address.rpartition(":")
    client = await Client.connect_to(host, int(port))
    found = [(await handshake(client, "OAUTHBEARER")).error_code]
    try:
        async with asyncio.timeout(WAIT_S):
            for each in (first, second):
                if each is None:
                    continue
                answer = await authenticate(client, each)
                words = answer.error_message if str(answer.error_message).startswith("{") else ""
                found.append((answer.error_code, bytes(answer.auth_bytes), words, answer.session_lifetime_ms > 0))
                if answer.error_code:
                    await client.frame()
    except ConnectionClosed:
        found.append("closed")
    client.close()
    return found


GOODBYE = b"\x01"
MESSAGES = {
    "a good token": lambda: (message(signed()), None),
    "its own authorization id": lambda: (message(signed(), name="olga"), None),
    "another authorization id": lambda: (message(signed(), name="admin"), None),
    "extensions": lambda: (message(signed(), extensions="trace=a b\x01k=v\x01"), None),
    "two keys' kinds": lambda: (message(signed(algorithm="ES256", name="curve")), None),
    "no kid": lambda: (message(signed(header={"kid": None})), None),
    "a list of audiences": lambda: (message(signed(claims(aud=["x", AUDIENCE]))), None),
    "a list of scopes": lambda: (message(signed(claims(scope=["a", "b"]))), None),
    "half a message": lambda: (b"n,,\x01", None),
    "a name of letters beyond ASCII": lambda: (message(signed(claims(sub="jürgen"))), None),
    **{
        f"refused: {what}": lambda make=make: (message(make()), GOODBYE)
        for what, make in {
            "unsigned": lambda: unsigned_token(claims()),
            "another's key": lambda: signed(name="strangers"),
            "a wrong signature": lambda: signed(name="second")[:-8] + "AAAAAAAA",
            "expired": lambda: signed(claims(exp=time.time() - 5)),
            "another audience": lambda: signed(claims(aud="other")),
            "no audience": lambda: signed(claims(aud=None)),
            "another issuer": lambda: signed(claims(iss="other")),
            "no end": lambda: signed(claims(exp=None)),
            "never issued": lambda: signed(claims(iat=None)),
            "not yet": lambda: signed(claims(nbf=time.time() + 100)),
            "nobody": lambda: signed(claims(sub=None)),
            "a blank name": lambda: signed(claims(sub=" ")),
            "members twice": lambda: signed('{"sub":"a","sub":"b","iat":1,"exp":99999999999}'),
            "HMAC": lambda: signed(algorithm="HS256", with_key=b"x" * 32),
            "a critical extension": lambda: signed(header={"crit": ["x"], "x": 1}),
            "no JSON": lambda: f"{encoded('}{')}.{encoded('}{')}.AAAA",
        }.items()
    },
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_conversation_goes_as_with_apache_kafka(servers, request, name):
    def ask(address):
        return asyncio.run(said(address, *MESSAGES[name]()))

    theirs = answers_of_apache_kafka(f"OAUTHBEARER: {name}", lambda: ask(request.getfixturevalue("apache_kafka")))
    assert shown(ask(servers)) == theirs
