"""Every API that is served has a check, or is open to all on purpose; and what the checks leave of a request."""

from __future__ import annotations

import pytest
from evidence.world.message_values import message_of

from oncelog.broker.handlers import MODULES
from oncelog.core.access.authorizer import Authorizer, Identity
from oncelog.core.access.checks import CHECKS, OPEN_TO_ALL
from oncelog.core.access.passage import Caller
from oncelog.core.metadata.acl import AclBinding
from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.errors import ErrorCode as E
from oncelog.wire.access_rules import Operation, PatternType, Permission, ResourceType
from oncelog.wire.api import APIS, ApiKey
from oncelog.wire.log_records.cluster_metadata import TopicRecord
from oncelog.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from oncelog.wire.messages.find_coordinator import FindCoordinatorRequest
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from oncelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from oncelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from oncelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.wire.record_batch import build_batch
from oncelog.wire.schema import encode_message

Op, R = Operation, ResourceType
ME = Identity("User:me", "127.0.0.1")


def allow(operation, kind, name):
    return AclBinding(kind, name, PatternType.LITERAL, "User:me", "*", operation, Permission.ALLOW)


def caller(*rules, may_create=True):
    metadata = ClusterMetadata()
    for index, name in enumerate(("a", "b")):
        metadata.apply(TopicRecord(name=name, topic_id=bytes([index + 1]) * 16, partition_count=1))
    authorizer = Authorizer({bytes([index]): rule for index, rule in enumerate(rules)})
    return Caller(authorizer, ME, metadata, may_create=may_create)


def test_every_served_api_has_its_check():
    assert set(MODULES) == set(CHECKS) | OPEN_TO_ALL
    assert not set(CHECKS) & OPEN_TO_ALL


@pytest.mark.parametrize("key", sorted(CHECKS))
def test_who_may_nothing_gets_nothing_that_cannot_be_encoded(key):
    """Random requests of every version: a refusal is a reply of that version, or leaves a request of that version."""
    from random import Random

    api = APIS[key]
    for version in range(api.min_version, api.max_version + 1):
        for seed in range(6):
            request = message_of(api.request, version, Random(seed))
            passage = CHECKS[key](caller(), request, version)
            if passage is None:
                continue
            if passage.reply is not None:
                encode_message(passage.reply, version)
            else:
                encode_message(passage.message, version)
                if passage.complete is not None:
                    encode_message(passage.complete(api.response()), version)


def produce(*names, transactional_id=None):
    batch = build_batch([(0, None, b"v", ())], producer_id=1, producer_epoch=0, base_sequence=0,
                        is_transactional=transactional_id is not None)  # fmt: skip
    topics = [
        TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=batch)]) for name in names
    ]
    return ProduceRequest(transactional_id=transactional_id, acks=-1, topic_data=topics)


def test_produce_goes_on_with_what_may_be_written():
    check = CHECKS[ApiKey.PRODUCE]
    both = (allow(Op.WRITE, R.TOPIC, "a"), allow(Op.WRITE, R.TRANSACTIONAL_ID, "t"))
    assert check(caller(*both), produce("a", transactional_id="t"), 12) is None
    passage = check(caller(*both), produce("a", "b"), 12)
    assert [each.name for each in passage.message.topic_data] == ["a"]
    denied = check(caller(both[0]), produce("a", transactional_id="t"), 12).reply
    assert denied.responses[0].partition_responses[0].error_code == E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert check(caller(both[0]), produce("a"), 12) is None, "no right to an id is needed without transactional batches"


def test_topics_are_hidden_from_who_may_not_describe_them():
    check = CHECKS[ApiKey.METADATA]
    everything = MetadataResponse(topics=[MetadataResponseTopic(name="a"), MetadataResponseTopic(name="b")])
    passage = check(caller(allow(Op.DESCRIBE, R.TOPIC, "b")), MetadataRequest(topics=None), 12)
    assert [each.name for each in passage.complete(everything).topics] == ["b"]
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="a"), MetadataRequestTopic(name="missing")])
    passage = check(caller(allow(Op.DESCRIBE, R.TOPIC, "missing")), asked, 12)
    assert passage.message.topics == [], "to make a topic needs the right to create it"
    found = passage.complete(MetadataResponse())
    assert [(each.name, each.error_code) for each in found.topics] == [
        ("a", E.TOPIC_AUTHORIZATION_FAILED),
        ("missing", E.TOPIC_AUTHORIZATION_FAILED),
    ]
    passage = check(caller(allow(Op.DESCRIBE, R.TOPIC, "missing"), may_create=False), asked, 12)
    assert [each.name for each in passage.message.topics] == ["missing"]


