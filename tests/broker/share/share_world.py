"""A member of a share group by hand: heartbeats, ShareFetch and ShareAcknowledge over a raw connection."""

from __future__ import annotations

from evidence.world.broker import Client

from oncelog.wire.messages import share_acknowledge as acknowledging
from oncelog.wire.messages import share_fetch as fetching
from oncelog.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from oncelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from oncelog.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

ACCEPT, RELEASE, REJECT = 1, 2, 3
GROUP = 32


async def configure(client, group="g", **configs):
    changes = [
        AlterableConfig(name=f"share.{name.replace('_', '.')}", config_operation=0, value=value)
        for name, value in configs.items()
    ]
    resource = AlterConfigsResource(resource_type=GROUP, resource_name=group, configs=changes)
    reply = await client.call(IncrementalAlterConfigsRequest(resources=[resource]))
    assert reply.responses[0].error_code == 0, reply


async def topic_id_of(client, name):
    reply = await client.call(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12)
    return bytes(reply.topics[0].topic_id)


async def beat(client, member="m", member_epoch=0, *topics, group="g"):
    names = list(topics) if topics else None
    request = ShareGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=member_epoch, subscribed_topic_names=names
    )
    return await client.call(request)


async def started(client, *values, topic="t", partitions=1, group="g", **configs):
    """A topic with records, a group that reads it from the start; the topic's id."""
    await client.create(topic, partitions)
    await configure(client, group, auto_offset_reset="earliest", **configs)
    assert (await beat(client, "m", 0, topic, group=group)).error_code == 0
    if values:
        await client.produce(topic, *values)
    return await topic_id_of(client, topic)


class Reader:
    """One member's session."""

    def __init__(self, client: Client, topic_id: bytes, member: str = "m", group: str = "g") -> None:
        self.client, self.topic_id, self.member, self.group = client, topic_id, member, group
        self.session_epoch = 0

    def _next_epoch(self, *, is_last: bool) -> int:
        session_epoch = -1 if is_last else self.session_epoch
        self.session_epoch += 1
        return session_epoch

    def request(self, *said, wait_ms=0, records_max=500, is_last=False, partition=0, **fields):
        first = self.session_epoch == 0
        parts = []
        if said or first:
            batches = [
                fetching.AcknowledgementBatch(first_offset=a, last_offset=b, acknowledge_types=list(c))
                for a, b, *c in said
            ]
            parts = [fetching.FetchPartition(partition_index=partition, acknowledgement_batches=batches)]
        return fetching.ShareFetchRequest(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=self._next_epoch(is_last=is_last),
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=records_max,
            batch_size=500,
            topics=[fetching.FetchTopic(topic_id=self.topic_id, partitions=parts)] if parts else [],
            **fields,
        )

    async def fetch(self, *said, **options):
        """The offsets that it gets, as (first, last, delivery count)."""
        return acquired(await self.client.call(self.request(*said, **options)))

    async def say(self, *said, is_last=False):
        """The error code of what it says of partition 0."""
        batches = [
            acknowledging.AcknowledgementBatch(first_offset=a, last_offset=b, acknowledge_types=list(c))
            for a, b, *c in said
        ]
        parts = [acknowledging.AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)]
        reply = await self.client.call(
            acknowledging.ShareAcknowledgeRequest(
                group_id=self.group,
                member_id=self.member,
                share_session_epoch=self._next_epoch(is_last=is_last),
                topics=[acknowledging.AcknowledgeTopic(topic_id=self.topic_id, partitions=parts)] if said else [],
            )
        )
        return [part.error_code for topic in reply.responses for part in topic.partitions] or reply.error_code


def acquired(reply):
    assert reply.error_code == 0, reply
    found = []
    for topic in reply.responses:
        for part in topic.partitions:
            assert part.error_code == 0, part
            assert part.acknowledge_error_code == 0, part
            found += [(each.first_offset, each.last_offset, each.delivery_count) for each in part.acquired_records]
    return found


async def offsets(client, group="g"):
    """(partition, start offset, lag) of everything the group has."""
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
    reply = await client.call(DescribeShareGroupOffsetsRequest(groups=[asked]))
    return [
        (part.partition_index, part.start_offset, part.lag)
        for topic in reply.groups[0].topics
        for part in topic.partitions
    ]
