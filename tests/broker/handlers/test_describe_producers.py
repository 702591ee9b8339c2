"""DescribeProducers looks, and leaves no trace."""

from __future__ import annotations

import pathlib

from evidence.world.broker import broker_and_client, run

from oncelog.errors import ErrorCode
from oncelog.wire.messages.describe_producers import DescribeProducersRequest, PartitionResponse, TopicRequest


def test_a_look_makes_no_directory_for_what_was_never_written(tmp_path: pathlib.Path) -> None:
    """Whoever asked about all of 40,000 partitions made 40,000 directories: a minute in which nobody else was answered."""

    async def work() -> None:
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t", 2)
            await client.produce("t", "x", partition=1)
            asked = [TopicRequest(name="t", partition_indexes=[0, 1, 2])]
            found = (await client.call(DescribeProducersRequest(topics=asked))).topics[0].partitions
            assert found == [
                PartitionResponse(partition_index=0),
                PartitionResponse(partition_index=1),
                PartitionResponse(partition_index=2, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ]

    run(work())
    assert [each.name for each in tmp_path.rglob("t-*")] == ["t-1"]