def test_no_topics_left_is_not_all_topics_in_version_0():
    passage = CHECKS[ApiKey.METADATA](caller(), MetadataRequest(topics=[MetadataRequestTopic(name="a")]), 0)
    everything = MetadataResponse(topics=[MetadataResponseTopic(name="a"), MetadataResponseTopic(name="b")])
    assert [(each.name, each.error_code) for each in passage.complete(everything).topics] == [
        ("a", E.TOPIC_AUTHORIZATION_FAILED)
    ]


@pytest.mark.parametrize("version", [5, 6])
def test_topics_are_deleted_by_who_may_delete_each(version):
    def delete(*names):
        topics = [DeleteTopicState(name=name) for name in names]
        return DeleteTopicsRequest(topics=topics) if version >= 6 else DeleteTopicsRequest(topic_names=list(names))

    check, mine = CHECKS[ApiKey.DELETE_TOPICS], caller(allow(Op.DELETE, R.TOPIC, "a"))
    assert check(mine, delete("a"), version) is None, "as it came: nothing stands against it"
    passage = check(mine, delete("a", "b"), version)
    assert [each.name for each in passage.message.topics] == passage.message.topic_names == ["a"]
    done = DeleteTopicsResponse(responses=[DeletableTopicResult(name="a")])
    found = [(each.name, each.error_code) for each in passage.complete(done).responses]
    assert found == [("a", E.NONE), ("b", E.TOPIC_AUTHORIZATION_FAILED)]


@pytest.mark.parametrize(
    ("rules", "transactional_id", "two_phase", "code"),
    [
        ([], None, False, E.CLUSTER_AUTHORIZATION_FAILED),
        ([allow(Op.WRITE, R.TOPIC, "z")], None, False, None),
        ([allow(Op.IDEMPOTENT_WRITE, R.CLUSTER, "kafka-cluster")], None, False, None),
        ([], "t", False, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ([allow(Op.WRITE, R.TRANSACTIONAL_ID, "t")], "t", False, None),
        ([allow(Op.WRITE, R.TRANSACTIONAL_ID, "t")], "t", True, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (
            [allow(Op.WRITE, R.TRANSACTIONAL_ID, "t"), allow(Op.TWO_PHASE_COMMIT, R.TRANSACTIONAL_ID, "t")],
            "t",
            True,
            None,
        ),
    ],
)
def test_who_may_have_a_producer_id(rules, transactional_id, two_phase, code):
    request = InitProducerIdRequest(transactional_id=transactional_id, enable_2pc=two_phase)
    passage = CHECKS[ApiKey.INIT_PRODUCER_ID](caller(*rules), request, 6)
    assert (passage and passage.reply.error_code) == code


def test_coordinators_are_found_for_what_may_be_described():
    check = CHECKS[ApiKey.FIND_COORDINATOR]
    rules = (allow(Op.DESCRIBE, R.GROUP, "g"),)
    passage = check(caller(*rules), FindCoordinatorRequest(key_type=0, coordinator_keys=["g", "h"]), 4)
    assert passage.message.coordinator_keys == ["g"]
    reply = check(caller(*rules), FindCoordinatorRequest(key_type=1, coordinator_keys=["g"]), 4).reply
    assert reply.coordinators[0].error_code == E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert check(caller(*rules), FindCoordinatorRequest(key_type=0, key="g"), 2) is None


def test_offsets_of_groups_and_topics():
    asked = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(group_id="g", topics=[OffsetFetchRequestTopics(name="a", partition_indexes=[0])]),
            OffsetFetchRequestGroup(group_id="h", topics=None),
        ]
    )
    passage = CHECKS[ApiKey.OFFSET_FETCH](caller(allow(Op.DESCRIBE, R.GROUP, "g")), asked, 8)
    assert [(each.group_id, each.topics) for each in passage.message.groups] == [("g", [])]


@pytest.mark.parametrize(("key", "version"), [(ApiKey.METADATA, 10), (ApiKey.DESCRIBE_CLUSTER, 1)])
@pytest.mark.parametrize("is_asked", [False, True])
def test_what_may_be_done_to_the_cluster_is_told_when_asked_for_and_only_what_may(key, version, is_asked):
    """The handler, which knows of no caller, names all operations; the check leaves the caller's."""
    api = APIS[key]
    asked = api.request(include_cluster_authorized_operations=is_asked)
    rules = (allow(Op.DESCRIBE, R.CLUSTER, "kafka-cluster"), allow(Op.DESCRIBE, R.TOPIC, "a"))
    passage = CHECKS[key](caller(*rules), asked, version)
    handlers = api.response(cluster_authorized_operations=-1)
    told = handlers if passage is None or passage.complete is None else passage.complete(handlers)
    assert told.cluster_authorized_operations == (1 << Op.DESCRIBE if is_asked else -1)
