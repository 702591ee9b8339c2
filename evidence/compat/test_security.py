"""Secured listeners under other people's clients, and our clients under a secured Apache Kafka: written and read back."""

from __future__ import annotations

import asyncio
import pathlib
import time

import confluent_kafka
import pytest

from evidence.compat.apache import find_launcher
from evidence.differential.brokers import ApacheKafkaNode
from evidence.world.ports import free_port
from evidence.world.security import JAAS, SCRAM_PASSWORD, SCRAM_USER, SECURED, USERS
from oncelog import Admin, Consumer, Producer, sync
from oncelog.errors import AuthenticationFailed
from oncelog.testing.broker import TestBroker

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


@pytest.mark.parametrize("mechanism", MECHANISMS)
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
