"""What a search wants, and what a mask lets out: pure."""

from __future__ import annotations

import json

import pytest

from oncelog.console.record_filter import HIDDEN, Filter, Mask, comparison, filter_of
from oncelog.errors import InvalidArgument
from oncelog.wire.record import Record

VALUE = json.dumps({"id": 7, "customer": {"name": "ann", "card": "4242"}, "open": True}).encode()
RECORD = Record(0, 0, b"k", VALUE, (("trace", b"abc"),))


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        *[("id = 7", True), ("id != 7", False), ("id >= 7", True), ("id<7", False), ("customer.name = ann", True)],
        *[("customer.name = bob", False), ("open = true", True), ("missing = 1", False), ("customer > 1", False)],
        *[("id.deeper = 1", False), ('customer.card = "4242"', True), ("id = seven", False)],
    ],
)
def test_fields_are_compared_as_data(text: str, is_found: bool) -> None:
    assert Filter(where=comparison(text)).matches(RECORD) is is_found


@pytest.mark.parametrize("text", ["", "id", "= 5", "a..b = 1", ".".join("a" * 40) + " = 1"])
def test_what_compares_nothing_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="compares nothing"):
        comparison(text)


def test_text_is_looked_for_everywhere_and_a_key_exactly() -> None:
    for part in (b"k", b"4242", b"trace", b"abc"):
        assert Filter(contains=part).matches(RECORD)
    assert not Filter(contains=b"4343").matches(RECORD)
    assert Filter(key=b"k").matches(RECORD)
    assert not Filter(key=b"kk").matches(RECORD)
    assert not Filter(where=comparison("id = 7")).matches(Record(0, 0, None, b"\xff no json"))
    assert not Filter(where=comparison("id = 7")).matches(Record(0, 0, None, b"[" * 100_000))


def test_a_batch_without_the_text_is_not_parsed() -> None:
    assert not Filter(contains=b"zebra").may_be_in(b"lion")
    assert Filter(contains=b"zebra", mask=Mask(hides_values=True)).may_be_in(b"lion"), "what is masked decides nothing"


def test_masked_fields_leave_nothing_and_a_search_does_not_tell_them() -> None:
    wanted = filter_of({"contains": "4242"}, Mask(frozenset({"card"})))
    masked = wanted.mask.of(RECORD)
    assert json.loads(masked.value or b"")["customer"] == {"name": "ann", "card": HIDDEN}
    assert not wanted.matches(masked)
    assert not Filter(where=comparison("customer.card = 4242")).matches(masked)
    text = Mask(frozenset({"card"})).of(Record(0, 0, b"plain", b"card=4242", (("card", b"4242"),)))
    assert (text.key, text.value, text.headers) == (b"plain", HIDDEN.encode(), (("card", HIDDEN.encode()),))


def test_hidden_values_are_gone_and_none_stays_none() -> None:
    mask = Mask(hides_values=True)
    hidden = mask.of(RECORD)
    assert (hidden.key, hidden.value, hidden.headers[0][1]) == (b"k", HIDDEN.encode(), HIDDEN.encode())
    assert mask.of(Record(0, 0, None, None)).value is None
