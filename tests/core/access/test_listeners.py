"""Listeners as Kafka writes them."""

from __future__ import annotations

import pytest

from oncelog.core.access.listeners import (
    DEFAULT_MAP,
    ListenerInvalid,
    NamedAddress,
    Protocol,
    controller_names,
    is_loopback,
    named_address,
    named_addresses,
    protocol_map,
    protocol_of,
)


def test_names_and_addresses():
    assert named_addresses("PLAINTEXT://:9092, internal://[::1]:0,CONTROLLER://:9093") == [
        NamedAddress("PLAINTEXT", "", 9092),
        NamedAddress("INTERNAL", "::1", 0),
        NamedAddress("CONTROLLER", "", 9093),
    ]
    assert named_address("h:1") == NamedAddress("PLAINTEXT", "h", 1)


def test_whose_listeners_are_for_controllers():
    assert controller_names("") == {"CONTROLLER"}
    assert controller_names(" quorum,OTHER ") == {"QUORUM", "OTHER"}


@pytest.mark.parametrize("text", ["h", "h:", "h:x", "h:65536", "://h:1", "a b://h:1", "A://h:1,A://h:2", "A://h:²"])
def test_what_is_no_listener(text):
    with pytest.raises(ListenerInvalid):
        named_addresses(text)


def test_what_names_speak():
    protocols = protocol_map(f"{DEFAULT_MAP}, internal:sasl_plaintext")
    assert protocol_of("SSL", protocols) is Protocol.SSL
    assert protocol_of("INTERNAL", protocols) is Protocol.SASL_PLAINTEXT
    assert (Protocol.SSL.has_tls, Protocol.SSL.has_sasl) == (True, False)
    assert (Protocol.SASL_PLAINTEXT.has_tls, Protocol.SASL_PLAINTEXT.has_sasl) == (False, True)
    assert (Protocol.SASL_SSL.has_tls, Protocol.SASL_SSL.has_sasl) == (True, True)
    with pytest.raises(ListenerInvalid, match="does not say"):
        protocol_of("OTHER", protocols)


@pytest.mark.parametrize("text", ["A", "A:", "A:NONE", ":SSL", "A:SSL,A:SSL", "A:SSL,a:SSL"])
def test_a_map_that_is_none(text):
    with pytest.raises(ListenerInvalid):
        protocol_map(text)


def test_who_reaches_an_address():
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost")))
    assert not any(map(is_loopback, ("", "0.0.0.0", "::", "10.0.0.1", "example.com", "::ffff:10.0.0.1")))
