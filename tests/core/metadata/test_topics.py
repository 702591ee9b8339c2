"""What a new topic may be, as decisions over the metadata."""

from __future__ import annotations

import pytest

from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.core.metadata.refusal import Refusal
from oncelog.core.metadata.topics import Defaults, NewTopic, create_topic
from oncelog.errors import ErrorCode
from oncelog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig

LEAST, MOST = "min.compaction.lag.ms", "max.compaction.lag.ms"


def created(broker_values: dict[str, str], name: str = "t", **configs: str) -> NewTopic | Refusal:
    asked = CreatableTopic(
        name=name,
        num_partitions=1,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )
    return create_topic(ClusterMetadata(), asked, Defaults(1, 1, lambda: b"t" * 16, broker_value=broker_values.get))


@pytest.mark.parametrize(
    ("broker_values", "configs"),
    [
        ({}, {"min_compaction_lag_ms": "10", "max_compaction_lag_ms": "5"}),
        ({"log.cleaner.max.compaction.lag.ms": "5"}, {"min_compaction_lag_ms": "10"}),
        (
            {"log.cleaner.max.compaction.lag.ms": "5", "log.cleaner.min.compaction.lag.ms": "10"},
            {"retention_ms": "7"},
        ),
    ],
)
def test_a_topics_lags_do_not_contradict_one_another_nor_the_brokers(broker_values, configs):
    outcome = created(broker_values, **configs)
    assert isinstance(outcome, Refusal)
    told = f"conflict topic config setting {LEAST} (10) > {MOST} (5)"
    assert (outcome.error_code, outcome.message) == (ErrorCode.INVALID_CONFIG, told)


def test_crossed_defaults_keep_no_topic_from_being_made_that_sets_nothing_or_that_groups_need():
    crossed = {"log.cleaner.max.compaction.lag.ms": "5", "log.cleaner.min.compaction.lag.ms": "10"}
    assert isinstance(created(crossed), NewTopic)
    assert isinstance(created(crossed, "__consumer_offsets", cleanup_policy="compact"), NewTopic)
