"""How much a client has sent or read lately, and for how long it has to wait: Kafka's rates, windows and precedence.

A rate is the sum over 11 windows of one second each; until ten are full they count as full, so that a burst at the
beginning is not taken for a flood. Over the bound the client waits until the rate would be back at it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

from oncelog.core.metadata.cluster import Entity
from oncelog.core.metadata.quota_turns import Turns
from oncelog.core.metadata.quotas import CLIENT_ID, CONNECTION_CREATION_RATE, IP, USER

WINDOW_COUNT = 11
WINDOW_MS = 1_000
FORGET_AFTER_MS = 3_600_000  # a client that was silent so long has no rate any more
CLIENTS_MAX = 10_000


class Rate:
    """What was recorded in the last windows. `turns`: who waits to read, where it is a rate of replies."""

    __slots__ = ("_samples", "last_ms", "turns")

    def __init__(self) -> None:
        self._samples: deque[list[float]] = deque(maxlen=WINDOW_COUNT)  # [begun at, amount]
        self.last_ms = 0
        self.turns: Turns | None = None

    def record(self, amount: float, now_ms: int) -> None:
        """Count `amount` more."""
        self.last_ms = now_ms
        self._forget(now_ms)
        if not self._samples or now_ms - self._samples[-1][0] >= WINDOW_MS:
            self._samples.append([now_ms, 0.0])
        self._samples[-1][1] += amount

    def window_s(self, now_ms: int) -> float:
        """The time that the rate is measured over."""
        self._forget(now_ms)
        elapsed_ms = now_ms - self._samples[0][0] if self._samples else 0.0
        missing = max(WINDOW_COUNT - 1 - elapsed_ms // WINDOW_MS, 0)
        return max(elapsed_ms + missing * WINDOW_MS, 1) / 1000

    def per_second(self, now_ms: int) -> float:
        """The rate now."""
        window_s = self.window_s(now_ms)
        return sum(amount for _, amount in self._samples) / window_s

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """For how long to wait until the rate is back at `bound`; 0 where it is not above."""
        rate = self.per_second(now_ms)
        return round((rate - bound) / bound * self.window_s(now_ms) * 1000) if rate > bound else 0

    def _forget(self, now_ms: int) -> None:
        if self._samples and now_ms < self._samples[-1][0]:
            self._samples.clear()  # the clock was set back: these would count until it has caught up
        while self._samples and now_ms - self._samples[0][0] >= WINDOW_COUNT * WINDOW_MS:
            self._samples.popleft()


class TokenBucket:
    """Mutations that may be made now: they grow with time up to eleven seconds' worth, and may fall below none."""

    __slots__ = ("_filled_ms", "_tokens")

    def __init__(self) -> None:
        self._tokens = 0.0
        self._filled_ms = 0

    def take(self, amount: float, per_second: float, now_ms: int) -> None:
        """Take tokens (give some back with a negative amount), even more than there are."""
        most = WINDOW_COUNT * WINDOW_MS / 1000 * per_second
        gone_ms = max(now_ms - self._filled_ms, 0)  # a clock that was set back takes nothing
        self._tokens = min(most, self._tokens + gone_ms / 1000 * per_second) - amount
        self._filled_ms = now_ms

    def throttle_ms(self, per_second: float) -> int:
        """For how long to wait until there are tokens again, as of the last `take`."""
        return round(-self._tokens / per_second * 1000) if self._tokens < 0 else 0


class Bound(NamedTuple):
    """A quota that holds for a client; those with the same `shared_by` share one rate."""

    value: float
    shared_by: Hashable


def bound_for(quotas: Mapping[Entity, Mapping[str, float]], key: str, user: str, client_id: str) -> Bound | None:
    """The most precise quota of a client, in Kafka's order, or None."""
    for user_part in (user, None):
        for client_part in (client_id, None):
            value = quotas.get(frozenset(((USER, user_part), (CLIENT_ID, client_part))), {}).get(key)
            if value is not None:
                return Bound(value, (user, client_id))
        value = quotas.get(frozenset(((USER, user_part),)), {}).get(key)
        if value is not None:
            return Bound(value, (user, None))
    for client_part in (client_id, None):
        value = quotas.get(frozenset(((CLIENT_ID, client_part),)), {}).get(key)
        if value is not None:
            return Bound(value, (None, client_id))
    return None


