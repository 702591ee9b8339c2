"""What `${PROVIDER:PATH:KEY}` stands for: a key of a properties file, a file of a directory, a variable of the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from oncelog.core.config_references import ENVIRONMENT, FILE, Provider, ReferenceInvalid, resolved
from oncelog.core.java_properties import each_property
from oncelog.host.tls import TlsInvalid, read_secret_file


def with_references(values: Mapping[str, str]) -> dict[str, str]:
    """The values with what their references stand for. Raises ReferenceInvalid."""
    return resolved(values, _read)


def _read(provider: Provider, path: str, key: str) -> str:
    if provider.kind == ENVIRONMENT:
        return _variable(provider, path, key)
    if not path or not key:
        raise ReferenceInvalid(f"expected ${{{provider.name}:PATH:KEY}}")
    place = os.path.realpath(path)
    allowed = [os.path.realpath(each.strip()) for each in provider.allowed.split(",") if each.strip()]
    if allowed and not any(os.path.commonpath((place, each)) == each for each in allowed):
        raise ReferenceInvalid(f"{path}: not in the allowed.paths of {provider.name}")
    if provider.kind == FILE:
        return _of_file(path, key)
    if os.path.basename(key) != key or key in (os.curdir, os.pardir):
        raise ReferenceInvalid(f"{path}: {key[:80]!r} is no file's name")
    return _text(os.path.join(path, key))


def _variable(provider: Provider, path: str, key: str) -> str:
    if path:
        raise ReferenceInvalid(f"expected ${{{provider.name}:NAME}}")
    try:
        is_allowed = not provider.allowed or re.fullmatch(provider.allowed, key, re.ASCII) is not None
    except re.error:
        raise ReferenceInvalid(f"the allowlist.pattern of {provider.name} is no pattern") from None
    if not is_allowed:
        raise ReferenceInvalid(f"{key[:80]!r} is not in the allowlist.pattern of {provider.name}")
    value = os.environ.get(key)
    if value is None:
        raise ReferenceInvalid(f"the environment has no variable {key[:80]!r}")
    return value


def _of_file(path: str, key: str) -> str:
    found = {each.key: each.value for each in each_property(_text(path))}
    if key not in found:
        raise ReferenceInvalid(f"{path} has no key {key[:80]!r}")
    return found[key].strip()


def _text(path: str) -> str:
    try:
        return read_secret_file(path)
    except TlsInvalid as error:
        raise ReferenceInvalid(str(error)) from None
