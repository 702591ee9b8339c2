"""What a clean stop notes of the transaction indexes: its bytes, and which partitions it speaks of."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from evidence.world.files import SimFiles
from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import CorruptIndex
from oncelog.log.aborted_checksums import (
    ABORTED_CHECKSUMS,
    AbortedChecksumsFile,
    checksum_of,
    checksums_from_bytes,
    checksums_to_bytes,
)
from oncelog.types import AbortedTransaction

A, B = b"a" * 16, b"b" * 16
keys = st.tuples(st.binary(min_size=16, max_size=16), st.integers(0, 2**31 - 1))
segments = st.dictionaries(st.integers(0, 2**63 - 1), st.integers(0, 2**32 - 1), max_size=4)


@given(st.dictionaries(keys, segments, max_size=4))
def test_what_is_written_is_read(found: dict[tuple[bytes, int], dict[int, int]]) -> None:
    data = checksums_to_bytes(found)
    assert checksums_from_bytes(data) == found
    assert checksums_to_bytes(dict(reversed(found.items()))) == data


@given(st.data())
def test_damage_is_seen(data: st.DataObject) -> None:
    good = checksums_to_bytes({(A, 1): {0: 7, 100: 8}})
    bad, bit = bytearray(good), data.draw(st.integers(0, len(good) * 8 - 1))
    bad[bit // 8] ^= 1 << bit % 8
    for damaged in (bytes(bad), good[: bit // 8], good + b"\0"):
        with pytest.raises(CorruptIndex):
            checksums_from_bytes(damaged)


def test_every_field_of_an_entry_counts() -> None:
    entry = AbortedTransaction(7, 10, 20, 5)
    others = [replace(entry, **{each.name: getattr(entry, each.name) + 1}) for each in fields(entry)]
    assert len({checksum_of([each]) for each in (entry, *others)} | {checksum_of([]), checksum_of([entry, entry])}) == 7


def test_it_holds_partitions_with_aborted_transactions_only() -> None:
    files = SimFiles()
    files.make_directory("d")
    file = AbortedChecksumsFile(files, "d")
    file.write({(A, 0): {}, (A, 1): {}})
    assert not files.exists(f"d/{ABORTED_CHECKSUMS}"), "nothing to say"
    file.write({(A, 0): {}, (B, 1): {5: 6}})
    again = AbortedChecksumsFile(files, "d")
    assert again.read() is None
    assert (again.of(A, 0), again.of(B, 1), again.of(B, 0)) == (None, {5: 6}, None)
    assert again.of_those([(A, 0), (B, 1)]) == {(B, 1): {5: 6}}
    again.write({(A, 0): {}})
    assert AbortedChecksumsFile(files, "d").of(B, 1) is None
    assert checksums_from_bytes(files.read_whole(f"d/{ABORTED_CHECKSUMS}")) == {}


def test_one_that_cannot_be_read_says_nothing_and_why() -> None:
    files = SimFiles()
    files.make_directory("d")
    AbortedChecksumsFile(files, "d").write({(A, 0): {1: 2}})
    files.replace_whole(f"d/{ABORTED_CHECKSUMS}", b"\0\1torn")
    file = AbortedChecksumsFile(files, "d")
    assert "transaction indexes are taken as they are" in str(file.read())
    assert file.of(A, 0) is None
