"""A client whose certificate a broker refuses: told at once, with the file that was shown and what to do."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
import uvloop

from oncelog import errors, sync
from oncelog.host.certificate_authority import Authority, Certificate
from oncelog.host.tls import ClientContext, refusal_in
from oncelog.testing import TestBroker

AT_ONCE_S = 10.0  # the client's own patience is 60 s
VERSIONS = ["TLSv1.2", "TLSv1.3"]


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker(security="mTLS") as found:
        yield found


def authority(broker: TestBroker) -> Authority:
    assert broker._security is not None
    assert broker._security._authority is not None
    return broker._security._authority


def options(broker: TestBroker, version: str, shown: str = "") -> dict[str, Any]:
    mine = {"ssl_certificate_location", "ssl_key_location"}
    found = {key: value for key, value in broker.client_options().items() if key not in mine}
    return found | {"ssl_enabled_protocols": version} | (dict.fromkeys(mine, shown) if shown else {})


def certificates(broker: TestBroker) -> dict[str, Certificate]:
    known = authority(broker)
    return {
        "does not believe who signed": Authority("another").sign("alice"),
        "has expired: show a new one": known.sign("alice", days=(-3, -1)),
        "not valid yet": known.sign("alice", days=(3, 5)),
        "not for clients": known.sign("alice", usage="server"),
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_refusals_are_told_at_once_and_name_the_file(broker: TestBroker, version: str, tmp_path: Path) -> None:
    began = time.monotonic()
    for number, (said, certificate) in enumerate(certificates(broker).items()):
        file = certificate.write(tmp_path, f"shown-{number}")
        with pytest.raises(errors.AuthenticationFailed) as told:
            sync.Admin(**options(broker, version, file)).start()
        assert said in str(told.value)
        assert file in str(told.value)
    assert time.monotonic() - began < AT_ONCE_S


@pytest.mark.parametrize("version", VERSIONS)
def test_who_shows_nothing_is_told_to(broker: TestBroker, version: str) -> None:
    wanted = r"wants a certificate of ours, and none was shown.*ssl_keystore_location"
    for client in (sync.Admin, sync.Producer, sync.Consumer):
        with pytest.raises(errors.AuthenticationFailed, match=wanted):
            client(**options(broker, version)).start()


@pytest.mark.parametrize("shown", ["client.pem", ""])
@pytest.mark.parametrize(
    ("alert", "with_one", "without"),
    [
        ("SSLV3_ALERT_CERTIFICATE_UNKNOWN", "ssl.truststore has not who signed it", "ssl.truststore"),
        ("SSLV3_ALERT_BAD_CERTIFICATE", "does not take our certificate", "none was shown"),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", "none of our TLS versions", "none was shown"),
        ("SSLV3_ALERT_CERTIFICATE_REVOKED", "was revoked", "was revoked"),
        ("TLSV1_ALERT_ACCESS_DENIED", "does not take our certificate", "does not take our certificate"),
        ("TLSV1_ALERT_INTERNAL_ERROR", "what we speak (tlsv1 alert internal error)", "what we speak"),
        ("WRONG_VERSION_NUMBER", "", ""),
    ],
)
def test_alerts_as_java_and_others_send_them(shown: str, alert: str, with_one: str, without: str) -> None:
    """Apache Kafka 4.3 says "certificate unknown", whatever is wrong, and "bad certificate" where none was shown."""
    context, error = ClientContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLError(1, "it failed")
    context.shown, error.reason = shown, alert
    said = refusal_in(error, context)
    assert (with_one if shown else without) in said
    assert bool(said) == ("ALERT" in alert)


def test_no_common_version() -> None:
    refused = pytest.raises(errors.AuthenticationFailed, match=r"none of our TLS versions.*ssl_enabled_protocols")
    with TestBroker({"ssl.enabled.protocols": "TLSv1.3"}, security="SSL") as broker, refused:
        sync.Admin(**broker.client_options(), ssl_enabled_protocols="TLSv1.2").start()


def test_whom_we_do_not_believe_is_told_with_the_file(broker: TestBroker, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    other.write_text(Authority("another").pem)
    with pytest.raises(errors.AuthenticationFailed, match=r"is not believed by .*other\.pem"):
        sync.Admin(**broker.client_options() | {"ssl_ca_location": str(other)}).start()


@pytest.mark.parametrize("version", VERSIONS)
def test_librdkafka_is_told_too(broker: TestBroker, version: str, tmp_path: Path) -> None:
    """What our broker sends is an alert like everybody's."""
    file = Authority("another").sign("alice").write(tmp_path, "other")
    said: list[confluent_kafka.KafkaError] = []
    given = options(broker, version, file)
    given.pop("ssl_enabled_protocols")
    dotted = {key.replace("_", "."): value for key, value in given.items()}
    client = confluent_kafka.Producer(dotted | {"error_cb": said.append, "log_level": 0})
    deadline = time.monotonic() + 30
    while not said and time.monotonic() < deadline:
        client.poll(0.1)
    assert "unknown ca" in said[0].str().lower()


def test_a_broker_on_uvloop_tells_it(tmp_path: Path) -> None:
    policy = asyncio.get_event_loop_policy()
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    try:
        with TestBroker(security="mTLS") as broker:
            file = Authority("another").sign("alice").write(tmp_path, "other")
            for version in VERSIONS:
                with pytest.raises(errors.AuthenticationFailed, match="does not believe who signed"):
                    sync.Admin(**options(broker, version, file)).start()
    finally:
        asyncio.set_event_loop_policy(policy)
