"""Records of streams groups: Kafka's bytes, and whatever is written is read."""

from __future__ import annotations

import json
import pathlib

import hypothesis.strategies as st
import pytest
from hypothesis import given

from oncelog.core.groups.coordinator import GroupCoordinator
from oncelog.errors import MalformedMessage
from oncelog.wire.log_records.consumer_offsets import record_from_key_value, record_to_key_value
from oncelog.wire.log_records.streams_groups import (
    STREAMS_GROUP_RECORDS,
    AssignedTasks,
    StreamsCurrentMember,
    StreamsGroupEpoch,
    StreamsGroupKey,
    StreamsMemberMetadata,
    StreamsTargetEpoch,
    StreamsTargetMember,
    StreamsTombstone,
    StreamsTopologyRecord,
    TargetTasks,
)
from oncelog.wire.messages.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from oncelog.wire.messages.streams_group_heartbeat import CopartitionGroup, KeyValue, Subtopology, TopicInfo
from oncelog.wire.schema import decode_message

names = st.text(max_size=6)
maybe = st.none() | names
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
small = st.integers(0, 99)
pairs = st.lists(st.tuples(names, names), max_size=2).map(tuple)
tasks = st.dictionaries(names, st.frozensets(small, max_size=4), max_size=3)
epochs = st.dictionaries(names, st.dictionaries(small, small, min_size=1, max_size=4), max_size=3)
targets = st.builds(TargetTasks, tasks, tasks, tasks)
assigned = st.builds(AssignedTasks, epochs, tasks, tasks)
infos = st.builds(
    TopicInfo,
    name=names,
    partitions=int32,
    replication_factor=st.integers(0, 9),
    topic_configs=st.lists(st.builds(KeyValue, key=names, value=names), max_size=2),
)
subtopologies = st.builds(
    Subtopology,
    subtopology_id=names,
    source_topics=st.lists(names, max_size=2),
    state_changelog_topics=st.lists(infos, max_size=2),
    repartition_sink_topics=st.lists(names, max_size=2),
    repartition_source_topics=st.lists(infos, max_size=2),
    copartition_groups=st.lists(st.builds(CopartitionGroup, source_topics=st.lists(small, max_size=2)), max_size=1),
)
records = st.one_of(
    st.builds(StreamsGroupEpoch, names, int32, int64, int32, st.none() | pairs),
    st.builds(
        StreamsMemberMetadata,
        names,
        names,
        maybe,
        maybe,
        names,
        names,
        int32,
        int32,
        names,
        st.none() | st.tuples(names, st.integers(0, 65_535)),
        pairs,
    ),
    st.builds(StreamsTargetEpoch, names, int32, int64),
    st.builds(StreamsTargetMember, names, names, targets),
    st.builds(StreamsCurrentMember, names, names, int32, int32, st.integers(0, 127), assigned, assigned),
    st.builds(StreamsTopologyRecord, names, int32, st.lists(subtopologies, max_size=2).map(tuple)),
    st.builds(StreamsTombstone, st.sampled_from([StreamsGroupKey.GROUP_EPOCH, StreamsGroupKey.TOPOLOGY]), names),
    st.builds(StreamsTombstone, st.sampled_from([StreamsGroupKey.MEMBER, StreamsGroupKey.TARGET_MEMBER]), names, names),
)


@given(records)
def test_what_is_written_is_read(record):
    assert record_from_key_value(*record_to_key_value(record)) == record


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        # epoch 2, hash 7, then as tagged fields the topology's epoch and the configs: one, "a" = "b"
        (
            StreamsGroupEpoch("g", 2, 7, 0, (("a", "b"),)),
            "0011 0001 67",
            "0000 00000002 0000000000000007 02 00 04 00000000 01 06 02 02 61 02 62 00",
        ),
        (StreamsGroupEpoch("g", 1), "0011 0001 67", "0000 00000001 0000000000000000 00"),
        (StreamsTargetEpoch("g", 2, 5), "0014 0001 67", "0000 00000002 01 00 08 0000000000000005"),
        (
            StreamsTargetMember("g", "m", TargetTasks({"s": frozenset({1, 0})})),
            "0015 0001 67 0001 6d",
            "0000 02 02 73 03 00000000 00000001 00 01 01 00",
        ),
        # member epoch 2, previous 1, stable; active s-0 since epoch 2 as a tagged field; nothing else
        (
            StreamsCurrentMember("g", "m", 2, 1, 0, AssignedTasks({"s": {0: 2}})),
            "0016 0001 67 0001 6d",
            "0000 00000002 00000001 00 02 02 73 02 00000000 01 00 05 02 00000002 01 01 01 01 01 00",
        ),
        (
            StreamsTopologyRecord("g", 0, (Subtopology(subtopology_id="0", source_topics=["t"]),)),
            "0017 0001 67",
            "0000 00000000 02 02 30 02 02 74 01 01 01 01 01 00 00",
        ),
        (StreamsTombstone(StreamsGroupKey.TOPOLOGY, "g"), "0017 0001 67", None),
        (StreamsTombstone(StreamsGroupKey.MEMBER, "g", "m"), "0013 0001 67 0001 6d", None),
    ],
)
def test_bytes(record, key, value):
    data = None if value is None else bytes.fromhex(value)
    assert record_to_key_value(record) == (bytes.fromhex(key), data)
    assert record_from_key_value(bytes.fromhex(key), data) == record


def test_before_assignment_epochs_a_tasks_epoch_was_the_members():
    value = bytes.fromhex("0000 00000003 00000002 00 02 02 73 02 00000000 00 01 01 01 01 01 00")
    read = record_from_key_value(bytes.fromhex("0016 0001 67 0001 6d"), value)
    assert isinstance(read, StreamsCurrentMember)
    assert read.assigned.active == {"s": {0: 3}}


def test_a_torn_record_is_malformed():
    with pytest.raises(MalformedMessage):
        record_from_key_value(bytes.fromhex("0016 0001 67 0001 6d"), b"\x00\x00\x00")


RECORDED = json.loads((pathlib.Path(__file__).parents[1] / "data" / "kafka_streams_group.json").read_text())


def test_what_apache_kafka_wrote_is_read_and_written_alike():
    """Recorded by `evidence/compat/make_kafka_streams_group.py`."""
    kinds = set()
    for key, value in RECORDED["records"]:
        stored = (bytes.fromhex(key), None if value is None else bytes.fromhex(value))
        record = record_from_key_value(*stored)
        kinds.add(type(record))
        assert record_to_key_value(record) == stored
    assert kinds == set(STREAMS_GROUP_RECORDS) - {StreamsTombstone}


def test_a_coordinator_that_loads_it_describes_the_group_as_apache_kafka_did():
    coordinator = GroupCoordinator(0)
    for key, value in RECORDED["records"]:
        coordinator.apply(record_from_key_value(bytes.fromhex(key), bytes.fromhex(value)))
    coordinator.loaded(0)
    (ours,) = coordinator.streams_group_describe(StreamsGroupDescribeRequest(group_ids=["application"])).reply.groups
    (theirs,) = decode_message(StreamsGroupDescribeResponse, 0, bytes.fromhex(RECORDED["described"])).groups
    topology = theirs.topology
    assert ours.replace(topology=topology, members=sorted(ours.members, key=lambda each: each.member_id)) == (
        theirs.replace(members=sorted(theirs.members, key=lambda each: each.member_id))
    )
    assert [each.subtopology_id for each in ours.topology.subtopologies] == ["0", "1"]
    assert any(
        each.pending_revocation.active for each in coordinator.streams_groups.by_id["application"].members.values()
    )
