"""What may be altered of which resource; the words are Apache Kafka 4.3's."""

from __future__ import annotations

import pytest

from oncelog.core.metadata.cluster import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ClusterMetadata,
)
from oncelog.core.metadata.configs import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    BrokerKeys,
    Change,
    incremental_changes,
    whole_change,
)
from oncelog.core.metadata.refusal import Refusal
from oncelog.core.metadata.topic_configs import TOPIC_CONFIGS, value_fault
from oncelog.errors import ErrorCode as E
from oncelog.lazy_dataclass import replace
from oncelog.wire.log_records.cluster_metadata import TopicRecord

BROKER_VALUES = {
    "log.cleanup.policy": "delete",
    "group.consumer.min.session.timeout.ms": "45000",
    "group.consumer.max.session.timeout.ms": "60000",
}
KEYS = BrokerKeys(
    1,
    lambda name: name == "log.cleanup.policy",
    lambda name, _value, is_default: f"no {name} of {'all' if is_default else 'one'}" if name == "bad" else None,
    BROKER_VALUES.get,
)


@pytest.fixture
def metadata():
    made = ClusterMetadata()
    made.apply(TopicRecord(name="t", topic_id=b"t" * 16, partition_count=1))
    return made


def altered(metadata, kind, name, *changes):
    outcome = incremental_changes(metadata, kind, name, [Change(*change) for change in changes], KEYS)
    if isinstance(outcome, Refusal):
        return outcome.error_code, outcome.message
    for record in outcome:
        metadata.apply(record)
    return dict(metadata.topics[name].configs if kind == TOPIC_RESOURCE else metadata.configs_of(kind).get(name, {}))


LIST = "leader.replication.throttled.replicas"


@pytest.mark.parametrize(
    ("before", "operation", "given", "after"),
    [
        ("", APPEND, "compact", "compact"),  # what is explicitly empty has nothing of the default
        ("", SUBTRACT, "delete", ""),
        (None, APPEND, "compact", "delete,compact"),  # of the default
        (None, SUBTRACT, "delete", ""),
        (None, APPEND, "delete", "delete"),  # the default, as a value of its own from now on
        ("compact,delete", SUBTRACT, "compact,delete", ""),
        ("compact", APPEND, "delete,delete", "compact,delete"),
        ("delete,delete", SUBTRACT, "delete", "delete"),  # one of them
        ("delete, compact", SUBTRACT, "compact", "delete, compact"),  # another text
        ("delete", APPEND, " compact", "delete, compact"),
        ("delete", SUBTRACT, "", "delete"),
    ],
)
def test_appending_to_a_list_and_subtracting_from_it_are_kafkas(metadata, before, operation, given, after):
    """Each as Apache Kafka 4.3 answered it."""
    if before is not None:
        altered(metadata, TOPIC_RESOURCE, "t", ("cleanup.policy", SET, before))
    assert altered(metadata, TOPIC_RESOURCE, "t", ("cleanup.policy", operation, given)) == {"cleanup.policy": after}


def test_appending_nothing_to_a_list_of_choices_is_refused(metadata):
    altered(metadata, TOPIC_RESOURCE, "t", ("cleanup.policy", SET, "delete"))
    refused = E.INVALID_CONFIG, "Configuration 'cleanup.policy' values must not be empty."
    assert altered(metadata, TOPIC_RESOURCE, "t", ("cleanup.policy", APPEND, "")) == refused
    assert altered(metadata, TOPIC_RESOURCE, "t", ("cleanup.policy", SET, "")) == {"cleanup.policy": ""}
    assert altered(metadata, TOPIC_RESOURCE, "t", ("cleanup.policy", APPEND, "")) == {"cleanup.policy": ""}


def test_what_a_list_has_already_is_not_appended_again(metadata):
    for given in ("0:1", "0:1,1:1,1:1", "1:1"):
        altered(metadata, TOPIC_RESOURCE, "t", (LIST, APPEND, given))
    assert metadata.topics["t"].configs == {LIST: "0:1,1:1"}


