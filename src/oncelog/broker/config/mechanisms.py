"""The SASL mechanisms of a listener, as its keys have them: how long sessions last, and by what users are believed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from oncelog.broker.config.bearer_config import OAUTHBEARER, BearerConfig, bearer_config
from oncelog.broker.config.config import BrokerConfig, ConfigInvalid, of_listener
from oncelog.broker.config.jaas_options import jaas_options
from oncelog.broker.config.secret import Secret
from oncelog.core.jaas import PLAIN_MODULE
from oncelog.core.sasl.plain import digests_of
from oncelog.core.scram import HASHES
from oncelog.lazy_dataclass import dataclass

PLAIN = "PLAIN"
MECHANISMS = (PLAIN, *HASHES, OAUTHBEARER)
USER_PREFIX = "user_"


@dataclass(frozen=True, slots=True)
class MechanismConfig:
    """A mechanism of a listener: how long its sessions are (0: without an end), and by what users are believed."""

    session_ms: int
    digests: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    bearer: BearerConfig | None = None


def mechanisms_of(config: BrokerConfig, listener: str) -> dict[str, MechanismConfig]:
    """The mechanisms of a listener that has SASL. Raises ConfigInvalid."""
    key = "sasl.enabled.mechanisms"
    text = of_listener(config, listener, key, config.sasl_enabled_mechanisms)
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ConfigInvalid(f"listener {listener}: {key} does not say how clients authenticate")
    for name in names:
        if name not in MECHANISMS:
            raise ConfigInvalid(f"{key}: {name[:40]!r} is not built: {', '.join(MECHANISMS)} are")
    return {name: _mechanism(config, listener, name) for name in names}


def _mechanism(config: BrokerConfig, listener: str, mechanism: str) -> MechanismConfig:
    session_ms = of_listener(config, listener, "connections.max.reauth.ms", config.connections_max_reauth_ms, mechanism)
    if mechanism == OAUTHBEARER:
        return MechanismConfig(session_ms, bearer=bearer_config(config, listener))
    if mechanism != PLAIN:
        return MechanismConfig(session_ms)
    key = f"listener.name.{listener.lower()}.plain.sasl.jaas.config"
    line: Secret = of_listener(config, listener, "sasl.jaas.config", config.sasl_jaas_config, mechanism)
    if not line:
        raise ConfigInvalid(f"{key} is not set: it has the users of PLAIN")
    options = jaas_options(line, key, PLAIN_MODULE)
    users = {name.removeprefix(USER_PREFIX): word for name, word in options.items() if name.startswith(USER_PREFIX)}
    if "" in users or "" in users.values():
        raise ConfigInvalid(f"{key}: a user without a name or password")
    return MechanismConfig(session_ms, digests_of(users))
