"""Rates, waits and whose quota holds: the numbers are those that Apache Kafka 4.3 answered."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.core.metadata.quota_rates import FORGET_AFTER_MS, Bound, QuotaRates, Rate, bound_for, bytes_at_once_max

NOW = 1_800_000_000_000
# In seconds of the quota: from a twentieth to far more than all windows.
SIZES_S = st.integers(-4, 7).flatmap(lambda bits: st.floats(2.0**bits, 2.0 ** (bits + 1)))


def entity(**parts):
    return frozenset((kind.replace("_", "-"), name) for kind, name in parts.items())


def test_a_burst_at_the_beginning_is_measured_over_ten_seconds():
    rate = Rate()
    waits = []
    for _ in range(5):
        rate.record(30_000, NOW)
        waits.append(rate.throttle_ms(10_000, NOW))
    assert waits == [0, 0, 0, 2000, 5000]  # Kafka: 0 0 0 1999 4945, some milliseconds between the requests


def test_what_is_older_than_the_windows_is_forgotten():
    rate = Rate()
    rate.record(100_000, NOW)
    assert rate.per_second(NOW + 10_999) == pytest.approx(100_000 / 10.999)
    assert rate.per_second(NOW + 11_000) == 0


@given(st.integers(1_000, 20_000), st.sampled_from([5_000, 10_000, 40_000]))
def test_who_waits_as_told_keeps_the_bound(amount, bound):
    """Over a minute, a client that sends as fast as it may gets what its quota says."""
    rate, now_ms, sent = Rate(), NOW, 0
    while now_ms < NOW + 60_000:
        rate.record(amount, now_ms)
        sent += amount
        now_ms += 1 + rate.throttle_ms(bound, now_ms)
    burst = 10 * bound + amount  # what the first ten seconds may take at once
    assert 0.8 * bound <= sent / 60
    assert sent - burst <= 1.25 * bound * 60


@given(st.integers(1, 1 << 20), SIZES_S, st.integers(1, 5))
def test_who_sends_more_at_once_than_all_windows_goes_on(bound, seconds, clients):
    """Each is taken, and then waits for what it is over. As in Apache Kafka the windows forget what is not paid back by then."""
    rate, amount, minutes = Rate(), int(seconds * bound) + 1, 120
    due_ms, counts = [NOW] * clients, [0] * clients
    while min(due_ms) < NOW + minutes * 60_000:
        client = due_ms.index(min(due_ms))
        now_ms = due_ms[client]
        rate.record(amount, now_ms)
        wait_ms = rate.throttle_ms(bound, now_ms)
        assert wait_ms <= 1000 * (12 * clients * (amount / bound + 1))
        due_ms[client] = now_ms + 250 + wait_ms
        counts[client] += 1
    assert min(counts) >= 2


@pytest.mark.parametrize(
    ("quotas", "value", "shared_by"),
    [
        ({}, None, None),
        ({entity(client_id=None): 1}, 1, (None, "c")),
        ({entity(client_id=None): 1, entity(client_id="c"): 2}, 2, (None, "c")),
        ({entity(client_id="c"): 2, entity(user=None): 3}, 3, ("u", None)),
        ({entity(user=None): 3, entity(user=None, client_id=None): 4}, 4, ("u", "c")),
        ({entity(user=None, client_id=None): 4, entity(user=None, client_id="c"): 5}, 5, ("u", "c")),
        ({entity(user=None, client_id="c"): 5, entity(user="u"): 6}, 6, ("u", None)),
        ({entity(user="u"): 6, entity(user="u", client_id=None): 7}, 7, ("u", "c")),
        ({entity(user="u", client_id=None): 7, entity(user="u", client_id="c"): 8}, 8, ("u", "c")),
        ({entity(user="other"): 9, entity(client_id="d"): 9, entity(ip=None): 9}, None, None),
    ],
)
def test_the_most_precise_quota_holds(quotas, value, shared_by):
    found = bound_for({each: {"k": float(number)} for each, number in quotas.items()}, "k", "u", "c")
    assert found == (None if value is None else (value, shared_by))
    assert bound_for({each: {"other": 1.0} for each in quotas}, "k", "u", "c") is None


def test_what_is_not_sent_is_not_counted():
    rates, bound = QuotaRates(), bound_for({entity(user=None): {"k": 1000.0}}, "k", "u", "c")
    assert rates.record_unless_over("k", bound, 9_000, NOW) == 0
    assert rates.record_unless_over("k", bound, 9_000, NOW) == 8_000
    assert rates.record_unless_over("k", bound, 1_000, NOW) == 0, "the refused 9,000 do not count"
    assert rates.record("k", bound, 1_000, NOW) == 1_000


def test_silent_clients_are_forgotten():
    rates = QuotaRates()
    for index in range(5):
        rates.record("k", bound_for({entity(client_id=None): {"k": 9.0}}, "k", "u", str(index)), 1, NOW)
    assert len(rates) == 5
    rates.record("k", bound_for({entity(client_id=None): {"k": 9.0}}, "k", "u", "new"), 1, NOW + 2 * FORGET_AFTER_MS)
    assert len(rates) == 1


def test_mutations_strict_and_not():
    """The numbers are Apache Kafka 4.3's, with a rate of 1: 5, 20, 1 partitions created, then an older client's."""
    rates, bound = QuotaRates(), bound_for({entity(user=None): {"k": 1.0}}, "k", "u", "c")
    assert rates.mutations(bound, 5, NOW, is_strict=True) == (True, 0)
    assert rates.mutations(bound, 20, NOW, is_strict=True) == (True, 0)
    assert rates.mutations(bound, 1, NOW, is_strict=True) == (False, 14_000)
    assert rates.mutations(bound, 1, NOW + 14_000, is_strict=True) == (True, 0)
    assert rates.mutations(bound, 1, NOW + 14_000, is_strict=True) == (False, 1_000)
    assert rates.mutations(bound, 5, NOW + 14_000, is_strict=False) == (True, 6_000)
    rates.return_mutations(bound, 5, NOW + 14_000)
    assert rates.mutations(bound, 0, NOW + 14_000, is_strict=False) == (True, 1_000)
    assert rates.mutations(bound, 11, NOW + 3_600_000, is_strict=True) == (True, 0), "eleven seconds' worth, not more"
    assert rates.mutations(bound, 1, NOW + 3_600_000, is_strict=True) == (True, 0)
    assert rates.mutations(bound, 1, NOW + 3_600_000, is_strict=True) == (False, 1_000)


def test_a_clock_that_is_set_back_lets_nobody_wait_until_it_has_caught_up():
    rates, bound = QuotaRates(), bound_for({entity(user=None): {"k": 1000.0}}, "k", "u", "c")
    assert rates.record("k", bound, 20_000, NOW) == 10_000
    assert rates.record("k", bound, 1, NOW - 3_600_000) == 0
    assert rates.mutations(bound, 11_000, NOW, is_strict=True) == (True, 0)
    assert rates.mutations(bound, 1, NOW - 3_600_000, is_strict=True) == (True, 0)
    assert rates.mutations(bound, 1, NOW - 3_600_000, is_strict=True) == (False, 1)


@dataclass
class Reader:
    """Reads as fast as it may: batches of one size, so many bytes in a reply, so long between a reply and the next."""

    batch: int
    fetch_max: int
    apart_ms: int
    next_ms: int = NOW
    got: int = 0
    served_ms: int = NOW
    starved_ms: int = 0

    def reply(self, bound):
        most = min(self.fetch_max, bytes_at_once_max(bound))
        return max(most // self.batch, 1) * self.batch + OVERHEAD


OVERHEAD = 90


def read_for(minutes, quota, readers):
    """What a broker gives `readers` that share a quota, in simulated time."""
    rates, bound = QuotaRates(), bound_for({entity(user=None): {"k": float(quota)}}, "k", "u", "c")
    while True:
        reader = min(readers, key=lambda each: each.next_ms)
        now_ms = reader.next_ms
        if now_ms >= NOW + minutes * 60_000:
            break
        wait_ms = rates.record_in_turn("k", bound, reader.reply(bound), id(reader), now_ms)
        assert wait_ms <= 11_000
        reader.starved_ms = max(reader.starved_ms, now_ms - reader.served_ms)
        if not wait_ms:
            reader.got += reader.reply(bound)
            reader.served_ms = now_ms
        reader.next_ms = now_ms + wait_ms + reader.apart_ms


QUOTAS = st.integers(7, 20).flatmap(lambda bits: st.integers(1 << bits, 2 << bits))
READERS = st.tuples(SIZES_S, SIZES_S, st.sampled_from([1, 7, 100]))


def readers_under(quota, drawn):
    return [
        Reader(int(batch * quota) + 1, int(fetch_max * quota) + 1, apart_ms) for batch, fetch_max, apart_ms in drawn
    ]


@given(QUOTAS, READERS)
@settings(max_examples=100, deadline=None)
def test_who_reads_under_a_quota_goes_on_at_about_its_rate(quota, drawn):
    """Whatever the sizes of batches, of what is fetched and of the quota: also a batch larger than all windows, which
    Apache Kafka refuses for ever."""
    [reader] = readers_under(quota, [drawn])
    reply = reader.reply(Bound(quota, None))
    minutes = 5 + int(3 * reply / quota / 60)
    read_for(minutes, quota, [reader])
    assert reader.got <= 1.1 * quota * minutes * 60 + 11 * quota + reply
    assert reader.got >= 0.4 * quota * minutes * 60 - reply
    assert reader.got > 0


@given(QUOTAS, st.lists(READERS, min_size=2, max_size=6))
@settings(max_examples=100, deadline=None)
def test_of_those_who_share_a_quota_nobody_starves(quota, drawn):
    """A long lag beside many who always take the little that is left, a large batch among small ones."""
    readers = readers_under(quota, drawn)
    replies = [reader.reply(Bound(quota, None)) for reader in readers]
    minutes = 10 + int(5 * sum(replies) / quota / 60)
    read_for(minutes, quota, readers)
    total = sum(each.got for each in readers)
    assert total <= 1.1 * quota * minutes * 60 + 11 * quota + max(replies)
    assert total >= 0.4 * quota * minutes * 60 - max(replies)
    assert max(each.starved_ms for each in readers) <= 1000 * (2 * sum(replies) / quota + 40)
