"""Who may do what with share groups."""

from __future__ import annotations

from oncelog.core.access import check_shares as shares
from oncelog.core.access.check_groups import check_find_coordinator
from oncelog.errors import ErrorCode as E
from oncelog.wire.access_rules import Operation as Op
from oncelog.wire.access_rules import ResourceType as R
from oncelog.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from oncelog.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponseTopic,
)
from oncelog.wire.messages.find_coordinator import FindCoordinatorRequest
from oncelog.wire.messages.share_fetch import ShareFetchRequest
from oncelog.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.core.access.test_checks import allow, caller

MINE = (allow(Op.READ, R.GROUP, "g"), allow(Op.READ, R.TOPIC, "a"))


def test_a_member_needs_its_group_and_the_topics_it_subscribes_to():
    beat = ShareGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=["a"])
    assert shares.check_share_group_heartbeat(caller(*MINE), beat, 1) is None, "who may read may describe"
    other = beat.replace(subscribed_topic_names=["a", "b"])
    refused = shares.check_share_group_heartbeat(caller(*MINE), other, 1)
    assert refused is not None
    assert refused.reply.error_code == E.TOPIC_AUTHORIZATION_FAILED
    refused = shares.check_share_group_heartbeat(caller(), beat, 1)
    assert refused is not None
    assert refused.reply.error_code == E.GROUP_AUTHORIZATION_FAILED
    for group_id in ("h", None):
        refused = shares.check_share_fetch(caller(*MINE), ShareFetchRequest(group_id=group_id, member_id="m"), 2)
        assert refused is not None
        assert refused.reply.error_code == E.GROUP_AUTHORIZATION_FAILED


def test_topics_that_may_not_be_seen_are_left_out_or_refused_by_name():
    whole = DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None)
    asked = DescribeShareGroupOffsetsRequest(groups=[whole, whole.replace(group_id="h")])
    passage = shares.check_describe_share_group_offsets(caller(*MINE), asked, 1)
    assert passage.message is not None
    assert [each.group_id for each in passage.message.groups] == ["g"]
    found = DescribeShareGroupOffsetsResponseGroup(
        group_id="g", topics=[DescribeShareGroupOffsetsResponseTopic(topic_name=name) for name in "ab"]
    )
    assert passage.complete is not None
    reply = passage.complete(DescribeShareGroupOffsetsResponse(groups=[found]))
    assert [each.topic_name for each in reply.groups[0].topics] == ["a"]
    assert (reply.groups[1].group_id, reply.groups[1].error_code) == ("h", E.GROUP_AUTHORIZATION_FAILED)


def test_offsets_are_altered_of_what_may_be_read():
    topics = [AlterShareGroupOffsetsRequestTopic(topic_name=name) for name in "ab"]
    passage = shares.check_alter_share_group_offsets(
        caller(*MINE), AlterShareGroupOffsetsRequest(group_id="g", topics=topics), 0
    )
    assert passage is not None
    assert passage.message is not None
    assert [each.topic_name for each in passage.message.topics] == ["a"]
    assert passage.complete is not None
    assert [each.topic_name for each in passage.complete(AlterShareGroupOffsetsResponse()).responses] == ["b"]


def test_share_coordinators_are_for_brokers_to_find():
    asked = FindCoordinatorRequest(key_type=2, coordinator_keys=["g:AAAAAAAAAAAAAAAAAAAAAA:0"])
    refused = check_find_coordinator(caller(*MINE), asked, 6)
    assert refused is not None
    assert refused.reply.coordinators[0].error_code == E.CLUSTER_AUTHORIZATION_FAILED
    broker = caller(allow(Op.CLUSTER_ACTION, R.CLUSTER, "kafka-cluster"))
    assert check_find_coordinator(broker, asked, 6) is None
