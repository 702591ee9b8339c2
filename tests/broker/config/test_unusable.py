"""A setting that the others forbid is refused, and passed over where a directory has it: the broker ended, and every start."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from oncelog.broker.config.config import ConfigInvalid, config_from
from oncelog.broker.config.configuration import Configuration
from oncelog.broker.config.dynamic_config import dynamic_fault
from oncelog.broker.config.unusable import unusable, unusable_fault

INTERVAL = "group.consumer.assignment.interval.ms"
TOO_LARGE = f"{INTERVAL}=20000 is larger than group.consumer.max.assignment.interval.ms=15000"


def test_what_the_other_keys_forbid_is_refused():
    fault = Configuration({}).dynamic_keys().fault
    assert fault(INTERVAL, "20000", True) == TOO_LARGE
    assert fault(INTERVAL, "15000", True) is None
    assert unusable_fault(Configuration({}).static, "log.preallocate", "true") is None
    wider = Configuration({"group.consumer.max.assignment.interval.ms": 30_000})
    assert wider.dynamic_keys().fault(INTERVAL, "20000", True) is None


def test_what_a_directory_has_of_it_is_passed_over_and_told_once(caplog):
    altered = {INTERVAL: "20000", "log.roll.ms": "0", "log.retention.ms": "0", "message.max.bytes": "5000"}
    metadata = SimpleNamespace(dynamic_broker_configs=lambda _: dict(altered), broker_configs={"": altered})
    configuration = Configuration({})
    for _ in range(2):
        configuration.follow(metadata)
    current = configuration.in_force()
    assert (current.group_consumer_assignment_interval_ms, current.message_max_bytes) == (1_000, 5_000)
    assert (current.topic_default("log.roll.ms"), current.retention_ms) == ("604800000", 604_800_000)
    assert len(caplog.records) == 3
    told = f"{INTERVAL}=20000 was set while the broker ran, and is passed over: {TOO_LARGE}; "
    way_out = f"`oncelog configs delete --broker default {INTERVAL}` takes it away"
    assert told + way_out in [record.message for record in caplog.records]


def test_no_connections_of_an_address_stay_beside_their_overrides():
    static, _ = config_from({})
    per_ip = {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "localhost:5"}
    assert list(unusable(static, {**per_ip, INTERVAL: "20000"})) == [INTERVAL]


@pytest.mark.parametrize(
    ("key", "refused", "taken"),
    [
        ("log.roll.ms", ("-1", "0"), ("1",)),
        ("log.roll.jitter.ms", ("-1",), ("0",)),
        ("log.retention.ms", ("0", "-2"), ("-1", "1")),
        ("log.cleaner.dedupe.buffer.size", ("1048576",), ("1048577",)),
        ("log.cleaner.io.buffer.size", ("2147483648", "-1"), ("0", "2147483647")),
        ("remote.log.manager.copy.max.bytes.per.second", ("0",), ("1", "9223372036854775807")),
        ("remote.log.manager.fetch.max.bytes.per.second", ("0",), ("1",)),
        ("remote.log.reader.threads", ("0", "2147483648"), ("1",)),
        ("remote.list.offsets.request.timeout.ms", ("0",), ("1",)),
        ("remote.log.index.file.cache.total.size.bytes", ("0",), ("1",)),
        ("share.coordinator.cached.buffer.max.bytes", ("524287",), ("524288",)),
        ("cordoned.log.dirs", ("a",), ()),
    ],
)
def test_a_key_takes_what_apache_kafka_takes(key, refused, taken):
    assert all(dynamic_fault(key, value, True) for value in refused)
    assert not any(dynamic_fault(key, value, True) for value in taken)


def test_the_migration_policy_is_in_any_letters():
    config, _ = config_from({"group.consumer.migration.policy": "UPGRADE"})
    assert config.group_consumer_migration_policy == "upgrade"


def test_nothing_is_kept_for_no_time_at_a_start_either():
    for key in ("log.retention.ms", "log.retention.minutes", "log.retention.hours", "log.roll.ms", "log.roll.hours"):
        with pytest.raises(ConfigInvalid, match=key.replace(".", r"\.")):
            config_from({key: "0"})
