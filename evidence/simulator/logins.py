"""The profile of sessions: who comes in says who it is, says so again and again, and is put out when it does not.

A listener of its own wants logins; sessions last a second or two. Credentials are taken away and given back while clients
are at work. Those who should not come in are `strangers/uninvited.py`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from evidence.simulator.faults import FaultOptions
from oncelog.broker.broker import Broker
from oncelog.core.metadata.credentials import SCRAM_SHA_256, SCRAM_SHA_512, credential
from oncelog.core.scram import salted_password_of
from oncelog.wire.log_records.cluster_metadata import RemoveScramCredentialRecord, ScramCredentialRecord
from oncelog.wire.messages.alter_user_scram_credentials import ScramCredentialUpsertion

PORT = 9093
PLAIN_USER, SCRAM_USER, PASSWORD = "alice", "sam", "secret"
MECHANISMS = ("PLAIN", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
HASHES = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}


def keys_of(options: FaultOptions) -> dict[str, Any]:
    """Of the broker; none where nobody need say who it is."""
    if not options.session_ms:
        return {}
    login = f'PlainLoginModule required user_{PLAIN_USER}="{PASSWORD}"'
    return {
        "listeners": f"PLAINTEXT://broker:9092,SASL_PLAINTEXT://broker:{PORT}",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"org.apache.kafka.common.security.plain.{login};",
        "connections.max.reauth.ms": options.session_ms,
        "connection.failed.authentication.delay.ms": 100,
    }


def settings_of(options: FaultOptions, source: random.Random) -> dict[str, Any]:
    """Of a client."""
    if not options.session_ms:
        return {}
    mechanism = source.choice(MECHANISMS)
    return {
        "bootstrap_servers": f"broker:{PORT}",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_username": PLAIN_USER if mechanism == "PLAIN" else SCRAM_USER,
        "sasl_password": PASSWORD,
    }


def credentials() -> Iterator[ScramCredentialRecord]:
    """What is stored of the user of SCRAM."""
    for number, hash_name in HASHES.items():
        salt = b"salt of the simulator"
        salted = salted_password_of(hash_name, PASSWORD, salt, 4096)
        yield credential(
            ScramCredentialUpsertion(
                name=SCRAM_USER, mechanism=number, iterations=4096, salt=salt, salted_password=salted
            )
        )


async def give_back(broker: Broker) -> None:
    """Whatever is missing of them. Raises KafkaError, StorageError."""
    async with broker.store.changing() as metadata:
        known = metadata.scram_credentials
        missing = [each for each in credentials() if (each.user, each.mechanism) not in known]
        if missing:
            await broker.store.append(missing)


async def take_away(broker: Broker) -> None:
    """All of them. Raises KafkaError, StorageError."""
    async with broker.store.changing() as metadata:
        held = [RemoveScramCredentialRecord(user=user, mechanism=number) for user, number in metadata.scram_credentials]
        if held:
            await broker.store.append(held)
