"""Configurations with one thing wrong each: it is named, with the way out, and nothing secret is shown."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from oncelog.broker.config.config import LISTENER_KEYS, ConfigInvalid, config_from, rules
from oncelog.broker.config.listeners import listeners_of
from oncelog.cli.exposure.examination import examine_config
from oncelog.cli.finding import FAILURE, OK, WARNING, Finding
from oncelog.host.certificate_authority import Authority, Certificate
from oncelog.host.clock import RealClock

AUTHORITY = Authority(days=(-100, 400))
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
EVERYWHERE = "0.0.0.0"
GOOD = {
    "listeners": f"CLIENTS://{EVERYWHERE}:9093",
    "advertised.listeners": "CLIENTS://kafka.example.com:9093",
    "listener.security.protocol.map": "CLIENTS:SASL_SSL,LOCAL:PLAINTEXT,OPEN:SSL,CLEAR:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "ssl.keystore.location": "broker.pem",
    "authorizer.class.name": AUTHORIZER,
    "super.users": "User:admin",
}


def later_ms() -> int:
    """A minute later than now: what is said of days does not hang on a second."""
    return RealClock().now_ms() + 60_000


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, days in (("broker", (-1, 90)), ("expired", (-9, -1)), ("soon", (-1, 20))):
        AUTHORITY.sign(name, ["kafka.example.com"], days=days).write(tmp_path, name)
    (tmp_path / "ca.pem").write_text(AUTHORITY.pem)
    one, other = (AUTHORITY.sign("broker", ["kafka.example.com"], days=(-1, 90)) for _ in range(2))
    Certificate(one.chain, other.key).write(tmp_path, "mixed")
    return tmp_path


def examined(here: Path, **changes: str | None) -> list[Finding]:
    values = {**GOOD, **{key.replace("_", "."): value for key, value in changes.items()}}
    file = here / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in values.items() if value is not None))
    file.chmod(0o600)
    found, _ = examine_config(str(file), later_ms())
    return found


def test_an_address_of_ipv6_stands_in_brackets(here: Path) -> None:
    told = [each.found for each in examined(here, listeners="CLIENTS://[::]:9093") if each.check == "listener CLIENTS"]
    assert told
    assert all(each.startswith("[::]:9093") for each in told)


def bad(here: Path, **changes: str | None) -> list[tuple[str, str]]:
    rows = [each for each in examined(here, **changes) if each.status != OK]
    assert all(each.advice for each in rows)
    return [(each.status, f"{each.check}: {each.found}") for each in rows]


def test_a_good_one_has_nothing(here: Path) -> None:
    found = examined(here)
    assert bad(here) == []
    assert [each.check for each in found] == ["config", "listener CLIENTS", "certificate", "rights"]


# What is changed; how bad it is; what is said.
CASES: dict[str, tuple[dict[str, str | None], str, str]] = {
    "open to all": (
        {"listeners": f"LOCAL://{EVERYWHERE}:9092", "advertised_listeners": None},
        FAILURE,
        "lets everybody in",
    ),
    "no certificate asked for": (
        {"listeners": f"OPEN://{EVERYWHERE}:9092", "advertised_listeners": None},
        FAILURE,
        "ssl.client.auth is not required",
    ),
    "PLAIN in clear": (
        {
            "listeners": f"CLEAR://{EVERYWHERE}:9092",
            "advertised_listeners": None,
            "sasl_enabled_mechanisms": "PLAIN",
            "sasl_jaas_config": f'{PLAIN} user_a="{"x" * 20}";',
        },
        FAILURE,
        "sends passwords in clear",
    ),
    "SCRAM in clear": (
        {"listeners": f"CLEAR://{EVERYWHERE}:9092", "advertised_listeners": None},
        WARNING,
        "all in clear but the passwords",
    ),
    "weak passwords": (
        {
            "sasl_enabled_mechanisms": "PLAIN",
            "sasl_jaas_config": f'{PLAIN} user_short="hidden-1" user_bob="bob-{"x" * 20}" user_ok="{"x" * 20}";',
        },
        WARNING,
        "weak passwords of bob, short",
    ),
    "expired": ({"ssl_keystore_location": "expired.pem"}, FAILURE, "has expired"),
    "soon": ({"ssl_keystore_location": "soon.pem"}, WARNING, "expires in 19d23h"),
    "another name": ({"advertised_listeners": "CLIENTS://other:9093"}, WARNING, "clients are told other"),
    "no key": ({"ssl_keystore_location": "ca.pem"}, FAILURE, "others can read it"),
    "another's key": ({"ssl_keystore_location": "mixed.pem"}, FAILURE, "the key does not fit the certificate"),
    "no file": ({"ssl_keystore_location": "nowhere.pem"}, FAILURE, "nowhere.pem: No such file"),
    "no authorizer": ({"authorizer_class_name": None, "super_users": None}, WARNING, "may do everything"),
    "no super user": ({"super_users": None}, WARNING, "super.users is not set"),
    "open without rules": ({"allow_everyone_if_no_acl_found": "true"}, WARNING, "allow.everyone.if.no.acl.found=true"),
    "nameless super user": (
        {
            "super_users": "User:admin;User:ANONYMOUS",
            "listeners": f"{GOOD['listeners']},LOCAL://127.0.0.1:9092",
        },
        WARNING,
        "User:ANONYMOUS is a super user",
    ),
    "insecure": ({"oncelog_insecure_listeners": "true"}, WARNING, "oncelog.insecure.listeners=true"),
    "short key of tokens": ({"delegation_token_secret_key": "hidden-2"}, WARNING, "short: 8 characters"),
    "metrics": ({"metrics_listen": f"{EVERYWHERE}:9404"}, WARNING, "whoever reaches it reads"),
    "ciphers": ({"ssl_cipher_suites": "AES256-SHA"}, WARNING, "AES256-SHA: without forward secrecy"),
    "unknown key": ({"listners": "x"}, FAILURE, "unknown config key 'listners'"),
    "a listener's name": (
        {"listener.name.client.ssl.client.auth": "required"},
        WARNING,
        "a listener that is not there",
    ),
    "unsigned tokens": (
        {
            "listeners": "CLIENTS://127.0.0.1:9093",
            "sasl_enabled_mechanisms": "OAUTHBEARER",
            "oncelog_oauthbearer_unsecured": "true",
        },
        WARNING,
        "takes unsigned tokens",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_one_thing_wrong(here: Path, name: str) -> None:
    changes, status, says = CASES[name]
    found = bad(here, **changes)
    assert [each for each in found if each[0] == status and says in each[1]], found
    assert not any("hidden-" in said for _, said in found)


def test_a_failure_is_what_keeps_a_broker_from_its_start(here: Path) -> None:
    """What `serve` refuses is never called good."""
    refused = []
    for name, (changes, _, _) in CASES.items():
        values = {**GOOD, **{key.replace("_", "."): value for key, value in changes.items()}}
        try:
            config, _ = config_from({key: value for key, value in values.items() if value is not None})
            listeners_of(config, ())
        except ConfigInvalid:
            refused.append(name)
    assert {CASES[name][1] for name in refused} == {FAILURE}
    assert len(refused) > 3


def test_what_only_this_machine_reaches(here: Path) -> None:
    only = {"listeners": "LOCAL://127.0.0.1:9092", "advertised_listeners": None}
    assert bad(here, **only, authorizer_class_name=None, super_users=None, ssl_keystore_location=None) == []


def test_every_listener_is_looked_at(here: Path) -> None:
    listeners = f"LOCAL://{EVERYWHERE}:9092,OPEN://{EVERYWHERE}:9094,CLIENTS://{EVERYWHERE}:9093"
    found = bad(here, listeners=listeners, ssl_keystore_location="expired.pem")
    assert [said.split(": ")[0] for _, said in found] == ["listener LOCAL", "listener OPEN", "certificate"]


def test_files_that_others_can_read_or_write(here: Path) -> None:
    (here / "clients" / "alice").mkdir(parents=True)
    for name in ("ca-key.pem", "clients/alice/password"):
        (here / name).write_text("hidden-3")
        (here / name).chmod(0o644)
    AUTHORITY.sign("alice", days=(-1, 5)).write(here / "clients" / "alice", "certificate")
    (here / "ca.pem").chmod(0o666)
    found = bad(here, listener_name_clients_ssl_truststore_location="ca.pem", sasl_jaas_config=None)
    assert [(status, said.split(": ")[1].split("/")[-1]) for status, said in found] == [
        (FAILURE, "ca.pem"),
        (FAILURE, "ca-key.pem"),
        (FAILURE, "password"),
        (WARNING, "certificate.pem (alice) expires in 4d23h"),
    ]


@pytest.mark.parametrize("text", [b"\xff\xfe", b"nothing", b"listeners=SSL"])
def test_a_configuration_that_cannot_be(here: Path, text: bytes) -> None:
    (here / "server.properties").write_bytes(text)
    (found,), data = examine_config("server.properties", later_ms())
    assert (found.status, data) == (FAILURE, None)


def test_references_are_read_as_the_broker_reads_them(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA", "one")
    text = (
        "log.dirs=${env:DATA}\nconfig.providers=env\n"
        "config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
    )
    (here / "server.properties").write_text(text)
    assert examine_config("server.properties", later_ms())[1] == "one"
    (here / "server.properties").write_text(text.replace("DATA", "OTHER"))
    (found,), _ = examine_config("server.properties", later_ms())
    assert (found.status, "no variable 'OTHER'" in found.found) == (FAILURE, True)


def test_a_file_that_is_none(here: Path) -> None:
    for name in ("nowhere", ".", "/dev/null", "a\0b"):
        (found,), _ = examine_config(name, later_ms())
        assert found.status == FAILURE


def test_the_data_directory_is_told(here: Path) -> None:
    (here / "server.properties").write_text("log.dirs=one,two\n")
    assert examine_config("server.properties", later_ms())[1] == "one"


VALUES = (
    *("", "x", "/dev/null", "broker.pem", "ca.pem", "expired.pem", "1", "-1", "true", "none", "required", "requested"),
    *("PLAIN", "OAUTHBEARER", "SCRAM-SHA-256,PLAIN", "GSSAPI", "PEM", "JKS", "PKCS12", "TLSv1.2", "AES128-SHA,x"),
    *(
        "SSL://1.2.3.4:1,PLAINTEXT://:2",
        "CLIENTS://[::]:9",
        "CLIENTS:SSL",
        "::",
        "127.0.0.1:1",
        "User",
        "User:ANONYMOUS",
    ),
    *("file:ca.pem", "file:nowhere", "https://h/x", "RULE:(/x/", "\u202e", "x" * 5000, f'{PLAIN} user_a="b";'),
)
WORDS = ("ssl", "sasl", "listen", "super", "auth", "insecure", "token", "metrics", "allow", "log.dir")


def test_whatever_stands_there_has_an_answer(here: Path) -> None:
    draw = random.Random(7)
    keys = [key for key in rules() if any(word in key for word in WORDS)]
    keys += [f"listener.name.clients.{key}" for key in LISTENER_KEYS]
    seen = set()
    for _ in range(300):
        changes = {draw.choice(keys).replace(".", "_"): draw.choice(VALUES) for _ in range(draw.randint(1, 4))}
        found = examined(here, **changes)
        assert all(each.found and (each.advice or each.status == OK) for each in found)
        seen |= {each.status for each in found}
    assert seen == {OK, WARNING, FAILURE}
