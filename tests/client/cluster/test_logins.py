"""Who waits for a login that fails is told so, however late the broker answers it."""

import asyncio

import pytest

from oncelog import Admin
from oncelog.client.cluster.cluster import Cluster
from oncelog.client.cluster.connection import Connection
from oncelog.client.cluster.logins import Logins
from oncelog.client.config import AdminConfig
from oncelog.errors import AuthenticationFailed, RequestTimedOut
from oncelog.host.host import real_host
from oncelog.testing import TestBroker

DELAY = "connection.failed.authentication.delay.ms"
AN_HOUR_MS, A_DAY_MS = 3_600_000, 86_400_000


def broker(delay_ms):
    values = {DELAY: str(delay_ms), "oncelog.authentication.timeout.ms": str(A_DAY_MS)}
    return TestBroker(values, security="SASL_PLAINTEXT", mechanism="PLAIN", users={"alice": "a"})


def security(of):
    names = {"bootstrap_servers": of.bootstrap_servers, "security_protocol": "SASL_PLAINTEXT"}
    return names | {"sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": "wrong"}


def test_who_waits_less_than_the_broker_is_told_for_what():
    with broker(AN_HOUR_MS) as secured:
        with pytest.raises(
            RequestTimedOut, match=r"not done within 200 ms; last error: .* has not answered the login; a f"
        ):
            asyncio.run(Admin(**security(secured), default_api_timeout_ms=200).start())
        secured.advance(AN_HOUR_MS)  # it answers before it stops


def test_a_connection_that_takes_too_long_says_that_the_login_does():
    async def work(secured):
        host, port = secured.bootstrap_servers.split(":")
        sasl = AdminConfig.of(security(secured)).security().sasl
        logins = Logins(sasl, real_host(), asyncio.ensure_future, 30_000)
        with pytest.raises(
            RequestTimedOut, match=r"no connection to .* within 200 ms: it has not answered the login; a f"
        ):
            await Connection.open(real_host().network, host, int(port), "me", 200, log_in=logins.log_in)
        assert logins.why_waiting() is None

    with broker(AN_HOUR_MS) as secured:
        asyncio.run(work(secured))
        secured.advance(AN_HOUR_MS)


def test_a_reason_that_is_known_is_told_while_the_next_login_waits():
    async def work(secured):
        config = AdminConfig.of(
            security(secured) | {"reconnect_backoff_ms": 900_000, "reconnect_backoff_max_ms": 900_000}
        )
        cluster = Cluster(config, real_host(), lambda _: None)
        try:
            with pytest.raises(AuthenticationFailed):
                await cluster.start()
            with pytest.raises(
                RequestTimedOut, match=r"not done within 50 ms; last error: .* invalid user name or"
            ) as late:
                await cluster.retry("ask", lambda _: cluster.refresh(()), timeout_ms=50)
            assert isinstance(late.value.__cause__, AuthenticationFailed)
        finally:
            await cluster.close()

    with broker(1) as secured:
        asyncio.run(work(secured))
