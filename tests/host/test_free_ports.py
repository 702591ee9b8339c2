"""Ports in a row."""

from __future__ import annotations

import socket

import pytest

from oncelog.host import free_ports
from oncelog.host.free_ports import ports_in_a_row


def test_they_are_free() -> None:
    first = ports_in_a_row("127.0.0.1", 3)
    for port in range(first, first + 3):
        with socket.socket() as tried:
            tried.bind(("127.0.0.1", port))


def test_a_port_in_use_is_not_among_them(monkeypatch: pytest.MonkeyPatch) -> None:
    first = ports_in_a_row("127.0.0.1", 3)
    monkeypatch.setattr(free_ports, "FIRST_PORT", first)
    monkeypatch.setattr(free_ports, "LAST_PORT", first + 3)
    with socket.socket() as held:
        held.bind(("127.0.0.1", first + 2))
        with pytest.raises(OSError, match="no 3 free ports in a row"):
            ports_in_a_row("127.0.0.1", 3)
