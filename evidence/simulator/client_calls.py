"""Liveness of our clients: every call of a producer or consumer ends within what its own timeouts promise.

Whatever is broken around them: that is what the timeouts are for. Only time in which the process itself was paused does
not count. A record's delivery is such a promise, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any

from evidence.world.loop import PROCESS, Process, SimLoop
from oncelog.client.consumer.consumer import POLL_TIMEOUT_MS, Consumer
from oncelog.client.delivery import Delivery
from oncelog.client.producer.producer import Producer
from oncelog.client.sharing.share_consumer import ShareConsumer

SLACK_MS = 50.0
Found = Callable[[str, str], None]
Bound = Callable[..., float]  # of (client, arguments ...): milliseconds


def _block(client: Any, *_: Any, **__: Any) -> float:
    return float(client._config.max_block_ms)


def _start(client: Any) -> float:
    return float(client._config.default_api_timeout_ms + getattr(client._config, "max_block_ms", 0))


def _send(client: Any, *_: Any, **__: Any) -> float:
    return 2.0 * float(client._config.max_block_ms)  # for the topic, and for room


def _deliver(client: Any, *_: Any, **__: Any) -> float:
    return float(client._config.delivery_timeout_ms)


def _stop_producer(client: Any, timeout_ms: int | None = None) -> float:
    return _deliver(client) if timeout_ms is None else timeout_ms


def _api(client: Any, *_: Any, timeout_ms: int | None = None, **__: Any) -> float:
    return float(client._config.default_api_timeout_ms if timeout_ms is None else timeout_ms)


def _poll(client: Any, timeout_ms: int = POLL_TIMEOUT_MS, *_: Any) -> float:
    # A member that gives partitions back commits their positions first, after a periodic commit that is under way.
    return timeout_ms + (2 * client._config.request_timeout_ms if client._config.enable_auto_commit else 0)


def _poll_shared(client: Any, timeout_ms: int = POLL_TIMEOUT_MS) -> float:
    return 2.0 * timeout_ms  # for what was said of the records before, and for more


def _commit_shared(client: Any) -> float:
    # A fetch under way carries what was said before, with its wait; then renewals, and what was said since.
    return 3.0 * client._config.request_timeout_ms + float(client._config.fetch_max_wait_ms)


def _stop_consumer(client: Any, timeout_ms: int | None = None) -> float:
    return float(client._config.request_timeout_ms if timeout_ms is None else timeout_ms)


PROMISES: tuple[tuple[type, str, Bound], ...] = (
    (Producer, "start", _start),
    (Producer, "init_transactions", _block),
    (Producer, "send", _send),
    (Producer, "flush", _deliver),
    (Producer, "commit_transaction", _block),
    (Producer, "abort_transaction", _block),
    (Producer, "prepare_transaction", _block),
    (Producer, "complete_transaction", _block),
    (Producer, "send_offsets_to_transaction", _block),
    (Producer, "stop", _stop_producer),
    (Consumer, "start", _start),
    (Consumer, "poll", _poll),
    (Consumer, "commit", _api),
    (Consumer, "committed", _api),
    (Consumer, "position", _api),
    (Consumer, "end_offsets", _api),
    (Consumer, "stop", _stop_consumer),
    (ShareConsumer, "start", _start),
    (ShareConsumer, "poll", _poll_shared),
    (ShareConsumer, "commit", _commit_shared),
    (ShareConsumer, "stop", _stop_consumer),
)


@dataclass(slots=True, eq=False)
class _Promise:
    """Something that must end. `paused` is what the process had been paused when it began."""

    what: str
    process: Process
    begun_at: float
    paused: float
    bound_ms: float
    delivery: Delivery | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing is promised any more."""
        return self.process.is_dead or (self.delivery is not None and self.delivery.done())

    def over_ms(self, now: float) -> float:
        """By how much it is over its bound."""
        elapsed = now - self.begun_at - (self.process.paused_seconds - self.paused)
        return elapsed * 1000 - self.bound_ms


class ClientCalls:
    """All open calls and deliveries of a run."""

    def __init__(self, loop: SimLoop, found: Found) -> None:
        self._loop, self._found = loop, found
        self._open: dict[_Promise, None] = {}
        self.ended_count = 0

    def begun(self, what: str, bound_ms: float, delivery: Delivery | None = None) -> _Promise | None:
        """A call began, in the process that runs now."""
        process = PROCESS.get()
        if process is None:
            return None
        promise = _Promise(what, process, self._loop.seconds, process.paused_seconds, bound_ms, delivery)
        self._open[promise] = None
        return promise

    def ended(self, promise: _Promise | None) -> None:
        """It came back, with an answer or an error."""
        if promise in self._open and not self._loop.is_finishing:
            del self._open[promise]
            self.ended_count += 1
            self._judge(promise)

    def look(self) -> None:
        """Now and then: who is over the bound without an end. The dead promise nothing."""
        for promise in tuple(self._open):
            if promise.is_over or (not promise.process.is_paused and self._judge(promise)):
                del self._open[promise]

    def _judge(self, promise: _Promise) -> bool:
        over_ms = promise.over_ms(self._loop.seconds)
        if over_ms <= SLACK_MS:
            return False
        self._found(
            "unanswered",
            f"{promise.process.name}: {promise.what}, begun at {promise.begun_at:.4f}, "
            f"is {over_ms:.0f} ms over its {promise.bound_ms:.0f} ms",
        )
        return True


@contextmanager
def watching_calls(calls: ClientCalls) -> Iterator[None]:
    """While this lasts, every call is a promise."""
    with ExitStack() as taps:
        for owner, name, bound in PROMISES:
            taps.enter_context(_watched(calls, owner, name, bound))
        yield


@contextmanager
def _watched(calls: ClientCalls, owner: type, name: str, bound: Bound) -> Iterator[None]:
    original = next(each.__dict__[name] for each in owner.__mro__ if name in each.__dict__)
    is_own = name in owner.__dict__
    what = f"{owner.__name__}.{name}"

    @wraps(original)
    async def watched(self: Any, *args: Any, **more: Any) -> Any:
        promise = calls.begun(what, bound(self, *args, **more))
        try:
            outcome = await original(self, *args, **more)
        finally:
            calls.ended(promise)
        if isinstance(outcome, Delivery):
            calls.begun("the delivery of a record", _deliver(self), outcome)
        return outcome

    setattr(owner, name, watched)
    try:
        yield
    finally:
        if is_own:
            setattr(owner, name, original)
        else:
            delattr(owner, name)
