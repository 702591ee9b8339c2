"""The clients that push metrics: who may ask or push now, and who is forgotten (KIP-714).

The order of checks is Apache Kafka's (ClientMetricsManager). A client is known by the UUID that it carries: an unknown one
may come from another broker, or from before a restart, and is taken. `now_ms` is monotonic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from oncelog.core.client_metrics.subscriptions import ClientInstance, Subscription, Wanted, wanted_of
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.schema import ZERO_UUID

FORGOTTEN_AFTER_MS_MIN = 60_000
_INTERVALS_UNTIL_FORGOTTEN = 3
LOOK_INTERVAL_MS = 1_000
CODECS = (4, 3, 1, 2)  # accepted, the preferred one first: zstd, lz4, gzip, snappy
_CODEC_LAST = 4
_NEVER_MS = float("-inf")
RESERVED_IDS = frozenset((ZERO_UUID, bytes(15) + b"\x01"))
_MAY_ASK_AGAIN = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


@dataclass(slots=True, eq=False)
class Instance:
    """One client, what is wanted of it, and what it did last."""

    client: ClientInstance
    wanted: Wanted
    subscriptions_version: int
    asked_ms: float = _NEVER_MS
    pushed_ms: float = _NEVER_MS
    seen_ms: float = _NEVER_MS
    is_terminating: bool = False
    last_error: ErrorCode = ErrorCode.NONE

    def may_ask(self, now_ms: float) -> bool:
        """Whether an interval is over since it asked or pushed; then it has asked."""
        if now_ms - max(self.asked_ms, self.pushed_ms) < self.wanted.interval_ms:
            return False
        self.asked_ms = now_ms
        return True

    def may_push(self, now_ms: float) -> bool:
        """Whether an interval is over since it pushed, or it has asked since; then it has pushed."""
        if self.asked_ms <= self.pushed_ms and now_ms - self.pushed_ms < self.wanted.interval_ms:
            return False
        self.pushed_ms = now_ms
        return True

    def is_over(self, now_ms: float) -> bool:
        """Whether it has been silent for so long that it is forgotten; after its last push that is sooner."""
        intervals_ms = 0 if self.is_terminating else _INTERVALS_UNTIL_FORGOTTEN * self.wanted.interval_ms
        return now_ms - self.seen_ms >= max(FORGOTTEN_AFTER_MS_MIN, intervals_ms)


class Instances:
    """The clients known. `forgotten` hears which are no more."""

    def __init__(self, count_max: Callable[[], int], forgotten: Callable[[bytes], None]) -> None:
        self._count_max = count_max
        self._forgotten = forgotten
        self._known: dict[bytes, Instance] = {}  # the one silent longest first
        self._subscriptions: tuple[Subscription, ...] = ()
        self._version = 0
        self._looked_ms = _NEVER_MS

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[Instance]:
        return iter(self._known.values())

    def subscribe(self, subscriptions: tuple[Subscription, ...]) -> None:
        """These are all subscriptions from now on."""
        self._subscriptions = subscriptions
        self._version += 1

    def of(self, client: ClientInstance, now_ms: float) -> Instance:
        """The instance of this id, as it was when it came, or begun anew where what is wanted may have changed."""
        self.forget_silent(now_ms)
        found = self._known.pop(client.instance_id, None)
        if found is None or found.subscriptions_version < self._version:
            who = client if found is None else found.client
            found = Instance(who, wanted_of(who, self._subscriptions), self._version)
        found.seen_ms = now_ms
        self._known[client.instance_id] = found
        while len(self._known) > max(self._count_max(), 1):
            self._forget(next(iter(self._known)))
        return found

    def has(self, instance_id: bytes) -> bool:
        """Whether it is known and not forgotten."""
        return instance_id in self._known

    def forget_silent(self, now_ms: float) -> None:
        """Forget whom nobody heard of for long; looked for once a second at most."""
        if now_ms - self._looked_ms < LOOK_INTERVAL_MS:
            return
        self._looked_ms = now_ms
        for instance_id in [key for key, each in self._known.items() if each.is_over(now_ms)]:
            self._forget(instance_id)

    def _forget(self, instance_id: bytes) -> None:
        del self._known[instance_id]
        self._forgotten(instance_id)


def asked(instance: Instance, now_ms: float) -> ErrorCode:
    """A client asks what is wanted of it. One that was told to ask again need not wait."""
    if not instance.may_ask(now_ms) and instance.last_error not in _MAY_ASK_AGAIN:
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED
    instance.last_error = ErrorCode.NONE
    return ErrorCode.NONE


def pushed(
    instance: Instance,
    now_ms: float,
    *,
    subscription_id: int,
    codec: int,
    size_bytes: int,
    size_bytes_max: int,
    is_terminating: bool,
) -> ErrorCode:
    """A client pushes: whether its metrics are to be read."""
    error = _push_error(instance, now_ms, subscription_id, codec, size_bytes, size_bytes_max, is_terminating)
    instance.is_terminating = is_terminating
    instance.last_error = error
    return error


def _push_error(
    instance: Instance,
    now_ms: float,
    subscription_id: int,
    codec: int,
    size_bytes: int,
    size_bytes_max: int,
    is_terminating: bool,
) -> ErrorCode:
    if instance.is_terminating:
        return ErrorCode.INVALID_REQUEST
    if not instance.may_push(now_ms) and not is_terminating:
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED
    if subscription_id != instance.wanted.subscription_id:
        return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    if not 0 <= codec <= _CODEC_LAST:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if size_bytes > size_bytes_max:
        return ErrorCode.TELEMETRY_TOO_LARGE
    return ErrorCode.NONE
