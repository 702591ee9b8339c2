"""Asking brokers when any answer may be missing: what fails becomes a fact, and the other questions are asked all the same."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import field
from typing import TypeVar

from oncelog.cli.hidden import OWNERS, not_answered
from oncelog.cli.output import Failed, error_name
from oncelog.cli.transactions.group_scope import listed
from oncelog.cli.unreadable import why
from oncelog.client.admin.admin import Admin
from oncelog.client.cluster.view import TopicView
from oncelog.core.diagnosis.facts import NotRead
from oncelog.errors import (
    AuthenticationFailed,
    ClusterAuthorization,
    GroupAuthorization,
    KafkaError,
    RequestTimedOut,
    TopicAuthorization,
    TransactionalIdAuthorization,
)
from oncelog.lazy_dataclass import dataclass
from oncelog.types import Node, TopicPartition

T = TypeVar("T")
CLUSTER = "kafka-cluster"


@dataclass
class Looking:
    """An admin client, all topics, and what could not be read or is to be said beside the causes."""

    admin: Admin
    topics: Mapping[str, TopicView]
    not_read: list[NotRead] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    async def ask(
        self, what: str, question: Awaitable[T], name: str = "", *, absent: tuple[type[KafkaError], ...] = ()
    ) -> T | None:
        """The answer, or None where there is none: then `not_read` says so, unless the error says that it is `absent`.

        `name`: the group, topic or id that it is about. Raises AuthenticationFailed: nothing else would be answered, either.
        """
        try:
            return await question
        except AuthenticationFailed:
            raise
        except absent:
            return None
        except KafkaError as error:
            self.not_read.append(not_read(what, error, name))
            return None

    def could_not_read(self, unreadable: Mapping[TopicPartition, KafkaError]) -> None:
        """Partitions that did not answer: one entry for each topic and reason."""
        together: dict[tuple[str, str], list[TopicPartition]] = {}
        for where, error in unreadable.items():
            together.setdefault((where.topic, error_name(error)), []).append(where)
        for (topic, _), partitions in sorted(together.items()):
            self.not_read.append(not_read(listed(partitions), unreadable[partitions[0]], topic))

    def did_not_answer(self, what: str, unreachable: Mapping[Node, KafkaError]) -> None:
        """Brokers that said nothing in time: what they have of it is missing."""
        self.not_read += [
            not_read(f"{what} of broker {node.node_id}", unreachable[node], "") for node in sorted(unreachable)
        ]

    def lost_sight(self, what: str, where: TopicPartition) -> None:
        """Something that must be there, and is not (any more): not an answer."""
        self.not_read.append(NotRead(what, Failed.__name__, f"none is open on {where}, however often one looks"))

    def owners_hidden(self, reasons: Iterable[str]) -> None:
        """Why an open transaction may have an owner that nobody named: where somebody did not answer, that is no answer."""
        self.not_read += [NotRead(OWNERS, Failed.__name__, each) for each in not_answered(reasons)]

    @property
    def everywhere(self) -> list[TopicPartition]:
        """All partitions that can be seen."""
        return [TopicPartition(view.name, n) for view in self.topics.values() for n in sorted(view.partitions)]

    def offline(self, topic: str, numbers: Iterable[int]) -> list[TopicPartition]:
        """Those of an internal topic that nobody serves: what they coordinate cannot be asked."""
        view = self.topics.get(topic)
        known = {} if view is None else view.partitions
        return [TopicPartition(topic, n) for n in numbers if n in known and known[n].is_offline]


def not_read(what: str, error: KafkaError, name: str) -> NotRead:
    """A failed question as a fact; with what is to be allowed where rights are missing."""
    error = root_of(error)
    resource = _resource(error, name)
    return NotRead(what, error_name(error), why(error) if resource is None else "you may not see it", resource)


def root_of(error: KafkaError) -> KafkaError:
    """What it waited for says more than that it waited."""
    cause = error.__cause__
    return cause if isinstance(error, RequestTimedOut) and isinstance(cause, KafkaError) else error


def _resource(error: KafkaError, name: str) -> tuple[str, str] | None:
    kinds: dict[type[KafkaError], str] = {
        GroupAuthorization: "group",
        TopicAuthorization: "topic",
        TransactionalIdAuthorization: "transactional-id",
    }
    if isinstance(error, ClusterAuthorization):
        return "cluster", CLUSTER
    kind = kinds.get(type(error))
    return None if kind is None else (kind, name)
