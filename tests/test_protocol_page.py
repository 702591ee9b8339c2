"""docs/protocol.md says what the broker does, and its figures of Apache Kafka are what a node of it answers."""

from __future__ import annotations

import os
import socket

import pytest
from tools import protocol_page as page

from oncelog.broker.handlers import MODULES
from oncelog.wire.api import APIS, ApiKey
from oncelog.wire.frame import FrameReader, decode_response, encode_request
from oncelog.wire.messages.api_versions import ApiVersionsRequest


def test_the_page_is_current():
    assert page.PAGE.read_text(encoding="utf-8") == page.render(), "python tools/protocol_page.py"


def test_every_api_of_apache_kafka_is_served_or_there_is_a_reason():
    assert {key for key in page.APACHE_KAFKA if key not in MODULES} == set(page.NOT_SERVED)


def test_nothing_is_served_in_fewer_versions_than_apache_kafka():
    """Neither is a version left out at the old end, nor one invented, but for the one that KIP-939 adds.

    Telemetry it serves in version 0, and tells nobody without a plugin.
    """
    theirs = page.APACHE_KAFKA | {71: ("GetTelemetrySubscriptions", 0, 0), 72: ("PushTelemetry", 0, 0)}
    different = {
        APIS[key].name: (APIS[key].advertised_min_version, APIS[key].max_version)
        for key in MODULES
        if theirs[key][1:] != (APIS[key].advertised_min_version, APIS[key].max_version)
    }
    assert different == {"InitProducerId": (0, 6)}
    assert [APIS[key].name for key in MODULES] == [theirs[key][0] for key in MODULES]


@pytest.mark.compat
@pytest.mark.skipif(not os.environ.get("ONCELOG_KAFKA_BOOTSTRAP"), reason="`make conformance` starts Apache Kafka")
def test_apache_kafka_says_the_same():
    host, _, port = os.environ["ONCELOG_KAFKA_BOOTSTRAP"].rpartition(":")
    asked = ApiVersionsRequest(client_software_name="oncelog", client_software_version="1")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(b"".join(encode_request(ApiKey.API_VERSIONS, 4, 1, "test", asked)))
        reader, frames = FrameReader(), []
        while not frames:
            frames = reader.receive(connection.recv(65536))
    _, answer = decode_response(ApiKey.API_VERSIONS, 4, frames[0])
    told = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    unstable = {ApiKey.INIT_PRODUCER_ID: (0, 6)}  # what the conformance run allows
    assert told in ({key: (first, last) for key, (_, first, last) in page.APACHE_KAFKA.items()}, told | unstable)
