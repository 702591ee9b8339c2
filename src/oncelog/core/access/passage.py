"""What stands between a request and its handler where an authorizer is configured: the parts that may not go on.

A check looks at one request and says how much of it may pass. What may not is taken out before the handler sees it and
put into its reply afterwards, with Kafka's codes; so a handler never has to know who asks. `authorization_checks` is the
table of all checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from oncelog.core.access.authorizer import Authorizer, Identity
from oncelog.core.metadata.acl import CLUSTER_NAME
from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.access_rules import Operation, ResourceType

T = TypeVar("T")
DENIALS_MAX = 10  # that are told of a request; the rest is counted

Denial = tuple[Operation, ResourceType, str]  # what was asked for, of which kind of resource, and its name


class Denials:
    """What a caller was refused in one request: the first `DENIALS_MAX`, each once, and how many there were besides."""

    __slots__ = ("first", "more_count")

    def __init__(self) -> None:
        self.first: dict[Denial, None] = {}
        self.more_count = 0

    def add(self, denial: Denial) -> None:
        """One question that was answered with no."""
        if denial in self.first:
            return
        if len(self.first) < DENIALS_MAX:
            self.first[denial] = None
        else:
            self.more_count += 1


class Caller:
    """Who sent the request, and what is known of the cluster."""

    def __init__(self, authorizer: Authorizer, who: Identity, metadata: ClusterMetadata, *, may_create: bool) -> None:
        self._authorizer = authorizer
        self._who = who
        self.metadata = metadata
        self.may_create = may_create  # auto.create.topics.enable
        self.denials: Denials | None = None  # made with the first: most requests have none

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether the caller may do this."""
        if self._authorizer.allows(self._who, operation, resource_type, name):
            return True
        if self.denials is None:
            self.denials = Denials()
        self.denials.add((operation, resource_type, name))
        return False

    def may_on_cluster(self, operation: Operation) -> bool:
        """Whether the caller may do this to the cluster itself."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def may_on_topic(self, operation: Operation, name: str) -> bool:
        """Whether the caller may do this to a topic."""
        return self.may(operation, ResourceType.TOPIC, name)

    def may_on_group(self, operation: Operation, name: str) -> bool:
        """Whether the caller may do this to a group."""
        return self.may(operation, ResourceType.GROUP, name)

    def may_on_transactional_id(self, operation: Operation, name: str) -> bool:
        """Whether the caller may do this to a transactional id."""
        return self.may(operation, ResourceType.TRANSACTIONAL_ID, name)

    def may_on_some_topic(self, operation: Operation) -> bool:
        """Whether there may be a topic to which the caller may do this."""
        return self._authorizer.allows_some(self._who, operation, ResourceType.TOPIC)

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """All that the caller may do to a resource, as bits."""
        return self._authorizer.operations(self._who, resource_type, name)

    def topic_name(self, name: str | None, topic_id: bytes) -> str | None:
        """A topic's name where a request gives the one or the other; None for an id that nobody has."""
        if name:
            return name
        topic = self.metadata.topics_by_id.get(topic_id)
        return topic.name if topic else None

    def split(
        self, items: Iterable[T], operation: Operation, name_of: Callable[[T], str | None]
    ) -> tuple[list[T], list[T]]:
        """Items about topics on which the caller may do `operation`, and the others; nameless ones pass."""
        passed: list[T] = []
        refused: list[T] = []
        for item in items:
            name = name_of(item)
            (passed if name is None or self.may_on_topic(operation, name) else refused).append(item)
        return passed, refused


@dataclass(frozen=True, slots=True)
class Passage:
    """How a request goes on: answered at once with `reply`, or as `message`, its reply `complete`d afterwards."""

    message: Any = None
    reply: Any = None
    complete: Callable[[Any], Any] | None = None


Check = Callable[[Caller, Any, int], Passage | None]  # (caller, request, version); None: nothing stands against it
