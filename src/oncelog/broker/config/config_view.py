"""How configuration looks from outside: values with their sources and synonyms, as DescribeConfigs shows them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from oncelog.broker.config.config import BrokerConfig, rules, text_of
from oncelog.broker.config.secret import Secret
from oncelog.broker.config.unhonoured_keys import DYNAMIC_KINDS
from oncelog.core.metadata.cluster import CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, Topic
from oncelog.core.metadata.config_documentation import documentation_of
from oncelog.core.metadata.resource_configs import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS
from oncelog.core.metadata.topic_configs import TOPIC_CONFIGS, ConfigKey
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.messages.create_topics import CreatableTopicConfigs
from oncelog.wire.messages.describe_configs import DescribeConfigsResourceResult, DescribeConfigsSynonym

DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT_BROKER, STATIC_BROKER, DEFAULT = 1, 2, 3, 4, 5
DYNAMIC_CLIENT_METRICS, DYNAMIC_GROUP = 7, 8
_TYPES = {"boolean": 1, "string": 2, "int": 3, "short": 4, "long": 5, "double": 6, "list": 7, "class": 8, "password": 9}
_LISTS = frozenset(
    ("advertised.listeners", "group.consumer.assignors", "listeners", "log.cleanup.policy", "log.dir", "log.dirs")
) | {
    "controller.listener.names",
    "sasl.enabled.mechanisms",
    "sasl.oauthbearer.expected.audience",
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
}
_INT_MAX = 2**31 - 1
# Keys that say the same in other units, the most precise first; unset ones have no value of their own in Kafka.
_CHAINS = {
    "log.retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "log.retention.minutes": ("log.retention.minutes", "log.retention.hours"),
    "log.roll.ms": ("log.roll.ms", "log.roll.hours"),
}
_TIME_SYNONYMS = frozenset(("log.flush.interval.ms", "log.roll.jitter.ms", *_CHAINS))
_MS = {"log.retention.minutes": 60_000, "log.retention.hours": 3_600_000, "log.roll.hours": 3_600_000}


@dataclass(frozen=True, slots=True)
class Source:
    """A value, under which key, and where it comes from (Kafka's numbers)."""

    name: str
    value: str | None
    source: int


def broker_key_kind(key: str) -> str:
    """Kafka's type of a broker's key."""
    known = rules().get(key)
    if known is None:
        return DYNAMIC_KINDS.get(key, "string")
    kind, rule = known
    if kind is Secret:
        return "password"
    if kind is str:
        return "list" if key in _LISTS else "string"
    if kind is float:
        return "double"
    return "boolean" if kind is bool else "int" if rule.most <= _INT_MAX else "long"


@dataclass(frozen=True, slots=True)
class BrokerValues:
    """Where a broker's values come from: its own dynamic ones, every broker's, the file it was started with."""

    static: BrokerConfig
    static_keys: Collection[str]
    own: Mapping[str, str]
    default: Mapping[str, str]

    def sources(self, key: str) -> list[Source]:
        """Every value of a broker's key, the one in force first; keys in other units after it, where one is set."""
        found = [source for each in _CHAINS.get(key, (key,)) for source in self._sources_of(each)]
        return [] if key in _CHAINS and all(each.source == DEFAULT for each in found) else found

    def _sources_of(self, key: str) -> Iterator[Source]:
        if key in self.own:
            yield Source(key, self.own[key], DYNAMIC_BROKER)
        if key in self.default:
            yield Source(key, self.default[key], DYNAMIC_DEFAULT_BROKER)
        if key not in rules():
            return
        name = key.replace(".", "_")
        if key in self.static_keys:
            yield Source(key, text_of(getattr(self.static, name)), STATIC_BROKER)
        if key not in _CHAINS:
            yield Source(key, text_of(getattr(BrokerConfig(), name)), DEFAULT)

    def for_topics(self, entry: ConfigKey) -> list[Source]:
        """Where a topic's value comes from when it has none itself; times in other units are Kafka's to convert."""
        if not entry.synonym:
            return []
        found = self.sources(entry.synonym)
        if entry.synonym in _TIME_SYNONYMS and all(each.source == DEFAULT for each in found):
            return []  # Kafka names no synonym for these unless one is set
        return found or [Source(entry.synonym, entry.default, DEFAULT)]


def _in_ms(source: Source) -> str | None:
    if source.name in _MS and source.value is not None:
        return str(int(source.value) * _MS[source.name]) if int(source.value) >= 0 else "-1"
    return source.value


def _topic_sources(entry: ConfigKey, overrides: Mapping[str, str], broker: BrokerValues, own: int) -> list[Source]:
    mine = [Source(entry.name, overrides[entry.name], own)] if entry.name in overrides else []
    return mine + broker.for_topics(entry)


def _in_force(entry: ConfigKey, sources: list[Source]) -> tuple[str | None, int]:
    value, source = (_in_ms(sources[0]), sources[0].source) if sources else (entry.default, DEFAULT)
    return (_without_repetition(value) if value and entry.kind == "list" else value), source


def _without_repetition(value: str) -> str:
    """A list is shown as it is understood; what is stored, and what APPEND begins with, is what was set."""
    return ",".join(dict.fromkeys(item.strip() for item in value.split(",")))


class CreatedTopicConfigs:
    """The whole configurations of topics that one request creates (KIP-525). What is the broker's is worked out once: for each
    of two hundred topics it took nine tenths of what their creation cost."""

    def __init__(self, broker: BrokerValues) -> None:
        self._broker = broker
        self._common = {name: self._config(entry, {}) for name, entry in TOPIC_CONFIGS.items()}

    def of(self, topic: Topic) -> list[CreatableTopicConfigs]:
        """A topic's; nobody may change what is in the list: other topics have it, too."""
        return [
            self._config(TOPIC_CONFIGS[name], topic.configs) if name in topic.configs else common
            for name, common in self._common.items()
        ]

    def _config(self, entry: ConfigKey, overrides: Mapping[str, str]) -> CreatableTopicConfigs:
        value, source = _in_force(entry, _topic_sources(entry, overrides, self._broker, DYNAMIC_TOPIC))
        return CreatableTopicConfigs(name=entry.name, value=value, config_source=source)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a request asks for: these keys (None: all), synonyms, documentation."""

    keys: list[str] | None
    with_synonyms: bool
    with_documentation: bool

    def has(self, key: str) -> bool:
        """Whether a key is asked for; unknown ones are left out silently (docs/kafka-notes.md A5)."""
        return self.keys is None or key in self.keys


def topic_results(topic: Topic, broker: BrokerValues, wanted: Wanted) -> list[DescribeConfigsResourceResult]:
    """A topic's configs."""
    return [
        _result(name, entry.kind, _topic_sources(entry, topic.configs, broker, DYNAMIC_TOPIC), entry, wanted)
        for name, entry in TOPIC_CONFIGS.items()
        if wanted.has(name)
    ]


def resource_results(
    resource_type: int, overrides: Mapping[str, str], broker: BrokerValues, wanted: Wanted
) -> list[DescribeConfigsResourceResult]:
    """The configs of a group or of a client-metrics subscription."""
    table = {GROUP_RESOURCE: GROUP_CONFIGS, CLIENT_METRICS_RESOURCE: CLIENT_METRICS_CONFIGS}[resource_type]
    own = DYNAMIC_GROUP if resource_type == GROUP_RESOURCE else DYNAMIC_CLIENT_METRICS
    return [
        _result(name, entry.kind, _topic_sources(entry, overrides, broker, own), entry, wanted)
        for name, entry in table.items()
        if wanted.has(name)
    ]


def _result(
    name: str, kind: str, sources: list[Source], entry: ConfigKey, wanted: Wanted
) -> DescribeConfigsResourceResult:
    value, source = _in_force(entry, sources)
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        config_source=source,
        synonyms=_synonyms(sources, wanted),
        config_type=_TYPES[kind],
        documentation=documentation_of(name) if wanted.with_documentation else None,
    )


