"""Client quotas: what may be set, and who is found; answers are Apache Kafka 4.3's."""

from __future__ import annotations

import pytest

from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.core.metadata.quotas import alter_quotas, describe_quotas
from oncelog.errors import ErrorCode as E
from oncelog.wire.messages.alter_client_quotas import EntityData, EntryData, OpData
from oncelog.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

RATE = "producer_byte_rate"
USER_A, USER_DEFAULT, CLIENT_C = ("user", "a"), ("user", None), ("client-id", "c")


def alter(metadata, entity, *ops, remove=False):
    entry = EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[OpData(key=key, value=value, remove=remove) for key, value in ops],
    )
    records, (result,) = alter_quotas(metadata.client_quotas, [entry])
    for record in records:
        metadata.apply(record)
    return E(result.error_code), result.error_message


def found(metadata, *components, strict=False):
    request = DescribeClientQuotasRequest(
        components=[ComponentData(entity_type=kind, match_type=how, match=match) for kind, how, match in components],
        strict=strict,
    )
    reply = describe_quotas(metadata.client_quotas, request)
    if reply.error_code:
        assert reply.entries is None
        return E(reply.error_code)
    return [
        (
            [(part.entity_type, part.entity_name) for part in entry.entity],
            {value.key: value.value for value in entry.values},
        )
        for entry in reply.entries
    ]


@pytest.mark.parametrize(
    ("entity", "op", "message"),
    [
        ([], (RATE, 1.0), "Invalid empty client quota entity"),
        ([("zone", "x")], (RATE, 1.0), "Unhandled client quota entity type: zone"),
        ([("user", "")], (RATE, 1.0), "Empty user not supported"),
        ([("ip", "somewhere")], ("connection_creation_rate", 1.0), "somewhere is not a valid IP or resolvable host."),
        ([("ip", "::1"), USER_A], (RATE, 1.0), "Invalid quota entity combination"),
        ([("ip", None)], (RATE, 1.0), "Invalid configuration key producer_byte_rate"),
        ([USER_A], ("no_such", 1.0), "Invalid configuration key no_such"),
        ([USER_A], (RATE, 0.0), "Quota producer_byte_rate must be greater than 0"),
        ([USER_A], (RATE, float("nan")), "Quota producer_byte_rate must be greater than 0"),
        ([USER_A], (RATE, 1.5), "producer_byte_rate cannot be a fractional value."),
        ([USER_A], (RATE, 1e30), "too large for a LONG"),
        ([("ip", None)], ("connection_creation_rate", 2.0**31), "too large for a INT"),
    ],
)
def test_what_is_refused(entity, op, message):
    metadata = ClusterMetadata()
    code, said = alter(metadata, entity, op)
    assert code is E.INVALID_REQUEST
    assert message in said
    assert metadata.client_quotas == {}


def test_set_found_and_removed():
    metadata = ClusterMetadata()
    assert alter(metadata, [USER_A], (RATE, 10.0), ("request_percentage", 0.5)) == (E.NONE, None)
    assert alter(metadata, [USER_DEFAULT], (RATE, 20.0)) == (E.NONE, None)
    assert alter(metadata, [USER_A, CLIENT_C], (RATE, 5.0)) == (E.NONE, None)
    assert alter(metadata, [("ip", "127.0.0.1")], ("connection_creation_rate", 5.0)) == (E.NONE, None)
    of_a = ([USER_A], {RATE: 10.0, "request_percentage": 0.5})
    of_both = ([CLIENT_C, USER_A], {RATE: 5.0})
    assert found(metadata, ("user", 0, "a")) == [of_a, of_both]
    assert found(metadata, ("user", 0, "a"), strict=True) == [of_a]
    assert found(metadata, ("user", 1, None)) == [([USER_DEFAULT], {RATE: 20.0})]
    assert found(metadata, ("user", 2, None), ("client-id", 2, None)) == [of_both]
    assert len(found(metadata)) == 4
    assert found(metadata, strict=True) == []
    assert alter(metadata, [USER_A], (RATE, 0.0), ("no_such", 0.0), remove=True) == (E.NONE, None)
    assert found(metadata, ("user", 0, "a"), strict=True) == [([USER_A], {"request_percentage": 0.5})]
    alter(metadata, [USER_A], ("request_percentage", 0.0), remove=True)
    assert found(metadata, ("user", 0, "a"), strict=True) == []


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", 2, None)], E.INVALID_REQUEST),
        ([("zone", 2, None)], E.UNSUPPORTED_VERSION),
        ([("user", 0, None)], E.INVALID_REQUEST),
        ([("user", 1, "x")], E.INVALID_REQUEST),
        ([("user", 2, "x")], E.INVALID_REQUEST),
        ([("user", 9, None)], E.INVALID_REQUEST),
        ([("user", 2, None), ("user", 2, None)], E.INVALID_REQUEST),
        ([("ip", 2, None), ("user", 2, None)], E.INVALID_REQUEST),
    ],
)
def test_filters_that_mean_nothing(components, code):
    assert found(ClusterMetadata(), *components) is code


def test_a_key_twice_and_a_type_twice():
    metadata = ClusterMetadata()
    assert alter(metadata, [USER_A], (RATE, 1.0), (RATE, 2.0))[0] is E.INVALID_REQUEST
    assert alter(metadata, [USER_A, ("user", "b")], (RATE, 1.0)) == (E.NONE, None)
    assert [entity for entity, _ in found(metadata)] == [[("user", "b")]]
