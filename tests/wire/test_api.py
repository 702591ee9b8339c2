"""Which APIs there are, in which versions, with which headers."""

from __future__ import annotations

import pytest

from oncelog.wire.api import APIS, Api, ApiKey

FACTS = {  # docs/kafka-notes.md F8: what Apache Kafka 4.3.0 answers to ApiVersions
    ApiKey.PRODUCE: (3, 13),
    ApiKey.FETCH: (4, 18),
    ApiKey.LIST_OFFSETS: (1, 11),
    ApiKey.METADATA: (0, 13),
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5),
    ApiKey.END_TXN: (0, 5),
    ApiKey.WRITE_TXN_MARKERS: (1, 2),
    ApiKey.TXN_OFFSET_COMMIT: (0, 5),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.LIST_TRANSACTIONS: (0, 2),
    ApiKey.OFFSET_DELETE: (0, 0),
}


@pytest.mark.parametrize("key", FACTS)
def test_ranges_are_those_of_apache_kafka(key: ApiKey) -> None:
    api = APIS[key]
    assert (api.min_version, api.max_version) == FACTS[key]
    assert api.supports(api.max_version)
    assert not api.supports(api.max_version + 1)


def test_init_producer_id_6_is_known_but_unstable() -> None:
    api = APIS[ApiKey.INIT_PRODUCER_ID]
    assert (api.min_version, api.max_stable_version, api.max_version) == (0, 5, 6)


def test_produce_is_advertised_from_version_0() -> None:
    """KAFKA-18659: librdkafka would send uncompressed batches otherwise."""
    assert (APIS[0].advertised_min_version, APIS[0].min_version) == (0, 3)
    others = [api for api in APIS.values() if api.key != ApiKey.PRODUCE]
    assert all(api.advertised_min_version == api.min_version for api in others)


def test_headers_follow_flexibility() -> None:
    assert headers(APIS[ApiKey.END_TXN], 2) == (1, 0)
    assert headers(APIS[ApiKey.END_TXN], 3) == (2, 1)
    assert headers(APIS[ApiKey.API_VERSIONS], 3) == (2, 0)
    assert headers(APIS[ApiKey.SASL_HANDSHAKE], 1) == (1, 0)
    assert headers(APIS[ApiKey.OFFSET_DELETE], 0) == (1, 0)


def headers(api: Api, version: int) -> tuple[int, int]:
    return api.request_header_version(version), api.response_header_version(version)


def test_every_key_has_its_api() -> None:
    assert set(APIS) == set(ApiKey)
    assert {api.name.upper() for api in APIS.values()} == {key.name.replace("_", "") for key in ApiKey}


@pytest.mark.parametrize("key", ApiKey)
def test_the_table_says_what_the_messages_say(key: ApiKey) -> None:
    """They are imported later than the table is asked."""
    api = APIS[key]
    for message in (api.request, api.response):
        assert key == message.KEY
        assert (api.min_version, api.max_version) == message.VERSIONS
        for version in range(api.max_version + 2):
            assert (api.request_header_version(version) == 2) is (version >= message.FLEXIBLE)
    assert (api.request.__name__, api.response.__name__) == (f"{api.name}Request", f"{api.name}Response")
