"""Values of a topic's keys: what is refused, and what a partition works with."""

from __future__ import annotations

import pytest

from oncelog.core.metadata.topic_configs import config_fault, conflict, settings
from oncelog.wire.compression import Codec, Compression


def nothing(_key: str) -> None:
    return None


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ({}, None),
        ({"compression.type": "producer", "compression.gzip.level": "3"}, None),
        ({"compression.type": "uncompressed"}, Compression(Codec.NONE)),
        ({"compression.type": "gzip "}, Compression(Codec.GZIP, -1)),
        ({"compression.type": "gzip", "compression.gzip.level": "9"}, Compression(Codec.GZIP, 9)),
        ({"compression.type": "snappy"}, Compression(Codec.SNAPPY)),
        ({"compression.type": "lz4"}, Compression(Codec.LZ4, 9)),
        ({"compression.type": "zstd", "compression.zstd.level": "-7"}, Compression(Codec.ZSTD, -7)),
    ],
)
def test_a_topics_compression(configs: dict[str, str], expected: Compression | None) -> None:
    assert settings(configs, nothing).compression == expected


@pytest.mark.parametrize("end", ["leader", "follower"])
def test_throttled_replicas_are_pairs_or_all(end: str) -> None:
    """Apache Kafka refuses others; "foo" was stored, and would have failed where the topic moves to."""
    key = f"{end}.replication.throttled.replicas"
    for taken in ("", "*", "0:1", "0:1,12:3", "0:1, 1:2"):
        assert config_fault(key, taken) is None
    for wrong in ("foo", "0", "0:1,", "0:a", "*,foo", "-1:1"):
        assert f"{key} must be the literal '*' or a list of replicas" in str(config_fault(key, wrong))


def test_the_brokers_compression_holds_where_a_topic_has_none() -> None:
    broker = {"compression.type": "zstd", "compression.zstd.level": "9"}.get
    assert settings({}, broker).compression == Compression(Codec.ZSTD, 9)
    assert settings({"compression.zstd.level": "2"}, broker).compression == Compression(Codec.ZSTD, 2)
    assert settings({"compression.type": "producer"}, broker).compression is None


@pytest.mark.parametrize(
    ("key", "taken", "refused"),
    [
        ("compression.type", ("gzip ", "uncompressed"), ("none", "GZIP", "")),
        ("compression.gzip.level", ("-1", "1", "9"), ("-2", "0", "10", "x", "")),
        ("compression.lz4.level", ("1", "17"), ("-1", "0", "18", "1_7")),
        ("retention.ms", ("-1", "+10", " 10 "), ("1_0", "1e3", "1.0", "9223372036854775808")),
        ("min.cleanable.dirty.ratio", ("0.5", "5e-1"), ("0_0.5", "1.1", "half")),
        ("compression.zstd.level", ("-131072", "0", "22"), ("-131073", "23")),
    ],
)
def test_numbers_have_their_keys_bounds(key: str, taken: tuple[str, ...], refused: tuple[str, ...]) -> None:
    assert [value for value in taken if config_fault(key, value)] == []
    assert [value for value in refused if not config_fault(key, value)] == []


def test_a_lag_that_must_pass_cannot_be_longer_than_the_longest() -> None:
    own = {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "10"}
    assert conflict(own, nothing) is None
    told = "conflict topic config setting min.compaction.lag.ms (11) > max.compaction.lag.ms (10)"
    assert conflict({**own, "min.compaction.lag.ms": " 11 "}, nothing) == told
    defaults = {"log.cleaner.max.compaction.lag.ms": "10", "log.cleaner.min.compaction.lag.ms": "5"}
    assert conflict({"min.compaction.lag.ms": "11"}, defaults.get) == told
    assert conflict({"max.compaction.lag.ms": "4"}, defaults.get) is not None
    assert conflict({}, defaults.get) is None


@pytest.mark.parametrize("key", ["local.retention.ms", "local.retention.bytes"])
def test_what_stays_local_is_a_bound_none_or_as_all(key: str) -> None:
    assert [config_fault(key, value) for value in ("-2", "-1", "0")] == [None] * 3
    assert config_fault(key, "-3") == f"Invalid value -3 for configuration {key}: Value must be at least -2"
