"""A setting that lets nobody in cannot be undone by anybody: it is refused, and passed over where a directory has it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from oncelog.broker.config.config import ConfigInvalid, config_from
from oncelog.broker.config.configuration import Configuration
from oncelog.broker.config.shutting_out import shutting_out, shutting_out_fault

KAFKAS_WORDS = "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set."
PER_IP, OVERRIDES = "max.connections.per.ip", "max.connections.per.ip.overrides"


def config(**values):
    return config_from({key.replace("_", "."): value for key, value in values.items()})[0]


def test_no_connections_at_all_are_refused_at_a_start():
    with pytest.raises(ConfigInvalid, match=r"max\.connections=0"):
        config(max_connections=0)
    with pytest.raises(ConfigInvalid, match=r"max\.connections\.per\.ip=0 needs max\.connections\.per\.ip\.overrides"):
        config(max_connections_per_ip=0)
    assert config(max_connections_per_ip=0, max_connections_per_ip_overrides="localhost:5").max_connections_per_ip == 0


def test_no_connections_of_an_address_need_overrides_while_it_runs():
    assert shutting_out_fault(config(), PER_IP, "0") == KAFKAS_WORDS
    assert shutting_out_fault(config(), PER_IP, "1") is None
    assert shutting_out_fault(config(max_connections_per_ip_overrides="localhost:5"), PER_IP, "0") is None
    shut = config(max_connections_per_ip=0, max_connections_per_ip_overrides="localhost:5")
    assert shutting_out_fault(shut, OVERRIDES, " ") == KAFKAS_WORDS
    assert shutting_out_fault(config(), OVERRIDES, "") is None
    assert Configuration({}).dynamic_keys().fault(PER_IP, "0", False) == KAFKAS_WORDS
    assert Configuration({}).dynamic_keys().fault("max.connections", "0", False) is not None


def test_what_shuts_everybody_out_is_found_among_what_was_altered():
    assert shutting_out(config(), {"max.connections": "0", PER_IP: "7"}) == ["max.connections"]
    assert shutting_out(config(), {PER_IP: "0"}) == [PER_IP]
    assert shutting_out(config(), {PER_IP: "0", OVERRIDES: "localhost:5"}) == []
    shut = config(max_connections_per_ip=0, max_connections_per_ip_overrides="localhost:5")
    assert shutting_out(shut, {}) == []
    assert shutting_out(shut, {OVERRIDES: ""}) == [OVERRIDES]


def test_what_a_directory_has_of_it_is_passed_over_and_told_once(caplog):
    altered = {"max.connections": "0", PER_IP: "0", "message.max.bytes": "5000"}
    metadata = SimpleNamespace(dynamic_broker_configs=lambda _: dict(altered), broker_configs={"1": altered})
    configuration = Configuration({"max.connections": 8})
    for _ in range(2):
        configuration.follow(metadata)
    current = configuration.in_force()
    assert (current.max_connections, current.max_connections_per_ip > 0, current.message_max_bytes) == (8, True, 5000)
    assert [record.message for record in caplog.records] == [
        f"{key}=0 was set while the broker ran, and is passed over: nobody could connect; "
        f"`oncelog configs delete --broker 1 {key}` takes it away"
        for key in ("max.connections", PER_IP)
    ]
    altered.pop(PER_IP)
    configuration.follow(metadata)
    altered[PER_IP] = "0"
    configuration.follow(metadata)
    assert len(caplog.records) == 3
