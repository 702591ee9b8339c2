"""What a partition is configured with: its topic's settings, and the leader's rules."""

from __future__ import annotations

from oncelog.broker.config.config import BrokerConfig
from oncelog.core.leader.partition import PartitionConfig
from oncelog.core.metadata.cluster import Topic
from oncelog.core.metadata.topic_configs import TopicSettings, settings

KNOWN_SETTINGS_MAX = 1_000  # of different sets of topics' own configs


class KnownSettings:
    """The same for all partitions of a topic, and mostly for all topics: they are read once from the texts."""

    def __init__(self) -> None:
        self._config: BrokerConfig | None = None
        self._known: dict[tuple[tuple[str, str], ...], TopicSettings] = {}

    def of(self, topic: Topic, config: BrokerConfig) -> TopicSettings:
        """A topic's settings under the configuration that is in force."""
        if self._config is not config or len(self._known) > KNOWN_SETTINGS_MAX:
            self._config, self._known = config, {}
        overrides = tuple(sorted(topic.configs.items()))
        chosen = self._known.get(overrides)
        if chosen is None:
            chosen = self._known[overrides] = settings(topic.configs, config.topic_default)
        return chosen


def rules_config(config: BrokerConfig) -> PartitionConfig:
    """What the leader's rules are told of the broker's configuration."""
    return PartitionConfig(
        verification_enabled=config.transaction_partition_verification_enable,
        producer_id_expiration_ms=config.producer_id_expiration_ms,
        transaction_timeout_ms_max=config.transaction_max_timeout_ms,
        producer_count_max=config.oncelog_max_producer_ids_per_partition,
    )
