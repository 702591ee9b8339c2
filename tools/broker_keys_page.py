"""`python -m tools.broker_keys_page`: writes docs/broker-keys.md from the broker's configuration; a test says when it is old."""

from __future__ import annotations

import pathlib

from oncelog.broker.config.config import LISTENER_KEYS, BrokerConfig, Rule, rules, text_of
from oncelog.broker.config.config_view import broker_key_kind
from oncelog.broker.config.secret import Secret
from oncelog.broker.metrics.limits import LIMITS
from oncelog.core.metadata.config_documentation import documentation_of
from oncelog.core.metadata.topic_configs import TOPIC_CONFIGS, ConfigKey

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "broker-keys.md"
GROUPS = (  # title and first key of each section, in the order of BrokerConfig
    ("The node and its listeners", "node.id"),
    ("Who clients are", "sasl.enabled.mechanisms"),
    ("Connections and requests", "max.connections"),
    ("Who may do what", "authorizer.class.name"),
    ("Topics", "auto.create.topics.enable"),
    ("The log on disk", "flush.policy"),
    ("Fetches", "fetch.max.bytes"),
    ("Groups and their offsets", "group.min.session.timeout.ms"),
    ("Transactions", "transaction.max.timeout.ms"),
    ("oncelog's own bounds, and metrics", "oncelog.first.request.max.bytes"),
)
INTRO = """\
# Every broker key
The broker reads Kafka's keys under Kafka's names: from a file (`oncelog serve --config server.properties`), from the command
line (`-c KEY=VALUE`), or as `Broker(config={...})`. Keys that begin with `oncelog.`, and `flush.policy`,
`flush.interval.ms`, `journal` and `metrics.listen`, are oncelog's own. An unknown key is refused with the nearest known name. A
key of Kafka's that means nothing here is taken, and a warning names it.

*While it runs*: `oncelog configs` or `kafka-configs` changes it without a restart. All others need one. *Listener*:
`listener.name.NAME.KEY` sets it for one listener ([security](security.md)). What a topic sets for itself wins over the broker's
default.
Written by `tools/broker_keys_page.py` from the configuration's classes.
"""


def meaning(key: str) -> str:
    """What a key does: its own sentence, that of the topic's key whose default it is, or the bound that it sets."""
    if own := documentation_of(key):
        return own
    topic = next((each for each in TOPIC_CONFIGS.values() if each.synonym == key and documentation_of(each.name)), None)
    if topic is not None:
        return f"Default of topics' `{topic.name}`. {documentation_of(topic.name)}"
    limit = next(each for each in LIMITS if each.key == key)
    return f"Bound: {limit.what}. Beyond it: {limit.then}."


def values(kind: type, rule: Rule) -> str:
    """Which values a key takes."""
    if rule.choices:
        return ", ".join(f"`{choice}`" if choice else "empty" for choice in rule.choices)
    if kind is bool:
        return "`true`, `false`"
    if kind in (int, float):
        most = "" if rule.most in _UNBOUNDED else f" to {rule.most}"
        return f"{rule.least}{most or ' or more'}"
    return "shown nowhere" if kind is Secret else ""


_UNBOUNDED = {2**31 - 1, 2**63 - 1, rules()["log.cleaner.io.max.bytes.per.second"][1].most}


def render() -> str:
    """The page."""
    titles = {first: title for title, first in GROUPS}
    parts = [INTRO]
    for key, (kind, rule) in rules().items():
        if key in titles:
            head = ["| key | default | type, values | what it does |", "|---|---|---|---|"]
            parts += [*([""] if len(parts) > 1 else []), f"## {titles[key]}", *head]
        default = text_of(getattr(BrokerConfig(), key.replace(".", "_")))
        shown = f"`{default}`" if default and kind is not Secret else ""
        runs = " *While it runs.*" if rule.is_dynamic else ""
        scope = " *Listener.*" if key in LISTENER_KEYS else ""
        taken = ", ".join(filter(None, (broker_key_kind(key), values(kind, rule))))
        parts.append(f"| `{key}` | {shown} | {taken} | {meaning(key)}{runs}{scope} |")
    parts += ["", "## Topics' keys", *topic_table()]
    return "\n".join(parts) + "\n"


def topic_table() -> list[str]:
    """The keys that a topic may set and oncelog honours, and those that it only keeps."""
    honoured = [each for each in TOPIC_CONFIGS.values() if each.is_honoured]
    kept = ", ".join(f"`{each.name}`" for each in TOPIC_CONFIGS.values() if not each.is_honoured)
    rows = [
        f"| `{each.name}` | {each.kind} | {_inherited(each)} | {documentation_of(each.name)} |" for each in honoured
    ]
    intro = "Each can be changed while the broker runs (`oncelog configs`). A topic's own value beats the broker's."
    head = ["| key | type | default: the broker's | what it does |", "|---|---|---|---|"]
    return [intro, "", *head, *rows, "", f"Taken, stored, shown and without effect here: {kept}."]


def _inherited(key: ConfigKey) -> str:
    return f"`{key.synonym}`" if key.synonym in rules() else f"`{key.default}`"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
    print(f"{PAGE.name} written")
