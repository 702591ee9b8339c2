"""Format strings of `consume -f`."""

from __future__ import annotations

import pytest

from oncelog.cli.record_format import compile_format
from oncelog.client.records import ConsumerRecord

RECORD = ConsumerRecord("t", 3, 17, 1234, 0, b"key", b"v\xff", (("h", b"1"), ("n", None)))
EMPTY = ConsumerRecord("t", 0, 0, -1, 0, None, None, ())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (r"%t [%p] %o %k %s\n", b"t [3] 17 key v\xff\n"),
        ("%T %K %S %h %%", b"1234 3 2 h=1,n=NULL %"),
        (r"\t\\\x41\0\q", b"\t\\A\0\\q"),
        ("", b""),
        ("100%%\\", b"100%\\"),
        ("ü", "ü".encode()),
    ],
)
def test_signs_and_escapes(text: str, shown: bytes) -> None:
    assert compile_format(text)(RECORD) == shown


def test_nothing_is_empty_with_length_minus_one() -> None:
    assert compile_format("[%k][%s] %K %S")(EMPTY) == b"[][] -1 -1"


def test_an_unknown_sign_is_refused() -> None:
    with pytest.raises(ValueError, match="%x is unknown"):
        compile_format("%x")
