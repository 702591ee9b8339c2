"""Connections that have not authenticated: who ends where there are too many, and how long a failure is answered later."""

from __future__ import annotations

from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.metrics.metrics import Metrics
from oncelog.broker.network.strangers import DELAY_S_MAX, FREE_FAILURES, WINDOW_S, Failures, Strangers


class Client:
    def __init__(self, client_host: str) -> None:
        self.client_host = client_host
        self.ended = ""

    def refuse(self, reason: str) -> None:
        self.ended = reason


def strangers(**config: int) -> Strangers:
    in_force = BrokerConfig(**config)
    return Strangers(lambda: in_force, Metrics())


def test_one_that_waits_for_its_refusal_makes_room_before_one_that_may_log_in() -> None:
    found = strangers(oncelog_max_unauthenticated_connections_per_ip=3)
    trying, refused, other, newest = Client("a"), Client("a"), Client("b"), Client("a")
    for each in (other, trying, refused, Client("a")):
        found.came(each)
    for each in (other, refused):
        found.is_over(each)
    found.came(newest)
    assert "oncelog.max.unauthenticated.connections.per.ip" in refused.ended
    assert not trying.ended
    assert not other.ended, "its own address has room"
    found.came(Client("a"))
    assert trying.ended, "nobody is refused any more: the oldest"
    assert not newest.ended


def test_of_all_addresses_together_too() -> None:
    found = strangers(oncelog_max_unauthenticated_connections=2)
    oldest, refused = Client("a"), Client("b")
    for each in (oldest, refused):
        found.came(each)
    found.is_over(refused)
    found.came(Client("c"))
    assert refused.ended
    assert not oldest.ended
    found.came(Client("d"))
    assert oldest.ended


def test_whoever_left_is_not_asked_to_make_room_and_one_that_left_may_be_refused_late() -> None:
    found = strangers(oncelog_max_unauthenticated_connections=2)
    gone, first, second = Client("a"), Client("a"), Client("b")
    for each in (gone, first):
        found.came(each)
    found.is_over(gone)
    found.left(gone)
    found.is_over(gone)
    found.came(second)
    assert not gone.ended
    assert not first.ended
    found.came(Client("c"))
    assert first.ended
    assert not gone.ended


def test_two_hundred_clients_of_one_address_may_log_in_at_once() -> None:
    """With fifty places each new one ended one that had nearly logged in: two hundred took 46 seconds."""
    found = strangers()
    clients = [Client("gateway") for _ in range(200)]
    for each in clients:
        found.came(each)
    assert not any(each.ended for each in clients)
    for each in clients:
        found.left(each)
    assert not found._of_host
    assert not found._all


def test_an_address_that_fails_again_and_again_waits_longer_and_others_do_not() -> None:
    failures = Failures()
    delays = [failures.delay_s("a", 0.1, 0.0) for _ in range(FREE_FAILURES + 8)]
    assert set(delays[:FREE_FAILURES]) == {0.1}
    assert delays[FREE_FAILURES:] == [0.2, 0.4, 0.8, 1.6, 3.2, DELAY_S_MAX, DELAY_S_MAX, DELAY_S_MAX]
    assert failures.delay_s("b", 0.1, 0.0) == 0.1
    assert failures.delay_s("a", 0.1, WINDOW_S) == 0.1, "a minute later"
