"""A wrong option fails before anything is read or written, and says what would be right."""

from __future__ import annotations

import pytest

from oncelog.errors import ConfigurationError
from oncelog.spark.options import EARLIEST, LATEST, sink_options, source_options

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


@pytest.mark.parametrize(
    ("options", "is_stream", "says"),
    [
        ({"subscribe": "a"}, True, "'bootstrap.servers' is missing"),
        ({**SERVER}, True, "one of the options 'subscribe'"),
        ({**SERVER, "subscribe": "a", "assign": "{}"}, True, "one of the options"),
        ({**SERVER, "subscribe": "a", "startingOffset": "earliest"}, True, "did you mean 'startingOffsets'"),
        ({**SERVER, "subscribe": "a", "startingOffsets": "first"}, True, "earliest, latest or JSON"),
        ({**SERVER, "subscribe": "a", "startingOffsets": "latest"}, False, "may not be 'latest'"),
        ({**SERVER, "subscribe": "a", "endingOffsets": "earliest"}, False, "may not be 'earliest'"),
        ({**SERVER, "subscribe": "a", "endingOffsets": "latest"}, True, "a stream has no end"),
        ({**SERVER, "subscribe": "a", "maxOffsetsPerTrigger": "0"}, True, "above 0"),
        ({**SERVER, "subscribe": "a", "failOnDataLoss": "yes"}, True, "true or false"),
        ({**SERVER, "assign": "[1]"}, True, "assign is JSON"),
        ({**SERVER, "assign": "[" * 100_000}, True, "assign is JSON"),
        ({**SERVER, "subscribe": "a", "kafka.group.id": "g"}, True, "set by the format itself"),
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
        ({**SERVER, "backend": "magic"}, "auto, prepared or resumed"),
        ({**SERVER, "txnAppId": "a"}, "belong together"),
        ({**SERVER, "topics": "a"}, "did you mean 'topic'"),
    ],
)
def test_a_wrong_sink_option(options: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        sink_options(options)
