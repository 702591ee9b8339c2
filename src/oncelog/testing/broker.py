"""A real broker for tests, in a thread of this process or in one of its own: real protocol, real transactions, real files."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
import weakref
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

from oncelog.broker import arguments as given
from oncelog.broker.broker import Broker
from oncelog.broker.config.configuration import Configuration
from oncelog.client import arguments
from oncelog.errors import ConfigurationError, IllegalState, InvalidArgument
from oncelog.host.given_paths import AnyPath
from oncelog.host.host import real_host
from oncelog.testing.broker_process import ANSWER_TIMEOUT_S, BrokerProcess
from oncelog.testing.loop_thread import LoopThread
from oncelog.testing.moved_time import MovedTime

if TYPE_CHECKING:
    from oncelog.testing.security import TestSecurity

NOT_STARTED = "this broker was not started: use `with`"
ADVANCED_MS_MAX = 100 * 365 * 86_400_000  # timestamps are milliseconds in 64 bits; calendars end earlier
DEFAULT_MECHANISM = "SCRAM-SHA-256"
RUNNING: weakref.WeakSet[TestBroker] = weakref.WeakSet()
"""Those that were entered and not left: whose open transactions a failed test's report names."""


class TestBroker:
    """`with TestBroker() as broker:` — `bootstrap_servers` for any Kafka client. Two-phase commit is on.

    `advance` moves its time, `restart` stops and starts it on the same address and data. `process=True` gives it a process of
    its own, for `kill`, `pause` and `resume`: it starts slower (half a second), and takes no `security`.

    `config` has Kafka's keys. The data is kept in `data_dir` (or `log.dirs`) if given, else removed at the end. `security` is
    one of SSL, mTLS, SASL_PLAINTEXT, SASL_SSL: certificates and `users` (name to password; default: alice) are made for it,
    and `client_options(user)` are what a client of ours comes in with. Raises ConfigurationError, InvalidArgument.
    """

    __test__ = False  # not a test class, whatever pytest makes of its name

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        data_dir: AnyPath | None = None,
        *,
        security: str | None = None,
        mechanism: str = DEFAULT_MECHANISM,
        users: Mapping[str, str] | None = None,
        process: bool = False,
    ) -> None:
        self._security: TestSecurity | None = None
        path = given.data_directory(data_dir, "its config is the first argument: TestBroker(config=...)")
        values = given.config_values(config, "its directory is the second argument: TestBroker(data_dir=...)")
        arguments.boolean("process", process)
        if process and security is not None:
            raise InvalidArgument(
                "process=True takes no security: `oncelog secure` and `oncelog serve` make such a process"
            )
        if security is None and users is not None:
            raise InvalidArgument('users: nobody logs in without security: give security="SASL_PLAINTEXT", for example')
        if security is None and mechanism != DEFAULT_MECHANISM:
            text = (
                f'mechanism={mechanism!r}: nobody logs in without security: give security="SASL_PLAINTEXT", for example'
            )
            raise InvalidArgument(text)
        if security is not None:
            from oncelog.testing.security import TestSecurity

            self._security = TestSecurity(security, mechanism, users)
        self._config = {
            "transaction.two.phase.commit.enable": "true",
            "group.initial.rebalance.delay.ms": "0",
            "transaction.state.log.num.partitions": "4",
            "offsets.topic.num.partitions": "4",
            **({} if self._security is None else self._security.broker_config()),
            **values,
        }
        Configuration(self._config)
        named = str(self._config.get("log.dirs") or self._config.get("log.dir") or "")
        self._data_dir: str | None = path or named.split(",")[0] or None
        self._is_ephemeral = self._data_dir is None
        self._has_process = process
        self._time = MovedTime()
        self._thread: LoopThread[Broker] | None = None
        self._process: BrokerProcess | None = None
        self._listen = "127.0.0.1:0"
        self._address = ""
        self._is_over = False

    @property
    def bootstrap_servers(self) -> str:
        """Its address; also of one that was killed or left. Raises IllegalState where it was never started."""
        if not self._address:
            raise IllegalState(NOT_STARTED)
        return self._address

    def client_options(self, user: str | None = None) -> dict[str, Any]:
        """A client's options for this broker, `bootstrap_servers` included, as `user` (else the first one).

        Raises InvalidArgument for a user that there is not.
        """
        if self._security is None and user is not None:
            raise InvalidArgument(
                f"user={user!r}: nobody logs in without security: TestBroker(security=..., users=...)"
            )
        options: dict[str, Any] = {"bootstrap_servers": self.bootstrap_servers}
        return options if self._security is None else options | self._security.client_options(user)

    def token(self, user: str | None = None) -> str:
        """With `mechanism="OAUTHBEARER"`: a token of `user` (else the first one). Raises ConfigurationError."""
        if self._security is None:
            raise ConfigurationError("there are tokens with security=... and mechanism=OAUTHBEARER")
        return self._security.token(user)

    # -- life

    def __enter__(self) -> Self:
        if self._is_ephemeral:
            self._data_dir = tempfile.mkdtemp(prefix="oncelog-test-")
        try:
            self._start()
        except BaseException:
            self._remove_what_is_ephemeral()
            raise
        RUNNING.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        RUNNING.discard(self)
        self._is_over = True
        try:
            self._stop()
        finally:
            self._remove_what_is_ephemeral()
            if self._security is not None:
                self._security.close()

    @property
    def is_running(self) -> bool:
        """Whether it answers: entered, not left, not killed, not paused."""
        return self._thread is not None or (self._process is not None and self._process.is_running)

    def restart(self) -> None:
        """Stop it in order, where it runs, and start it again on the same address and data; its time goes on.

        After `kill` it recovers what was written. Clients connect again by themselves.
        """
        if not self._address:
            raise IllegalState(NOT_STARTED)
        if self._is_over:
            raise IllegalState("this broker's `with` was left, which is its end: make a new one")
        self._stop()
        self._start()

    def kill(self) -> None:
        """SIGKILL, nothing is synced or closed any more; `restart` starts it again. Needs process=True (IllegalState).

        What it wrote is in the system's memory and survives: a power cut is another thing.
        """
        process, self._process = self._its_process("kill"), None
        process.kill()

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nobody answers, as in a long pause of a virtual machine. Needs process=True."""
        self._its_process("pause").pause()

    def resume(self) -> None:
        """SIGCONT, after `pause`: it goes on where it was. Needs process=True."""
        self._its_process("resume").resume()

    def advance(self, duration_ms: int) -> None:
        """Let `duration_ms` pass for the broker in a moment: transactions time out, sessions of groups end, retention and
        offsets expire, connections idle out, as if no client had said anything all the while.

        On return the timers that became due were called once; wait for their effects, which the broker works on. What runs at
        intervals looks once, not once for each interval. Records written afterwards have the later timestamps only where the
        broker gives them (LogAppendTime). A broker's time never goes back, also by `restart`. The clients' own time stays.
        """
        if isinstance(duration_ms, bool) or not isinstance(duration_ms, int) or duration_ms < 0:
            raise InvalidArgument(f"duration_ms must be a number of milliseconds from 0 on, not {duration_ms!r:.80}")
        if self._time.ahead_ms + duration_ms > ADVANCED_MS_MAX:
            raise InvalidArgument(f"duration_ms={duration_ms}: a hundred years in all are enough")
        if not self.is_running:
            raise IllegalState("this broker does not run: its time is not moved")
        if self._process is not None:
            self._process.advance(duration_ms)
            self._time.ahead_ms += duration_ms
        else:
            assert self._thread is not None
            self._time.advance(self._thread.loop, duration_ms, ANSWER_TIMEOUT_S)

    def _its_process(self, what: str) -> BrokerProcess:
        if not self._has_process:
            text = "a thread can neither be killed nor stopped: TestBroker(process=True)"
            raise IllegalState(f"{what}() needs a broker in a process of its own: {text}")
        if self._process is None:
            raise IllegalState(f"{what}(): this broker does not run")
        return self._process

    def _start(self) -> None:
        assert self._data_dir is not None
        if self._has_process:
            config = {key: str(value) for key, value in self._config.items()}
            process = BrokerProcess(self._data_dir, config, self._listen, self._time.ahead_ms)
            address = process.start()
            self._process = process
        else:
            thread = LoopThread("broker", self._broker, self._time.new_loop)
            address = thread.start().bootstrap_servers
            self._thread = thread
        self._address = self._listen = address

    def _stop(self) -> None:
        thread, self._thread = self._thread, None
        process, self._process = self._process, None
        if thread is not None:
            thread.stop()
        if process is not None:
            process.stop()

    def _remove_what_is_ephemeral(self) -> None:
        if self._is_ephemeral and self._data_dir is not None:
            shutil.rmtree(self._data_dir, ignore_errors=True)

    @asynccontextmanager
    async def _broker(self) -> AsyncIterator[Broker]:
        host = dataclasses.replace(real_host(), clock=self._time)
        try:
            async with Broker(self._data_dir, self._config, host, self._listen) as broker:
                if self._security is not None:
                    await self._security.add_users(broker)
                yield broker
        finally:
            host.syncer.close()
