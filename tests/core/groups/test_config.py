"""Settings carry Kafka's names and defaults."""

from __future__ import annotations

from oncelog.core.groups.config import KAFKA_KEYS, GroupConfig


def test_every_setting_has_its_kafka_key():
    assert set(KAFKA_KEYS) == set(GroupConfig.__dataclass_fields__)
    assert all(key.replace(".", "_") == field for field, key in KAFKA_KEYS.items())


def test_offsets_are_kept_for_a_week():
    assert GroupConfig().offsets_retention_ms == 7 * 24 * 3_600_000
