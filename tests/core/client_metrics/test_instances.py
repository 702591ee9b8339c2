"""Who may ask and push when, in Kafka's order of checks; and who is forgotten."""

from __future__ import annotations

import pytest

from oncelog.core.client_metrics.instances import (
    FORGOTTEN_AFTER_MS_MIN,
    LOOK_INTERVAL_MS,
    Instances,
    asked,
    pushed,
)
from oncelog.core.client_metrics.subscriptions import ClientInstance, subscription_of
from oncelog.errors import ErrorCode as E

INTERVAL_MS = 30_000


def client(number=7):
    return ClientInstance(bytes(15) + bytes([number]), f"c{number}", "s", "1", "10.0.0.1", 4000)


class World:
    def __init__(self, count_max=10):
        self.gone = []
        self.instances = Instances(lambda: count_max, self.gone.append)
        self.subscribe()

    def subscribe(self, metrics="a", interval_ms=INTERVAL_MS):
        self.instances.subscribe((subscription_of({"metrics": metrics, "interval.ms": str(interval_ms)}),))

    def ask(self, now_ms, number=7):
        return asked(self.instances.of(client(number), now_ms), now_ms)

    def push(self, now_ms, number=7, **changes):
        instance = self.instances.of(client(number), now_ms)
        sent = {
            "subscription_id": instance.wanted.subscription_id,
            "codec": 4,
            "size_bytes": 100,
            "size_bytes_max": 100,
            "is_terminating": False,
        }
        return pushed(instance, now_ms, **(sent | changes))


def test_asking_and_pushing_once_an_interval():
    world = World()
    assert world.ask(0) is E.NONE
    assert world.ask(INTERVAL_MS - 1) is E.THROTTLING_QUOTA_EXCEEDED
    assert world.push(INTERVAL_MS - 1) is E.NONE  # soon after it asked: clients jitter their first push
    assert world.push(INTERVAL_MS) is E.THROTTLING_QUOTA_EXCEEDED
    assert world.push(2 * INTERVAL_MS - 1) is E.NONE
    assert world.ask(2 * INTERVAL_MS) is E.THROTTLING_QUOTA_EXCEEDED  # a push counts for it as well
    assert world.ask(3 * INTERVAL_MS) is E.NONE


def test_a_client_of_another_broker_may_push_at_once():
    assert World().push(0) is E.NONE


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"subscription_id": 1, "codec": 9, "size_bytes": 101}, E.UNKNOWN_SUBSCRIPTION_ID),
        ({"codec": 5, "size_bytes": 101}, E.UNSUPPORTED_COMPRESSION_TYPE),
        ({"codec": -1}, E.UNSUPPORTED_COMPRESSION_TYPE),
        ({"size_bytes": 101}, E.TELEMETRY_TOO_LARGE),
        ({"codec": 0}, E.NONE),
    ],
)
def test_the_order_of_refusals(changes, error):
    world = World()
    world.ask(0)
    assert world.push(1, **changes) is error
    assert world.push(2, **changes) is E.THROTTLING_QUOTA_EXCEEDED


def test_who_was_told_to_ask_again_need_not_wait():
    world = World()
    world.ask(0)
    assert world.push(1, subscription_id=1) is E.UNKNOWN_SUBSCRIPTION_ID
    assert world.ask(2) is E.NONE
    assert world.ask(3) is E.THROTTLING_QUOTA_EXCEEDED
    world.push(INTERVAL_MS + 1, size_bytes=101)
    assert world.ask(INTERVAL_MS + 2) is E.THROTTLING_QUOTA_EXCEEDED


def test_the_last_push_may_come_early_and_nothing_after_it():
    world = World()
    world.ask(0)
    assert world.push(1) is E.NONE
    assert world.push(2, is_terminating=True) is E.NONE
    assert world.push(INTERVAL_MS + 2) is E.INVALID_REQUEST


def test_a_changed_subscription_begins_anew():
    world = World()
    world.ask(0)
    before = world.instances.of(client(), 1).wanted
    world.subscribe(metrics="b")
    assert world.push(2, subscription_id=before.subscription_id) is E.UNKNOWN_SUBSCRIPTION_ID
    assert world.ask(3) is E.NONE
    assert world.instances.of(client(), 4).wanted.metrics == ("b",)


def test_silent_ones_are_forgotten():
    world = World()
    world.ask(0)
    world.ask(1, number=8)
    world.push(2, number=8, is_terminating=True)
    world.instances.forget_silent(2 + FORGOTTEN_AFTER_MS_MIN - 1)
    assert world.gone == []
    world.instances.forget_silent(2 + FORGOTTEN_AFTER_MS_MIN)  # looked at a moment ago
    assert world.gone == []
    world.instances.forget_silent(2 + FORGOTTEN_AFTER_MS_MIN + LOOK_INTERVAL_MS)
    assert world.gone == [client(8).instance_id]
    world.instances.forget_silent(3 * INTERVAL_MS + LOOK_INTERVAL_MS)
    assert world.gone == [client(8).instance_id, client(7).instance_id]
    assert len(world.instances) == 0


def test_the_one_silent_longest_makes_room():
    world = World(count_max=2)
    for now_ms, number in enumerate((1, 2, 1, 3)):
        world.ask(now_ms, number)
    assert world.gone == [client(2).instance_id]
    assert [each.client.client_id for each in world.instances] == ["c1", "c3"]
