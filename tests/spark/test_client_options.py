"""What begins with `kafka.`: it reaches the client that it is for, or is refused with what to do."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from oncelog import sync
from oncelog.client.config import HAS_NO_MEANING, ConsumerConfig, ProducerConfig
from oncelog.errors import ConfigurationError
from oncelog.spark.backend import Backend, task_producer
from oncelog.spark.client_options import SET_BY_THE_SINK, SET_BY_THE_SOURCE, consumer_options, producer_options
from oncelog.spark.options import sink_options

SERVER = "127.0.0.1:9092"


def test_producers_options_reach_the_producer_of_a_task_and_no_other_client(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "kafka.compression.type": "gzip",
        "kafka.acks": "all",
        "kafka.batch.size": "65536",
        "kafka.client.id": "me",
    }
    options = sink_options({"bootstrap.servers": SERVER, "topic": "t", **given})
    assert options.client == {"bootstrap.servers": SERVER, "client.id": "me"}
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(sync.Producer, "from_config", lambda config, **_: made.append(config))
    task_producer(options.client | options.producer, Backend("resumed", 1000), "id")
    assert {key.removeprefix("kafka."): value for key, value in given.items()}.items() <= made[0].items()


def test_consumers_options_are_told_from_everybodys() -> None:
    found = consumer_options({"kafka.fetch.min.bytes": "7", "kafka.security.protocol": "PLAINTEXT"}, SERVER)
    assert found.own == {"fetch.min.bytes": "7"}
    assert found.client == {"security.protocol": "PLAINTEXT", "bootstrap.servers": SERVER}


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("compresion.type", "gzip", "did you mean 'kafka.compression.type'"),
        ("fetch.min.bytes", "1", "is a consumer's, and this is for a producer"),
        ("metric.reporters", "x", "has no meaning in oncelog's clients: remove it"),
        ("transactional.id", "x", "use transactionalIdPrefix"),
        ("partitioner.class", "x", "kafka.partitioner"),
        ("acks", "1", "acks=all"),
        ("enable.idempotence", "false", "kafka.enable.idempotence"),
        ("linger.ms", "50", "kafka.linger.ms is not to be set here: rows come many at a time"),
        ("delivery.timeout.ms", "soon", "kafka.delivery.timeout.ms"),
        ("bootstrap.servers", "other:1", "differ: give one of them"),
    ],
)
def test_a_wrong_option_of_a_write(key: str, value: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        producer_options({f"kafka.{key}": value}, SERVER)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("fetch.min.byte", "1", "did you mean 'kafka.fetch.min.bytes'"),
        ("linger.ms", "1", "is a producer's, and this is for a consumer"),
        ("auto.offset.reset", "earliest", "use startingOffsets"),
        ("key.deserializer", "org.apache.Java", "cast the columns"),
        ("enable.auto.commit", "true", "positions are in the checkpoint"),
        ("max.poll.records", "0", "must be more than 0"),
    ],
)
def test_a_wrong_option_of_a_read(key: str, value: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        consumer_options({f"kafka.{key}": value}, SERVER)


def test_every_key_of_a_client_is_taken_by_it_or_refused_with_what_to_do() -> None:
    for kind, set_here, check in (
        (ConsumerConfig, SET_BY_THE_SOURCE, consumer_options),
        (ProducerConfig, SET_BY_THE_SINK, producer_options),
    ):
        fields = {field.name: field for field in dataclasses.fields(kind)}
        assert set_here.keys() <= fields.keys() | HAS_NO_MEANING
        for name, field in fields.items():
            takes_text = field.type in ("str", "int", "bool", "str | None") or name == "partitioner"
            assert takes_text or name in set_here, name
        for name in (HAS_NO_MEANING - fields.keys()) | set_here.keys():
            with pytest.raises(ConfigurationError, match=r"not to be set here|has no meaning"):
                check({f"kafka.{name.replace('_', '.')}": "1"}, SERVER)
