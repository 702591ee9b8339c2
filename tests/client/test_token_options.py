"""Where tokens come from, by options of both worlds; one line where they say nothing, or too much."""

from __future__ import annotations

import pytest

from oncelog.client.config import ClientConfig
from oncelog.client.token_options import ByEndpoint, ByFile, ByProvider, Unsigned
from oncelog.errors import ConfigurationError

BASE = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
URL = "https://idp.example.com/token"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def tokens(**values):
    sasl = ClientConfig.of(BASE | values).security().sasl
    assert (sasl.mechanism, sasl.user) == ("OAUTHBEARER", "")
    return sasl.tokens


def provider():
    return "t"


class Provider:
    def token(self):
        return "t"


@pytest.mark.parametrize("given", [provider, Provider()])
def test_a_provider(given):
    assert tokens(sasl_oauth_token_provider=given).origin == ByProvider(given)


def test_librdkafkas_names():
    assert tokens(oauth_cb=provider, sasl_oauthbearer_config="x").origin == ByProvider(provider, ("x",))
    found = tokens(
        sasl_oauthbearer_method="oidc",
        sasl_oauthbearer_token_endpoint_url=URL,
        sasl_oauthbearer_client_id="batch",
        sasl_oauthbearer_client_secret="word",
        sasl_oauthbearer_scope="kafka",
        sasl_oauthbearer_extensions="logicalCluster=lkc-1, identityPoolId=p",
    )
    assert isinstance(found.origin, ByEndpoint)
    assert (found.origin.client_id, found.origin.client_secret, found.origin.scope) == ("batch", "word", "kafka")
    assert found.extensions == {"logicalCluster": "lkc-1", "identityPoolId": "p"}
    assert "word" not in repr(found)


def test_kafkas_names():
    jaas = f'{MODULE} required clientId="batch" clientSecret="word" scope="kafka" extension_trace="x";'
    for found in (
        tokens(sasl_oauthbearer_token_endpoint_url=URL, sasl_jaas_config=jaas),
        tokens(
            sasl_oauthbearer_token_endpoint_url=URL,
            sasl_oauthbearer_client_credentials_client_id="batch",
            sasl_oauthbearer_client_credentials_client_secret="word",
            sasl_oauthbearer_scope="kafka",
            sasl_oauthbearer_extensions="trace=x",
            sasl_login_callback_handler_class=MODULE.replace("LoginModule", "LoginCallbackHandler"),
        ),
    ):
        assert (found.origin.client_id, found.origin.client_secret, found.origin.scope) == ("batch", "word", "kafka")
        assert found.extensions == {"trace": "x"}
        assert found.origin.tls is not None
    assert tokens(sasl_oauthbearer_token_endpoint_url="file:///run/token").origin == ByFile("/run/token")
    unsigned = f'{MODULE} required unsecuredLoginStringClaim_sub="olga" unsecuredLoginLifetimeSeconds="60";'
    assert tokens(sasl_jaas_config=unsigned).origin == Unsigned("olga", 60)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "needs sasl_oauth_token_provider, or sasl_oauthbearer_token_endpoint_url"),
        ({"sasl_username": "u", "sasl_password": "word"}, "has no sasl_username"),
        ({"sasl_oauth_token_provider": provider, "oauth_cb": provider}, "exclude each other"),
        ({"sasl_oauth_token_provider": 7}, "expected a function, or an object with token"),
        ({"oauth_cb": "f"}, "oauth_cb: expected a function"),
        ({"sasl_oauthbearer_token_endpoint_url": URL}, "needs sasl_oauthbearer_client_credentials_client_id and"),
        ({"sasl_oauthbearer_token_endpoint_url": "http://idp.example.com/"}, "http: is for this machine only"),
        ({"sasl_oauth_token_provider": provider, "sasl_oauthbearer_extensions": "auth=x"}, "extension 'auth'"),
        ({"sasl_jaas_config": "nonsense word"}, "sasl_jaas_config"),
        ({"sasl_jaas_config": 'a.B required clientSecret="word";'}, f"OAUTHBEARER needs {MODULE}"),
        (
            {
                "sasl_jaas_config": f'{MODULE} required unsecuredLoginStringClaim_sub="o" unsecuredLoginLifetimeSeconds="x";'
            },
            "LifetimeSeconds",
        ),
        (
            {
                "sasl_oauthbearer_token_endpoint_url": URL,
                "sasl_oauthbearer_client_id": "b",
                "sasl_oauthbearer_client_secret": "word",
                "https_ca_location": "/none.pem",
            },
            "/none.pem: No such file",
        ),
    ],
)
def test_one_line_says_what_is_wrong(values, says):
    with pytest.raises(ConfigurationError, match=says) as refused:
        tokens(**values)
    assert "word" not in str(refused.value).replace("sasl_password", "")


def test_secrets_are_not_shown():
    config = ClientConfig.of(
        BASE
        | {
            "sasl_oauthbearer_token_endpoint_url": URL,
            "sasl_oauthbearer_client_id": "batch",
            "sasl_oauthbearer_client_secret": "top-secret",
        }
    )
    assert "top-secret" not in repr(config) + repr(config.security())
