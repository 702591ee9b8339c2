"""Admin clients that a process of Spark's keeps from one micro-batch to the next: a connection costs more than a question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oncelog import sync
from oncelog.spark.options import client_arguments

CLIENTS_MAX = 8
"""Of a process of Spark's, which serves many queries: one for each set of options, the oldest go."""
_admins: dict[tuple[Any, ...], sync.Admin] = {}


def admin_of(client: Mapping[str, str]) -> sync.Admin:
    """This process's admin client for these options of a client."""
    key = tuple(sorted(client.items()))
    admin = _admins.get(key)
    if admin is None:
        if len(_admins) >= CLIENTS_MAX:
            _admins.pop(next(iter(_admins))).stop()
        admin = sync.Admin.from_config(client_arguments(client))
        admin.start()
        _admins[key] = admin
    return admin


def close_admins() -> None:
    """Close this process's connections."""
    for admin in _admins.values():
        admin.stop()
    _admins.clear()
