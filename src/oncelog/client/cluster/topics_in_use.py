"""Whose metadata a client asks for, which topics a question may create, and what is forgotten.

A client that lives long meets any number of topics: what it has not used for `idle_ms` is neither asked for nor remembered. A
question creates only what somebody waits for or sends to now: whoever asks for a topic that was deleted would bring it back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from oncelog.client.arguments import is_wire_text
from oncelog.client.cluster.view import TopicView
from oncelog.errors import InvalidTopic


class TopicUser(Protocol):
    """The client that the topics are asked for."""

    def topics_in_use(self, since_ms: float) -> set[str]:
        """What it uses now, or has used since then by the loop's clock, without asking for it."""
        ...

    def topics_to_create(self) -> set[str]:
        """What may be created where it is missing."""
        ...

    def topics_forgotten(self, names: set[str]) -> None:
        """Nobody has used these: whatever is remembered of them can go."""
        ...


class UsesNothing:
    """A client that asks for topics, and has no other use of them."""

    def topics_in_use(self, since_ms: float) -> set[str]:  # noqa: ARG002
        """None."""
        return set()

    def topics_to_create(self) -> set[str]:
        """None."""
        return set()

    def topics_forgotten(self, names: set[str]) -> None:
        """Nothing is remembered."""


class ReadTopics:
    """A client that reads: it uses what it has subscribed to, however long nothing came."""

    def __init__(
        self,
        in_use: Callable[[], set[str]],
        to_create: Callable[[], set[str]] = set,
        forgotten: Callable[[set[str]], None] = lambda _: None,
    ) -> None:
        self._in_use, self._to_create, self._forgotten = in_use, to_create, forgotten

    def topics_in_use(self, since_ms: float) -> set[str]:  # noqa: ARG002
        """What it reads."""
        return self._in_use()

    def topics_to_create(self) -> set[str]:
        """What it was to create, and still reads."""
        return self._to_create()

    def topics_forgotten(self, names: set[str]) -> None:
        """It has not read these for long."""
        self._forgotten(names)


class Question(NamedTuple):
    """Topics that are asked for together."""

    names: list[str]
    may_create: bool


class TopicsInUse:
    """Of one client. Times are the loop's milliseconds."""

    def __init__(self, *, idle_ms: float, now_ms: Callable[[], float]) -> None:
        self._idle_ms, self._now_ms = idle_ms, now_ms
        self.user: TopicUser = UsesNothing()
        self._asked_ms: dict[str, float] = {}  # when somebody asked for it last
        self._awaited: Counter[tuple[str, bool]] = (
            Counter()
        )  # how often it is waited for; whether it may be created then
        self.tracked: set[str] = set()

    def asked_for(self, names: Iterable[str]) -> set[str]:
        """Somebody wants to know of these. Raises InvalidTopic for a name that cannot be sent."""
        asked = set(names)
        for name in asked:
            if not is_wire_text(name):  # one request asks for many topics, and would fail for all of them
                raise InvalidTopic(f"{name[:40]!r} is no topic's name: it cannot be sent as text")
        self._asked_ms.update(dict.fromkeys(asked, self._now_ms()))
        return asked

    def listed(self, names: Iterable[str]) -> None:
        """Somebody wants to know of all topics: these are there."""
        self._asked_ms.update(dict.fromkeys(names, self._now_ms()))

    def track(self, names: Iterable[str]) -> None:
        """Keep these fresh, for as long as they are used. Raises InvalidTopic."""
        self.tracked |= self.asked_for(names)

    def untrack(self, name: str) -> None:
        """A topic that does not exist need not be asked for."""
        self.tracked.discard(name)

    @contextmanager
    def awaiting(self, name: str, *, may_create: bool) -> Generator[None]:
        """Meanwhile somebody waits for it."""
        self._awaited[name, may_create] += 1
        try:
            yield
        finally:
            self._awaited[name, may_create] -= 1
            if not self._awaited[name, may_create]:
                del self._awaited[name, may_create]

    def questions(self, wanted: set[str], known: Mapping[str, TopicView]) -> list[Question]:
        """What is asked for the topics that are wanted now and those that are tracked. A question creates all of its topics that
        are missing, also those that this client believes to be there: who may be created is asked for alone."""
        names = wanted | self.tracked
        missing = {name for name in names if name not in known or known[name].error_code}
        creating = missing and missing & self.user.topics_to_create().union(
            name for name, may_create in self._awaited if may_create
        )
        rest = names - creating
        is_asked = not creating or not wanted or not wanted <= creating  # what is only tracked need not delay who waits
        return [
            *([Question(sorted(creating), may_create=True)] if creating else ()),
            *([Question(sorted(rest), may_create=False)] if is_asked else ()),
        ]

    def forget_idle(self) -> set[str]:
        """What nobody has used for a while: it is forgotten here, and the user has heard it."""
        since_ms = self._now_ms() - self._idle_ms
        idle = {name for name, asked_ms in self._asked_ms.items() if asked_ms < since_ms}
        if idle:
            idle -= self.user.topics_in_use(since_ms).union(name for name, _ in self._awaited)
        if idle:
            self.tracked -= idle
            for name in idle:
                del self._asked_ms[name]
            self.user.topics_forgotten(idle)
        return idle
