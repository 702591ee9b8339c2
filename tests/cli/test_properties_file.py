"""Properties files as Java reads them."""

from __future__ import annotations

import pathlib

import pytest

from oncelog.cli.properties_file import properties_from_text, property_from_text, read_properties
from oncelog.errors import ConfigurationError


def test_forms_of_a_line() -> None:
    text = (
        "# comment\n! another\n\nbootstrap.servers=h:1,h:2\n  acks : all \nclient.id\tme\n"
        'sasl.jaas.config=Module required \\\n    user="x";\nempty=\nunicode=\\u00e9\\tx\na\\=b=c\nlast=1\nlast=2\n'
    )
    assert properties_from_text(text) == {
        "bootstrap.servers": "h:1,h:2",
        "acks": "all",
        "client.id": "me",
        "sasl.jaas.config": 'Module required user="x";',
        "empty": "",
        "unicode": "é\tx",
        "a=b": "c",
        "last": "2",
    }


def test_a_pair_on_the_command_line() -> None:
    assert property_from_text("a.b=c=d") == ("a.b", "c=d")
    with pytest.raises(ConfigurationError, match="key=value"):
        property_from_text("a.b")


def test_passwords_do_not_stand_on_command_lines_or_in_files_that_others_read(tmp_path: pathlib.Path) -> None:
    for key in ("sasl.password", "sasl.jaas.config", "ssl.key.password", "sasl.plain.password"):
        with pytest.raises(ConfigurationError, match="whoever lists processes") as refused:
            property_from_text(f"{key}=very-secret-word")
        assert "very-secret-word" not in str(refused.value)
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_SSL\nsasl.password=very-secret-word\n")
    file.chmod(0o644)
    with pytest.raises(ConfigurationError, match=f"others can read it: chmod 600 {file}") as refused:
        read_properties(str(file))
    assert "very-secret-word" not in str(refused.value)
    file.chmod(0o640)
    assert read_properties(str(file))["sasl.password"] == "very-secret-word"


def test_a_key_pasted_without_backslashes_is_not_shown(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "ssl.keystore.key=-----BEGIN PRIVATE KEY-----\nMIIEvgIBADANBgkqhkiG9w0\n-----END PRIVATE KEY-----\n"
    )
    with pytest.raises(ConfigurationError, match="line 2") as refused:
        read_properties(str(file))
    assert "MIIE" not in str(refused.value)


def test_references_of_providers_are_resolved(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PW", "very-secret-word")
    file = tmp_path / "client.properties"
    file.write_text(
        "sasl.password=${env:KAFKA_PW}\nconfig.providers=env\n"
        "config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
    )
    file.chmod(0o600)
    assert read_properties(str(file)) == {"sasl.password": "very-secret-word"}
    monkeypatch.delenv("KAFKA_PW")
    with pytest.raises(ConfigurationError, match=f"^{file}: sasl.password: the environment has no variable 'KAFKA_PW'"):
        read_properties(str(file))
