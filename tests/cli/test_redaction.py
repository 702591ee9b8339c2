"""In doubt a value is hidden."""

from __future__ import annotations

import pytest

from oncelog.cli.redaction import HIDDEN, client_settings_told, setting_told


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.keystore.password", "x"),
        ("listener.name.sasl.plain.sasl.jaas.config", "x"),
        ("ssl.keystore.key", "x"),
        ("delegation.token.secret.key", "x"),
        ("my.own", "password=hunter2"),
        ("my.own", "org.apache.kafka.PlainLoginModule required;"),
        ("my.own", "-----BEGIN PRIVATE KEY-----"),
    ],
)
def test_what_may_be_secret_is_hidden(name: str, value: str) -> None:
    assert setting_told(name, value) == HIDDEN


def test_what_is_harmless_is_told() -> None:
    assert setting_told("retention.ms", "5") == "5"
    assert setting_told("retention.ms", "5", is_sensitive=True) == HIDDEN
    assert setting_told("some.url", "https://me:hunter2@host/x") == f"https://{HIDDEN}@host/x"
    assert setting_told("empty", "") == ""
    told = client_settings_told({"client.id": "x", "anything.else": "hunter2", "sasl.password": "hunter2"})
    assert told == {"client.id": "x", "anything.else": HIDDEN, "sasl.password": HIDDEN}
