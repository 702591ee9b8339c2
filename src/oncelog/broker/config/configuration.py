"""One broker's configuration over its life: what it was started with, and what is in force since something was altered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oncelog.broker.config.config import BrokerConfig, config_from, rules, text_of
from oncelog.broker.config.config_view import BrokerValues, broker_key_kind
from oncelog.broker.config.dynamic_config import dynamic_fault
from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.core.metadata.configs import BrokerKeys


class Configuration:
    """`static` never changes, `current` does; `warnings` name what was given and has no effect. Raises ConfigInvalid."""

    def __init__(self, given: Mapping[str, object]) -> None:
        self.static, self.warnings = config_from(given)
        self.static_keys = frozenset(given)
        self.current = self.static
        self._shown, self._shown_keys = self.static, self.static_keys

    def set_by_arguments(self, data_directory: str, listen: Sequence[str]) -> None:
        """Where the data is and, if no `listeners` are given, where it listens: shown as set, like any static value."""
        by_arguments = {"log.dirs": data_directory}
        if not self.static.listeners:
            by_arguments["listeners"] = ",".join(text if "://" in text else f"PLAINTEXT://{text}" for text in listen)
        self._shown, _ = config_from(by_arguments, base=self.static)
        self._shown_keys = self.static_keys | by_arguments.keys()

    def in_force(self) -> BrokerConfig:
        """The configuration as of now."""
        return self.current

    def follow(self, metadata: ClusterMetadata) -> None:
        """Take over what the metadata says was altered."""
        dynamic = metadata.dynamic_broker_configs(self.static.node_id)
        in_force = {key: value for key, value in dynamic.items() if key in rules() and rules()[key][1].is_dynamic}
        self.current, _ = config_from(in_force, base=self.static)

    def value(self, key: str) -> str | None:
        """The value in force of a broker's key; None for a key that it has not."""
        return text_of(getattr(self.current, key.replace(".", "_"))) if key in rules() else None

    def values(self, metadata: ClusterMetadata) -> BrokerValues:
        """Where each value comes from."""
        dynamic = metadata.broker_configs
        own = dynamic.get(str(self.static.node_id), {})
        return BrokerValues(self._shown, self._shown_keys, own, dynamic.get("", {}))

    def dynamic_keys(self) -> BrokerKeys:
        """What may be altered while the broker runs."""
        return BrokerKeys(
            self.static.node_id,
            lambda name: broker_key_kind(name) == "list",
            dynamic_fault,
            self.value,
            self.current.oncelog_max_config_resources,
        )
