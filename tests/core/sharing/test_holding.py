"""What a share consumer says of what it has: of each offset once, in few ranges."""

from __future__ import annotations

from oncelog.core.sharing.holding import Acknowledge, Holding, Said


def test_each_offset_is_said_once_in_few_ranges():
    holding = Holding()
    for offset in (3, 4, 5, 7, 8):
        holding.given(offset)
    holding.say_gaps([6, 9])
    assert holding.say(4, Acknowledge.ACCEPT)
    assert holding.say(3, Acknowledge.ACCEPT)
    assert not holding.say(3, Acknowledge.REJECT), "it was said"
    assert not holding.say(1, Acknowledge.ACCEPT), "it never had it"
    assert holding.say(5, Acknowledge.RELEASE)
    assert holding.has_news
    assert holding.take_said() == [Said(3, 4, (1,)), Said(5, 5, (2,)), Said(6, 6, (0,)), Said(9, 9, (0,))]
    assert not holding.has_news
    assert holding.say(7, Acknowledge.ACCEPT)
    assert holding.say(8, Acknowledge.ACCEPT)
    assert holding.take_said() == [Said(7, 8, (1,))]
    assert holding.is_empty


def test_renewals_are_said_apart_and_the_record_is_kept():
    holding = Holding()
    holding.given(1)
    holding.given(2)
    assert holding.say(1, Acknowledge.RENEW)
    assert holding.say(2, Acknowledge.RENEW)
    assert holding.say(2, Acknowledge.ACCEPT), "done after all"
    assert holding.take_renewed() == [1]
    assert holding.take_said() == [Said(2, 2, (1,))]
    assert holding.has(1)
    assert holding.forget() == 1
    assert not holding.say(1, Acknowledge.ACCEPT), "its connection was lost"


def test_nothing_is_said_of_what_has_lapsed():
    holding = Holding()
    holding.given(1)
    holding.lapse(1)
    holding.lapse(2)
    assert not holding.say(1, Acknowledge.ACCEPT)
    assert not holding.has_news
    assert holding.is_empty
