"""What `server.properties` says about listeners: taken as Kafka takes it, or refused by one line without a secret in it."""

from __future__ import annotations

import pytest

from oncelog.broker.config.config import ConfigInvalid, config_from, properties_from
from oncelog.broker.config.config_view import Wanted, broker_results
from oncelog.broker.config.configuration import Configuration
from oncelog.broker.config.listeners import listeners_of, warnings_of
from oncelog.broker.config.secret import Secret
from oncelog.core.access.listeners import Protocol
from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.core.sasl.plain import digests_of
from oncelog.host.tls import OF_TLS_13

WORD = "very-secret-word"
JAAS = (
    f'org.apache.kafka.common.security.plain.PlainLoginModule required username="b" password="{WORD}" user_b="{WORD}";'
)
PROPERTIES = f"""
listeners=INTERNAL://127.0.0.1:9092,CLIENTS://127.0.0.1:9094,CONTROLLER://:9093
advertised.listeners=CLIENTS://kafka.example.com:9094
listener.security.protocol.map=CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,CLIENTS:SASL_PLAINTEXT
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.clients.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
connections.max.reauth.ms=3600000
listener.name.clients.scram-sha-256.connections.max.reauth.ms=60000
listener.name.clients.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
  username="b" \\
  password="{WORD}" \\
  user_b="{WORD}";
"""


def given(**values):
    config = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "PLAIN"}
    config["listener.name.sasl_plaintext.plain.sasl.jaas.config"] = JAAS
    return {name: value for name, value in {**config, **values}.items() if value is not None}


def test_a_file_of_an_existing_deployment():
    config, warnings = config_from(properties_from(PROPERTIES))
    assert warnings == []
    internal, clients = listeners_of(config, [])
    assert (internal.name, internal.protocol, internal.is_plain) == ("INTERNAL", Protocol.PLAINTEXT, True)
    assert (clients.name, clients.host, clients.port, clients.is_plain) == ("CLIENTS", "127.0.0.1", 9094, False)
    assert {name: each.session_ms for name, each in clients.mechanisms.items()} == {
        "PLAIN": 3_600_000,
        "SCRAM-SHA-256": 60_000,
    }
    assert clients.mechanisms["PLAIN"].digests == digests_of({"b": WORD})
    assert WORD not in repr(config) + repr(clients)


# What Apache Kafka 4.3's distribution has in config/ of listeners and roles, for a node that is both, a broker, a controller.
KAFKAS_FILES = {
    "server": """
process.roles=broker,controller
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
""",
    "broker": """
process.roles=broker
listeners=PLAINTEXT://localhost:9092
advertised.listeners=PLAINTEXT://localhost:9092
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
""",
    "controller": """
process.roles=controller
listeners=CONTROLLER://:9093
advertised.listeners=CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
""",
}


def config_of(text):
    return config_from({**properties_from(text), "oncelog.insecure.listeners": "true"})[0]


@pytest.mark.parametrize("name", ["CONTROLLER", "QUORUM"])
def test_a_controllers_listener_is_not_opened_and_named_as_left_out(name):
    config = config_of(KAFKAS_FILES["server"].replace("CONTROLLER", name))
    listeners = listeners_of(config, [])
    assert [(each.name, each.port) for each in listeners] == [("PLAINTEXT", 9092)]
    said = warnings_of(listeners, config)
    assert f"listener {name} on *:9093 is not opened: it is for controllers, and oncelog has none" in said
    assert [each for each in said if "9093" in each] == said[:1]


def test_a_listener_that_is_only_called_so_is_opened():
    config = config_of(
        "listeners=CONTROLLER://:1,QUORUM://:2\ncontroller.listener.names=QUORUM\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT"
    )
    assert [each.name for each in listeners_of(config, [])] == ["CONTROLLER"]


def test_the_file_of_a_broker_has_nothing_to_leave_out():
    config = config_of(KAFKAS_FILES["broker"])
    assert warnings_of(listeners_of(config, []), config) == []


