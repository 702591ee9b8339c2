"""Topics: create, delete, list, describe, add partitions, delete records, look up offsets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import field, fields
from typing import Any

from oncelog.client import arguments
from oncelog.client.admin.session import AdminSession
from oncelog.client.backoff import Deadline
from oncelog.client.cluster.each_leader import Unreadable, by_leader
from oncelog.client.cluster.offset_lookup import (
    EARLIEST,
    LARGEST_TIMESTAMP,
    LATEST,
    FoundOffset,
    list_offsets,
)
from oncelog.client.cluster.view import TopicView, offline_partitions
from oncelog.client.config import ISOLATION_LEVELS
from oncelog.errors import ErrorCode, KafkaError, error_for
from oncelog.lazy_dataclass import dataclass
from oncelog.types import Node, TopicPartition
from oncelog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from oncelog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from oncelog.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from oncelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog.wire.messages.metadata import MetadataRequest
from oncelog.wire.schema import Struct

TRANSACTIONS_TOPIC = "__transaction_state"
OFFSETS_TOPIC = "__consumer_offsets"
COORDINATOR_TOPICS = (TRANSACTIONS_TOPIC, OFFSETS_TOPIC)
SPECIAL_TIMES = {"earliest": EARLIEST, "latest": LATEST, "max-timestamp": LARGEST_TIMESTAMP}


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 takes the broker's default. `assignments`: partition -> broker ids, instead of counts."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    assignments: Mapping[int, list[int]] = field(default_factory=dict)


Topics = Iterable[NewTopic | str] | Mapping[str, Mapping[str, Any] | int]


class AdminTopics(AdminSession):
    """What an admin can do with topics."""

    async def offline_coordinators(self) -> list[TopicPartition]:
        """The partitions of `__transaction_state` and `__consumer_offsets` that are offline, in order.

        What they coordinate is in no list of transactional ids or groups, and no broker's answer says so.
        """
        await self._cluster.retry("describe topics", lambda _: self._cluster.refresh(COORDINATOR_TOPICS))
        views = [view for name in COORDINATOR_TOPICS if (view := self._cluster.view.topics.get(name)) is not None]
        return offline_partitions(views)

    async def create_topics(self, topics: Topics, *, validate_only: bool = False) -> dict[str, bytes]:
        """Create topics: names, {name: partition count}, or {name: {"partitions": 4, "configs": {...}}}.

        Gives their topic ids, once all have leaders. All are tried; then the first error is raised (TopicExists ...).
        """
        arguments.boolean("validate_only", validate_only)
        given = (
            topics.items()
            if isinstance(topics, Mapping)
            else arguments.items("topics", topics, of="names; or a mapping of names to partition counts")
        )
        wanted = [_checked(_new_topic(each)) for each in given]
        message = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in wanted],
            timeout_ms=self._config.request_timeout_ms,
            validate_only=validate_only,
        )

        def check(response: Any) -> None:
            self._raise_first(CreateTopicsRequest, ((t.name, t.error_code, t.error_message) for t in response.topics))

        with self._within_one_time("create topics") as deadline:
            response = await self._ask_controller("create topics", message, check)
            if not validate_only and wanted:
                await self._until_led([topic.name for topic in wanted], deadline)
        return {topic.name: bytes(topic.topic_id) for topic in response.topics}

    def _raise_first(self, request: type[Struct], results: Iterable[tuple[str, int, str | None]]) -> None:
        for name, code, message in results:
            if code:
                what = f"topic {name!r}"
                raise self._refusal(request, code, what, name, told=f"{what}: {message}" if message else None)

    async def _until_led(self, names: list[str], deadline: Deadline) -> None:
        # All by one question; who has no leader is asked for again below.
        with contextlib.suppress(KafkaError, TimeoutError):
            async with asyncio.timeout(deadline.left_ms / 1000):
                await self._cluster.refresh(names)
        for name in names:
            await self._cluster.topic(name, timeout_ms=self._config.default_api_timeout_ms, was_created=True)

    async def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics. All are tried; then the first error is raised. Where an answer was lost, what is not there any more
        is deleted."""
        wanted = arguments.texts("names", names)
        message = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in wanted],
            topic_names=wanted,
            timeout_ms=self._config.request_timeout_ms,
        )

        def raise_first(results: Iterable[Any]) -> None:
            self._raise_first(DeleteTopicsRequest, ((r.name or "", r.error_code, r.error_message) for r in results))

        def check(response: Any) -> None:
            raise_first(response.responses)

        def check_repeated(response: Any) -> None:
            left = [r for r in response.responses if r.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
            raise_first(left)

        await self._ask_controller("delete topics", message, check, check_repeated)

    async def create_partitions(self, counts: Mapping[str, int], *, validate_only: bool = False) -> None:
        """Raise topics' partition counts to these totals."""
        message = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(
                    name=arguments.text("a topic of counts", name),
                    count=arguments.integer(f"counts[{name!r}]", count),
                    assignments=None,
                )
                for name, count in arguments.mapping("counts", counts, "topics to whole numbers").items()
            ],
            timeout_ms=self._config.request_timeout_ms,
            validate_only=arguments.boolean("validate_only", validate_only),
        )

        def check(response: Any) -> None:
            results = ((r.name, r.error_code, r.error_message) for r in response.results)
            self._raise_first(CreatePartitionsRequest, results)

        await self._ask_controller("create partitions", message, check)

    async def list_topics(
        self, *, include_internal: bool = False, timeout_ms: int | None = None
    ) -> dict[str, TopicView]:
        """All topics by name. `timeout_ms`: how long to try, where there are very many (None: default_api_timeout_ms)."""
        arguments.boolean("include_internal", include_internal)
        arguments.duration_ms_or_none("timeout_ms", timeout_ms)
        await self._cluster.retry("list topics", lambda _: self._cluster.refresh(None), timeout_ms=timeout_ms)
        topics = self._cluster.view.topics.values()
        return {t.name: t for t in sorted(topics, key=lambda t: t.name) if include_internal or not t.is_internal}

    async def describe_topics(self, names: Iterable[str]) -> dict[str, TopicView]:
        """Ids, partitions, leaders. Raises UnknownTopicOrPartition."""
        wanted = arguments.texts("names", names)

        async def attempt(_: Deadline) -> dict[str, TopicView]:
            await self._cluster.refresh(wanted)
            found = {}
            for name in wanted:
                topic = self._cluster.view.topics.get(name)
                code = topic.error_code if topic else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if topic is None or code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise _Missing(name)
                if code:
                    raise self._refusal(MetadataRequest, code, f"topic {name!r}", name)
                found[name] = topic
            return found

        try:
            return await self._cluster.retry("describe topics", attempt)
        except _Missing as missing:
            raise error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {missing.args[0]!r}") from None

    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, str | int],
        *,
        isolation_level: str = "read_uncommitted",
        unreadable: Unreadable | None = None,
    ) -> dict[TopicPartition, FoundOffset]:
        """Offsets by "earliest", "latest", "max-timestamp" or a time in ms. Latest of read_committed is the LSO.

        `unreadable`: a dict that takes the error of each partition that cannot be asked, instead of raising it.
        """
        arguments.one_of("isolation_level", isolation_level, ISOLATION_LEVELS)
        times = {
            arguments.topic_partition("a key of wanted", tp): SPECIAL_TIMES[
                arguments.one_of(f"wanted[{tp}]", at, SPECIAL_TIMES)
            ]
            if isinstance(at, str)
            else arguments.integer(f"wanted[{tp}]", at, low=LARGEST_TIMESTAMP, high=arguments.INT64_MAX)
            for tp, at in arguments.mapping("wanted", wanted, "TopicPartitions to times").items()
        }
        is_committed = isolation_level == "read_committed"
        return await list_offsets(self._cluster, times, is_read_committed=is_committed, unreadable=unreadable)

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete what lies before these offsets (-1: all that is committed); gives the new first offsets."""
        before = arguments.numbers_by_partition("before", before, low=-1)
        found: dict[TopicPartition, int] = {}

        async def ask(node: Node, partitions: list[TopicPartition]) -> None:
            topics: dict[str, list[DeleteRecordsPartition]] = {}
            for tp in partitions:
                at = DeleteRecordsPartition(partition_index=tp.partition, offset=before[tp])
                topics.setdefault(tp.topic, []).append(at)
            message = DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name=name, partitions=each) for name, each in topics.items()],
                timeout_ms=self._config.request_timeout_ms,
            )
            response = await self._cluster.request(node, message)
            for topic in response.topics:
                for each in topic.partitions:
                    topic_partition = TopicPartition(topic.name, each.partition_index)
                    if each.error_code:
                        self._cluster.refresh_soon((topic.name,))
                        what = f"delete records of {topic_partition}"
                        raise self._refusal(DeleteRecordsRequest, each.error_code, what, topic.name)
                    found[topic_partition] = each.low_watermark

        async def attempt(_: Deadline) -> None:
            nodes = await by_leader(self._cluster, [tp for tp in before if tp not in found], DeleteRecordsRequest)
            await asyncio.gather(*(ask(node, partitions) for node, partitions in nodes.items()))

        await self._cluster.retry("delete records", attempt)
        return found


class _Missing(Exception):
    """A topic that does not exist; not worth asking again."""


def _new_topic(topic: NewTopic | str | tuple[str, Mapping[str, Any] | int]) -> NewTopic:
    if isinstance(topic, NewTopic):
        return topic
    if isinstance(topic, str):
        return NewTopic(topic)
    if not isinstance(topic, tuple) or len(topic) != 2:
        raise arguments.refuse("a topic", topic, "a NewTopic, a name, or a name and its options")
    name, options = topic
    if isinstance(options, int):
        return NewTopic(name, options)
    known = [each.name for each in fields(NewTopic) if each.name != "name"]
    for key in arguments.mapping(f"topics[{name!r}]", options, "options to values, or a number of partitions"):
        arguments.one_of(f"an option of topic {name!r}", key, known)
    configs = arguments.mapping(f"configs of topic {name!r}", options.get("configs", {}), "keys to values")
    return NewTopic(name, **{**options, "configs": {key: str(value) for key, value in configs.items()}})


def _checked(topic: NewTopic) -> NewTopic:
    name = arguments.text("a topic's name", topic.name)
    arguments.integer(f"partitions of topic {name!r}", topic.partitions, low=-1)
    arguments.integer(
        f"replication_factor of topic {name!r}", topic.replication_factor, low=-1, high=arguments.INT16_MAX
    )
    arguments.text_mapping(f"configs of topic {name!r}", topic.configs)
    what = f"assignments of topic {name!r}"
    for partition, brokers in arguments.mapping(what, topic.assignments, "partitions to broker ids").items():
        arguments.integer(f"a partition of {what}", partition)
        for broker in arguments.items(f"{what}[{partition}]", brokers, of="broker ids"):
            arguments.integer(f"a broker of {what}", broker)
    return topic


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if topic.assignments else topic.partitions,
        replication_factor=-1 if topic.assignments else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in topic.assignments.items()
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in topic.configs.items()],
    )
