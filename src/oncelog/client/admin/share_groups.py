"""Share groups (KIP-932): where they stand, and setting that anew. Members are described by `describe_groups`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from oncelog.client import arguments
from oncelog.client.admin.session import AdminSession
from oncelog.client.cluster.group_offsets import group_key
from oncelog.errors import ErrorCode, KafkaError
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition
from oncelog.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from oncelog.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from oncelog.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from oncelog.wire.schema import Struct

UNKNOWN = -1  # an offset or a lag that the broker does not know


@dataclass(frozen=True, slots=True)
class SharePosition:
    """Where a share group stands in a partition: the first offset that is not done with, and how many are not up to the end.
    None where nobody has read yet, or the broker does not say (a lag: before Apache Kafka 4.2)."""

    start_offset: int | None
    lag: int | None


class AdminShareGroups(AdminSession):
    """What an admin can do with share groups beyond `AdminGroups`."""

    async def list_share_group_offsets(self, group_id: str) -> dict[TopicPartition, SharePosition]:
        """Where the group stands, in every partition that it has a state of; nothing for a group that does not exist."""
        arguments.text("group_id", group_id)
        asked = DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)
        what = f"offsets of share group {group_id!r}"
        response = await self._ask_coordinator(
            what,
            group_key(group_id),
            DescribeShareGroupOffsetsRequest(groups=[asked]),
            error_of=lambda r: int(r.groups[0].error_code),
        )
        found = {}
        for topic in response.groups[0].topics:
            for part in topic.partitions:
                if part.error_code:
                    where = f"{topic.topic_name}-{part.partition_index}"
                    raise self._refused_there(DescribeShareGroupOffsetsRequest, part.error_code, what, where, topic)
                found[TopicPartition(topic.topic_name, part.partition_index)] = SharePosition(
                    None if part.start_offset == UNKNOWN else part.start_offset,
                    None if part.start_offset == UNKNOWN or part.lag == UNKNOWN else max(part.lag, 0),
                )
        return found

    async def alter_share_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Have a share group without members go on there. Raises GroupNotEmpty, UnknownTopicOrPartition."""
        positions = arguments.numbers_by_partition("offsets", offsets, low=0)
        topics: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = {}
        for (topic, partition), offset in positions.items():
            asked = AlterShareGroupOffsetsRequestPartition(partition_index=partition, start_offset=offset)
            topics.setdefault(topic, []).append(asked)
        what = f"alter offsets of share group {group_id!r}"
        response = await self._ask_coordinator(
            what,
            group_key(arguments.text("group_id", group_id)),
            AlterShareGroupOffsetsRequest(
                group_id=group_id,
                topics=[
                    AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=each)
                    for name, each in topics.items()
                ],
            ),
            error_of=lambda r: int(r.error_code),
        )
        for topic in response.responses:
            for part in topic.partitions:
                if part.error_code:
                    where = f"{topic.topic_name}-{part.partition_index}"
                    raise self._refused_there(AlterShareGroupOffsetsRequest, part.error_code, what, where, topic)

    async def delete_share_group_offsets(self, group_id: str, topics: Iterable[str]) -> None:
        """Have a share group without members forget topics. Raises GroupNotEmpty, GroupIdNotFound, UnknownTopicOrPartition."""
        names = arguments.texts("topics", topics)
        what = f"delete offsets of share group {group_id!r}"
        response = await self._ask_coordinator(
            what,
            group_key(arguments.text("group_id", group_id)),
            DeleteShareGroupOffsetsRequest(
                group_id=group_id, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in names]
            ),
            error_of=lambda r: int(r.error_code),
        )
        for topic in response.responses:
            if topic.error_code:
                where = topic.topic_name
                raise self._refused_there(DeleteShareGroupOffsetsRequest, topic.error_code, what, where, topic)

    def _refused_there(self, request: type[Struct], error_code: int, what: str, where: str, topic: Any) -> KafkaError:
        """Of one topic or partition; with what helps."""
        is_unknown = error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        helps = ": create it, or look at its name" if is_unknown else ""
        return self._refusal(request, error_code, f"{what}: {where}{helps}", topic.topic_name)
