"""Which subscriptions are about a client, and what they want together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog.core.client_metrics.subscriptions import INTERVAL_MS_DEFAULT, ClientInstance, subscription_of, wanted_of

CLIENT = ClientInstance(bytes(range(16)), "app-1", "apache-kafka-java", "4.3.0", "10.0.0.7", 40123)


def wanted(*configs, client=CLIENT):
    return wanted_of(client, [subscription_of(each) for each in configs])


@pytest.mark.parametrize(
    ("match", "is_about_it"),
    [
        ("", True),
        ("client_id=app-.*", True),
        ("client_id=app", False),  # the whole of it
        ("client_software_name=apache-kafka-java,client_software_version=4\\..*", True),
        ("client_software_name=apache-kafka-java, client_software_version = 3\\..*", False),
        ("client_source_address=10\\.0\\.0\\.\\d+", True),
        ("client_source_port=40123", True),
        ("client_source_port=4012", False),
        (f"client_instance_id={CLIENT.instance_name}", True),
        ("client_id=no,client_id=app-1", True),  # the last one counts
        ("client_id=(?=a)", False),  # stored by an older version: nobody matches
    ],
)
def test_matching(match, is_about_it):
    assert bool(wanted({"metrics": "a", "match": match}).metrics) is is_about_it


def test_an_id_reads_as_kafka_writes_a_uuid():
    assert CLIENT.instance_name == "AAECAwQFBgcICQoLDA0ODw"


def test_what_all_want_together():
    nobody = wanted()
    assert (nobody.metrics, nobody.interval_ms) == ((), INTERVAL_MS_DEFAULT)
    both = wanted(
        {"metrics": "b.,a.", "interval.ms": "5000"},
        {"metrics": "a.", "interval.ms": "1000"},
        {"metrics": "c.", "interval.ms": "100", "match": "client_id=other"},
        {"interval.ms": "400000"},
    )
    assert (both.metrics, both.interval_ms) == (("a.", "b."), 1000)
    assert wanted({"metrics": "a,*"}, {"metrics": "b"}).metrics == ("*",)


def test_the_id_changes_with_what_is_wanted_and_with_the_client():
    first = wanted({"metrics": "a"})
    assert wanted({"metrics": "a"}) == first
    others = [
        wanted({"metrics": "b"}),
        wanted({"metrics": "a", "interval.ms": "1000"}),
        wanted({"metrics": "a"}, client=replace(CLIENT, instance_id=bytes(15) + b"\x07")),
    ]
    ids = {each.subscription_id for each in (first, *others)}
    assert len(ids) == 4
    assert all(-(2**31) <= each < 2**31 for each in ids)
