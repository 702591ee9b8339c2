"""Ports in a row that nobody listens on."""

from __future__ import annotations

import contextlib
import socket

TRIES_MAX = 200
FIRST_PORT, LAST_PORT = 20_000, 31_999  # below those that the system gives away for connections


def ports_in_a_row(host: str, count: int) -> int:
    """The first of `count` free ports one after the other. Raises OSError where none are found."""
    import random  # for several processes

    for _ in range(TRIES_MAX):
        first = random.randint(FIRST_PORT, LAST_PORT - count)
        if _are_free(host, range(first, first + count)):
            return first
    raise OSError(f"no {count} free ports in a row were found")


def _are_free(host: str, ports: range) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.ExitStack() as held:
        for port in ports:
            tried = held.enter_context(socket.socket(family, socket.SOCK_STREAM))
            try:
                tried.bind((host, port))
            except OSError:
                return False
    return True