def test_a_key_of_a_listener_that_is_not_there_is_named():
    """`required` stood there, and everybody came in."""
    config = config_of(
        "listeners=CLIENTS://:1\nlistener.security.protocol.map=CLIENTS:PLAINTEXT\n"
        "listener.name.client.ssl.client.auth=required\nlistener.name.clients.ssl.client.auth=none"
    )
    said = warnings_of(listeners_of(config, []), config)
    assert [each for each in said if "no effect" in each] == [
        "listener.name.client.ssl.client.auth is for a listener that is not there: it has no effect"
    ]


def test_keys_for_the_controllers_listener_of_another_node_are_passed_over():
    """As Strimzi writes them into a broker's file, which has no such listener itself."""
    config = config_of(
        "listeners=TLS-9093://127.0.0.1:1\nlistener.security.protocol.map=TLS-9093:PLAINTEXT\n"
        "controller.listener.names=CONTROLPLANE-9090\nlistener.name.controlplane-9090.ssl.client.auth=required"
    )
    assert warnings_of(listeners_of(config, []), config) == []


def test_each_listener_that_cannot_be_is_named_at_once():
    config = config_of(
        "listeners=A://:1,B://:2,C://:3\nlistener.security.protocol.map=A:SASL_PLAINTEXT,B:SSL,C:PLAINTEXT\n"
        "sasl.enabled.mechanisms=GSSAPI"
    )
    with pytest.raises(ConfigInvalid) as refused:
        listeners_of(config, [])
    assert "'GSSAPI' is not built" in str(refused.value)
    assert "; listener B: ssl.keystore.location does not say where its key is" in str(refused.value)


def test_the_file_of_a_controller_is_refused():
    """It was served at an address that nobody had named."""
    with pytest.raises(ConfigInvalid, match=r"CONTROLLER://:9093 are for controllers .* name one for clients"):
        listeners_of(config_of(KAFKAS_FILES["controller"]), ["127.0.0.1:9092"])


def test_several_directories_are_said_to_be_one_too_many():
    assert config_from({"log.dirs": "/a,/b"})[1] == [
        "log.dirs: only /a is used: oncelog keeps all data in one directory"
    ]


@pytest.mark.parametrize("key", ["log.dirs", "log.dir"])
@pytest.mark.parametrize("value", ["", " ", ",/a", "/a,", "/a, ,/b"])
def test_a_directory_without_a_name_is_refused(key, value):
    """As Kafka 4.3 does; it was the root of the file system, or a temporary directory that nobody had asked for."""
    with pytest.raises(ConfigInvalid, match=f"{key}=.*: expected directories, and an empty name is none"):
        config_from({key: value})


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"listeners": "X://127.0.0.1:0"}, "listener X: listener.security.protocol.map"),
        ({"listener.security.protocol.map": "A:B"}, "listener.security.protocol.map"),
        ({"sasl.enabled.mechanisms": None}, "sasl.enabled.mechanisms does not say"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "'GSSAPI' is not built"),
        ({"sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER"}, "sasl.oauthbearer.jwks.endpoint.url does not say"),
        ({"sasl.enabled.mechanisms": "plain"}, "'plain' is not built"),
        ({"listener.name.sasl_plaintext.plain.sasl.jaas.config": None}, "plain.sasl.jaas.config is not set"),
        ({"listener.name.sasl_plaintext.plain.sasl.jaas.config": f"nonsense {WORD}"}, "plain.sasl.jaas.config"),
        ({"listener.name.sasl_plaintext.plain.sasl.jaas.config": f'a.B required user_x="{WORD}";'}, "PlainLoginModule"),
        ({"listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS.replace(WORD, "")}, "without a name or password"),
        ({"advertised.listeners": "OTHER://a:1"}, "there is no listener OTHER"),
        ({"listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"}, "stands there twice"),
    ],
)
def test_one_line_says_what_is_wrong(values, says):
    config, _ = config_from(given(**values))
    with pytest.raises(ConfigInvalid, match=says) as refused:
        listeners_of(config, [])
    assert WORD not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "key",
    [
        "listener.name.sasl_plaintext.plain.sasl.server.callback.handler.class",
        "principal.builder.class",
        "ssl.engine.factory.class",
    ],
)
def test_classes_that_decide_who_may_come_are_refused(key):
    with pytest.raises(ConfigInvalid, match="loads no classes"):
        config_from({key: "com.example.LetsEverybodyIn"})
    config_from(
        {"principal.builder.class": "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"}
    )


