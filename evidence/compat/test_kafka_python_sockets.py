"""What kafka-python leaves open is closed."""

from __future__ import annotations

import errno
import gc
import socket
import warnings

import pytest

from evidence.compat.kafka_python_sockets import closed_at_the_end

inet = pytest.importorskip("kafka.net.inet")
selector = pytest.importorskip("kafka.net.selector")

pytestmark = pytest.mark.compat


@pytest.fixture(autouse=True)
def _closed_sockets():
    """That of all tests here would hide what is shown."""


def leave_a_connection(monkeypatch):
    """Close its event loop while it makes a connection: what it warned of."""
    monkeypatch.setattr(inet.KafkaNetSocket, "connect_ex", lambda *_: errno.EINPROGRESS)
    with warnings.catch_warnings(record=True) as warned, socket.socket() as nobody:
        warnings.simplefilter("always")
        nobody.bind(("127.0.0.1", 0))
        loop = selector.NetworkSelector()
        loop.call_soon(inet.create_connection(loop, *nobody.getsockname()))
        loop.poll(timeout_ms=0)
        loop.close()
        del loop
        gc.collect()
    return [str(each.message).split(" fd")[0] for each in warned]


def test_a_client_that_is_closed_while_it_connects(monkeypatch):
    with closed_at_the_end():
        warned = leave_a_connection(monkeypatch)
    gc.collect()  # another warning would be an error
    assert warned == []


def test_it_is_kafka_python_that_leaves_it(monkeypatch):
    """Where this fails, it closes them itself by now, and `closed_at_the_end` can go."""
    assert leave_a_connection(monkeypatch) == ["unclosed <socket.socket"]
