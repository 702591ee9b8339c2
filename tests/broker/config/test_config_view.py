"""Values with their sources and synonyms, as Apache Kafka 4.3 shows them; dynamic keys; loggers."""

from __future__ import annotations

import logging

import pytest

from oncelog.broker.broker import Broker
from oncelog.broker.config.config import config_from, rules
from oncelog.broker.config.config_view import (
    BrokerValues,
    CreatedTopicConfigs,
    Wanted,
    broker_results,
    default_broker_results,
    resource_results,
    topic_results,
)
from oncelog.broker.config.dynamic_config import dynamic_fault
from oncelog.broker.config.loggers import alter_loggers, logger_results
from oncelog.core.metadata.cluster import GROUP_RESOURCE, Topic
from oncelog.core.metadata.configs import APPEND, DELETE, SET, Change
from oncelog.errors import ErrorCode as E

ALL = Wanted(None, with_synonyms=True, with_documentation=True)
TOPIC, OWN, DEFAULT_BROKER, STATIC, DEFAULT, GROUP = 1, 2, 3, 4, 5, 8


def values(own=None, default=None, **static):
    keys = {name.replace("_", "."): value for name, value in static.items()}
    return BrokerValues(config_from(keys)[0], frozenset(keys), own or {}, default or {})


def shown(results, name):
    (found,) = [each for each in results if each.name == name]
    return found.value, found.config_source, [(each.name, each.value, each.source) for each in found.synonyms]


def of_topic(name, broker, **configs):
    topic = Topic("t", b"t" * 16, 1, {key.replace("_", "."): value for key, value in configs.items()})
    return shown(topic_results(topic, broker, ALL), name)


def test_where_a_topics_value_comes_from():
    week = "604800000"
    assert of_topic("retention.ms", values()) == (week, DEFAULT, []), "Kafka names no synonym of an unset time"
    hours = ("log.retention.hours", "168", DEFAULT)
    broker = values({"log.retention.ms": "5"}, {"log.retention.ms": "6"})
    both = [("log.retention.ms", "5", OWN), ("log.retention.ms", "6", DEFAULT_BROKER), hours]
    assert of_topic("retention.ms", broker) == ("5", OWN, both)
    assert of_topic("retention.ms", broker, retention_ms="7") == ("7", TOPIC, [("retention.ms", "7", TOPIC), *both])
    static = [("log.retention.hours", "2", STATIC), hours]
    assert of_topic("retention.ms", values(log_retention_hours=2)) == ("7200000", STATIC, static)
    assert of_topic("cleanup.policy", values()) == ("delete", DEFAULT, [("log.cleanup.policy", "delete", DEFAULT)])


def test_topics_of_one_request_are_told_what_describing_them_tells():
    """The broker's part is worked out once for all of them: no topic is told what is another's."""
    broker = values(
        {"log.retention.ms": "5"}, {"min.insync.replicas": "1"}, log_retention_hours=2, log_segment_bytes=2_000_000
    )
    created = CreatedTopicConfigs(broker)
    own = [
        {},
        {"retention.ms": "7", "cleanup.policy": "compact,compact"},
        {},
        {"retention.ms": "8"},
        {"segment.bytes": "15000000"},
    ]
    for index, configs in enumerate(own):
        topic = Topic(f"t{index}", bytes([index]) * 16, 1, configs)
        told = [(each.name, each.value, each.config_source) for each in created.of(topic)]
        described = topic_results(topic, broker, ALL)
        assert told == [(each.name, each.value, each.config_source) for each in described]
        assert {name for name, _, source in told if source == TOPIC} == configs.keys()


def test_a_list_is_shown_without_repetition():
    for_topics = of_topic("cleanup.policy", values(), cleanup_policy="compact, delete,compact")
    assert for_topics[:2] == ("compact,delete", TOPIC)
    assert for_topics[2][0] == ("cleanup.policy", "compact, delete,compact", TOPIC), "as it was set"


@pytest.mark.parametrize(
    ("listen", "config", "expected"),
    [
        ("127.0.0.1:0", {}, "PLAINTEXT://127.0.0.1:0"),
        (["127.0.0.1:0", "PLAINTEXT://[::1]:0"], {}, "PLAINTEXT://127.0.0.1:0,PLAINTEXT://[::1]:0"),
        ("127.0.0.1:1", {"listeners": "PLAINTEXT://:9092"}, "PLAINTEXT://:9092"),
    ],
)
def test_what_arguments_set_is_shown_as_set(tmp_path, listen, config, expected):
    """`--listen` and `--data-dir`: a static value of the broker, not a default."""
    broker = Broker(str(tmp_path), config, listen=listen)
    broker.assemble()
    found = broker_results(broker.node.config_values(), ALL)
    assert shown(found, "listeners") == (
        expected,
        STATIC,
        [("listeners", expected, STATIC), ("listeners", "", DEFAULT)],
    )
    assert shown(found, "log.dirs")[:2] == (str(tmp_path), STATIC)
    assert vars(broker.node.config) == vars(config_from(config)[0])


