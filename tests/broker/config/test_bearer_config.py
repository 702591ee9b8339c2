"""What `server.properties` says about tokens: taken, or refused by one line; an open door is never made by leaving a key out."""

from __future__ import annotations

import pytest

from oncelog.broker.config.config import UNSECURED_KEY, ConfigInvalid, config_from
from oncelog.broker.config.listeners import listeners_of, warnings_of
from oncelog.core.json_web_token import TokenRules

URL = "sasl.oauthbearer.jwks.endpoint.url"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
BASE = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "OAUTHBEARER"}


def bearer(**values):
    config, warnings = config_from(BASE | {name.replace("__", "."): value for name, value in values.items()})
    (listener,) = listeners_of(config, [])
    return listener.mechanisms["OAUTHBEARER"].bearer, [*warnings, *warnings_of([listener], config)]


def test_a_file_of_an_existing_deployment():
    """Its class names are synonyms; the most precise key holds."""
    prefix = "listener.name.sasl_plaintext.oauthbearer"
    found, warnings = bearer(
        **{
            URL: "https://idp.example.com/keys?tenant=secret",
            "sasl.oauthbearer.expected.audience": "a, b",
            f"{prefix}.sasl.oauthbearer.expected.audience": "c,d",
            "sasl.oauthbearer.expected.issuer": "https://idp.example.com",
            "sasl.oauthbearer.clock.skew.seconds": "7",
            "sasl.oauthbearer.sub.claim.name": "client_id",
            "sasl.oauthbearer.jwks.endpoint.refresh.ms": "60000",
            "oncelog.oauthbearer.algorithms": "ES256",
            f"{prefix}.sasl.jaas.config": f"{MODULE} required;",
            f"{prefix}.sasl.server.callback.handler.class": MODULE.replace("LoginModule", "ValidatorCallbackHandler"),
        }
    )
    assert found.rules == TokenRules(("ES256",), ("c", "d"), "https://idp.example.com", 7, "client_id")
    assert (found.keys.path, found.keys.address.name) == ("", "https://idp.example.com/keys")
    assert (found.keys.refresh_ms, found.keys.retry_backoff_ms, found.keys.retry_backoff_max_ms) == (
        60_000,
        100,
        10_000,
    )
    assert "tenant" not in repr(found)
    assert not any("oauthbearer" in each for each in warnings)


@pytest.mark.parametrize("url", ["file:/etc/keys.json", "file:///etc/keys.json"])
def test_keys_in_a_file(url):
    found, _ = bearer(**{URL: url})
    assert found.keys.path == "/etc/keys.json"


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, f"{URL} does not say whose tokens are believed"),
        ({URL: "http://idp.example.com/keys"}, "http: is for this machine only"),
        ({URL: "ftp://127.0.0.1/keys"}, "expected https://HOST/PATH"),
        ({URL: "file:"}, "expected file:PATH"),
        ({URL: "https://user:word@host/"}, "it has a user"),
        ({URL: "file:/k", UNSECURED_KEY: "true"}, "exclude each other"),
        ({URL: "file:/k", "oncelog.oauthbearer.algorithms": "RS256,none"}, "'?none'? is not believed"),
        ({URL: "file:/k", "oncelog.oauthbearer.algorithms": "HS256"}, "'?HS256'? is not believed"),
        ({URL: "file:/k", "oncelog.oauthbearer.algorithms": ","}, "is not believed"),
        ({URL: "file:/k", "sasl.server.callback.handler.class": "com.example.Any"}, "oncelog loads no classes"),
        ({URL: "file:/k", "sasl.oauthbearer.jwt.validator.class": "com.example.Any"}, "oncelog loads no classes"),
        (
            {URL: "file:/k", "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": "a.B required;"},
            "expected org",
        ),
        (
            {
                URL: "https://idp.example.com/keys",
                "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": (
                    f'{MODULE} required ssl.truststore.location="/none.pem";'
                ),
            },
            "/none.pem: No such file",
        ),
        ({URL: "https://idp.example.com/keys", "listeners": "SASL_PLAINTEXT://0.0.0.0:0"}, "sends tokens in clear"),
        ({UNSECURED_KEY: "true", "listeners": "SASL_PLAINTEXT://0.0.0.0:0"}, "is for listeners on 127.0.0.1"),
        (
            {UNSECURED_KEY: "true", "listeners": "SASL_PLAINTEXT://:0", "oncelog.insecure.listeners": "true"},
            "is for listeners on 127.0.0.1",
        ),
    ],
)
def test_one_line_says_what_is_wrong(values, says):
    with pytest.raises(ConfigInvalid, match=says) as refused:
        bearer(**values)
    assert "\n" not in str(refused.value)


def test_unsigned_tokens_are_said_at_each_start():
    found, warnings = bearer(**{UNSECURED_KEY: "true"})
    assert found.keys is None
    assert found.rules.algorithms == ("none",)
    assert any("takes unsigned tokens" in each for each in warnings)
