"""Configurations of topics, brokers and groups, and feature levels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from oncelog.client import arguments
from oncelog.client.admin.session import AdminSession
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from oncelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
_KINDS = {
    "topic": TOPIC,
    "broker": BROKER,
    "broker-logger": BROKER_LOGGER,
    "client-metrics": CLIENT_METRICS,
    "group": GROUP,
}
_OF_ONE_BROKER = ("broker", "broker-logger")
_KIND_NAMES = {number: name for name, number in _KINDS.items()}
_SOURCES = {
    0: "unknown",
    1: "dynamic topic",
    2: "dynamic broker",
    3: "dynamic default broker",
    4: "static broker",
    5: "default",
    6: "dynamic broker logger",
    7: "client metrics",
    8: "group",
}
_SET, _DELETE = 0, 1
UPGRADE_TYPES = {"upgrade": 1, "safe_downgrade": 2, "unsafe_downgrade": 3}


class ConfigResource(NamedTuple):
    """What has a configuration: kind "topic", "broker", "broker-logger", "client-metrics" or "group", and its name."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One key's value (None where it is secret or unset) and where it comes from."""

    name: str
    value: str | None
    source: str
    is_read_only: bool
    is_sensitive: bool

    @property
    def is_default(self) -> bool:
        """Whether nobody set it."""
        return self.source == "default"


Configs = dict[str, ConfigEntry]


class AdminConfigs(AdminSession):
    """What an admin can do with configurations and features."""

    async def describe_configs(
        self, resources: Iterable[ConfigResource | tuple[str, str]], *, keys: Iterable[str] | None = None
    ) -> dict[ConfigResource, Configs]:
        """All keys (or these) of each resource. Raises the first error."""
        wanted = [_resource(each) for each in arguments.items("resources", resources, of="ConfigResources")]
        names = None if keys is None else arguments.texts("keys", keys)
        found: dict[ConfigResource, Configs] = {}
        with self._within_one_time("describe configurations"):
            for is_broker in (False, True):
                # A broker answers for itself only; the others are known everywhere.
                for resource in [r for r in wanted if (r.kind in _OF_ONE_BROKER and r.name != "") is is_broker]:
                    asked = DescribeConfigsResource(
                        resource_type=_KINDS[resource.kind], resource_name=resource.name, configuration_keys=names
                    )
                    message = DescribeConfigsRequest(resources=[asked])
                    what = f"describe the configuration of {resource.kind} {resource.name!r}"
                    if is_broker:
                        response = await self._ask_node(what, self._cluster.node(int(resource.name)), message)
                    else:
                        response = await self._ask_any(what, message, is_question=True)
                    found[resource] = self._entries(response, what, resource.name)
        return found

    def _entries(self, response: Any, what: str, name: str) -> Configs:
        result = response.results[0]
        if result.error_code != ErrorCode.NONE:
            raise self._refusal(DescribeConfigsRequest, result.error_code, what, name, told=result.error_message)
        return _by_name(result)

    async def describe_broker_configs(self, broker_id: int | None = None) -> dict[str, str | None]:
        """A broker's configuration (default: any broker's) as plain text."""
        arguments.integer_or_none("broker_id", broker_id)
        node_id = min(self._cluster.view.nodes) if broker_id is None else broker_id
        resource = ConfigResource("broker", str(node_id))
        found = (await self.describe_configs([resource]))[resource]
        return {name: entry.value for name, entry in found.items()}

    async def alter_configs(
        self,
        changes: Mapping[ConfigResource | tuple[str, str], Mapping[str, str | None]],
        *,
        validate_only: bool = False,
    ) -> None:
        """Set keys, or with None put them back to their defaults; other keys stay (KIP-339)."""
        resources = [
            AlterConfigsResource(
                resource_type=_KINDS[resource.kind],
                resource_name=resource.name,
                configs=[
                    AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
                    for key, value in arguments.text_mapping(f"changes of {resource}", values).items()
                ],
            )
            for resource, values in [
                (_resource(each), values)
                for each, values in arguments.mapping("changes", changes, "ConfigResources to changes").items()
            ]
        ]
        arguments.boolean("validate_only", validate_only)
        what = "alter configurations"
        message = IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)
        response = await self._ask_any(what, message, is_question=False)
        for each in response.responses:
            if each.error_code:
                kind = _KIND_NAMES.get(each.resource_type, str(each.resource_type))
                where = f"{kind} {each.resource_name!r}"
                told = f"{where}: {each.error_message or what}"
                more = f"{what} of {where}"
                raise self._refusal(
                    IncrementalAlterConfigsRequest, each.error_code, more, each.resource_name, told=told
                )

    async def update_features(
        self, levels: Mapping[str, int], *, upgrade_type: str = "upgrade", validate_only: bool = False
    ) -> None:
        """Finalize feature levels (0 disables); upgrade_type "upgrade", "safe_downgrade" or "unsafe_downgrade"."""
        arguments.one_of("upgrade_type", upgrade_type, UPGRADE_TYPES)
        arguments.boolean("validate_only", validate_only)
        message = UpdateFeaturesRequest(
            timeout_ms=self._config.request_timeout_ms,
            feature_updates=[
                FeatureUpdateKey(
                    feature=arguments.text("a feature", name),
                    max_version_level=arguments.integer(f"levels[{name!r}]", level, high=arguments.INT16_MAX),
                    upgrade_type=UPGRADE_TYPES[upgrade_type],
                )
                for name, level in arguments.mapping("levels", levels, "features to levels").items()
            ],
            validate_only=validate_only,
        )

        def check(response: Any) -> None:
            self._raise_top_level(UpdateFeaturesRequest, response, "update features")
            for result in response.results:
                if result.error_code:
                    told = f"{result.feature}: {result.error_message}"
                    raise self._refusal(UpdateFeaturesRequest, result.error_code, "update features", told=told)

        await self._ask_controller("update features", message, check)


def _resource(given: Any) -> ConfigResource:
    if not isinstance(given, tuple) or len(given) != 2:
        raise arguments.refuse("a resource", given, "a ConfigResource, or a pair of kind and name")
    kind, name = arguments.one_of("a resource's kind", given[0], _KINDS), arguments.text("a resource's name", given[1])
    if kind in _OF_ONE_BROKER and name and not (name.isascii() and name.isdigit() and len(name) < 10):
        raise arguments.refuse(f"the name of a {kind}", name, "a broker's id, or empty for all of them")
    return ConfigResource(kind, name)


def _by_name(result: Any) -> Configs:
    return {
        each.name: ConfigEntry(
            each.name, each.value, _SOURCES.get(each.config_source, "unknown"), each.read_only, each.is_sensitive
        )
        for each in sorted(result.configs, key=lambda each: each.name)
    }
