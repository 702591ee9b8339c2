"""One call of a handler: what is collected, what is said, and when it is over."""

from __future__ import annotations

import pytest
from faststream.message import AckStatus

from oncelog.client.interceptors import ProducerRecord
from oncelog.client.processing.results import Results, TooMuch
from oncelog.errors import IllegalState, InvalidArgument
from oncelog.faststream.turn import Turn, current_turn, taking_turn

HOME, SUBSCRIBER = object(), object()


def new_turn(transaction_bytes_max=1000):
    return Turn(HOME, SUBSCRIBER, Results(None, transaction_bytes_max).collector(None))


def test_it_is_the_current_one_inside_and_over_behind():
    turn = new_turn()
    assert current_turn() is None
    with taking_turn(turn):
        assert current_turn() is turn
        turn.add(ProducerRecord("out", b"1"))
    assert current_turn() is None
    assert [record.value for record in turn.records] == [b"1"]
    with pytest.raises(IllegalState, match="the handler that started this task has ended"):
        turn.add(ProducerRecord("out", b"2"))


def test_it_is_over_also_where_the_handler_fails():
    turn = new_turn()
    with pytest.raises(KeyError), taking_turn(turn):
        raise KeyError
    assert turn.is_over


def test_the_first_word_counts():
    turn = new_turn()
    turn.say(AckStatus.NACKED)
    turn.say(AckStatus.ACKED)
    assert turn.verdict is AckStatus.NACKED


def test_what_cannot_be_written_or_is_too_much_is_told_where_it_is_published():
    turn = new_turn(transaction_bytes_max=200)
    with taking_turn(turn):
        with pytest.raises(InvalidArgument, match="value must be bytes or None"):
            turn.add(ProducerRecord("out", 1))
        turn.add(ProducerRecord("out", b"1"))
        with pytest.raises(TooMuch, match="transaction_bytes_max=200"):
            turn.add(ProducerRecord("out", b"2" * 100))
