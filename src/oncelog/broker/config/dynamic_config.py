"""Which of a broker's keys may be changed while it runs, and to what; in Kafka's words."""

from __future__ import annotations

from oncelog.broker.config.config import ConfigInvalid, parse_value, rules
from oncelog.broker.config.config_view import broker_key_kind
from oncelog.broker.config.unhonoured_keys import (
    DYNAMIC_BOUNDS,
    DYNAMIC_KINDS,
    is_known_to_kafka,
    is_of_one_broker,
)
from oncelog.core.metadata.topic_configs import ConfigKey, value_fault


def dynamic_fault(name: str, value: str, is_default: bool) -> str | None:
    """Why a dynamic value is refused, of one broker or (`is_default`) of all; None where nothing is wrong.

    A key that nobody knows is refused: Kafka stores it, and a typing mistake passes silently.
    """
    known = rules().get(name)
    if known is None and name not in DYNAMIC_KINDS:
        if is_known_to_kafka(name):
            return f"Cannot update these configs dynamically: [{name}]"
        return f"Unknown broker config name: {name}"
    if known is not None and not known[1].is_dynamic:
        return f"Cannot update these configs dynamically: [{name}]"
    if is_default and is_of_one_broker(name):
        return f"Cannot update these configs at default cluster level, broker id must be specified: [{name}]"
    kind = broker_key_kind(name)
    if known is None:
        bounds = DYNAMIC_BOUNDS.get(name, (0, 2**31 - 1 if kind == "int" else 2**63 - 1))
        entry = ConfigKey(name, kind, "", least=bounds[0], most=bounds[1])
        return value_fault(entry, value.strip())
    rule = known[1]
    fault = value_fault(
        ConfigKey(
            name, "string" if kind == "list" else kind, "", least=rule.least, most=rule.most, choices=rule.choices
        ),
        value.strip(),
    )
    if fault is None:
        try:
            parse_value(name, value)
        except ConfigInvalid as error:
            return str(error)
    return fault
