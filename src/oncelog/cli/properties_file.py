"""Java properties files, as `--command-config` takes them: what Apache Kafka's own tools read works here too."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator

from oncelog.errors import ConfigurationError

FILE_LENGTH_MAX = 1 << 20
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_KEY = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", re.DOTALL)


def properties_from_text(text: str) -> dict[str, str]:
    """Keys and values; a later line of the same key wins."""
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        match = _KEY.match(line)
        assert match is not None, "the pattern matches every line"
        found[_unescaped(match[1])] = _unescaped(match[2])
    return found


def read_properties(path: str) -> dict[str, str]:
    """The properties of a file. Raises ConfigurationError when it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(FILE_LENGTH_MAX + 1)
            others = stat.S_IMODE(os.fstat(file.fileno()).st_mode) & stat.S_IRWXO
        if len(text) > FILE_LENGTH_MAX:
            raise ConfigurationError(f"cannot read {path}: it is longer than {FILE_LENGTH_MAX} characters")
        found = properties_from_text(text)
        if others and any(map(is_secret, found)):
            raise ConfigurationError(f"{path} holds passwords, and others can read it: chmod 600 {path}")
        return found
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"cannot read {path}: {error}") from error


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


def _logical_lines(text: str) -> Iterator[str]:
    pending = ""
    for raw in text.splitlines():
        line = raw.lstrip()
        if not pending and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        yield (pending + line).rstrip() if not pending else pending + line
        pending = ""
    if pending:
        yield pending


def _unescaped(text: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPES.get(code, code)

    return _ESCAPED.sub(replaced, text)