def test_secrets_are_shown_nowhere():
    configuration = Configuration(given(**{"sasl.jaas.config": JAAS}))
    shown = broker_results(
        configuration.values(ClusterMetadata()), Wanted(None, with_synonyms=True, with_documentation=True)
    )
    (jaas,) = [each for each in shown if each.name == "sasl.jaas.config"]
    assert (jaas.value, jaas.is_sensitive, jaas.synonyms) == (None, True, [])
    assert WORD not in repr(shown) + repr(configuration.static) + str(configuration.static)
    assert WORD not in str(configuration.value("sasl.jaas.config"))
    assert (repr(Secret(WORD)), f"{Secret(WORD)}", bool(Secret())) == ("[hidden]", "[hidden]", False)


def test_a_refused_value_of_a_secret_key_is_not_said():
    with pytest.raises(ConfigInvalid) as refused:
        config_from({"listener.name.x.sasl.jaas.konfig": WORD, "nonsense.key": WORD})
    assert WORD not in str(refused.value)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (
            {"listeners": "PLAINTEXT://0.0.0.0:0"},
            "listener PLAINTEXT on 0.0.0.0:0 lets everybody in, and sends all in clear",
        ),
        ({"listeners": "PLAINTEXT://:9092"}, r"on \*:9092 lets everybody in"),
        ({"listeners": "PLAINTEXT://kafka.example.com:1"}, "lets everybody in"),
        ({"listeners": "SASL_PLAINTEXT://10.0.0.1:0"}, "sends passwords in clear"),
        ({"listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://[::]:0"}, "sends passwords in clear"),
    ],
)
def test_addresses_that_others_reach_are_not_left_open(values, says):
    config, _ = config_from(given(**values))
    with pytest.raises(ConfigInvalid, match=says) as refused:
        listeners_of(config, [])
    assert str(refused.value).endswith("or allow it with oncelog.insecure.listeners=true (oncelog serve: --insecure)")
    assert "\n" not in str(refused.value)
    config, _ = config_from(given(**values, **{"oncelog.insecure.listeners": "true"}))
    (warning, *_) = warnings_of(listeners_of(config, []), config)
    assert says.split(" ", maxsplit=1)[0].strip("\\*") in warning or "everybody" in warning


def test_addresses_that_only_this_machine_reaches_are_as_they_are():
    for address in ("127.0.0.1", "localhost", "[::1]"):
        config, _ = config_from({"listeners": f"PLAINTEXT://{address}:0"})
        assert warnings_of(listeners_of(config, []), config) == []


def test_scram_without_tls_is_warned_about():
    values = given(listeners="SASL_PLAINTEXT://0.0.0.0:0", **{"sasl.enabled.mechanisms": "SCRAM-SHA-256"})
    config, _ = config_from(values)
    in_clear, no_authorizer = warnings_of(listeners_of(config, []), config)
    assert in_clear == "listener SASL_PLAINTEXT on 0.0.0.0:0 sends all in clear but the passwords"
    assert "may do everything" in no_authorizer


@pytest.mark.parametrize(
    ("suites", "versions", "is_told"),
    [
        ("", "TLSv1.2,TLSv1.3", False),
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLSv1.2,TLSv1.3", True),
        ("TLS_AES_256_GCM_SHA384", "TLSv1.3", True),
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLSv1.2", False),
        (",".join(OF_TLS_13), "TLSv1.3", False),
    ],
)
def test_suites_of_tls_13_that_were_not_chosen_are_named(suites, versions, is_told):
    config, _ = config_from(
        {
            "listeners": "SSL://127.0.0.1:0",
            "ssl.keystore.key": "k",
            "ssl.keystore.certificate.chain": "c",
            "ssl.cipher.suites": suites,
            "ssl.enabled.protocols": versions,
        }
    )
    said = " ".join(warnings_of(listeners_of(config, []), config))
    assert ("TLS 1.3 is spoken with all its suites" in said) == is_told
