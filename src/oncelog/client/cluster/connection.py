"""One connection to one broker: requests go out, answers come back in order, versions are agreed when it opens.

It knows nothing of clusters or retries. Every request has a deadline; one that passes it closes the connection, since
what comes later on it can no longer be told apart from silence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Any, cast

from oncelog.client.traffic import Traffic
from oncelog.errors import (
    AuthenticationFailed,
    ErrorCode,
    KafkaError,
    MalformedFrame,
    MalformedMessage,
    Network,
    RequestTimedOut,
    UnsupportedVersion,
    error_for,
)
from oncelog.host.network import ConnectFailed, PeerRefused, shown_address
from oncelog.host.network import Network as NetworkDoor
from oncelog.host.tls import TlsContext, refusal_in, shown_by
from oncelog.lazy_dataclass import dataclass
from oncelog.version import __version__
from oncelog.wire.api import APIS, ApiKey
from oncelog.wire.frame import decode_response, encode_request, response_correlation_id
from oncelog.wire.frame_buffer import FrameBuffer
from oncelog.wire.messages.api_versions import ApiVersionsRequest
from oncelog.wire.schema import Struct

SOFTWARE_NAME = "oncelog"
LOGIN_UNANSWERED = (
    "has not answered the login; a failed one is answered late (connection.failed.authentication.delay.ms)"
)
THROTTLE_MS_MAX = 540_000  # Kafka's clients close what rests so long (connections.max.idle.ms), and come on by another


@dataclass(frozen=True)
class BrokerVersions:
    """What a broker told about itself in ApiVersions."""

    ranges: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    finalized_features: Mapping[str, int] = field(default_factory=dict)
    supported_features: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    features_epoch: int = -1

    def choose(self, api_key: int, version_min: int, version_max: int) -> int:
        """The highest version that both sides speak. Raises UnsupportedVersion."""
        api = APIS[api_key]
        low, high = self.ranges.get(api_key, (0, -1))
        chosen = min(high, version_max, api.max_version)
        lowest = max(low, version_min, api.min_version)
        if chosen < lowest:
            offered = f"offers {low} to {high}" if high >= 0 else "does not know it"
            raise UnsupportedVersion(
                f"{api.name}: needs version {lowest} to {min(version_max, api.max_version)}, the broker {offered}"
            )
        return chosen


class Connection(asyncio.BufferedProtocol):
    """An open connection. `name` is HOST:PORT, for messages."""

    def __init__(self, name: str, client_id: str, traffic: Traffic | None = None) -> None:
        self.name = name
        self._traffic = traffic or Traffic()
        self._traffic.connection_count += 1
        self.versions = BrokerVersions()
        self.is_closed = self.is_login_unanswered = False
        self._client_id = client_id
        self._transport: asyncio.Transport | None = None
        self._frames = FrameBuffer()
        self._next_correlation_id = 0
        self._has_heard = False
        self._answered_count = 0
        self._tls: TlsContext | None = None
        self._waiting: dict[int, tuple[int, int, asyncio.Future[Any], asyncio.TimerHandle, float]] = {}
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._is_full = False  # the transport's buffer
        self._unsent: list[
            tuple[asyncio.Future[None], asyncio.TimerHandle]
        ] = []  # what gets no answer, and did not leave
        self._gathered: list[bytes | bytearray | memoryview] | None = None
        self._throttled_until = 0.0  # the loop's time
        self._is_held = False  # while it logs in again
        self._is_lost = asyncio.Event()
        self._when_free: dict[Callable[[], None], None] = {}

    @classmethod
    async def open(
        cls,
        network: NetworkDoor,
        host: str,
        port: int,
        client_id: str,
        timeout_ms: int,
        traffic: Traffic | None = None,
        log_in: Callable[[Connection], Awaitable[None]] | None = None,
        tls: TlsContext | None = None,
    ) -> Connection:
        """Connect, agree on versions, log in. Raises Network, RequestTimedOut, UnsupportedVersion, AuthenticationFailed."""
        name = shown_address(host, port)
        connection = cls(name, client_id, traffic)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                if tls is None:
                    await network.connect(host, port, lambda: connection)
                else:
                    connection._tls = tls
                    await network.connect(host, port, lambda: connection, tls=tls)
                await connection._agree_on_versions(timeout_ms)
                if log_in is not None:
                    await log_in(connection)
        except TimeoutError as error:
            connection._abort()
            because = f": it {LOGIN_UNANSWERED}" if connection.is_login_unanswered else ""
            raise RequestTimedOut(f"no connection to {name} within {timeout_ms} ms{because}") from error
        except PeerRefused as error:
            connection._abort()
            raise AuthenticationFailed(str(error)) from error
        except (ConnectFailed, OSError) as error:
            connection._abort()
            raise Network(str(error)) from error
        except BaseException:
            connection._abort()
            raise
        return connection

    async def _agree_on_versions(self, timeout_ms: int) -> None:
        version = APIS[ApiKey.API_VERSIONS].max_version
        while True:
            message = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)
            response = await self._start(message, ApiKey.API_VERSIONS, version, timeout_ms)
            ranges = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
            if response.error_code == ErrorCode.UNSUPPORTED_VERSION and version > 0:
                version = min(version - 1, ranges.get(ApiKey.API_VERSIONS, (0, 0))[1])
                continue
            if response.error_code:
                raise error_for(response.error_code, f"{self.name} refused ApiVersions")
            break
        self.versions = BrokerVersions(
            ranges,
            {feature.name: feature.max_version_level for feature in response.finalized_features},
            {feature.name: (feature.min_version, feature.max_version) for feature in response.supported_features},
            response.finalized_features_epoch,
        )

    async def refresh_versions(self, timeout_ms: int) -> BrokerVersions:
        """Ask again: features may have been changed since the connection was opened."""
        if not self._may_write.is_set():
            await self._until_may_write(timeout_ms, "ApiVersions")
        await self._agree_on_versions(timeout_ms)
        return self.versions

    async def request(
        self, message: Struct, *, version_min: int = 0, version_max: int = 32767, timeout_ms: int
    ) -> tuple[Any, int]:
        """Send and wait: response and version used. Raises Network, RequestTimedOut, UnsupportedVersion. What could not leave
        within its time, a pause that the broker asked for included, was not sent."""
        if not self._may_write.is_set():
            await self._until_may_write(timeout_ms, APIS[type(message).KEY].name)
        answer, version = self.start_request(
            message, version_min=version_min, version_max=version_max, timeout_ms=timeout_ms
        )
        return await answer, version

    async def _until_may_write(self, timeout_ms: int, what: str) -> None:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while not self._may_write.is_set():
                    await self._may_write.wait()
        except TimeoutError as error:
            told_ms = self._traffic.throttle_ms
            because = f": a quota, the broker told a throttle of {told_ms} ms" if told_ms else ""
            raise RequestTimedOut(f"{what} could not be sent to {self.name} within {timeout_ms} ms{because}") from error

    async def ask(self, message: Struct, *, version_min: int = 0, timeout_ms: int) -> tuple[Any, int]:
        """As `request`, also while requests are held back: for logging in."""
        answer, version = self.start_request(message, version_min=version_min, timeout_ms=timeout_ms)
        return await answer, version

    def hold_requests(self) -> None:
        """Let nobody send until `release_requests`: a broker serves nothing else while a session begins again."""
        self._is_held = True
        self._may_write.clear()

    def release_requests(self) -> None:
        """Who waits may send again."""
        self._is_held = False
        if self._throttled_until <= asyncio.get_running_loop().time():
            self._unthrottle(self._throttled_until)

    def start_request(
        self, message: Struct, *, version_min: int = 0, version_max: int = 32767, timeout_ms: int
    ) -> tuple[asyncio.Future[Any], int]:
        """Send at once, so that requests leave in the order of the calls. Raises Network, UnsupportedVersion."""
        api_key = type(message).KEY
        version = self.versions.choose(api_key, version_min, version_max)
        return self._start(message, api_key, version, timeout_ms), version

    @property
    def may_write(self) -> bool:
        """Whether a request may be sent now: the transport has room and the broker asked for no pause."""
        return self._may_write.is_set() and not self.is_closed

    def is_throttled(self, when_free: Callable[[], None]) -> bool:
        """Whether the broker asked for a pause (KIP-219), or a session begins again: then `when_free` is called afterwards."""
        if not self._is_held and self._throttled_until <= asyncio.get_running_loop().time():
            return False
        self._when_free[when_free] = None
        return True

    def _throttle(self, duration_ms: int) -> None:
        """A quota was passed: nothing more is sent meanwhile, as the broker would not read it. Answers still come."""
        loop = asyncio.get_running_loop()
        self._traffic.throttled(self, duration_ms)
        duration_ms = min(duration_ms, THROTTLE_MS_MAX)
        self._traffic.throttle_sum_ms += duration_ms
        self._throttled_until = max(self._throttled_until, loop.time() + duration_ms / 1000)
        self._may_write.clear()
        loop.call_at(self._throttled_until, self._unthrottle, self._throttled_until)

    def _unthrottle(self, until: float) -> None:
        if until < self._throttled_until and not self.is_closed:
            return  # a later answer prolonged it
        self._traffic.throttled(self, 0)
        self._throttled_until = 0.0  # not asked of the clock: uvloop's timers may ring a little before their time
        if self._is_held and not self.is_closed:
            return
        if not self._is_full:
            self._may_write.set()
        self._tell_free()

    def _tell_free(self) -> None:
        waiting, self._when_free = self._when_free, {}
        for each in waiting:
            each()

    def send_only(self, message: Struct, *, version_max: int = 32767, timeout_ms: int) -> asyncio.Future[None] | None:
        """Send a request that gets no answer (Produce with acks=0).

        Gives what ends when the transport has room again, None where it has: no answer says that the broker reads, and
        who did not wait would fill the memory. Raises Network, UnsupportedVersion.
        """
        api_key = type(message).KEY
        self._write(message, api_key, self.versions.choose(api_key, 0, version_max))
        if not self._is_full:
            return None
        loop = asyncio.get_running_loop()
        left: asyncio.Future[None] = loop.create_future()
        what = f"{APIS[api_key].name} to {self.name} was not read within {timeout_ms} ms"
        self._unsent.append((left, loop.call_later(timeout_ms / 1000, self._timed_out, left, what)))
        return left

    def _write(self, message: Struct, api_key: int, version: int) -> int:
        if self.is_closed or self._transport is None:
            raise Network(f"the connection to {self.name} is closed")
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) % 2**31
        parts = encode_request(api_key, version, correlation_id, self._client_id, message)
        self._traffic.request_count += 1
        self._traffic.sent_bytes += sum(map(len, parts))
        if self._gathered is None:
            self._transport.writelines(parts)
        else:
            self._gathered += parts
        return correlation_id

    def gather(self) -> None:
        """What is sent from now on waits for `send_gathered`, in this step of the loop: the broker reads it in one piece."""
        if self._gathered is None:
            self._gathered = []

    def send_gathered(self) -> None:
        """It leaves."""
        parts, self._gathered = self._gathered, None
        if parts and self._transport is not None and not self.is_closed:
            self._transport.writelines(parts)

    def _start(self, message: Struct, api_key: int, version: int, timeout_ms: int) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        correlation_id = self._write(message, api_key, version)
        # The timer outlives a caller that stops waiting: a connection that is silent must be given up all the same.
        what = f"{APIS[api_key].name} to {self.name} got no answer within {timeout_ms} ms"
        timer = loop.call_later(timeout_ms / 1000, self._timed_out, answer, what)
        self._waiting[correlation_id] = (api_key, version, answer, timer, loop.time())
        return answer

    def _timed_out(self, waiting: asyncio.Future[Any], what: str) -> None:
        _fail(waiting, RequestTimedOut(what))
        self.close(Network(f"the connection was given up: {what}"))

    async def hung_up(self, timeout_s: float) -> None:
        """Until the transport of a closed connection is gone: TLS says goodbye first. Then it is cut."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._is_lost.wait()
        except TimeoutError:
            if self._transport is not None:
                self._transport.abort()

    def _abort(self) -> None:
        """It could not be opened: nothing is on its way that should arrive."""
        self.close(Network(f"the connection to {self.name} was not opened"))

    def close(self, reason: KafkaError | None = None) -> None:
        """Close; whoever waits gets Network (or `reason`). What is written still leaves, unless something is wrong."""
        if self.is_closed:
            return
        self.is_closed = True
        self._traffic.throttled(self, 0)
        self._may_write.set()
        if self._transport is not None:
            if reason is not None or self._is_full:  # it would be kept for as long as the broker does not read
                self._transport.abort()
            else:
                self._transport.close()
        waiting, self._waiting = self._waiting, {}
        unsent, self._unsent = self._unsent, []
        self._traffic.unanswered_count += len(waiting)
        ends: list[tuple[asyncio.Future[Any], asyncio.TimerHandle]] = [
            *((answer, timer) for _, _, answer, timer, _ in waiting.values()),
            *unsent,
        ]
        for end, timer in ends:
            timer.cancel()
            _fail(end, reason or Network(f"the connection to {self.name} was closed"))
        self._tell_free()  # a pause ends with its connection, as in Kafka's clients

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The transport is there."""
        transport = cast("asyncio.Transport", transport)  # uvloop's is one without saying so
        self._transport = transport
        if self.is_closed:
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The broker closed it, or the network did. Of TLS 1.3 a refusal of what we showed comes here, too."""
        self._is_lost.set()
        refusal = refusal_in(exc, self._tls)
        if refusal and not self._has_heard:
            self.close(AuthenticationFailed(f"TLS with {self.name}: {refusal}"))
            return
        because = f": {exc}" if exc else ""
        if not self._has_heard and not self.is_closed:
            because += f" before its first answer: {self._hint()}"
        elif self._answered_count == 1 and not self.is_closed:
            because += " after its first answer: does the listener want security_protocol=SASL_PLAINTEXT or SASL_SSL?"
        self.close(Network(f"the connection to {self.name} was lost{because}"))

    def _hint(self) -> str:
        if self._tls is None:
            return "is this a Kafka listener, and one without TLS?"
        shown = shown_by(self._tls)
        if shown:
            return f"did the broker refuse our certificate ({shown})? Its log says why"
        return "does the listener want a certificate of ours (ssl_keystore_location)?"

    def pause_writing(self) -> None:
        """The transport's buffer is full."""
        self._is_full = True
        self._may_write.clear()

    def resume_writing(self) -> None:
        """The transport's buffer has room again."""
        self._is_full = False
        unsent, self._unsent = self._unsent, []
        for left, timer in unsent:
            timer.cancel()
            if not left.done():
                left.set_result(None)
        if self._throttled_until <= asyncio.get_running_loop().time():
            self._unthrottle(self._throttled_until)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes belong. How many they may be is the event loop's guess, and says nothing."""
        del sizehint
        return self._frames.room()

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes came: hand whole answers to those who wait."""
        self._traffic.received_bytes += nbytes
        self._has_heard = True
        try:
            for frame in self._frames.take(nbytes):
                self._answered(frame)
        except (MalformedFrame, MalformedMessage) as error:
            self.close(Network(f"{self.name} sent what cannot be read: {error}"))

    def _answered(self, frame: memoryview) -> None:
        self._answered_count += 1
        correlation_id = response_correlation_id(frame)
        found = self._waiting.pop(correlation_id, None)
        if found is None:
            raise MalformedMessage(f"an answer to request {correlation_id}, which was never sent")
        api_key, version, answer, timer, sent_at = found
        timer.cancel()
        self._traffic.answered(asyncio.get_running_loop().time() - sent_at)
        if answer.done():  # whoever asked is gone
            return
        if api_key == ApiKey.API_VERSIONS and bytes(frame[4:6]) == b"\x00\x23":
            version = 0  # a broker that does not know the version answers in version 0
        try:
            _, message = decode_response(api_key, version, frame)
        except MalformedMessage as error:
            _fail(answer, Network(f"{self.name} sent what cannot be read: {error}"))
            raise
        if throttle_ms := getattr(message, "throttle_time_ms", 0):
            self._throttle(throttle_ms)
        answer.set_result(message)


def _fail(waiting: asyncio.Future[Any], error: KafkaError) -> None:
    """Whoever waits hears it; that nobody does any more (a task that was cancelled before its first step) is no news."""
    if not waiting.done():
        waiting.set_exception(error)
        waiting.exception()
