"""Who waits under a quota that is used up: in which order they are served, who is passed over, who is forgotten."""

from __future__ import annotations

from oncelog.core.metadata.quota_turns import FORGET_AFTER_MS, PRESENT_FOR_MS, READERS_MAX, Turns

NOW = 1_800_000_000_000
OVER_MS = 5_000  # by the rate, which in these tests never falls below the bound


class Quota:
    """A hundred bytes a second, and replies that are over it."""

    def __init__(self):
        self.turns = Turns()
        self.now_ms = NOW

    def wait_ms(self, reader, size_bytes=1000, over_ms=OVER_MS):
        self.turns.pass_time(100.0, self.now_ms)
        return self.turns.wait_ms(reader, size_bytes, over_ms, 100.0, 11_000)

    def at(self, ms):
        self.now_ms = NOW + ms
        return self


def test_who_was_refused_for_as_long_as_the_windows_are_is_served():
    quota = Quota()
    assert quota.wait_ms("a") == 5_000
    assert quota.at(5_000).wait_ms("a") == 5_000
    assert quota.at(10_000).wait_ms("a") == 1_000, "not longer than until its turn"
    assert quota.at(11_000).wait_ms("a") == 0


def test_what_was_served_out_of_turn_is_paid_back_before_anybody_is_served():
    quota = Quota()
    quota.wait_ms("a", 1500)
    assert quota.at(11_000).wait_ms("a", 1500) == 0
    assert quota.at(11_000).wait_ms("small", 1, over_ms=0) == 11_000, (
        "it comes to look: it could be told no longer time"
    )
    assert quota.at(22_000).wait_ms("small", 1, over_ms=0) == 4_000
    assert quota.at(26_000).wait_ms("small", 1, over_ms=0) == 0


def test_what_was_read_before_it_by_the_rate_is_paid_back_too():
    quota = Quota()
    quota.wait_ms("a")
    assert quota.at(11_000).wait_ms("small", 900, over_ms=0) == 0
    assert quota.at(11_000).wait_ms("a") == 0
    assert quota.at(11_001).wait_ms("small", 1, over_ms=0) == 11_000
    assert quota.at(29_500).wait_ms("small", 1, over_ms=0) in (500, 501), "ten seconds, and nine before them"
    assert quota.at(30_001).wait_ms("small", 1, over_ms=0) == 0


def test_the_first_refused_is_served_first():
    quota = Quota()
    quota.wait_ms("a", 100)
    quota.at(1).wait_ms("b", 100)
    quota.at(10_999).wait_ms("a", 100)
    assert quota.at(11_001).wait_ms("b", 100) == PRESENT_FOR_MS, "a is due, and expected at any moment"
    assert quota.at(11_002).wait_ms("a", 100) == 0
    assert quota.at(12_001).wait_ms("b", 100) == 1, "a's hundred bytes are a second"
    assert quota.at(12_002).wait_ms("b", 100) == 0


def test_who_does_not_come_again_is_passed_over_and_keeps_its_place():
    quota = Quota()
    quota.wait_ms("a", 100)
    quota.at(1).wait_ms("b", 100)
    assert quota.at(11_001).wait_ms("b", 100) == 0, "a was expected at 5,000"
    quota.at(13_000).wait_ms("c", 100)
    assert quota.at(24_000).wait_ms("a", 100) == 0


def test_who_is_served_by_the_rate_waits_no_more():
    quota = Quota()
    quota.wait_ms("a")
    assert quota.at(6_000).wait_ms("a", over_ms=0) == 0
    assert len(quota.turns) == 0
    assert quota.at(11_000).wait_ms("a") == 5_000, "from here it is refused anew"


def test_only_so_many_are_remembered_and_those_that_are_gone_make_room():
    quota = Quota()
    for number in range(READERS_MAX + 5):
        quota.wait_ms(number)
    assert len(quota.turns) == READERS_MAX
    assert quota.at(11_000).wait_ms("one more") == 5_000
    assert quota.at(22_000).wait_ms("one more") == 5_000, "it is served by the rate alone"
    quota.at(OVER_MS + FORGET_AFTER_MS + 1).wait_ms("one more")
    assert len(quota.turns) == 1


def test_a_clock_that_is_set_back_prolongs_nobodys_wait():
    quota = Quota()
    quota.wait_ms("a")
    quota.at(10_000).wait_ms("a")
    quota.at(10_000 - 3_600_000)
    assert quota.wait_ms("a") == 1_000
    assert quota.at(11_000 - 3_600_000).wait_ms("a") == 0


def test_a_raised_quota_shortens_what_is_to_be_paid_back():
    quota = Quota()
    quota.wait_ms("a", 1_000_000)
    assert quota.at(11_000).wait_ms("a", 1_000_000) == 0
    assert quota.at(11_000).wait_ms("a", 1) == 11_000
    assert quota.turns.wait_ms("a", 1, 0, 1_000_000.0, 11_000) == 1_000
