"""Java properties files, as `--command-config` takes them: what Apache Kafka's own tools read works here too."""

from __future__ import annotations

import os
import stat

from oncelog.cli.signals import heard_by, raise_signalled
from oncelog.core.config_references import PROVIDERS_KEY, ReferenceInvalid
from oncelog.core.java_properties import each_property
from oncelog.errors import ConfigurationError

FILE_LENGTH_MAX = 1 << 20


def properties_from_text(text: str) -> dict[str, str]:
    """Keys and values; a later line of the same key wins."""
    return {each.key: each.value for each in each_property(text)}


def read_properties(path: str) -> dict[str, str]:
    """The properties of a file. Raises ConfigurationError when it cannot be read."""
    try:
        # (it may be a pipe into which nobody writes)
        with heard_by(raise_signalled), open(path, encoding="utf-8") as file:
            text = file.read(FILE_LENGTH_MAX + 1)
            others = stat.S_IMODE(os.fstat(file.fileno()).st_mode) & stat.S_IRWXO
        if len(text) > FILE_LENGTH_MAX:
            raise ConfigurationError(f"cannot read {path}: it is longer than {FILE_LENGTH_MAX} characters")
        for each in each_property(text):
            if not each.has_separator and "." not in each.key:  # not shown: it may be a line of a key or of a password
                raise ConfigurationError(
                    f"line {each.line_number}: expected key=value"
                    " (a value of several lines has a backslash at the end of each)"
                )
        found = properties_from_text(text)
        if others and any(map(is_secret, found)):
            raise ConfigurationError(f"{path} holds passwords, and others can read it: chmod 600 {path}")
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"cannot read {path}: {error}") from error
    return _with_references(path, found) if PROVIDERS_KEY in found else found


def _with_references(path: str, found: dict[str, str]) -> dict[str, str]:
    from oncelog.cli.config_references import with_references  # which few files need

    try:
        return with_references(found)
    except ReferenceInvalid as error:
        raise ConfigurationError(f"{path}: {error}") from None


def is_secret(key: str) -> bool:
    """Whether a client's key holds what nobody else may see."""
    from oncelog.client.config import ALIASES, SECRETS  # which no command needs that is given none

    name = key.replace(".", "_")
    return ALIASES.get(name, name) in SECRETS


def property_from_text(text: str) -> tuple[str, str]:
    """`key=value` of a command line. Raises ConfigurationError."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigurationError(f"{text!r} is not of the form key=value")
    if is_secret(key.strip()):
        raise ConfigurationError(
            f"{key.strip()}: whoever lists processes reads it there: write it into a file, --command-config"
        )
    return key.strip(), value
