"""Where the state of a Kafka Streams application can be asked for: which partitions stand behind which endpoint.

Members name the address of their process (`application.server`); with it each member learns which process has the state of
which partition (interactive queries).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncelog.core.groups.streams.member import StreamsGroupMember
from oncelog.core.groups.streams.tasks import tasks_of
from oncelog.core.groups.streams.topology import ConfiguredSubtopology, ConfiguredTopology, PartitionCounts
from oncelog.wire.log_records.streams_groups import Tasks
from oncelog.wire.messages.streams_group_heartbeat import Endpoint, EndpointToPartitions, TopicPartition


def endpoints_of(
    members: Iterable[StreamsGroupMember], configured: ConfiguredTopology, partition_count: PartitionCounts
) -> list[EndpointToPartitions]:
    """One entry for each member that has an endpoint."""
    subtopologies = configured.subtopologies or {}
    found = []
    for member in members:
        if member.endpoint is None:
            continue
        host, port = member.endpoint
        found.append(
            EndpointToPartitions(
                user_endpoint=Endpoint(host=host, port=port),
                active_partitions=_partitions(tasks_of(member.assigned.active), subtopologies, partition_count),
                standby_partitions=_partitions(member.assigned.standby, subtopologies, partition_count),
            )
        )
    return found


def _partitions(
    tasks: Tasks, subtopologies: Mapping[str, ConfiguredSubtopology], partition_count: PartitionCounts
) -> list[TopicPartition]:
    """A task reads its number of every topic that has so many partitions."""
    return [
        TopicPartition(
            topic=topic, partitions=[each for each in sorted(tasks[name]) if each < (partition_count(topic) or 0)]
        )
        for name in sorted(tasks)
        if name in subtopologies
        for topic in subtopologies[name].topics_read
    ]
