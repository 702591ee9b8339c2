"""Names that are not durable yet, and what a log needs of a topic's settings."""

from __future__ import annotations

import pytest
from evidence.world.files import Fault, Keep, SimFiles

from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.partitions.partition_files import (
    INT64_MAX,
    NewNames,
    UnsyncedFile,
    internal_topic_configs,
    log_config,
)
from oncelog.core.metadata.topic_configs import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, settings
from oncelog.errors import StorageError
from oncelog.log.files import DirectoryNames


@pytest.fixture
def files():
    files = SimFiles()
    files.make_directory("d")
    files.sync_directory("")
    return files


def test_a_file_is_synced_by_its_name(files):
    files.open("d/f").write_at(0, b"content")
    files.sync_directory("d")
    UnsyncedFile(files, "d/f").sync()
    files.crash(Keep.NONE)
    assert files.read_whole("d/f") == b"content"


def test_a_file_that_went_with_its_topic_needs_no_sync(files):
    UnsyncedFile(files, "d/gone").sync()
    assert not files.exists("d/gone"), "and is not made again"


def test_a_file_that_cannot_be_synced_is_told(files):
    files.open("d/f").write_at(0, b"content")
    files.fail_at(1, Fault.SYNC_ERROR)
    with pytest.raises(StorageError):
        UnsyncedFile(files, "d/f").sync()


def test_a_file_that_is_there_and_cannot_be_opened_is_told(files, monkeypatch):
    files.open("d/f")

    def refuse(path, create=True):
        raise StorageError("too many open files")

    monkeypatch.setattr(files, "open", refuse)
    with pytest.raises(StorageError, match="too many"):
        UnsyncedFile(files, "d/f").sync()


def test_new_names_that_failed_once_fail_for_good(files):
    """The sync may have dropped any of them; a second one would say that all is well."""
    names = NewNames(DirectoryNames(files, "d"))
    names.sync()
    files.fail_at(1, Fault.SYNC_ERROR)
    for _ in range(2):
        with pytest.raises(StorageError):
            names.sync()
    assert names.failure is not None
    NewNames(DirectoryNames(files, "d")).sync()


def test_a_log_takes_its_limits_from_the_topic():
    chosen = settings(
        {"segment.bytes": "1000", "segment.ms": "50", "retention.ms": "70", "retention.bytes": "90"},
        BrokerConfig().topic_default,
    )
    config = log_config(chosen)
    assert (config.segment_bytes, config.segment_ms, config.retention_ms, config.retention_bytes) == (1000, 50, 70, 90)
    assert not config.may_have_gaps
    assert log_config(chosen, was_cleaned=True).may_have_gaps


def test_a_compacted_log_rolls_within_its_lag_and_may_have_gaps():
    configs = {"segment.ms": "5000", "max.compaction.lag.ms": "30", "cleanup.policy": "compact"}
    config = log_config(settings(configs, BrokerConfig().topic_default))
    assert (config.segment_ms, config.may_have_gaps) == (30, True)
    configs["cleanup.policy"] = "delete"
    assert log_config(settings(configs, BrokerConfig().topic_default)).segment_ms == 5000
    assert INT64_MAX == 2**63 - 1


def test_what_is_cleaned_soon_has_small_segments_while_it_is_compacted():
    configs = {"segment.bytes": "104857600", "cleanup.policy": "compact"}
    default = BrokerConfig().topic_default
    assert log_config(settings(configs, default), is_cleaned_soon=True).segment_bytes == 1 << 20
    assert log_config(settings(configs, default)).segment_bytes == 104857600
    small = settings(configs | {"segment.bytes": "5000"}, default)
    assert log_config(small, is_cleaned_soon=True).segment_bytes == 5000
    configs["cleanup.policy"] = "delete"
    assert log_config(settings(configs, default), is_cleaned_soon=True).segment_bytes == 104857600


def test_internal_topics_are_compacted_and_have_segments_of_their_own():
    config = BrokerConfig()
    offsets = internal_topic_configs(CONSUMER_OFFSETS_TOPIC, config)
    transactions = internal_topic_configs(TRANSACTION_STATE_TOPIC, config)
    assert offsets["cleanup.policy"] == transactions["cleanup.policy"] == "compact"
    assert offsets["segment.bytes"] == str(config.offsets_topic_segment_bytes)
    assert transactions["segment.bytes"] == str(config.transaction_state_log_segment_bytes)
    assert (offsets["compression.type"], transactions["compression.type"]) == ("producer", "uncompressed")
    assert transactions["unclean.leader.election.enable"] == "false"
    assert transactions["min.insync.replicas"] == str(config.transaction_state_log_min_isr)
