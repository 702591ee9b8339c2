"""What a client keeps of Metadata responses."""

from oncelog.client.cluster.view import ClusterView
from oncelog.errors import ErrorCode
from oncelog.types import TopicPartition
from oncelog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ID, OTHER_ID = bytes([1] * 16), bytes([2] * 16)
WHERE = TopicPartition("t", 0)


def response(*, leader_id=1, leader_epoch=3, topic_id=ID, code=0, name="t"):
    partition = MetadataResponsePartition(
        partition_index=0, leader_id=leader_id, leader_epoch=leader_epoch, error_code=code
    )
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=n, host="h", port=n) for n in (1, 2)],
        controller_id=2,
        topics=[MetadataResponseTopic(name=name, topic_id=topic_id, partitions=[partition])],
    )


def test_leaders():
    view = ClusterView()
    view.update(response(), is_complete=False)
    assert (view.leader_of(WHERE).leader_id, view.controller_id, sorted(view.nodes)) == (1, 2, [1, 2])
    assert view.leader_of(TopicPartition("t", 1)) is None
    assert view.leader_of(TopicPartition("u", 0)) is None


def test_an_older_leader_never_comes_back():
    view = ClusterView()
    view.update(response(leader_id=2, leader_epoch=4), is_complete=False)
    view.update(response(leader_id=1, leader_epoch=3), is_complete=False)
    assert view.leader_of(WHERE).leader_id == 2
    view.update(response(leader_id=1, leader_epoch=0, topic_id=OTHER_ID), is_complete=False)
    assert view.leader_of(WHERE).leader_id == 1, "a topic that was created again begins anew"


def test_a_partition_without_leader_cannot_be_written():
    view = ClusterView()
    view.update(response(code=ErrorCode.LEADER_NOT_AVAILABLE), is_complete=False)
    assert view.leader_of(WHERE) is None
    assert view.topics["t"].led_partitions == []


def test_a_response_tells_where_the_leader_went():
    view = ClusterView()
    view.update(response(), is_complete=False)
    view.set_leader(WHERE, 2, 3)
    assert view.leader_of(WHERE).leader_id == 1, "not newer"
    view.set_leader(WHERE, 2, 4)
    assert view.leader_of(WHERE).leader_id == 2
    view.set_leader(TopicPartition("t", 9), 2, 9)


def test_a_complete_list_forgets_what_is_gone():
    view = ClusterView()
    view.update(response(), is_complete=False)
    view.update(response(name="u"), is_complete=False)
    assert sorted(view.topics) == ["t", "u"]
    view.update(response(name="u"), is_complete=True)
    assert sorted(view.topics) == ["u"]


def test_topic_ids_all_or_nothing():
    view = ClusterView()
    view.update(response(), is_complete=False)
    view.update(response(name="old", topic_id=bytes(16)), is_complete=False)
    assert view.topic_ids(["t"]) == {"t": ID}
    assert view.topic_ids(["t", "old"]) is None
    assert view.topic_ids(["unknown"]) is None


def test_what_did_not_change_is_the_same_object():
    """Lists of ten thousand topics are kept by several, as of several moments: they share what did not change."""
    view = ClusterView()
    view.update(response(), is_complete=True)
    first = view.topics["t"]
    view.update(response(), is_complete=True)
    assert view.topics["t"] is first
    view.update(response(leader_id=2, leader_epoch=4), is_complete=True)
    assert view.topics["t"] is not first
    assert first.partitions[0].leader_id == 1
