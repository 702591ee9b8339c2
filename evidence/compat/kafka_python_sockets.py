"""The sockets that kafka-python leaves open."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch


@contextlib.contextmanager
def closed_at_the_end() -> Iterator[None]:
    """Closes what its clients opened meanwhile and did not close. Nothing is done where it is not imported.

    A client that is closed while it makes a connection drops the socket as it is (3.0.12, `KafkaNetSocket.sock_connect`: its
    task is cancelled in the midst). On a busy machine that happens now and then, and the warning would fail whatever
    test runs when the garbage is collected.
    """
    inet = sys.modules.get("kafka.net.inet")
    if inet is None:
        yield
        return
    opened: list[socket.socket] = []
    original = inet.KafkaNetSocket.socket

    def noted(self: Any, *address: Any) -> socket.socket:
        made: socket.socket = original(self, *address)
        opened.append(made)
        return made

    with patch.object(inet.KafkaNetSocket, "socket", noted):
        try:
            yield
        finally:
            for each in opened:
                each.close()
