"""What a mechanism's JAAS line says, for the one login module that it may name."""

from __future__ import annotations

from oncelog.broker.config.config import ConfigInvalid
from oncelog.broker.config.secret import Secret
from oncelog.core.jaas import JaasInvalid, jaas_entry


def jaas_options(line: Secret, key: str, module: str) -> dict[str, str]:
    """The options of the line's entry. Raises ConfigInvalid, naming the key and nothing of the line."""
    try:
        entry = jaas_entry(line.text)
    except JaasInvalid as error:
        raise ConfigInvalid(f"{key}: {error}") from error
    if entry.module != module:
        raise ConfigInvalid(f"{key}: expected {module}")
    return entry.options
