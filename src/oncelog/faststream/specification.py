"""What AsyncAPI's document says of subscribers and publishers: their topics, and what they take and give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from faststream._internal.configs import PublisherSpecificationConfig, SubscriberSpecificationConfig
from faststream._internal.endpoint.publisher import PublisherSpecification
from faststream._internal.endpoint.subscriber import SubscriberSpecification
from faststream.specification.asyncapi.utils import resolve_payloads
from faststream.specification.schema import Message, Operation, PublisherSpec, SubscriberSpec
from faststream.specification.schema.bindings import ChannelBinding, kafka

from oncelog.faststream.config import OncelogBrokerConfig
from oncelog.lazy_dataclass import dataclass


@dataclass(kw_only=True)
class SubscriberDescription(SubscriberSpecificationConfig):
    """Of a subscriber."""

    topics: Sequence[str] = field(default_factory=tuple)


@dataclass(kw_only=True)
class PublisherDescription(PublisherSpecificationConfig):
    """Of a publisher."""

    topic: str


class OncelogSubscriberSpecification(SubscriberSpecification[OncelogBrokerConfig, SubscriberDescription]):
    """A channel for each topic."""

    @property
    def channel_labels(self) -> list[str]:
        """The topics, in order."""
        return list(dict.fromkeys(f"{self._outer_config.prefix}{topic}" for topic in self.config.topics))

    def get_schema(self) -> dict[str, SubscriberSpec]:
        """Of each topic."""
        topics, payloads, found = self.channel_labels, self.get_payloads(), {}
        for topic in topics:
            name = self._channel_key(topic, split=len(topics) > 1)
            message = Message(title=f"{name}:Message", payload=resolve_payloads(payloads))
            found[name] = SubscriberSpec(
                address=topic,
                description=self.description,
                operation=Operation(message=message, bindings=None),
                bindings=_binding(topic),
            )
        return found


class OncelogPublisherSpecification(PublisherSpecification[OncelogBrokerConfig, PublisherDescription]):
    """One channel."""

    @property
    def topic(self) -> str:
        """With the prefix of the routers around it."""
        return f"{self._outer_config.prefix}{self.config.topic}"

    @property
    def name(self) -> str:
        """The channel's."""
        return self.config.title_ or f"{self.topic}:Publisher"

    def get_schema(self) -> dict[str, PublisherSpec]:
        """Of its topic."""
        payload = resolve_payloads(self.get_payloads(), "Publisher")
        operation = Operation(message=Message(title=f"{self.name}:Message", payload=payload), bindings=None)
        return {
            self.name: PublisherSpec(
                address=self.topic,
                description=self.config.description_,
                operation=operation,
                bindings=_binding(self.topic),
            )
        }


def _binding(topic: str) -> ChannelBinding:
    return ChannelBinding(kafka=kafka.ChannelBinding(topic=topic, partitions=None, replicas=None))
