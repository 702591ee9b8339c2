"""Which rows of the bench run."""

from __future__ import annotations

import pytest
from bench.selection import NothingChosen, Wanted, choose

PARTS = {"sockets": ("fetch-100", "produce-100"), "latency": (), "records": ("send", "poll")}


def test_without_a_choice_everything_runs():
    chosen = choose("", PARTS)
    assert list(chosen) == list(PARTS)
    assert chosen["sockets"].of(PARTS["sockets"]) == ["fetch-100", "produce-100"]


def test_parts_and_rows_are_chosen_by_name():
    chosen = choose("records/poll, sockets/fetch*,latency", PARTS)
    assert list(chosen) == ["sockets", "latency", "records"]
    assert chosen["sockets"].of(PARTS["sockets"]) == ["fetch-100"]
    assert chosen["records"].of(PARTS["records"]) == ["poll"]
    assert Wanted(("a", "b*"))("bc")
    assert not Wanted(("a", "b*"))("ac")


@pytest.mark.parametrize("only", ["socket", "sockets/consume", "latency/p50", "records/poll,nothing"])
def test_a_name_that_nothing_has_is_told_with_those_there_are(only):
    with pytest.raises(NothingChosen, match=r"there are: sockets \(fetch-100, produce-100\); latency; records"):
        choose(only, PARTS)
