"""Balancing readers of different topics."""

from __future__ import annotations

from collections import Counter

from oncelog.core.groups.consumer.uniform_balance import balance_unequal


def loads(owners):
    return Counter(owner for owned in owners.values() for owner in owned)


def test_free_partitions_go_to_the_emptiest_reader():
    owners = {"a": [None] * 4, "b": [None] * 2}
    balance_unequal(owners, ["m1", "m2"], {"a": ["m1", "m2"], "b": ["m2"]})
    assert loads(owners) == {"m1": 3, "m2": 3}
    assert owners["b"] == ["m2", "m2"]


def test_what_is_kept_moves_only_for_balance():
    owners = {"a": ["m1", "m1", "m1", "m1"], "b": [None]}
    balance_unequal(owners, ["m1", "m2"], {"a": ["m1", "m2"], "b": ["m2"]})
    assert loads(owners) == {"m1": 3, "m2": 2}
    assert owners["a"] == ["m1", "m1", "m1", "m2"]


def test_a_member_that_reads_nothing_else_keeps_its_topic():
    owners = {"a": ["m1"] * 6, "b": [None]}
    balance_unequal(owners, ["m1", "m2"], {"a": ["m1"], "b": ["m2"]})
    assert loads(owners) == {"m1": 6, "m2": 1}


def test_the_fullest_without_anything_to_give_is_passed_over():
    owners = {"a": ["m1"] * 5, "b": ["m2", "m2", "m2", "m2"]}
    balance_unequal(owners, ["m1", "m2", "m3"], {"a": ["m1"], "b": ["m1", "m2", "m3"]})
    assert loads(owners) == {"m1": 5, "m2": 2, "m3": 2}


def test_one_topic_may_upset_another_and_both_are_looked_at_again():
    owners = {"a": ["m1"] * 4, "b": ["m2"] * 2, "c": [None] * 4}
    balance_unequal(owners, ["m1", "m2", "m3"], {"a": ["m1", "m2"], "b": ["m2", "m3"], "c": ["m3"]})
    assert max(loads(owners).values()) - min(loads(owners).values()) <= 1


def test_what_a_topic_gave_away_lets_a_topic_before_it_move_in_a_second_round():
    """`a` leaves m1 for m3, who has nothing; only now m1 has less than m2, and takes one of `b`."""
    owners = {"a": ["m1"], "b": ["m2", "m1", "m2", "m2"]}
    balance_unequal(owners, ["m1", "m2", "m3"], {"a": ["m1", "m2", "m3"], "b": ["m1", "m2"]})
    assert loads(owners) == {"m1": 2, "m2": 2, "m3": 1}