def test_set_append_subtract_delete(metadata):
    assert altered(metadata, TOPIC_RESOURCE, "t", ("retention.ms", SET, "5")) == {"retention.ms": "5"}
    assert (
        altered(metadata, TOPIC_RESOURCE, "t", ("cleanup.policy", APPEND, "compact"))["cleanup.policy"]
        == "delete,compact"
    )
    assert altered(metadata, TOPIC_RESOURCE, "t", ("cleanup.policy", SUBTRACT, "delete"))["cleanup.policy"] == "compact"
    assert altered(metadata, TOPIC_RESOURCE, "t", ("cleanup.policy", DELETE, None)) == {"retention.ms": "5"}
    assert altered(metadata, BROKER_RESOURCE, "1", ("log.cleanup.policy", APPEND, "compact")) == {
        "log.cleanup.policy": "delete,compact"
    }
    assert altered(metadata, BROKER_RESOURCE, "1", ("log.cleanup.policy", DELETE, None)) == {}
    assert metadata.broker_configs == {}, "nothing is left of a resource without configs"


@pytest.mark.parametrize(
    ("kind", "name", "change", "code", "says"),
    [
        (TOPIC_RESOURCE, "", ("a", SET, "1"), E.INVALID_REQUEST, "Default topic resources"),
        (TOPIC_RESOURCE, "nosuch", ("a", SET, "1"), E.UNKNOWN_TOPIC_OR_PARTITION, "'nosuch' does not exist"),
        (TOPIC_RESOURCE, "bad name", ("a", SET, "1"), E.INVALID_TOPIC_EXCEPTION, "Topic name is invalid"),
        (TOPIC_RESOURCE, "t", ("no.such", SET, "1"), E.INVALID_CONFIG, "Unknown topic config name"),
        (TOPIC_RESOURCE, "t", ("retention.ms", SET, None), E.INVALID_REQUEST, "Null value"),
        (TOPIC_RESOURCE, "t", ("retention.ms", APPEND, "1"), E.INVALID_CONFIG, "Can't APPEND to key retention.ms"),
        (TOPIC_RESOURCE, "t", ("retention.ms", 9, "1"), E.UNKNOWN_SERVER_ERROR, "Unknown operations type 9"),
        (BROKER_RESOURCE, "1", ("a", 9, "1"), E.INVALID_REQUEST, "Unknown operations type 9"),
        (TOPIC_RESOURCE, "t", ("retention.ms", 9, None), E.INVALID_REQUEST, "Null value"),
        (CLIENT_METRICS_RESOURCE, "m", ("metrics", APPEND, "x"), E.INVALID_CONFIG, "type is not LIST"),
        (TOPIC_RESOURCE, "t", ("remote.storage.enable", SET, "true"), E.INVALID_CONFIG, "Tiered Storage"),
        (BROKER_RESOURCE, "x", ("a", SET, "1"), E.INVALID_REQUEST, "Node id must be an integer"),
        (BROKER_RESOURCE, "2", ("a", SET, "1"), E.INVALID_REQUEST, "expected 1, but received 2"),
        (BROKER_RESOURCE, "1", ("bad", SET, "1"), E.INVALID_REQUEST, "no bad of one"),
        (BROKER_RESOURCE, "", ("bad", SET, "1"), E.INVALID_REQUEST, "no bad of all"),
        (GROUP_RESOURCE, "", ("a", SET, "1"), E.INVALID_REQUEST, "Default group resources"),
        (GROUP_RESOURCE, "g", ("no.such", SET, "1"), E.INVALID_CONFIG, "Unknown group config name"),
        (GROUP_RESOURCE, "g", ("consumer.session.timeout.ms", SET, "x"), E.INVALID_CONFIG, "Not a number of type INT"),
        (GROUP_RESOURCE, "g", ("consumer.session.timeout.ms", SET, "44999"), E.INVALID_CONFIG, "greater than or equal"),
        (GROUP_RESOURCE, "g", ("consumer.session.timeout.ms", SET, "60001"), E.INVALID_CONFIG, "less than or equal"),
        (CLIENT_METRICS_RESOURCE, "", ("a", SET, "1"), E.INVALID_REQUEST, "Subscription name"),
        (CLIENT_METRICS_RESOURCE, "m", ("a", SET, "1"), E.INVALID_REQUEST, "Unknown client metrics"),
        (CLIENT_METRICS_RESOURCE, "m", ("interval.ms", SET, "99"), E.INVALID_REQUEST, "between 100 and 3600000"),
        (CLIENT_METRICS_RESOURCE, "m", ("interval.ms", SET, "x"), E.INVALID_CONFIG, "Not a number"),
        (CLIENT_METRICS_RESOURCE, "m", ("match", SET, "size=1"), E.INVALID_CONFIG, "Illegal client matching"),
        (99, "x", ("a", SET, "1"), E.INVALID_REQUEST, "Unknown resource type 99"),
    ],
)
def test_refusals(metadata, kind, name, change, code, says):
    found, message = altered(metadata, kind, name, change)
    assert found is code
    assert says in message


