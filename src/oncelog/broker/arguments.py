"""What `Broker` and `TestBroker` are given, checked at the door: what is wrong is told to its caller, and nothing is begun.

Each function gives the argument as the broker wants it, or raises InvalidArgument with its name, what it is, what it must be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncelog.errors import InvalidArgument, invalid_argument
from oncelog.host.given_paths import directory

ADDRESS = "HOST:PORT"
SEVERAL = (list, tuple, set, frozenset)
NO_VALUES = (bytes, bytearray, Mapping, *SEVERAL)


def data_directory(value: object, config_is: str) -> str | None:
    """Where the data is, None for a temporary directory. `config_is` says where a config is to be given instead."""
    if isinstance(value, Mapping):  # not shown: passwords are values
        raise InvalidArgument(f"data_dir must be a directory's path, not {_kind(value)}: {config_is}")
    return None if value is None else directory("data_dir", value)


def config_values(value: object, data_dir_is: str = "") -> dict[str, object]:
    """Kafka's keys with values that a line of a properties file could have."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):  # not shown either: it may be a file's text
        is_path = isinstance(value, str) or hasattr(value, "__fspath__")
        where = f": {data_dir_is}" if is_path and data_dir_is else ""
        raise InvalidArgument(f"config must be a mapping of Kafka's keys to values, not {_kind(value)}{where}")
    for key, each in value.items():
        if not isinstance(key, str):
            raise invalid_argument("a key of config", key, "text")
        if each is None or isinstance(each, NO_VALUES):
            hint = ": leave the key out for its default" if each is None else ""
            hint = ": several are one text, with commas" if isinstance(each, SEVERAL) else hint
            raise InvalidArgument(f"config[{key!r}] must be text, a number, True or False, not {_kind(each)}{hint}")
    return dict(value)


def _kind(value: object) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"


def addresses(value: object) -> list[str]:
    """Where to listen, at least one address; whether each is one is said when all of the configuration is looked at."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, Iterable) or isinstance(value, bytes | bytearray | Mapping):
        raise invalid_argument("listen", value, f"{ADDRESS}, or several")
    found = list(value)
    if not found:
        raise invalid_argument("listen", value, f"{ADDRESS}, or several", "127.0.0.1:0 is a free port of this machine")
    for index, each in enumerate(found):
        if not isinstance(each, str):
            raise invalid_argument(f"listen[{index}]", each, f"{ADDRESS}, as text")
    return found


def instance(name: str, value: object, kind: type, hint: str = "") -> None:
    """Refuse what is not of this class."""
    if not isinstance(value, kind):
        raise invalid_argument(name, value, f"a {kind.__name__}", hint)
