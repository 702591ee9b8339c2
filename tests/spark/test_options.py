"""A wrong option fails before anything is read or written, and says what would be right."""

from __future__ import annotations

import pytest

from oncelog.errors import ConfigurationError
from oncelog.spark.options import EARLIEST, LATEST, Times, sink_options, source_options

SERVER = {"bootstrap.servers": "127.0.0.1:9092"}


def test_defaults_of_a_stream() -> None:
    options = source_options({**SERVER, "subscribe": "a, b"}, is_stream=True)
    assert (options.topics, options.starting, options.fail_on_data_loss) == (("a", "b"), LATEST, True)
    assert options.isolation_level == "read_committed"


def test_defaults_of_a_batch_read_and_kafka_spelling() -> None:
    options = source_options({"kafka.bootstrap.servers": "h:1", "assign": '{"a": [0, 2]}'}, is_stream=False)
    assert (options.client, options.assigned) == ({"bootstrap.servers": "h:1"}, {"a": (0, 2)})
    assert (options.starting, options.ending) == (EARLIEST, LATEST)


def test_offsets_by_partition() -> None:
    options = source_options(
        {**SERVER, "subscribe": "a", "startingoffsets": '{"a": {"0": 5, "1": -2}}'}, is_stream=True
    )
    assert options.starting == {"a": {0: 5, 1: -2}}


def test_defaults_of_a_sink() -> None:
    options = sink_options({**SERVER, "topic": "out", "checkpointlocation": "/c"})
    assert (options.topic, options.backend, options.decision_topic) == ("out", "auto", "__oncelog_decisions")
    assert options.transactional_id_prefix == "oncelog-spark"


def test_times_and_delays() -> None:
    by_time = {**SERVER, "subscribePattern": "a.*", "startingTimestamp": "5"}
    options = source_options({**by_time, "minOffsetsPerTrigger": "3", "maxTriggerDelay": "2m"}, is_stream=True)
    assert (options.starting, options.topic_pattern) == (Times(5, or_latest=False), "a.*")
    assert (options.offsets_per_trigger_min, options.trigger_delay_ms_max) == (3, 120_000)
    options = source_options(
        {**by_time, "startingOffsetsByTimestampStrategy": "latest", "endingOffsetsByTimestamp": '{"a": {"0": 7}}'},
        is_stream=False,
    )
    assert (options.starting, options.ending) == (Times(5, or_latest=True), Times({"a": {0: 7}}, or_latest=True))


def test_columns() -> None:
    assert source_options({**SERVER, "subscribe": "a", "columns": "value, offset"}, is_stream=True).columns == (
        "value",
        "offset",
    )
    assert len(source_options({**SERVER, "subscribe": "a"}, is_stream=True).columns) == 7
    assert (
        source_options({**SERVER, "subscribe": "a", "includeHeaders": "true"}, is_stream=True).columns[-1] == "headers"
    )


def test_kafkas_isolation_level_is_ours() -> None:
    options = source_options({**SERVER, "subscribe": "a", "kafka.isolation.level": "read_uncommitted"}, is_stream=True)
    assert (options.isolation_level, options.consumer) == ("read_uncommitted", {})


