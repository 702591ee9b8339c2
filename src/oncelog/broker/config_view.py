"""How configuration looks from outside: values with their sources and synonyms, as DescribeConfigs shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncelog.broker.config import BrokerConfig, rules, text_of
from oncelog.core.cluster_metadata import Topic
from oncelog.core.topic_configs import TOPIC_CONFIGS, TopicConfig, effective
from oncelog.wire.messages.create_topics import CreatableTopicConfigs
from oncelog.wire.messages.describe_configs import DescribeConfigsResourceResult, DescribeConfigsSynonym

DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT_BROKER, STATIC_BROKER, DEFAULT = 1, 2, 3, 4, 5
_TYPES = {"boolean": 1, "string": 2, "int": 3, "short": 4, "long": 5, "double": 6, "list": 7, "class": 8, "password": 9}
_KINDS: dict[type, str] = {bool: "boolean", str: "string", int: "long"}


def created_topic_configs(
    topic: Topic, config: BrokerConfig, static_keys: Iterable[str]
) -> list[CreatableTopicConfigs]:
    """The whole configuration of a topic just created (KIP-525)."""
    return [
        CreatableTopicConfigs(
            name=name,
            value=effective(name, topic.configs, config.topic_default),
            config_source=_source(entry, topic.configs, static_keys),
        )
        for name, entry in TOPIC_CONFIGS.items()
    ]


def topic_results(
    topic: Topic, config: BrokerConfig, static_keys: Iterable[str], *, keys: list[str] | None, with_synonyms: bool
) -> list[DescribeConfigsResourceResult]:
    """A topic's configs; `keys` of None is all of them, unknown ones are left out (observed A5)."""
    return [
        DescribeConfigsResourceResult(
            name=name,
            value=effective(name, topic.configs, config.topic_default),
            config_source=_source(entry, topic.configs, static_keys),
            synonyms=_topic_synonyms(entry, topic.configs, config, static_keys) if with_synonyms else [],
            config_type=_TYPES[entry.kind],
            documentation=None,
        )
        for name, entry in TOPIC_CONFIGS.items()
        if keys is None or name in keys
    ]


def _source(entry: TopicConfig, overrides: Mapping[str, str], static_keys: Iterable[str]) -> int:
    if entry.name in overrides:
        return DYNAMIC_TOPIC
    return STATIC_BROKER if entry.synonym in static_keys else DEFAULT


def _topic_synonyms(
    entry: TopicConfig, overrides: Mapping[str, str], config: BrokerConfig, static_keys: Iterable[str]
) -> list[DescribeConfigsSynonym]:
    found = []
    if entry.name in overrides:
        found.append(DescribeConfigsSynonym(name=entry.name, value=overrides[entry.name], source=DYNAMIC_TOPIC))
    if entry.synonym:
        if entry.synonym in static_keys:
            inherited = config.topic_default(entry.synonym)
            found.append(DescribeConfigsSynonym(name=entry.synonym, value=inherited, source=STATIC_BROKER))
        found.append(DescribeConfigsSynonym(name=entry.synonym, value=entry.default, source=DEFAULT))
    return found


def broker_results(
    config: BrokerConfig,
    static_keys: Iterable[str],
    dynamic: Mapping[str, str],
    dynamic_default: Mapping[str, str],
    *,
    keys: list[str] | None,
    with_synonyms: bool,
) -> list[DescribeConfigsResourceResult]:
    """The broker's configs: every honoured key with its value in force."""
    defaults = BrokerConfig()
    results = []
    for key, (kind, rule) in sorted(rules().items()):
        if keys is not None and key not in keys:
            continue
        name = key.replace(".", "_")
        sources = [
            (dynamic.get(key), DYNAMIC_BROKER),
            (dynamic_default.get(key), DYNAMIC_DEFAULT_BROKER),
            (text_of(getattr(config, name)) if key in static_keys else None, STATIC_BROKER),
            (text_of(getattr(defaults, name)), DEFAULT),
        ]
        found = [(value, source) for value, source in sources if value is not None]
        results.append(
            DescribeConfigsResourceResult(
                name=key,
                value=found[0][0],
                read_only=not rule.is_dynamic,
                config_source=found[0][1],
                synonyms=[DescribeConfigsSynonym(name=key, value=value, source=source) for value, source in found]
                if with_synonyms
                else [],
                config_type=_TYPES[_KINDS[kind]],
                documentation=None,
            )
        )
    return results
