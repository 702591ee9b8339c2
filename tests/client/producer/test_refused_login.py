"""A producer whose user is taken away while it runs is told at once; when the user is back, it goes on where it may."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from evidence.world.broker import run
from evidence.world.security import (
    SCRAM_PASSWORD,
    SCRAM_USER,
    add_scram_user,
    plain_servers,
    sasl_servers,
    secured_broker,
)

from oncelog import Admin, Producer, errors
from oncelog.broker.broker import Broker
from oncelog.broker.network import server

LONG_S = 20  # of the 120 of delivery_timeout_ms


def options_of(broker: Broker) -> dict[str, Any]:
    return {
        "bootstrap_servers": sasl_servers(broker),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_username": SCRAM_USER,
        "sasl_password": SCRAM_PASSWORD,
    }


@pytest.fixture(autouse=True)
def _sessions_are_looked_at_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SWEEP_INTERVAL_S", 0.1)


async def remove_user(broker: Broker) -> None:
    async with Admin(bootstrap_servers=plain_servers(broker)) as admin:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            await admin.alter_user_scram_credential(SCRAM_USER, mechanism, None)


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_records_of_a_refused_user_fail_at_once(is_idempotent: bool) -> None:
    async def work() -> None:
        async with secured_broker(num_partitions=3) as broker:
            await add_scram_user(broker)
            async with Producer(**options_of(broker), enable_idempotence=is_idempotent) as producer:
                await (await producer.send("t", b"before", partition=0))
                await remove_user(broker)
                async with asyncio.timeout(LONG_S):
                    for partition in (0, 1, 2):
                        with pytest.raises(errors.AuthenticationFailed, match=SCRAM_USER):
                            while True:  # until the session has ended
                                await (await producer.send("t", b"while", partition=partition))
                await add_scram_user(broker)
                async with asyncio.timeout(LONG_S):
                    for partition in (0, 1, 2):
                        await (await producer.send("t", b"after", partition=partition))

    run(work())


def test_a_transaction_of_a_refused_user_fails_at_once() -> None:
    async def work() -> None:
        async with secured_broker(num_partitions=1) as broker:
            await add_scram_user(broker)
            async with Producer(**options_of(broker), transactional_id="x") as producer:
                async with producer.transaction():
                    await producer.send("t", b"before")
                await remove_user(broker)
                async with asyncio.timeout(LONG_S):
                    with pytest.raises(errors.AuthenticationFailed, match=SCRAM_USER):
                        while True:
                            async with producer.transaction():
                                await producer.send("t", b"while")

    run(work())
