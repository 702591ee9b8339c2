"""Those who should not come in where logins are wanted: without one, with a wrong password, when their session has ended."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Coroutine
from typing import Any

from evidence.simulator.cluster import Cluster
from evidence.simulator.logins import MECHANISMS, PASSWORD, PLAIN_USER, PORT, SCRAM_USER
from evidence.world.disk import Disk
from evidence.world.doors import sim_host
from evidence.world.loop import Process
from oncelog.client.cluster.authentication import Authentication
from oncelog.client.cluster.connection import Connection
from oncelog.client.security import SaslLogin
from oncelog.errors import AuthenticationFailed, KafkaError
from oncelog.wire.messages.find_coordinator import FindCoordinatorRequest
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from oncelog.wire.messages.list_transactions import ListTransactionsRequest
from oncelog.wire.messages.metadata import MetadataRequest
from oncelog.wire.schema import Struct

TIMEOUT_MS = 2500
AFTER_A_SESSION_S = 0.01
ASKED: tuple[Struct, ...] = (
    MetadataRequest(topics=[]),
    ListTransactionsRequest(),
    InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000),
    FindCoordinatorRequest(coordinator_keys=["anything"]),
)


class Uninvited:
    """Comes without a login, with a wrong password, and stays when its session has ended."""

    def __init__(self, cluster: Cluster, process: Process) -> None:
        self.cluster, self.process = cluster, process
        self.random = random.Random(f"uninvited {cluster.seed} {process.name}")
        self._host = sim_host(process, cluster.network, Disk(0), cluster.seed)

    async def comes_again(self) -> None:
        """For ever."""
        ways = (self._without_a_login, self._with_a_wrong_password, self._after_its_session)
        while True:
            await asyncio.sleep(self.random.expovariate(1 / 0.3))
            try:
                await self.random.choice(ways)()
            except (KafkaError, TimeoutError):
                continue  # refused as it should be; or the network, the broker

    async def _without_a_login(self) -> None:
        await self._must_not_be_answered(await self._connection(), "who has not logged in")

    async def _with_a_wrong_password(self) -> None:
        mechanism = self.random.choice(MECHANISMS)
        user = self.random.choice((PLAIN_USER, SCRAM_USER, "nobody"))
        connection = await self._connection()
        with contextlib.suppress(AuthenticationFailed):  # of SCRAM, it may be the client who sees that it is wrong
            await self._login(connection, SaslLogin(mechanism, user, self.random.choice(("", "Secret", "secret "))))
        await self._must_not_be_answered(connection, f"who gave a wrong password ({mechanism})")

    async def _after_its_session(self) -> None:
        connection = await self._connection()
        await self._login(connection, SaslLogin("PLAIN", PLAIN_USER, PASSWORD))
        await connection.request(self.random.choice(ASKED), timeout_ms=TIMEOUT_MS)
        await asyncio.sleep(self.cluster.options.session_ms / 1000 + AFTER_A_SESSION_S)
        await self._must_not_be_answered(connection, "whose session has ended")

    async def _must_not_be_answered(self, connection: Connection, who: str) -> None:
        asked = self.random.choice(ASKED)
        try:
            await connection.request(asked, timeout_ms=TIMEOUT_MS)
        finally:
            self.cluster.strange_request_count += 1
            connection.close()
        self.cluster.found("access", f"{type(asked).__name__} of one {who} was answered")

    async def _connection(self) -> Connection:
        network = self.cluster.network.door(self.process)
        return await Connection.open(network, "broker", PORT, "uninvited", TIMEOUT_MS)

    async def _login(self, connection: Connection, login: SaslLogin) -> None:
        """Once: it does not begin again."""
        await Authentication(connection, login, self._host, _never, TIMEOUT_MS).login()


def _never(work: Coroutine[Any, Any, None]) -> None:
    work.close()
