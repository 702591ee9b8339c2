"""The proxy does what it says, and a short run with real processes ends well."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from evidence.chaos.proxy import Proxy
from evidence.chaos.run import Chaos, Plan
from evidence.crash.broker_process import BrokerFailed


@pytest.fixture
def echo():
    """A server that sends back what it gets; its port."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    def answer(connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(1000):
                    connection.sendall(data)
            except OSError:
                return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield server.getsockname()[1]
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join(5)


@pytest.fixture
def proxy(echo):
    proxy = Proxy(echo, 1)
    proxy.start()
    yield proxy
    proxy.close()


def test_the_proxy_passes_holds_slows_cuts_and_refuses(proxy):
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as client:
        client.sendall(b"one")
        assert client.recv(10) == b"one"
        proxy.set(is_blocked_down=True)
        client.sendall(b"two")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(10)
        client.settimeout(60)
        proxy.set(delay_s=0.1)
        assert client.recv(10) == b"two"
        begun = time.monotonic()
        client.sendall(b"three")
        assert client.recv(10) == b"three"
        assert time.monotonic() - begun >= 0.04
        assert proxy.cut_all() == 1
        with pytest.raises(ConnectionResetError):
            client.recv(10)
    proxy.set(is_refusing=True)
    # The reset may come before the connection is seen to be made.
    with pytest.raises(ConnectionResetError), socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as client:
        client.recv(10)


@pytest.mark.slow
def test_a_short_run(tmp_path):
    plan = Plan(cuts=2, full_disks=1, broker_kills=1, client_kills=1, pauses=0, clock_steps=2)
    outcome = Chaos(tmp_path, plan, seed=3, kinds=("tv2", "idempotent", "two_phase")).everything()
    assert outcome.verdict.is_good, outcome.verdict.problems
    assert outcome.recovery_s, "how long it takes is for `make chaos` to judge"
    assert outcome.done.total() in (6, 7)
    assert outcome.figures()["episodes"]["clock steps"] == 2
    assert outcome.verdict.committed_transactions > 0
    assert ", 2 clock steps, 0 anomalies, recovery p50 " in outcome.summary()
    assert outcome.summary().endswith("; 0 lost, 0 duplicated, 0 aborted visible, 0 torn, 0 open")


@pytest.mark.slow
def test_what_a_run_that_failed_left_is_kept(tmp_path):
    class Stuck(Chaos):
        def wait_for_progress(self, kinds):
            raise BrokerFailed("nobody gets on")

    chaos = Stuck(tmp_path, Plan(), seed=1, kinds=("idempotent",))
    with pytest.raises(BrokerFailed):
        chaos.everything()
    left = tmp_path / "data-left" if chaos.has_small_disk else chaos.broker.data
    assert list(left.glob("__cluster_metadata-0/*.log"))
    assert not chaos.disk.is_mount()
    assert chaos.broker.process.poll() is not None
