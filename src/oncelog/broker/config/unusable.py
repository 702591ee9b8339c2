"""Altered settings that cannot be in force beside the others: a broker would end with them, and start no more."""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.broker.config.config import BrokerConfig, ConfigInvalid, config_from, rules


def unusable_fault(current: BrokerConfig, name: str, value: str) -> str | None:
    """Why a value cannot be set while `current` is in force; None where it can."""
    return unusable(current, {name: value}).get(name) if name in rules() else None


def unusable(static: BrokerConfig, altered: Mapping[str, str]) -> dict[str, str]:
    """What of it cannot be used, and why: an earlier commit took it, or the broker was started with other bounds."""
    try:
        config_from(altered, base=static)
    except ConfigInvalid:
        pass
    else:
        return {}
    found: dict[str, str] = {}
    taken = static
    for key in sorted(altered, reverse=True):  # max.connections.per.ip behind its overrides, without which 0 is refused
        try:
            taken, _ = config_from({key: altered[key]}, base=taken)
        except ConfigInvalid as error:
            found[key] = str(error)
    return found
