"""One broker's configuration over its life: what it was started with, and what is in force since something was altered."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from oncelog.broker.config.config import BrokerConfig, config_from, rules, text_of
from oncelog.broker.config.config_view import BrokerValues, broker_key_kind
from oncelog.broker.config.dynamic_config import dynamic_fault
from oncelog.broker.config.shutting_out import shutting_out, shutting_out_fault
from oncelog.broker.config.unusable import unusable, unusable_fault
from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.core.metadata.configs import BrokerKeys

_log = logging.getLogger("oncelog.broker")


class Configuration:
    """`static` never changes, `current` does; `warnings` name what was given and has no effect. Raises ConfigInvalid."""

    def __init__(self, given: Mapping[str, object]) -> None:
        self.static, self.warnings = config_from(given)
        self.static_keys = frozenset(given)
        self.current = self.static
        self._shown, self._shown_keys = self.static, self.static_keys
        self._passed_over: list[str] = []

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
        shut = shutting_out(self.static, in_force)
        rest = {key: value for key, value in in_force.items() if key not in shut}
        passed_over = dict.fromkeys(shut, "nobody could connect") | unusable(self.static, rest)
        for key, why in passed_over.items():
            value = in_force.pop(key)
            if key not in self._passed_over:
                own = metadata.broker_configs.get(str(self.static.node_id), {})
                whose = self.static.node_id if key in own else "default"
                way_out = f"`oncelog configs delete --broker {whose} {key}` takes it away"
                told = "%s=%s was set while the broker ran, and is passed over: %s; %s"
                _log.warning(told, key, value, why, way_out)
        self._passed_over = list(passed_over)
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
            self._fault,
            self.value,
            self.current.oncelog_max_config_resources,
        )

    def _fault(self, name: str, value: str, is_default: bool) -> str | None:
        return (
            dynamic_fault(name, value, is_default)
            or shutting_out_fault(self.current, name, value)
            or unusable_fault(self.current, name, value)
        )
