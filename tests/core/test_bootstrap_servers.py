"""The text of `bootstrap.servers`."""

from __future__ import annotations

import pytest

from oncelog.core.bootstrap_servers import addresses_of


def test_each_server_is_read() -> None:
    read = addresses_of("a:1, [::1]:2,SSL://[fe80::1%eth0]:3,2001:db8::1:9092,PLAINTEXT://b-c.d:65535")
    assert read == [("a", 1), ("::1", 2), ("fe80::1%eth0", 3), ("2001:db8::1", 9092), ("b-c.d", 65535)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a:1,", "a server is empty, is there a comma too many?"),
        ("", "^expected HOST:PORT"),
        (",", "a server is empty"),
        ("a:1,,b:2", "a server is empty"),
        ("a:1,b", r"^'b': expected HOST:PORT\[,HOST:PORT\]"),
        ("a b:1", "'a b:1': expected"),
        ("a:99999,b:1", "'a:99999': a port is a number from 1 to 65535"),
        ("a:x", "'a:x': a port is"),
        ("a:0", "'a:0': a port is"),
        ("::1", r"'::1': an address of IPv6 stands in brackets, \[::1\]:9092"),
        ("2001:db8::1", "'2001:db8::1': an address of IPv6"),
        ("[::1]", "expected HOST:PORT"),
        ("a:1:2", "an address of IPv6"),
    ],
)
def test_what_is_wrong_is_named(text: str, says: str) -> None:
    """The whole text was shown, with what was expected: not which server, nor what was wrong with it."""
    with pytest.raises(ValueError, match=says) as told:
        addresses_of(text)
    assert "expected HOST:PORT" in str(told.value)


def test_a_long_one_is_cut() -> None:
    with pytest.raises(ValueError, match="expected") as told:
        addresses_of("a" * 40_000)
    assert len(str(told.value)) < 150