def test_groups_and_subscriptions(metadata):
    assert altered(metadata, GROUP_RESOURCE, "g", ("consumer.session.timeout.ms", SET, "50000")) == {
        "consumer.session.timeout.ms": "50000"
    }
    found = altered(metadata, CLIENT_METRICS_RESOURCE, "m", ("interval.ms", SET, "100"), ("match", SET, "client_id=a"))
    assert found == {"interval.ms": "100", "match": "client_id=a"}
    assert altered(metadata, GROUP_RESOURCE, "g", ("consumer.session.timeout.ms", DELETE, None)) == {}


def test_one_bad_change_undoes_all_and_a_key_twice_is_none(metadata):
    changes = (("retention.ms", SET, "5"), ("no.such", SET, "1"))
    assert altered(metadata, TOPIC_RESOURCE, "t", *changes)[0] is E.INVALID_CONFIG
    twice = (("retention.ms", SET, "5"), ("retention.ms", SET, "6"))
    assert altered(metadata, TOPIC_RESOURCE, "t", *twice)[0] is E.INVALID_REQUEST
    assert metadata.topics["t"].configs == {}


def test_the_whole_configuration_at_once(metadata):
    altered(metadata, TOPIC_RESOURCE, "t", ("retention.ms", SET, "5"), ("segment.ms", SET, "6"))
    records = whole_change(metadata, TOPIC_RESOURCE, "t", [Change("retention.ms", SET, "7")], KEYS)
    assert {record.name: record.value for record in records} == {"retention.ms": "7", "segment.ms": None}
    refused = whole_change(metadata, TOPIC_RESOURCE, "t", [Change("retention.ms", SET, None)], KEYS)
    assert refused.error_code is E.INVALID_REQUEST


def test_a_number_beyond_its_bounds_is_told_which_one():
    key = TOPIC_CONFIGS["compression.zstd.level"]
    assert str(value_fault(key, "-131073")).endswith("Value must be at least -131072")
    assert str(value_fault(key, "23")).endswith("Value must be no more than 22")
    assert value_fault(key, "22") is None


def test_a_topics_lags_are_looked_at_together_whichever_is_changed(metadata):
    least, most = "min.compaction.lag.ms", "max.compaction.lag.ms"
    crossed = E.INVALID_CONFIG, f"conflict topic config setting {least} (10) > {most} (5)"
    assert altered(metadata, TOPIC_RESOURCE, "t", (least, SET, "10"), (most, SET, "5")) == crossed
    assert altered(metadata, TOPIC_RESOURCE, "t", (least, SET, "10"), (most, SET, "20"))
    assert altered(metadata, TOPIC_RESOURCE, "t", (most, SET, "5")) == crossed
    whole = whole_change(metadata, TOPIC_RESOURCE, "t", [Change(least, SET, "10"), Change(most, SET, "5")], KEYS)
    assert isinstance(whole, Refusal)
    assert (whole.error_code, whole.message) == crossed
    with_default = replace(KEYS, value={"log.cleaner.max.compaction.lag.ms": "5"}.get)
    for change in (Change(most, DELETE, None), Change("retention.ms", SET, "7")):
        refused = incremental_changes(metadata, TOPIC_RESOURCE, "t", [change], with_default)
        assert isinstance(refused, Refusal) == (change.name == most)


def test_what_a_group_and_a_subscription_refuse_as_apache_kafka_does(metadata):
    for value in ("Earliest", "LATEST", "none"):
        refused = altered(metadata, GROUP_RESOURCE, "g", ("share.auto.offset.reset", SET, value))
        assert refused[0] == E.INVALID_CONFIG
    for value in ("earliest", "by_duration:PT1H"):
        assert altered(metadata, GROUP_RESOURCE, "g", ("share.auto.offset.reset", SET, value))
    for key in ("match", "metrics"):
        told = E.INVALID_CONFIG, f"Configuration '{key}' values must not be empty."
        for value in (",", "client_id=a,"):
            assert altered(metadata, CLIENT_METRICS_RESOURCE, "m", (key, SET, value)) == told
    refused = altered(metadata, CLIENT_METRICS_RESOURCE, "m", ("interval.ms", SET, str(-(2**31))))
    assert refused[0] == E.INVALID_REQUEST
