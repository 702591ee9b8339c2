"""`${PROVIDER:PATH:KEY}` in configuration values (KIP-297), by the providers that `config.providers` names.

What is read for each reference is decided here; who reads it is given. Kafka leaves what it cannot resolve as it stands: a
password would be the text of the reference, which is no secret. Here it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from oncelog.lazy_dataclass import dataclass

PROVIDERS_KEY = "config.providers"
FILE, DIRECTORY, ENVIRONMENT = "FileConfigProvider", "DirectoryConfigProvider", "EnvVarConfigProvider"
PARAMETERS = {FILE: "allowed.paths", DIRECTORY: "allowed.paths", ENVIRONMENT: "allowlist.pattern"}
_PACKAGE = "org.apache.kafka.common.config.provider."
_REFERENCE = re.compile(r"\$\{([^}:]*):(?:([^}]*):)?([^}:]*)\}")


class ReferenceInvalid(ValueError):
    """A provider or reference that cannot be used; the message is one line, with nothing that was read."""


@dataclass(frozen=True, slots=True)
class Provider:
    """`kind` is the class's own name; `allowed` limits paths (by comma) or names (a pattern), "" nothing."""

    name: str
    kind: str
    allowed: str = ""


Reader = Callable[[Provider, str, str], str]
"""The value of a provider's path and key. Raises ReferenceInvalid."""


def resolved(values: Mapping[str, str], read: Reader) -> dict[str, str]:
    """The values with what their references stand for, without the keys about providers. Raises ReferenceInvalid."""
    providers = _providers(values)

    def put_in(key: str, value: str) -> str:
        def instead(match: re.Match[str]) -> str:
            name, path, wanted = match[1], match[2] or "", match[3]
            if name not in providers:
                raise ReferenceInvalid(f"{key}: ${{{name[:40]}:...}}: {PROVIDERS_KEY} names no provider {name[:40]!r}")
            try:
                return read(providers[name], path, wanted)
            except ReferenceInvalid as error:
                raise ReferenceInvalid(f"{key}: {error}") from None

        return _REFERENCE.sub(instead, value)

    return {key: put_in(key, value) for key, value in values.items() if not _is_about_providers(key)}


def _is_about_providers(key: str) -> bool:
    return key == PROVIDERS_KEY or key.startswith(f"{PROVIDERS_KEY}.")


def _providers(values: Mapping[str, str]) -> dict[str, Provider]:
    names = [name.strip() for name in values.get(PROVIDERS_KEY, "").split(",") if name.strip()]
    found: dict[str, Provider] = {}
    for name in names:
        key = f"{PROVIDERS_KEY}.{name}.class"
        kind = values.get(key, "").strip().removeprefix(_PACKAGE)
        if kind not in PARAMETERS:
            built = ", ".join(_PACKAGE + each for each in PARAMETERS)
            raise ReferenceInvalid(f"{key}: oncelog loads no classes; built are {built}")
        parameter = f"{PROVIDERS_KEY}.{name}.param.{PARAMETERS[kind]}"
        found[name] = Provider(name, kind, values.get(parameter, "").strip())
    known = {f"{PROVIDERS_KEY}.{each.name}.{end}" for each in found.values() for end in _ends(each)} | {PROVIDERS_KEY}
    stranger = next((key for key in values if _is_about_providers(key) and key not in known), None)
    if stranger is not None:
        raise ReferenceInvalid(f"{stranger}: {PROVIDERS_KEY} has no such provider, or the provider no such parameter")
    return found


def _ends(provider: Provider) -> tuple[str, str]:
    return ("class", f"param.{PARAMETERS[provider.kind]}")
