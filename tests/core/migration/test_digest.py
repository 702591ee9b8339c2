"""The digest sees every difference of records, and none of batches."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.core.migration.digest import RecordsDigest, TableDigest, fingerprints

pa = pytest.importorskip("pyarrow")
from oncelog.wire.arrow_records import kafka_schema

ROWS: list[dict[str, Any]] = [
    {"key": b"a", "value": b"bc", "timestamp": 1000, "headers": [{"key": "h", "value": b"1"}]},
    {"key": None, "value": b"", "timestamp": 2000, "headers": None},
    {
        "key": b"",
        "value": None,
        "timestamp": 3000,
        "headers": [{"key": "h", "value": None}, {"key": "h", "value": b""}],
    },
    {"key": b"abc", "value": b"d", "timestamp": 4000, "headers": None},
]


def batch(rows: list[dict[str, Any]]) -> Any:
    places = {"topic": "t", "partition": 0, "offset": 0, "timestampType": 0}
    return pa.RecordBatch.from_pylist([row | places for row in rows], schema=kafka_schema())


def digest(*parts: Any) -> str:
    found = RecordsDigest()
    for part in parts:
        found.update(part)
    return found.hex()


def test_where_batches_end_leaves_no_trace() -> None:
    whole = batch(ROWS)
    for cut in range(5):
        assert digest(whole.slice(0, cut), whole.slice(cut)) == digest(whole)
    assert digest(*(batch([row]) for row in ROWS)) == digest(whole)


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize(
    "change", [{"key": b"x"}, {"value": b"x"}, {"timestamp": 5}, {"headers": [{"key": "g", "value": b"1"}]}]
)
def test_each_field_counts(place: int, change: dict[str, Any]) -> None:
    changed = [row | change if at == place else row for at, row in enumerate(ROWS)]
    assert digest(batch(changed)) != digest(batch(ROWS))


def test_nothing_and_empty_differ_and_so_does_the_order() -> None:
    swapped = [ROWS[1], ROWS[0], *ROWS[2:]]
    texts = {
        digest(batch(rows)) for rows in (ROWS, swapped, ROWS[:3], [ROWS[0] | {"key": None}], [ROWS[0] | {"key": b""}])
    }
    assert len(texts) == 5


def test_bytes_do_not_move_between_records() -> None:
    one = [ROWS[0] | {"value": b"ab"}, ROWS[0] | {"value": b"c"}]
    other = [ROWS[0] | {"value": b"a"}, ROWS[0] | {"value": b"bc"}]
    assert digest(batch(one)) != digest(batch(other))


def keyed(*rows: tuple[bytes | None, bytes | None]) -> Any:
    return batch([{"key": key, "value": value, "timestamp": 1000, "headers": None} for key, value in rows])


def table(*rows: tuple[bytes | None, bytes | None]) -> str:
    found = TableDigest()
    found.update(keyed(*rows))
    return found.hex()


def test_a_fingerprint_sees_every_part_of_a_record() -> None:
    found = fingerprints(
        batch([ROWS[0], ROWS[0] | {"key": None}, ROWS[0] | {"value": None}, ROWS[0] | {"headers": None}])
    )
    found += fingerprints(batch([ROWS[0] | {"timestamp": 1001}, ROWS[0] | {"key": b"ab", "value": b"c"}, ROWS[0]]))
    assert len(set(found)) == 6
    assert found[0] == found[-1]


def test_tables_are_what_compaction_leaves() -> None:
    whole = table((b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (None, b"x"), (b"c", b"3"), (b"c", None))
    assert whole == table((b"b", b"1"), (b"a", b"2"))
    assert whole == table((b"b", b"1"), (b"a", b"2"), (b"c", None))
    assert whole != table((b"a", b"2"), (b"b", b"1")), "order"
    assert whole != table((b"b", b"1"), (b"a", b"1")), "not the last one"
    assert whole != table((b"b", b"1"))
