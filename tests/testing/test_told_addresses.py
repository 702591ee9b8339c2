"""No answer, in any version, gives a client of the proxy the address of a broker behind it."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest
from evidence.world.message_values import message_of

from oncelog.testing.proxy import FaultyProxy, _Expected
from oncelog.testing.told_addresses import APIS_WITH_ADDRESSES
from oncelog.wire.api import APIS, ApiKey
from oncelog.wire.frame import RequestHeader, decode_response, encode_response

BEHIND = "the-broker-behind"


def places(value: Any) -> list[Any]:
    """Every struct with a host and a port, found in the values: not in the way the proxy finds them. Applications' are not
    brokers'."""
    if isinstance(value, list):
        return [found for each in value for found in places(each)]
    if not hasattr(value, "FIELDS"):
        return []
    if type(value).__module__.rpartition(".")[2].startswith("streams_group"):
        return []
    within = [found for name in vars(value) for found in places(getattr(value, name))]
    return within + ([value] if hasattr(value, "host") and hasattr(value, "port") else [])


VERSIONS = [
    (key, version) for key, api in sorted(APIS.items()) for version in range(api.min_version, api.max_version + 1)
]


@pytest.mark.parametrize("key", sorted({key for key, _ in VERSIONS}), ids=lambda key: ApiKey(key).name.lower())
def test_every_address_in_every_version_is_replaced(key, monkeypatch):
    proxy = FaultyProxy(f"{BEHIND}:1")

    async def in_front_of(_self: Any, broker: tuple[str, int]) -> tuple[str, int]:
        assert broker[0] == BEHIND
        return "in-front", broker[1] + 1

    monkeypatch.setattr(FaultyProxy, "_in_front_of", in_front_of)
    told_count = 0
    for version in (version for each, version in VERSIONS if each == key):
        for seed in range(20):
            answer = message_of(APIS[key].response, version, Random(f"{key} {version} {seed}"))
            for place in places(answer):
                place.host, place.port = (BEHIND, 9092) if place.host else ("", place.port)
            frame = b"".join(encode_response(key, version, 7, answer))[4:]
            expected = _Expected(RequestHeader(key, version, 7, "c"))
            changed = asyncio.run(proxy._changed(expected, frame))
            _, got = decode_response(key, version, memoryview(changed)[4:])
            told = [(place.host, place.port) for place in places(got) if place.host]
            assert told == [("in-front", 9093)] * len(told)
            told_count += len(told)
            assert BEHIND.encode() not in changed
    assert bool(told_count) == (key in APIS_WITH_ADDRESSES)


def test_the_apis_that_tell_addresses_are_known():
    """A new one is taken care of; this only says that it came."""
    assert {ApiKey(key).name for key in APIS_WITH_ADDRESSES} == {
        "PRODUCE",
        "FETCH",
        "METADATA",
        "FIND_COORDINATOR",
        "DESCRIBE_CLUSTER",
        "SHARE_FETCH",
        "SHARE_ACKNOWLEDGE",
    } | {name for name in ("DESCRIBE_QUORUM",) if name in ApiKey.__members__}