def connection_bound(quotas: Mapping[Entity, Mapping[str, float]], host: str) -> Bound | None:
    """The quota of new connections of an address, or None."""
    for name in (host, None):
        value = quotas.get(frozenset(((IP, name),)), {}).get(CONNECTION_CREATION_RATE)
        if value is not None:
            return Bound(value, host)
    return None


def bytes_at_once_max(bound: Bound) -> int:
    """What a client may read at once, if it has read nothing lately: more is refused for certain (Kafka's
    maxValueInQuotaWindow)."""
    return max(min(int(bound.value * (WINDOW_COUNT - 1) * WINDOW_MS / 1000), 2**31 - 1), 1)


class QuotaRates:
    """The rates of all clients that a quota holds for.

    A client id is what a client says, so only so many are remembered: the one that was silent longest is forgotten.
    """

    def __init__(
        self, *, clients_max: Callable[[], int] = lambda: CLIENTS_MAX, on_forgotten: Callable[[], None] = lambda: None
    ) -> None:
        self._rates: OrderedDict[tuple[str, Hashable], Rate] = OrderedDict()  # the one silent longest first
        self._buckets: OrderedDict[Hashable, TokenBucket] = OrderedDict()
        self._clients_max = clients_max
        self._on_forgotten = on_forgotten

    def __len__(self) -> int:
        return len(self._rates) + len(self._buckets)

    def record(self, key: str, bound: Bound, amount: float, now_ms: int) -> int:
        """Count `amount`; for how many ms the client has to wait."""
        rate = self._rate(key, bound, now_ms)
        rate.record(amount, now_ms)
        return rate.throttle_ms(bound.value, now_ms)

    def record_unless_over(self, key: str, bound: Bound, amount: float, now_ms: int) -> int:
        """As `record`, but what would be over the bound is not counted: it does not come to pass either."""
        rate = self._rate(key, bound, now_ms)
        rate.record(amount, now_ms)
        throttle_ms = rate.throttle_ms(bound.value, now_ms)
        if throttle_ms:
            rate.record(-amount, now_ms)
        return throttle_ms

    def record_in_turn(self, key: str, bound: Bound, amount: float, reader: Hashable, now_ms: int) -> int:
        """As `record_unless_over`, for a reply that has to come through some time, however large it is (Fetch)."""
        rate = self._rate(key, bound, now_ms)
        turns = rate.turns
        if turns is None:
            turns = rate.turns = Turns()
        rate.record(amount, now_ms)
        over_ms = rate.throttle_ms(bound.value, now_ms)
        turns.pass_time(bound.value, now_ms)
        wait_ms = turns.wait_ms(reader, amount, over_ms, bound.value, WINDOW_COUNT * WINDOW_MS)
        if wait_ms:
            rate.record(-amount, now_ms)
        return wait_ms

    def _rate(self, key: str, bound: Bound, now_ms: int) -> Rate:
        rate = self._rates.setdefault((key, bound.shared_by), Rate())
        self._rates.move_to_end((key, bound.shared_by))
        rate.last_ms = now_ms
        while now_ms - next(iter(self._rates.values())).last_ms >= FORGET_AFTER_MS:
            self._rates.popitem(last=False)
        self._trim(self._rates)
        return rate

    def _bucket(self, bound: Bound) -> TokenBucket:
        bucket = self._buckets.setdefault(bound.shared_by, TokenBucket())
        self._buckets.move_to_end(bound.shared_by)
        self._trim(self._buckets)
        return bucket

    def _trim(self, table: OrderedDict[Any, Any]) -> None:
        while len(table) > max(self._clients_max(), 1):
            table.popitem(last=False)
            self._on_forgotten()

    def mutations(self, bound: Bound, amount: float, now_ms: int, *, is_strict: bool) -> tuple[bool, int]:
        """Take `amount` mutations: whether they may be made, and for how many ms the client has to wait (KIP-599).

        `is_strict`: while there are no tokens nothing more is made; older clients are served and made to wait.
        """
        bucket = self._bucket(bound)
        bucket.take(0, bound.value, now_ms)
        wait_ms = bucket.throttle_ms(bound.value)
        if is_strict and wait_ms:
            return False, wait_ms
        bucket.take(amount, bound.value, now_ms)
        return True, 0 if is_strict else bucket.throttle_ms(bound.value)

    def return_mutations(self, bound: Bound, amount: float, now_ms: int) -> None:
        """Give back what was taken for mutations that were not made."""
        self._bucket(bound).take(-amount, bound.value, now_ms)
