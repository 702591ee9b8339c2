"""What is left out of a copy, and what is hidden in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oncelog.core.migration.changing import Change, Mask, mask_of

pa = pytest.importorskip("pyarrow")
from oncelog.wire.arrow_records import kafka_schema

SECRET = b"sixteen bytes, or more"


def changed(change: Change, *rows: dict[str, Any]) -> list[dict[str, Any]]:
    places = {"topic": "t", "partition": 0, "offset": 0, "timestampType": 0, "timestamp": 0}
    empty = {"key": None, "value": None, "headers": None}
    batch = pa.RecordBatch.from_pylist([empty | row | places for row in rows], schema=kafka_schema())
    found = change.apply(batch)
    assert found.schema == batch.schema
    return [{name: each[name] for name in empty} for each in found.to_pylist()]


def masked(value: Any, *parts: str) -> Any:
    (row,) = changed(Change("", tuple(map(mask_of, parts)), SECRET), {"value": json.dumps(value).encode()})
    return json.loads(row["value"])


def test_records_are_left_out_by_their_key() -> None:
    rows = [{"key": key} for key in (b"eu-1", b"us-1", None, b"", b"xeu-\xff")]
    assert [row["key"] for row in changed(Change("eu-"), *rows)] == [b"eu-1", b"xeu-\xff"]
    assert [row["key"] for row in changed(Change("^eu-"), *rows)] == [b"eu-1"]
    assert changed(Change("^eu-")) == []


def test_equal_parts_stay_equal_and_nulls_stay_null() -> None:
    change = Change("", (Mask("key"), Mask("value")), SECRET)
    one, two, three = changed(
        change, {"key": b"a", "value": b"a"}, {"key": b"a", "value": b""}, {"key": b"b", "headers": [], "value": None}
    )
    assert one["key"] == two["key"] == one["value"] != three["key"]
    assert (len(one["key"]), three["value"], three["headers"]) == (32, None, [])
    assert changed(Change("", change.masks, SECRET + b"!"), {"key": b"a"})[0]["key"] != one["key"]


def test_headers_by_name() -> None:
    headers = [{"key": "user", "value": b"x"}, {"key": "id", "value": b"x"}, {"key": "user", "value": None}]
    (row,) = changed(Change("", (Mask("headers", "user"),), SECRET), {"headers": headers, "value": b"v"})
    assert [each["key"] for each in row["headers"]] == ["user", "id", "user"]
    assert (len(row["headers"][0]["value"]), row["headers"][1:], row["value"]) == (32, headers[1:], b"v")


def test_fields_of_json_values() -> None:
    found = masked(
        {"user": {"mail": "a@b", "age": 3}, "n": 1.5, "none": None}, "value:user.mail", "value:none", "value:no.x"
    )
    assert (found["user"]["age"], found["n"], found["none"], len(found["user"]["mail"])) == (3, 1.5, None, 32)
    found = masked({"users": [{"mail": "a"}, {"mail": "a"}, {}, "b"]}, "value:users.mail")
    assert found["users"][0] == found["users"][1] != {"mail": "a"}
    assert found["users"][2] == {}
    assert len(found["users"][3]) == 32, "what stands in the place of an object may be the thing itself"
    assert len(masked({"user": "a@b"}, "value:user.mail")["user"]) == 32


@pytest.mark.parametrize("value", [b"no json", b"[1]", b'"text"', b"\xff", b"[" * 100_000, b"1" * 5000])
def test_what_is_no_json_object_is_hidden_as_a_whole(value: bytes) -> None:
    (row,) = changed(Change("", (Mask("value", "a"),), SECRET), {"value": value})
    assert len(row["value"]) == 32


def test_a_change_is_told_from_every_other() -> None:
    changes = [
        Change("a", (), b""),
        Change("b", (), b""),
        Change("", (Mask("key"),), SECRET),
        Change("", (Mask("value"),), SECRET),
        Change("", (Mask("value"),), SECRET + b"!"),
    ]
    assert len({each.tag for each in changes}) == 5
    assert Change().tag == ""
    assert all("sixteen" not in each.tag for each in changes)


@pytest.mark.parametrize("text", ["", "keys", "key:a", "value:", "value:a..b", "header", "header:", "headers:a"])
def test_parts_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="is none of key, value"):
        mask_of(text)