@pytest.mark.parametrize(
    ("options", "is_stream", "says"),
    [
        ({**SERVER, "subscribe": " , "}, True, "names no topic"),
        ({**SERVER, "subscribePattern": "("}, True, "no regular expression"),
        ({**SERVER, "subscribe": "a", "path": "x"}, True, "a log has no path"),
        ({**SERVER, "subscribe": "a", "topic": "x"}, True, "is for a batch write"),
        ({**SERVER, "subscribe": "a", "columns": "value,size"}, True, "no column 'size'"),
        ({**SERVER, "subscribe": "a", "columns": "value", "includeHeaders": "true"}, True, "give columns alone"),
        ({**SERVER, "subscribe": "a", "startingOffsets": '{"a": {"0": -1}}'}, False, "may not be 'latest'"),
        ({**SERVER, "subscribe": "a", "startingOffsets": '{"a": {"0": -3}}'}, False, "below -2"),
        ({**SERVER, "subscribe": "a", "startingOffsets": '{"a": {"0": 1.5}}'}, False, "JSON such as"),
        (
            {**SERVER, "subscribe": "a", "startingOffsets": "earliest", "startingTimestamp": "1"},
            True,
            "where the read starts",
        ),
        ({**SERVER, "subscribe": "a", "endingOffsets": "latest", "endingTimestamp": "1"}, False, "where the read ends"),
        (
            {**SERVER, "subscribe": "a", "startingOffsetsByTimestampStrategy": "latest"},
            True,
            "belongs to startingTimestamp",
        ),
        ({**SERVER, "subscribe": "a", "startingOffsetsByTimestamp": "latest"}, True, "JSON such as"),
        ({**SERVER, "subscribe": "a", "maxTriggerDelay": "1m"}, True, "minOffsetsPerTrigger"),
        ({**SERVER, "subscribe": "a", "minOffsetsPerTrigger": "1", "maxTriggerDelay": "soon"}, True, "such as 500ms"),
        ({**SERVER, "subscribe": "a", "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, True, "is more than"),
        ({**SERVER, "subscribe": "a", "maxOffsetsPerTrigger": "9"}, False, "is for a stream, and this is a batch read"),
        ({**SERVER, "subscribe": "a", "groupIdPrefix": "p", "kafka.group.id": "g"}, True, "give one of them"),
        ({**SERVER, "subscribe": "a", "kafka.exclude.internal.topics": "false"}, True, "belongs to subscribePattern"),
        ({"subscribe": "a"}, True, "'bootstrap.servers' is missing"),
        ({**SERVER}, True, "one of the options 'subscribe'"),
        ({**SERVER, "subscribe": "a", "assign": "{}"}, True, "one of the options"),
        ({**SERVER, "subscribe": "a", "startingOffset": "earliest"}, True, "did you mean 'startingOffsets'"),
        ({**SERVER, "subscribe": "a", "startingOffsets": "first"}, True, "earliest, latest or JSON"),
        ({**SERVER, "subscribe": "a", "startingOffsets": "latest"}, False, "may not be 'latest'"),
        ({**SERVER, "subscribe": "a", "endingOffsets": "earliest"}, False, "may not be 'earliest'"),
        ({**SERVER, "subscribe": "a", "endingOffsets": "latest"}, True, "is for a batch read, and this is a stream"),
        ({**SERVER, "subscribe": "a", "maxOffsetsPerTrigger": "0"}, True, "above 0"),
        ({**SERVER, "subscribe": "a", "maxOffsetsPerTrigger": "9" * 19}, True, "at most 18 digits"),
        ({**SERVER, "subscribe": "a", "startingTimestamp": "-5"}, False, "whole number from 0 on"),
        ({**SERVER, "subscribe": "a", "failOnDataLoss": "yes"}, True, "true or false"),
        ({**SERVER, "assign": "[1]"}, True, "assign is JSON"),
        ({**SERVER, "assign": '{"a": [0], "a": [1]}'}, True, "assign names 'a' twice"),
        (
            {**SERVER, "subscribe": "a", "startingOffsets": '{"a": {"0": 1}, "a": {"1": 1}}'},
            True,
            "startingOffsets names 'a' twice",
        ),
        (
            {**SERVER, "subscribe": "a", "startingOffsets": '{"a": {"0": 1, "0": 2}}'},
            True,
            "startingOffsets names '0' twice",
        ),
        (
            {**SERVER, "subscribe": "a", "startingOffsets": '{"a": {"0": 1, "00": 2}}'},
            True,
            "startingOffsets names 0 twice",
        ),
        (
            {**SERVER, "subscribe": "a", "endingOffsets": '{"a": {"0": 1, "0": 2}}'},
            False,
            "endingOffsets names '0' twice",
        ),
        (
            {**SERVER, "subscribe": "a", "startingOffsetsByTimestamp": '{"a": {"0": 1, "0": 2}}'},
            True,
            "names '0' twice",
        ),
        ({**SERVER, "assign": "[" * 100_000}, True, "assign is JSON"),
        ({**SERVER, "subscribe": "a", "kafka.group.id": "g"}, False, "a batch read has no position"),
        ({**SERVER, "subscribe": "a", "isolationLevel": "dirty"}, True, "read_committed or read_uncommitted"),
    ],
)
def test_a_wrong_source_option(options: dict[str, str], is_stream: bool, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        source_options(options, is_stream=is_stream)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({**SERVER, "transactionalIdPrefix": "a.b"}, "no dot"),
        ({**SERVER, "transactionalIdPrefix": "p" * 40_000}, "transactionalIdPrefix has 40000 characters, and 1000 are"),
        ({**SERVER, "backend": "magic"}, "auto, prepared or resumed"),
        ({**SERVER, "txnAppId": "a"}, "belong together"),
        ({**SERVER, "txnAppId": "", "txnVersion": "1"}, "'txnAppId' is empty"),
        ({**SERVER, "txnAppId": "a", "txnVersion": ""}, "'txnVersion' is empty"),
        ({**SERVER, "topic": ""}, "'topic' is empty"),
        ({**SERVER, "topics": "a"}, "did you mean 'topic'"),
        ({**SERVER, "topic": "a", "path": "x"}, "a log has no path"),
        ({**SERVER, "topic": "a", "columns": "x"}, "is for a batch read"),
        ({**SERVER, "topic": "a", "decisionTopic": "a"}, "decisions cannot live in the topic that is written"),
        ({**SERVER, "topic": "__oncelog_decisions"}, "decisions cannot live in the topic that is written"),
        ({**SERVER, "topic": "a", "decisionTopic": "x", "decisionUrl": "sqlite://"}, "give one of them"),
        ({**SERVER, "topic": "a", "backend": "prepared", "completionMarginMs": "5"}, "which has no clock"),
    ],
)
def test_a_wrong_sink_option(options: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        sink_options(options)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("a streaming write", "txnAppId"),
        ("a batch write", "checkpointLocation"),
        ("a dual write", "decisionTopic"),
        ("a dual write", "checkpointLocation"),
    ],
)
def test_what_another_kind_of_write_has_is_refused(kind: str, name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'{name}' is for a .*, and this is {kind}"):
        sink_options({**SERVER, "topic": "a", name: "x"}, kind)
