"""A share group's own configs, within the broker's bounds."""

from __future__ import annotations

from oncelog.core.share.settings import ShareConfig, ShareSettings


def test_defaults_are_kafkas():
    assert ShareConfig().settings({}) == ShareSettings()


def test_a_groups_own_values_within_the_brokers_bounds():
    own = {
        "share.record.lock.duration.ms": "1000",
        "share.delivery.count.limit": "100",
        "share.partition.max.record.locks": "150",
        "share.isolation.level": "READ_COMMITTED",
        "share.renew.acknowledge.enable": "false",
        "share.auto.offset.reset": "EARLIEST",
    }
    assert ShareConfig().settings(own) == ShareSettings(15_000, 10, 150, True, False, "earliest")
    assert [ShareSettings(delivery_count_limit=limit).throttled_deliveries for limit in (2, 3, 5, 6)] == [2, 2, 3, 3]