def test_a_brokers_own_values():
    broker = values(
        {"message.max.bytes": "5", "num.io.threads": "9", "ssl.key.password": "x"}, {"message.max.bytes": "6"}
    )
    found = broker_results(broker, ALL)
    sources = [("message.max.bytes", "5", OWN), ("message.max.bytes", "6", DEFAULT_BROKER)]
    assert shown(found, "message.max.bytes")[2][:2] == sources
    assert shown(found, "num.io.threads") == ("9", OWN, [("num.io.threads", "9", OWN)]), "stored, not honoured"
    assert shown(found, "ssl.key.password") == (None, OWN, [])
    assert shown(found, "log.retention.ms") == (None, DEFAULT, [])
    assert [each.name for each in default_broker_results(broker, ALL)] == ["message.max.bytes"]
    by_name = {each.name: each for each in found}
    assert by_name["node.id"].read_only
    assert not by_name["message.max.bytes"].read_only
    assert [by_name[key].config_type for key in ("node.id", "log.retention.bytes", "log.cleanup.policy")] == [3, 5, 7]
    assert by_name["num.partitions"].documentation


def test_a_groups_values():
    broker = values(group_consumer_session_timeout_ms=46_000)
    found = resource_results(GROUP_RESOURCE, {"consumer.heartbeat.interval.ms": "6000"}, broker, ALL)
    assert shown(found, "consumer.session.timeout.ms")[:2] == ("46000", STATIC)
    assert shown(found, "consumer.heartbeat.interval.ms") == (
        "6000",
        GROUP,
        [("consumer.heartbeat.interval.ms", "6000", GROUP), ("group.consumer.heartbeat.interval.ms", "5000", DEFAULT)],
    )


@pytest.mark.parametrize(
    ("name", "value", "is_default", "says"),
    [
        ("message.max.bytes", "5", False, None),
        ("message.max.bytes", "-1", False, "Value must be at least 0"),
        ("message.max.bytes", "many", False, "Not a number of type INT"),
        ("node.id", "5", False, "Cannot update these configs dynamically: [node.id]"),
        ("num.io.threads", "5", True, None),
        ("num.io.threads", "some", True, "Not a number"),
        ("ssl.keystore.type", "PEM", False, None),
        ("ssl.keystore.type", "PEM", True, "broker id must be specified"),
        ("process.roles", "broker", False, "Cannot update these configs dynamically: [process.roles]"),
        ("mesage.max.bytes", "5", False, "Unknown broker config name"),
        ("log.cleanup.policy", "nothing", False, "String must be one of"),
    ],
)
def test_what_may_be_changed_while_it_runs(name, value, is_default, says):
    fault = dynamic_fault(name, value, is_default)
    assert fault is says is None or says in fault


def test_loggers():
    name = "oncelog.test.config.view"
    logger = logging.getLogger(name)
    assert alter_loggers("1", 1, [Change(name, SET, "DEBUG")], is_only_checked=True) is None
    assert logger.level == logging.NOTSET
    assert alter_loggers("1", 1, [Change(name, SET, "TRACE")], is_only_checked=False) is None
    assert shown(logger_results(Wanted([name], with_synonyms=True, with_documentation=True)), name)[:2] == ("TRACE", 6)
    assert alter_loggers("1", 1, [Change(name, DELETE, None)], is_only_checked=False) is None
    assert logger.level == logging.NOTSET


@pytest.mark.parametrize(
    ("resource", "change", "code"),
    [
        ("x", Change("root", SET, "INFO"), E.INVALID_REQUEST),
        ("2", Change("root", SET, "INFO"), E.INVALID_REQUEST),
        ("1", Change("root", SET, "LOUD"), E.INVALID_CONFIG),
        ("1", Change("nosuch", SET, "INFO"), E.INVALID_CONFIG),
        ("1", Change("root", DELETE, None), E.INVALID_REQUEST),
        ("1", Change("root", APPEND, "INFO"), E.INVALID_REQUEST),
    ],
)
def test_loggers_that_stay_as_they_are(resource, change, code):
    refusal = alter_loggers(resource, 1, [change], is_only_checked=False)
    assert refusal is not None
    assert refusal.error_code is code


def test_every_key_has_a_type_that_can_be_sent():
    assert len(broker_results(values(), ALL)) >= len(rules())