def _synonyms(sources: list[Source], wanted: Wanted) -> list[DescribeConfigsSynonym]:
    if not wanted.with_synonyms:
        return []
    return [DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source) for each in sources]


def broker_results(broker: BrokerValues, wanted: Wanted) -> list[DescribeConfigsResourceResult]:
    """The broker's configs: every honoured key with its value in force, and dynamic ones that are only stored."""
    keys = [key for key in sorted({*rules(), *broker.own, *broker.default}) if wanted.has(key)]
    return [_broker_result(key, broker.sources(key), wanted) for key in keys]


def default_broker_results(broker: BrokerValues, wanted: Wanted) -> list[DescribeConfigsResourceResult]:
    """What is set for every broker."""
    return [
        _broker_result(key, [Source(key, value, DYNAMIC_DEFAULT_BROKER)], wanted)
        for key, value in sorted(broker.default.items())
        if wanted.has(key)
    ]


def _broker_result(key: str, sources: list[Source], wanted: Wanted) -> DescribeConfigsResourceResult:
    known = rules().get(key)
    kind = broker_key_kind(key)
    is_secret = kind == "password"
    first = next((each for each in sources if each.name == key), None)
    return DescribeConfigsResourceResult(
        name=key,
        value=None if is_secret or first is None else first.value,
        read_only=known is not None and not known[1].is_dynamic,
        config_source=sources[0].source if sources else DEFAULT,
        is_sensitive=is_secret,
        synonyms=[] if is_secret else _synonyms(sources, wanted),
        config_type=_TYPES[kind],
        documentation=documentation_of(key) if wanted.with_documentation else None,
    )
