"""A real broker in a thread of the test process: real protocol, real transactions, real files in a temporary directory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

from oncelog.broker.broker import Broker
from oncelog.errors import ConfigurationError, InvalidArgument
from oncelog.testing.loop_thread import LoopThread

if TYPE_CHECKING:
    from oncelog.testing.security import TestSecurity


class TestBroker:
    """`with TestBroker() as broker:` — `bootstrap_servers` for any Kafka client. Two-phase commit is on.

    `config` has Kafka's keys. The data is kept in `data_dir` if given, else removed at the end. `security` is one of SSL,
    mTLS, SASL_PLAINTEXT, SASL_SSL: certificates and `users` (name to password; default: alice) are made for it, and
    `client_options(user)` are what a client of ours comes in with. Raises ConfigurationError, InvalidArgument.
    """

    __test__ = False  # not a test class, whatever pytest makes of its name

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        data_dir: str | None = None,
        *,
        security: str | None = None,
        mechanism: str = "SCRAM-SHA-256",
        users: Mapping[str, str] | None = None,
    ) -> None:
        self._security: TestSecurity | None = None
        if security is None and users is not None:
            raise InvalidArgument('users: nobody logs in without security: give security="SASL_PLAINTEXT", for example')
        if security is not None:
            from oncelog.testing.security import TestSecurity

            self._security = TestSecurity(security, mechanism, users)
        self._config = {
            "transaction.two.phase.commit.enable": "true",
            "group.initial.rebalance.delay.ms": "0",
            "transaction.state.log.num.partitions": "4",
            "offsets.topic.num.partitions": "4",
            **({} if self._security is None else self._security.broker_config()),
            **(config or {}),
        }
        self._data_dir = data_dir
        self.bootstrap_servers = ""

    def client_options(self, user: str | None = None) -> dict[str, Any]:
        """A client's options for this broker, `bootstrap_servers` included, as `user` (else the first one).

        Raises InvalidArgument for a user that there is not.
        """
        options: dict[str, Any] = {"bootstrap_servers": self.bootstrap_servers}
        if self._security is None and user is not None:
            raise InvalidArgument(
                f"user={user!r}: nobody logs in without security: TestBroker(security=..., users=...)"
            )
        return options if self._security is None else options | self._security.client_options(user)

    def token(self, user: str | None = None) -> str:
        """With `mechanism="OAUTHBEARER"`: a token of `user` (else the first one). Raises ConfigurationError."""
        if self._security is None:
            raise ConfigurationError("there are tokens with security=... and mechanism=OAUTHBEARER")
        return self._security.token(user)

    @asynccontextmanager
    async def _broker(self) -> AsyncIterator[Broker]:
        async with Broker(data_dir=self._data_dir, config=self._config) as broker:
            if self._security is not None:
                await self._security.add_users(broker)
            yield broker

    def __enter__(self) -> Self:
        self._thread = LoopThread("broker", self._broker)
        self.bootstrap_servers = self._thread.start().bootstrap_servers
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.stop()
        if self._security is not None:
            self._security.close()
