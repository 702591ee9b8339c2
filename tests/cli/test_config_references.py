"""What references stand for, out of files, directories and the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog.cli.config_references import with_references
from oncelog.core.config_references import ReferenceInvalid

PACKAGE = "org.apache.kafka.common.config.provider."
WORD = "very-secret-word"


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    for name, text in (("s.properties", f"a.key = {WORD}\n"), ("tls.crt", "line 1\nline 2\n")):
        (secrets / name).write_text(text)
        (secrets / name).chmod(0o600)
    monkeypatch.setenv("KAFKA_PW", WORD)
    return secrets


def given_by(kind: str, value: str, allowed: str = "") -> str:
    values = {"config.providers": "p", "config.providers.p.class": f"{PACKAGE}{kind}ConfigProvider", "key": value}
    if allowed:
        values[f"config.providers.p.param.{'allowlist.pattern' if kind == 'EnvVar' else 'allowed.paths'}"] = allowed
    return with_references(values)["key"]


def test_each_kind(secrets: Path) -> None:
    assert given_by("File", f"${{p:{secrets}/s.properties:a.key}}", str(secrets)) == WORD
    assert given_by("Directory", f"${{p:{secrets}:tls.crt}}", f"/nowhere,{secrets}") == "line 1\nline 2\n"
    assert given_by("EnvVar", "[${p:KAFKA_PW}]", "KAFKA_.*") == f"[{WORD}]"


@pytest.mark.parametrize(
    ("kind", "value", "allowed", "says"),
    [
        ("File", "${p:HERE/s.properties:other}", "", "has no key 'other'"),
        ("File", "${p:HERE/none.properties:a}", "", r"none\.properties: No such file"),
        ("File", "${p:HERE/s.properties:a.key}", "/nowhere", r"not in the allowed\.paths of p"),
        ("File", "${p:tests/data/none:a}", "/nowhere, ,", r"not in the allowed\.paths of p"),  # "" is no place
        ("File", "${p:HERE/../secrets/../x:a}", "HERE", r"not in the allowed\.paths of p"),
        ("File", "${p:a.key}", "", r"expected \$\{p:PATH:KEY\}"),
        ("Directory", "${p:HERE:../secrets/tls.crt}", "", "no file's name"),
        ("Directory", "${p:HERE:..}", "", "no file's name"),
        ("EnvVar", "${p:NOT_SET}", "", "no variable 'NOT_SET'"),
        ("EnvVar", "${p:KAFKA_PW}", "OTHER", r"not in the allowlist\.pattern of p"),
        ("EnvVar", "${p:KAFKA_PW}", "(", r"allowlist\.pattern of p is no pattern"),
        ("EnvVar", "${p:/path:KAFKA_PW}", "", r"expected \$\{p:NAME\}"),
    ],
)
def test_what_cannot_be_had_is_one_line_without_a_secret(
    secrets: Path, kind: str, value: str, allowed: str, says: str
) -> None:
    with pytest.raises(ReferenceInvalid, match=says) as refused:
        given_by(kind, value.replace("HERE", str(secrets)), allowed.replace("HERE", str(secrets)))
    assert str(refused.value).startswith("key: ")
    assert WORD not in str(refused.value)


def test_a_file_that_others_can_read_is_refused(secrets: Path) -> None:
    (secrets / "s.properties").chmod(0o644)
    with pytest.raises(ReferenceInvalid, match=r"others can read it .* chmod 600"):
        given_by("File", f"${{p:{secrets}/s.properties:a.key}}")
