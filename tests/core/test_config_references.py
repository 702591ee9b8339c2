"""References in configuration values: what is read for them, and what is refused instead of being taken as it stands."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.core.config_references import DIRECTORY, ENVIRONMENT, FILE, Provider, ReferenceInvalid, resolved

PACKAGE = "org.apache.kafka.common.config.provider."
# As Strimzi writes it.
PROVIDERS = {
    "config.providers": "strimzienv, file",
    "config.providers.strimzienv.class": f"{PACKAGE}EnvVarConfigProvider",
    "config.providers.strimzienv.param.allowlist.pattern": ".*",
    "config.providers.file.class": f"{PACKAGE}FileConfigProvider",
}
WORD = "very-secret-word"


def never(provider, path, key):
    raise AssertionError("nothing is to be read")


def test_each_reference_is_read_and_the_keys_about_providers_are_gone():
    read = []

    def answer(provider, path, key):
        read.append((provider, path, key))
        return f"<{key}>"

    values = {**PROVIDERS, "a": "x ${strimzienv:PW} y${file:/etc/s.properties:k.1}", "b": "plain ${nothing} $"}
    assert resolved(values, answer) == {"a": "x <PW> y<k.1>", "b": "plain ${nothing} $"}
    assert read == [
        (Provider("strimzienv", ENVIRONMENT, ".*"), "", "PW"),
        (Provider("file", FILE), "/etc/s.properties", "k.1"),
    ]


def test_what_was_read_is_not_read_for_references():
    values = {**PROVIDERS, "a": "${strimzienv:PW}"}
    assert resolved(values, lambda *_: "${file:/etc/passwd:root}") == {"a": "${file:/etc/passwd:root}"}


def test_values_without_references_stay():
    assert resolved({"a": "b", "c": "$1@$2"}, never) == {"a": "b", "c": "$1@$2"}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (
            {"sasl.jaas.config": 'user_a="${env:PW}";'},
            r"sasl\.jaas\.config: \$\{env:\.\.\.\}: config\.providers names no",
        ),
        ({"config.providers": "env", "a": "${env:PW}"}, r"config\.providers\.env\.class: oncelog loads no classes"),
        ({**PROVIDERS, "config.providers.file.class": "org.example.Vault"}, "loads no classes; built are"),
        (
            {**PROVIDERS, "config.providers.file.param.secret.part": WORD},
            r"file\.param\.secret\.part: .* no such param",
        ),
        ({"config.providers.env.class": f"{PACKAGE}EnvVarConfigProvider"}, "has no such provider"),
    ],
)
def test_what_cannot_be_resolved_is_refused(values, says):
    """Taken as it stands, `${env:PW}` would be the password."""
    with pytest.raises(ReferenceInvalid, match=says) as refused:
        resolved(values, never)
    assert WORD not in str(refused.value)


def test_a_failure_names_the_key():
    def fail(provider, path, key):
        raise ReferenceInvalid("it is not there")

    with pytest.raises(ReferenceInvalid, match=r"^ssl\.key\.password: it is not there$"):
        resolved({**PROVIDERS, "ssl.key.password": "${file:/a:b}"}, fail)


@given(st.text(alphabet="${}:ab,./ \n", max_size=60))
def test_any_text_is_resolved_or_refused(text):
    values = {"config.providers": "a", "config.providers.a.class": PACKAGE + DIRECTORY, "key": text}
    with contextlib.suppress(ReferenceInvalid):
        assert set(resolved(values, lambda provider, path, key: f"{path}|{key}")) == {"key"}
