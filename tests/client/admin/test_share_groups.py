"""Share groups as an admin sees and sets them."""

from __future__ import annotations

import pytest
from evidence.world.broker import broker_and_client, run

from oncelog import Admin, TopicPartition
from oncelog.client.admin.admin import SharePosition
from oncelog.errors import GroupIdNotFound, GroupNotEmpty, UnknownTopicOrPartition
from tests.broker.share.share_world import ACCEPT, Reader, beat, started

T0 = TopicPartition("t", 0)


def test_described_moved_and_forgotten(tmp_path):
    async def main():
        async with (
            broker_and_client(tmp_path) as (broker, client),
            Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
        ):
            topic_id = await started(client, *"abcdefghij")
            described = (await admin.describe_groups(["g"]))["g"]
            assert (described.group_type, described.state, described.protocol_name) == ("share", "Stable", "simple")
            assert [each.partitions for each in described.members] == [(T0,)]
            assert (await admin.list_groups(types=["share"]))[0].group_id == "g"
            assert await admin.list_share_group_offsets("g") == {T0: SharePosition(None, None)}
            reader = Reader(client, topic_id)
            await reader.fetch()
            await reader.say((0, 2, ACCEPT), (5, 5, ACCEPT))
            await reader.say((3, 3, ACCEPT))
            assert await admin.list_share_group_offsets("g") == {T0: SharePosition(3, 5)}
            with pytest.raises(GroupNotEmpty):
                await admin.alter_share_group_offsets("g", {T0: 8})
            await reader.say(is_last=True)
            await beat(client, "m", -1)
            await admin.alter_share_group_offsets("g", {T0: 8})
            assert await admin.list_share_group_offsets("g") == {T0: SharePosition(8, 2)}
            with pytest.raises(UnknownTopicOrPartition):
                await admin.alter_share_group_offsets("g", {TopicPartition("t", 7): 0})
            await admin.delete_share_group_offsets("g", ["t"])
            assert await admin.list_share_group_offsets("g") == {}
            with pytest.raises(GroupIdNotFound):
                await admin.delete_share_group_offsets("nobody", ["t"])
            await admin.delete_groups(["g"])
            assert await admin.list_groups() == []

    run(main())
